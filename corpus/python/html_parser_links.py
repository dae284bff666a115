from html.parser import HTMLParser
from urllib.parse import urljoin, urlparse


class LinkParser(HTMLParser):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.links = []
        self.images = []
        self.headings = []
        self._href = None
        self._text = []
        self._heading = None

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "a" and "href" in attrs:
            self._href, self._text = urljoin(self.base, attrs["href"]), []
        elif tag == "img":
            self.images.append((attrs.get("src"), attrs.get("alt", "(no alt)")))
        elif tag in ("h1", "h2", "h3"):
            self._heading, self._text = tag, []

    def handle_data(self, data):
        if self._href or self._heading:
            self._text.append(data)

    def handle_endtag(self, tag):
        if tag == "a" and self._href:
            self.links.append((self._href, "".join(self._text).strip()))
            self._href = None
        elif tag == self._heading:
            self.headings.append((int(tag[1]), "".join(self._text).strip()))
            self._heading = None


with open("data/article.html", encoding="utf-8") as f:
    parser = LinkParser("https://mill.example.org/blog/gauge")
    parser.feed(f.read())

for level, text in parser.headings:
    print("  " * (level - 1) + text)
print()
for href, text in parser.links:
    where = "internal" if urlparse(href).netloc == "mill.example.org" else "external"
    print(f"{where:<9} {href}  [{text}]")
print()
for src, alt in parser.images:
    print(src, "-", alt)
