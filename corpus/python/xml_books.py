import xml.etree.ElementTree as ET

NS = {"m": "https://example.org/meta"}
root = ET.parse("data/books.xml").getroot()

for book in root.iter("book"):
    authors = " and ".join(a.text for a in book.findall("author"))
    price = book.find("price")
    print(f"{book.get('id')} [{book.get('lang')}] {book.findtext('title')} ({book.findtext('year')}) by {authors}, "
          f"{float(price.text):.2f} {price.get('currency')}, shelf {book.findtext('m:shelf', namespaces=NS)}")

print("English:", len(root.findall("book[@lang='en']")))
print("Note:", root.findtext("book[@id='b5']/note"))

# Change it and write it again
for price in root.iter("price"):
    if price.get("currency") == "EUR":
        price.text = f"{float(price.text) * 1.1:.2f}"
old = root.find("book[@id='b1']")
root.remove(old)
new = ET.SubElement(root, "book", id="b6", lang="no")
ET.SubElement(new, "title").text = "Fjord & Fjell"
ET.SubElement(new, "year").text = "2023"
ET.register_namespace("m", NS["m"])
ET.indent(root)
print(ET.tostring(root, encoding="unicode"))
