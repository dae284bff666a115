import pandas as pd

df = pd.read_csv("data/employees.csv", parse_dates=["hired"])
df["manager_id"] = df["manager_id"].astype("Int64")
print(df.dtypes)

# Self join to find the manager's name
managers = df[["id", "name"]].rename(columns={"id": "manager_id", "name": "manager"})
joined = df.merge(managers, how="left", on="manager_id")
joined["manager"] = joined["manager"].fillna("(none)")
print(joined.groupby("manager")["name"].apply(lambda s: ", ".join(sorted(s))).to_string())

df["rank_in_department"] = df.groupby("department")["salary"].rank(ascending=False, method="dense").astype(int)
print(df[df["rank_in_department"] == 1][["department", "name", "salary"]].sort_values("department").to_string(index=False))

df["band"] = pd.cut(df["salary"], bins=[0, 50_000, 70_000, 100_000], labels=["low", "mid", "high"])
print(pd.crosstab(df["department"], df["band"], margins=True))

df["z"] = df.groupby("department")["salary"].transform(lambda s: (s - s.mean()) / s.std())
print("Outliers:", df.loc[df["z"].abs() > 1.5, "name"].tolist())

hires = df.set_index("hired").sort_index().groupby(pd.Grouper(freq="YE")).size()
print({d.year: int(n) for d, n in hires.items()})
