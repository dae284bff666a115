import base64
import io

import matplotlib
matplotlib.use("Agg")
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import pandas as pd

df = pd.read_csv("data/weather.csv", parse_dates=["date"])
fig, axes = plt.subplots(2, 1, sharex=True, figsize=(10, 6))
for city, group in df.groupby("city"):
    axes[0].plot(group["date"], group["temp_c"].rolling(5, min_periods=1).mean(), label=city)
    axes[1].bar(group["date"], group["rain_mm"], alpha=0.5, label=city)
axes[0].set_ylabel("°C")
axes[1].set_ylabel("mm")
axes[0].legend()
axes[1].xaxis.set_major_locator(mdates.MonthLocator())
axes[1].xaxis.set_major_formatter(mdates.DateFormatter("%b"))
axes[0].annotate("coldest", xy=(df.loc[df["temp_c"].idxmin(), "date"], df["temp_c"].min()), xytext=(10, 10), textcoords="offset points")

buffer = io.BytesIO()
fig.savefig(buffer, format="png", bbox_inches="tight")
encoded = base64.b64encode(buffer.getvalue()).decode()
print(f"data:image/png;base64,{encoded[:11]}...", len(encoded) > 10_000)
print("ticks:", [t.get_text() for t in axes[1].get_xticklabels()])
print("legend:", [t.get_text() for t in axes[0].get_legend().get_texts()])
