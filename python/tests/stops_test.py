"""Tests how turns end that wait for a function of the embedder: cancel(), the wall limit, Ctrl-C. With the installed package;
MEMBRANE_TEST_ISOLATED=1 tests isolated sessions.
"""

import asyncio
import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

import membrane
from membrane import MembraneError

LONG_S = 60  # a turn that is not stopped takes this long; the tests end long before
ENDLESS = {"wall": "10min", "fuel": "1e15"}
ISOLATED = os.environ.get("MEMBRANE_TEST_ISOLATED") == "1"
Session = functools.partial(membrane.Session, isolated=ISOLATED)
AsyncSession = functools.partial(membrane.AsyncSession, isolated=ISOLATED)


def setUpModule():
    try:
        membrane.open_language("python")
    except MembraneError as error:
        raise unittest.SkipTest(str(error)) from None


class Functions(unittest.TestCase):
    def setUp(self):
        self.begun = threading.Event()
        self.ended = []

    async def waits(self):
        self.begun.set()
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise

    def cancelled(self, session, code):
        threading.Thread(target=lambda: (self.begun.wait(), session.cancel())).start()
        return session.run(code).outcome

    def test_cancel_ends_a_coroutine_that_a_turn_awaits(self):
        begun_at = time.monotonic()
        with Session(functions={"waits": self.waits}, limits=ENDLESS) as session:
            session.run("x = 1").check()
            self.assertEqual(self.cancelled(session, "x = 2\nawait waits()"), "cancelled")
            self.assertEqual(session.run("x").text, "1")
        self.assertEqual(self.ended, ["cancelled"])
        self.assertLess(time.monotonic() - begun_at, LONG_S / 2)

    def test_cancel_ends_several_coroutines_in_a_running_loop(self):
        async def main():
            with Session(functions={"waits": self.waits}, limits=ENDLESS) as session:
                return self.cancelled(session, "import asyncio\nawait asyncio.gather(waits(), waits())")

        self.assertEqual(asyncio.run(main()), "cancelled")
        self.assertEqual(self.ended, ["cancelled"] * 2)

    def test_the_wall_limit_ends_a_coroutine(self):
        with Session(functions={"waits": self.waits}, limits={"wall": "1s"}) as session:
            self.assertEqual(session.run("await waits()").outcome, "timed_out")
            self.assertEqual(session.run("1").text, "1")
        self.assertEqual(self.ended, ["cancelled"])

    def test_in_asyncio(self):
        async def main():
            async with AsyncSession(functions={"waits": self.waits}, limits={"wall": "2s"}) as session:
                timed_out = await session.run("await waits()")
                self.assertEqual(timed_out.outcome, "timed_out")
                self.begun.clear()
                turn = asyncio.create_task(session.run("await waits()"))
                await asyncio.to_thread(self.begun.wait)
                turn.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await turn
                return (await session.run("1")).text

        self.assertEqual(asyncio.run(main()), "1")
        self.assertEqual(self.ended[0], "cancelled")

    def test_cancelling_a_queued_task_stops_no_other_turn(self):
        async def main():
            async with AsyncSession(functions={"waits": self.waits}, limits=ENDLESS) as session:
                running = asyncio.create_task(session.run("await waits()"))
                await asyncio.to_thread(self.begun.wait)
                queued = asyncio.create_task(session.run("1"))
                await asyncio.sleep(0)
                queued.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await queued
                self.assertFalse(running.done())
                self.assertEqual(self.ended, [])
                session.cancel()
                self.assertEqual((await running).outcome, "cancelled")
                return (await session.run("2")).text

        self.assertEqual(asyncio.run(main()), "2")

    def test_files_wait_for_the_running_turn(self):
        async def main():
            async def writes():
                self.begun.set()
                await asyncio.sleep(0.05)
                return "by the turn"

            async with AsyncSession(functions={"writes": writes}) as session:
                turn = asyncio.create_task(session.run("open('/tmp/a.txt', 'w').write(await writes())"))
                await asyncio.to_thread(self.begun.wait)
                text = await session.files.read_text("/tmp/a.txt")
                (await turn).check()
                await session.files.write("/tmp/b.txt", "b")
                return text, [each.path for each in await session.files.list()]

        self.assertEqual(asyncio.run(main()), ("by the turn", ["/tmp/a.txt", "/tmp/b.txt"]))

    def test_a_coroutine_cannot_use_its_own_session(self):
        async def main():
            async def asks():
                with self.assertRaisesRegex(MembraneError, "waits for the function"):
                    await session.dump()
                with self.assertRaisesRegex(MembraneError, "waits for the function"):
                    await session.run("1")
                return 7

            async with AsyncSession(functions={"asks": asks}) as session:
                return (await session.run("await asks()")).text

        self.assertEqual(asyncio.run(main()), "7")

    def test_a_gate_is_cancelled_too(self):
        async def gate(call):
            await self.waits()
            return True

        with Session(functions={"f": lambda: 1}, gate=gate, limits=ENDLESS) as session:
            self.assertEqual(self.cancelled(session, "f()"), "cancelled")

    def test_a_blocking_function_runs_to_its_end_first(self):
        asked = []

        def slow():
            session.cancel()
            asked.append("to its end")

        with Session(functions={"slow": slow}, limits=ENDLESS) as session:
            self.assertEqual(session.run("x = 1\nslow()\nx = 2").outcome, "cancelled")
            self.assertEqual(session.run("'x' in globals()").text, "False")
        self.assertEqual(asked, ["to its end"])

    def test_a_turn_in_a_function_of_another(self):
        with Session(limits=ENDLESS) as inner, Session(functions={"f": lambda: inner.run("6 * 7").text}) as outer:
            self.assertEqual(outer.run("f()").text, "'42'")


class Interrupts(unittest.TestCase):
    def test_a_keyboard_interrupt_of_a_function_is_raised_here(self):
        def leaves():
            raise KeyboardInterrupt("by the function")

        async def leaves_later():
            raise KeyboardInterrupt("by the coroutine")

        with Session(functions=[leaves, leaves_later]) as session:
            for code, said in (("leaves()", "by the function"), ("await leaves_later()", "by the coroutine")):
                with self.assertRaisesRegex(KeyboardInterrupt, said):
                    session.run(f"x = 1\ntry:\n  {code}\nexcept BaseException: pass")
                self.assertEqual(session.run("'x' in globals()").text, "False")
            with self.assertRaises(KeyboardInterrupt):
                session.start("leaves()")

    def test_a_keyboard_interrupt_of_a_listener_or_clock_is_raised_here(self):
        def leaves(*_):
            raise KeyboardInterrupt

        with Session(on_stdout=leaves, limits=ENDLESS) as session:
            with self.assertRaises(KeyboardInterrupt):
                session.run("print(1, flush=True)\nwhile True: pass")
        with Session(clock=leaves, limits=ENDLESS) as session:
            with self.assertRaises(KeyboardInterrupt):
                session.run("import time\ntry:\n  time.time()\nexcept OSError: pass\nwhile True: pass")

    def interrupted(self, functions, code, handler=""):
        """Returns the output of a process that is interrupted when its program asks for it."""
        program = f"""
            import asyncio, signal, sys, time
            from membrane import Session

            signal.signal(signal.SIGINT, signal.default_int_handler)
            {handler}
            async def waits():
                print("begun", flush=True)
                await asyncio.sleep({LONG_S})

            def blocks():
                print("begun", flush=True)
                time.sleep({LONG_S})

            said = lambda text: print(text, end="", flush=True)
            with Session(functions={functions}, limits={ENDLESS!r}, on_stdout=said, sleep="real",
                         isolated={ISOLATED}) as session:
                session.run("x = 1")
                try:
                    session.run({code!r})
                    print("no exception")
                except KeyboardInterrupt:
                    print("interrupted", session.run("x").text)
        """
        child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.kill)
        self.assertEqual(child.stdout.readline(), "begun\n")
        child.send_signal(signal.SIGINT)
        said = child.stdout.read()
        self.assertEqual(child.wait(LONG_S / 2), 0)
        return said

    def test_ctrl_c_while_the_guest_runs(self):
        self.assertEqual(self.interrupted("{}", "x = 2\nprint('begun', flush=True)\nwhile True: pass"), "interrupted 1\n")

    def test_ctrl_c_while_the_guest_sleeps(self):
        self.assertEqual(self.interrupted("{}", f"import time\nprint('begun', flush=True)\ntime.sleep({LONG_S})"), "interrupted 1\n")

    def test_ctrl_c_while_a_function_runs(self):
        self.assertEqual(self.interrupted("[blocks]", "x = 2\nblocks()"), "interrupted 1\n")

    def test_ctrl_c_while_a_coroutine_is_awaited(self):
        self.assertEqual(self.interrupted("[waits]", "x = 2\nawait waits()"), "interrupted 1\n")

    def test_other_handlers_run_meanwhile(self):
        handler = "signal.signal(signal.SIGINT, lambda *_: session.cancel())"
        said = self.interrupted("{}", "print('begun', flush=True)\nwhile True: pass", handler)
        self.assertEqual(said, "no exception\n")


if __name__ == "__main__":
    unittest.main()
