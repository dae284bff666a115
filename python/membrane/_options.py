"""The keyword arguments of sessions, for all that hand them on: their types, and what is said of one that there is not."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from typing import Any, Callable, Iterable, List, Mapping, Optional, TypedDict, TypeVar, Union, cast

from ._agents import Approve, Ask, Complete, Flows, Model, Receipts
from ._check import TypeCheck
from ._functions import FunctionCall, Functions, Modules
from ._sources import Clock, Entropy, Sleep, Zone

PolicyLike = Union[Mapping[str, Any], str, "os.PathLike[str]", None]
F = TypeVar("F", bound=Callable[..., Any])


class LoadOptions(TypedDict, total=False):
    """Those of membrane.load()."""

    allow: Iterable[str]
    limits: Optional[Mapping[str, Any]]
    policy: PolicyLike
    functions: Functions
    modules: Optional[Modules]
    inputs: Optional[Mapping[str, Any]]
    gate: Optional[Callable[[FunctionCall], Any]]
    type_check: Union[bool, TypeCheck]
    on_stdout: Optional[Callable[[str], None]]
    on_stderr: Optional[Callable[[str], None]]
    clock: Clock
    timezone: Zone
    sleep: Sleep
    entropy: Entropy
    approve: Optional[Approve]
    flows: Optional[Flows]
    model: Union[Model, Complete, None]
    ask: Optional[Ask]
    isolated: bool
    accepted_missing_walls: Iterable[str]


class SessionOptions(LoadOptions, total=False):
    """Those of Session()."""

    idle_timeout_s: Optional[float]
    lifetime_s: Optional[float]
    receipts: Optional[Receipts]


_INSTEAD = {
    "timeout": 'limits={"wall": "5 s"} bounds the time of a turn',
    "memory": 'limits={"memory": "64 MiB"} bounds the memory of a turn',
    "fuel": 'limits={"fuel": 1e9} bounds the instructions of a turn',
    "seed": "entropy= takes a seed",
    "packages": 'policy={"packages": {"python": ["rich"]}} brings packages',
    "tools": "functions= are what programs call",
    "receipts": "what is sealed goes from its beginning, turn by turn, and is not loaded from bytes",
}


def check_names(of: str, given: Iterable[str], known: Iterable[str]) -> None:
    """A TypeError where a name is none of those that are known. of: "Session()"."""
    known = list(known)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            word = next((word for word in _INSTEAD if name.lower().startswith(word)), "")
            instead = f": {_INSTEAD[word]}." if word else f": did you mean {near[0]}?" if near else "."
            raise TypeError(f"{of} has no argument {name!r}{instead} It has {', '.join(known)}.")


def get_names(options: Any) -> Iterable[str]:
    """Of one of the classes above, in the order of their text."""
    return tuple(options.__annotations__)


def only_known(of: str) -> Callable[[F], F]:
    """Of a function: as it is, but for what it says of a keyword argument that it does not have."""

    def decorated(function: F) -> F:
        known = [name for name in inspect.signature(function).parameters if name != "self"]

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if not kwargs.keys() <= names:
                check_names(of, kwargs, known)
            return function(*args, **kwargs)

        names = frozenset(known)
        return cast(F, checked)

    return decorated


WALLS = (
    "user_namespace", "pid_namespace", "mount_namespace", "net_namespace", "ipc_namespace", "uts_namespace", "cgroup_namespace",
    "capabilities", "no_new_privileges", "system_calls", "resource_limits", "descriptors", "control_group", "parent_death",
)  # fmt: skip


def check_functions(**given: Any) -> None:
    """A TypeError where an argument is neither None nor a function."""
    for name, function in given.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name} is a function, not {function!r}")


def check_seconds(name: str, given: Any) -> None:
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise TypeError(f"{name} is a number of seconds, or None, not {given!r}")
    if not given >= 0:
        raise ValueError(f"{name} is a number of seconds from 0 on, or None, not {given!r}")


def check_count(name: str, given: Any) -> None:
    if given is not None and (isinstance(given, bool) or not isinstance(given, int)):
        raise TypeError(f"{name} is a whole number, or None, not {given!r}")


def walls_of(accepted_missing_walls: Any) -> List[str]:
    """The names, each of which is one of WALLS."""
    is_list = isinstance(accepted_missing_walls, Iterable) and not isinstance(accepted_missing_walls, (bytes, Mapping))
    names = [accepted_missing_walls] if isinstance(accepted_missing_walls, str) else list(accepted_missing_walls) if is_list else []
    if not is_list or not all(isinstance(name, str) for name in names):
        raise TypeError(f'accepted_missing_walls are a list of names, as ["user_namespace"], not {accepted_missing_walls!r}')
    for name in names:
        if name not in WALLS:
            near = difflib.get_close_matches(name, WALLS, 1)
            raise ValueError(f"there is no wall {name!r}{f': did you mean {near[0]}?' if near else '.'} There are {', '.join(WALLS)}.")
    return names


def check_language(of: str, language: Any) -> None:
    if not isinstance(language, str):
        raise TypeError(f'{of} is given the name of a language, as "python", not {language!r}; all else by name')
