import json
import re
from datetime import datetime

from bs4 import BeautifulSoup

html = open("data/article.html", encoding="utf-8").read()
soup = BeautifulSoup(html, "html.parser")

data = json.loads(soup.find("script", type="application/ld+json").string)
published = datetime.strptime(soup.find("time")["datetime"], "%Y-%m-%dT%H:%M:%SZ")

print(json.dumps(
    {
        "headline": data["headline"],
        "keywords": data["keywords"],
        "author": soup.find("meta", attrs={"name": "author"})["content"],
        "published": published.strftime("%A, %d %B %Y"),
        "og": {m["property"]: m["content"] for m in soup.find_all("meta", property=True)},
        "images_without_alt": [img["src"] for img in soup.find_all("img") if not img.get("alt")],
        "anchors": [h["id"] for h in soup.find_all(re.compile("^h[1-6]$"), id=True)],
    },
    indent=2,
))

text = soup.article.get_text(" ", strip=True)
words = re.findall(r"[A-Za-z']+", text)
print("words:", len(words))
print("reading time:", max(1, round(len(words) / 200)), "min")

print("comments:")
for comment in soup.select(".comment"):
    depth = len([p for p in comment.parents if "comment" in (p.get("class") or [])])
    own = comment.find(string=re.compile(r"^:"), recursive=False)
    print("  " * depth + f"{comment.b.text}{own.strip()}")

code = soup.find("code")
print(code["class"], repr(code.text.splitlines()[0]))
