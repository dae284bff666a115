import pandas as pd

df = pd.read_json("data/events.jsonl", lines=True)
df["ts"] = pd.to_datetime(df["ts"], utc=True)
df = df.set_index("ts")
print(df.index[0], df.index[-1])

local = df.tz_convert("Europe/Berlin")
print(local.index[0])
print(local.tz_convert("America/New_York").index[0].isoformat())

hourly = df["event"].resample("3h").count()
print(hourly.to_string())

print(df.groupby([df.index.floor("6h"), "event"]).size().unstack(fill_value=0))
print(df.between_time("10:00", "12:00")["user"].nunique())

idx = pd.date_range("2024-03-30", periods=4, freq="D", tz="Europe/Lisbon")
print([str(t.utcoffset()) for t in idx])
print(pd.Timestamp("2024-02-29") + pd.DateOffset(years=1))
print(pd.bdate_range("2024-05-01", "2024-05-10").strftime("%a %d").tolist())
print(pd.Timedelta("1 days 02:30:00").total_seconds())
