import json

import xmltodict

with open("data/books.xml", "rb") as f:
    library = xmltodict.parse(f, force_list=("author",))

for book in library["library"]["book"]:
    print(book["@id"], book["title"], book["author"], book["price"]["#text"])
print(json.dumps(library["library"]["book"][0], indent=1))
print(xmltodict.unparse({"order": {"@id": "7", "item": ["ink", "pen"]}}, pretty=True))
