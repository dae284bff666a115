import json

import pandas as pd

customers = pd.read_csv("data/customers.csv", parse_dates=["signup"])
with open("data/orders.json", encoding="utf-8") as f:
    raw = json.load(f)

items = pd.json_normalize(
    raw,
    record_path="items",
    meta=["order_id", "customer_id", "status", ["shipping", "method"]],
)
items["total"] = items["qty"] * items["price"]
print(items.head(8))
print(items.shape)

orders = items.groupby(["order_id", "customer_id", "status"], as_index=False)["total"].sum()
orders["customer_id"] = orders["customer_id"].astype(int)
merged = customers.merge(orders, on="customer_id", how="outer", indicator=True)

print("\nMerge result:")
print(merged["_merge"].value_counts().to_string())

unknown = merged.loc[merged["_merge"] == "right_only", "customer_id"].unique()
print("Orders of unknown customers:", sorted(int(x) for x in unknown))

shipped = merged[(merged["status"] == "shipped") & (merged["_merge"] == "both")]
ranking = shipped.groupby("name")["total"].agg(["count", "sum", "mean"]).sort_values("sum", ascending=False)
print("\nTop customers (shipped orders):")
print(ranking.head(5).round(2))

print("\nBy segment:")
print(shipped.groupby("segment")["total"].describe()[["count", "mean", "50%", "max"]].round(2))

print("\nEmail domains:")
print(customers["email"].str.split("@").str[1].value_counts(dropna=False))
