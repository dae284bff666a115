import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns

df = pd.read_csv("data/students.csv")
sns.set_theme(style="whitegrid")

fig, axes = plt.subplots(1, 2, figsize=(10, 4))
sns.boxplot(data=df, x="class", y="maths", order=sorted(df["class"].unique()), ax=axes[0])
axes[0].set_title("Maths by class")
sns.heatmap(df[["maths", "physics", "history", "hours_studied"]].corr(), annot=True, fmt=".2f", cmap="vlag", ax=axes[1])
fig.tight_layout()
fig.savefig("students.png", dpi=80)
print("saved:", os.path.getsize("students.png") > 5000)

grouped = df.groupby("class")["maths"].describe()[["count", "mean", "std"]].round(2)
print(grouped)
