import numpy as np

# Sum of squares up to one million, without a loop
n = np.arange(1, 1_000_001)
total = np.sum(n**2)
print("sum of squares:", total)
formula = 1_000_000 * 1_000_001 * 2_000_001 // 6
print("formula:       ", formula)
print("equal:", int(total) == formula)

# Sieve of Eratosthenes
limit = 2_000_000
sieve = np.ones(limit + 1, dtype=bool)
sieve[:2] = False
for i in range(2, int(limit**0.5) + 1):
    if sieve[i]:
        sieve[i * i :: i] = False
primes = np.nonzero(sieve)[0]
print("primes below 2,000,000:", len(primes))
print("sum of them:", primes.sum())
print("largest gap:", np.diff(primes).max())
