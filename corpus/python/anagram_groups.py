import re
from collections import defaultdict
from itertools import groupby

text = open("data/story.txt").read().lower() + " saw was stop tops pots now own won tea eat ate item time mite"
words = sorted(set(re.findall(r"[a-z]{3,}", text)))

groups = defaultdict(list)
for word in words:
    groups["".join(sorted(word))].append(word)
for key, members in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0])):
    if len(members) > 1:
        print(f"{key:<8} {' '.join(members)}")

print({n: len(list(g)) for n, g in groupby(sorted(words, key=len), key=len)})


def run_length(s):
    return "".join(f"{c}{n if n > 1 else ''}" for c, g in groupby(s) for n in [len(list(g))])


print(run_length("aaabccddddde"), run_length("mississippi"))


def longest_palindrome(s):
    best = ""
    for i in range(len(s)):
        for a, b in ((i, i), (i, i + 1)):
            while a >= 0 and b < len(s) and s[a] == s[b]:
                a, b = a - 1, b + 1
            best = max(best, s[a + 1 : b], key=len)
    return best


print(longest_palindrome("forgeeksskeegfor"), longest_palindrome("the level of noon"))
