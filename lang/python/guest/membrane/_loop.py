"""An event loop for asyncio where there are no sockets and no threads: timers, tasks and futures."""

import asyncio
import sys
import time
import warnings


class _Waiter:
    """Stands where a selector would: nothing ever becomes ready but by time."""

    def select(self, timeout=None):
        if timeout is None:
            raise RuntimeError("every task waits, and nothing is left that could wake one")
        if timeout > 0:
            time.sleep(timeout)
        return []

    def close(self):
        pass


class Loop(asyncio.BaseEventLoop):
    def __init__(self):
        super().__init__()
        self._selector = _Waiter()

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        pass  # one thread: who would be woken is awake

    def run_in_executor(self, executor, func, *args):
        """Without threads the function runs here and now, unless the executor is somebody's own."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


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
