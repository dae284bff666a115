import pandas as pd

df = pd.read_csv("data/sales.csv", parse_dates=["date"])
df["revenue"] = df["units"] * df["unit_price"]

print("Rows:", len(df))
print("Period:", df["date"].min().date(), "to", df["date"].max().date())
print()

by_region = (
    df.groupby("region")
    .agg(orders=("units", "size"), units=("units", "sum"), revenue=("revenue", "sum"))
    .sort_values("revenue", ascending=False)
)
by_region["share"] = (by_region["revenue"] / by_region["revenue"].sum() * 100).round(1)
print(by_region.round(2).to_string())
print()

top = df.groupby("product")["revenue"].sum().nlargest(3)
for rank, (product, revenue) in enumerate(top.items(), start=1):
    print(f"{rank}. {product:<12} {revenue:>10,.2f}")

best = df.loc[df["revenue"].idxmax()]
print(f"\nLargest order: {best['product']} x{best['units']} on {best['date']:%Y-%m-%d} ({best['revenue']:.2f})")
