from __future__ import annotations

from collections import OrderedDict
from typing import Generic, Hashable, Iterator, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """Keeps the most recently used items."""

    def __init__(self, capacity: int) -> None:
        if capacity <= 0:
            raise ValueError("capacity must be positive")
        self._capacity = capacity
        self._items: OrderedDict[K, V] = OrderedDict()
        self.hits = self.misses = 0

    def __getitem__(self, key: K) -> V:
        try:
            self._items.move_to_end(key)
        except KeyError:
            self.misses += 1
            raise KeyError(f"{key!r} is not cached") from None
        self.hits += 1
        return self._items[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        while len(self._items) > self._capacity:
            old, _ = self._items.popitem(last=False)
            print("evicted", old)

    def __iter__(self) -> Iterator[K]:
        return reversed(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __repr__(self) -> str:
        return f"LRUCache({dict(self._items)!r})"


class Node:
    __slots__ = ("value", "next")

    def __init__(self, value, next=None):
        self.value, self.next = value, next


def reverse(head):
    previous = None
    while head:
        head.next, previous, head = previous, head, head.next
    return previous


cache: LRUCache[str, int] = LRUCache(3)
for i, key in enumerate("abcad"):
    cache[key] = i
print(cache, list(cache))
for key in ("a", "b", "d"):
    try:
        print(key, cache[key])
    except KeyError as e:
        print("miss:", e)
print("hits", cache.hits, "misses", cache.misses, "'c' cached:", "c" in cache)
try:
    LRUCache(0)
except ValueError as e:
    print("error:", e)

head = Node(1, Node(2, Node(3)))
node = reverse(head)
while node:
    print(node.value, end=" ")
    node = node.next
print()
