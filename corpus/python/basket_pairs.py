import itertools
import json
from collections import Counter

with open("data/orders.json") as f:
    orders = json.load(f)

pairs, single = Counter(), Counter()
for order in orders:
    skus = sorted({item["sku"] for item in order["items"]})
    single.update(skus)
    pairs.update(itertools.combinations(skus, 2))

n = len(orders)
print(f"{n} orders, {len(single)} products")
print("Most bought:", sorted(single.items(), key=lambda kv: (-kv[1], kv[0]))[:5])

print("Pairs with lift:")
rows = []
for (a, b), count in pairs.items():
    lift = (count / n) / ((single[a] / n) * (single[b] / n))
    rows.append((count, round(lift, 3), a, b))
for count, lift, a, b in sorted(rows, key=lambda r: (-r[0], -r[1], r[2], r[3]))[:6]:
    print(f"  {a} + {b}: {count}x, lift {lift}")

totals = {}
for order in orders:
    amount = sum(i["qty"] * i["price"] for i in order["items"])
    if order["discount"]:
        amount *= 1 - order["discount"] / 100
    amount += order["shipping"]["cost"]
    totals.setdefault(order["status"], []).append(amount)
for status in sorted(totals):
    print(f"{status:<10} {len(totals[status]):>3} orders {sum(totals[status]):>10.2f}")
