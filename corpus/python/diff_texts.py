import difflib

old = """\
[server]
host = localhost
port = 8080
debug = true
timeout = 30
""".splitlines(keepends=True)
new = """\
[server]
host = 0.0.0.0
port = 8080
timeout = 60
workers = 4
""".splitlines(keepends=True)

print("".join(difflib.unified_diff(old, new, "old.ini", "new.ini")))
print("".join(difflib.ndiff(old[:3], new[:3])))
print("".join(difflib.context_diff(old, new, "old", "new", n=1)))

matcher = difflib.SequenceMatcher(None, "the quick brown fox", "the quack brown ox")
print("ratio: %.3f" % matcher.ratio())
for op, a1, a2, b1, b2 in matcher.get_opcodes():
    if op != "equal":
        print(op, repr("the quick brown fox"[a1:a2]), "->", repr("the quack brown ox"[b1:b2]))

cities = ["Lisbon", "London", "Oslo", "Osaka", "Berlin", "Bern", "Accra"]
for typo in ("Lisbom", "berln", "Oslp", "xyz"):
    print(typo, difflib.get_close_matches(typo, cities, n=2, cutoff=0.5))
html = difflib.HtmlDiff().make_table(old, new)
print(html.count("<tr>"), "rows of HTML")
