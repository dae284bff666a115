"""Tests sessions in this process with the installed package. Skipped if it has no engine, or the language is not installed."""

import asyncio
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import membrane
from membrane import AsyncSession, MembraneError, Session, load


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

    def test_checked_text_does_not_run(self):
        with Session() as session:
            self.assertEqual(session.check("x = = 1").error.code, "SyntaxError")
            self.assertTrue(session.check("x = 1").ok)
            self.assertEqual(session.run("x").error.code, "NameError")

    def test_granted_files_must_exist(self):
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

    def test_hints_name_functions_of_this_package(self):
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

    def test_languages_by_common_names(self):
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

    def test_an_exit_code_is_reported(self):
        with Session() as session:
            result = session.run("import sys; sys.exit(3)")
            self.assertEqual((result.outcome, result.exit_code, result.ok, result.error.code), ("ok", 3, False, "exit"))
            self.assertIn("exit_code=3", repr(result))
            self.assertTrue(session.run("sys.exit()").ok)

    def test_out_of_memory_is_reported(self):
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

    def test_closed_sessions(self):
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
    def test_installed_languages_are_left_alone(self):
        said = []
        membrane.install("python", on_progress=said.append)
        self.assertEqual([line for line in said if line.startswith("getting")], [])

    def test_an_unknown_language_is_an_error(self):
        with self.assertRaises(MembraneError) as raised:
            membrane.install("cobol")
        self.assertIn("there is no cobol", str(raised.exception))


class Asyncio(unittest.TestCase):
    def test_functions_run_in_the_loop(self):
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
    def test_unknown_options(self):
        for make, said in ((lambda: Session(timeout=5), 'limits={"wall": "5 s"}'), (lambda: AsyncSession(functoins=[]), "did you mean functions"),
                           (lambda: load(b"", lifetime_s=1), "It has blob, allow"), (lambda: membrane.Pool(functoins=[]), "did you mean functions"),
                           (lambda: membrane.AsyncPool(timeout_s=1), "max_sessions"), (lambda: membrane.Pool(nothing=1), "entropy")):
            with self.assertRaisesRegex(TypeError, "has no argument") as raised:
                make()
            self.assertIn(said, str(raised.exception))

    def test_passed_on_options_are_those_of_sessions(self):
        import inspect

        from membrane import _options

        for function, options in ((Session, _options.SessionOptions), (load, _options.LoadOptions)):
            names = set(inspect.signature(function).parameters) - {"language", "blob"}
            self.assertEqual(names, set(_options.get_names(options)))

    def test_options_of_a_wrong_type(self):
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

    def test_files_by_a_file_info(self):
        with Session() as session:
            session.files.write(pathlib.PurePosixPath("/tmp/x"), bytearray(b"one"))
            (found,) = [each for each in session.files.list() if each.path == "/tmp/x"]
            self.assertEqual((session.files.read(found), session.files.read_text(found)), (b"one", "one"))
            session.files.write(found, memoryview(b"two"))
            self.assertEqual(session.files.read(found), b"two")


class Memory(unittest.TestCase):
    def test_sessions_free_their_memory(self):
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

    def test_a_forgotten_session_is_released(self):
        import weakref

        session = Session(functions={"f": lambda: 1})
        gone = weakref.ref(session)
        del session
        gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
