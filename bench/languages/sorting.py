"""Records that are sorted, grouped and filtered: keys, lambdas, comprehensions, tuples, heaps."""

import heapq
import operator
from itertools import groupby

state, records = 7, []
for number in range(70_000):
    state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
    records.append((state >> 40 & 1023, f"name{state >> 20 & 0xFFFF:05}", (state >> 33) / 7.0, number))

by_name = sorted(records, key=operator.itemgetter(1))
by_many = sorted(records, key=lambda record: (-record[0], record[1], record[3]))
by_value = sorted(records, key=lambda record: record[2], reverse=True)
groups = {key: [record[3] for record in group] for key, group in groupby(by_many, key=lambda record: record[0])}
means = {key: sum(numbers) / len(numbers) for key, numbers in groups.items()}
smallest = heapq.nsmallest(50, records, key=lambda record: record[2])
heap = []
for record in records:
    heapq.heappush(heap, (record[2], record[3]))
    if len(heap) > 500:
        heapq.heappop(heap)
evens = [record[3] for record in by_value if record[3] % 2 == 0]
pairs = {(a[0], b[0]) for a, b in zip(by_name, by_name[1:])}
checksum = 0
for record in by_many[::7]:
    checksum = (checksum * 31 + record[3]) % 1_000_003
print(checksum, len(groups), len(pairs), f"{max(means.values()):.3f}", smallest[0][3], sorted(heap)[-1][1],
      sum(evens[:1000]))
