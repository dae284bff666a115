import math
import sys
from fractions import Fraction

print("2**1000 has", len(str(2**1000)), "digits, digit sum", sum(map(int, str(2**1000))))
print("100! ends with", len(str(math.factorial(100))) - len(str(math.factorial(100)).rstrip("0")), "zeros")

a, b = 0, 1
n = 0
while len(str(b)) < 1000:
    a, b = b, a + b
    n += 1
print("first Fibonacci number with 1000 digits:", n + 1)

sys.set_int_max_str_digits(0)
x = 3**20000
print(len(str(x)), str(x)[:10], str(x)[-10:])
print(math.isqrt(2 * 10**60))
print(pow(7, 123456789, 10**9 + 7), pow(3, -1, 101))
print(math.comb(200, 100) % 1_000_000_007, math.gcd(2**120 - 1, 2**84 - 1) == 2**12 - 1)
h = sum(Fraction(1, k) for k in range(1, 31))
print("H(30) =", h, float(h))
print(hex(2**70), int("zz", 36), (255).to_bytes(4, "big"), int.from_bytes(b"\x01\x00", "little"), (10**20).bit_length())


def pi_digits(count):
    q, r, t, k, m, x = 1, 0, 1, 1, 3, 3
    digits = []
    while len(digits) < count:
        if 4 * q + r - t < m * t:
            digits.append(str(m))
            q, r, m = 10 * q, 10 * (r - m * t), (10 * (3 * q + r)) // t - 10 * m
        else:
            q, r, t, k, m, x = q * k, (2 * q + r) * x, t * x, k + 1, (q * (7 * k + 2) + r * x) // (t * x), x + 2
    return "".join(digits)


print(pi_digits(200))
