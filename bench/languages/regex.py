"""A log that is searched, split and rewritten with regular expressions."""

import re

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()
lines = []
state = 1
for number in range(6000):
    state = (state * 1103515245 + 12345) % 2 ** 31
    lines.append(f"2024-{state % 12 + 1:02}-{state % 28 + 1:02}T{state % 24:02}:{state % 60:02}:07Z "
                 f"{('INFO', 'WARN', 'ERROR')[state // 7 % 3]} [{WORDS[state // 11 % 10]}] "
                 f"10.{state % 256}.{state // 256 % 256}.{number % 256} - \"GET /{WORDS[state // 13 % 10]}/{number}"
                 f"?q={state % 977}&page={number % 9} HTTP/1.1\" {200 + state % 3 * 100} {state % 5000} "
                 f"took={state % 900}ms")
log = "\n".join(lines)

record = re.compile(r"^(?P<date>\d{4}-\d\d-\d\d)T(?P<time>[\d:]+)Z (?P<level>\w+) \[(?P<part>[a-z]+)\] "
                    r"(?P<address>\d+(?:\.\d+){3}) - \"(?P<method>[A-Z]+) (?P<path>[^ ?]+)(?:\?(?P<query>\S*))?[^\"]*\" "
                    r"(?P<status>\d{3}) (?P<size>\d+) took=(?P<ms>\d+)ms$", re.M)
total = 0
for turn in range(5):
    for found in record.finditer(log):
        total += int(found["ms"]) + len(found["path"])
    total += len(re.findall(r"\b(?:ERROR|WARN)\b.*?\[(?:alpha|eta|kappa)\]", log))
    total += len(re.sub(r"(\d+)\.(\d+)\.(\d+)\.(\d+)", r"\4.\3.\2.x", log))
    total += len(re.split(r"[\s\[\]\"?&=]+", log))
    total += len(re.findall(r"(?i)(?<=/)[a-z]*(?:ta|pa)\b", log))
print(total)
