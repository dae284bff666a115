import asyncio
import concurrent.futures
import contextlib
import datetime
import inspect
import io
import json
import pathlib
import queue
import random
import sys
import tempfile  # noqa: F401
import threading
import types
import unittest
import unittest.mock
import warnings

from tests.fake_door import DoorTest

import membrane
from membrane import _display, _e2b, _random, _session


def install_loop(test):
    """For the length of a test."""
    from membrane import _loop, _threads
    test.addCleanup(_threads.install())
    setter = getattr(asyncio.events, "_set_event_loop_policy", None) or asyncio.set_event_loop_policy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for place in (asyncio, asyncio.unix_events):
            for name in ("EventLoop", "SelectorEventLoop", "DefaultEventLoopPolicy", "_DefaultEventLoopPolicy"):
                if name in vars(place):
                    test.addCleanup(setattr, place, name, vars(place)[name])
        _loop.install()
    test.addCleanup(setter, None)


class SessionTest(DoorTest):
    def setUp(self):
        super().setUp()
        self.main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        sys.modules["__main__"].__dict__.update(display=membrane.display)
        _session._warm, _session._future_flags = True, 0  # the streams stay this process's
        install_loop(self)
        self.output = io.StringIO()
        self.errors = io.StringIO()

    def tearDown(self):
        sys.modules["__main__"] = self.main
        if _session._loop_of_cells is not None:
            _session._loop_of_cells.close()
            _session._loop_of_cells = None
        asyncio.set_event_loop(None)
        super().tearDown()

    def run_turn(self, code, **more):
        request = json.dumps({"code": code, "name": "<cell 1>", **more}).encode()
        with contextlib.redirect_stdout(self.output), contextlib.redirect_stderr(self.errors):
            _session.turn(request)
        return {"value": None, "displays": [], "error": None, "exit_code": 0, **self.results[-1]}

    def value(self, code, **more):
        result = self.run_turn(code, **more)
        self.assertEqual(result["outcome"], "ok", result["error"])
        return result["value"] and result["value"]["text/plain"]


class Cells(SessionTest):
    def test_the_last_expression_is_the_result(self):
        self.assertEqual(self.value("x = 2\nx + 3"), "5")
        self.assertEqual(self.value("_ * 2"), "10")
        self.assertEqual(self.value("x"), "2")
        self.assertIsNone(self.value("x = 3"))
        self.assertIsNone(self.value("None"))
        self.assertIsNone(self.value("x;"))
        self.assertIsNone(self.value(""))
        self.assertEqual(self.value("# nothing but words\n'a'"), "'a'")

    def test_names_live_in_main(self):
        self.value("class A: pass\ndef f(): return __name__")
        self.assertEqual(self.value("f(), A.__module__"), "('__main__', '__main__')")
        self.assertEqual(self.value("import __main__; __main__.A is A"), "True")

    def test_await_stands_at_the_top(self):
        self.value("import asyncio\nasync def f():\n  await asyncio.sleep(0)\n  return 7")
        self.assertEqual(self.value("await f()"), "7")
        self.assertEqual(self.value("a = await f()\nasync with asyncio.timeout(5):\n  a += await f()\na"), "14")
        self.assertEqual(self.value("asyncio.run(f())"), "7")
        self.assertEqual(self.value("t = asyncio.get_event_loop().create_task(f())\nawait f()\nawait t"), "7")

    def test_a_loop_runs_for_all_of_a_cell_that_awaits(self):
        self.value("import asyncio, contextvars\nasync def f(n=7):\n  await asyncio.sleep(0)\n  return n")
        self.assertEqual(self.value("t = asyncio.create_task(f())\nawait t"), "7")
        self.assertEqual(self.value("loop = asyncio.get_running_loop()\nawait f()\nloop is asyncio.get_running_loop()"), "True")
        self.assertEqual(self.value("ts = [asyncio.create_task(f(n)) for n in range(3)]\ndone, _ = await asyncio.wait(ts)\nlen(done)"), "3")
        self.assertEqual(self.value("ts = [asyncio.create_task(f(n)) for n in range(3)]\nawait asyncio.gather(*ts)"), "[0, 1, 2]")
        self.assertEqual(self.value("await f()\nq = asyncio.Queue()\nq.put_nowait(4)\nawait q.get()"), "4")
        self.assertIsNone(self.value("x = await f()\nx;"))
        self.assertEqual(self.value("x, asyncio.run(f(8))"), "(7, 8)")
        self.value("v = contextvars.ContextVar('v')\nv.set(1)\nawait f()")
        self.assertEqual(self.value("v.get()"), "1")

    def test_tasks_go_on_in_a_later_cell_that_awaits(self):
        self.value("import asyncio\nseen = []\nasync def f(n):\n  await asyncio.sleep(0)\n  seen.append(n)\n  return n")
        self.value("a = asyncio.create_task(f(1))")  # in a notebook each cell has a loop
        self.value("b = asyncio.ensure_future(f(2)); c = asyncio.gather(f(3), f(4))")
        self.assertEqual(self.value("seen"), "[]")
        self.assertEqual(self.value("asyncio.run(f(0))"), "0")
        self.assertEqual(self.value("await a, await b, await c, seen"), "(1, 2, [3, 4], [0, 1, 2, 3, 4])")
        self.assertEqual(self.value("asyncio.get_event_loop().run_until_complete(f(5))"), "5")
        self.value("d = asyncio.create_task(f(6)); await asyncio.sleep(0)")
        self.assertEqual(self.value("await asyncio.sleep(0.01)\nd.result()"), "6")

    def test_what_ends_a_cell_that_awaits_ends_no_loop(self):
        self.value("import asyncio, sys\nasync def f():\n  await asyncio.sleep(0)")
        error = self.run_turn("t = asyncio.create_task(f())\nawait t\n1/0", name="<cell 2>")["error"]
        self.assertEqual([line for line in error["traceback"].splitlines() if "File" in line], ['  File "<cell 2>", line 3, in <module>'])
        self.assertEqual(self.run_turn("await f()\nsys.exit(3)")["exit_code"], 3)
        self.assertEqual(self.run_turn("await f()\nraise KeyboardInterrupt")["error"]["type"], "KeyboardInterrupt")
        self.assertEqual(self.run_turn("asyncio.current_task().cancel()\nawait f()")["error"]["type"], "asyncio.exceptions.CancelledError")
        self.assertEqual(self.run_turn("future = asyncio.Future()\nawait future\nlate = 1")["error"]["type"], "RuntimeError")
        self.assertEqual(self.value("future.cancelled() or future.set_result(1)\nawait f()\nawait f()\n'late' in globals()"), "False")
        self.assertEqual(self.errors.getvalue(), "")

    def test_what_is_imported_from_the_future_stays(self):
        self.value("from __future__ import annotations")
        self.assertEqual(self.value("def f(a: nothing): pass\nf.__annotations__"), "{'a': 'nothing'}")

    def test_names_are_completed(self):
        self.value("class A:\n  text = 'x'\n  _own = 1\nvalue_of = A()")
        for code, names in (("x = value_", "value_of"), ("value_of.", "text"), ("value_of.text.uppe", "upper"), ("value_of._o", "_own"),
                            ("impo", "import"), ("isinstanc", "isinstance"), ("", ""), ("nosuch.a", ""), ("f().a", ""), ("'a'.up", "")):
            result = self.run_turn(code, mode="complete")
            self.assertEqual(result["outcome"], "ok")
            self.assertEqual((result["value"] or {"text/plain": ""})["text/plain"], names, code)

    def test_output_is_flushed_and_input_is_given(self):
        result = self.run_turn("print(input('name? '), input())\nimport sys\nsys.stdin.readline()", input="Ada\nx\nrest")
        self.assertEqual(self.output.getvalue(), "name? Ada x\n")
        self.assertEqual(result["value"]["text/plain"], "'rest'")
        self.assertEqual(self.run_turn("input()", input="")["error"]["type"], "EOFError")

    def test_arguments_are_given(self):
        self.assertEqual(self.value("import sys; sys.argv", arguments=["a", "b"]), "['-c', 'a', 'b']")
        self.assertEqual(self.value("sys.argv", name="train.py", arguments=["a"]), "['train.py', 'a']")
        self.assertEqual(self.value("sys.argv", name="<cell 3>"), "['-c']")

    def test_a_mistake_leaves_no_half_cell(self):
        self.run_turn("y = 1\nreturn 3")
        self.assertEqual(self.value("'y' in globals()"), "False")


class Errors(SessionTest):
    def test_tracebacks_are_pythons_without_our_frames(self):
        self.run_turn("def f():\n    1 / 0")
        error = self.run_turn("f()\n", name="<cell 2>")["error"]
        self.assertEqual((error["type"], error["message"]), ("ZeroDivisionError", "division by zero"))
        lines = [line for line in error["traceback"].splitlines() if set(line.strip()) - set("~^")]
        self.assertEqual(lines, ["Traceback (most recent call last):", '  File "<cell 2>", line 1, in <module>',
                                 "    f()", '  File "<cell 1>", line 2, in f', "    1 / 0",
                                 "ZeroDivisionError: division by zero"])

    def test_a_syntax_error_has_its_place_and_no_frames(self):
        error = self.run_turn("a = (1,\nb = 2")["error"]
        self.assertEqual(error["type"], "SyntaxError")
        self.assertTrue(error["traceback"].startswith('  File "<cell 1>", line 1'), error["traceback"])

    def test_a_denial_shows_the_programs_line_and_the_grant(self):
        self.answers["http.get"] = self.fails("EACCES", "no grant allows https://a/", "--allow http")
        error = self.run_turn("from membrane import http\nhttp.get('https://a/')")["error"]
        self.assertEqual(error["type"], "PermissionError")
        self.assertIn("--allow http would allow it", error["message"])
        self.assertIn("http.get('https://a/')", error["traceback"])
        self.assertNotIn("_door", error["traceback"])

    def test_the_session_goes_on_behind_what_ends_programs(self):
        for code, kind in (("raise KeyboardInterrupt", "KeyboardInterrupt"), ("raise MemoryError", "MemoryError"),
                           ("def f(): f()\nf()", "RecursionError"), ("raise BaseException('x')", "BaseException"),
                           ("class E(Exception):\n  def __str__(self): raise ValueError\nraise E", "E"),
                           ("await 5", "TypeError"), ("x = 'a\x00b", "SyntaxError")):
            result = self.run_turn(code)
            self.assertEqual((result["outcome"], result["error"]["type"]), ("error", kind))
            self.assertIn(kind, result["error"]["traceback"])
            self.assertEqual(self.value("1 + 1"), "2")

    def test_causes_and_groups_are_told(self):
        error = self.run_turn("try:\n  1/0\nexcept Exception as e:\n  raise ExceptionGroup('both', [e, KeyError(1)])")
        for part in ("ExceptionGroup: both", "ZeroDivisionError", "KeyError: 1", "During handling"):
            self.assertIn(part, error["error"]["traceback"])

    def test_a_long_traceback_is_cut(self):
        error = self.run_turn("raise ValueError('x' * 1000000)")["error"]
        self.assertLess(len(error["traceback"]), 200_000)
        self.assertIn("characters left out", error["message"])

    def test_exit_is_no_failure(self):
        for code, number in (("import sys; sys.exit()", 0), ("exit(3)", 3), ("raise SystemExit(-1)", 255),
                             ("import sys; sys.exit('no')", 1)):
            result = self.run_turn(code)
            self.assertEqual((result["outcome"], result["exit_code"], result["error"]), ("exit", number, None))
        self.assertEqual(self.errors.getvalue(), "no\n")


class Hooks(SessionTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, sys, "excepthook", sys.excepthook)

    HOOK = "import sys, traceback\ndef hook(kind, error, place):\n  print('hook', kind.__name__, error, [f.name for f in traceback.extract_tb(place)])\nsys.excepthook = hook\n"

    def test_a_programs_own_hook_is_called_when_an_error_ends_it(self):
        result = self.run_turn(self.HOOK + "import atexit\natexit.register(print, 'end')\ndef f(): 1/0\nf()", mode="script", name="a.py")
        self.assertEqual(self.output.getvalue(), "hook ZeroDivisionError division by zero ['<module>', 'f']\nend\n")
        self.assertEqual((result["outcome"], result["error"]["type"], result["exit_code"]), ("error", "ZeroDivisionError", 1))
        self.assertIs(sys.excepthook, sys.__excepthook__)  # it was the script's

    def test_a_cell_has_it_too(self):
        self.value(self.HOOK)
        self.assertEqual(self.run_turn("import asyncio\nawait asyncio.sleep(0)\nraise KeyError(1)")["error"]["type"], "KeyError")
        self.assertEqual(self.output.getvalue(), "hook KeyError 1 ['<module>']\n")
        self.assertEqual(self.run_turn("sys.exit(2)")["outcome"], "exit")
        self.assertEqual(self.output.getvalue(), "hook KeyError 1 ['<module>']\n")

    def test_a_hook_that_fails_is_told_of(self):
        result = self.run_turn("import sys\ndef hook(*_): raise ValueError('no')\nsys.excepthook = hook\n1/0")
        self.assertEqual(result["error"]["type"], "ZeroDivisionError")
        self.assertIn("Error in sys.excepthook:\nTraceback", self.errors.getvalue())
        self.assertIn("ValueError: no\n", self.errors.getvalue())
        result = self.run_turn("sys.excepthook = lambda *_: sys.exit(4)\n1/0")
        self.assertEqual((result["outcome"], result["exit_code"]), ("exit", 4))


class Scripts(SessionTest):
    def test_a_script_has_a_main_of_its_own(self):
        self.value("x = 1")
        self.run_turn("import sys, __main__\nprint(__name__, __file__, sys.argv, sys.path[0], __main__.__dict__ is globals())\n"
                      "print('x' in globals())", mode="script", name="/scripts/a.py", arguments=["-v"])
        self.assertEqual(self.output.getvalue(), "__main__ /scripts/a.py ['/scripts/a.py', '-v'] /scripts True\nFalse\n")
        self.assertEqual(self.value("x"), "1")

    def test_what_it_registers_runs_at_its_end(self):
        result = self.run_turn("import atexit, sys\natexit.register(print, 'b')\n@atexit.register\ndef f(): print('a'); 1/0\n"
                               "print('first')\nsys.exit(4)", mode="script", name="a.py")
        self.assertEqual((result["outcome"], result["exit_code"]), ("exit", 4))
        self.assertEqual(self.output.getvalue(), "first\na\nb\n")
        self.assertIn("ZeroDivisionError", self.errors.getvalue())

    def test_its_last_expression_is_no_result(self):
        self.assertIsNone(self.run_turn("5", mode="script", name="a.py")["value"])

    def test_what_it_changes_of_the_surroundings_is_put_back(self):
        path = list(sys.path)
        self.run_turn("import sys\nsys.path.append('/x')\nsys.argv = None\nsys.stdin = None", mode="script", name="a.py")
        self.assertEqual(sys.path, path)
        self.assertIsNotNone(sys.stdin)


class Display(SessionTest):
    def test_values_are_shown_as_all_that_they_can_be(self):
        result = self.run_turn("class T:\n  def __repr__(self): return 'T'\n  def _repr_html_(self): return '<b>'\n"
                               "  def _repr_png_(self): return b'\\x89'\n  def _repr_latex_(self): return None\n"
                               "  def _repr_json_(self): return {'a': [1]}\nT()")
        self.assertEqual(result["value"], {"text/plain": "T", "text/html": "<b>", "image/png": {"base64": "iQ=="},
                                           "application/json": {"a": [1]}})
        self.assertEqual(self.run_turn("T")["value"].keys(), {"text/plain"})

    def test_displays_come_in_order_and_once(self):
        result = self.run_turn("display(1, 'a')\nimport membrane\nmembrane.display([2])\n3")
        self.assertEqual([d["text/plain"] for d in result["displays"]], ["1", "'a'", "[2]"])
        self.assertEqual(self.run_turn("4")["displays"], [])
        self.assertEqual(len(self.run_turn("display(1)\n1/0")["displays"]), 1, "what came before an error is shown")

    def test_a_repr_that_raises_harms_nobody(self):
        value = self.value("class R:\n  def __repr__(self): raise ValueError('no')\nR()")
        self.assertEqual(value, "<the repr of R raised ValueError: no>")
        value = self.value("class H:\n  def __repr__(self): return 'H'\n  def _repr_html_(self): 1/0\nH()")
        self.assertEqual(value, "H\n<showing it raised ZeroDivisionError: division by zero>")

    def test_long_ones_are_cut_and_say_so(self):
        value = self.value("'x' * 100000")
        self.assertLess(len(value), _display.MAX_TEXT + 100)
        self.assertIn("… 80002 characters left out …", value)
        big = f"class B:\n  def _repr_html_(self): return 'x' * {_display.MAX_RICH + 1}\nB()"
        self.assertIn("is left out", self.value(big))

    def test_a_list_or_a_dict_is_json_where_e2b_is_expected(self):
        self.assertEqual(list(self.run_turn("[1]")["value"]), ["text/plain"])
        self.addCleanup(setattr, _display, "more_forms", None)
        _e2b.install()
        self.run_turn("import datetime, enum, uuid\nclass E(enum.Enum): A = 'a'\nnested = []\nfor _ in range(300): nested = [nested]\n"
                      "class Point:\n  pass")
        for code, form in (("[1, 'a', None, True, 1.5]", [1, "a", None, True, 1.5]), ("{}", {}), ("[(1, 2), {'a': {}}]", [[1, 2], {"a": {}}]),
                           ("{5: 2, None: 3, True: 4, E.A: E.A}", {"5": 2, "null": 3, "true": 4, "a": "a"}),
                           ("[float('nan'), float('inf')]", [None, None]),
                           ("[datetime.date(2020, 1, 2), uuid.UUID(int=1)]", ["2020-01-02", "00000000-0000-0000-0000-000000000001"])):
            self.assertEqual(json.loads(self.run_turn(code)["value"]["application/json"]), form, code)
        for code in ("(1, 2)", "1", "'a'", "[{1, 2}]", "[Point()]", "[1 << 64]", "nested", "{(1, 2): 3}"):
            self.assertEqual(list(self.run_turn(code)["value"]), ["text/plain"], code)
        self.assertEqual(self.run_turn("display([1])\n2")["displays"][0]["application/json"], "[1]")
        self.assertEqual(self.run_turn("{'b': 'é', 'a': 2}")["value"]["application/json"], '{"b": "é", "a": 2}')

    def test_the_columns_of_a_table_are_data_where_e2b_is_expected(self):
        self.addCleanup(setattr, _display, "more_forms", None)
        _e2b.install()

        class DataFrame:
            size = 4

            def to_dict(self, orient):
                return {"a": [1, float("nan")], 2: [datetime.datetime(2020, 1, 2), {3}]}

        with unittest.mock.patch.dict(sys.modules, pandas=types.SimpleNamespace(DataFrame=DataFrame)):
            sys.modules["__main__"].table = DataFrame()
            self.assertEqual(json.loads(self.run_turn("table")["value"]["e2b/data"]),
                             {"a": [1, None], "2": ["2020-01-02T00:00:00", "{3}"]})
            DataFrame.size = 1 << 40
            self.assertEqual(list(self.run_turn("table")["value"]), ["text/plain"])

    def test_a_figure_that_nothing_else_shows_is_a_picture(self):
        class Figure:
            def savefig(self, file, **_):
                file.write(b"picture")

        managers = {}
        modules = {"matplotlib.figure": types.SimpleNamespace(Figure=Figure),
                   "matplotlib._pylab_helpers": types.SimpleNamespace(Gcf=types.SimpleNamespace(figs=managers))}
        figure = sys.modules["__main__"].figure = Figure()
        held = types.SimpleNamespace(canvas=types.SimpleNamespace(figure=figure))
        with unittest.mock.patch.dict(sys.modules, modules):
            self.assertEqual(self.run_turn("figure")["value"]["image/png"], {"base64": "cGljdHVyZQ=="})
            managers[1] = held
            self.assertEqual(list(self.run_turn("figure")["value"]), ["text/plain"])
            figure.membrane_saved = True
            self.assertIn("image/png", self.run_turn("figure")["value"])

    def test_open_figures_are_shown_and_closed(self):
        closed = []

        class Figure:
            def __repr__(self):
                return "<Figure>"

            def savefig(self, file, **_):
                file.write(b"\x89PNG")

        fake = types.SimpleNamespace(get_fignums=lambda: [] if closed else [1], figure=lambda n: Figure(),
                                     close=closed.append)
        sys.modules["matplotlib.pyplot"] = fake
        try:
            result = self.run_turn("1")
        finally:
            del sys.modules["matplotlib.pyplot"]
        self.assertEqual(result["displays"], [{"text/plain": "<Figure>", "image/png": {"base64": "iVBORw=="}}])
        self.assertEqual(len(closed), 1)

    def test_a_result_that_the_host_refuses_still_has_its_outcome(self):
        real = self._answer

        def answer(request):
            if request.get("session") == "result" and "big" in str(request.get("value")):
                return self.fails("E2BIG", "too large")
            return real(request)

        self._answer = answer
        result = self.run_turn("'big'")
        self.assertEqual(result["outcome"], "ok")
        self.assertIn("could not be given", result["value"]["text/plain"])


class Forks(SessionTest):
    def setUp(self):
        super().setUp()
        for name in ("seed", "setstate"):
            self.addCleanup(setattr, random, name, getattr(random, name))
        self.addCleanup(setattr, random._inst, "__class__", type(random._inst))
        finders = [*sys.meta_path]
        self.addCleanup(lambda: sys.meta_path.__setitem__(slice(None), finders))
        _random.install()
        _random.forget()
        _session._begun = True

    def test_what_was_seeded_before_the_first_turn_was_not_seeded_by_the_program(self):
        _session._begun = False
        random.seed(7)
        self.assertNotEqual(self.value("import random; random.random()", fresh={"entropy_hex": "00" * 32}),
                            repr(random.Random(7).random()))

    def test_a_fork_draws_other_numbers(self):
        draw = "import random, tempfile; (random.random(), next(tempfile._get_candidate_names()))"
        first = self.value(draw, fresh={"entropy_hex": "00" * 32})
        again = self.value(draw, fresh={"entropy_hex": "00" * 32})
        other = self.value(draw, fresh={"entropy_hex": "01" * 32})
        self.assertEqual(first.split(",")[0], again.split(",")[0])
        self.assertNotEqual(first.split(",")[0], other.split(",")[0])

    def test_a_generator_that_the_program_seeded_stays_as_it_was(self):
        self.run_turn("import random; random.seed(7)")
        expected = random.Random(7)
        self.assertEqual(self.value("random.random()", fresh={"entropy_hex": "00" * 32}), repr(expected.random()))
        self.assertEqual(self.value("random.random()", fresh={"entropy_hex": "01" * 32}), repr(expected.random()))
        self.run_turn("import random; state = random.getstate(); random.seed()")
        one = self.value("random.random()", fresh={"entropy_hex": "02" * 32})
        self.assertNotEqual(one, repr(expected.random()))
        self.assertNotEqual(one, self.value("random.random()", fresh={"entropy_hex": "03" * 32}))
        self.run_turn("random.setstate(state)")
        expected.seed(7)
        expected.random(), expected.random()
        self.assertEqual(self.value("random.random()", fresh={"entropy_hex": "04" * 32}), repr(expected.random()))
        self.run_turn("random.seed()")

    def test_generators_of_the_programs_own_are_not_touched(self):
        self.run_turn("import copy, random; random.seed(); own = random.Random(3); copy.copy(random._inst).seed(5)")
        self.assertEqual(self.value("own.random()", fresh={"entropy_hex": "00" * 32}), repr(random.Random(3).random()))
        one = self.value("random.random()", fresh={"entropy_hex": "05" * 32})
        self.assertNotEqual(one, self.value("random.random()", fresh={"entropy_hex": "06" * 32}))

    def test_numpys_global_generator_is_watched_from_its_import_on(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        package = pathlib.Path(folder.name, "numpy", "random")
        package.mkdir(parents=True)
        (package.parent / "__init__.py").write_text("")
        (package / "__init__.py").write_text("""
seeds, skipped = [], []
def seed(seed=None): seeds.append(seed)
def set_state(state): pass
class mtrand:
    class _rand:
        class _bit_generator:
            def random_raw(count, output): skipped.append(count)
""")
        hidden = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] == "numpy"}
        sys.path.insert(0, folder.name)
        try:
            self.run_turn("import numpy.random as r; r.seed(7)", fresh={"entropy_hex": "00" * 32})
            self.assertEqual(self.value("r.seeds", fresh={"entropy_hex": "01" * 32}), "[7]")
            self.run_turn("r.seed(None)")
            self.assertEqual(self.value("r.seeds[-1], r.skipped", fresh={"entropy_hex": "01" * 32}), f"({0x01010101}, [1])")
            self.run_turn("r.set_state(0)")
            self.assertEqual(self.value("len(r.seeds)", fresh={"entropy_hex": "01" * 32}), "3")
            self.assertEqual(self.value("type(r.__loader__).__name__"), "'SourceFileLoader'")
        finally:
            sys.path.remove(folder.name)
            for name in [*sys.modules]:
                if name.split(".")[0] == "numpy":
                    del sys.modules[name]
            sys.modules.update(hidden)
            _random._seeded.clear()


class EventLoop(unittest.TestCase):
    """The loop that there is without sockets."""

    def setUp(self):
        from membrane import _loop, _threads
        self.addCleanup(_threads.install())
        self.loop = _loop.Loop()
        self.addCleanup(self.loop.close)

    def run_on_it(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def test_timers_tasks_and_queues_work(self):

        async def main():
            queue = asyncio.Queue()

            async def produce():
                for i in range(3):
                    await asyncio.sleep(0.001)
                    await queue.put(i)

            task = asyncio.create_task(produce())
            got = [await queue.get() for _ in range(3)]
            await task
            return got, await asyncio.gather(asyncio.sleep(0.002, "b"), asyncio.sleep(0.001, "a"))

        self.assertEqual(self.run_on_it(main()), ([0, 1, 2], ["b", "a"]))

    def test_a_timeout_ends_what_takes_too_long(self):
        with self.assertRaises(TimeoutError):
            self.run_on_it(asyncio.wait_for(asyncio.sleep(10), 0.001))

    def test_functions_run_in_threads_of_the_scheduler(self):
        self.assertEqual(self.run_on_it(asyncio.to_thread(lambda: 5)), 5)

    def test_waiting_for_nothing_is_an_error_and_no_hang(self):
        async def main():
            await self.loop.create_future()

        with self.assertRaisesRegex(RuntimeError, "every task waits"):
            self.run_on_it(main())

    def test_asyncio_run_takes_it(self):
        from membrane import _loop
        install_loop(self)

        async def kind():
            return type(asyncio.get_running_loop())

        self.assertIs(asyncio.run(kind()), _loop.Loop)
        self.assertIs(asyncio.EventLoop, _loop.Loop)

    def test_it_is_what_a_policy_that_is_taken_back_leaves(self):
        from membrane import _loop
        install_loop(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            asyncio.set_event_loop_policy(None)
            self.assertIs(asyncio.Runner().get_loop().__class__, _loop.Loop)


class Waiting(unittest.TestCase):
    """For other threads, when there are none."""

    def setUp(self):
        from membrane import _threads
        self.addCleanup(_threads.install())

    def test_it_ends_when_its_time_is_over(self):
        self.assertFalse(threading.Event().wait(0.001))
        with self.assertRaises(queue.Empty):
            queue.Queue().get(timeout=0.001)
        with self.assertRaises(TimeoutError):
            concurrent.futures.Future().result(timeout=0.001)

    def test_for_ever_is_an_error_and_no_hang(self):
        for wait in (threading.Event().wait, queue.Queue().get, queue.SimpleQueue().get, concurrent.futures.Future().result):
            with self.assertRaisesRegex(RuntimeError, "another thread"):
                wait()

    def test_what_is_there_is_not_waited_for(self):
        items = queue.SimpleQueue()
        items.put(5)
        self.assertEqual(items.get(), 5)
        with self.assertRaisesRegex(RuntimeError, "un-acquired"):
            threading.Condition().wait()

    def test_a_lock_that_is_taken_twice_is_an_error_and_no_hang(self):
        lock = threading.Lock()
        self.assertEqual(str(inspect.signature(threading.Lock)), "()")
        self.assertTrue(lock.acquire())
        for take in (lock.acquire, lock.__enter__):
            with self.assertRaisesRegex(RuntimeError, "deadlock.*another thread"):
                take()
        self.assertFalse(lock.acquire(False))
        self.assertFalse(lock.acquire(timeout=0.001))
        self.assertTrue(lock.locked())
        lock.release()
        with lock:
            pass
        self.assertFalse(lock.locked())
        with self.assertRaises(RuntimeError):
            lock.release()
        for arguments in ((False, 1), (True, -2)):
            with self.assertRaises(ValueError):
                lock.acquire(*arguments)
            with lock, self.assertRaises(ValueError):
                lock.acquire(*arguments)


if __name__ == "__main__":
    unittest.main()
