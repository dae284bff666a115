"""Text charts in the terminal: bars, a sparkline and a scatter plot."""
import csv
from collections import defaultdict

revenue = defaultdict(float)
by_month = defaultdict(float)
with open("data/sales.csv") as f:
    for r in csv.DictReader(f):
        amount = int(r["units"]) * float(r["unit_price"])
        revenue[r["product"]] += amount
        by_month[r["date"][:7]] += amount


def bars(data, width=40):
    longest = max(map(len, data))
    top = max(data.values())
    for name, value in sorted(data.items(), key=lambda kv: -kv[1]):
        units = round(value / top * width * 8)
        full, part = divmod(units, 8)
        bar = "█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")
        print(f"{name:>{longest}} │{bar:<{width}}│ {value:,.0f}")


def sparkline(values):
    ticks = "▁▂▃▄▅▆▇█"
    low, high = min(values), max(values)
    return "".join(ticks[int((v - low) / (high - low) * 7)] for v in values)


bars(revenue)
print()
months = sorted(by_month)
print(months[0], sparkline([by_month[m] for m in months]), months[-1])
print()

with open("data/students.csv") as f:
    points = [(float(r["hours_studied"]), float(r["maths"])) for r in csv.DictReader(f)]
grid = [[" "] * 50 for _ in range(12)]
for x, y in points:
    column = int((x - 2) / 18 * 49)
    line = 11 - int((y - 20) / 80 * 11)
    grid[line][column] = "o" if grid[line][column] == " " else "O"
for n, line in enumerate(grid):
    print(f"{100 - n * 80 // 11:>4} |" + "".join(line).rstrip())
print("     +" + "-" * 50)
