"""An event loop for asyncio where there are no sockets: timers, tasks, futures, and the scheduler's threads."""

import asyncio
import sys
import warnings

from membrane import _pools, _scheduler


class _Waiter:
    """Stands where a selector would: what becomes ready does so by time, or by a thread."""

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
    def __init__(self):
        super().__init__()
        self._selector = _Waiter(self)

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        pass  # who waits looks itself

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


class _Policy(getattr(asyncio.events, "_BaseDefaultEventLoopPolicy", None) or asyncio.events.BaseDefaultEventLoopPolicy):
    _loop_factory = Loop


def install():
    """Makes asyncio.run(), asyncio.new_event_loop(), asyncio.EventLoop and the like give this loop."""
    asyncio.SelectorEventLoop = asyncio.EventLoop = Loop
    # What set_event_loop_policy(None) goes back to; where that is depends on the version.
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
