"""Threads without threads: what a thread does is a generator, which yields a Wait wherever it has to wait.

There is one stack. A thread that was suspended in a generator goes on whenever its wait is over; so the program's main
thread, which is no generator, runs the others while it waits. Only what waits in the middle of a call that cannot be
suspended (a callback of C code, say) has to end its wait before what stands below it can go on.
"""

import collections
import contextvars
import time

_MAX_REQUESTS = 8  # answered at once
_now = time.monotonic
_sleep = time.sleep  # the host's, before the program's threads were simulated
_time = 0.0  # at the last reading: reading a clock may advance it


def _look_at_clock():
    """The time. It does not go back while somebody waits; what was looked at before may be another run's clock."""
    global _time
    now = _now()
    _time = max(_time, now) if _tasks or _standing else now
    return _time


class Wait:
    """Over when `ready()` says so, or at `deadline`, a time of time.monotonic(); without either at once, after the others had
    their turn. `request` is asked of the host. A thread in an idle wait has nothing left to do: nobody waits for its end."""

    __slots__ = ("ready", "deadline", "request", "answer", "is_idle")

    def __init__(self, ready=None, timeout=None, request=None, is_idle=False):
        self.ready, self.request, self.answer, self.is_idle = ready, request, None, is_idle
        self.deadline = None if timeout is None else _look_at_clock() + timeout

    def is_over(self):
        if self.request is not None:
            return self.answer is not None
        if self.ready is not None and self.ready():
            return True
        if self.deadline is None:
            return self.ready is None
        return _time >= self.deadline


class Left(BaseException):
    """Ends what a thread does where it waits in the way of another (Task.may_be_left)."""


class Task:
    """A thread that was started, and has not ended. One that `may_be_left` is a daemon whose function cannot be suspended: it
    begins when another thread waits, on top of that, and is left for good where that one could go on."""

    __slots__ = ("name", "ident", "steps", "wait", "is_running", "is_over", "context", "daemon", "may_be_left", "is_left")

    def __init__(self, name, ident, steps, daemon, may_be_left=False, context=None):
        self.name, self.ident, self.steps, self.daemon = name, ident, steps, daemon
        self.may_be_left, self.is_left = may_be_left, False
        self.wait, self.is_running, self.is_over = None, False, False
        self.context = contextvars.Context() if context is None else context


MAIN = Task("MainThread", 1, None, False)
current = MAIN
_tasks = collections.deque()  # unfinished tasks, the next to run first
_standing = []  # (task, wait) of waits in calls that cannot be suspended, the lowest first
_last_ident = MAIN.ident
steps = 0  # made by threads
send_requests = None  # [request] -> [answer], set by the module that knows requests
set_loop_aside = lambda: None  # before a thread's step, on top of another's: what puts the loop back; set by the module that knows loops


def start(name, ident, steps, daemon, may_be_left=False, context=None):
    """Runs the steps of a new thread up to its first wait, in an empty context without one; those of one that may be left when
    others wait."""
    task = Task(name, ident, steps, daemon, may_be_left, context)
    _tasks.append(task)
    if not may_be_left:
        _step(task)


def new_ident():
    global _last_ident
    _last_ident += 1
    return _last_ident


def restart_idents():
    """After the main thread's number was set."""
    global _last_ident
    _last_ident = MAIN.ident


def has_others():
    """Whether there are threads besides the one that asks."""
    return current is not MAIN or bool(_tasks)


def drive(steps):
    """The value of the steps, which run here: what they wait for is brought about by the other threads."""
    try:
        wait = next(steps)
        while True:
            try:
                run_until(wait)
            except BaseException as error:
                wait = steps.throw(error)
            else:
                wait = steps.send(wait)
    except StopIteration as end:
        return end.value


def sleep(seconds):
    """Other threads run in the meantime."""
    if not _tasks:
        return _sleep(seconds)
    run_until(Wait(timeout=seconds))


def run_until(wait):
    """Runs the other threads until the wait is over; time passes when none of them can run."""
    if wait.is_over():
        return
    _standing.append((current, wait))
    try:
        while not wait.is_over():
            if not run_one() and not _ask():
                _leave_if_in_the_way()
                _let_time_pass(wait)
    finally:
        _standing.pop()


def has_tasks():
    """Whether there are threads that are not over."""
    return bool(_tasks)


def run_all(of_script):
    """Runs threads until all have ended but daemons. Where nothing can wake those that are left, that is a deadlock, or, without
    `of_script`, they stay as they are."""
    while True:
        if run_one() or _ask():
            continue
        left = [task for task in _tasks if not task.daemon and not task.wait.is_idle]
        if not left:
            return
        if not of_script and all(task.wait.deadline is None for task in left):
            return
        _let_time_pass(None)


def forget():
    """Leaves what has not ended where it stands, as a process that ends does: nothing of it runs any more."""
    _left_behind.extend(_tasks)
    _tasks.clear()
    _names_of_left.clear()


_left_behind = []  # freeing a generator would run its `finally`
_names_of_left = []  # of tasks, for those that wait for them in vain


def run_one():
    """Runs the next thread that can, up to its next wait."""
    for _ in range(len(_tasks)):
        task = _tasks[0]
        _tasks.rotate(-1)
        if not task.is_running and (task.wait is None or task.wait.is_over()):
            _step(task)
            return True
    return False


def _step(task):
    global current, steps
    steps += 1
    before, current = current, task
    task.is_running = True
    put_loop_back = set_loop_aside()
    try:
        task.wait = task.context.run(task.steps.send, task.wait)
    except StopIteration:
        task.is_over = True
        _tasks.remove(task)
    finally:
        current, task.is_running = before, False
        if put_loop_back is not None:
            put_loop_back()


def _ask():
    """Asks the host for what threads wait for, all at once. False when it is nothing."""
    waits = [task.wait for task in _tasks if _asks(task.wait)]
    waits += [wait for _, wait in _standing if _asks(wait)]
    waits = waits[:_MAX_REQUESTS]
    if not waits:
        return False
    for wait, answer in zip(waits, send_requests([wait.request for wait in waits])):
        wait.answer = answer
    return True


def _asks(wait):
    return wait is not None and wait.request is not None and wait.answer is None


def _leave_if_in_the_way():
    """Whether a task below the current one could continue."""
    below = _standing[:-1]
    if current.may_be_left and (all(task is not MAIN for task, _ in below) or any(wait.is_over() for _, wait in below)):
        _leave()


def _leave():
    current.is_left = True
    _names_of_left.append(current.name)
    raise Left


def _let_time_pass(wait):
    """Until the first wait that ends by itself."""
    waits = [task.wait for task in _tasks if not task.is_running]
    if current.may_be_left:
        waits += [wait for _, wait in _standing]
    ends = [w.deadline for w in (wait, *waits) if w is not None and w.deadline is not None]
    if not ends:
        if current.may_be_left:
            _leave()
        raise RuntimeError(_why_nothing_goes_on())
    global _time
    end = min(ends)
    if (left := end - _now()) > 0:
        _sleep(left)
    _time = max(_time, end)


def _why_nothing_goes_on():
    below = [task for task, wait in _standing[:-1] if wait.is_over()]
    if current is not MAIN and all(task is not MAIN for task, _ in _standing):
        below.append(MAIN)  # which started this thread, and does not wait
    if below:
        return (f"deadlock: {below[0].name} could go on, but {current.name} waits on top of it, in a call that cannot be "
                "suspended: a callback, a generator, or code without its source. Let the function "
                "that the thread runs wait in a statement of its own")
    waiting = ", ".join([task.name for task, _ in _standing] +
                        [t.name for t in _tasks if not t.is_running and not t.wait.is_idle])
    why = f"deadlock: this waits for another thread, and there is none that could end it (waiting: {waiting})"
    if _names_of_left:
        why += (f". {', '.join(_names_of_left)} ended where it had to wait: a daemon whose function, of a module without its "
                "source, cannot be suspended. Let the thread run a function of your own that calls it")
    return why
