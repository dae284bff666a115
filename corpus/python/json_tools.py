import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import PurePosixPath


class Encoder(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, (date, datetime)):
            return o.isoformat()
        if isinstance(o, Decimal):
            return float(o)
        if isinstance(o, set):
            return sorted(o)
        if isinstance(o, PurePosixPath):
            return str(o)
        return super().default(o)


document = {
    "when": datetime(2024, 5, 1, 12, 30),
    "price": Decimal("19.90"),
    "tags": {"b", "a", "c"},
    "path": PurePosixPath("/srv/data"),
    "nested": {"ünïcode": "日本", "none": None, "list": [1, 2.5, True]},
}
text = json.dumps(document, cls=Encoder, indent=2, sort_keys=True, ensure_ascii=False)
print(text)
print(json.dumps("日本\n", ensure_ascii=True))
print(json.dumps({"a": 1, "b": [1, 2]}, separators=(",", ":")))

again = json.loads(text, parse_float=Decimal)
print(again["price"] + Decimal("0.10"))


def get(value, path):
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


print(get(again, "nested.list.1"))

for bad in ('{"a": 1,}', "[1, 2", '{"a" 1}', "nope"):
    try:
        json.loads(bad)
    except json.JSONDecodeError as e:
        print(f"{bad!r}: {e.msg} (char {e.pos})")

try:
    json.dumps({"f": lambda: 0})
except TypeError as e:
    print("TypeError:", e)
