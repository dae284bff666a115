import sqlite3
from contextlib import closing

import pandas as pd

sales = pd.read_csv("data/sales.csv")
with closing(sqlite3.connect("shop.db")) as connection:
    sales.to_sql("sales", connection, index=False, if_exists="replace")
    query = """
        SELECT rep, strftime('%Y-%m', date) AS month, SUM(units * unit_price) AS revenue
        FROM sales WHERE region IN (?, ?) GROUP BY rep, month ORDER BY revenue DESC LIMIT 5
    """
    print(pd.read_sql_query(query, connection, params=("North", "South")).round(2))

with closing(sqlite3.connect("shop.db")) as connection:
    print(connection.execute("SELECT count(*) FROM sales").fetchone())
    dump = list(connection.iterdump())
    print(dump[0], len(dump))
    print(connection.execute("PRAGMA integrity_check").fetchone()[0])
