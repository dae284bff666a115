import re

import numpy as np
import pandas as pd


def clean_money(value):
    if pd.isna(value):
        return np.nan
    text = re.sub(r"[,\s]", "", str(value))
    try:
        return float(text)
    except ValueError:
        return np.nan


def clean_date(value):
    for fmt in ("%Y-%m-%d", "%d/%m/%Y", "%Y/%m/%d", "%B %d %Y"):
        try:
            return pd.to_datetime(value, format=fmt)
        except (ValueError, TypeError):
            continue
    return pd.NaT


df = pd.read_csv("data/messy.csv", skipinitialspace=True)
df.columns = df.columns.str.strip().str.lower().str.replace("-", "_")
print("Columns:", list(df.columns))
print("Rows before:", len(df))

df["name"] = df["name"].str.strip().str.title()
df["age"] = pd.to_numeric(df["age"], errors="coerce")
df.loc[~df["age"].between(0, 120), "age"] = np.nan
df["e_mail"] = df["e_mail"].str.lower()
df["valid_mail"] = df["e_mail"].str.fullmatch(r"[\w.+]+@[\w-]+(\.[\w-]+)+").fillna(False)
df["joined"] = df["joined"].map(clean_date)
df["income"] = df["income"].map(clean_money)
df["active"] = df["active"].str.lower().map({"yes": True, "1": True, "true": True, "no": False, "0": False})

duplicates = df.duplicated()
print("Duplicates:", duplicates.sum())
df = df[~duplicates].reset_index(drop=True)

print(df.to_string())
print(df.dtypes)
print("Missing values:")
print(df.isna().sum()[lambda s: s > 0])
print("Median income:", df["income"].median())
df["income"] = df["income"].fillna(df["income"].median())
print("Mean income after filling: %.2f" % df["income"].mean())
