import pandas as pd

df = pd.read_csv("data/weather.csv", parse_dates=["date"])
print(df.info(memory_usage=False))
print(df.isna().sum())

wide = df.pivot(index="date", columns="city", values="temp_c")
print(wide.head())

# Fill gaps by interpolating in time, at most three days
wide = wide.interpolate(method="time", limit=3)
print("Missing after interpolation:", int(wide.isna().sum().sum()))

monthly = wide.resample("MS").agg(["mean", "min", "max"]).round(2)
print(monthly)

rolling = wide.rolling("7D").mean()
print("Warmest week:")
for city in rolling.columns:
    day = rolling[city].idxmax()
    print(f"  {city}: week to {day.date()} with {rolling.loc[day, city]:.2f} °C")

weekly_rain = df.set_index("date").groupby("city")["rain_mm"].resample("W").sum().unstack(0)
print(weekly_rain.describe().round(2))
