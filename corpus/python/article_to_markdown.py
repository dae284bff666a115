import re

from bs4 import BeautifulSoup, Comment, NavigableString


def to_markdown(node):
    if isinstance(node, Comment):
        return ""
    if isinstance(node, NavigableString):
        return re.sub(r"\s+", " ", node) if node.strip() else ""
    inner = lambda: "".join(to_markdown(c) for c in node.children)
    name = node.name
    if name in ("h1", "h2", "h3"):
        return "\n\n" + "#" * int(name[1]) + " " + inner().strip() + "\n"
    if name == "p":
        return "\n\n" + inner().strip()
    if name in ("em", "i"):
        return f"*{inner()}*"
    if name in ("b", "strong"):
        return f"**{inner()}**"
    if name == "a":
        return f"[{inner()}]({node.get('href')})"
    if name == "br":
        return "  \n"
    if name == "li":
        return f"\n- {inner().strip()}"
    if name == "pre":
        return "\n\n```\n" + node.get_text() + "\n```"
    if name == "blockquote":
        return f"\n\n> {inner().strip()}"
    if name == "img":
        return f"\n\n![{node.get('alt', '')}]({node['src']})"
    if name in ("script", "style", "table"):
        return ""
    return inner()


with open("data/article.html", encoding="utf-8") as f:
    soup = BeautifulSoup(f, "lxml")

print(to_markdown(soup.find("article")).strip().replace("\xa0", " "))
print("---")
print("author:", soup.select_one(".author").text, "| published:", soup.time["datetime"])
