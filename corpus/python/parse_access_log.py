#!/usr/bin/env python3
"""Summarise a web server's access log."""
import argparse
import re
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path

LINE = re.compile(
    r'(?P<ip>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] "(?P<method>[A-Z]+) (?P<path>\S+) [^"]*" '
    r'(?P<status>\d{3}) (?P<size>\d+|-) "[^"]*" "(?P<agent>[^"]*)" (?P<seconds>[\d.]+)'
)


def parse(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = LINE.match(line)
        if not match:
            print(f"line {number}: cannot be parsed")
            continue
        entry = match.groupdict()
        entry["time"] = datetime.strptime(entry["time"], "%d/%b/%Y:%H:%M:%S %z")
        entry["status"] = int(entry["status"])
        entry["size"] = int(entry["size"]) if entry["size"] != "-" else 0
        entry["seconds"] = float(entry["seconds"])
        yield entry


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--errors", action="store_true", help="list failed requests")
    args = parser.parse_args()

    entries = list(parse(args.log))
    print(f"{len(entries)} requests, {sum(e['size'] for e in entries) / 1024:.1f} KiB")
    print("Status:", dict(sorted(Counter(e["status"] for e in entries).items())))

    print(f"\nTop {args.top} paths")
    for path, n in sorted(Counter(e["path"].split("?")[0] for e in entries).items(), key=lambda x: (-x[1], x[0]))[: args.top]:
        times = sorted(e["seconds"] for e in entries if e["path"].split("?")[0] == path)
        print(f"{n:>5}  {path:<18} median {times[len(times) // 2]:.3f} s")

    hours = defaultdict(int)
    for e in entries:
        hours[e["time"].hour] += 1
    print("\nRequests by hour")
    for hour in sorted(hours):
        print(f"{hour:02}:00 {'#' * hours[hour]} {hours[hour]}")

    if args.errors:
        print("\nServer errors and denials")
        for e in entries:
            if e["status"] >= 500 or e["status"] in (401, 403):
                print(f"  {e['time']:%H:%M:%S} {e['status']} {e['method']} {e['path']} {e['ip']}")


if __name__ == "__main__":
    main()
