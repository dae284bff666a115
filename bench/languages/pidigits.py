"""Digits of pi, one after the other: whole numbers of thousands of digits."""


def digits(count):
    q, r, t, k, n, step = 1, 0, 1, 1, 3, 3
    found = []
    while len(found) < count:
        if 4 * q + r - t < n * t:
            found.append(n)
            q, r, n = 10 * q, 10 * (r - n * t), 10 * (3 * q + r) // t - 10 * n
        else:
            q, r, t, k, n, step = q * k, (2 * q + r) * step, t * step, k + 1, (q * (7 * k + 2) + r * step) // (
                t * step), step + 2
    return found


checksum = 0
for digit in digits(2300):
    checksum = (checksum * 10 + digit) % 1_000_000_007
print(checksum)
