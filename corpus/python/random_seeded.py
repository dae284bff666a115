import random
import secrets
import statistics

rng = random.Random(2024)
print([rng.randint(1, 6) for _ in range(10)])
print(rng.sample(range(1, 50), 6), rng.choices("abc", weights=[5, 1, 1], k=8))
deck = [f"{r}{s}" for s in "♠♥♦♣" for r in "A23456789TJQK"]
rng.shuffle(deck)
print(deck[:5])
print([round(rng.gauss(100, 15), 2) for _ in range(4)], round(rng.uniform(1, 2), 6), round(rng.triangular(0, 10, 3), 6))
state = rng.getstate()
a = rng.random()
rng.setstate(state)
print(a == rng.random(), rng.getrandbits(40))

random.seed("text seed")
print(random.random(), random.randrange(0, 100, 5))
rolls = [sum(random.choices(range(1, 7), k=3)) for _ in range(5000)]
print(f"{statistics.fmean(rolls):.3f} {statistics.pstdev(rolls):.3f} {statistics.mode(rolls)}")
token = secrets.token_hex(16)
print(len(token), token != secrets.token_hex(16), 0 <= secrets.randbelow(10) < 10)


def weighted_walk(steps):
    x = y = 0
    for _ in range(steps):
        dx, dy = random.choice([(0, 1), (1, 0), (0, -1), (-1, 0)])
        x, y = x + dx, y + dy
    return abs(x) + abs(y)


random.seed(7)
print(statistics.mean(weighted_walk(100) for _ in range(200)))
