"""Retention of customers by the quarter in which they signed up."""
import numpy as np
import pandas as pd

rng = np.random.default_rng(11)
customers = pd.read_csv("data/customers.csv", parse_dates=["signup"])
customers["cohort"] = customers["signup"].dt.to_period("Q").astype(str)

visits = []
for row in customers.itertuples():
    n = rng.integers(1, 7)
    for days in sorted(rng.choice(360, size=n, replace=False)):
        visits.append({"customer_id": row.customer_id, "when": row.signup + pd.Timedelta(days=int(days))})
visits = pd.DataFrame(visits).merge(customers[["customer_id", "cohort", "signup"]], on="customer_id")
visits["period"] = (visits["when"] - visits["signup"]).dt.days // 90

size = customers.groupby("cohort").size()
table = visits.groupby(["cohort", "period"])["customer_id"].nunique().unstack(fill_value=0)
print(table)
print((table.div(size, axis=0) * 100).round(0).astype(int).astype(str) + " %")
print("visits:", len(visits), "per customer:", round(len(visits) / len(customers), 2))
