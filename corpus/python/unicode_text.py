import unicodedata

with open("data/unicode.txt", encoding="utf-8") as f:
    lines = f.read().splitlines()

for line in lines:
    print(f"{line} | {len(line)} code points, {len(line.encode('utf-8'))} bytes")

print([unicodedata.name(c, "?") for c in "é½Ⅷ🙂"])
print([unicodedata.category(c) for c in "Aa1 ½ß。"])
a, b = lines[4].split()
print(a == b, unicodedata.normalize("NFC", a) == unicodedata.normalize("NFC", b), len(a), len(b))
print(unicodedata.normalize("NFKC", lines[6]))
print("straße".upper(), "STRASSE".casefold() == "straße".casefold(), "ǆ".title(), len("İ".lower()))


def strip_accents(text):
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


print(strip_accents("Zürich naïve café Élodie ångström"))
print(sorted(["zebra", "Äpfel", "apfel", "éclair", "Eclair"], key=lambda s: strip_accents(s).casefold()))
print("２０２４".isdigit(), int("２０２４"), "½".isnumeric(), unicodedata.numeric("½"))
print("日本".center(10, "・"), "abc"[::-1], "\N{SNOWMAN}", "\u00e9" == "é")
print("naïve".encode("ascii", "replace"), "naïve".encode("ascii", "xmlcharrefreplace"), "naïve".encode("latin-1"))
print(b"caf\xc3\xa9 \xff".decode("utf-8", "replace"), b"\xff".decode("utf-8", "backslashreplace"))
try:
    b"\xff\xfe".decode("utf-8")
except UnicodeDecodeError as e:
    print(e)
print(unicodedata.east_asian_width("京"), unicodedata.bidirectional("א"), ascii("京🙂"))
