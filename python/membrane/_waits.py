"""How a turn waits for what is asynchronous in this program: until it is there, or until the turn is to end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import os
import threading
from typing import Any, Awaitable, Callable, Coroutine, List, Optional, TypeVar

_PATIENCE_S = 0.02  # until it is looked again whether the turn is to end
T = TypeVar("T")
MustStop = Callable[[], bool]


async def _unless(awaitable: Awaitable[T], must_stop: MustStop) -> Optional[T]:
    """What is left when the turn is to end is cancelled, and comes to its end."""
    task = asyncio.ensure_future(awaitable)
    try:
        while not (await asyncio.wait([task], timeout=_PATIENCE_S))[0]:
            if must_stop():
                task.cancel()
                await asyncio.wait([task])
                return None
    except BaseException:  # of this task's own end
        task.cancel()
        raise
    return task.result()


def wait_in_loop(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, must_stop: MustStop) -> Optional[T]:
    """In a loop of another thread. None when the turn is to end: what is left is cancelled."""
    future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        while not concurrent.futures.wait([future], _PATIENCE_S).done:
            if must_stop():
                future.cancel()
                return None
    except BaseException:  # as KeyboardInterrupt
        future.cancel()
        raise
    return future.result()


class OwnLoop:
    """A loop of a session's own, in which its functions are awaited turn after turn, so that what they keep, as a lock or the connections of a
    client, stays good. It runs while something is awaited. Threads: any; who comes while it runs, as a fork, gets another for that once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._process = os.getpid()
        self._users, self._users_lock = 0, threading.Lock()

    def enter(self) -> None:
        """Of a session, or a fork of it, that uses this; leave() when it is over. After the last it is closed."""
        with self._users_lock:
            self._users += 1

    def leave(self) -> None:
        with self._users_lock:
            self._users -= 1
            is_last = self._users == 0
        if is_last:
            self.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if not self._lock.acquire(blocking=False):
            return asyncio.run(coroutine)
        try:
            return self._opened().run_until_complete(coroutine)
        except Exception:
            raise
        except BaseException:  # as KeyboardInterrupt, which leaves tasks in their middle
            self._end()
            raise
        finally:
            self._lock.release()

    def _opened(self) -> asyncio.AbstractEventLoop:
        if self._loop is not None and self._process != os.getpid():
            _of_parent.append(self._loop)
            self._loop = None
        if self._loop is None:
            self._loop, self._process = asyncio.new_event_loop(), os.getpid()
        return self._loop

    def close(self) -> None:
        """Cancels what is left in it. It may be used again."""
        with self._lock:
            if self._loop is not None and self._process == os.getpid():
                _in_thread_without_loop(self._end)

    def _end(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()

    def __del__(self) -> None:
        if self._loop is not None and self._process == os.getpid() and not self._loop.is_closed():
            self._loop.close()


_of_parent: List[asyncio.AbstractEventLoop] = []  # of the process that this one was forked from: closing them here would disturb it there


def _in_thread_without_loop(act: Callable[[], T], when_left: Callable[[], None] = lambda: None) -> T:
    """In this thread, or, where a loop runs in it, in another. when_left: is called before that is waited for, also after an interrupt."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return act()
    done: concurrent.futures.Future[T] = concurrent.futures.Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            done.set_result(context.run(act))
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, name="membrane-functions")
    thread.start()
    try:
        return done.result()
    finally:
        when_left()
        thread.join()


def wait_here(coroutine: Coroutine[Any, Any, T], own: OwnLoop, must_stop: MustStop) -> Optional[T]:
    """In the session's own loop. None when the turn is to end."""
    is_left = threading.Event()

    def run() -> Optional[T]:
        return own.run(_unless(coroutine, lambda: is_left.is_set() or must_stop()))

    return _in_thread_without_loop(run, is_left.set)
