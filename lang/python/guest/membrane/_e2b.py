"""The forms of values that E2B's interpreter gives besides those of a notebook: a list or a dict as JSON, the columns of a
DataFrame as data. Sandboxes that E2B's clients create have them."""

import dataclasses
import datetime
import enum
import itertools
import json
import math
import sys
import uuid

from membrane import _display

MAX_ITEMS = 1_000_000  # per value
MAX_DEPTH = 254


def install():
    _display.more_forms = forms


def forms(value):
    """[(MIME type, JSON)]; as text, in which members keep their order."""
    if isinstance(value, (list, dict)):
        try:
            yield "application/json", json.dumps(_json_of(value, itertools.count(), 0), ensure_ascii=False)
        except TypeError:  # something in it cannot be represented
            pass
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame) and value.size <= MAX_ITEMS:
        columns = value.to_dict(orient="list").items()
        yield "e2b/data", json.dumps({str(name): [_cell_of(cell) for cell in cells] for name, cells in columns}, ensure_ascii=False)


def _cell_of(cell):
    try:
        return _json_of(cell, itertools.count(), 0)
    except TypeError:
        return str(cell)


def _json_of(value, items, depth):
    """What orjson makes of it, or a TypeError."""
    if next(items) >= MAX_ITEMS or depth > MAX_DEPTH:
        raise TypeError("it is too large")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, enum.Enum):
        return _json_of(value.value, items, depth + 1)
    if isinstance(value, int) and -1 << 63 <= value < 1 << 64:
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_json_of(each, items, depth + 1) for each in value]
    if isinstance(value, dict):
        return {_key_of(key): _json_of(each, items, depth + 1) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _json_of(getattr(value, field.name), items, depth + 1) for field in dataclasses.fields(value)}
    return _text_of(value) or _json_of_array(value, items, depth)


def _key_of(key):
    if isinstance(key, enum.Enum):
        return _key_of(key.value)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, (str, int, float)):
        return str(key)
    return _text_of(key) or _no_form(key)


def _text_of(value):
    """Of a time or a UUID. pandas' NaT has none."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)) and value == value:
        return value.isoformat()
    return str(value) if isinstance(value, uuid.UUID) else None


def _json_of_array(value, items, depth):
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.bool_, numpy.number)):
        return _json_of(value.tolist(), items, depth + 1)
    if isinstance(value, datetime.datetime):  # NaT
        return None
    return _no_form(value)


def _no_form(value):
    raise TypeError(f"{type(value).__name__} has no form in JSON")
