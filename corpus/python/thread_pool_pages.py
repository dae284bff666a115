import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path


def count_words(path):
    time.sleep(0.005)
    return path.name, len(path.read_text(encoding="utf-8").split())


paths = sorted(Path("data").glob("*.txt")) + sorted(Path("data").glob("*.md"))
with ThreadPoolExecutor(max_workers=4) as pool:
    for name, words in pool.map(count_words, paths):
        print(f"{name:<14}{words:>6}")

with ThreadPoolExecutor() as pool:
    futures = {pool.submit(pow, 2, n): n for n in (10, 64, 100)}
    results = {}
    for future in as_completed(futures):
        results[futures[future]] = future.result()
print(dict(sorted(results.items())))


def risky(n):
    if n == 3:
        raise ValueError(f"bad number {n}")
    return n * n


with ThreadPoolExecutor(3) as pool:
    futures = [pool.submit(risky, n) for n in range(5)]
for f in futures:
    print(f.result() if f.exception() is None else f"failed: {f.exception()}")
