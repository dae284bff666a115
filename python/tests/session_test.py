"""Sessions in this process, of the installed package. Skipped where it has no engine, or the language is not installed."""

import asyncio
import datetime
import gc
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import unittest.mock
import uuid
from dataclasses import dataclass
from decimal import Decimal

import membrane
from membrane import LATER, AsyncSession, Call, FunctionCall, MembraneError, Object, Session, _call_json, load


def setUpModule():
    try:
        membrane.open_language("python")
    except MembraneError as error:
        raise unittest.SkipTest(str(error)) from None


def resident_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def fails_with_half():
    raise LookupError("\udc80")


class Turns(unittest.TestCase):
    def test_state_stays(self):
        with Session() as session:
            session.run("x = 20").check()
            result = session.run("print('said'); x + 22")
            self.assertEqual((result.text, result.stdout, result.ok), ("42", "said\n", True))
            self.assertGreater(result.fuel, 0)

    def test_forms_of_a_value(self):
        with Session() as session:
            result = session.run("class T:\n  def _repr_html_(self): return '<b>t</b>'\nT()")
            self.assertEqual(result.html, "<b>t</b>")
            session.run("""
class Rich:
    def __repr__(self): return "rich"
    def _repr_markdown_(self): return "# t"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return b"png"
    def _repr_jpeg_(self): return b"jpeg"
    def _repr_latex_(self): return "$t$"
    def _repr_json_(self): return {"t": [1]}
""").check()
            result = session.run("from membrane import display\ndisplay(1, Rich())\nRich()")
            self.assertEqual(result.value, {"text/plain": "rich", "text/markdown": "# t", "image/svg+xml": "<svg/>", "image/png": b"png",
                                            "image/jpeg": b"jpeg", "text/latex": "$t$", "application/json": '{"t":[1]}'})
            self.assertEqual([each["text/plain"] for each in result.displays], ["1", "rich"])
            self.assertIsNone(session.run("None").value)

    def test_an_error_of_the_program_is_a_result(self):
        with Session() as session:
            result = session.run("1 / 0")
            self.assertEqual((result.outcome, result.error.code), ("raised", "ZeroDivisionError"))
            self.assertIn("<cell 1>", result.error.traceback)
            with self.assertRaises(membrane.ProgramError):
                result.check()

    def test_limits(self):
        with Session(limits={"fuel": "2e9"}) as session:
            session.run("x = 1")
            self.assertEqual(session.run("while True: pass").outcome, "out_of_fuel")
            self.assertEqual(session.run("x").text, "1")
        with self.assertRaises(MembraneError) as raised:
            Session(limits={"patience": 1})
        self.assertTrue(raised.exception.hint)

    def test_nothing_is_granted(self):
        with Session() as session:
            self.assertEqual(session.run("from membrane import http\nhttp.get('http://127.0.0.1:1/')").outcome, "denied")

    def test_files(self):
        with Session() as session:
            session.files.write("/tmp/in.txt", "hello")
            session.run("open('/tmp/out.txt', 'w').write(open('/tmp/in.txt').read().upper())").check()
            self.assertEqual(session.files.read_text("/tmp/out.txt"), "HELLO")
            self.assertIn("/tmp/out.txt", [each.path for each in session.files.list()])
            with self.assertRaises(membrane.NotFoundError):
                session.files.read("/tmp/none")

    def test_output_is_heard_as_it_comes(self):
        heard = []
        with Session(on_stdout=heard.append) as session:
            session.run("print('one'); print('two')")
        self.assertEqual("".join(heard), "one\ntwo\n")

    def test_scripts_have_arguments_and_input(self):
        with Session() as session:
            ran = session.run("import sys; print(sys.argv[1], input())", script=True, name="s.py", arguments=["a"], stdin="b\n")
            self.assertEqual(ran.stdout, "a b\n")

    def test_a_turn_is_cancelled(self):
        heard = threading.Event()
        with Session(limits={"wall": "10min", "fuel": "1e15"}, on_stdout=lambda _: heard.set()) as session:
            threading.Thread(target=lambda: (heard.wait(), session.cancel())).start()
            self.assertEqual(session.run("print('begun', flush=True)\nwhile True: pass").outcome, "cancelled")
            self.assertEqual(session.run("1").text, "1")

    def test_text_that_is_checked_does_not_run(self):
        with Session() as session:
            self.assertEqual(session.check("x = = 1").error.code, "SyntaxError")
            self.assertTrue(session.check("x = 1").ok)
            self.assertEqual(session.run("x").error.code, "NameError")

    def test_what_is_granted_has_to_be_there(self):
        with self.assertRaises(membrane.NotFoundError) as raised:
            Session(allow=["fs:read:./no-such-directory"])
        self.assertIn("./no-such-directory", str(raised.exception))
        self.assertIn("does not exist", str(raised.exception))
        with Session() as session:
            blob = session.dump()
        with self.assertRaises(membrane.NotFoundError):
            load(blob, policy={"fs": [{"guest": "/data", "host": "/no/such/directory", "mode": "read"}]})

    def test_hints_name_arguments_of_this_package(self):
        with Session(limits={"fuel": "1e8"}) as session:
            denied = session.run("from membrane import http\nhttp.get('https://example.org/x')")
            self.assertIn('allow=["http:GET:https://example.org/', denied.error.hint)
            spent = session.run("while True: pass")
            self.assertIn('limits={"fuel": "400000000"}', spent.error.hint)
            self.assertNotIn("--", spent.error.hint + denied.error.hint + str(denied.report["host_calls"]))
        with self.assertRaises(MembraneError) as raised:
            Session(allow=["fs:read:"])
        self.assertIn('allow=["', raised.exception.hint)
        self.assertNotIn("--", str(raised.exception) + raised.exception.hint)

    def test_hints_name_what_this_package_has(self):
        with Session() as session:
            missing = session.run("import rich")
            self.assertIn('policy={"packages": {"python": ["rich"]}}', missing.error.hint)
            installing = session.run("!pip install rich httpx")
            self.assertIn('policy={"packages": {"python": ["rich", "httpx"]}}', installing.error.hint)
            self.assertIn('policy={"packages": {"python": [', session.run("import pip").error.hint)
            asking = session.run("from membrane import ai\nai.complete('x')").error
            self.assertIn("function", asking.hint)
            self.assertNotIn("--", asking.message + asking.hint + asking.traceback.replace("~", ""))
        for options, expected in (({"policy": {"packages": {"python": ["rich, httpx"]}}}, '["rich", "httpx"]'),
                                  ({"policy": {"platform": "kvm"}}, 'Sandbox.create(template="linux")'),
                                  ({"language": "lua"}, "python -m membrane install"),
                                  ({"language": "typescript"}, 'Session("js")')):
            with self.assertRaises(MembraneError) as raised:
                Session(**options)
            self.assertIn(expected, str(raised.exception))
            self.assertNotIn("--", str(raised.exception))
        with Session() as session:
            blob = session.dump()
        with self.assertRaises(MembraneError) as raised:
            load(blob[:-1])
        self.assertNotIn("keep()", str(raised.exception))

    def test_the_first_error_names_what_installs_the_language(self):
        with tempfile.TemporaryDirectory() as folder:
            nowhere = {**os.environ, "MEMBRANE_LANGUAGES": folder, "XDG_DATA_HOME": folder, "HOME": folder}
            ran = subprocess.run([sys.executable, "-c", "import membrane; membrane.Session()"], env=nowhere, capture_output=True, text=True)
        self.assertIn("python -m membrane install python", ran.stderr)
        self.assertNotIn("languages add", ran.stderr)

    def test_packages_of_a_policy(self):
        try:
            session = Session(policy={"packages": {"python": ["rich"]}})
        except MembraneError as error:
            self.skipTest(f"no registry: {error}")
        with session:
            self.assertEqual(session.run("from rich.text import Text\nText('hello').plain").text, "'hello'")

    def test_modules_of_a_folder_that_is_granted(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "ours.py").write_text("def double(n): return 2 * n\n")
            with Session(allow=[f"fs:read:{folder}:/ours"]) as session:
                self.assertEqual(session.run("import sys; sys.path.append('/ours')\nimport ours; ours.double(21)").text, "42")

    def test_languages_by_what_they_are_called(self):
        with Session("py") as session:
            self.assertEqual((session.language, session.run("6 * 7").text), ("python", "42"))
        self.assertIs(membrane.open_language("Python3"), membrane.open_language("python"))
        with self.assertRaises(MembraneError) as raised:
            Session("typescript")
        self.assertIn("js", str(raised.exception))

    def test_a_policy_is_a_dict_text_or_a_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "policy.toml")
            path.write_text("[limits]\nfuel = 100000000\n")
            for policy in (path, path.read_text(), {"limits": {"fuel": 100000000}}):
                with Session(policy=policy) as session:
                    self.assertEqual(session.run("while True: pass").outcome, "out_of_fuel")
            with self.assertRaisesRegex(ValueError, "pathlib.Path"):
                Session(policy=str(path))
            with self.assertRaises(FileNotFoundError):
                Session(policy=pathlib.Path(folder, "none.toml"))
        with self.assertRaisesRegex(TypeError, "a dict, text in TOML, or a pathlib.Path"):
            Session(policy=3)

    def test_a_policy_that_names_no_limits_has_those_of_languages(self):
        with Session(policy={"kv": {}}) as session:
            self.assertEqual(session.run("x = bytearray(100 << 20)\nfor i in range(10 ** 7): pass").outcome, "ok")

    def test_a_program_that_ends_itself_is_seen(self):
        with Session() as session:
            result = session.run("import sys; sys.exit(3)")
            self.assertEqual((result.outcome, result.exit_code, result.ok, result.error.code), ("ok", 3, False, "exit"))
            self.assertIn("exit_code=3", repr(result))
            self.assertTrue(session.run("sys.exit()").ok)

    def test_no_memory_says_so(self):
        with Session(limits={"memory": "64MiB"}) as session:
            result = session.run("x = bytearray(1 << 29)")
            self.assertEqual((result.outcome, result.error.message), ("out_of_memory", "out of memory"))
            self.assertIn('limits={"memory":', result.error.hint)

    def test_half_a_surrogate_pair_is_refused(self):
        with Session(functions={"f": lambda text: text, "half": lambda: "\udc80", "g": fails_with_half}) as session:
            ran = session.run("f(chr(0xdc80))")
            self.assertEqual(ran.error.code, "ValueError")
            self.assertIn("surrogatepass", ran.error.message)
            self.assertEqual(session.run("half()").error.code, "ValueError")
            self.assertIn("\\udc80", session.run("g()").error.message)
            with self.assertRaisesRegex(ValueError, "surrogate"):
                session.run("'\udc80'")
        with self.assertRaisesRegex(ValueError, "surrogate"):
            Session(inputs={"x": "\udc80"})

    def test_what_is_over(self):
        session = Session()
        session.close()
        with self.assertRaises(membrane.SessionOverError):
            session.run("1")
        with Session(lifetime_s=0) as session:
            session._timer.join()
            with self.assertRaises(membrane.SessionOverError):
                session.run("1")

    def test_javascript(self):
        try:
            session = Session("js", functions={"price": lambda item: 350})
        except MembraneError as error:
            self.skipTest(str(error))
        with session:
            self.assertEqual(session.run("price('tea') * 2").text, "700")


class Installation(unittest.TestCase):
    def test_what_is_there_is_left_alone(self):
        said = []
        membrane.install("python", on_progress=said.append)
        self.assertEqual([line for line in said if line.startswith("getting")], [])

    def test_what_there_is_not_is_an_error(self):
        with self.assertRaises(MembraneError) as raised:
            membrane.install("cobol")
        self.assertIn("there is no cobol", str(raised.exception))


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

    def test_values_of_this_program_that_pass_in_another_form(self):
        import collections
        import enum

        class Color(enum.Enum):
            RED = "red"

        class Model:  # as pydantic's
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

    def test_an_object_that_has_everything_is_no_model(self):
        with Session(functions={"f": unittest.mock.MagicMock}) as session, self.assertWarns(RuntimeWarning):
            self.assertIn("f() returned a MagicMock", session.run("f()").error.message)

    def test_a_call_can_be_kept(self):
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

    def test_a_function_is_as_its_source_says(self):
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
            async with lock:  # asyncio binds one that is waited for to its loop
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

    def test_a_loop_goes_with_its_session(self):
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

    def test_a_gate_lets_pass_only_what_it_says_yes_to(self):
        async def awaited(call: FunctionCall):
            return call.args == (1,)

        for gate in (awaited, lambda call: True if call.args == (1,) else None):
            with Session(functions={"f": lambda x: x}, gate=gate) as session:
                self.assertEqual(session.run("f(1)").text, "1")
                self.assertEqual(session.run("f(2)").error.code, "PermissionError")

    def test_what_a_gate_may_not_say_refuses_the_call(self):
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

    def test_what_ends_this_process_tells_the_program_nothing_of_it(self):
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

    def test_objects_show_what_they_are_allowed_to(self):
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

    def test_functions_see_the_session_as_it_is_used(self):
        calls = []
        with Session(functions={"f": lambda: calls.append(1)}) as session:
            branch = session.fork()
            branch.run("f()").check()
            branch.close()
            session.run("f()").check()
        self.assertEqual(calls, [1, 1])


class CallJson(unittest.TestCase):
    """_call_json, held to the module json."""

    TEXTS = ["", "tea", 'a"b\\c\n\x00\x7f', "é漢😀", "$x"]
    NUMBERS = [0, -1, 2**53, -(2**53), 1.5, 1e300]

    def test_plain_values_are_written_as_json_writes_them(self):
        for value in [None, True, False, *self.TEXTS, *self.NUMBERS]:
            plain = _call_json.dumps_plain(value)
            if isinstance(value, float):
                self.assertIsNone(plain)
            else:
                self.assertEqual(plain, json.dumps(value, ensure_ascii=False))

    def test_values_with_a_form_of_their_own_are_not_plain(self):
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

    def test_a_name_that_begins_with_a_dollar_is_found_however_it_is_written(self):
        self.assertTrue(_call_json.is_plain('["tea", {"a": 1}]'))
        for text in ('[{"$set": []}]', '[{"\\u0024set": []}]'):
            self.assertFalse(_call_json.is_plain(text))


class Waiting(unittest.TestCase):
    def test_a_call_that_waits(self):
        with Session() as session:
            call = session.start("approve(transfer(120))")
            self.assertIsInstance(call, Call)
            self.assertEqual((call.name, call.args), ("transfer", (120,)))
            call = call.resume({"id": 7})
            self.assertEqual((call.name, call.args), ("approve", ({"id": 7},)))
            self.assertEqual(call.resume(True).text, "True")
            self.assertEqual(session.run("1").text, "1")

    def test_in_another_process(self):
        with Session(functions={"approve": LATER, "double": lambda n: 2 * n}) as session:
            session.run("total = double(21)").check()
            blob = session.start("total if approve(total) else 'refused'").dump()
        self.assertLess(len(blob), 256 << 10)
        program = """
            import sys, membrane
            call = membrane.load(sys.stdin.buffer.read(), functions={"double": lambda n: 2 * n})
            print(call.name, call.args, call.resume(True).text)
        """
        ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], input=blob, capture_output=True, check=True)
        self.assertEqual(ran.stdout, b"approve (42,) 42\n")

    def test_it_may_fail(self):
        with Session() as session:
            end = session.start("try:\n  approve()\nexcept PermissionError as error:\n  said = str(error)\nsaid").fail(
                PermissionError("not today"))
            self.assertEqual(end.text, "'not today'")

    def test_several_wait_together(self):
        async def unused():
            pass

        with Session(functions={"f": LATER}) as session:
            session.run("import asyncio\nfrom membrane import _functions").check()
            call = session.start("await asyncio.gather(_functions.call_async('f', (1,)), _functions.call_async('f', (2,)))")
            self.assertEqual([each.args for each in call.calls], [(1,), (2,)])
            call = call.resume("a")
            self.assertEqual([each.args for each in call.calls], [(2,)])
            self.assertEqual(call.resume("b").text, "['a', 'b']")

    def test_functions_may_answer_later(self):
        asked = []

        def approve(amount: int) -> bool:
            """Whether the amount may be sent."""
            asked.append(amount)
            return LATER if amount > 100 else True

        async def rate(currency: str) -> float:
            return LATER

        with Session(functions=[approve, rate], modules={"bank": {"rate": rate}}) as session:
            self.assertEqual(session.run("approve(5)").text, "True")
            self.assertEqual(session.run("approve(500)").error.code, "RuntimeError")
            call = session.start("[approve(n) for n in (1, 200)]")
            self.assertEqual((call.name, call.args, asked), ("approve", (200,), [5, 500, 1, 200]))
            self.assertEqual(call.resume(False).text, "[True, False]")
            self.assertEqual(asked, [5, 500, 1, 200])  # an answer that came is not asked for again
            call = session.start("import asyncio, bank\nawait asyncio.gather(rate('EUR'), bank.rate('CHF'), rate('SEK'))")
            self.assertEqual([(each.name, *each.args) for each in call.calls], [("rate", "EUR"), ("bank.rate", "CHF"), ("rate", "SEK")])
            self.assertEqual(len(call.so_far.report["waits_for"]), 3)
            call = load(call.dump(), functions=[approve, rate], modules={"bank": {"rate": rate}})
            call = call.resume(1.1, 1.0)
            self.assertEqual([each.args for each in call.calls], [("SEK",)])
            self.assertEqual(call.resume(0.1).text, "[1.1, 1.0, 0.1]")

    def test_names_that_nobody_defined_are_awaited(self):
        with Session() as session:
            call = session.start("import asyncio\nawait asyncio.gather(*[ask(n) for n in (1, 2)], tell(3)), await say(4)")
            self.assertEqual([(each.name, *each.args) for each in call.calls], [("ask", 1), ("ask", 2), ("tell", 3)])
            call = call.resume("a", "b", "c")
            self.assertEqual((call.name, call.args), ("say", (4,)))
            self.assertEqual(call.resume("d").text, "(['a', 'b', 'c'], 'd')")

    def test_a_gate_sees_a_call_that_waits(self):
        with Session(functions={"f": LATER}, gate=lambda call: call.args == (1,)) as session:
            self.assertEqual(session.start("f(1)").resume(5).text, "5")
            self.assertEqual(session.start("f(2)").error.code, "PermissionError")

    def test_a_call_is_given_up(self):
        with Session() as session:
            session.run("x = 1").check()
            with self.assertRaises(MembraneError):
                session.abandon()
            call = session.start("x = 2\napprove(x)")
            busy = session.run("x")
            self.assertEqual(busy.outcome, "invalid")
            self.assertIn("approve", busy.error.message)
            self.assertIn("resume()", busy.error.hint)
            self.assertIn("abandon()", busy.error.hint)
            blob = call.dump()
            call.abandon()
            self.assertEqual(session.run("x").text, "1")
            session.start("approve(0)")
            session.abandon()
            self.assertEqual(session.run("x").text, "1")
        again = load(blob)
        again.abandon()
        self.assertEqual(again.session.run("x").text, "1")
        again.session.close()

    def test_one_of_several_fails(self):
        async def f(n):
            return LATER

        with Session(functions=[f]) as session:
            call = session.start("import asyncio\nawait asyncio.gather(f(1), f(2), return_exceptions=True)")
            call = call.fail(ValueError("no"))
            self.assertEqual([each.args for each in call.calls], [(2,)])
            self.assertEqual(call.resume(2).text, "[ValueError('no'), 2]")

    def test_a_waiting_session_is_forked_and_run_does_not_wait(self):
        with Session(functions={"f": LATER}) as session:
            self.assertEqual(session.run("f()").error.code, "RuntimeError")
            session.start("f()")
            self.assertEqual(session.run("1").outcome, "invalid")
            with session.fork() as branch:
                self.assertEqual(branch.waiting.resume(2).text, "2")

    def test_the_call_of_a_session_that_waits(self):
        with Session(functions={"f": LATER}) as session:
            self.assertIsNone(session.waiting)
            call = session.start("f(1) + f(2)")
            self.assertEqual((session.waiting.args, session.waiting.so_far.outcome), ((1,), "waiting"))
            call.resume(10)
            self.assertEqual(session.waiting.args, (2,))
            with session.fork() as branch, load(session.dump(), functions={"f": LATER}).session as loaded:
                self.assertEqual([each.waiting.resume(5).text for each in (session, branch, loaded)], ["15"] * 3)
                self.assertEqual([each.waiting for each in (session, branch, loaded)], [None] * 3)
            session.start("f(1)")
            session.abandon()
            self.assertIsNone(session.waiting)

    def test_a_session_whose_turn_was_interrupted_waits_for_nothing(self):
        def interrupted():
            raise KeyboardInterrupt

        with Session(functions={"f": LATER, "g": interrupted}) as session:
            call = session.start("f(1); g()")
            with self.assertRaises(KeyboardInterrupt):
                call.resume(1)
            self.assertIsNone(session.waiting)
            self.assertEqual(session.run("1").text, "1")
            session.start("f(1)")
        self.assertIsNone(session.waiting)

    def test_too_many_values_leave_the_call_as_it_was(self):
        with Session() as session:
            call = session.start("approve(1)")
            with self.assertRaisesRegex(ValueError, "3 values for 1 waiting call"):
                call.resume(1, 2, 3)
            self.assertEqual(call.resume(1).text, "1")

    def test_objects_among_the_inputs_are_given_again(self):
        class Account:
            def __init__(self, balance):
                self.balance = balance

            def deposit(self, amount):
                self.balance += amount
                return self.balance

        class Bank:
            def open(self):
                return Object(Account(0), methods=["deposit"])

        def inputs(*balances):
            accounts = [Object(Account(each), methods=["deposit"], attributes=["balance"]) for each in balances]
            return {"n": 1, "accounts": accounts, "bank": Object(Bank(), methods=["open"])}

        seen = []
        functions = {"show": seen.append}
        with Session(inputs=inputs(1, 2), functions=functions) as session:
            session.run("n = 5; mine = bank.open(); held = accounts[1]; mine.deposit(7)").check()
            blob = session.dump()
            waiting = session.start("approve(held) and held.balance").dump()
        given = inputs(10, 20)
        with load(blob, inputs=given, functions=functions) as again:
            self.assertEqual(again.run("n, held.deposit(1), accounts[0].balance").text, "(5, 21, 10)")
            again.run("show(held)").check()
            self.assertIs(seen[0], given["accounts"][1].value)
            for code in ("mine.deposit(1)", "show(mine)"):
                lost = again.run(code).error
                self.assertEqual(lost.code, "LookupError")
                self.assertIn("the Account that the program holds is an object of the process that the session was dumped in", lost.message)
                self.assertIn("call the function again", lost.message)
            self.assertEqual(again.run("other = bank.open(); other.deposit(3)").text, "3")
            self.assertEqual(again.run("mine.deposit(1)").error.code, "LookupError")  # no new object takes its place
            with load(again.dump(), inputs=inputs(30, 40)) as third:
                self.assertEqual(third.run("held.balance").text, "40")
        with load(blob) as without:
            self.assertIn("load(…, inputs=…)", without.run("held.deposit(1)").error.message)
            with load(without.dump(), inputs=inputs(30, 40)) as third:
                self.assertEqual(third.run("held.balance").text, "40")
        with self.assertRaisesRegex(ValueError, "the Objects Account, Bank, and the session's had Account, Account, Bank"):
            load(blob, inputs=inputs(1))
        self.assertEqual(load(waiting, inputs=given).resume(True).text, "21")
        with self.assertRaisesRegex(MembraneError, "inputs="):
            load(waiting)

    def test_wrong_arguments_are_named(self):
        for error, said, arguments in (
            (TypeError, "functions are a list", {"functions": 5}), (TypeError, "functions has functions, not 5", {"functions": [5]}),
            (TypeError, "give a dict of names", {"functions": [lambda: 1]}), (TypeError, "f is a function", {"functions": {"f": 5}}),
            (TypeError, "of the module m are a list", {"modules": {"m": 5}}), (TypeError, "modules are a dict", {"modules": 5}),
            (TypeError, "limits are a dict", {"limits": 5}), (TypeError, "allow is a list", {"allow": 5}),
            (TypeError, "gate is a function, not 5", {"gate": 5}), (TypeError, "on_stdout is a function", {"on_stdout": 5}),
            (TypeError, "on_stderr is a function", {"on_stderr": 5}), (TypeError, "idle_timeout_s is a number", {"idle_timeout_s": "5"}),
            (ValueError, "from 0 on", {"lifetime_s": -1}), (ValueError, "no wall 'x'. There are", {"accepted_missing_walls": ["x"]}),
            (ValueError, "did you mean user_namespace", {"accepted_missing_walls": "user_namespaces"}),
            (TypeError, "list of names", {"accepted_missing_walls": 5}),
        ):  # fmt: skip
            with self.assertRaisesRegex(error, said, msg=arguments):
                Session(**arguments)
        with Session() as session:
            for act, said in ((session.run, "did you mean inputs"), (session.start, "did you mean inputs"), (session.check, "did you mean inputs")):
                with self.assertRaisesRegex(TypeError, said):
                    act("1", input={})

    def test_names_that_are_keywords(self):
        for kind, given in (("input", {"inputs": {"class": 1}}), ("function", {"functions": {"class": len}}), ("module", {"modules": {"class": [len]}}),
                            ("function", {"modules": {"shop": {"class": len}}})):  # fmt: skip
            with self.assertRaisesRegex(MembraneError, f"the {kind} class has the name of a keyword"):
                Session(**given)
        with self.assertWarnsRegex(RuntimeWarning, "the module os hides Python's own"), Session(modules={"os": {"f": lambda: 1}}):
            pass

    def test_a_file_that_a_function_of_the_embedder_misses(self):
        def read():
            return open("/nowhere/of/mine").read()

        with Session(functions=[read]) as session:
            self.assertEqual(session.run("read()").error.hint, "")
            self.assertIn("granted", session.run("open('/nowhere/of/mine')").error.hint)

    def test_hints_of_grants_and_calls(self):
        with self.assertRaises(MembraneError) as caught:
            Session(allow=["fs:reed:."])
        self.assertIn('write allow=["fs:read:."]', caught.exception.hint)
        with Session(functions={"late": LATER}) as session:
            call = session.start("late()")
            call.resume(1)
            self.assertIn("start() begins one", call.resume(1).error.hint)

    def test_heads_of_bytes_that_tell_of_objects(self):
        import json

        with Session() as session:
            content = session.dump()
        at = content.index(b"}}") + 2
        for objects in (None, [], {"count": "x"}, {"count": -1, "inputs": []}, {"count": 1 << 90, "inputs": []}, {"count": 0, "inputs": 5},
                        {"count": True, "inputs": [{}]}, {"count": 2, "inputs": ["A"], "numbers": [[]]}, {"count": 2, "inputs": ["A"], "numbers": [3]},
                        {"count": 2, "inputs": ["A"], "numbers": 5}, {"count": 2, "inputs": ["A", "A"], "numbers": [1, 1]}):
            head = json.dumps({"language": "python", "objects": objects}).encode()
            with load(b"MEMBPY1\n" + len(head).to_bytes(4, "little") + head + content[at:]) as session:
                self.assertEqual(session.run("1").text, "1")

    def test_an_idle_session_is_dumped_too(self):
        with Session() as session:
            session.run("x = 41")
            blob = session.dump()
        with load(blob) as again:
            self.assertEqual(again.run("x + 1").text, "42")

    def test_functions_are_not_told_again(self):
        functions = {f"f{i}": lambda n: n for i in range(30)}
        with Session(functions=functions, inputs={"given": 1}) as session:
            first = session.run("f1(1)").fuel
            second = session.run("f1(1)").fuel
            self.assertGreater(first, 10 * second)
            with session.fork() as branch:
                of_fork = branch.run("f1(1)").fuel
            session.run("import os; os._exit(1)")
            after = session.run("f1(1)")
            blob = session.dump()
        with load(blob, functions=functions) as again:
            of_loaded = again.run("f1(1)").fuel
        with load(blob, functions={**functions, "more": lambda: 1}) as more:
            self.assertEqual(more.run("more(), f1(2)").text, "(1, 2)")
        for fuel in (of_fork, after.fuel, of_loaded):
            self.assertLess(fuel, 2 * second, (first, second, fuel))  # it is given fresh entropy

    def test_damaged_bytes(self):
        with Session() as session:
            blob = session.dump()
        for damaged in (b"", blob[:10], blob[:-1], blob[:200] + b"x" + blob[201:], b"MEMBPY1\n\xff\xff\xff\xff", b"MEMBPY1\n\x02\0\0\0[]"):
            with self.assertRaises(MembraneError):
                load(damaged)


class Asyncio(unittest.TestCase):
    def test_functions_are_of_the_loop(self):
        async def main():
            loop = asyncio.get_running_loop()

            async def here(n):
                assert asyncio.get_running_loop() is loop
                return n + 1

            async with AsyncSession(functions=[here]) as session:
                return (await session.run("await here(41)")).text

        self.assertEqual(asyncio.run(main()), "42")

    def test_a_cancelled_task_stops_its_turn(self):
        async def main():
            begun = asyncio.Event()
            loop = asyncio.get_running_loop()
            async with AsyncSession(limits={"wall": "10min", "fuel": "1e15"},
                                    on_stdout=lambda _: loop.call_soon_threadsafe(begun.set)) as session:
                turn = asyncio.create_task(session.run("print('begun', flush=True)\nwhile True: pass"))
                await begun.wait()
                turn.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await turn
                return (await session.run("1")).text

        self.assertEqual(asyncio.run(main()), "1")

    def test_a_call_that_waits(self):
        async def main():
            async with AsyncSession() as session:
                await (await session.start("approve(0)")).abandon()
                await session.start("approve(0)")
                await session.abandon()
                call = await session.start("approve(1)")
                return (await call.resume(True)).text

        self.assertEqual(asyncio.run(main()), "True")


    def test_bytes_are_loaded(self):
        async def main():
            loop = asyncio.get_running_loop()

            async def here(n):
                assert asyncio.get_running_loop() is loop
                return n + 1

            async with AsyncSession(functions=[here]) as session:
                await session.run("x = 41")
                idle = await session.dump()
                blob = await (await session.start("approve(x) and await here(x)")).dump()
                branch = await session.fork()
                self.assertEqual((session.waiting.name, branch.waiting.args), ("approve", (41,)))
                self.assertEqual((await branch.waiting.resume(True)).text, "42")
            async with await AsyncSession.load(idle, functions=[here]) as again:
                self.assertIsInstance(again, AsyncSession)
                self.assertEqual((await again.run("await here(x)")).text, "42")
            call = await AsyncSession.load(blob, functions=[here])
            self.assertIsInstance(call, membrane.AsyncCall)
            self.assertEqual((call.name, call.args), ("approve", (41,)))
            async with call.session:
                return (await call.resume(True)).text

        self.assertEqual(asyncio.run(main()), "42")


class Arguments(unittest.TestCase):
    def test_one_that_there_is_not(self):
        for make, said in ((lambda: Session(timeout=5), 'limits={"wall": "5 s"}'), (lambda: AsyncSession(functoins=[]), "did you mean functions"),
                           (lambda: load(b"", lifetime_s=1), "It has blob, allow"), (lambda: membrane.Pool(functoins=[]), "did you mean functions"),
                           (lambda: membrane.AsyncPool(timeout_s=1), "max_sessions"), (lambda: membrane.Pool(nothing=1), "entropy")):
            with self.assertRaisesRegex(TypeError, "has no argument") as raised:
                make()
            self.assertIn(said, str(raised.exception))

    def test_options_that_are_handed_on_are_those_of_sessions(self):
        import inspect

        from membrane import _options

        for function, options in ((Session, _options.SessionOptions), (load, _options.LoadOptions)):
            names = set(inspect.signature(function).parameters) - {"language", "blob"}
            self.assertEqual(names, set(_options.get_names(options)))

    def test_of_a_wrong_type(self):
        with Session() as session:
            for make in (lambda: membrane.Pool(4), lambda: membrane.AsyncPool(4), lambda: Session(4), lambda: load("text"),
                         lambda: Session(allow=[4]), lambda: session.files.write("/tmp/x", 5), lambda: session.files.read(5),
                         lambda: session.run("1", name=5), lambda: session.run("1", arguments="a"), lambda: session.run("1", arguments=[1]),
                         lambda: session.run("1", stdin=b"x"), lambda: session.start("1", name=b""), lambda: session.check("1", name=1),
                         lambda: session.complete(5)):
                with self.assertRaises(TypeError) as raised:
                    make()
                self.assertNotIn("incompatible", str(raised.exception))
            for make in (lambda: Session(allow=["\udc80"]), lambda: session.files.read("\udc80"), lambda: session.run("1", name="\udc80")):
                with self.assertRaisesRegex(ValueError, "surrogate"):
                    make()

    def test_files_by_what_list_gave(self):
        with Session() as session:
            session.files.write(pathlib.PurePosixPath("/tmp/x"), bytearray(b"one"))
            (found,) = [each for each in session.files.list() if each.path == "/tmp/x"]
            self.assertEqual((session.files.read(found), session.files.read_text(found)), (b"one", "one"))
            session.files.write(found, memoryview(b"two"))
            self.assertEqual(session.files.read(found), b"two")


class Memory(unittest.TestCase):
    def test_sessions_give_their_memory_back(self):
        many = int(os.environ.get("MEMBRANE_MANY_SESSIONS", "300"))

        def cycle():
            with Session(functions={"f": lambda: 1}) as session:
                session.run("x = f()")
                blob = session.dump()
            load(blob, functions={"f": lambda: 1}).close()

        for _ in range(50):
            cycle()
        gc.collect()
        before = resident_kib()
        for _ in range(many):
            cycle()
        gc.collect()
        self.assertLess(resident_kib() - before, 24 << 10)

    def test_a_session_that_nobody_has_goes(self):
        import weakref

        session = Session(functions={"f": lambda: 1})
        gone = weakref.ref(session)
        del session
        gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
