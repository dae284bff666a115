"""Waiting where there is one thread: what a lock of C's library does then is to end the program."""

import queue
import threading
import time


def _wait(condition, timeout=None):
    """In the place of threading.Condition.wait, on which events, semaphores, queues and futures stand."""
    if not condition._is_owned():
        raise RuntimeError("cannot wait on un-acquired lock")
    if timeout is None:
        raise RuntimeError("this waits for another thread, and there is none that could end it")
    if timeout > 0:
        time.sleep(timeout)
    return False


def install():
    threading.Condition.wait = _wait
    queue.SimpleQueue = queue._PySimpleQueue  # the one in C waits for a lock of its own
