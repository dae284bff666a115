"""Estimate pi and the value of an option by simulation."""
import numpy as np

rng = np.random.default_rng(2024)

for n in (1_000, 10_000, 100_000, 1_000_000):
    x, y = rng.random(n), rng.random(n)
    inside = np.count_nonzero(x * x + y * y <= 1.0)
    print(f"n={n:>9,}: pi = {4 * inside / n:.5f}")

spot, strike, rate, sigma, years = 100.0, 105.0, 0.03, 0.2, 1.0
paths = 200_000
z = rng.standard_normal(paths)
final = spot * np.exp((rate - 0.5 * sigma**2) * years + sigma * np.sqrt(years) * z)
payoff = np.maximum(final - strike, 0.0)
price = np.exp(-rate * years) * payoff.mean()
error = payoff.std(ddof=1) / np.sqrt(paths)
print(f"call price: {price:.3f} +/- {1.96 * error:.3f}")

walk = rng.choice([-1, 1], size=(2_000, 500)).cumsum(axis=1)
print("mean distance after 500 steps:", np.abs(walk[:, -1]).mean().round(3))
print("share that returned to 0:", (walk == 0).any(axis=1).mean())
