"""Spans and metrics of sessions, through OpenTelemetry's API and the providers that the application has set.

Unless the application has imported that API, nothing is imported or done. Values of attributes are outcomes, numbers, and names that the
embedder chose (functions, object types, exceptions), never anything that a program chose.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import threading
import time
import weakref
from collections import Counter
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Set, Tuple

from ._version import VERSION

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_FUEL = tuple(digit * 10**power for power in range(5, 13) for digit in (1, 3))
_NOT_ERRORS = ("ok", "waiting", "frozen")

_pools: "weakref.WeakSet[Any]" = weakref.WeakSet()
_numbers = itertools.count()
_open: Set[Tuple[int, str]] = set()  # sessions, with their languages; a set's operations are atomic, even during garbage collection
_instruments: Optional["_Instruments"] = None
_lock = threading.Lock()


class _Instruments:
    """The tracer and the instruments, which use the current providers, also those that are set later."""

    def __init__(self) -> None:
        trace: Any = importlib.import_module("opentelemetry.trace")
        metrics: Any = importlib.import_module("opentelemetry.metrics")
        self.trace = trace
        self.tracer = trace.get_tracer("membrane", VERSION)
        meter = metrics.get_meter("membrane", VERSION)
        self.runs = meter.create_counter("membrane.session.runs", "{run}", "Turns of sessions that ended, by outcome")
        self.duration = _histogram(meter, "membrane.session.run.duration", "s", "Duration of turns", _SECONDS)
        self.fuel = _histogram(meter, "membrane.session.run.fuel", "{fuel}", "Fuel that turns used", _FUEL)
        self.calls = _histogram(meter, "membrane.function.duration", "s", "Duration of the host's functions", _SECONDS)

        def sessions(_: Any) -> Iterator[Any]:
            for language, count in Counter(language for _, language in list(_open)).items():
                yield metrics.Observation(count, {"membrane.language": language})

        def pooled(_: Any) -> Iterator[Any]:
            counts: Counter[Tuple[str, str]] = Counter()
            with _lock:
                pools = list(_pools)
            for pool in pools:
                for state, count in zip(("idle", "used"), pool.counts()):
                    counts[pool.language, state] += count
            for (language, state), count in counts.items():
                yield metrics.Observation(count, {"membrane.language": language, "membrane.pool.session.state": state})

        meter.create_observable_up_down_counter("membrane.session.count", [sessions], "{session}", "Open sessions")
        meter.create_observable_up_down_counter("membrane.pool.session.count", [pooled], "{session}", "Sessions of pools")
        self.waits = _histogram(meter, "membrane.pool.session.wait_time", "s", "Time that callers waited for a session", _SECONDS)


def _histogram(meter: Any, name: str, unit: str, description: str, bounds: Tuple[float, ...]) -> Any:
    try:
        return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)
    except TypeError:  # an older API without bounds
        return meter.create_histogram(name, unit, description)


def _used() -> Optional[_Instruments]:
    """Returns None if the application has not imported OpenTelemetry."""
    global _instruments
    if _instruments is None and "opentelemetry.trace" in sys.modules:
        with _lock:
            if _instruments is None:
                try:
                    _instruments = _Instruments()
                except ImportError:
                    return None
    return _instruments


def opened(session: Any, language: str) -> Callable[[], Any]:
    """Counts a session as open until the returned function is called or the session is garbage."""
    key = (next(_numbers), language)
    _open.add(key)
    _used()
    closed = weakref.finalize(session, _open.discard, key)
    closed.atexit = False
    return closed


def pool_opened(pool: Any) -> None:
    """pool.counts() returns how many sessions are ready, and how many are in use."""
    with _lock:
        _pools.add(pool)


def took(language: str, begun_at: float) -> None:
    """A session of a pool was taken. begun_at: when it was asked for, by time.perf_counter()."""
    if (used := _used()) is not None:
        used.waits.record(time.perf_counter() - begun_at, {"membrane.language": language})


def turn(operation: str, language: str, act: Callable[[], Any]) -> Any:
    """Calls act in a span, and returns its result, which has outcome, fuel_used and report. operation: "run", "start" or "resume"."""
    used = _used()
    if used is None:
        return act()
    begun_at = time.perf_counter()
    attributes = {"membrane.language": language}
    with used.tracer.start_as_current_span(
        f"{operation} {language}", attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            result = act()
        except BaseException as error:
            _failed(used, span, type(error).__qualname__)
            raise
        if span.is_recording():
            _describe(used, span, result)
        attributes["membrane.outcome"] = result.outcome
        used.runs.add(1, attributes)
        used.duration.record(time.perf_counter() - begun_at, attributes)
        used.fuel.record(result.fuel_used, attributes)
        return result


def _describe(used: _Instruments, span: Any, result: Any) -> None:
    report: Mapping[str, Any] = result.report
    described: Dict[str, Any] = {
        "membrane.outcome": result.outcome,
        "membrane.fuel": result.fuel_used,
        "membrane.memory.peak": report.get("memory_peak_bytes", 0),
        "membrane.host_calls": len(report.get("host_calls", ())) + report.get("host_calls_dropped", 0),
    }
    span.set_attributes(described)
    if result.outcome not in _NOT_ERRORS:
        _failed(used, span, result.outcome)


def _failed(used: _Instruments, span: Any, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(used.trace.Status(used.trace.StatusCode.ERROR))


class Calling:
    """The span of one call of a function, from here to end(). current() makes it the current span in a `with` block."""

    def __init__(self, used: _Instruments, name: Optional[str]) -> None:
        self._used, self._begun_at = used, time.perf_counter()
        self._attributes = {"code.function.name": name} if name else {}
        self._span = used.tracer.start_span(f"call {name}" if name else "call", attributes=self._attributes)

    def current(self) -> Any:
        return self._used.trace.use_span(
            self._span, end_on_exit=False, record_exception=False, set_status_on_exception=False
        )

    def end(self, error: Optional[BaseException] = None, *, waits: bool = False) -> None:
        if waits:
            self._span.set_attribute("membrane.outcome", "waiting")
        if error is not None:
            _failed(self._used, self._span, type(error).__qualname__)
            self._attributes["error.type"] = type(error).__qualname__
        self._span.end()
        if not waits:
            self._used.calls.record(time.perf_counter() - self._begun_at, self._attributes)


class _NoCalling:
    """Used without OpenTelemetry."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def current(self) -> Any:
        return self

    def end(self, error: Optional[BaseException] = None, *, waits: bool = False) -> None:
        pass


_no_calling = _NoCalling()


def calling(name: Optional[str]) -> Any:
    """Starts the span of a call. name: in the embedder's registry; None if the program called a name that is not in it."""
    used = _used()
    return _no_calling if used is None else Calling(used, name)
