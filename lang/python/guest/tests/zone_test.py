"""Local time by a zone's rules, against that of this machine's C library, which knows the same zone."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

GUEST = Path(__file__).resolve().parent.parent
DATABASE = Path("/usr/share/zoneinfo")
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo", "Pacific/Apia")

USE = """
import base64, sys
sys.path.insert(0, {guest!r})
from membrane import _zone
words = {{"name": {name!r}, "tzif_base64": base64.b64encode(open({path!r}, "rb").read()).decode()}}
_zone.use(words)
"""
TELL = """
import time
from datetime import date, datetime, timezone
class Ours(datetime):
    pass
for second in range(86400 * 365, 86400 * 365 * 60, 86400 * 19 + 3600 * 5 + 1234):
    local = time.localtime(second)
    moment = datetime.fromtimestamp(second)
    print(second, tuple(local), local.tm_zone, local.tm_gmtoff, time.ctime(second), time.strftime("%c|%Z|%z|%%Z", local),
          moment, moment.fold, moment.timestamp(), moment.astimezone(), moment.astimezone().tzname(),
          datetime.fromtimestamp(second, timezone.utc).astimezone(), moment.astimezone(timezone.utc), date.fromtimestamp(second),
          repr(Ours.fromtimestamp(second + 0.25)), time.mktime(local), moment.fold or time.mktime((*local[:8], -1)))  # what comes twice is not settled
for call in (lambda: time.localtime("x"), lambda: time.localtime(1e20), lambda: datetime.fromtimestamp(1e20),
             lambda: time.mktime((1, 2)), lambda: datetime.fromtimestamp(float("nan"))):
    try:
        print(call())
    except Exception as error:
        print(type(error).__name__)
print(time.mktime((2026, 14, -3, 25, 61, 61, 0, 0, -1)), time.tzname, time.timezone, time.altzone, time.daylight)
print(abs(datetime.now().timestamp() - time.time()) < 5, datetime.today().date() == date.today(),
      abs(datetime.now(timezone.utc).timestamp() - time.time()) < 5)
"""


def shown(code, zone):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "TZ": zone}, check=False)
    return done.stdout + done.stderr


@unittest.skipUnless((DATABASE / ZONES[0]).exists(), "there is no tzdata")
class Zone(unittest.TestCase):
    maxDiff = 2000

    def test_local_time_is_as_the_c_library_has_it(self):
        for zone in ZONES:
            with self.subTest(zone):
                use = USE.format(guest=str(GUEST), name=zone, path=str(DATABASE / zone))
                # Its own TZ stays UTC, whatever os.environ says: what reads that was replaced.
                self.assertEqual(shown(use + TELL, "UTC"), shown(TELL, zone))

    def test_tzset_is_as_the_c_library_has_it(self):
        install = f"import os, sys, time; sys.path.insert(0, {str(GUEST)!r}); from membrane import _zone; _zone.install()\n"
        own = "import os, time\n"
        for zone in (ZONES[0], ":" + ZONES[1], "EST5EDT,M3.2.0,M11.1.0", "JST-9", "<+0330>-3:30", "UTC"):
            with self.subTest(zone):
                code = f"os.environ['TZ'] = {zone!r}; time.tzset()\n" + TELL
                self.assertEqual(shown(install + code, "UTC"), shown(own + code, "UTC"))
        for zone in ("AAA24", "AAA-24:59:59", "AAA0BBB-24,M3.2.0,M11.1.0"):  # more than a datetime can have
            code = f"os.environ['TZ'] = {zone!r}; time.tzset(); print(time.localtime(0).tm_hour, time.tzname)"
            self.assertEqual(shown(install + code, "UTC"), "0 ('UTC', 'UTC')\n")
        back = f"os.environ['TZ'] = {ZONES[0]!r}; time.tzset(); del os.environ['TZ']; time.tzset()\n" + TELL
        self.assertEqual(shown(install + back, "UTC"), shown(TELL, "UTC"))

    def test_strftime_is_as_the_c_library_has_it(self):
        install = f"import os, sys, time; sys.path.insert(0, {str(GUEST)!r}); from membrane import _zone; _zone.install()\n"
        directives = ("%A, %B %-d at %l:%M %P", "%k|%e|%-H|%_m|%05d|%^a|%#Z|%^B|%-j|%_j|%3S|%10A", "%Q %N %L %!", "100%", "100% of %Y",
                      "%s", "%%s %%-d", "%Ey %Od", "%+5")
        code = f"""
from datetime import datetime
for second in (0, 1704812820, 1720105445, 951782399):
    for directive in {directives!r}:
        print(directive, repr(time.strftime(directive, time.localtime(second))), repr(datetime.fromtimestamp(second).strftime(directive)))
"""
        for zone in (ZONES[0], ZONES[1], "UTC"):
            change = f"os.environ['TZ'] = {zone!r}; time.tzset()\n"
            with self.subTest(zone):
                self.assertEqual(shown(install + change + code, "UTC"), shown("import os, time\n" + change + code, "UTC"))

    def test_logging_has_local_time(self):
        install = f"import logging, os, sys, time; sys.path.insert(0, {str(GUEST)!r}); from membrane import _zone; _zone.install()\n"
        code = f"""
os.environ['TZ'] = {ZONES[0]!r}; time.tzset()
record = logging.makeLogRecord(dict(created=0.0, msecs=0))
for converter in (logging.Formatter.converter, time.localtime, time.gmtime):
    logging.Formatter.converter = converter
    print(logging.Formatter("%(asctime)s").format(record), converter(0).tm_hour)
"""
        self.assertEqual(shown(install + code, "UTC"), shown("import logging, os, time\n" + code, "UTC"))

    def test_tzset_returns_to_the_embedders_zone(self):
        use = USE.format(guest=str(GUEST), name=ZONES[1], path=str(DATABASE / ZONES[1])) + "import os, time\n_zone.install()\n"
        change = f"os.environ['TZ'] = {ZONES[0]!r}; time.tzset(); del os.environ['TZ']; time.tzset()\n"
        self.assertEqual(shown(use + change + TELL, "UTC"), shown(TELL, ZONES[1]))

    def test_without_a_zone_it_is_utc_again(self):
        use = USE.format(guest=str(GUEST), name=ZONES[0], path=str(DATABASE / ZONES[0])) + "_zone.use(None)\n"
        self.assertEqual(shown(use + TELL, "UTC"), shown(TELL, "UTC"))


if __name__ == "__main__":
    unittest.main()
