import string
from collections import Counter

ALPHABET = string.ascii_lowercase


def caesar(text, shift):
    table = str.maketrans(ALPHABET + ALPHABET.upper(), ALPHABET[shift:] + ALPHABET[:shift] + (ALPHABET[shift:] + ALPHABET[:shift]).upper())
    return text.translate(table)


def crack(text):
    expected = dict(zip("etaoinshrdlu", (12.7, 9.1, 8.2, 7.5, 7.0, 6.7, 6.3, 6.1, 6.0, 4.3, 4.0, 2.8)))
    def score(candidate):
        counts = Counter(c for c in candidate.lower() if c.isalpha())
        total = sum(counts.values())
        return sum(expected.get(c, 1) * n / total for c, n in counts.items())
    return max(((score(caesar(text, s)), s) for s in range(26)))[1]


def vigenere(text, key, sign=1):
    out, i = [], 0
    for c in text:
        if c.isalpha():
            base = ord("A") if c.isupper() else ord("a")
            k = ord(key[i % len(key)].lower()) - ord("a")
            out.append(chr((ord(c) - base + sign * k) % 26 + base))
            i += 1
        else:
            out.append(c)
    return "".join(out)


secret = caesar("The clock of the old station had stopped at seven minutes past four.", 7)
print(secret)
shift = crack(secret)
print(shift, caesar(secret, shift))
v = vigenere("Meet me at the weir at noon", "duck")
print(v, "|", vigenere(v, "duck", -1))
morse = dict(zip("abcdefghij", ".- -... -.-. -.. . ..-. --. .... .. .---".split()))
print(" ".join(morse[c] for c in "cabbage"))
print("".join(f"{ord(c):08b}" for c in "ok"), bytes.fromhex("64 75 63 6b").decode())
key = b"k3y"
data = bytes(a ^ key[i % 3] for i, a in enumerate(b"attack at dawn"))
print(data.hex(), bytes(a ^ key[i % 3] for i, a in enumerate(data)))
