from functools import lru_cache


def knapsack(items, capacity):
    table = [[0] * (capacity + 1) for _ in range(len(items) + 1)]
    for i, (_, weight, value) in enumerate(items, 1):
        for c in range(capacity + 1):
            table[i][c] = table[i - 1][c]
            if weight <= c:
                table[i][c] = max(table[i][c], table[i - 1][c - weight] + value)
    chosen, c = [], capacity
    for i in range(len(items), 0, -1):
        if table[i][c] != table[i - 1][c]:
            chosen.append(items[i - 1][0])
            c -= items[i - 1][1]
    return table[-1][capacity], chosen[::-1]


def lcs(a, b):
    rows = [[""] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            rows[i + 1][j + 1] = rows[i][j] + x if x == y else max(rows[i][j + 1], rows[i + 1][j], key=len)
    return rows[-1][-1]


@lru_cache(maxsize=None)
def edit_distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return edit_distance(a[1:], b[1:])
    return 1 + min(edit_distance(a[1:], b), edit_distance(a, b[1:]), edit_distance(a[1:], b[1:]))


def coins(amount, values):
    best = [0] + [float("inf")] * amount
    ways = [1] + [0] * amount
    for v in values:
        for a in range(v, amount + 1):
            best[a] = min(best[a], best[a - v] + 1)
            ways[a] += ways[a - v]
    return best[amount], ways[amount]


items = [("tent", 30, 150), ("stove", 9, 160), ("rope", 12, 60), ("camera", 8, 120), ("books", 15, 45), ("map", 2, 90), ("boots", 18, 130)]
print(knapsack(items, 50))
print(lcs("AGGTABCDXYZ", "GXTXAYBCXZ"))
print(edit_distance("kitten", "sitting"), edit_distance("intention", "execution"))
print(edit_distance.cache_info())
print(coins(87, (1, 2, 5, 10, 20, 50)))
print(coins(1000, (1, 2, 5, 10, 20, 50, 100, 200)))
