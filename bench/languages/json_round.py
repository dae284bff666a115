"""Documents to JSON and back: dicts, lists, numbers and text that needs escapes."""

import json

document = {
    "users": [{"id": number, "name": f"user {number}", "mail": f"u{number}@example.org", "score": number * 0.37,
               "tags": ["a", "bé", "\u2603", f"line\n{number}"], "active": number % 3 == 0, "boss": None}
              for number in range(300)],
    "table": {f"key{number}": [number, number * number, -number / 8] for number in range(300)},
}
size = checksum = 0
for turn in range(140):
    document["turn"] = turn
    text = json.dumps(document, sort_keys=turn % 2 == 0)
    size += len(text)
    again = json.loads(text)
    checksum = (checksum * 31 + again["users"][turn]["id"] + len(again["table"])) % 1_000_003
    size += len(json.dumps(again["users"][:20], indent=2))
print(size, checksum)
