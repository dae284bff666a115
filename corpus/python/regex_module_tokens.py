import regex
import more_itertools as mit
from tabulate import tabulate

text = "Zoë paid €12.50 for naïve café 🙂 tickets in Москва on 2024-05-14."
print(regex.findall(r"\p{L}+", text))
print(regex.findall(r"\p{Sc}\s?\d+(?:\.\d\d)?", text), regex.findall(r"\p{Script=Cyrillic}+", text))
print(regex.findall(r"(?:cats|cat){e<=1}", "cat cars bat dog"))
print(regex.search(r"\((?:[^()]|(?R))*\)", "f(a(b)c)(d)").group())
print(regex.sub(r"(?<=\d{4})-(\d\d)-(\d\d)", r"/\1/\2", text)[-12:])
print([len(g) for g in regex.findall(r"\X", "e\u0301a👩‍👩‍👧")])

print(list(mit.chunked(range(7), 3)), list(mit.windowed([1, 2, 3, 4], 2)), mit.first_true([0, 0, 5]))
print(list(mit.collapse([1, [2, [3, (4,)]]])), mit.all_equal([1, 1]), mit.ilen(x for x in range(5)))
print(tabulate([["ink", 9.6], ["pen", 34.5]], headers=["item", "price"], tablefmt="github"))
print(tabulate({"n": [1, 2], "square": [1, 4]}, headers="keys", showindex=True))
