"""Sessions that are made ahead, and a bound on how many there are at once."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import queue
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Generator, Iterator, Optional, Set, Tuple

from . import _telemetry
from ._embedded import Session
from ._embedded_async import AsyncSession
from ._errors import BusyError, MembraneError
from ._options import SessionOptions, check_count, check_language, check_names, check_seconds, get_names

if TYPE_CHECKING:
    from typing_extensions import Unpack

PATIENCE_S = 30.0  # how long to wait for a session by default
_USUAL_SIZE = 4
_FILL, _STOP = object(), object()
_threads: Dict[threading.Thread, "queue.SimpleQueue[object]"] = {}
_exits = threading.Event()


@atexit.register
def _stop_threads() -> None:
    """Python ends daemon threads at any point, and those in the engine must not be."""
    _exits.set()
    for thread, asked in list(_threads.items()):
        asked.put(_STOP)
        thread.join()


def _check(language: Any, options: Any, **counts: Any) -> None:
    if isinstance(language, int):
        raise TypeError(f"give the number of ready sessions by name: size={language}")
    check_language("a pool", language)
    for name, given in counts.items():
        check_count(name, given)
    check_names("a pool", options, ("language", *counts, *get_names(SessionOptions)))


def _start_thread(pool: Pool, asked: "queue.SimpleQueue[object]") -> None:
    thread = threading.Thread(target=_fill, args=(weakref.ref(pool), asked), name="membrane-pool", daemon=True)
    _threads[thread] = asked
    thread.start()


class Pool:
    """Sessions of one kind, which a thread makes ahead.

    size: how many are kept ready; None is 4, or max_sessions if that is less. max_sessions: how many may be in use at once; None is any
    number. options: of Session, for each of them. A session is like any new one: nothing has run in it, it has all of its fuel, its
    inputs are as they were when it was made, and idle_timeout_s and lifetime_s start when it is taken. Sessions share nothing but the
    functions and objects that the options name. A session that closed or ended is not used again, and its place is free. A fork takes
    a place, too, and is refused with a BusyError if none is free.

    Threads: any. A `with` block closes the pool at its end.
    """

    def __init__(
        self, language: str = "python", *, size: Optional[int] = None, max_sessions: Optional[int] = None, **options: Unpack[SessionOptions]
    ) -> None:
        _check(language, options, size=size, max_sessions=max_sessions)
        for name in ("idle_timeout_s", "lifetime_s"):
            check_seconds(name, options.get(name))
        if size is None:
            size = _USUAL_SIZE if max_sessions is None else min(_USUAL_SIZE, max_sessions)
        if size < 0 or (max_sessions is not None and max_sessions < 1):
            raise ValueError("a pool has a size of at least 0, and max_sessions of at least 1")
        if max_sessions is not None and size > max_sessions:
            raise ValueError(f"size={size} sessions would be kept ready, but only max_sessions={max_sessions} can be used: give a size up to that")
        self.language, self.size, self.max_sessions = language, size, max_sessions
        self._options: Dict[str, Any] = dict(options)
        self._times = {name: self._options.pop(name, None) for name in ("idle_timeout_s", "lifetime_s")}
        self._lock = threading.Lock()
        self._ready: Deque[Session] = deque()
        self._used: Set[object] = set()  # the token of each session in use
        self._waiting: Deque[concurrent.futures.Future[object]] = deque()
        self._is_closed = False
        self._asked: queue.SimpleQueue[object] = queue.SimpleQueue()  # what the thread must do: _FILL, _STOP, or take back a token
        if size:
            self._ready.append(self._make_ahead())  # wrong options raise an error here
        else:
            self._make().close()
        _start_thread(self, self._asked)
        weakref.finalize(self, self._asked.put, _STOP).atexit = False
        self._asked.put(_FILL)
        _telemetry.pool_opened(self)

    def session(self, *, timeout_s: Optional[float] = PATIENCE_S) -> Session:
        """Returns an unused session, for a `with` block or until its close(). If max_sessions are in use, callers wait in turn, and get a
        BusyError after timeout_s. None waits for as long as it takes."""
        check_seconds("timeout_s", timeout_s)
        begun_at = time.perf_counter()
        token, future = self._take_place()
        if future is not None:
            try:
                token = future.result(timeout_s)
            except concurrent.futures.TimeoutError:
                if self._give_up(future):
                    raise self._busy(timeout_s) from None
                token = future.result()  # it came at the last moment
            except BaseException:
                if not self._give_up(future) and not future.exception():
                    self._leave(future.result())
                raise
        return self._session_of(token, begun_at)

    def _session_of(self, token: object, begun_at: float) -> Session:
        with self._lock:
            made = self._ready.popleft() if self._ready else None
        self._asked.put(_FILL)
        try:
            made = made or self._make()
            self._count(made, token)
            made._used_at = time.monotonic()
            made._end_by_time(**self._times)
        except BaseException:
            self._leave(token)
            raise
        _telemetry.took(self.language, begun_at)
        return made

    def _count(self, made: Session, token: object) -> None:
        """Gives the place to the session, until it ends."""
        made._place_of_fork = self._place_of_fork
        made._when_over(token, self._asked.put, self._leave)

    @contextlib.contextmanager
    def _place_of_fork(self) -> Iterator[Callable[[Session], None]]:
        """Takes a place without waiting, for the session that is then passed to the function."""
        token, future = self._take_place()
        if future is not None:
            if self._give_up(future):
                raise BusyError(f"{self.max_sessions} sessions of the pool are in use, and a fork would be one more", code="pool_busy",
                                hint="Close sessions that are done, or give the pool more: max_sessions=…", retryable=True)  # fmt: skip
            token = future.result()
        try:
            yield lambda made: self._count(made, token)
        except BaseException:
            self._leave(token)
            raise

    def counts(self) -> Tuple[int, int]:
        """Returns how many sessions are ready, and how many are in use."""
        with self._lock:
            return len(self._ready), len(self._used)

    def _make(self) -> Session:
        return Session(self.language, **self._options)

    def _make_ahead(self) -> Session:
        """Makes a session whose first turn finds its memory mapped. A session that just ended leaves its pages to the next new one, reset
        to the language's image. So another session first runs an empty turn, without a clock or entropy of the embedder and without a
        receipt, and ends. An isolated session has a process of its own, which could not use that memory."""
        if self._options.get("isolated"):
            return self._make()
        asked = {name: None for name in ("clock", "entropy") if callable(self._options.get(name))}
        with Session(self.language, **{**self._options, **asked, "receipts": None}) as other:
            other._warm()
        return self._make()

    # -- places: max_sessions of them

    def _take_place(self) -> Tuple[object, Optional["concurrent.futures.Future[object]"]]:
        """Returns a token, or the future of one if all places are taken."""
        with self._lock:
            if self._is_closed:
                raise _closed()
            token = object()
            if not self._waiting and self._has_place():
                self._used.add(token)
                return token, None
            future: concurrent.futures.Future[object] = concurrent.futures.Future()
            self._waiting.append(future)
            return token, future

    def _has_place(self) -> bool:
        return self.max_sessions is None or len(self._used) < self.max_sessions

    def _give_up(self, future: "concurrent.futures.Future[object]") -> bool:
        """Whether the future had no place yet; then it will never get one."""
        with self._lock:
            if future in self._waiting:
                self._waiting.remove(future)
                future.cancel()
            return future.cancelled()

    def _leave(self, token: object) -> None:
        """Gives the place to the next caller that waits. A token counts once."""
        given = []
        with self._lock:
            self._used.discard(token)
            while self._waiting and self._has_place():
                future = self._waiting.popleft()
                if future.set_running_or_notify_cancel():
                    place = object()
                    self._used.add(place)
                    given.append((future, place))
        for future, place in given:
            future.set_result(place)

    def _busy(self, timeout_s: Optional[float]) -> BusyError:
        return BusyError(f"{self.max_sessions} sessions of the pool are in use, and none ended in {timeout_s} s", code="pool_busy",
                         hint="Close sessions that are done, or give the pool more: max_sessions=…", retryable=True)  # fmt: skip

    # -- for the thread

    def _fill_one(self) -> bool:
        """Makes one session if one is missing, and returns whether more may be."""
        with self._lock:
            if self._is_closed or len(self._ready) >= self.size or _exits.is_set():
                return False
        try:
            made = self._make_ahead()
        except Exception:
            return False  # session() will make one itself, and raise the error
        with self._lock:
            if not self._is_closed and len(self._ready) < self.size:
                self._ready.append(made)
                return True
        made.close()
        return False

    # -- its end

    def close(self) -> None:
        """Closes the ready sessions. Those in use stay until they are closed; callers that wait for one get an error."""
        with self._lock:
            self._is_closed = True
            ready, self._ready = list(self._ready), deque()
            waiting, self._waiting = list(self._waiting), deque()
        self._asked.put(_STOP)
        for made in ready:
            made.close()
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(_closed())

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        with self._lock:
            most = "" if self.max_sessions is None else f" of {self.max_sessions}"
            state = "closed" if self._is_closed else f"{len(self._ready)} ready"
            return f"<Pool {self.language}, {state}, {len(self._used)}{most} in use>"


def _closed() -> MembraneError:
    return MembraneError("the pool is closed", code="pool_closed", hint="Make another Pool.")


def _fill(pool: "weakref.ref[Pool]", asked: "queue.SimpleQueue[object]") -> None:
    """Runs in the thread: makes sessions, and takes back the places of sessions that became garbage."""
    while True:
        what = asked.get()
        this = pool()
        if what is _STOP or this is None:
            _threads.pop(threading.current_thread(), None)
            return
        if what is not _FILL:
            this._leave(what)
        while this._fill_one():
            pass
        del this


class AsyncPool:
    """A Pool for asyncio: `async with pool.session() as session` gives an AsyncSession. Waiting takes no thread.

    An `async with` block closes the pool at its end. A pool belongs to one loop.
    """

    def __init__(
        self, language: str = "python", *, size: Optional[int] = None, max_sessions: Optional[int] = None, **options: Unpack[SessionOptions]
    ) -> None:
        _check(language, options, size=size, max_sessions=max_sessions)
        self._words: Dict[str, Any] = dict(language=language, size=size, max_sessions=max_sessions, **options)
        self._pool: Optional[Pool] = None
        self._opening: Optional[asyncio.Lock] = None  # belongs to the loop that uses it first
        self._is_closed = False

    async def _opened(self) -> Pool:
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._is_closed:
                raise _closed()
            if self._pool is None:
                self._pool = await asyncio.to_thread(Pool, **self._words)
            return self._pool

    def session(self, *, timeout_s: Optional[float] = PATIENCE_S) -> _Taken:
        """For `async with`, or awaited; as Pool.session()."""
        check_seconds("timeout_s", timeout_s)
        return _Taken(lambda: self._session(timeout_s))

    async def _session(self, timeout_s: Optional[float]) -> AsyncSession:
        begun_at = time.perf_counter()
        pool = await self._opened()
        token, future = pool._take_place()
        if future is not None:
            try:
                token = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), timeout_s)
            except asyncio.TimeoutError:
                if pool._give_up(future):
                    raise pool._busy(timeout_s) from None
                token = future.result()
            except BaseException:
                if not pool._give_up(future) and not future.exception():
                    pool._leave(future.result())
                raise
        return AsyncSession._of(pool._session_of(token, begun_at))

    async def close(self) -> None:
        self._is_closed = True
        if self._pool is not None:
            await asyncio.to_thread(self._pool.close)

    async def __aenter__(self) -> AsyncPool:
        await self._opened()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self._pool)[1:]}" if self._pool is not None else "<AsyncPool, not opened>"


class _Taken:
    """A session of an AsyncPool that is about to be taken."""

    def __init__(self, take: Callable[[], Any]) -> None:
        self._take = take
        self._session: Optional[AsyncSession] = None

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        taken: Generator[Any, None, AsyncSession] = self._take().__await__()
        return taken

    async def __aenter__(self) -> AsyncSession:
        self._session = await self
        return self._session

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()


