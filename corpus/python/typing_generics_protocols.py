from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Optional, TypeVar, Union, get_args, get_type_hints, overload, runtime_checkable, Protocol

T = TypeVar("T")
U = TypeVar("U")


@runtime_checkable
class Shape(Protocol):
    def area(self) -> float: ...


class Square:
    def __init__(self, side: float) -> None:
        self.side = side

    def area(self) -> float:
        return self.side**2


class Result[V]:
    def __init__(self, value: V | None = None, error: str | None = None):
        self.value, self.error = value, error

    def then[W](self, f: Callable[[V], Result[W]]) -> Result[W]:
        return f(self.value) if self.error is None else Result(error=self.error)

    def __repr__(self):
        return f"Ok({self.value!r})" if self.error is None else f"Err({self.error})"


def parse(text: str) -> Result[int]:
    return Result(int(text)) if text.lstrip("-").isdigit() else Result(error=f"{text!r} is no number")


def half(n: int) -> Result[int]:
    return Result(n // 2) if n % 2 == 0 else Result(error=f"{n} is odd")


def group_by(items: Iterable[T], key: Callable[[T], U]) -> dict[U, list[T]]:
    out: dict[U, list[T]] = {}
    for item in items:
        out.setdefault(key(item), []).append(item)
    return out


def send(to: str, *, level: Literal["info", "error"] = "info", extra: Optional[Mapping[str, Any]] = None) -> Union[str, bytes]:
    return f"{level}: {to} {dict(extra or {})}"


for text in ("84", "7", "x", "-4"):
    print(text, parse(text).then(half).then(half))
print(group_by(range(10), lambda n: "even" if n % 2 == 0 else "odd"))
print(isinstance(Square(2), Shape), isinstance(3, Shape))
print(get_type_hints(send)["level"], get_args(get_type_hints(send)["level"]))
print(inspect.signature(send))
print(send("ops", level="error", extra={"a": 1}))
type Pair[X] = tuple[X, X]
print(Pair.__name__, Pair.__value__)
