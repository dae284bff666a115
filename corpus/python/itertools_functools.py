import functools
import itertools
import operator
from collections import ChainMap, Counter, defaultdict, deque

print(list(itertools.accumulate([3, 1, 4, 1, 5], max)), list(itertools.accumulate(range(1, 6), operator.mul)))
print(list(itertools.batched("abcdefg", 3)), list(itertools.pairwise([1, 4, 9, 16])))
print(["".join(c) for c in itertools.combinations("abcd", 2)], list(itertools.islice(itertools.count(10, 5), 3)))
print(list(itertools.zip_longest("ab", "xyz", fillvalue="-")), list(itertools.chain.from_iterable([[1], [2, 3]])))
print(list(itertools.takewhile(lambda x: x < 5, [1, 4, 6, 3])), list(itertools.dropwhile(lambda x: x < 5, [1, 4, 6, 3])))
print({k: list(g) for k, g in itertools.groupby(sorted(["apple", "bob", "cat", "art"]), key=lambda w: w[0])})
print(list(itertools.starmap(pow, [(2, 5), (3, 2)])), list(itertools.compress("abcdef", [1, 0, 1, 0, 1, 1])))

print(functools.reduce(lambda a, b: a * b, range(1, 11)))
power = functools.partial(pow, 2)
print(power(10))


@functools.cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@functools.singledispatch
def describe(x):
    return f"something: {x}"


@describe.register
def _(x: int):
    return f"integer {x}"


@describe.register(list)
def _(x):
    return f"list of {len(x)}"


def retry(times):
    def decorator(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            for attempt in range(1, times + 1):
                try:
                    return f(*args, **kwargs)
                except RuntimeError as e:
                    print(f"attempt {attempt}: {e}")
            return None
        return wrapper
    return decorator


calls = itertools.count(1)


@retry(3)
def flaky():
    n = next(calls)
    if n < 3:
        raise RuntimeError(f"failure {n}")
    return f"worked at {n}"


print(fib(90), describe(3), describe([1]), describe("x"), flaky(), flaky.__name__)
d = deque([1, 2, 3], maxlen=3)
d.append(4)
d.rotate(1)
print(d, ChainMap({"a": 1}, {"a": 2, "b": 3})["b"], Counter("banana") - Counter("ban"), Counter(a=3) & Counter(a=1))
print(sorted([("b", 2), ("a", 2), ("c", 1)], key=operator.itemgetter(1, 0)), functools.cmp_to_key(lambda a, b: b - a)(1) < functools.cmp_to_key(lambda a, b: b - a)(0))
