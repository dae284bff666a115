"""JSON of the values that calls exchange, which are short: json.loads and json.dumps would cost more than the work on them."""

from __future__ import annotations

import json
from typing import Any, Optional

_decoder: Any = json.JSONDecoder()
_encode = json.JSONEncoder(ensure_ascii=False).encode
_encode_text = json.encoder.encode_basestring
_CONSTANTS = {None: "null", True: "true", False: "false"}
_EXACT = 1 << 53  # integers up to here are numbers of JSON


def loads(text: str) -> Any:
    """As json.loads(text)."""
    try:
        value, end = _decoder.scan_once(text, 0)
    except StopIteration:
        end = -1
    return value if end == len(text) else _decoder.decode(text)


def dumps(value: Any) -> str:
    """As json.dumps(value, ensure_ascii=False)."""
    return _encode(value)


def dumps_plain(value: Any) -> Optional[str]:
    """JSON of a value that stands for itself: None, a truth value, an integer, a text. None for every other value."""
    kind = type(value)
    if kind is str:
        return str(_encode_text(value))
    if kind is int:
        return repr(value) if -_EXACT <= value <= _EXACT else None
    return _CONSTANTS[value] if value is None or kind is bool else None


def is_plain(text: str) -> bool:
    """Whether no object of the JSON stands for a value that JSON lacks: none has a name that begins with "$"."""
    return '"$' not in text and "\\u" not in text
