# Classes, dictionaries, strings, sorting, regular expressions and JSON, as scripts have them.
import json
import re


class Account:
    def __init__(self, name):
        self.name = name
        self.entries = []

    def add(self, amount):
        self.entries.append(amount)
        return self

    @property
    def balance(self):
        return sum(self.entries)


accounts = {f"a{i}": Account(f"a{i}") for i in range(100)}
for i in range(60_000):
    accounts[f"a{i * 31 % 100}"].add(i % 17 - 8)
balances = sorted((a.balance, name) for name, a in accounts.items())
text = " ".join(f"{name}={balance:+d}" for balance, name in balances) * 20
words = {}
for word, number in re.findall(r"(a\d+)=([+-]\d+)", text):
    words[word] = words.get(word, 0) + int(number)
again = json.loads(json.dumps([{"name": n, "sum": s, "half": s / 2} for n, s in words.items()] * 20))
primes = [n for n in range(2, 6000) if all(n % d for d in range(2, int(n**0.5) + 1))]
print(len(again), sum(a["sum"] for a in again), len(primes), primes[-1])
