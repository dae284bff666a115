"""Tests a session's clock, time zone, sleep and entropy with the installed package. Skipped if it has no engine, or a language is not installed."""

import asyncio
import datetime
import os
import sys
import unittest
import zoneinfo

import membrane
from membrane import AsyncSession, MembraneError, Session, load

UTC = datetime.timezone.utc
START = datetime.datetime(2026, 1, 1, 9, 30, tzinfo=UTC)
NOW = "from datetime import datetime; import time; str(datetime.now())[:16]"
DRAW = "import os, random; os.urandom(4).hex(), random.random()"


def setUpModule():
    try:
        membrane.open_language("python")
    except MembraneError as error:
        raise unittest.SkipTest(str(error)) from None


def text_of(code, **options):
    with Session(**options) as session:
        return session.run(code).check().text


class Clock(unittest.TestCase):
    def test_a_virtual_clock_starts_at_the_given_time(self):
        for clock in (START, START.replace(tzinfo=None), START.timestamp(), int(START.timestamp()),
                      START.astimezone(datetime.timezone(datetime.timedelta(hours=5)))):
            self.assertEqual(text_of(NOW, clock=clock), "'2026-01-01 09:30'", clock)

    def test_the_machines_clock(self):
        before = datetime.datetime.now(UTC).timestamp()
        self.assertGreaterEqual(float(text_of("import time; time.time()", clock="real")), before)

    def test_a_function_is_called(self):
        now = START
        with Session(clock=lambda: now) as session:
            session.run("import time; m = time.monotonic()").check()
            now += datetime.timedelta(microseconds=3_000_001)
            self.assertEqual(session.run("time.time_ns()").text, str((int(START.timestamp()) + 3) * 10**9 + 1000))
            self.assertEqual(session.run("round(time.monotonic() - m, 6)").text, "3.000001")
            branch = session.fork()
            now = START.timestamp() + 60
            self.assertEqual(branch.run(NOW).text, "'2026-01-01 09:31'")
            now = int(START.timestamp())
            self.assertEqual(branch.run(NOW).text, "'2026-01-01 09:30'")

    def test_a_failing_function_is_an_error_in_the_program(self):
        reported = []
        hook, sys.unraisablehook = sys.unraisablehook, lambda error: reported.append(str(error.exc_value))
        try:
            for clock in (lambda: 1 / 0, datetime.datetime.now, lambda: "noon"):
                with Session(clock=clock) as session:
                    self.assertEqual(session.run("import time; time.time()").error.code, "OSError")
        finally:
            sys.unraisablehook = hook
        self.assertIn("division by zero", reported[0])
        self.assertTrue(any("needs a tzinfo" in each for each in reported) and any("noon" in each for each in reported), reported)

    def test_load_takes_it_again(self):
        with Session(clock=START) as session:
            blob = session.dump()
        with load(blob, clock=START + datetime.timedelta(days=1), timezone="+01:00") as again:
            self.assertEqual(again.run(NOW).text, "'2026-01-02 10:30'")

    def test_invalid_values_are_refused(self):
        for options in ({"clock": "noon"}, {"clock": -1.0}, {"clock": datetime.datetime(1960, 1, 1)}, {"clock": True},
                        {"timezone": "Nowhere/Atlantis"}, {"timezone": 3}, {"timezone": ""}, {"sleep": "short"}, {"sleep": 3}, {"entropy": -1},
                        {"entropy": 1 << 64}, {"entropy": b""}, {"entropy": 1.5}):
            with self.assertRaises((ValueError, TypeError, MembraneError), msg=options):
                Session(**options)

    def test_javascript(self):
        code = "[new Date().toISOString().slice(0, 16), new Date().getHours()]"
        self.assertEqual(text_of(code, language="js", clock=START, timezone="+02:00"), "[ '2026-01-01T09:30', 11 ]")


class TimeZone(unittest.TestCase):
    def test_names_and_offsets(self):
        berlin = "from datetime import datetime; import time; str(datetime(2026, 7, 1).astimezone()), time.tzname"
        for zone in ("Europe/Berlin", zoneinfo.ZoneInfo("Europe/Berlin")):
            self.assertEqual(text_of(berlin, timezone=zone), "('2026-07-01 00:00:00+02:00', ('CET', 'CEST'))")
        for zone, shown in (("-03:30", "-03:30"), (datetime.timezone(-datetime.timedelta(hours=3)), "-03:00"), (UTC, "+00:00")):
            self.assertEqual(text_of(berlin.rpartition(", ")[0], timezone=zone)[-7:-1], shown)


class Sleep(unittest.TestCase):
    def test_a_sleep_is_called(self):
        slept = []
        with Session(sleep=slept.append, clock=START) as session:
            session.run("import time, asyncio; time.sleep(90)").check()
            session.run("await asyncio.sleep(0.5)").check()
            self.assertEqual((round(slept[0], 1), len(slept)), (90.0, 2))
            self.assertEqual(session.run(NOW).text, "'2026-01-01 09:31'")

    def test_a_coroutine(self):
        async def sleep(seconds):
            await asyncio.sleep(0)
            slept.append((round(seconds, 1), asyncio.get_running_loop()))

        slept = []
        with Session(sleep=sleep) as session:
            session.run("import time; time.sleep(2)").check()

        async def main():
            async with AsyncSession(sleep=sleep) as session:
                (await session.run("import time; time.sleep(3)")).check()
                return asyncio.get_running_loop()

        loop = asyncio.run(main())
        self.assertEqual([seconds for seconds, _ in slept], [2.0, 3.0])
        self.assertIs(slept[1][1], loop)

    def test_the_end_of_a_turn_ends_a_coroutine(self):
        ended = []

        async def sleep(seconds):
            session.cancel()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append(round(seconds, 1))
                raise

        with Session(sleep=sleep) as session:
            self.assertEqual(session.run("import time; time.sleep(2)").outcome, "cancelled")
        self.assertEqual(ended, [2.0])
        with Session(sleep=lambda seconds: asyncio.Event().wait(), limits={"wall": "100ms"}) as session:
            self.assertEqual(session.run("import time; time.sleep(2)").outcome, "timed_out")

    def test_a_virtual_clock_where_the_policy_grants_the_machines(self):
        self.assertEqual(text_of("import datetime; datetime.date.today().year", clock="virtual", allow=["time"]), "2000")

    def test_virtual_on_the_machines_clock(self):
        code = "import time; t = time.time(); time.sleep(3600); time.time() - t >= 3600"
        self.assertEqual(text_of(code, clock="real", sleep="virtual"), "True")


class Entropy(unittest.TestCase):
    def test_a_seed(self):
        for seed in (7, b"seed", bytes(100)):
            self.assertEqual(text_of(DRAW, entropy=seed), text_of(DRAW, entropy=seed))
        self.assertEqual(len({text_of(DRAW, entropy=seed) for seed in (7, 8, b"seed", "real", bytes(8))}), 5)

    def test_a_function_is_called(self):
        asked = []

        def entropy(count):
            asked.append(count)
            return os.urandom(count)

        with Session(entropy=entropy) as session:
            drawn = {session.run(DRAW).check().text, session.fork().run(DRAW).check().text, session.run(DRAW).check().text}
        self.assertEqual(len(drawn), 3)
        self.assertIn(4, asked)

    def test_a_failing_function_is_an_error_in_the_program(self):
        hook, sys.unraisablehook = sys.unraisablehook, lambda error: None
        try:
            fails = []
            with Session(entropy=lambda count: b"" if fails else bytes(count)) as session:
                session.run("import os").check()
                fails.append(1)
                self.assertEqual(session.run("os.urandom(4)").error.code, "OSError")
        finally:
            sys.unraisablehook = hook


if __name__ == "__main__":
    unittest.main()
