import numpy as np

rng = np.random.default_rng(42)
a = rng.integers(0, 100, size=(4, 5))
print(a)
print("shape:", a.shape, "ndim:", a.ndim, "size:", a.size)
print("column sums:", a.sum(axis=0))
print("row means:", a.mean(axis=1))
print("sorted rows:\n", np.sort(a, axis=1))
print("argmax:", np.unravel_index(a.argmax(), a.shape))

mask = a > 50
print("above 50:", a[mask])
print("share above 50:", mask.mean())

b = np.linspace(0, 1, 5)
print("outer:\n", np.outer(b, b).round(4))
print("broadcast:\n", (a - a.mean(axis=0)).round(2))

m = np.array([[4.0, 2.0], [1.0, 3.0]])
values, vectors = np.linalg.eig(m)
print("eigenvalues:", np.sort(values))
print("det:", round(np.linalg.det(m), 6))
print("inverse:\n", np.linalg.inv(m))
print("solve:", np.linalg.solve(m, np.array([10.0, 5.0])))

x = np.arange(1, 11)
print("cumsum:", x.cumsum())
print("squares sum:", (x**2).sum())
print("unique:", np.unique(x % 3, return_counts=True))
print("percentiles:", np.percentile(x, [25, 50, 75]))
