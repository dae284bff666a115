"""JSON of the values that calls exchange. They are short, and json.loads and json.dumps would cost more than the rest of a call."""

from __future__ import annotations

import json
from typing import Any, Optional

_decoder: Any = json.JSONDecoder()
_encode = json.JSONEncoder(ensure_ascii=False).encode
_encode_text = json.encoder.encode_basestring
_CONSTANTS = {None: "null", True: "true", False: "false"}
_EXACT = 1 << 53  # JSON numbers hold integers up to here exactly


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
    """Returns the JSON of None, a bool, an int or a str; None for any other value."""
    kind = type(value)
    if kind is str:
        return str(_encode_text(value))
    if kind is int:
        return repr(value) if -_EXACT <= value <= _EXACT else None
    return _CONSTANTS[value] if value is None or kind is bool else None


def is_plain(text: str) -> bool:
    """Whether no object in the JSON encodes a value that JSON lacks, that is, none has a name that begins with "$"."""
    return '"$' not in text and "\\u" not in text
