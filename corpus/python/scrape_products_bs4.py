import re

from bs4 import BeautifulSoup

with open("data/products.html", encoding="utf-8") as f:
    soup = BeautifulSoup(f, "html.parser")

print("Title:", soup.title.string)
print("Description:", soup.find("meta", attrs={"name": "description"})["content"])

products = []
for div in soup.select("div.product"):
    price_tag = div.select_one(".price strong") or div.select_one(".price")
    price = float(price_tag.get_text(strip=True).lstrip("€").replace(",", ""))
    rating = re.search(r"([\d.]+) out of 5 \((\d+)", div.find("p", class_="rating").text)
    products.append(
        {
            "id": int(div["data-id"]),
            "name": div.h2.get_text(strip=True),
            "price": price,
            "sale": "sale" in div["class"],
            "stock": int(div["data-stock"]),
            "rating": float(rating.group(1)) if rating else None,
            "reviews": int(rating.group(2)) if rating else 0,
            "tags": [li.text for li in div.select("ul.tags li")],
        }
    )

for p in sorted(products, key=lambda p: p["price"]):
    print(p)

print("In stock:", [p["name"] for p in products if p["stock"]])
rated = [p for p in products if p["rating"]]
print("Mean rating: %.2f" % (sum(p["rating"] * p["reviews"] for p in rated) / sum(p["reviews"] for p in rated)))
