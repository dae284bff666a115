"""A dictionary of headers."""

from collections.abc import Mapping, MutableMapping


class CaseInsensitiveDict(MutableMapping):
    """Finds names in any case, and keeps them as they were given last."""

    def __init__(self, data=None, **more):
        self._items = {}
        self.update(data or {}, **more)

    def __setitem__(self, name, value):
        self._items[name.lower()] = (name, value)

    def __getitem__(self, name):
        return self._items[name.lower()][1]

    def __delitem__(self, name):
        del self._items[name.lower()]

    def __iter__(self):
        return (name for name, _ in self._items.values())

    def __len__(self):
        return len(self._items)

    def lower_items(self):
        return ((lower, value) for lower, (_, value) in self._items.items())

    def copy(self):
        return CaseInsensitiveDict(self._items.values())

    def __eq__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        return dict(self.lower_items()) == dict(CaseInsensitiveDict(other).lower_items())

    def __repr__(self):
        return str(dict(self.items()))
