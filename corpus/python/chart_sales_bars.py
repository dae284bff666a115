from pathlib import Path

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

df = pd.read_csv("data/sales.csv", parse_dates=["date"])
df["revenue"] = df["units"] * df["unit_price"]
monthly = df.groupby([df["date"].dt.strftime("%Y-%m"), "region"])["revenue"].sum().unstack(fill_value=0)

ax = monthly.plot(kind="bar", stacked=True, figsize=(9, 5), colormap="viridis")
ax.set_ylabel("Revenue (EUR)")
ax.set_title("Revenue by month and region")
for container in ax.containers:
    ax.bar_label(container, fmt="%.0f", label_type="center", fontsize=7)
plt.xticks(rotation=45)
plt.tight_layout()

out = Path("charts")
out.mkdir(exist_ok=True)
plt.savefig(out / "revenue.png")
plt.savefig(out / "revenue.svg")
plt.savefig(out / "revenue.pdf")
plt.close()

for path in sorted(out.iterdir()):
    print(path.name, path.stat().st_size > 1000)
print((out / "revenue.svg").read_text()[:38])
print(monthly.round(2).tail(3))
