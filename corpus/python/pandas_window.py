import pandas as pd

df = pd.read_csv("data/sales.csv", parse_dates=["date"])
df["revenue"] = df.units * df.unit_price
daily = df.groupby("date")["revenue"].sum().asfreq("D", fill_value=0)

out = pd.DataFrame({
    "revenue": daily,
    "ma7": daily.rolling(7).mean(),
    "ewm": daily.ewm(span=7, adjust=False).mean(),
    "cum": daily.cumsum(),
    "lag1": daily.shift(1),
})
print(out.iloc[5:12].round(2))
print("days:", len(out), "without sales:", int((daily == 0).sum()))

df = df.sort_values(["rep", "date"])
df["previous"] = df.groupby("rep")["date"].shift()
df["gap"] = (df["date"] - df["previous"]).dt.days
print(df.groupby("rep")["gap"].agg(["mean", "max"]).round(2))

df["running"] = df.groupby("rep")["revenue"].cumsum()
print(df.groupby("rep")["running"].last().sort_values(ascending=False).round(2).to_dict())
print(df.groupby("rep").apply(lambda g: g.nlargest(1, "revenue")[["date", "product", "revenue"]], include_groups=False))
weekday = df.groupby(df["date"].dt.day_name())["revenue"].mean()
print(weekday.reindex(["Monday", "Wednesday", "Friday", "Sunday"]).round(1))
