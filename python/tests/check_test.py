"""Types of cells, checked before they run; stubs. Of the installed package, with its extra "check"."""

import asyncio
import dataclasses
import datetime
import functools
import os
import stat
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import List, Optional, TypedDict
from unittest import mock

import membrane
from membrane import LATER, AsyncSession, Call, MembraneError, Object, Session, TypeCheck


def setUpModule():
    try:
        membrane.open_language("python")
    except MembraneError as error:
        raise unittest.SkipTest(str(error)) from None


class Account:
    """An account of ours."""

    owner: str = "Ada"

    def __init__(self):
        self.balance: int = 100
        self.secret = "key"

    @property
    def opened_at(self) -> datetime.datetime:
        return datetime.datetime(2026, 1, 1)

    def deposit(self, amount: int) -> int:
        """Adds to the balance."""
        return self.balance + amount

    def partner(self) -> "Optional[Account]":
        return None


def price(item: str, count: int = 1, *, unit: Optional[str] = None) -> int:
    """What an item costs: "one" \\ many."""
    return 350 * count


async def rate(currency: str) -> float:
    return 1.5


def account():
    return Object(Account(), methods=["deposit", "partner"], attributes=["balance", "owner", "opened_at"])


def given():
    return {"functions": [price], "modules": {"bank": {"rate": rate, "approve": LATER}, "ab": [price]},
            "inputs": {"account": account(), "rows": [{"n": 1}, {"n": 2}], "pair": (1, "a")}}


class Checks(unittest.TestCase):
    def setUp(self):
        self.session = Session(**given(), type_check=True)
        self.addCleanup(self.session.close)

    def finds(self, code, line, column, words, hint=""):
        result = self.session.run(code)
        self.assertEqual((result.outcome, result.error.code, result.fuel), ("invalid", "type_check", 0), result)
        (found,) = result.findings
        self.assertEqual((found.line, found.column), (line, column), found)
        self.assertIn(words, found.message)
        self.assertIn(hint, found.hint)
        self.assertIn(found.message, str(result.error))

    def runs(self, code, text=None):
        result = self.session.run(code)
        self.assertTrue(result.ok, result)
        if text is not None:
            self.assertEqual(result.text, text)

    def test_what_the_host_gives(self):
        self.finds("price(3)", 1, 7, "`str`", hint="price(item: str, count: int = 1, *, unit: Optional[str] = None) -> int")
        self.finds("x = 1\naccount.deposit('5')", 2, 17, "`int`", hint="deposit(amount: int) -> int")
        self.finds("account.secret", 1, 1, "secret", hint="Account has balance, owner, opened_at, deposit, partner.")
        self.finds("account.opened_at + 1", 1, 1, "datetime")
        self.finds("account.partner().owner", 1, 1, "owner")
        self.finds("from bank import rates", 1, 18, "rates", hint="bank has rate, approve.")
        self.finds("from bank import rate\nrate('EUR') * 2", 2, 1, "Coroutine")
        self.finds("from ab import price as p\np()", 2, 1, "item", hint="price(item")
        self.finds("rows[0]['n'].upper()", 1, 1, "upper")
        self.finds("pair[1] + 1", 1, 1, "+")

    def test_inputs_of_a_turn(self):
        inputs = {"count": 3, "when": datetime.date(2026, 1, 2), "named": {"a": [1]}, "datetime": 5, "other": account()}
        result = self.session.run("count.upper()", inputs=inputs)
        self.assertEqual((result.error.code, result.findings[0].line), ("type_check", 1), result)
        self.assertIn("upper", result.findings[0].message)
        self.assertFalse(self.session.check("other.deposit('5')", inputs=inputs).ok)
        self.assertTrue(self.session.check("count + when.year + named['a'][0] + datetime + other.balance", inputs=inputs).ok)
        self.finds("print(when)", 1, 7, "when")  # nothing of it has run
        self.assertEqual(self.session.run("count + when.year", inputs=inputs).text, "2029")
        self.finds("named['a'] + 1", 1, 1, "+")
        self.runs("count = 'text'\ncount.upper()", "'TEXT'")
        self.assertEqual(self.session.run("count + 1", inputs={"count": 1}).text, "2")
        self.assertTrue(self.session.run("", inputs={"late": 7}).ok)
        self.runs("late + 1", "8")
        with membrane.load(self.session.dump(), **given(), type_check=True) as again:
            self.assertEqual(again.run("late.upper()").error.code, "type_check")
        self.finds("_MembraneInputs", 1, 1, "_MembraneInputs")

    def test_what_is_right_runs(self):
        self.runs("from bank import rate\nawait rate('EUR') * 2", "3.0")
        self.runs("price('tea', 2, unit=None) + rows[0]['n'] + account.deposit(1)", "802")
        self.runs("import numpy as np\nint(np.arange(3).sum())", "3")
        self.runs("price = 4\nrows = 'reused'\nprice, rows", "(4, 'reused')")

    def test_a_finding_stops_the_cell(self):
        self.finds("made = 1\nmade.nosuch", 2, 1, "nosuch")
        self.assertEqual(self.session.run("'made' in globals()").text, "False")
        with self.assertRaises(membrane.ProgramError):
            self.session.run("price(3)").check()

    def test_cells_before(self):
        self.runs("total: int = 1\ndef double(n: int) -> int:\n    return 2 * n\nclass Item:\n    name = 'tea'\n")
        self.finds("double('a')", 1, 8, "`int`")
        self.finds("\nItem().nam", 2, 1, "nam")
        self.finds("totl + 1", 1, 1, "totl", hint="Did you mean total?")
        self.runs("double(total)", "2")

    def test_names_that_the_texts_do_not_show(self):
        self.runs("globals()['made'] = 5")
        self.runs("made + 1", "6")

    def test_names_that_are_asked_for_are_bounded(self):
        asked = []
        complete, self.session._native = self.session._native.complete, mock.Mock(wraps=self.session._native)
        self.session._native.complete = lambda start: asked.append(start) or [start]
        self.assertTrue(self.session.check("\n".join(f"made_{number}" for number in range(500))).ok)
        self.assertLessEqual(len(asked), 100)
        self.assertEqual(complete("nosuch"), [])

    def test_a_cell_that_failed_has_defined_what_it_came_to(self):
        self.assertEqual(self.session.run("begun = '''a\nb'''\n1 / 0\nnever = 1").outcome, "raised")
        self.finds("begun + 1", 1, 1, "+")
        self.assertEqual(self.session.run("raise ValueError").outcome, "raised")
        self.runs("import sys\nsys.exit(0)")
        self.finds("begun + 1", 1, 1, "+")

    def test_syntax_is_the_languages_own(self):
        result = self.session.run("x = = 1")
        self.assertEqual((result.outcome, result.error.code), ("raised", "SyntaxError"))
        self.runs("match 1:\n    case int(n):\n        pass\nn", "1")

    def test_several_findings(self):
        result = self.session.check("price(1)\nprice(2)\naccount.deposit('a')")
        self.assertEqual([each.line for each in result.findings], [1, 2, 3])
        for words in ("line 2: ", "    price(2)\n          ^", "deposit"):
            self.assertIn(words, str(result.error))
        self.assertLessEqual(len(self.session.check("nosuch\n" * 500).findings), 20)

    def test_a_check_runs_nothing(self):
        self.assertTrue(self.session.check("total = price('tea')\ntotal + 1").ok)
        self.assertEqual(self.session.check("x = = 1").findings[0].column, 5)
        self.finds("total", 1, 1, "total")

    def test_scripts_stand_for_themselves(self):
        self.runs("total = 1")
        for code in ("from ab import price\nprice(1)", "print(total)", "price('a')", "account"):
            self.assertEqual(self.session.run(code, script=True).error.code, "type_check", code)
        self.assertEqual(self.session.run("from ab import price\nprint(price('a'))", script=True).stdout, "350\n")

    def test_texts_that_are_strange(self):
        for code in ("", "\n\n", "# €\u2028x", "x = 1\n\n\n", "y\x00", "x = " + "(" * 3000 + ")" * 3000):
            self.assertNotEqual(self.session.run(code).outcome, "invalid", code[:20])
        self.finds("\r\n'a' + 1\r\n", 2, 1, "+")

    def test_one_that_is_right_as_it_stands(self):
        self.runs("price(3)  # ty: ignore", "350")

    def test_what_is_installed_here_is_not_seen(self):
        self.assertTrue(self.session.check("import httpx, membrane._version\nx: int = httpx.__version__").ok)
        self.assertTrue(self.session.check("import httpx\nhttpx.nosuch").ok)
        with mock.patch.dict(os.environ, {"VIRTUAL_ENV": sys.prefix, "PYTHONPATH": os.pathsep.join(sys.path)}):
            self.assertTrue(self.session.check("import httpx\nhttpx.nosuch").ok)

    def test_stubs_of_others(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "tables.pyi").write_text("def rows() -> list[int]: ...\n")
            how = TypeCheck(stubs={"greetings": "def hello(name: str) -> str: ...\n"}, paths=[folder])
            with Session(type_check=how) as session:
                found = session.check("import greetings, tables\ngreetings.hello(1)\ntables.rows().foo")
                self.assertEqual([each.line for each in found.findings], [2, 3])


class Sessions(unittest.TestCase):
    def test_a_session_without_checks_only_parses(self):
        with Session() as session:
            self.assertTrue(session.check("1 + 'a'").ok)
            self.assertEqual(session.run("1 + 'a'").error.code, "TypeError")

    def test_only_when_asked(self):
        with Session(type_check=TypeCheck(before_runs=False)) as session:
            session.run("total = 1").check()
            self.assertEqual(session.run("total + 'a'").error.code, "TypeError")
            self.assertEqual(session.check("total + 'a'").error.code, "type_check")

    def test_forks_and_bytes_know_the_cells(self):
        with Session(type_check=True) as session:
            session.run("def double(n: int) -> int:\n    return 2 * n").check()
            with session.fork() as branch:
                branch.run("own = 1").check()
                self.assertEqual(branch.run("double('a')").error.code, "type_check")
            blob = session.dump()
            self.assertEqual(session.check("own").error.code, "type_check")
        with membrane.load(blob, type_check=True) as again:
            self.assertEqual(again.run("double('a')").error.code, "type_check")
        with membrane.load(blob) as again:
            self.assertEqual(again.run("double('a')").text, "'aa'")

    def test_a_session_loaded_without_its_cells(self):
        with Session() as session:
            session.run("total = 1").check()
            blob = session.dump()
        with membrane.load(blob, type_check=True) as again:
            self.assertEqual(again.run("total").text, "1")

    def test_calls_that_wait(self):
        with Session(type_check=True) as session:
            call = session.start("said = approve(1)")
            self.assertIsInstance(call, Call)
            call.resume("yes")
            self.assertEqual(session.run("said").text, "'yes'")
            self.assertEqual(session.start("nosuch + 1").error.code, "type_check")
            self.assertEqual(session.run("refuse(1)").error.code, "type_check")

    def test_cells_before_are_bounded(self):
        with Session(type_check=True) as session:
            session.run("first = 1").check()
            for _ in range(4):
                session.run("# " + "x" * 100_000).check()
            self.assertLess(sum(map(len, session._cells.texts)), 300_000)
            self.assertEqual(session.run("first + 1").text, "2")

    def test_heads_of_bytes_that_others_wrote(self):
        with Session(type_check=True) as session:
            blob = session.dump()
        for cells in (b'[1]', b'"a"', b'{"a": 1}', b'[["a"]]'):
            head = b'{"language": "python", "cells": ' + cells + b"}"
            end = 12 + int.from_bytes(blob[8:12], "little")
            with membrane.load(blob[:8] + len(head).to_bytes(4, "little") + head + blob[end:], type_check=True) as session:
                self.assertEqual(session.run("1").text, "1")

    def test_asyncio(self):
        async def main():
            async with AsyncSession(functions=[rate], type_check=True) as session:
                self.assertEqual((await session.run("await rate(1)")).error.code, "type_check")
                self.assertEqual((await session.check("said = rate(1)")).findings[0].column, 13)
                self.assertIn("async def rate", session.stubs())
                return (await session.run("await rate('a')")).text

        self.assertEqual(asyncio.run(main()), "1.5")

    def test_another_language(self):
        with self.assertRaises(MembraneError) as raised:
            Session("js", type_check=True)
        self.assertEqual(raised.exception.code, "not_found" if "not installed" in str(raised.exception) else "invalid_argument")


class Checker(unittest.TestCase):
    """What becomes of the checker's process."""

    def session(self, script, **how):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        path = self.folder / "ty"
        path.write_text("#!/bin/sh\n" + script.format(folder=self.folder))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        session = Session(type_check=TypeCheck(**how))
        self.addCleanup(session.close)
        session._checker._ty = str(path)
        return session

    def test_one_that_is_not_installed(self):
        with mock.patch.dict(sys.modules, {"ty": None}), mock.patch.dict(os.environ, {"PATH": ""}):
            with self.assertRaises(MembraneError) as raised:
                Session(type_check=True)
        self.assertEqual((raised.exception.code, raised.exception.hint), ("not_installed", "pip install ty"))

    def test_one_that_takes_too_long(self):
        session = self.session("exec tail -f /dev/null", timeout_s=0.05)
        result = session.run("x = 1")
        self.assertEqual((result.outcome, result.error.code), ("invalid", "type_check_timed_out"))
        self.assertIn("timeout_s", result.error.hint)

    def test_one_that_fails(self):
        for script in ("exit 1", "echo no", "echo '{{}}'", "kill -9 $$", "exec yes '[1,'"):
            self.assertEqual(self.session(script).run("x = 1").error.code, "type_check_failed", script)

    def test_one_that_is_cancelled(self):
        session = self.session("echo > {folder}/begun; exec tail -f /dev/null", timeout_s=3600)
        os.mkfifo(self.folder / "begun")

        def cancel():
            (self.folder / "begun").read_text()
            session.cancel()

        threading.Thread(target=cancel).start()
        self.assertEqual(session.run("x = 1").outcome, "cancelled")

    def test_one_that_is_cancelled_before_it_begins(self):
        with Session(type_check=True) as session:
            write = session._checker._write
            session._checker._write = lambda *words: (write(*words), session.cancel())
            self.assertEqual(session.run("x = 1").outcome, "cancelled")
            session._checker._write = write
            self.assertEqual(session.run("'x' in globals()").text, "False")

    def test_names_of_stubs(self):
        for name in ("../x", "/x", "a..b", ""):
            with self.assertRaises(MembraneError) as raised:
                Session(type_check=TypeCheck(stubs={name: ""}))
            self.assertEqual(raised.exception.code, "invalid_argument")

    def test_it_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
            with Session(type_check=True) as session:
                session.run("x = 1").check()
                session.run("x.foo")
            self.assertEqual(os.listdir(folder), [])


class Stubs(unittest.TestCase):
    def test_they_say_what_there_is(self):
        with Session(**given()) as session:
            text = session.stubs()
        self.assertEqual(membrane.stubs(**given()), text)
        compile(text, "stubs", "exec")
        for line in ("def price(item: str, count: int = 1, *, unit: Optional[str] = None) -> int:", "    def balance(self) -> int: ...",
                     '    """What an item costs: "one" \\\\ many."""', "class Account:", "    def opened_at(self) -> datetime.datetime: ...",
                     "    def deposit(self, amount: int) -> int:", "    def partner(self) -> Optional[Account]: ...",
                     "account: Account", "rows: list[dict[str, int]]", "pair: tuple[int, str]", "# module bank",
                     "async def rate(currency: str) -> float: ...", "def approve(*args: Any, **kwargs: Any) -> Any: ..."):
            self.assertIn(line + "\n", text)
        self.assertNotIn("secret", text)

    def test_records_are_classes(self):
        @dataclasses.dataclass
        class Item:
            """What is sold."""

            name: str
            tags: List[str]

        class Line(TypedDict, total=False):
            item: Item
            count: int

        def order(lines: List[Line], note: Optional[str] = None) -> Item:
            return Item(note or "", [])

        text = membrane.stubs(modules={"shop": [order]})
        self.assertIn("def order(lines: List[Line], note: Optional[str] = None) -> Item", text)
        self.assertIn('class Item(TypedDict):\n    """What is sold."""\n    name: str\n    tags: List[str]\n', text)
        self.assertIn("class Line(TypedDict):\n    item: NotRequired[Item]\n    count: NotRequired[int]\n", text)
        with Session(modules={"shop": [order]}, type_check=True) as session:
            self.assertEqual(session.check("from shop import order\norder([{'count': 1}])['name'].upper()").outcome, "ok")
            *_, found = session.check("from shop import order\norder([{'cuont': 1}])").findings
            self.assertIn("cuont", found.message)

    def test_signatures_that_programs_cannot_write(self):
        def strange(a, /, b=object(), *more: "no such type", c: Account = None, d: "Later" = float("inf"), **rest: "x.Y") -> Path:
            """Ends with a "quote\""""

        made = membrane.stubs(functions={"strange": strange, "int_": int, "not a name": strange, "class": strange})
        compile(made, "stubs", "exec")
        self.assertIn("def strange(a: Any, /, b: Any = ..., *more: Any, c: Any = None, d: Any = ", made)
        self.assertNotIn("not a name", made)

    def test_attributes_are_not_computed(self):
        class Slow:
            @functools.cached_property
            def rows(self) -> int:
                raise AssertionError("computed")

            def __getattr__(self, name):
                raise AssertionError("computed")

        slow = Slow()
        slow.__dict__["count"] = 3
        with mock.patch.object(membrane._functions, "hasattr", lambda *_: True, create=True):
            wrapped = Object(slow, attributes=["rows", "count", "other"])
        made = membrane.stubs(inputs={"slow": wrapped})
        for line in ("def rows(self) -> int: ...", "def count(self) -> int: ...", "def other(self) -> Any: ..."):
            self.assertIn(line, made)

    def test_inputs(self):
        values = {"n": None, "t": datetime.timedelta(1), "d": datetime.date(2026, 1, 1), "b": b"", "many": [1, "a", None, 2.5, True],
                  "deep": [[[[[[1]]]]]], "empty": [], "keys": {1: "a"}, "both": [1, "a"], "set": {1}}
        made = membrane.stubs(inputs=values)
        compile(made, "stubs", "exec")
        for line in ("n: None", "t: datetime.timedelta", "d: datetime.date", "b: bytes", "many: list[Any]", "deep: list[list[list[list[Any]]]]",
                     "empty: list[Any]", "keys: dict[int, str]", "both: list[int | str]", "set: set[int]"):
            self.assertIn(line + "\n", made)


if __name__ == "__main__":
    unittest.main()
