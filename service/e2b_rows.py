"""Runs rows of a table of docs/e2b.md as checks with E2B's own Python client, for the programs that
e2b_test.py runs.

A program prints one JSON object: for each row what went wrong, or null.
"""

import json
import traceback

from e2b import SandboxException

ROWS = {}


def row(name):
    def add(check):
        ROWS[name] = check
        return check
    return add


def equal(a, b):
    assert a == b, f"{a!r} is not {b!r}"


def refused(call, text, kind=SandboxException):
    try:
        got = call()
    except kind as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(f"nothing was raised, but {got!r} given")


def run_rows(sandbox, names):
    """All rows, or those that are named, in one sandbox."""
    results = {}
    for name, check in ROWS.items():
        if names and name not in names:
            continue
        try:
            check(sandbox)
            results[name] = None
        except Exception:  # noqa: BLE001: what is wrong with a row is its result
            results[name] = traceback.format_exc(limit=-4)
    print(json.dumps(results))
