"""Read the sales, write a report in three formats, and check what was written."""
import csv
import html
import json
import os
import sys
from collections import defaultdict
from pathlib import Path

out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
out.mkdir(parents=True, exist_ok=True)

totals = defaultdict(lambda: {"orders": 0, "revenue": 0.0})
with open("data/sales.csv", newline="") as f:
    for row in csv.DictReader(f):
        t = totals[row["rep"]]
        t["orders"] += 1
        t["revenue"] += int(row["units"]) * float(row["unit_price"])
rows = [{"rep": rep, "orders": t["orders"], "revenue": round(t["revenue"], 2)} for rep, t in sorted(totals.items())]

with open(out / "report.csv", "w", newline="") as f:
    writer = csv.DictWriter(f, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)

(out / "report.json").write_text(json.dumps(rows, indent=2))

cells = "\n".join("<tr>" + "".join(f"<td>{html.escape(str(v))}</td>" for v in r.values()) + "</tr>" for r in rows)
with (out / "report.html").open("w", encoding="utf-8") as f:
    f.write(f"<!DOCTYPE html>\n<title>Sales</title>\n<table>\n{cells}\n</table>\n")

with open(out / "log.txt", "a") as log:
    print("report written", file=log)
with open(out / "log.txt", "a") as log:
    log.write("and checked\n")

for path in sorted(out.iterdir()):
    print(path.name, path.stat().st_size)
print((out / "report.csv").read_text())
assert json.loads((out / "report.json").read_text()) == rows
(out / "log.txt").rename(out / "log.old")
os.remove(out / "report.html")
print(sorted(os.listdir(out)))
