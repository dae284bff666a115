import json
from collections import OrderedDict

with open("data/orders.json") as f:
    orders = json.load(f)


def flatten(value, prefix=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flatten(inner, f"{prefix}{key}.")
    elif isinstance(value, list):
        yield prefix + "count", len(value)
    else:
        yield prefix.rstrip("."), value


rows = [OrderedDict(flatten(order)) for order in orders[:8]]
headers = list(rows[0])
widths = {h: max(len(h), *(len(str(r.get(h, ""))) for r in rows)) for h in headers}

print(" | ".join(h.ljust(widths[h]) for h in headers))
print("-+-".join("-" * widths[h] for h in headers))
for row in rows:
    print(" | ".join(str(row.get(h, "")).ljust(widths[h]) for h in headers))
