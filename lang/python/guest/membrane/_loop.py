"""An event loop for asyncio where there are no sockets: timers, tasks, futures, and the scheduler's threads."""

import asyncio
import sys
import warnings

from membrane import _pools, _resumable, _scheduler


cell_loop = None  # returns the session's loop, while a cell runs


class _Waiter:
    """Takes the place of a selector. Only time and threads make things ready here."""

    def __init__(self, loop):
        self._loop = loop

    def select(self, timeout=None):
        if timeout == 0:
            _scheduler.run_one()
            return []
        if timeout is None and not _scheduler.has_others():
            raise RuntimeError("every task waits, and nothing is left that could wake one")
        _scheduler.run_until(_scheduler.Wait(lambda: self._loop._ready, timeout))
        return []

    def close(self):
        pass


class Loop(asyncio.BaseEventLoop):
    _waits_in_thread = _is_told_to_stop = False

    def __init__(self):
        super().__init__()
        self._selector = _Waiter(self)

    def stop(self):
        self._is_told_to_stop = True
        super().stop()

    def is_running(self):
        return self._waits_in_thread or super().is_running()

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        pass  # waiting tasks check for themselves

    def run_in_executor(self, executor, func, *args):
        """The loop's own executor is a pool of the scheduler's threads."""
        if executor is None and self._default_executor is None:
            self._default_executor = _pools.ThreadPoolExecutor(thread_name_prefix="asyncio")
        return super().run_in_executor(executor, func, *args)

    async def subprocess_exec(self, protocol_factory, program, *args, **options):
        from membrane import _processes
        raise _processes.command_error("asyncio", [program, *args])

    async def subprocess_shell(self, protocol_factory, cmd, **options):
        from membrane import _processes
        raise _processes.command_error("asyncio", cmd)


def _run_forever(loop):
    """BaseEventLoop.run_forever of a thread: other threads run between two rounds."""
    run_forever, stop = asyncio.BaseEventLoop.run_forever, asyncio.BaseEventLoop.stop
    if loop.is_running() or loop.is_closed():
        return run_forever(loop)  # which raises
    while True:
        loop._waits_in_thread = True
        try:
            wait = _scheduler.Wait(lambda: loop._ready or loop._stopping or loop.is_closed(), _time_to_timer(loop))
            yield _scheduler.Wait(timeout=0) if wait.is_over() else wait
        finally:
            loop._waits_in_thread = False
        loop._is_told_to_stop = loop._stopping
        stop(loop)  # after one iteration
        run_forever(loop)
        if loop._is_told_to_stop:
            return


def _run_until_complete(loop, future):
    """BaseEventLoop.run_until_complete of a thread."""
    if loop.is_running() or loop.is_closed():
        return asyncio.BaseEventLoop.run_until_complete(loop, future)  # which raises
    is_ours = not asyncio.isfuture(future)
    future = asyncio.ensure_future(future, loop=loop)
    if is_ours:
        future._log_destroy_pending = False  # the error is raised here
    stop = asyncio.base_events._run_until_complete_cb
    future.add_done_callback(stop)
    try:
        yield from _run_forever(loop)
    except BaseException:
        if is_ours and future.done() and not future.cancelled():
            future.exception()
        raise
    finally:
        future.remove_done_callback(stop)
    if not future.done():
        raise RuntimeError("Event loop stopped before Future completed.")
    return future.result()


def _run_by_runner(runner, coro, *, context=None):
    """asyncio.Runner.run of a thread, which has no signals."""
    if asyncio._get_running_loop() is not None or not asyncio.iscoroutine(coro):
        return asyncio.Runner.run(runner, coro, context=context)
    loop = runner.get_loop()
    task = loop.create_task(coro, context=runner._context if context is None else context)
    return (yield from _run_until_complete(loop, task))


def _run(main, **options):
    """asyncio.run of a thread."""
    if asyncio._get_running_loop() is not None:
        return asyncio.run(main, **options)  # which raises
    with asyncio.Runner(**options) as runner:
        return (yield from _run_by_runner(runner, main))


def _set_aside():
    """Puts the loop and the task aside on whose stack a thread runs. Gives what puts them back; None where no loop runs."""
    loop = asyncio._get_running_loop()
    if loop is None:
        return None
    swap = getattr(asyncio.tasks, "_swap_current_task", None)
    task = swap(loop, None) if swap and asyncio.current_task(loop) is not None else None
    asyncio._set_running_loop(None)

    def put_back():
        asyncio._set_running_loop(loop)
        if task is not None:
            swap(loop, task)

    return put_back


def _time_to_timer(loop):
    return max(loop._scheduled[0].when() - loop.time(), 0) if loop._scheduled else None


class _Policy(getattr(asyncio.events, "_BaseDefaultEventLoopPolicy", None) or asyncio.events.BaseDefaultEventLoopPolicy):
    _loop_factory = Loop

    def get_event_loop(self):
        """In a cell there always is one, as in notebooks: asyncio.gather(), ensure_future() and the like take it."""
        if self._local._loop is None and cell_loop is not None and _scheduler.current is _scheduler.MAIN:
            return cell_loop()
        return super().get_event_loop()


def _create_task(coro, **options):
    """asyncio.create_task: in a cell that does not await, the task begins when a later one does."""
    loop = asyncio._get_running_loop()
    if loop is None and cell_loop is not None and _scheduler.current is _scheduler.MAIN:
        return cell_loop().create_task(coro, **options)
    return _bare_create_task(coro, **options)


_bare_create_task = asyncio.tasks.create_task
_create_task.__name__ = _create_task.__qualname__ = "create_task"
_create_task.__module__ = "asyncio.tasks"


def install():
    """Makes asyncio.run(), asyncio.new_event_loop(), asyncio.EventLoop and the like give this loop."""
    asyncio.SelectorEventLoop = asyncio.EventLoop = Loop
    asyncio.create_task = asyncio.tasks.create_task = _create_task
    _scheduler.set_loop_aside = _set_aside
    _resumable.waits.update({
        asyncio.BaseEventLoop.run_forever: _run_forever, asyncio.BaseEventLoop.run_until_complete: _run_until_complete,
        asyncio.Runner.run: _run_by_runner, asyncio.run: _run,
    })
    # The class that set_event_loop_policy(None) restores; its location depends on the version.
    for module in (asyncio, sys.modules.get("asyncio.unix_events")):
        for name in ("DefaultEventLoopPolicy", "_DefaultEventLoopPolicy"):
            if name in vars(module):
                setattr(module, name, _Policy)
    setter = getattr(asyncio.events, "_set_event_loop_policy", None)
    if setter is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            asyncio.set_event_loop_policy(_Policy())
    else:
        setter(_Policy())
