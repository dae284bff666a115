import pandas as pd

students = pd.read_csv("data/students.csv").head(6)
long = students.melt(
    id_vars=["student", "class"], value_vars=["maths", "physics", "history"], var_name="subject", value_name="score"
)
print(long.sort_values(["student", "subject"]).head(9).to_string(index=False))

stacked = students.set_index(["class", "student"])[["maths", "physics", "history"]].stack()
stacked.index.names = ["class", "student", "subject"]
print(stacked.head(4))

back = stacked.unstack("subject")
print(back.loc["A"] if "A" in back.index.get_level_values(0) else back)

best = long.loc[long.groupby("subject")["score"].idxmax()].set_index("subject")
print(best)

wide = long.pivot_table(index="class", columns="subject", values="score", aggfunc=["mean", "max"])
wide.columns = ["_".join(c) for c in wide.columns]
print(wide.round(1).to_markdown())
