import re

text = """Order #1042 from 2024-03-05: 3 x Ink (EUR 9.60), 1 x Pen (EUR 34.50).
Order #1043 from 2024-03-07: 12 x Paper (EUR 14.25).
Contact: ines@example.org, +351 912 345 678"""

order = re.compile(r"Order #(?P<id>\d+) from (?P<date>\d{4}-\d{2}-\d{2}): (?P<rest>.*)\.")
item = re.compile(r"(\d+) x (\w+) \(EUR ([\d.]+)\)")
for m in order.finditer(text):
    lines = [(int(n), name, float(p)) for n, name, p in item.findall(m["rest"])]
    print(m["id"], m["date"], lines, round(sum(n * p for n, _, p in lines), 2))

print(re.sub(r"(\d{4})-(\d\d)-(\d\d)", r"\3.\2.\1", text).splitlines()[0])
print(re.sub(r"EUR ([\d.]+)", lambda m: f"USD {float(m[1]) * 1.1:.2f}", text).splitlines()[1])
print(re.split(r"[,;:]\s*", "a, b;c:d"))
print(re.findall(r"\b(?=\w*[aeiou]{2})\w+", "the queue grew too quiet by noon"))
print(re.sub(r"(?<=\d)(?=(\d{3})+\b)", ",", "1234567 and 89012"))
print(re.findall(r"(?i)\b(\w)\w*\1\b", "Level stats Dad bob Anna"))
print(bool(re.fullmatch(r"(?=.*\d)(?=.*[A-Z]).{8,}", "Secret123")), bool(re.fullmatch(r"(?=.*\d)(?=.*[A-Z]).{8,}", "secret")))
print(re.sub(r"([a-z])([A-Z])", r"\1_\2", "someCamelCaseName").lower())
print(re.sub(r"_(\w)", lambda m: m[1].upper(), "some_snake_case_name"))
verbose = re.compile(
    r"""
    ^(?P<scheme>https?)://      # scheme
    (?P<host>[^/:]+)            # host
    (?::(?P<port>\d+))?         # port
    (?P<path>/\S*)?$            # path
    """,
    re.VERBOSE,
)
print(verbose.match("https://example.org:8443/a?b=c").groupdict())
print(re.escape("a.b*c"), re.search(r"(a|ab)(c|bcd)(d*)", "abcd").groups(), re.subn("o", "0", "foo boo"))
try:
    re.compile("(unclosed")
except re.error as e:
    print("error:", e)
