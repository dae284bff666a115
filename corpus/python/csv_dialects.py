import csv
import io

samples = {
    "semicolon": "name;score\nAnna;3,5\nBen;4\n",
    "tab": "name\tscore\nAnna\t3.5\nBen\t4\n",
    "quoted": 'name,comment\n"Costa, B.","said ""hi""\nand left"\nBen,-\n',
}

for label, text in samples.items():
    dialect = csv.Sniffer().sniff(text, delimiters=",;\t")
    rows = list(csv.reader(io.StringIO(text), dialect))
    print(f"{label}: delimiter {dialect.delimiter!r}, header {csv.Sniffer().has_header(text)}")
    for row in rows:
        print("   ", row)

out = io.StringIO()
writer = csv.DictWriter(out, fieldnames=["id", "text"], quoting=csv.QUOTE_NONNUMERIC, extrasaction="ignore", lineterminator="\n")
writer.writeheader()
writer.writerows([{"id": 1, "text": 'a "b"', "x": 0}, {"id": 2.5, "text": "line\nbreak"}])
print(out.getvalue())

csv.register_dialect("pipes", delimiter="|", quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
with open("out.psv", "w", newline="") as f:
    csv.writer(f, "pipes").writerows([["a", "b|c"], [1, None]])
print(open("out.psv").read())
