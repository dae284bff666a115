import io
import xml.sax
from xml.dom import minidom
from xml.sax.saxutils import escape, quoteattr


class BookHandler(xml.sax.ContentHandler):
    def __init__(self):
        super().__init__()
        self.depth, self.text, self.titles, self.counts = 0, "", [], {}

    def startElement(self, name, attrs):
        self.depth += 1
        self.text = ""
        self.counts[name] = self.counts.get(name, 0) + 1

    def characters(self, content):
        self.text += content

    def endElement(self, name):
        if name == "title":
            self.titles.append(self.text)
        self.depth -= 1


handler = BookHandler()
xml.sax.parse("data/books.xml", handler)
print(handler.titles)
print(sorted(handler.counts.items()))

dom = minidom.parse("data/books.xml")
for book in dom.getElementsByTagName("book")[:2]:
    print(book.getAttribute("id"), book.getElementsByTagName("title")[0].firstChild.data)

small = minidom.parseString(f"<note by={quoteattr('A & B')}><line>{escape('1 < 2')}</line></note>")
print(small.documentElement.toprettyxml(indent="  "))

try:
    xml.sax.parse(io.BytesIO(b"<a><b></a>"), xml.sax.ContentHandler())
except xml.sax.SAXParseException as e:
    print("error:", e.getMessage(), "at line", e.getLineNumber())
