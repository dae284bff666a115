"""SEND + MORE = MONEY, magic squares, and the zebra puzzle in small."""
from itertools import combinations, permutations, product

letters = "SENDMORY"
for digits in permutations(range(10), len(letters)):
    value = dict(zip(letters, digits))
    if value["S"] == 0 or value["M"] != 1:
        continue
    number = lambda word: int("".join(str(value[c]) for c in word))
    if number("SEND") + number("MORE") == number("MONEY"):
        print(f"{number('SEND')} + {number('MORE')} = {number('MONEY')}")
        break

squares = []
for p in permutations(range(1, 10)):
    a, b, c, d, e, f, g, h, i = p
    if a + b + c == 15 and d + e + f == 15 and a + d + g == 15 and b + e + h == 15 and a + e + i == 15 and c + e + g == 15:
        squares.append(p)
print(len(squares), "magic squares, first:", squares[0])

names, drinks, pets = ("Ann", "Bob", "Cem"), ("tea", "milk", "water"), ("cat", "dog", "fish")
for d in permutations(drinks):
    for p in permutations(pets):
        rows = {n: (x, y) for n, x, y in zip(names, d, p)}
        if rows["Ann"][0] != "tea" and rows["Bob"][1] == "dog" and ("milk", "cat") in rows.values() and rows["Cem"][0] == "tea":
            print(rows)

print(sum(1 for t in product("HT", repeat=10) if "HHH" in "".join(t)), "of 1024 have three heads in a row")
print([c for c in combinations(range(1, 30), 3) if c[0] ** 2 + c[1] ** 2 == c[2] ** 2])
