"""Tests functions of the embedder that programs call, with the installed package. Skipped if it has no engine, or the language is not installed."""

import asyncio
import datetime
import gc
import json
import math
import pathlib
import threading
import unittest
import unittest.mock
import uuid
from dataclasses import dataclass
from decimal import Decimal

import membrane
from membrane import LATER, FunctionCall, MembraneError, Object, Session, _call_json


def setUpModule():
    try:
        membrane.open_language("python")
    except MembraneError as error:
        raise unittest.SkipTest(str(error)) from None


class Functions(unittest.TestCase):
    def test_values_go_both_ways(self):
        seen = []

        def echo(value):
            seen.append(value)
            return value

        values = [None, True, 1, -(1 << 80), 1.5, math.inf, "text €", b"\x00\xff", [1, [2]], (1, "a"), {"a": 1}, {1: "b"}, {"$x": 1},
                  {1, 2}, datetime.datetime(2026, 1, 2, 3, 4), datetime.date(2026, 1, 2), datetime.timedelta(seconds=90),
                  Decimal("1.10"), uuid.UUID(int=5)]
        with Session(functions={"echo": echo}, inputs={"given": values}) as session:
            ran = session.run("[echo(each) == each and type(echo(each)) is type(each) for each in given]")
            self.assertEqual(ran.text, str([True] * len(values)), ran.error)
            self.assertEqual([type(each) for each in seen[::2]], [type(each) for each in values])
            self.assertEqual(session.run("import math\necho(math.nan) != echo(math.nan)").text, "True")
            self.assertEqual(session.run("echo(object())").error.code, "TypeError")

    def test_values_that_pass_in_another_form(self):
        import collections
        import enum

        class Color(enum.Enum):
            RED = "red"

        class Model:  # like one of pydantic
            def model_dump(self):
                return {"color": Color.RED, "n": 1}

        @dataclass
        class Line:
            model: Model
            count: int = 2

        Point = collections.namedtuple("Point", "x y")
        given = {"color": Color.RED, "path": pathlib.PurePosixPath("/a/b"), "range": range(3), "keys": {"a": 1}.keys(),
                 "values": {"a": 1}.values(), "items": {"a": 1}.items(), "model": Model(), "line": Line(Model()),
                 "nested": [(Model(), {Color.RED: pathlib.PurePosixPath("x")})], "set": {Color.RED}, "point": Point(1, 2), "frozen": frozenset([1])}
        form = {"color": "red", "n": 1}
        expected = {"color": "red", "path": "/a/b", "range": [0, 1, 2], "keys": ["a"], "values": [1], "items": [("a", 1)], "model": form,
                    "line": {"model": form, "count": 2}, "nested": [(form, {"red": "x"})], "set": {"red"}, "point": (1, 2), "frozen": {1}}
        with Session(functions={"f": lambda name: given[name]}, inputs={"given": given, "expected": expected}) as session:
            self.assertEqual(session.run("[name for name in expected if not given[name] == f(name) == expected[name]]").text, "[]")
            call = session.start("later()")
            self.assertEqual(call.resume(Model()).text, "{'color': 'red', 'n': 1}")

    def test_an_object_with_any_attribute_is_not_a_model(self):
        with Session(functions={"f": unittest.mock.MagicMock}) as session, self.assertWarns(RuntimeWarning):
            self.assertIn("f() returned a MagicMock", session.run("f()").error.message)

    def test_a_function_call_can_be_copied_and_pickled(self):
        import copy
        import dataclasses
        import pickle

        with Session(functions={"f": lambda n: n}, gate=lambda call: LATER) as session:
            call = session.start("f(1)").calls[0]
            self.assertEqual(call.named, {"n": 1})
            for again in (pickle.loads(pickle.dumps(call)), copy.deepcopy(call)):
                self.assertEqual(again, call)
            self.assertEqual(dataclasses.asdict(call), {"name": "f", "args": (1,), "kwargs": {}})

    def test_a_value_that_cannot_pass_names_its_function(self):
        class Engine:
            pass

        async def awaited():
            return [1, Engine()]

        with Session(functions={"price": Engine, "awaited": awaited}, modules={"shop": {"each": lambda: iter([1])}}) as session:
            for code, said in (("price()", "price() returned an Engine, which cannot pass"),
                               ("await awaited()", "awaited() returned a list with an Engine in it, which cannot pass"),
                               ("import shop; shop.each()", "shop.each() returned a list_iterator, which cannot pass")):
                with self.assertWarnsRegex(RuntimeWarning, said.split(",")[0].replace("(", "\\(").replace(")", "\\)")):
                    error = session.run(code).error
                self.assertEqual(error.code, "TypeError")
                self.assertIn(said, error.message)
                self.assertIn("membrane.Object", error.message)
            call = session.start("later()")
            with self.assertRaisesRegex(TypeError, "resume.. was given an Engine"):
                call.resume(Engine())
            self.assertEqual(call.resume(1).text, "1")
        with self.assertRaisesRegex(TypeError, "the input e is an Engine"):
            Session(inputs={"e": Engine()})

    def test_a_function_looks_like_its_source(self):
        def price(item: str, count: int = 1) -> int:
            """What an item costs."""
            return 350 * count

        with Session(functions=[price], modules={"shop": {"price": price}}) as session:
            self.assertEqual(session.run("from shop import price as p\np('tea', count=2)").text, "700")
            shown = session.run("help(price)").stdout
            self.assertIn("price(item: str, count: int = 1) -> int", shown)
            self.assertIn("What an item costs.", shown)
            wrong = session.run("price()")
            self.assertEqual(wrong.error.code, "TypeError")
            self.assertEqual(wrong.report["host_calls"], [])

    def test_errors_arrive_by_their_names(self):
        def fail():
            raise LookupError("no such item")

        class OwnError(Exception):
            pass

        def fail_otherwise():
            raise OwnError("ours")

        with Session(functions=[fail, fail_otherwise]) as session:
            ran = session.run("try:\n  fail()\nexcept LookupError as error:\n  said = str(error)\nsaid")
            self.assertEqual(ran.text, "'no such item'")
            self.assertIn("OwnError: ours", session.run("fail_otherwise()").error.message)

    def test_coroutines_run_concurrently(self):
        both = []

        async def meet(name):
            both.append(name)
            while len(both) < 2:
                await asyncio.sleep(0)
            return name

        with Session(functions=[meet]) as session:
            self.assertEqual(session.run("import asyncio\nawait asyncio.gather(meet('a'), meet('b'))").text, "['a', 'b']")

    def test_coroutines_of_a_session_have_one_loop(self):
        loops, lock, left, cancelled = [], asyncio.Lock(), [], []

        async def stays():
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(True)

        async def locked(n):
            loops.append(asyncio.get_running_loop())
            if n == 1:
                left.append(asyncio.ensure_future(stays()))
            async with lock:  # asyncio binds an awaited lock to its loop
                await asyncio.sleep(0)
            return n

        both = "import asyncio\nawait asyncio.gather(locked(1), locked(2))"
        session = Session(functions=[locked])
        self.assertEqual([session.run(both).text for _ in range(2)], ["[1, 2]"] * 2)
        with session.fork() as branch:
            self.assertEqual(branch.run(both).text, "[1, 2]")

        async def where_a_loop_runs():
            return session.run(both).text

        self.assertEqual(asyncio.run(where_a_loop_runs()), "[1, 2]")
        self.assertEqual((len(set(loops)), loops[0].is_closed(), cancelled), (1, False, []))
        session.close()
        self.assertEqual((loops[0].is_closed(), len(cancelled)), (True, 4))

    def test_forks_await_at_once(self):
        both = threading.Barrier(2)

        async def meet():
            both.wait(60)
            return 1

        with Session(functions=[meet]) as session, session.fork() as branch:
            texts = []
            thread = threading.Thread(target=lambda: texts.append(branch.run("await meet()").text))
            thread.start()
            texts.append(session.run("await meet()").text)
            thread.join()
        self.assertEqual(texts, ["1", "1"])

    def test_a_sleep_that_fails_leaves_the_loop(self):
        loops = []

        async def sleep(seconds):
            loops.append(asyncio.get_running_loop())
            if len(loops) == 1:
                raise OSError("no sleep")

        with Session(sleep=sleep) as session:
            with unittest.mock.patch("sys.unraisablehook"):
                self.assertEqual(session.run("import time; time.sleep(1)").error.code, "OSError")
            session.run("time.sleep(1)").check()
        self.assertEqual(len(set(loops)), 1)

    def test_a_loop_is_closed_with_its_session(self):
        loops = []

        async def f():
            loops.append(asyncio.get_running_loop())

        session = Session(functions=[f])
        session.run("await f()").check()
        del session
        gc.collect()
        self.assertTrue(loops[0].is_closed())

    def test_a_gate_sees_each_call(self):
        seen = []

        def gate(call: FunctionCall):
            seen.append((call.name, call.args))
            return call.args != (2,)

        with Session(functions={"f": lambda x: x}, gate=gate) as session:
            self.assertEqual(session.run("f(1)").text, "1")
            self.assertEqual(session.run("f(2)").error.code, "PermissionError")
        self.assertEqual(seen, [("f", (1,)), ("f", (2,))])

    def test_a_gate_passes_only_calls_that_it_allows(self):
        async def awaited(call: FunctionCall):
            return call.args == (1,)

        for gate in (awaited, lambda call: True if call.args == (1,) else None):
            with Session(functions={"f": lambda x: x}, gate=gate) as session:
                self.assertEqual(session.run("f(1)").text, "1")
                self.assertEqual(session.run("f(2)").error.code, "PermissionError")

    def test_an_invalid_result_of_a_gate_refuses_the_call(self):
        async def awaited(call):
            return "yes"

        moved = []
        for gate in (lambda call: "no", lambda call: PermissionError("no"), lambda call: 1, lambda call: [], awaited):
            with Session(functions={"move": moved.append}, gate=gate) as session, self.assertWarnsRegex(RuntimeWarning, "the gate returned"):
                refused = session.run("move(1)")
                self.assertEqual(refused.error.code, "TypeError")
                self.assertIn("a gate returns True, False or None", refused.error.message)
        self.assertEqual(moved, [])

    def test_a_gate_gives_a_reason_by_raising(self):
        def gate(call):
            raise PermissionError("at most 100 a day")

        with Session(functions={"move": lambda amount: amount}, gate=gate) as session:
            self.assertEqual(session.run("try: move(1)\nexcept PermissionError as error: print(error)").stdout, "at most 100 a day\n")

    def test_a_gate_lets_a_call_wait(self):
        async def awaited(call):
            return LATER

        moved = []

        async def move_async(amount):
            moved.append(amount)

        for gate in (lambda call: LATER, awaited):
            for move, call_of in ((moved.append, "move(5)"), (move_async, "await move(5)")):
                with Session(functions={"move": move}, gate=gate) as session:
                    self.assertEqual(session.run(call_of).error.code, "RuntimeError")
                    call = session.start(call_of)
                    self.assertEqual((call.name, call.args), ("move", (5,)))
                    self.assertEqual(call.resume("sent").text, "'sent'")
                    failed = session.start(call_of).fail(PermissionError("not today"))
                    self.assertEqual((failed.error.code, failed.error.message), ("PermissionError", "not today"))
        self.assertEqual(moved, [])

    def test_a_gate_sees_arguments_by_name(self):
        class Account:
            def deposit(self, amount, note=""):
                return amount

        seen = []

        def gate(call):
            seen.append(dict(call.named))
            return True

        def move(amount, to="me", *rest, **more):
            return amount

        with Session(functions={"move": move, "later": LATER}, inputs={"account": Object(Account(), methods=["deposit"])}, gate=gate) as session:
            session.run("move(1); move(amount=2, to='you', x=3); account.deposit(5)").check()
            self.assertEqual(seen, [{"amount": 1, "to": "me", "rest": (), "more": {}},
                                    {"amount": 2, "to": "you", "rest": (), "more": {"x": 3}}, {"amount": 5, "note": ""}])
            self.assertEqual(session.start("later(n=1)").named, {"n": 1})
            session.abandon()
            self.assertIn("signature of later is not known", session.start("later(1)").error.message)

    def test_a_function_cannot_run_a_turn_of_its_own_session(self):
        for act in (lambda: session.run("1"), lambda: session.start("1"), lambda: asyncio.run(asyncio.to_thread(session.run, "1"))):
            with Session(functions={"f": act, "g": lambda: 1}) as session:
                self.assertIn("a turn of this session waits", session.run("f()").error.message)
                self.assertEqual(session.run("g()").text, "1")

    def test_system_exit_is_an_ordinary_error_in_the_program(self):
        def leaves():
            raise SystemExit(3)

        with Session(functions=[leaves]) as session:
            self.assertNotIn("File", session.run("try: leaves()\nexcept Exception as error: print(error)").stdout)

    def test_a_key_error_has_its_key(self):
        with Session(functions={"f": lambda: {}["user"]}) as session:
            self.assertEqual(session.run("try: f()\nexcept KeyError as error: print(error.args)").stdout, "('user',)\n")

    def test_names_of_the_standard_library_can_be_given(self):
        with Session(inputs={"re": 5}) as session:
            self.assertEqual(session.run("re").text, "5")

    def test_objects_show_only_listed_members(self):
        @dataclass
        class Account:
            balance: int
            secret: str = "key"

            def deposit(self, amount: int) -> int:
                self.balance += amount
                return self.balance

        account = Account(100)
        back = []
        wrapped = Object(account, methods=["deposit"], attributes=["balance"])
        with Session(inputs={"account": wrapped}, functions={"give": back.append}) as session:
            self.assertEqual(session.run("account.deposit(5), account.balance").text, "(105, 105)")
            self.assertEqual(session.run("account.secret").error.code, "AttributeError")
            session.run("give(account)").check()
        self.assertIs(back[0], account)

    def test_a_guest_that_forges_gets_nothing(self):
        class Box:
            def open(self):
                return "opened"

            def hidden(self):
                return "hidden"

        with Session(inputs={"box": Object(Box(), methods=["open"])}) as session:
            forged = """
from membrane import _door
def ask(**call): return _door.ask({'functions': [call]})['answers'][0]
[ask(call='Box.hidden', object=1), ask(call='Box.open', object=99), ask(call='Box.__class__', object=1), ask(call='nosuch')]
"""
            for answer in (text := session.run(forged).text).split("}, {"):
                self.assertIn("error", answer, text)
            self.assertNotIn("hidden'", text.replace("no method hidden'", ""))

    def test_functions_run_in_the_callers_context(self):
        calls = []
        with Session(functions={"f": lambda: calls.append(1)}) as session:
            branch = session.fork()
            branch.run("f()").check()
            branch.close()
            session.run("f()").check()
        self.assertEqual(calls, [1, 1])


class CallJson(unittest.TestCase):
    """Compares _call_json with the module json."""

    TEXTS = ["", "tea", 'a"b\\c\n\x00\x7f', "é漢😀", "$x"]
    NUMBERS = [0, -1, 2**53, -(2**53), 1.5, 1e300]

    def test_plain_values_are_written_as_json_writes_them(self):
        for value in [None, True, False, *self.TEXTS, *self.NUMBERS]:
            plain = _call_json.dumps_plain(value)
            if isinstance(value, float):
                self.assertIsNone(plain)
            else:
                self.assertEqual(plain, json.dumps(value, ensure_ascii=False))

    def test_special_values_are_not_plain(self):
        class Word(str):
            pass

        for value in [2**53 + 1, -(2**53) - 1, [1], {}, b"", Word("x")]:
            self.assertIsNone(_call_json.dumps_plain(value), value)

    def test_texts_are_read_as_json_reads_them(self):
        for value in [[], [1, "a"], {"a": [None]}, *self.TEXTS, *self.NUMBERS]:
            for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), f" {json.dumps(value)} "):
                self.assertEqual(_call_json.loads(text), json.loads(text))
        for text in ["", "[", "[1] 2", "tru", "'a'"]:
            with self.assertRaises(ValueError):
                _call_json.loads(text)

    def test_a_name_that_begins_with_a_dollar_is_found_in_any_spelling(self):
        self.assertTrue(_call_json.is_plain('["tea", {"a": 1}]'))
        for text in ('[{"$set": []}]', '[{"\\u0024set": []}]'):
            self.assertFalse(_call_json.is_plain(text))


if __name__ == "__main__":
    unittest.main()
