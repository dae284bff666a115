import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta

events = []
with open("data/events.jsonl") as f:
    for line in f:
        record = json.loads(line)
        record["ts"] = datetime.fromisoformat(record["ts"])
        events.append(record)

print(f"{len(events)} events from {events[0]['ts']} to {events[-1]['ts']}")
print(Counter(e["event"] for e in events).most_common())

# Sessions: a gap of more than 30 minutes starts a new one
by_user = defaultdict(list)
for e in sorted(events, key=lambda e: (e["user"], e["ts"])):
    by_user[e["user"]].append(e)

sessions = []
for user, stream in by_user.items():
    current = [stream[0]]
    for previous, event in zip(stream, stream[1:]):
        if event["ts"] - previous["ts"] > timedelta(minutes=30):
            sessions.append((user, current))
            current = []
        current.append(event)
    sessions.append((user, current))

print("sessions:", len(sessions))
longest = max(sessions, key=lambda s: s[1][-1]["ts"] - s[1][0]["ts"])
print("longest:", longest[0], longest[1][-1]["ts"] - longest[1][0]["ts"])

steps = ["view", "click", "add_to_cart", "purchase"]
reached = set(by_user)
for step in steps:
    reached = {u for u in reached if any(e["event"] == step for e in by_user[u])}
    print(f"{step:<12} {len(reached)} users {'#' * len(reached)}")

value = sum(e["value"] or 0 for e in events if e["event"] == "purchase")
print(f"purchases worth {value:.2f}")
