import os

import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 4 * np.pi, 400)
fig, ax = plt.subplots(figsize=(8, 4))
ax.plot(x, np.sin(x), label="sin")
ax.plot(x, np.exp(-x / 6) * np.cos(2 * x), "--", label="damped cos")
ax.set_xlabel("x")
ax.set_ylabel("y")
ax.set_title("Two waves")
ax.legend()
ax.grid(True, alpha=0.3)
plt.tight_layout()
plt.savefig("waves.png", dpi=100)
print("waves.png exists:", os.path.exists("waves.png"))
print("larger than 10 kB:", os.path.getsize("waves.png") > 10_000)
with open("waves.png", "rb") as f:
    print(f.read(8))
