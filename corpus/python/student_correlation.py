import numpy as np
import pandas as pd

students = pd.read_csv("data/students.csv", index_col="student")
subjects = ["maths", "physics", "history"]

print(students[subjects].describe().round(2))
print()
print("Correlation matrix")
print(students[subjects + ["hours_studied", "absences"]].corr().round(3))

students["average"] = students[subjects].mean(axis=1).round(2)
students["grade"] = pd.cut(
    students["average"], [0, 45, 55, 65, 75, 100], labels=list("EDCBA"), right=False
)
print()
print(students["grade"].value_counts().sort_index(ascending=False))

x = students["hours_studied"].to_numpy()
y = students["maths"].to_numpy()
slope, intercept = np.polyfit(x, y, 1)
residuals = y - (slope * x + intercept)
r2 = 1 - (residuals**2).sum() / ((y - y.mean()) ** 2).sum()
print(f"\nmaths = {slope:.3f} * hours + {intercept:.3f}, R^2 = {r2:.3f}")

print("\nBest three in each class:")
for name, group in students.sort_values("average", ascending=False).groupby("class"):
    print(name, [(s, float(a)) for s, a in group["average"].head(3).items()])
