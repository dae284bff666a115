"""Runs one module of CPython's own tests, where it is, and prints a line for each test as it ends.

Standard input has a line of JSON: {"module":"test_json", "tests":"/tests", "work":"/tmp/work", "leave_out":["id", …]}.
A line begins with MARK, and goes on as JSON: {"start":id}, {"end":id, "outcome":…, "detail":…} or {"done":true}.
"""

import gc
import json
import os
import sys
import traceback
import unittest
import warnings

MARK = "\x02"
MAX_DETAIL = 1200  # characters of a failure


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
        else:  # of a class or a module, as setUpClass, which is no test
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


def main():
    request = json.loads(sys.stdin.readline())
    sys.path.append(request["tests"])
    os.makedirs(request["work"], exist_ok=True)
    os.chdir(request["work"])
    sys.dont_write_bytecode = True
    out = open(1, "w", encoding="utf-8", closefd=False)
    results = Results(out)
    from test import support
    support.use_resources = {}
    support.record_original_stdout(sys.stdout)
    warnings.simplefilter("default")
    sys.stdout = open(os.devnull, "w", encoding="utf-8")
    module = "test." + request["module"]
    try:
        __import__(module)
        suite = unittest.defaultTestLoader.loadTestsFromName(module)
    except unittest.SkipTest as skip:
        results.tell(end=module, outcome="skipped", detail=str(skip))
        suite = None
    except BaseException as error:
        results._failure(unittest.FunctionTestCase(lambda: None, description=module), (type(error), error, error.__traceback__), "error")
        suite = None
    if suite is not None:
        without(suite, set(request["leave_out"])).run(results)
    results.tell(done=True)


main()
