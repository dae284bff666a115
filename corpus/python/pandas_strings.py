import pandas as pd

customers = pd.read_csv("data/customers.csv")
customers[["first", "last"]] = customers["name"].str.split(" ", n=1, expand=True)
customers["initials"] = customers["first"].str[0] + customers["last"].str[0]
customers["slug"] = customers["name"].str.lower().str.replace(r"[^a-z]+", "-", regex=True)
print(customers[["name", "initials", "slug"]].head().to_string(index=False))

parts = customers["email"].str.extract(r"^(?P<user>[^@]+)@(?P<domain>.+)$")
print(parts["domain"].value_counts())
print("no address:", customers.loc[customers["email"].isna(), "name"].tolist())

print(customers["last"].str.len().describe()[["min", "max", "mean"]].round(2).to_dict())
print(customers["name"].str.contains("an", case=False).sum(), "names contain 'an'")
vowels = customers["name"].str.count("[aeiouAEIOU]")
print(customers.loc[vowels.nlargest(3).index, "name"].tolist())
print(customers["country"].fillna("??").str.cat(customers["segment"].str.upper(), sep="/").value_counts().head(4))
print(customers["name"].map(len).sum())
