"""Pivot table of monthly revenue by product, with totals and growth."""
import pandas as pd

pd.set_option("display.width", 120)
pd.set_option("display.max_columns", None)

sales = pd.read_csv("data/sales.csv")
sales["date"] = pd.to_datetime(sales["date"])
sales["month"] = sales["date"].dt.to_period("M")
sales["revenue"] = sales["units"] * sales["unit_price"]

pivot = pd.pivot_table(
    sales,
    index="month",
    columns="product",
    values="revenue",
    aggfunc="sum",
    fill_value=0,
    margins=True,
    margins_name="Total",
)
print(pivot.round(2))

monthly = sales.groupby("month")["revenue"].sum()
growth = monthly.pct_change().mul(100).round(1)
print("\nGrowth by month (%):")
for month, value in growth.items():
    print(f"  {month}: {'n/a' if pd.isna(value) else f'{value:+.1f}'}")

print("\nBest product in each region:")
best = (
    sales.groupby(["region", "product"])["revenue"].sum()
    .reset_index()
    .sort_values(["region", "revenue"], ascending=[True, False])
    .drop_duplicates("region")
)
print(best.to_string(index=False))
