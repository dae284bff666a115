"""Runs one module of CPython's own tests, where it is, and prints a line for each test as it ends.

Standard input has a line of JSON: {"module":"test_json", "tests":"/tests", "work":"/tmp/work", "leave_out":["id", …]}.
A line begins with MARK, and goes on as JSON: {"start":id}, {"end":id, "outcome":…, "detail":…} or {"done":true}.
"""

import asyncio
import importlib
import json
import os
import sys
import traceback
import types
import unittest
import warnings

MARK = "\x02"
MAX_DETAIL = 1200  # characters per failure
# C modules that only CPython's own builds have. A test module that cannot start without one gets a replacement that
# skips each test which touches it.
OF_TEST_BUILDS = ("_testcapi", "_testinternalcapi", "_testlimitedcapi", "_testsinglephase", "_testmultiphase")
# Names that older tests import, and that newer libraries moved or removed.
MOVED = {"_compression": "compression._common._streams"}
REMOVED = {"typing": ("no_type_check_decorator",), "http.server": ("CGIHTTPRequestHandler",)}
# These need no socket, but their package or module asks for one.
WITHOUT_SOCKETS = ("test_asyncio", "test_asyncgen", "test_contextlib_async", "test_sys_settrace")


class Absent(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise unittest.SkipTest(f"needs {self.__name__}.{name}")


class Results(unittest.TestResult):
    """Tells of each test when it begins and when it ends; a subtest that fails is the failure of its test."""

    def __init__(self, out):
        super().__init__()
        self._out, self._now = out, {}

    def tell(self, **what):
        self._out.write(MARK + json.dumps(what) + "\n")
        self._out.flush()

    def startTest(self, test):
        super().startTest(test)
        self._now = {"end": test.id(), "outcome": "passed", "detail": ""}
        self.tell(start=test.id())

    def stopTest(self, test):
        super().stopTest(test)
        self.tell(**self._now)
        self._now = {}

    def _note(self, test, outcome, detail):
        if self._now:
            if self._now["outcome"] not in ("failed", "error"):
                self._now.update(outcome=outcome, detail=detail[:MAX_DETAIL])
        else:  # an error in setUpClass or setUpModule, which is not a test
            self.tell(end=test.id(), outcome=outcome, detail=detail[:MAX_DETAIL])

    def _failure(self, test, error, outcome):
        kind, value, trace = error
        try:
            text = "".join(traceback.format_exception_only(kind, value)).strip()
        except BaseException:
            text = kind.__name__
        frames = [f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in traceback.extract_tb(trace)]
        self._note(test, outcome, f"{text}\n{' '.join(frames[-4:])}")

    def addError(self, test, err):
        self._failure(test, err, "error")

    def addFailure(self, test, err):
        self._failure(test, err, "failed")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._failure(test, err, "failed" if issubclass(err[0], test.failureException) else "error")

    def addSkip(self, test, reason):
        if not self._now or self._now["outcome"] == "passed":
            self._note(test, "skipped", str(reason))

    def addUnexpectedSuccess(self, test):
        self._note(test, "failed", "passes, where it was expected to fail")


def without(suite, left_out):
    kept = unittest.TestSuite()
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            kept.addTest(without(test, left_out))
        elif test.id() not in left_out:
            kept.addTest(test)
    return kept


def load(name):
    """The module's tests. What of a test build it lacks at its beginning is made up for."""
    for _ in OF_TEST_BUILDS:
        try:
            __import__(name)
            break
        except (unittest.SkipTest, ImportError) as error:
            missing = next((module for module in OF_TEST_BUILDS if f"'{module}'" in str(error)), None)
            if missing is None or missing in sys.modules:
                raise
            sys.modules[missing] = Absent(missing)
    return unittest.defaultTestLoader.loadTestsFromName(name)


def no_child_watcher(policy):
    """What older tests of asyncio ask for at their end, and are content not to get."""
    raise NotImplementedError


def prepare(request):
    sys.path.append(request["tests"])
    os.makedirs(request["work"], exist_ok=True)
    os.chdir(request["work"])
    sys.dont_write_bytecode = True
    from test import support
    support.use_resources = {}
    support.record_original_stdout(sys.stdout)
    support.has_socket_support |= request["module"].startswith(WITHOUT_SOCKETS)
    warnings.simplefilter("default")
    if "asyncio" in request["module"]:
        policy = type(asyncio.events._get_event_loop_policy())
        policy.get_child_watcher = no_child_watcher
    for old, new in MOVED.items():
        try:
            sys.modules[old] = importlib.import_module(new)
        except ImportError:
            pass  # it stays where it was
    for module, names in REMOVED.items():
        for name in names:
            if not hasattr(importlib.import_module(module), name):
                setattr(sys.modules[module], name, None)


def main():
    request = json.loads(sys.stdin.readline())
    module = "test." + request["module"]
    results = Results(open(1, "w", encoding="utf-8", closefd=False))
    prepare(request)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")
    try:
        suite = load(module)
    except unittest.SkipTest as skip:
        results.tell(end=module, outcome="skipped", detail=str(skip))
    except BaseException as error:
        results.tell(end=module, outcome="error", detail=f"{type(error).__name__}: {error}"[:MAX_DETAIL])
    else:
        without(suite, set(request["leave_out"])).run(results)
    results.tell(done=True)


main()
