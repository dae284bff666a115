import csv
import math

values = []
with open("data/weather.csv") as f:
    for row in csv.DictReader(f):
        if row["city"] == "Lisbon" and row["temp_c"]:
            values.append(float(row["temp_c"]))


def quantile(data, q):
    data = sorted(data)
    position = (len(data) - 1) * q
    low, high = math.floor(position), math.ceil(position)
    return data[low] + (data[high] - data[low]) * (position - low)


q1, q2, q3 = (quantile(values, q) for q in (0.25, 0.5, 0.75))
iqr = q3 - q1
print(f"n={len(values)} q1={q1:.2f} median={q2:.2f} q3={q3:.2f} iqr={iqr:.2f}")
low, high = q1 - 1.5 * iqr, q3 + 1.5 * iqr
outliers = [v for v in values if not low <= v <= high]
print(f"fences: {low:.2f} .. {high:.2f}; outliers: {outliers}")

mean = sum(values) / len(values)
sd = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
print(f"mean={mean:.3f} sd={sd:.3f}")
print("|z| > 2:", sorted(v for v in values if abs(v - mean) > 2 * sd))

bins = {}
for v in values:
    bins[math.floor(v / 2) * 2] = bins.get(math.floor(v / 2) * 2, 0) + 1
for start in range(min(bins), max(bins) + 2, 2):
    print(f"{start:>4}..{start + 2:<3} {'*' * bins.get(start, 0)}")
