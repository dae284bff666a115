"""Reads server-sent events as they arrive (WHATWG HTML, section 9.2). Every split of the same bytes gives the same events."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

MOST_CHARACTERS = 256 << 20  # of an incomplete event


@dataclass(frozen=True)
class ServerEvent:
    kind: str
    data: str
    id: str


class TooLong(Exception):
    """An event has more than MOST_CHARACTERS."""


class EventParser:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line_pieces: list[str] = []
        self._after_cr = False  # if an LF is next, it belongs to this CR
        self._is_first = True  # a byte order mark may follow
        self._kind = ""
        self._data: list[str] = []
        self._size = 0
        self._id = ""

    def feed(self, data: bytes) -> list[ServerEvent]:
        text = self._decoder.decode(data)
        if not text:
            return []
        if self._is_first:
            self._is_first = False
            text = text[1:] if text[0] == "\ufeff" else text
        if self._after_cr and text.startswith("\n"):
            text = text[1:]
        self._after_cr = text.endswith("\r") if text else False
        self._size += len(text)
        if self._size > MOST_CHARACTERS:
            raise TooLong
        *ends, rest = re.split(r"\r\n|\r|\n", text)
        events: list[ServerEvent] = []
        for end in ends:
            line = "".join([*self._line_pieces, end])
            self._line_pieces.clear()
            events += self._line(line)
        if rest:
            self._line_pieces.append(rest)
        return events

    def _line(self, line: str) -> list[ServerEvent]:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        return []

    def _dispatch(self) -> list[ServerEvent]:
        kind, data = self._kind or "message", self._data
        self._kind, self._data, self._size = "", [], 0
        return [ServerEvent(kind, "\n".join(data), self._id)] if data else []
