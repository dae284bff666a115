"""Waiting where there is one thread: what a lock of C's library does then is to end the program."""

import _thread
import inspect
import queue
import threading
import time

_NOBODY = "this waits for another thread, and there is none that could end it"


class Lock(_thread.RLock):
    """In the place of threading.Lock, which ends the program where it is taken twice. What is taken from _thread.RLock
    is in C, and a lock that is free costs a call in Python."""

    __slots__ = ()

    def acquire(self, blocking=True, timeout=-1, *, _is_owned=_thread.RLock._is_owned, _acquire=_thread.RLock.acquire):
        if not _is_owned(self):
            return _acquire(self, blocking, timeout)
        if not blocking and timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        if blocking and timeout < 0 and timeout != -1:
            raise ValueError("timeout value must be a non-negative number")
        if blocking and timeout == -1:
            raise RuntimeError("deadlock: the lock is held, and " + _NOBODY)
        if blocking:
            time.sleep(timeout)
        return False

    def acquire_lock(self, blocking=True, timeout=-1):
        return self.acquire(blocking, timeout)

    __enter__ = acquire
    release_lock = _thread.RLock.release

    def locked(self):
        return self._is_owned()

    locked_lock = locked

    def __repr__(self):
        return f"<{'locked' if self.locked() else 'unlocked'} _thread.lock object at {id(self):#x}>"


Lock.__name__ = Lock.__qualname__ = "lock"
Lock.__module__ = "_thread"
Lock.__signature__ = inspect.Signature()


def _wait(condition, timeout=None):
    """In the place of threading.Condition.wait, on which events, semaphores, queues and futures stand."""
    if not condition._is_owned():
        raise RuntimeError("cannot wait on un-acquired lock")
    if timeout is None:
        raise RuntimeError(_NOBODY)
    if timeout > 0:
        time.sleep(timeout)
    return False


def install():
    threading.Lock = threading._allocate_lock = Lock
    _thread.allocate_lock = _thread.allocate = _thread.lock = _thread.LockType = Lock
    threading.Condition.wait = _wait
    queue.SimpleQueue = queue._PySimpleQueue  # the one in C waits for a lock of its own
