"""How a turn waits for what is asynchronous in this program: until it is there, or until the turn is to end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from typing import Any, Awaitable, Callable, Coroutine, Optional, TypeVar

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


def wait_here(coroutine: Coroutine[Any, Any, T], must_stop: MustStop) -> Optional[T]:
    """In a loop of its own: in this thread, or, where a loop runs in it, in another. None when the turn is to end."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_unless(coroutine, must_stop))
    done: concurrent.futures.Future[Optional[T]] = concurrent.futures.Future()
    is_left = threading.Event()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            done.set_result(context.run(asyncio.run, _unless(coroutine, lambda: is_left.is_set() or must_stop())))
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, name="membrane-functions")
    thread.start()
    try:
        return done.result()
    finally:
        is_left.set()
        thread.join()
