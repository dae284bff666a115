import pandas as pd
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import KFold, cross_val_score

df = pd.read_csv("data/students.csv")
X = df[["hours_studied", "absences"]]
y = df["maths"]

model = LinearRegression().fit(X, y)
print("Intercept: %.3f" % model.intercept_)
for name, coefficient in zip(X.columns, model.coef_):
    print(f"  {name}: {coefficient:.3f}")
predicted = model.predict(X)
print(f"R2: {r2_score(y, predicted):.3f}  MAE: {mean_absolute_error(y, predicted):.3f}")

for alpha in (0.1, 1.0, 10.0):
    scores = cross_val_score(Ridge(alpha=alpha), X, y, cv=KFold(5, shuffle=True, random_state=0), scoring="r2")
    print(f"ridge alpha={alpha:<5} mean R2 {scores.mean():.3f} (+/- {scores.std():.3f})")

new = pd.DataFrame({"hours_studied": [5, 10, 15], "absences": [3, 1, 0]})
new["predicted"] = model.predict(new).round(1)
print(new)
