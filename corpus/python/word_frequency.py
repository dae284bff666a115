import re
import string
from collections import Counter, defaultdict

STOP = set("the a an and or of to in it was is he she her his that at by for on all up so when who will be not would".split())

with open("data/story.txt") as f:
    text = f.read()

words = re.findall(r"[a-z']+", text.lower())
counts = Counter(w for w in words if w not in STOP)
print(f"{len(words)} words, {len(set(words))} different")
for word, n in counts.most_common(8):
    print(f"{word:<12}{n:>3} {'▇' * n}")

sentences = re.split(r"(?<=[.!?])[\"']?\s+", text.strip())
print("sentences:", len(sentences), "longest:", max(len(s.split()) for s in sentences), "words")
print("letters:", Counter(c for c in text.lower() if c in string.ascii_lowercase).most_common(5))

by_length = defaultdict(set)
for w in words:
    by_length[len(w)].add(w)
print({n: len(by_length[n]) for n in sorted(by_length)})
print("longest words:", sorted(by_length[max(by_length)]))

bigrams = Counter(zip(words, words[1:]))
print([f"{a} {b}" for (a, b), n in bigrams.most_common(4)])


def syllables(word):
    return max(1, len(re.findall(r"[aeiouy]+", re.sub(r"e$", "", word))))


total = sum(map(syllables, words))
score = 206.835 - 1.015 * len(words) / len(sentences) - 84.6 * total / len(words)
print(f"reading ease: {score:.1f}")
print("palindromes:", sorted({w for w in words if len(w) > 2 and w == w[::-1]}))
