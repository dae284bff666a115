"""threading, queue and time.sleep where there is one stack: threads are tasks of the scheduler (_scheduler.py).

What the program's functions wait in stands here twice: as steps for a thread that is suspended meanwhile, and, made of
these, as the plain call, during which the others run.
"""

import _thread
import _threading_local
import concurrent.futures
import contextvars
import inspect
import queue
import sys
import threading
import time

from membrane import _imports, _pools, _resumable, _scheduler
from membrane._scheduler import Wait, drive

_get, _put, _join_queue = queue.Queue.get, queue.Queue.put, queue.Queue.join
_get_simple = queue._PySimpleQueue.get
_acquire_semaphore = threading.Semaphore.acquire
_result, _exception = concurrent.futures.Future.result, concurrent.futures.Future.exception
_wait_for_futures = concurrent.futures.wait
_is_done, _is_set = concurrent.futures.Future.done, threading.Event.is_set


def _until(ready, timeout=None):
    wait = Wait(ready, timeout)
    if not wait.is_over():
        yield wait


def _check_timeout(blocking, timeout):
    if not blocking and timeout != -1:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if blocking and timeout < 0 and timeout != -1:
        raise ValueError("timeout value must be a non-negative number")


# --- locks ------------------------------------------------------------------------------------------------------------


class Lock(_thread.RLock):
    """In the place of threading.Lock, which ends the program where it is taken twice. What is taken from _thread.RLock
    is in C, and a lock that is free costs a call in Python."""

    __slots__ = ()

    def acquire(self, blocking=True, timeout=-1, *, _is_owned=_thread.RLock._is_owned, _acquire=_thread.RLock.acquire):
        if not _is_owned(self):
            return _acquire(self, blocking, timeout)
        _check_timeout(blocking, timeout)
        return bool(blocking) and drive(_take(self, timeout))

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


def _take(lock, timeout=-1):
    yield from _until(lambda: not lock.locked(), None if timeout == -1 else timeout)
    return lock.acquire(False)


def _acquire_lock(lock, blocking=True, timeout=-1):
    _check_timeout(blocking, timeout)
    if not blocking or not lock.locked():
        return lock.acquire(blocking)
    return (yield from _take(lock, timeout))


class RLock:
    """In the place of threading.RLock, to which all threads are the same one here."""

    def __init__(self):
        self._owner, self._count = None, 0

    def locked(self):
        return self._count > 0

    def _is_owned(self):
        return self._owner is _scheduler.current

    def _is_free(self):
        return self._owner is None or self._owner is _scheduler.current

    def acquire(self, blocking=True, timeout=-1):
        _check_timeout(blocking, timeout)
        if not self._is_free():
            if not blocking:
                return False
            drive(_until(self._is_free, None if timeout == -1 else timeout))
            if not self._is_free():
                return False
        self._owner = _scheduler.current
        self._count += 1
        return True

    __enter__ = acquire

    def release(self):
        if not self._is_owned():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None

    def __exit__(self, *_):
        self.release()

    def _release_save(self):
        state = self._count, self._owner
        self._count, self._owner = 0, None
        return state

    def _acquire_restore(self, state):
        drive(_until(self._is_free))
        self._count, self._owner = state

    def __repr__(self):
        return (f"<{'locked' if self._count else 'unlocked'} _thread.RLock object owner={self._owner and self._owner.ident} "
                f"count={self._count} at {id(self):#x}>")


RLock.__module__ = "_thread"


def _acquire_rlock(lock, blocking=True, timeout=-1):
    task = _scheduler.current
    if blocking and (timeout == -1 or timeout >= 0):
        yield from _until(lambda: lock._owner is None or lock._owner is task, None if timeout == -1 else timeout)
        return lock.acquire(False)
    return lock.acquire(blocking, timeout)


def _is_free(lock):
    """Whether the lock could be taken by the thread that asks; of one that is not ours nobody knows."""
    if isinstance(lock, RLock):
        return lock._owner is None
    return not (isinstance(lock, Lock) and lock.locked())


# --- conditions, and what is built on them ----------------------------------------------------------------------------


def _wait(condition, timeout=None):
    if not condition._is_owned():
        raise RuntimeError("cannot wait on un-acquired lock")
    waiter = Lock()
    waiter.acquire()
    condition._waiters.append(waiter)
    lock, saved = condition._lock, condition._release_save()
    try:
        yield from _until(lambda: not waiter.locked() and _is_free(lock), timeout)
    except (RuntimeError, _scheduler.Left):  # a deadlock, or the thread is abandoned here
        condition._waiters.remove(waiter)
        if _is_free(lock):
            condition._acquire_restore(saved)
        raise
    was_notified = not waiter.locked()
    if not was_notified:
        condition._waiters.remove(waiter)
        yield from _until(lambda: _is_free(lock))
    condition._acquire_restore(saved)
    return was_notified


def _wait_for(condition, predicate, timeout=None):
    end = None if timeout is None else time.monotonic() + timeout
    while not (result := predicate()):
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            break
        yield from _wait(condition, left)
    return result


def _wait_for_event(event, timeout=None):
    yield from _until(lambda: _is_set(event), timeout)
    return _is_set(event)


def _acquire_free_semaphore(semaphore, blocking=True, timeout=None):
    if blocking:
        yield from _until(lambda: semaphore._value > 0, timeout)
        return _acquire_semaphore(semaphore, False)
    return _acquire_semaphore(semaphore, blocking, timeout)


def _wait_at_barrier(barrier, timeout=None):
    condition = barrier._cond
    yield from _acquire_lock(condition._lock)
    try:
        while barrier._state in (-1, 1):  # it is draining, or being reset
            yield from _wait(condition)
        barrier._enter()
        index = barrier._count
        barrier._count += 1
        try:
            if index + 1 == barrier._parties:
                barrier._release()
            else:
                yield from _wait_for(condition, lambda: barrier._state, barrier._timeout if timeout is None else timeout)
                barrier._wait(0)
            return index
        finally:
            barrier._count -= 1
            barrier._exit()
    finally:
        condition.release()


# --- queues -----------------------------------------------------------------------------------------------------------


def _is_shut(items):
    return getattr(items, "is_shutdown", False)


def _get_item(items, block=True, timeout=None):
    if not block or (timeout is not None and timeout < 0):
        return _get(items, block, timeout)
    if items._qsize():
        yield Wait()  # so that threads take turns
    yield from _until(lambda: items._qsize() or _is_shut(items), timeout)
    return _get(items, False)


def _put_item(items, item, block=True, timeout=None):
    if block and (timeout is None or timeout >= 0):
        yield from _until(lambda: not 0 < items.maxsize <= items._qsize() or _is_shut(items), timeout)
        block, timeout = False, None
    return _put(items, item, block, timeout)


def _join_items(items):
    yield from _until(lambda: not items.unfinished_tasks)
    return _join_queue(items)


def _get_simple_item(items, block=True, timeout=None):
    if block and (timeout is None or timeout >= 0):
        yield from _until(lambda: not items.empty(), timeout)
        return _get_simple(items, False)
    return _get_simple(items, block, timeout)


# --- futures ----------------------------------------------------------------------------------------------------------


def _result_of(future, timeout=None):
    yield from _until(lambda: _is_done(future), timeout)
    return _result(future, 0)


def _exception_of(future, timeout=None):
    yield from _until(lambda: _is_done(future), timeout)
    return _exception(future, 0)


def _wait_for_all(futures, timeout=None, return_when=concurrent.futures.ALL_COMPLETED):
    futures = set(futures)

    def is_over():
        done = [future for future in futures if _is_done(future)]
        if return_when == concurrent.futures.FIRST_COMPLETED and done:
            return True
        if return_when == concurrent.futures.FIRST_EXCEPTION and any(
                not future.cancelled() and _exception(future) is not None for future in done):
            return True
        return len(done) == len(futures)

    yield from _until(is_over, timeout)
    return _wait_for_futures(futures, 0, return_when)


def _as_completed(futures, timeout=None):
    """In the place of concurrent.futures.as_completed: in the order in which they were done."""
    left = dict.fromkeys(futures)
    total, end = len(left), None if timeout is None else time.monotonic() + timeout
    while left:
        drive(_until(lambda: any(_is_done(future) for future in left),
                     None if end is None else max(end - time.monotonic(), 0)))
        done = sorted((future for future in left if _is_done(future)), key=lambda f: getattr(f, "_done_as", 0))
        if not done:
            raise TimeoutError(f"{len(left)} (of {total}) futures unfinished")
        del left[done[0]]
        yield done[0]


# --- listeners of logging ---------------------------------------------------------------------------------------------


def _dequeue(listener, block):
    return _resumable.call(listener.queue.get, block)


def _monitor(listener):
    """logging.handlers.QueueListener._monitor, in steps."""
    while True:
        try:
            record = yield from _resumable.call(listener.dequeue, True)
        except queue.Empty:
            return
        if record is not listener._sentinel:
            yield from _resumable.call(listener.handle, record)
        if hasattr(listener.queue, "task_done"):
            listener.queue.task_done()
        if record is listener._sentinel:
            return


def _know_listeners(handlers):
    listener = handlers.QueueListener
    _resumable.waits.update({listener.dequeue: _dequeue, listener._monitor: _monitor})


# --- threads ----------------------------------------------------------------------------------------------------------


def _start(thread):
    """In the place of Thread.start: it runs until it first waits. A daemon that could not be suspended there waits to begin
    until others wait, and ends when it would hold them up: as a daemon ends that a process does not wait for."""
    if not getattr(thread, "_initialized", False):
        raise RuntimeError("thread.__init__() not called")
    if _is_set(thread._started):
        raise RuntimeError("threads can only be started once")
    thread._ident = _scheduler.new_ident()
    thread._runs = True
    thread._started.set()
    threading._active[thread._ident] = thread
    _scheduler.start(thread.name, thread._ident, _steps_of_thread(thread), thread.daemon,
                     may_be_left=thread.daemon and not _resumable.can_be_suspended(_function_of(thread)),
                     context=_context_of(thread))


def _context_of(thread):
    given = getattr(thread, "_context", None)
    return contextvars.copy_context() if given is None and getattr(sys.flags, "thread_inherit_context", 0) else given


def _function_of(thread):
    run = type(thread).run
    return getattr(thread, "_target", None) if run is threading.Thread.run else run


def _start_new_thread(function, args, kwargs={}, /):
    """In the place of _thread.start_new_thread."""
    thread = threading.Thread(target=function, args=args, kwargs=kwargs, daemon=True)
    thread.start()
    return thread.ident


def _steps_of_thread(thread):
    is_left = False
    try:
        yield from _resumable.call(thread.run)
    except (SystemExit, GeneratorExit):
        pass
    except BaseException as error:
        is_left = _scheduler.current.is_left
        if not is_left:
            _tell(error, thread)
    finally:
        if not is_left:  # else it is alive, like a daemon that waits
            thread._runs = False
            threading._active.pop(thread._ident, None)


def _tell(error, thread):
    """Reports the error that ended a thread, as threading.excepthook does, without our own frames."""
    hook = threading.excepthook
    try:
        if hook is not _excepthook:
            return hook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
        from membrane import _session
        print(f"Exception in thread {thread.name}:\n{_session.traceback_of(error)}", end="", file=sys.stderr)
    except Exception:
        print(f"Exception in thread {thread.name}, and another in threading.excepthook", file=sys.stderr)


_excepthook = threading.excepthook


def _run(thread):
    """Thread.run, in steps."""
    try:
        if thread._target is not None:
            yield from _resumable.call(thread._target, *thread._args, **thread._kwargs)
    finally:
        del thread._target, thread._args, thread._kwargs


def _run_timer(timer):
    yield from _wait_for_event(timer.finished, timer.interval)
    if not _is_set(timer.finished):
        yield from _resumable.call(timer.function, *timer.args, **timer.kwargs)
    timer.finished.set()


def _runs(thread):
    return getattr(thread, "_runs", thread is threading.main_thread())


def _join(thread, timeout=None):
    if not getattr(thread, "_initialized", False):
        raise RuntimeError("Thread.__init__() not called")
    if not _is_set(thread._started):
        raise RuntimeError("cannot join thread before it is started")
    if thread is threading.current_thread():
        raise RuntimeError("cannot join current thread")
    yield from _until(lambda: not getattr(thread, "_runs", True), None if timeout is None else max(timeout, 0))


def _repr(thread):
    runs = getattr(thread, "_runs", None)
    status = "initial" if runs is None else "started" if runs else "stopped"
    if thread is threading.main_thread():
        status = "started"
    daemon, ident = " daemon" if thread.daemon else "", "" if thread.ident is None else f" {thread.ident}"
    return f"<{type(thread).__name__}({thread.name}, {status}{daemon}{ident})>"


def _sleep_in_steps(seconds):
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    yield Wait(timeout=seconds)


def sleep(seconds, /):
    """time.sleep: other threads run in the meantime."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    _scheduler.sleep(seconds)


sleep.__module__ = "time"


# --- checking without waiting -----------------------------------------------------------------------------------------

_LOOKS_BEFORE_WAITING = 20
_looks = 0
_steps_before = 0


def _is_impatient():
    """Counts a look at what others have to bring about. Who looks again and again while no thread runs gives the others a
    millisecond."""
    global _looks, _steps_before
    _looks = _looks + 1 if _steps_before == _scheduler.steps else 1
    _steps_before = _scheduler.steps
    if _looks < _LOOKS_BEFORE_WAITING or not _scheduler.has_others():
        return False
    _looks = 0
    return True


def _look(method, waits_on):
    """The method, as a call and in steps, which waits at times while its value is `waits_on`."""
    def look(self):
        if method(self) == waits_on and _is_impatient():
            _scheduler.sleep(0.001)
        return method(self)

    def look_in_steps(self):
        if method(self) == waits_on and _is_impatient():
            yield Wait(timeout=0.001)
        return method(self)

    look.__doc__ = method.__doc__
    return look, look_in_steps


_LOOKS = (
    (threading.Thread, "is_alive", *_look(_runs, True)),
    (threading.Event, "is_set", *_look(_is_set, False)),
    (concurrent.futures.Future, "done", *_look(_is_done, False)),
    (queue.Queue, "empty", *_look(queue.Queue.empty, True)),
)


# --- installation -------------------------------------------------------------------------------------------------------


def _plain(steps, name):
    """The steps as a call that waits on the spot."""
    def wait(*arguments, **options):
        return drive(steps(*arguments, **options))

    wait.__name__ = wait.__qualname__ = name
    return wait


def _replacements():
    """(what has it, its name, what is put there)"""
    thread = threading.Thread
    for place, names, value in (
            (threading, ("Lock", "_allocate_lock"), Lock),
            (_thread, ("allocate_lock", "allocate", "lock", "LockType"), Lock),
            (threading, ("RLock",), RLock),
            (threading, ("local",), _threading_local.local),
            (_thread, ("start_new_thread", "start_new"), _start_new_thread),
            (threading, ("get_ident",), _get_ident),
            (_thread, ("get_ident",), _get_ident),
            (threading.Condition, ("wait",), _plain(_wait, "wait")),
            (thread, ("start",), _start),
            (thread, ("join",), _plain(_join, "join")),
            (thread, ("__repr__",), _repr),
            (queue, ("SimpleQueue",), queue._PySimpleQueue),  # the one in C waits for a lock of its own
            (time, ("sleep",), sleep),
            (concurrent.futures, ("as_completed",), _as_completed),
            (concurrent.futures._base, ("as_completed",), _as_completed)):
        for name in names:
            yield place, name, value
    for place, name, look, _ in _LOOKS:
        look.__name__, look.__qualname__ = name, f"{place.__name__}.{name}"
        yield place, name, look


def _get_ident():
    return _scheduler.current.ident


def install():
    """Gives a function that takes it back, for tests."""
    _scheduler.MAIN.ident = threading.main_thread().ident
    _scheduler.restart_idents()
    undo = _pools.put_in_place([*_replacements(), *_pools.replacements()])
    thread, condition = threading.Thread, threading.Condition
    _resumable.waits.update({
        Lock.acquire: _acquire_lock, RLock.acquire: _acquire_rlock,
        condition.wait: _wait, condition.wait_for: _wait_for, threading.Event.wait: _wait_for_event,
        _acquire_semaphore: _acquire_free_semaphore, threading.Barrier.wait: _wait_at_barrier,
        _get: _get_item, _put: _put_item, _join_queue: _join_items, _get_simple: _get_simple_item,
        thread.join: _join, thread.run: _run, threading.Timer.run: _run_timer,
        _result: _result_of, _exception: _exception_of, _wait_for_futures: _wait_for_all, sleep: _sleep_in_steps,
    })
    _resumable.waits.update((look, in_steps) for _, _, look, in_steps in _LOOKS)
    _resumable.enters.update({
        Lock: _until_free, RLock: _until_free,
        condition: lambda c: _until(lambda: _is_free(c._lock) or c._is_owned()),
        threading.Semaphore: _until_counted, threading.BoundedSemaphore: _until_counted,
    })
    _imports.when_imported("logging.handlers", _know_listeners)
    return undo


def are_left():
    """Whether there is anything to do for finish(), after a cell."""
    return _scheduler.has_tasks()


def finish(of_script):
    """Runs what is left of the threads at the end: of a script until all have ended but daemons, which end with it; of a cell
    as far as they come by themselves."""
    try:
        _scheduler.run_all(of_script)
    finally:
        if of_script:
            _scheduler.forget()
            main = threading.main_thread()
            for ident, thread in list(threading._active.items()):
                if thread is not main and getattr(thread, "_runs", False):
                    del threading._active[ident]


def _until_free(lock):
    if isinstance(lock, RLock) and lock._is_owned():
        return iter(())
    return _until(lambda: _is_free(lock))


def _until_counted(semaphore):
    return _until(lambda: semaphore._value > 0)
