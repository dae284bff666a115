"""k nearest neighbours without a library."""
import csv
import math
import random
from collections import Counter

with open("data/flowers.csv") as f:
    rows = [([float(r[c]) for c in ("petal_length", "petal_width", "stem_height")], r["species"]) for r in csv.DictReader(f)]

random.seed(3)
random.shuffle(rows)
split = int(len(rows) * 0.7)
train, test = rows[:split], rows[split:]

columns = list(zip(*(features for features, _ in train)))
low, high = [min(c) for c in columns], [max(c) for c in columns]


def scale(features):
    return [(v - a) / (b - a) for v, a, b in zip(features, low, high)]


def predict(features, k):
    nearest = sorted(train, key=lambda row: math.dist(scale(row[0]), scale(features)))[:k]
    return Counter(label for _, label in nearest).most_common(1)[0][0]


for k in (1, 3, 5, 9):
    hits = sum(predict(features, k) == label for features, label in test)
    print(f"k={k}: {hits}/{len(test)} = {hits / len(test):.1%}")
print("first five:", [predict(f, 5) for f, _ in test[:5]])
