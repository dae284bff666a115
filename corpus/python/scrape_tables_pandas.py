import pandas as pd

tables = pd.read_html("data/products.html")
print("tables:", len(tables))
shipping = tables[0]
shipping["Cost"] = shipping["Cost"].str.replace("€", "").astype(float)
print(shipping)
print("Cheapest:", shipping.loc[shipping["Cost"].idxmin(), "Country"])

levels = pd.read_html("data/article.html", flavor="lxml")[0]
print(levels)
print(levels["Peak (cm)"].sum(), round(levels["Mean (cm)"].mean(), 2))
