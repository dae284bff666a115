"""Executors and pools of workers, whose workers are the scheduler's threads.

A task begins when it is submitted, if a worker is free, and runs until it first waits. So tasks that only compute run
one after the other, in order; tasks that wait for a server, a clock or each other overlap.
"""

import collections
import concurrent.futures
import concurrent.futures.thread
import itertools
import pickle
import threading

from membrane import _resumable
from membrane._scheduler import Wait

_done_as = itertools.count(1)


def _note_order(future):
    future._done_as = next(_done_as)


class ThreadPoolExecutor(concurrent.futures.Executor):
    """Calls functions in threads, at most `max_workers` at a time."""

    _counter = itertools.count().__next__
    _broken = concurrent.futures.thread.BrokenThreadPool

    def __init__(self, max_workers=None, thread_name_prefix="", initializer=None, initargs=(), **_):
        if max_workers is None:
            max_workers = 8
        if max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._max_workers = max_workers
        self._prefix = thread_name_prefix or f"{type(self).__name__}-{self._counter()}"
        self._initializer, self._initargs = initializer, initargs
        self._items = collections.deque()  # items that have not started
        self._threads, self._idle = set(), 0
        self._shutdown, self._is_broken = False, False

    def submit(self, fn, /, *args, **kwargs):
        if self._is_broken:
            raise self._broken("A thread initializer failed, the thread pool is not usable anymore")
        if self._shutdown:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = concurrent.futures.Future()
        future.add_done_callback(_note_order)
        self._items.append((future, fn, args, kwargs))
        if len(self._items) > self._idle and len(self._threads) < self._max_workers:
            self._add_worker()
        return future

    def _add_worker(self):
        thread = threading.Thread(target=_Steps(self._work), name=f"{self._prefix}_{len(self._threads)}", daemon=False)
        self._threads.add(thread)
        thread.start()

    def _work(self):
        if self._initializer is not None:
            try:
                yield from _resumable.call(self._initializer, *self._initargs)
            except BaseException:
                self._break()
                raise
        while True:
            while self._items:
                yield from self._do(*self._items.popleft())
            if self._shutdown:
                return
            self._idle += 1
            yield Wait(lambda: self._items or self._shutdown, is_idle=True)
            self._idle -= 1

    def _do(self, future, function, arguments, options):
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = yield from _resumable.call(function, *arguments, **options)
        except GeneratorExit:
            raise
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _break(self):
        self._is_broken = True
        while self._items:
            self._items.popleft()[0].set_exception(self._broken("A thread initializer failed"))

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._shutdown = True
        if cancel_futures:
            for future, *_ in self._items:
                future.cancel()
            self._items.clear()
        if wait:
            for thread in self._threads:
                thread.join()


class ProcessPoolExecutor(ThreadPoolExecutor):
    """Calls functions in this process. They get copies of their arguments, as in another process; what they change besides,
    such as globals, is changed here."""

    _broken = concurrent.futures.BrokenExecutor

    def __init__(self, max_workers=None, mp_context=None, initializer=None, initargs=(), *, max_tasks_per_child=None):
        super().__init__(max_workers, "", initializer, initargs)

    def submit(self, fn, /, *args, **kwargs):
        args, kwargs = _copied((args, kwargs))
        return super().submit(fn, *args, **kwargs)

    def map(self, fn, *iterables, timeout=None, chunksize=1, **options):
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        return super().map(fn, *iterables, timeout=timeout, **options)


def _copied(value):
    """As it would arrive in another process; itself where pickle cannot take it there."""
    try:
        return pickle.loads(pickle.dumps(value))
    except (pickle.PicklingError, AttributeError, TypeError):
        return value


class _Steps:
    """A function whose calls are steps already."""

    def __init__(self, function):
        self._function = function

    def __call__(self):
        raise TypeError("this is called by the scheduler only")


_resumable.waits[_Steps.__call__] = lambda steps: steps._function()


# --- multiprocessing.pool ---------------------------------------------------------------------------------------------


class AsyncResult:
    """multiprocessing.pool.AsyncResult over futures."""

    def __init__(self, futures, is_list, callback=None, error_callback=None):
        self._futures, self._is_list = futures, is_list
        self._callbacks, self._left = (callback, error_callback), len(futures)
        for future in futures:
            future.add_done_callback(self._note)
        if not futures:
            self._tell()

    def _note(self, _):
        self._left -= 1
        if not self._left:
            self._tell()

    def _tell(self):
        error = self._error()
        callback = self._callbacks[error is not None]
        if callback is not None:
            callback(self._value() if error is None else error)

    def _error(self):
        return next((e for e in (future.exception() for future in self._futures) if e is not None), None)

    def _value(self):
        values = [future.result() for future in self._futures]
        return values if self._is_list else values[0]

    def ready(self):
        return all(future.done() for future in self._futures)

    def successful(self):
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return self._error() is None

    def wait(self, timeout=None):
        concurrent.futures.wait(self._futures, timeout)

    def get(self, timeout=None):
        self.wait(timeout)
        if not self.ready():
            import multiprocessing
            raise multiprocessing.TimeoutError
        return self._value()


class _Results:
    """What imap gives: an iterator that has `next(timeout)`, too."""

    def __init__(self, futures):
        self._futures = futures

    def __iter__(self):
        return self

    def next(self, timeout=None):
        future = next(self._futures)
        try:
            return future.result(timeout)
        except TimeoutError:
            import multiprocessing
            raise multiprocessing.TimeoutError from None

    __next__ = next


class ThreadPool:
    """multiprocessing.pool.ThreadPool."""

    _executor = ThreadPoolExecutor

    def __init__(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None):
        if processes is not None and processes < 1:
            raise ValueError("Number of processes must be at least 1")
        self._pool = self._executor(processes or 8, initializer=initializer, initargs=initargs)

    def _submit(self, function, tasks):
        if self._pool._shutdown:
            raise ValueError("Pool not running")
        return [self._pool.submit(function, *task) for task in tasks]

    def apply(self, func, args=(), kwds={}):
        return self.apply_async(func, args, kwds).get()

    def apply_async(self, func, args=(), kwds={}, callback=None, error_callback=None):
        if self._pool._shutdown:
            raise ValueError("Pool not running")
        return AsyncResult([self._pool.submit(func, *args, **kwds)], False, callback, error_callback)

    def map(self, func, iterable, chunksize=None):
        return self.map_async(func, iterable).get()

    def map_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        return AsyncResult(self._submit(func, zip(iterable)), True, callback, error_callback)

    def starmap(self, func, iterable, chunksize=None):
        return self.starmap_async(func, iterable).get()

    def starmap_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        return AsyncResult(self._submit(func, iterable), True, callback, error_callback)

    def imap(self, func, iterable, chunksize=1):
        return _Results(iter(self._submit(func, zip(iterable))))

    def imap_unordered(self, func, iterable, chunksize=1):
        return _Results(concurrent.futures.as_completed(self._submit(func, zip(iterable))))

    def close(self):
        self._pool.shutdown(wait=False)

    def terminate(self):
        self._pool.shutdown(wait=False, cancel_futures=True)

    def join(self):
        if not self._pool._shutdown:
            raise ValueError("Pool is still running")
        self._pool.shutdown()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.terminate()


class Pool(ThreadPool):
    """multiprocessing.Pool, in this process: see ProcessPoolExecutor."""

    _executor = ProcessPoolExecutor

    def __init__(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None):
        super().__init__(processes or 1, initializer, initargs)


def replacements():
    """(what has it, its name, what is put there)"""
    futures = concurrent.futures
    yield futures, "ThreadPoolExecutor", ThreadPoolExecutor
    yield futures.thread, "ThreadPoolExecutor", ThreadPoolExecutor
    yield futures, "ProcessPoolExecutor", ProcessPoolExecutor


for _class, _module in ((ThreadPoolExecutor, "concurrent.futures.thread"), (ProcessPoolExecutor, "concurrent.futures.process"),
                        (ThreadPool, "multiprocessing.pool"), (Pool, "multiprocessing.pool")):
    _class.__module__ = _module


def put_in_place(replacements):
    """Sets what stands in (what has it, its name, what is put there). Gives a function that takes it back, for tests."""
    missing = object()
    before = []
    for place, name, value in list(replacements):
        before.append((place, name, vars(place).get(name, missing)))
        setattr(place, name, value)

    def undo():
        for place, name, value in reversed(before):
            if value is missing:
                delattr(place, name)
            else:
                setattr(place, name, value)

    return undo
