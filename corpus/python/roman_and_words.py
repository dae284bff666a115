ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def to_roman(n):
    if not 0 < n < 4000:
        raise ValueError(f"{n} has no Roman numeral")
    out = ""
    for value, letters in [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
                           (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
        count, n = divmod(n, value)
        out += letters * count
    return out


def from_roman(text):
    values = dict(I=1, V=5, X=10, L=50, C=100, D=500, M=1000)
    return sum(-values[a] if values[a] < values.get(b, 0) else values[a] for a, b in zip(text, text[1:] + " "))


def in_words(n):
    if n < 0:
        return "minus " + in_words(-n)
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + (f"-{ONES[n % 10]}" if n % 10 else "")
    for size, name in ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if n >= size:
            rest = n % size
            return f"{in_words(n // size)} {name}" + (f"{' and' if rest < 100 else ''} {in_words(rest)}" if rest else "")


assert all(from_roman(to_roman(n)) == n for n in range(1, 4000))
for n in (4, 49, 1994, 2024, 3999):
    print(n, to_roman(n), in_words(n))
print(in_words(-1_234_567_890))
for bad in (0, 4000):
    try:
        to_roman(bad)
    except ValueError as e:
        print("ValueError:", e)
match (2024 % 4, 2024 % 100, 2024 % 400):
    case (0, 0, 0):
        print("leap by 400")
    case (0, c, _) if c != 0:
        print("leap")
    case _:
        print("common")
print(sum(len(in_words(n).replace(" ", "").replace("-", "")) for n in range(1, 1001)))
