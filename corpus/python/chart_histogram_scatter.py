import io

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(0)
values = rng.normal(50, 12, 500)

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
counts, edges, _ = left.hist(values, bins=12, edgecolor="black")
left.axvline(values.mean(), color="red", linestyle=":")
right.scatter(values[:-1], values[1:], s=8, alpha=0.5)
right.set_title("lag plot")

buffer = io.BytesIO()
fig.savefig(buffer, format="png")
data = buffer.getvalue()
print("PNG:", data[1:4], len(data) > 5000)
print("counts:", counts.astype(int).tolist())
print("edges:", np.round(edges[[0, -1]], 2).tolist())
print("lag correlation: %.3f" % np.corrcoef(values[:-1], values[1:])[0, 1])
plt.close("all")
print("open figures:", plt.get_fignums())
