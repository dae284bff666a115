import csv
import sqlite3

db = sqlite3.connect(":memory:")
db.row_factory = sqlite3.Row
db.executescript("""
    CREATE TABLE employees (id INTEGER PRIMARY KEY, name TEXT NOT NULL, department TEXT, salary INTEGER, hired TEXT, manager_id INTEGER
                            REFERENCES employees(id));
    CREATE INDEX by_department ON employees(department);
""")
with open("data/employees.csv") as f:
    rows = [(r["id"], r["name"], r["department"], r["salary"], r["hired"], r["manager_id"] or None) for r in csv.DictReader(f)]
db.executemany("INSERT INTO employees VALUES (?, ?, ?, ?, ?, ?)", rows)
db.commit()

print(db.execute("SELECT count(*), avg(salary) FROM employees").fetchone()[:])
for row in db.execute("""
    SELECT department, count(*) AS n, max(salary) AS top, round(avg(salary), 1) AS mean
    FROM employees GROUP BY department HAVING n > 3 ORDER BY mean DESC"""):
    print(dict(row))

print("Window function:")
for row in db.execute("""
    SELECT name, department, salary, rank() OVER (PARTITION BY department ORDER BY salary DESC) AS place
    FROM employees ORDER BY department, place LIMIT 6"""):
    print("  ", tuple(row))

print("Recursive:")
for (line,) in db.execute("""
    WITH RECURSIVE chain(id, name, depth) AS (
        SELECT id, name, 0 FROM employees WHERE id = 102
        UNION ALL SELECT e.id, e.name, depth + 1 FROM employees e JOIN chain c ON e.manager_id = c.id)
    SELECT printf('%.*c%s', depth * 2 + 1, ' ', name) FROM chain ORDER BY depth, name"""):
    print(line)

try:
    with db:
        db.execute("UPDATE employees SET salary = salary + 1000")
        db.execute("INSERT INTO employees (id, name) VALUES (101, 'Again')")
except sqlite3.IntegrityError as e:
    print("rolled back:", e)
print(db.execute("SELECT sum(salary) FROM employees").fetchone()[0])

db.create_function("initials", 1, lambda s: "".join(w[0] for w in s.split()))
print([r[0] for r in db.execute("SELECT initials(name) FROM employees WHERE hired LIKE '2019%' ORDER BY name")])
print(db.execute("SELECT json_extract('{\"a\": [1, 2]}', '$.a[1]'), strftime('%Y', '2024-05-01')").fetchone()[:])
print([tuple(r)[-1] for r in db.execute("EXPLAIN QUERY PLAN SELECT * FROM employees WHERE department = 'Sales'")])
