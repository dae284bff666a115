"""The sources of a session's time and randomness: the clock, timezone, sleep and entropy of Session() and load()."""

from __future__ import annotations

import datetime
import inspect
from typing import Any, Awaitable, Callable, Coroutine, Dict, Optional, Union

BY_DEFAULT, VIRTUAL, REAL, ASKED = range(4)
Moment = Union[datetime.datetime, int, float]
Clock = Union[Moment, str, Callable[[], Moment], None]
Zone = Union[str, datetime.tzinfo, None]
Sleep = Union[str, Callable[[float], Any], None]
Wait = Callable[[Coroutine[Any, Any, None], Callable[[], bool]], Any]  # awaits, until the turn must end
Entropy = Union[int, bytes, str, Callable[[int], bytes], None]

_VIRTUAL_START_MS = 946_684_800_000  # the start of a policy's virtual clock: 2000-01-01
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def words_of(clock: Clock, timezone: Zone, sleep: Sleep, entropy: Entropy, wait: Wait) -> Dict[str, Any]:
    """Returns the sources in the form that the engine takes. wait: awaits a sleep that is a coroutine."""
    return {
        **_clock_words(clock),
        "timezone": _zone_name(timezone),
        **_sleep_words(sleep, wait),
        **_entropy_words(entropy),
    }


def _wrong(name: str, value: Any, choices: str) -> Exception:
    kind = ValueError if isinstance(value, (str, int)) and not isinstance(value, bool) else TypeError
    return kind(f"{name} must be {choices}, not {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# -- clock


def _clock_words(clock: Clock) -> Dict[str, Any]:
    words: Dict[str, Any] = {"clock": BY_DEFAULT, "start_ms": 0, "now": None}
    if clock is None:
        return words
    if clock == "real":
        return {**words, "clock": REAL}
    if clock == "virtual":
        return {**words, "clock": VIRTUAL, "start_ms": _VIRTUAL_START_MS}
    if callable(clock):
        return {**words, "clock": ASKED, "now": lambda: _asked_ns(clock)}
    if isinstance(clock, datetime.datetime) and clock.tzinfo is None:
        clock = clock.replace(tzinfo=datetime.timezone.utc)
    if not isinstance(clock, datetime.datetime) and not _is_number(clock):
        raise _wrong("clock", clock, "'real', 'virtual', a datetime, seconds since 1970, or a function that returns one of them")
    return {**words, "clock": VIRTUAL, "start_ms": _ns_of(clock) // 1_000_000}


def _asked_ns(clock: Callable[[], Moment]) -> int:
    moment = clock()
    if isinstance(moment, datetime.datetime) and moment.tzinfo is None:
        raise ValueError("a clock's datetime needs a tzinfo: datetime.now(timezone.utc)")
    if not isinstance(moment, datetime.datetime) and not _is_number(moment):
        raise TypeError(f"a clock must return a datetime or seconds since 1970, not {moment!r}")
    return _ns_of(moment)


def _ns_of(moment: Any) -> int:
    if isinstance(moment, datetime.datetime):
        return (moment - _EPOCH) // datetime.timedelta(microseconds=1) * 1000
    return int(moment) * 1_000_000_000 if isinstance(moment, int) else round(moment * 1e9)


# -- time zone


def _zone_name(zone: Zone) -> str:
    if zone is None:
        return ""
    if zone == "":
        raise ValueError("timezone must be a name such as 'Europe/Berlin' or an offset such as '+02:00', not ''; 'UTC' is UTC")
    if isinstance(zone, str):
        return zone
    key = getattr(zone, "key", None)  # if it is a ZoneInfo
    if isinstance(key, str):
        return key
    if not isinstance(zone, datetime.timezone):
        raise TypeError(f"timezone must be a name such as 'Europe/Berlin', an offset such as '+02:00', a ZoneInfo or a timezone, not {zone!r}")
    offset = zone.utcoffset(None)
    minutes, rest = divmod(abs(offset), datetime.timedelta(minutes=1))
    if rest:
        raise ValueError(f"the offset of timezone must be whole minutes, not {offset}")
    return f"{'-' if offset < datetime.timedelta() else '+'}{minutes // 60:02}:{minutes % 60:02}"


# -- sleep


def _sleep_words(sleep: Sleep, wait: Wait) -> Dict[str, Any]:
    words: Dict[str, Any] = {"sleep": BY_DEFAULT, "pass": None}
    if sleep is None:
        return words
    if isinstance(sleep, str) and sleep in ("real", "virtual"):
        return {**words, "sleep": REAL if sleep == "real" else VIRTUAL}
    if not callable(sleep):
        raise _wrong("sleep", sleep, "'real', 'virtual', or a function of seconds")
    return {**words, "sleep": ASKED, "pass": lambda ns, must_stop: _let_pass(sleep, ns, must_stop, wait)}


def _let_pass(sleep: Callable[[float], Any], ns: int, must_stop: Callable[[], bool], wait: Wait) -> None:
    passing = sleep(ns / 1e9)
    if not inspect.isawaitable(passing):
        return
    wait(_passed(passing), must_stop)


async def _passed(passing: Awaitable[Any]) -> None:
    await passing


# -- entropy


def _entropy_words(entropy: Entropy) -> Dict[str, Any]:
    words: Dict[str, Any] = {"entropy": BY_DEFAULT, "seed": 0, "seed_bytes": b"", "fill": None}
    if entropy is None:
        return words
    if entropy == "real":
        return {**words, "entropy": REAL}
    if isinstance(entropy, (bytes, bytearray)) and entropy:
        return {**words, "entropy": VIRTUAL, "seed_bytes": bytes(entropy)}
    if isinstance(entropy, int) and not isinstance(entropy, bool) and 0 <= entropy < 1 << 64:
        return {**words, "entropy": VIRTUAL, "seed": entropy}
    if not callable(entropy):
        raise _wrong("entropy", entropy, "'real', a seed (an int from 0 to 2**64 - 1, or bytes), or a function of a number of bytes")
    return {**words, "entropy": ASKED, "fill": lambda count: _asked_bytes(entropy, count)}


def _asked_bytes(entropy: Callable[[int], bytes], count: int) -> bytes:
    given: Optional[bytes] = entropy(count)
    if not isinstance(given, (bytes, bytearray)) or len(given) != count:
        raise ValueError(f"entropy was asked for {count} bytes, but returned {given!r:.60}")
    return bytes(given)
