"""How a turn waits for coroutines of the embedder: until they are done, or until the turn must end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import os
import threading
from typing import Any, Awaitable, Callable, Coroutine, List, Optional, TypeVar

_PATIENCE_S = 0.02  # between two checks of whether the turn must end
T = TypeVar("T")
MustStop = Callable[[], bool]


async def _unless(awaitable: Awaitable[T], must_stop: MustStop) -> Optional[T]:
    """Awaits it unless the turn must end; then it is cancelled, and ends first."""
    task = asyncio.ensure_future(awaitable)
    try:
        while not (await asyncio.wait([task], timeout=_PATIENCE_S))[0]:
            if must_stop():
                task.cancel()
                await asyncio.wait([task])
                return None
    except BaseException:  # this task itself was cancelled
        task.cancel()
        raise
    return task.result()


def wait_in_loop(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, must_stop: MustStop) -> Optional[T]:
    """Waits in a loop of another thread. Returns None if the turn must end, and cancels the coroutine."""
    future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        while not concurrent.futures.wait([future], _PATIENCE_S).done:
            if must_stop():
                future.cancel()
                return None
    except BaseException:  # such as KeyboardInterrupt
        future.cancel()
        raise
    return future.result()


class OwnLoop:
    """The loop in which a session's functions are awaited, turn after turn, so that their locks and connections stay usable. It runs
    only while something is awaited. Threads: any; a caller that finds it running, such as a fork, gets another loop for that time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._process = os.getpid()
        self._users, self._users_lock = 0, threading.Lock()

    def enter(self) -> None:
        """A session or a fork starts to use the loop; it calls leave() when it ends. The last one closes the loop."""
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
        except BaseException:  # such as KeyboardInterrupt, which leaves tasks unfinished
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
        """Cancels what is left in it. The loop can be used again."""
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


_of_parent: List[asyncio.AbstractEventLoop] = []  # loops of the process that this one was forked from: closing them here would disturb that one


def _in_thread_without_loop(act: Callable[[], T], when_left: Callable[[], None] = lambda: None) -> T:
    """Calls act in this thread, or in another one if a loop runs in this one. when_left: is called before it is waited for, also after an interrupt."""
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
    """Waits in the session's own loop. Returns None if the turn must end."""
    is_left = threading.Event()

    def run() -> Optional[T]:
        return own.run(_unless(coroutine, lambda: is_left.is_set() or must_stop()))

    return _in_thread_without_loop(run, is_left.set)
