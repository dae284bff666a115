import os
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

employees = pd.read_csv("data/employees.csv")
counts = employees["department"].value_counts()

fig = plt.figure(figsize=(10, 8))
ax1 = fig.add_subplot(2, 2, 1)
ax1.pie(counts, labels=counts.index, autopct="%1.0f%%", startangle=90)

ax2 = fig.add_subplot(2, 2, 2)
table = pd.crosstab(employees["department"], employees["city"])
image = ax2.imshow(table, cmap="Blues")
ax2.set_xticks(range(len(table.columns)), table.columns, rotation=45)
ax2.set_yticks(range(len(table.index)), table.index)
for (i, j), n in np.ndenumerate(table.to_numpy()):
    ax2.text(j, i, n, ha="center", va="center")
fig.colorbar(image)

ax3 = fig.add_subplot(2, 2, 3, projection="3d")
X, Y = np.meshgrid(np.linspace(-2, 2, 25), np.linspace(-2, 2, 25))
ax3.plot_surface(X, Y, np.exp(-(X**2) - Y**2), cmap="magma")

ax4 = fig.add_subplot(2, 2, 4, polar=True)
theta = np.linspace(0, 2 * np.pi, 100)
ax4.plot(theta, 1 + np.sin(3 * theta))
fig.suptitle(r"Overview: $\alpha > \beta^2$")
fig.savefig("overview.png", dpi=60)

print(counts.sort_index().to_dict())
print(table)
print("axes:", len(fig.axes), "saved:", os.path.getsize("overview.png") > 10_000)
