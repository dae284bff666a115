import csv
import statistics
from collections import defaultdict
from datetime import date

by_department = defaultdict(list)
people = {}

with open("data/employees.csv", newline="", encoding="utf-8") as f:
    for row in csv.DictReader(f):
        row["salary"] = int(row["salary"])
        by_department[row["department"]].append(row["salary"])
        people[int(row["id"])] = row

print(f"{'Department':<14}{'n':>3}{'mean':>11}{'median':>11}{'stdev':>11}")
print("-" * 50)
for department in sorted(by_department):
    pay = by_department[department]
    stdev = statistics.stdev(pay) if len(pay) > 1 else 0.0
    print(f"{department:<14}{len(pay):>3}{statistics.mean(pay):>11,.2f}{statistics.median(pay):>11,.1f}{stdev:>11,.2f}")

everything = [p["salary"] for p in people.values()]
print("\nQuartiles:", [round(q, 1) for q in statistics.quantiles(everything, n=4)])

today = date(2024, 6, 30)
tenure = sorted(
    ((today - date.fromisoformat(p["hired"])).days / 365.25, p["name"]) for p in people.values()
)
print(f"Newest: {tenure[0][1]} ({tenure[0][0]:.1f} years)")
print(f"Longest: {tenure[-1][1]} ({tenure[-1][0]:.1f} years)")

print("\nWho earns more than their manager?")
for person in people.values():
    if person["manager_id"]:
        manager = people[int(person["manager_id"])]
        if person["salary"] > manager["salary"]:
            print(f"  {person['name']} ({person['salary']}) > {manager['name']} ({manager['salary']})")

years = [(today - date.fromisoformat(p["hired"])).days for p in people.values()]
print(f"\nCorrelation of tenure and salary: {statistics.correlation(years, everything):.3f}")
slope, intercept = statistics.linear_regression(years, everything)
print(f"Salary = {slope:.3f} * days + {intercept:.1f}")
