"""Text that is built, cut into words and counted: str, dict, join and format."""

SYLLABLES = ("ka", "lo", "mi", "ne", "su", "tra", "po", "é")
state, parts = 42, []
for number in range(110_000):
    state = (state * 1664525 + 1013904223) % 2 ** 32
    word = "".join([SYLLABLES[state >> shift & 7] for shift in range(8, 3 * (state >> 30) + 11, 3)])
    parts.append(word.capitalize() if number % 12 == 0 else word)
    parts.append(". " if number % 12 == 11 else " ")
text = "".join(parts)

words = {}
for word in text.replace(".", "").lower().split():
    words[word] = words.get(word, 0) + 1
by_letter = {}
for word, count in words.items():
    by_letter.setdefault(word[0], []).append((word, count))
letters = {}
for letter in text:
    letters[letter] = letters.get(letter, 0) + 1
lines = [f"{word:<24}{count:>8}" for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0]))]
page = ""
for line in lines[:4000]:
    page += line.strip() + "\n"
turned = sum(sentence.strip()[::-1].count("a") for sentence in text.split(". "))
print(len(words), len(page), len(letters), turned, lines[0].split(), {k: len(v) for k, v in sorted(by_letter.items())})
