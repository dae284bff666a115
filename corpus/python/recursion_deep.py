import sys

sys.setrecursionlimit(20_000)


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


def flatten(value):
    if isinstance(value, list):
        for v in value:
            yield from flatten(v)
    else:
        yield value


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def hanoi(n, a="A", b="B", c="C"):
    return [] if n == 0 else hanoi(n - 1, a, c, b) + [(a, c)] + hanoi(n - 1, b, a, c)


print(depth(10_000))
nested = [1]
for i in range(2, 50):
    nested = [nested, i]
print(sum(flatten(nested)))
print(ackermann(2, 9), ackermann(3, 4))
print(len(hanoi(10)), hanoi(3))


def forever(n):
    return forever(n + 1)


sys.setrecursionlimit(1000)
try:
    forever(0)
except RecursionError as error:
    print("RecursionError:", str(error)[:32])
