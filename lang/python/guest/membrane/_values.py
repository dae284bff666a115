"""Values between a program and its host: JSON, and for what JSON lacks an object whose only member's name begins with "$".

The same file serves both sides: the guest's, and the Python package's.
"""

import base64
import datetime
import importlib
import math
import sys


def _is_a(value, module, name):
    """Of a class whose module may not have been imported: then nothing is of it."""
    return module in sys.modules and isinstance(value, getattr(sys.modules[module], name))


_MOST_DEPTH = 200  # of arrays and objects in one another, which the engine's JSON may have


def to_wire(value, reference_to=None, depth=0):
    """The value as JSON has it. `reference_to` gives {"id":…, "type":…} for an object of the host's, else None. TypeError for
    what has no form, ValueError for what is too deep or too long. `depth`: of the arrays and objects around it."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value) if -(1 << 53) <= value <= 1 << 53 else {"$integer": str(int(value))}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$number": repr(float(value))}

    def inner(each, levels=1):
        if depth + levels > _MOST_DEPTH:
            raise ValueError(f"it holds itself, or is nested more than {_MOST_DEPTH} deep as JSON")
        return to_wire(each, reference_to, depth + levels)

    if isinstance(value, list):
        return [inner(each) for each in value]
    if isinstance(value, tuple):
        return {"$tuple": [inner(each, 2) for each in value]}
    if isinstance(value, dict):
        is_plain = all(isinstance(key, str) for key in value) and not (len(value) == 1 and next(iter(value)).startswith("$"))
        if is_plain:
            return {key: inner(each) for key, each in value.items()}
        return {"$map": [[inner(key, 3), inner(each, 3)] for key, each in value.items()]}
    reference = reference_to(value) if reference_to is not None else None
    if reference is not None:
        return {"$object": reference}
    return _to_wire_of_library(value, inner)


def _to_wire_of_library(value, inner):
    if isinstance(value, (set, frozenset)):
        return {"$set": [inner(each, 2) for each in sorted(value, key=repr)]}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return {"$time": value.isoformat()} if value == value else None  # pandas' NaT, which pandas' own JSON has as null, too
    if isinstance(value, datetime.timedelta):
        return {"$seconds": value.total_seconds()}
    if _is_a(value, "decimal", "Decimal"):
        return {"$decimal": str(value)}
    if _is_a(value, "uuid", "UUID"):
        return {"$uuid": str(value)}
    if hasattr(value, "tolist") and type(value).__module__.partition(".")[0] == "numpy":
        return inner(_of_numpy(value), 0)
    if type(value).__name__ == "NAType" and type(value).__module__.partition(".")[0] == "pandas":
        return None
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {name: inner(getattr(value, name)) for name in value.__dataclass_fields__}
    name = type(value).__name__
    article = "an" if name[:1] in "aeiouAEIOU" else "a"
    raise TypeError(f"{article} {name} cannot pass: give text, numbers, bytes, times, lists, dicts and sets of these")


def _of_numpy(value):
    """An array or scalar as Python has it. numpy makes integers of times that are finer than a microsecond."""
    made = value
    if value.dtype.kind in "Mm":
        made = value.astype(value.dtype.str[1:2] + "8[us]") if value.dtype.str[4:-1] in ("ns", "ps", "fs", "as") else value
        if ((made != value) & (value == value)).any():
            raise TypeError(f"a time finer than a microsecond cannot pass: round it, as by values.astype('{made.dtype.str[1:]}')")
        if any(type(each) is int for each in made.ravel().tolist()):
            raise TypeError("a time out of the range of Python's datetime, or in months or years, cannot pass: give it as text or a number")
    made = made.tolist()
    if type(made) is type(value):
        raise TypeError(f"a {type(value).__name__} cannot pass: give a number of Python, as float(value)")
    return made


def _time_of(text):
    if "T" in text or " " in text:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return datetime.time.fromisoformat(text) if ":" in text else datetime.date.fromisoformat(text)


_MOST_ALIKE = 100  # values with one hash: a search among them takes time linear in their number, which no limit counts


def _told_apart(values):
    """The values, as they may go into a set or dict. What is not text has a hash that whoever sent it can choose."""
    alike = {}
    for each in values:
        if not isinstance(each, str):
            number = hash(each)
            alike[number] = alike.get(number, 0) + 1
            if alike[number] > _MOST_ALIKE:
                raise ValueError("too many values of a set or dict have the same hash")
    return values


def _frozen(value):
    """Of a set or a dict's keys, where each set was a frozen one."""
    if isinstance(value, tuple):
        return tuple([_frozen(each) for each in value])
    return frozenset(value) if isinstance(value, set) else value


def _map_of(entries, inner):
    keys = _told_apart([_frozen(inner(key)) for key, _ in entries])
    return dict(zip(keys, [inner(each) for _, each in entries]))


_OF_WIRE = {
    "$integer": lambda text, _: int(text),
    "$number": lambda text, _: float(text),
    "$tuple": lambda values, inner: tuple(inner(each) for each in values),
    "$map": _map_of,
    "$set": lambda values, inner: set(_told_apart([_frozen(inner(each)) for each in values])),
    "$bytes": lambda text, _: base64.b64decode(text),
    "$time": lambda text, _: _time_of(text),
    "$seconds": lambda seconds, _: datetime.timedelta(seconds=seconds),
    "$decimal": lambda text, _: importlib.import_module("decimal").Decimal(text),
    "$uuid": lambda text, _: importlib.import_module("uuid").UUID(text),
}


def of_wire(value, object_of=None):
    """What the JSON stands for. `object_of` gives the object of a reference."""
    if isinstance(value, list):
        return [of_wire(each, object_of) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (name, content), = value.items()
        if name == "$object" and object_of is not None:
            return object_of(content)
        if name in _OF_WIRE:
            return _OF_WIRE[name](content, lambda each: of_wire(each, object_of))
    return {key: of_wire(each, object_of) for key, each in value.items()}
