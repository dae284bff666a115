import csv
from decimal import ROUND_HALF_UP, Decimal

total = Decimal("0")
reorder = []
by_aisle = {}

with open("data/inventory.tsv", newline="") as f:
    reader = csv.DictReader(f, delimiter="\t")
    print("Fields:", reader.fieldnames)
    for row in reader:
        stock, threshold = int(row["stock"]), int(row["reorder_at"])
        value = stock * Decimal(row["price"])
        total += value
        aisle = row["location"].split("-")[0]
        by_aisle[aisle] = by_aisle.get(aisle, Decimal(0)) + value
        if stock <= threshold:
            reorder.append((row["title"], stock, threshold, max(threshold * 2 - stock, 0)))

print(f"Stock value: {total:,} EUR")
for aisle, value in sorted(by_aisle.items()):
    share = (value / total * 100).quantize(Decimal("0.1"), rounding=ROUND_HALF_UP)
    print(f"  aisle {aisle}: {value:>10} ({share} %)")

print("To order:")
for title, stock, threshold, amount in sorted(reorder, key=lambda r: r[1] - r[2]):
    print(f"  {title:<16} {stock:>3} of {threshold:>3}: order {amount}")
vat = (total * Decimal("0.19")).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
print("VAT:", vat)
