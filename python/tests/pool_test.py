"""Pools of sessions, of the installed package."""

import asyncio
import contextvars
import gc
import inspect
import subprocess
import sys
import threading
import unittest
import weakref

import membrane
from membrane import AsyncPool, BusyError, MembraneError, Pool, Session, SessionOverError


def setUpModule():
    try:
        membrane.open_language("python")
    except MembraneError as error:
        raise unittest.SkipTest(str(error)) from None


def until(true):
    """Another thread makes it so."""
    while not true():
        threading.Event().wait(0.001)


class Pools(unittest.TestCase):
    def test_forks_count(self):
        with Pool(size=1, max_sessions=2) as pool:
            session = pool.session()
            branch = session.fork()
            self.assertEqual(pool.counts()[1], 2)
            for each in (session, branch):
                with self.assertRaisesRegex(BusyError, "fork"):
                    each.fork()
            with self.assertRaises(BusyError):
                pool.session(timeout_s=0)
            branch.close()
            with session.fork() as again:
                self.assertEqual(again.run("1").text, "1")
            session.close()
            self.assertEqual(pool.counts()[1], 0)

    def test_more_than_can_be_used_do_not_stand_ready(self):
        with self.assertRaisesRegex(ValueError, "max_sessions=2"):
            Pool(size=3, max_sessions=2)
        with Pool(max_sessions=2) as pool:
            self.assertEqual(pool.size, 2)

    def test_wrong_arguments_are_named(self):
        for error, said, arguments in (
            (TypeError, "size is a whole number", {"size": "4"}), (TypeError, "max_sessions is a whole number", {"max_sessions": "4"}),
            (TypeError, "idle_timeout_s is a number", {"idle_timeout_s": "5"}), (ValueError, "lifetime_s is a number", {"lifetime_s": -1}),
        ):  # fmt: skip
            with self.assertRaisesRegex(error, said):
                Pool(**arguments)
        with Pool(size=0) as pool, self.assertRaisesRegex(TypeError, "timeout_s is a number"):
            pool.session(timeout_s="5")

    def test_waiting_ends_by_itself(self):
        for kind in (Pool, AsyncPool):
            self.assertEqual(inspect.signature(kind.session).parameters["timeout_s"].default, 30)

    def test_sessions_share_nothing(self):
        with Pool(size=2, functions={"price": lambda item: 350}) as pool:
            for _ in range(5):
                with pool.session() as session:
                    self.assertEqual(session.run("'secret' in globals(), price('tea')").text, "(False, 350)")
                    session.run("secret = 1\nopen('/tmp/secret', 'w').close()").check()
                    self.assertEqual([each.path for each in session.files.list()], ["/tmp/secret"])
                with self.assertRaises(SessionOverError):
                    session.run("1")

    def test_a_session_begins_as_any_new_one(self):
        code = "import random\nprint(random.random())\n1 / 0"
        with Session() as session:
            alone = session.run(code)
        with Pool(size=1) as pool:
            until(lambda: pool.counts()[0] == 1)
            with pool.session() as session:
                pooled = session.run(code)
        self.assertEqual((pooled.fuel, pooled.error.traceback), (alone.fuel, alone.error.traceback))

    def test_sessions_that_nobody_uses_ask_for_nothing(self):
        asked = []

        def entropy(count):
            asked.append(count)
            return bytes(count)

        def clock():
            asked.append("clock")
            return 0

        with Pool(size=2, clock=clock, timezone="+02:00", entropy=entropy) as pool:
            until(lambda: pool.counts()[0] == 2)
            self.assertEqual(asked, [])
            with pool.session() as session:
                self.assertEqual(session.run("import time; time.localtime().tm_hour").text, "2")
            self.assertIn("clock", asked)

    def test_it_is_filled_again(self):
        with Pool(size=3) as pool:
            taken = [pool.session() for _ in range(7)]
            self.assertEqual(len({id(each) for each in taken}), 7)
            until(lambda: pool.counts() == (3, 7))
            for each in taken:
                each.close()
            self.assertEqual(pool.counts()[1], 0)

    def test_none_made_ahead(self):
        with Pool(size=0) as pool:
            self.assertEqual(pool.counts(), (0, 0))
            with pool.session() as session:
                self.assertEqual(session.run("1").text, "1")

    def test_a_bound(self):
        with Pool(size=1, max_sessions=1) as pool:
            session = pool.session()
            with self.assertRaises(BusyError) as raised:
                pool.session(timeout_s=0)
            self.assertEqual((raised.exception.code, raised.exception.retryable), ("pool_busy", True))
            self.assertIn("max_sessions", raised.exception.hint)
            session.close()
            session.close()
            with pool.session(timeout_s=0), self.assertRaises(BusyError):
                pool.session(timeout_s=0.01)
            pool.session(timeout_s=0).close()

    def test_who_waits_is_served_in_turn(self):
        order = []

        def take(number):
            with pool.session(timeout_s=600):
                order.append(number)

        with Pool(size=1, max_sessions=1) as pool:
            threads = []
            with pool.session():
                for number in range(4):
                    threads.append(threading.Thread(target=take, args=(number,)))
                    threads[-1].start()
                    until(lambda: len(pool._waiting) == len(threads))
            for thread in threads:
                thread.join()
        self.assertEqual(order, [0, 1, 2, 3])

    def test_sessions_that_end_otherwise(self):
        with Pool(size=1, max_sessions=1, lifetime_s=0) as pool:
            session = pool.session()
            self.assertEqual(pool.session(timeout_s=600).language, "python")  # the lifetime of the first is over
            with self.assertRaises(SessionOverError):
                session.run("1")
        with Pool(size=1, max_sessions=1) as pool:
            pool.session()  # nobody has it
            gc.collect()
            pool.session(timeout_s=600).close()

    def test_a_lifetime_begins_when_a_session_is_taken(self):
        with Pool(size=1, idle_timeout_s=3600, lifetime_s=3600) as pool:
            until(lambda: pool.counts()[0] == 1)
            self.assertIsNone(pool._ready[0]._timer)
            self.assertIsNotNone(pool.session()._timer)

    def test_many_threads(self):
        lock, now, most = threading.Lock(), [0], [0]

        def work():
            for number in range(5):
                with pool.session(timeout_s=600) as session:
                    with lock:
                        now[0] += 1
                        most[0] = max(most[0], now[0])
                    self.assertEqual(session.run(f"x = {number}\nx").text, str(number))
                    with lock:
                        now[0] -= 1
                    done.append(number)

        done = []
        with Pool(size=2, max_sessions=3) as pool:
            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual((len(done), pool.counts()[1]), (40, 0))
        self.assertLessEqual(most[0], 3)

    def test_functions_know_who_calls(self):
        user = contextvars.ContextVar("user")
        with Pool(functions={"me": user.get}) as pool:
            for name in ("ada", "bob"):
                user.set(name)
                with pool.session() as session:
                    self.assertEqual(session.run("me()").text, repr(name))

    def test_closing(self):
        pool = Pool(size=1, max_sessions=1)
        session = pool.session()
        errors = []

        def wait():
            try:
                pool.session()
            except MembraneError as error:
                errors.append(error.code)

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: pool._waiting)
        pool.close()
        pool.close()
        thread.join()
        self.assertEqual(errors, ["pool_closed"])
        with self.assertRaises(MembraneError):
            pool.session()
        self.assertEqual(session.run("1").text, "1")
        session.close()
        self.assertEqual(pool.counts(), (0, 0))

    def test_one_that_nobody_has_goes(self):
        pool = Pool(size=1)
        gone = weakref.ref(pool)
        del pool
        gc.collect()
        until(lambda: gone() is None)

    def test_a_program_ends_while_sessions_are_made(self):
        program = "import membrane\npool = membrane.Pool(size=50)\nothers = membrane.Pool(size=50)\nsession = pool.session()"
        for _ in range(5):
            ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_options_that_are_wrong(self):
        with self.assertRaises(MembraneError):
            Pool(limits={"patience": 1})
        with self.assertRaises(TypeError):
            Pool(patience=1)
        for words in ({"size": -1}, {"max_sessions": 0}):
            with self.assertRaises(ValueError):
                Pool(**words)

    def test_sessions_that_cannot_be_made_later(self):
        with Pool(size=0, max_sessions=1) as pool:
            pool.language = "cobol"
            for _ in range(2):  # the place is free again
                with self.assertRaises(MembraneError) as raised:
                    pool.session(timeout_s=0)
                self.assertEqual(raised.exception.code, "not_found")

    def test_it_says_what_it_is(self):
        with Pool(size=1, max_sessions=2) as pool, pool.session():
            until(lambda: pool.counts()[0] == 1)
            self.assertEqual(repr(pool), "<Pool python, 1 ready, 1 of 2 in use>")
        self.assertEqual(repr(pool), "<Pool python, closed, 0 of 2 in use>")


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_many_tasks(self):
        now = most = 0

        async def price(item):
            await asyncio.sleep(0)
            return 350

        async def work(number):
            nonlocal now, most
            async with pool.session(timeout_s=600) as session:
                now += 1
                most = max(most, now)
                result = await session.run(f"await price('tea') + {number}")
                now -= 1
            return result.text

        async with AsyncPool(size=2, max_sessions=3, functions=[price]) as pool:
            self.assertEqual(await asyncio.gather(*map(work, range(100))), [str(350 + number) for number in range(100)])
            self.assertEqual(most, 3)

    async def test_a_bound(self):
        async with AsyncPool(size=1, max_sessions=1) as pool:
            session = await pool.session()
            with self.assertRaises(BusyError):
                await pool.session(timeout_s=0)
            with self.assertRaises(BusyError):
                async with pool.session(timeout_s=0.01):
                    pass
            await session.close()
            async with pool.session(timeout_s=0) as session:
                self.assertEqual((await session.run("1")).text, "1")

    async def test_a_task_that_is_cancelled_takes_no_place(self):
        async with AsyncPool(size=1, max_sessions=1) as pool:
            async with pool.session():
                tasks = [asyncio.ensure_future(pool._session(None)) for _ in range(3)]
                while len(pool._pool._waiting) < 3:
                    await asyncio.sleep(0)
                tasks[0].cancel()
                tasks[2].cancel()
                await asyncio.wait([tasks[0], tasks[2]])
            await (await tasks[1]).close()
            granted = await pool.session()
            late = asyncio.ensure_future(pool._session(None))
            while not pool._pool._waiting:
                await asyncio.sleep(0)
            pool._pool._leave(next(iter(pool._pool._used)))  # the place is given in the moment of
            late.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await late
            await granted.close()
            await (await pool.session(timeout_s=0)).close()

    async def test_closing(self):
        pool = AsyncPool(max_sessions=1)
        self.assertEqual(repr(pool), "<AsyncPool, not opened>")
        session = await pool.session()
        waiting = asyncio.ensure_future(pool._session(None))
        while not pool._pool._waiting:
            await asyncio.sleep(0)
        await pool.close()
        with self.assertRaises(MembraneError) as raised:
            await waiting
        self.assertEqual(raised.exception.code, "pool_closed")
        with self.assertRaises(MembraneError):
            await pool.session()
        self.assertEqual((await session.run("1")).text, "1")
        await session.close()

    async def test_options_that_are_wrong(self):
        with self.assertRaises(MembraneError):
            async with AsyncPool(limits={"patience": 1}):
                pass


if __name__ == "__main__":
    unittest.main()
