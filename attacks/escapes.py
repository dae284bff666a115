#!/usr/bin/env python3
"""The register of escapes: attempts of four attackers, each with the wall that stops it.

    attacks/escapes.py              how many there are, by attacker and wall
    attacks/escapes.py --all        each of them with its wall
    attacks/escapes.py --update     writes the former into attacks/README.md

An attempt is a test method with `@stopped_by("wall")`, or a row of a table from which add_tries() makes one.
The walls around a worker are those of worker/walls.def; the others are in WALLS below.
tools/tests/escapes_test.py checks the register.
"""

import argparse
import importlib
import platform
import re
import sys
import unittest
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARKS = "<!-- escapes: attacks/escapes.py --update -->\n", "<!-- end of escapes -->\n"

# The walls other than those around a worker.
WALLS = {
    # around a guest, in the worker
    "validation": "refuses a module before any of it runs",
    "memory": "bounds a guest's accesses to its own linear memory, and that memory's size",
    "language": "gives a program of a language what WASI's calls give, and nothing of the host's own interpreter",
    "budgets": "ends what uses more fuel, time, output, host calls or bytes than it was given",
    "grants": "decides every effect by the policy, in the supervisor",
    "determinism": "gives a clock and randomness that say nothing of the machine",
    "terminal": "shows codes that would drive a terminal as text",
    "report": "says what the supervisor has seen, whatever a worker says",
    # of the supervisor, towards a worker
    "messages": "takes messages of known kinds and sizes for the session that is asked, and ends who sends others",
    "deadlines": "ends a worker some seconds after its guest's time, or after its owner's word",
    # of the service, towards a client
    "http_parser": "takes HTTP/1.1 in one reading only, and refuses what has two",
    "http_limits": "bounds heads, targets, bodies, answers, connections and the time for each",
    "routes": "reads a path once, and serves what openapi.json describes",
    "schema": "holds every query and body to the description before a handler sees it",
    "json_reader": "measures JSON before it is parsed: depth, values, size, UTF-8",
    "archive_reader": "takes regular files with names that stay inside, and bounds what is unpacked",
    "log": "writes logs and answers whose lines a client cannot break",
    "idempotency": "does a request once for each key, token and body",
    # of the service, between tenants
    "tokens": "knows a token by its hash, its end and its scopes",
    "tenants": "finds only what belongs to the token's tenant; for others it does not exist",
    "policies": "lets tenants grant nothing of the service's machine, and widen only with the scope for it",
    "quotas": "counts what a tenant has, whatever it was made from",
}
MODULES = {
    "guest_attack_test": "a hostile guest",
    "worker_attack_test": "a worker that runs an attacker's code",
    "client_attack_test": "a hostile client of the service",
    "tenant_attack_test": "another tenant",
}


def stopped_by(wall):
    """Names the wall that stops the attempt."""
    def mark(method):
        method.wall = wall
        return method
    return mark


def add_tries(to, rows, act):
    """Makes a test method of `to` from each row: (name, wall, further arguments of act(case, *more))."""
    for name, wall, *more in rows:
        def method(case, more=tuple(more)):
            act(case, *more)
        method.__name__ = f"test_{name}"
        method.__qualname__ = f"{to.__qualname__}.{method.__name__}"
        assert not hasattr(to, method.__name__), method.__qualname__
        setattr(to, method.__name__, stopped_by(wall)(method))


def rows_of(path, macro):
    """The rows of a C++ table, each as a list of words. Those for another processor are left out."""
    rows, only = [], None
    for line in (ROOT / path).read_text().splitlines():
        if condition := re.match(r"#if defined\(__(\w+)__\)", line):
            only = condition[1]
        elif line.startswith("#endif"):
            only = None
        elif line.startswith(macro + "(") and only in (None, platform.machine()):
            rows.append([word or quoted for quoted, word in
                         re.findall(r'"([^"]*)"|(\w+)(?=[,)])', line[len(macro):])])
    return rows


def worker_walls():
    """From worker/walls.def: {"kUserNamespace": ("user_namespace", "gives …")}."""
    return {identity: (name, words) for identity, name, words in rows_of("worker/walls.def", "WALL")}


def all_walls():
    return {**dict(worker_walls().values()), **WALLS}


def all_escapes():
    """(attacker, name of the test, wall) of each attempt; the wall is None if a test names none."""
    sys.path.insert(0, str(ROOT / "attacks"))
    found = []
    for module, attacker in MODULES.items():
        for suite in unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(module)):
            for case in suite:
                method = getattr(case, case._testMethodName)
                found.append((attacker, f"{type(case).__name__}.{case._testMethodName}",
                              getattr(method, "wall", None)))
    return found


def summary():
    """How many attempts each wall stops, by attacker, as a table in Markdown."""
    escapes, walls = all_escapes(), all_walls()
    count = Counter((attacker, wall) for attacker, _, wall in escapes)
    attackers = list(MODULES.values())
    lines = [f"There are {len(escapes)}: " +
             ", ".join(f"{sum(1 for each in escapes if each[0] == attacker)} by {attacker}" for attacker in attackers) + ".",
             "", "| wall | what it does | guest | worker | client | tenant |", "| --- | --- | --- | --- | --- | --- |"]
    for wall, words in walls.items():
        lines.append(f"| `{wall}` | {words} | " +
                     " | ".join(str(count[attacker, wall] or "") for attacker in attackers) + " |")
    return "\n".join(lines) + "\n"


def readme(text):
    """The text with the current table."""
    before, rest = text.split(MARKS[0])
    return before + MARKS[0] + "\n" + summary() + "\n" + MARKS[1] + rest.split(MARKS[1])[1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--all", action="store_true", help="print each try with its wall")
    arguments.add_argument("--update", action="store_true", help="write the table into attacks/README.md")
    options = arguments.parse_args()
    path = ROOT / "attacks" / "README.md"
    if options.update:
        path.write_text(readme(path.read_text()))
    elif options.all:
        for attacker, name, wall in all_escapes():
            print(f"{attacker}: {name} → {wall}")
    else:
        print(summary(), end="")


if __name__ == "__main__":
    main()
