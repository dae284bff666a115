import contextlib
import io
import re
import sys


def read(path):
    with open(path) as f:
        for line in f:
            yield line.rstrip()


def grep(pattern, lines):
    return (line for line in lines if re.search(pattern, line))


def field(n, lines):
    for line in lines:
        yield line.split()[n]


def running_mean():
    total = count = 0
    mean = None
    while True:
        value = yield mean
        total += value
        count += 1
        mean = total / count


def tree(n):
    if n:
        yield from tree(n // 2)
        yield n
        yield from tree(n // 3)


print(sum(1 for _ in grep(" 404 ", read("data/access.log"))))
print(sorted(set(field(0, grep("POST", read("data/access.log"))))))
mean = running_mean()
next(mean)
print([round(mean.send(x), 3) for x in (10, 20, 3)])
mean.close()
print(list(tree(10)))


class Countdown:
    def __init__(self, start):
        self.start = start

    def __iter__(self):
        n = self.start
        while n:
            yield n
            n -= 1

    def __len__(self):
        return self.start

    def __getitem__(self, i):
        return self.start - i


c = Countdown(3)
a, *rest = c
print(a, rest, len(c), c[1], 2 in c, dict(enumerate(c)))

buffer = io.StringIO()
with contextlib.redirect_stdout(buffer), contextlib.suppress(ZeroDivisionError):
    print("hidden")
    1 / 0
print(repr(buffer.getvalue()))
with contextlib.ExitStack() as stack:
    for name in "ab":
        stack.callback(print, "closing", name)
    print("inside")
print(sys.getsizeof(range(10**9)) < 100, (x := 5) + x)
