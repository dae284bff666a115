import math
import random
import time


def sieve(n):
    flags = bytearray([1]) * (n + 1)
    flags[0:2] = b"\0\0"
    for i in range(2, math.isqrt(n) + 1):
        if flags[i]:
            flags[i * i :: i] = bytes(len(range(i * i, n + 1, i)))
    return [i for i, f in enumerate(flags) if f]


def is_prime(n):
    """Miller-Rabin, certain below 3.3e24."""
    if n < 2:
        return False
    small = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    for p in small:
        if n % p == 0:
            return n == p
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for a in small:
        x = pow(a, d, n)
        if x in (1, n - 1):
            continue
        for _ in range(s - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def pollard_rho(n):
    if n % 2 == 0:
        return 2
    rng = random.Random(n)
    while True:
        x = y = rng.randrange(2, n)
        c, d = rng.randrange(1, n), 1
        while d == 1:
            x = (x * x + c) % n
            y = (y * y + c) % n
            y = (y * y + c) % n
            d = math.gcd(abs(x - y), n)
        if d != n:
            return d


def factors(n):
    if n == 1:
        return []
    if is_prime(n):
        return [n]
    d = pollard_rho(n)
    return sorted(factors(d) + factors(n // d))


start = time.perf_counter()
primes = sieve(1_000_000)
print(len(primes), primes[-1], sum(primes))
print("twins below 1000:", sum(1 for a, b in zip(primes, primes[1:]) if b - a == 2 and b < 1000))
for n in (360, 1_000_003, 600_851_475_143, 2**61 - 1, 2**64 + 1, 10**18 + 9, 1234567890123456789):
    print(f"{n} = {' * '.join(map(str, factors(n)))}")
assert time.perf_counter() >= start
