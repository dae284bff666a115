"""Tests isolated sessions with the installed package. Skipped if the language is not installed, or the machine lacks a wall."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from datetime import datetime, timezone
from pathlib import Path

import membrane
from membrane import LATER, AsyncSession, Call, MembraneError, Pool, Session, load

PATIENCE_S = 60
FOLDER = tempfile.TemporaryDirectory()
PROGRAM = Path(FOLDER.name) / "membrane-worker"  # a name that only this test uses, to find its processes


def setUpModule():
    try:
        membrane.open_language("python")
        PROGRAM.symlink_to(Path(membrane.__file__).parent / "membrane-worker")
        os.environ["MEMBRANE_WORKER"] = str(PROGRAM)
        isolated().close()
    except MembraneError as error:
        if error.code == "not_found" and "membrane-worker" in str(error):
            raise
        raise unittest.SkipTest(str(error)) from None


def isolated(**options):
    return Session(isolated=True, **options)


def workers():
    """The processes of this test's isolated sessions, and the one that they are forked from."""
    found = set()
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and (folder / "cmdline").read_text() == f"{PROGRAM}\0":
                found.add(int(folder.name))
    return found


def become_gone(processes):
    """Waits until they have ended and were reaped."""
    ends_at = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{each}").exists() for each in processes):
        if time.monotonic() > ends_at:
            return False
        os.sched_yield()
    return True


def ran(program, **environment):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=600, check=False,
                          env={**os.environ, **environment})


class Isolated(unittest.TestCase):
    def test_turns_functions_files_and_output(self):
        said = []

        async def stock(item):
            await asyncio.sleep(0)
            return len(item)

        with isolated(functions={"price": lambda item: 350, "stock": stock}, inputs={"given": {1, 2}}, on_stdout=said.append) as session:
            self.assertEqual(session.run("price('tea') * 2").text, "700")
            self.assertEqual(session.run("import asyncio; await asyncio.gather(stock('ab'), stock('c'))").text, "[2, 1]")
            self.assertEqual(session.run("print('said'); given").text, "{1, 2}")
            self.assertEqual("".join(said), "said\n")
            session.files.write("/tmp/a", "text")
            self.assertEqual(session.run("open('/tmp/b', 'w').write(open('/tmp/a').read().upper())").text, "4")
            self.assertEqual(session.files.read_text("/tmp/b"), "TEXT")
            self.assertEqual(session.complete("giv"), ["given"])
            self.assertEqual(session.run("1 / 0").error.code, "ZeroDivisionError")
            branch = session.fork()
            branch.run("given = 3")
            self.assertEqual((branch.run("given").text, session.run("given").text), ("3", "{1, 2}"))
            branch.close()

    def test_a_gate_and_an_error_of_a_function(self):
        def fails():
            raise KeyError("none")

        with isolated(functions={"fails": fails, "other": lambda: 1}, gate=lambda call: call.name != "other") as session:
            self.assertEqual(session.run("fails()").error.code, "KeyError")
            self.assertEqual(session.run("other()").error.code, "PermissionError")

    def test_limits_and_cancelling(self):
        with isolated(limits={"fuel": "2e9"}) as session:
            session.run("x = 1")
            self.assertEqual(session.run("while True: pass").outcome, "out_of_fuel")
            self.assertEqual(session.run("x").text, "1")
        with isolated(limits={"wall": "10min", "fuel": "1e15"}, on_stdout=lambda _: session.cancel()) as session:
            self.assertEqual(session.run("print('begun', flush=True)\nwhile True: pass").outcome, "cancelled")
            self.assertEqual(session.run("2 + 3").text, "5")

    def test_sources_are_called_here(self):
        waits = []
        with isolated(clock=datetime(2026, 7, 1, 9, 30, tzinfo=timezone.utc), timezone="+02:00", sleep=waits.append,
                      entropy=lambda count: bytes(count)) as session:
            session.run("import os, time; from datetime import datetime; time.sleep(3600)")
            self.assertEqual([round(each) for each in waits], [3600])
            self.assertEqual(session.run("f'{datetime.now():%H:%M}', os.urandom(2)").text, "('12:30', b'\\x00\\x00')")

    def test_bytes_resume_in_either_place(self):
        for first, then in ((True, False), (False, True), (True, True)):
            with self.subTest(first=first, then=then):
                with Session(isolated=first, functions={"ask": LATER}) as session:
                    session.run("n = 1")
                    call = session.start("n + ask('a')")
                    self.assertIsInstance(call, Call)
                    blob = call.dump()
                again = load(blob, functions={"ask": LATER}, isolated=then)
                self.assertEqual(again.args, ("a",))
                self.assertEqual(again.resume(41).text, "42")
                again.session.close()

    def test_asyncio_and_pools(self):
        async def main():
            async with AsyncSession(isolated=True, functions={"f": lambda: 41}) as session:
                self.assertEqual((await session.run("f() + 1")).text, "42")

        asyncio.run(main())
        with Pool(size=2, isolated=True) as pool:
            for _ in range(4):
                with pool.session() as session:
                    self.assertEqual(session.run("6 * 7").text, "42")

    def test_a_crash_costs_only_its_session(self):
        with isolated() as other:
            other.run("x = 41")
            before = workers()
            with isolated() as session:
                session.run("1")
                for process in workers() - before:
                    os.kill(process, signal.SIGKILL)
                lost = session.run("2")
                self.assertEqual((lost.outcome, lost.error.code), ("failed", "worker_lost"))
            self.assertEqual(other.run("x + 1").text, "42")

    def test_many_sessions_leave_nothing(self):
        with isolated() as first:
            first.run("1")
            before, open_before = workers(), len(os.listdir("/proc/self/fd"))
            seen = set()
            for number in range(200):
                with isolated() as session:
                    self.assertEqual(session.run("6 * 7").text, "42")
                    if number % 20 == 0:
                        seen |= workers()
            self.assertEqual(len(os.listdir("/proc/self/fd")), open_before)
            self.assertTrue(become_gone(seen - before))

    def test_a_forked_process_has_its_own_workers(self):
        with isolated() as session:
            session.run("x = 41")
            child = os.fork()
            if child == 0:
                good = False
                with contextlib.suppress(BaseException):
                    refused = session.run("x").outcome == "failed"
                    session.close()
                    with isolated() as own:
                        good = refused and own.run("7").text == "7"
                os._exit(0 if good else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(session.run("x + 1").text, "42")

    def test_a_killed_process_leaves_nothing(self):
        program = "import membrane; membrane.Session(isolated=True, limits={'wall': '10min', 'fuel': '1e15'}, on_stdout=lambda _: print('begun', flush=True)).run('print(1, flush=True)\\nwhile True: pass')"
        before = workers()
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"begun\n")
            its = workers() - before
            self.assertGreaterEqual(len(its), 2)
            process.kill()
        self.assertTrue(become_gone(its))

    def test_isolated_needs_its_program(self):
        done = ran("""
            import membrane
            try: membrane.Session(isolated=True)
            except membrane.MembraneError as error: print(error.code, 'MEMBRANE_WORKER' in error.hint or error.hint != '')
        """, MEMBRANE_WORKER="/nowhere/membrane-worker")
        self.assertEqual((done.stdout, done.returncode), ("not_found True\n", 0), done.stderr)


if __name__ == "__main__":
    unittest.main()
