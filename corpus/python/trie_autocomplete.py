import re
from collections import Counter


class Trie:
    def __init__(self):
        self.children = {}
        self.count = 0

    def insert(self, word, count=1):
        node = self
        for letter in word:
            node = node.children.setdefault(letter, Trie())
        node.count += count

    def find(self, prefix):
        node = self
        for letter in prefix:
            node = node.children.get(letter)
            if node is None:
                return None
        return node

    def words(self, prefix=""):
        if self.count:
            yield prefix, self.count
        for letter in sorted(self.children):
            yield from self.children[letter].words(prefix + letter)

    def complete(self, prefix, limit=3):
        node = self.find(prefix)
        return [] if node is None else sorted(node.words(prefix), key=lambda w: (-w[1], w[0]))[:limit]

    def __len__(self):
        return 1 + sum(len(c) for c in self.children.values())


text = open("data/story.txt").read().lower()
trie = Trie()
for word, n in Counter(re.findall(r"[a-z]+", text)).items():
    trie.insert(word, n)

print("nodes:", len(trie))
for prefix in ("s", "th", "wat", "clo", "xyz"):
    print(prefix, trie.complete(prefix))
