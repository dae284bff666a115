import re
from collections import Counter
from datetime import datetime

PATTERN = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) (\w+)\s+\[([\w-]+)\] (.*)$")

records = []
with open("data/app.log", encoding="utf-8") as log:
    for line in log:
        line = line.rstrip("\n")
        if m := PATTERN.match(line):
            when, level, source, message = m.groups()
            records.append({"when": datetime.strptime(when, "%Y-%m-%d %H:%M:%S,%f"), "level": level,
                            "source": source, "message": message, "extra": []})
        elif records:
            records[-1]["extra"].append(line)  # a traceback belongs to the record before it

print("records:", len(records))
print("levels:", Counter(r["level"] for r in records).most_common())

with_traceback = [r for r in records if r["extra"]]
print("with traceback:", len(with_traceback))
for r in with_traceback[:2]:
    print(f"  {r['when']:%H:%M:%S.%f} {r['message']} <- {r['extra'][-1].split(':')[0]}")

durations = [int(m.group(1)) for r in records if (m := re.search(r"finished in (\d+) ms", r["message"]))]
print(f"jobs: {len(durations)}, mean {sum(durations) / len(durations):.1f} ms, slowest {max(durations)} ms")

gaps = [(b["when"] - a["when"], a["when"]) for a, b in zip(records, records[1:])]
gap, since = max(gaps)
print(f"longest silence: {gap.total_seconds():.3f} s after {since:%H:%M:%S}")

# Normalise messages into templates
templates = Counter(re.sub(r"\d+", "<n>", r["message"]) for r in records)
for template, n in templates.most_common():
    print(f"{n:>4} {template}")
