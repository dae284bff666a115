from lxml import etree, html

tree = html.parse("data/products.html").getroot()
print(tree.xpath("string(//title)"))
for node in tree.xpath("//div[contains(@class, 'product')]"):
    name = node.xpath("normalize-space(.//h2)")
    price = node.xpath("normalize-space((.//span[@class='price']//strong | .//span[@class='price'][not(strong)])[1])")
    print(f"{node.get('data-id'):>3} {name:<26} {price}")

print("links:", tree.xpath("//a/@href"))
rows = tree.xpath("//table[@id='shipping']/tbody/tr")
print({r.xpath("td[1]/text()")[0]: int(r.xpath("td[2]/text()")[0]) for r in rows})
print("sum of days:", tree.xpath("sum(//table[@id='shipping']/tbody/tr/td[2])"))

tree.make_links_absolute("https://shop.example.org/catalogue")
print(sorted({link for _, attribute, link, _ in tree.iterlinks() if attribute == "href"})[:4])

for bad in tree.xpath("//script | //del"):
    bad.drop_tree()
print(" ".join(tree.xpath("//div[@data-id='18']")[0].text_content().split()))
print(etree.tostring(tree.xpath("//ul[@class='tags']")[2], encoding="unicode").strip())
