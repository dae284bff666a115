import json
import tomllib
from datetime import datetime

with open("data/settings.toml", "rb") as f:
    settings = tomllib.load(f)

print(json.dumps(settings, indent=2, default=lambda v: v.isoformat() if isinstance(v, datetime) else str(v)))
print(type(settings["started"]).__name__, settings["started"].year)
print("Level of 130 cm:", max((k for k, v in settings["alerts"]["levels"].items() if 130 >= v),
                              key=settings["alerts"]["levels"].get))
c = settings["sensor"]["calibration"]
print("calibrated:", round(sum(a * 100**i for i, a in enumerate(c)), 3))
for station in settings["station"]:
    print(f"{station['name']:<10} {station['position']} {', '.join(station['tags']) or '-'}")

try:
    tomllib.loads("a = 1\na = 2\n")
except tomllib.TOMLDecodeError as error:
    print("invalid:", error)
