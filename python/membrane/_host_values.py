"""Values of this program that a session's programs get in another form, and what is said of those that have none."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import pathlib
from typing import Any, Callable

_VIEWS = (range, collections.abc.KeysView, collections.abc.ValuesView, collections.abc.ItemsView)
_PLAIN = (str, int, float, bytes, bytearray, memoryview)


class NoForm(TypeError):
    """A value that cannot pass. The program gets it as a TypeError, and the embedder, who has to mend it, as a warning, too."""


NoForm.__name__ = "TypeError"  # by which a program gets it


def with_article(word: str) -> str:
    return f"{'an' if word[:1] in 'aeiouAEIOU' else 'a'} {word}"


def to_wire(value: Any, pass_on: Callable[[Any], Any], subject: str) -> Any:
    """What pass_on() makes of the value, after it has been brought into a form that passes where need be. subject: "price() returned", of
    the NoForm that is raised where there is none, and of the ValueError of a value that is too deep or too long."""
    try:
        return _passed(value, pass_on)
    except _Unknown as unknown:
        whole, (found, _, advice) = with_article(type(value).__name__), str(unknown).partition(" cannot pass: ")
        said = found if found == whole else f"{whole} with {found} in it"
        raise NoForm(f"{subject} {said}, which cannot pass to a program: {_MORE_FORMS if advice == _FORMS else advice}") from None
    except RecursionError:
        raise ValueError(f"{subject} a value that cannot pass: it holds itself, or is nested too deep") from None
    except ValueError as error:
        raise ValueError(f"{subject} a value that cannot pass: {error}") from error


def _passed(value: Any, pass_on: Callable[[Any], Any]) -> Any:
    try:
        return pass_on(value)
    except TypeError:
        return pass_on(_plain(value, pass_on))


_FORMS = "give text, numbers, bytes, times, lists, dicts and sets of these"  # as _values says it
_MORE_FORMS = f"{_FORMS}, a dataclass, a model of pydantic, or a membrane.Object, whose methods programs call"


class _Unknown(Exception):
    """Says which value has no form, and what to give."""


def _plain(value: Any, pass_on: Callable[[Any], Any]) -> Any:
    def inner(each: Any) -> Any:
        return _plain(each, pass_on)

    if isinstance(value, enum.Enum):
        return inner(value.value)
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, pathlib.PurePath):
        return str(value)
    if isinstance(value, tuple):
        return tuple(inner(each) for each in value)
    if isinstance(value, dict):
        return {inner(key): inner(each) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return _set_of([inner(each) for each in value])
    if isinstance(value, (list, *_VIEWS)):
        return [inner(each) for each in value]
    if not isinstance(value, type):
        if callable(getattr(type(value), "model_dump", None)):
            return inner(value.model_dump())
        if dataclasses.is_dataclass(value):
            return {each.name: inner(getattr(value, each.name)) for each in dataclasses.fields(value)}
        if hasattr(value, "tolist") and type(value).__module__.partition(".")[0] == "numpy" and value.dtype.hasobject:
            return inner(value.tolist())
    try:
        pass_on(value)
    except TypeError as error:
        raise _Unknown(str(error)) from None
    return value


def _set_of(values: list[Any]) -> Any:
    try:
        return set(values)
    except TypeError:  # of what became dicts
        return values
