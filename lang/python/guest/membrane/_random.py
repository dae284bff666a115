"""The generators that all of a program shares (`random`, numpy's global one), and who seeded them.

One that the program seeded is its state: forks and steps back keep it as it was. One that nobody seeded stands for
entropy: it is seeded from the host wherever two runs would otherwise draw the same numbers.
"""

import _random
import functools
import random
import sys

from membrane import _imports

_seeded = set()  # "random", "numpy": seeded by the program


class _Shared(random.Random):
    """The generator behind the functions of `random`, which notices when it is seeded."""

    def seed(self, a=None, version=2):
        super().seed(a, version)
        _note(self is random._inst, "random", a is not None)

    def setstate(self, state):
        super().setstate(state)
        _note(self is random._inst, "random", True)


def install():
    random._inst.__class__ = _Shared
    random.seed = random._inst.seed
    random.setstate = random._inst.setstate
    if "numpy.random" in sys.modules:
        _watch_numpy(sys.modules["numpy.random"])
    else:
        _imports.when_imported("numpy.random", _watch_numpy)


def forget():
    """What was seeded so far was not seeded by the program: by what was imported for a template, say."""
    _seeded.clear()


def reseed(entropy):
    """Seeds what the program did not seed itself. `entropy`: bytes, a multiple of four."""
    if "random" not in _seeded:
        _random.Random.seed(random._inst, int.from_bytes(entropy, "big"))
        random._inst.gauss_next = None
    if "numpy" not in _seeded and "numpy.random" in sys.modules:
        _reseed_numpy(sys.modules["numpy.random"], entropy)


def _reseed_numpy(module, entropy):
    """By a number of 32 bits, and from a place of its stream that another 8 bits choose: seeding it by more, as each first turn
    would, takes four times as long."""
    getattr(module.seed, "__wrapped__", module.seed)(int.from_bytes(entropy[:4], "little"))
    module.mtrand._rand._bit_generator.random_raw(entropy[4], output=False)


def _note(is_shared, name, by_program):
    if is_shared:
        (_seeded.add if by_program else _seeded.discard)(name)


def _watch_numpy(module):

    def watched(function, is_seed):

        @functools.wraps(function)
        def call(*args, **named):
            result = function(*args, **named)
            given = (*args, *named.values())
            _note(True, "numpy", not is_seed or any(each is not None for each in given))
            return result

        return call

    for place in (module, sys.modules.get("numpy.random.mtrand")):
        for name in ("seed", "set_state"):
            function = getattr(place, name, None)
            if function is not None and not hasattr(function, "__wrapped__"):
                setattr(place, name, watched(function, name == "seed"))
