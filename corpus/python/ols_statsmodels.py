import pandas as pd
import statsmodels.formula.api as smf

df = pd.read_csv("data/students.csv")
df = df.rename(columns={"class": "group"})

model = smf.ols("maths ~ hours_studied + absences + C(group)", data=df).fit()
print("observations:", int(model.nobs))
print("R squared: %.4f, adjusted: %.4f" % (model.rsquared, model.rsquared_adj))
table = pd.DataFrame({"coef": model.params, "p": model.pvalues}).round(4)
print(table)
low, high = model.conf_int().loc["hours_studied"]
print(f"95% interval of hours_studied: [{low:.3f}, {high:.3f}]")
