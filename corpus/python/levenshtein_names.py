import pandas as pd

customers = pd.read_csv("data/customers.csv")["name"].tolist()
queries = ["Ines Almaida", "hana kahn", "J. Haddad", "Zoe Stien", "Completely Different"]


def distance(a, b):
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            current.append(min(previous[j] + 1, current[-1] + 1, previous[j - 1] + (x != y)))
        previous = current
    return previous[-1]


def soundex(word):
    codes = {c: str(i) for i, group in enumerate(("bfpv", "cgjkqsxz", "dt", "l", "mn", "r"), 1) for c in group}
    word = word.lower()
    digits = [codes.get(c, "") for c in word]
    out = [d for i, d in enumerate(digits) if d and (i == 0 or d != digits[i - 1])]
    if digits[0]:
        out = out[1:]
    return (word[0].upper() + "".join(out) + "000")[:4]


rows = []
for q in queries:
    best = min(customers, key=lambda c: (distance(q.lower(), c.lower()), c))
    d = distance(q.lower(), best.lower())
    rows.append({"query": q, "match": best if d <= 4 else None, "distance": d})
print(pd.DataFrame(rows).to_string(index=False))
print({w: soundex(w) for w in ("Robert", "Rupert", "Ashcraft", "Lee", "Khan", "Kahn")})
