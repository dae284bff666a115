import sys
from collections import defaultdict

totals = defaultdict(float)
skipped = 0
for number, line in enumerate(sys.stdin, 1):
    line = line.rstrip("\n")
    if not line or line.startswith("#"):
        continue
    try:
        name, amount = line.rsplit(maxsplit=1)
        totals[name] += float(amount)
    except ValueError as error:
        print(f"line {number}: {error}", file=sys.stderr)
        skipped += 1

for name in sorted(totals, key=totals.get, reverse=True):
    sys.stdout.write(f"{name:<15}{totals[name]:>10.2f}\n")
print(f"skipped {skipped}")
