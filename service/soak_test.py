"""tools/soak-service, which is run by hand for half an hour: it ends its service and says why, however it is ended itself.

MEMBRANE_COMMAND and MEMBRANE_LANGUAGES as in cli/command_testing.py.
"""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from service_testing import COMMAND, Service, children

MOST_SECONDS = 60  # of an end; the tool that does not end would go on for half an hour
TOOL = Path(__file__).resolve().parent.parent / "tools" / "soak-service"


def ignore_interrupts():
    """As the shell does for what it runs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Soak(unittest.TestCase):
    def setUp(self):
        service = Service()
        self.addCleanup(service.log.close)
        has_python = service.has_template("python")
        service.stop()
        if not has_python:
            self.skipTest("Python is not installed")

    def test_a_signal_to_its_group(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number.name), tempfile.TemporaryDirectory() as folder:
                tool = subprocess.Popen([sys.executable, TOOL, "--command", Path(COMMAND).resolve()], stderr=subprocess.PIPE, text=True,
                                        start_new_session=True, preexec_fn=ignore_interrupts, env={**os.environ, "TMPDIR": folder})
                while not (services := children(tool.pid)):
                    self.assertIsNone(tool.poll())
                os.killpg(tool.pid, number)
                try:
                    said = tool.communicate(timeout=MOST_SECONDS)[1]
                finally:
                    tool.kill()
                self.assertEqual((tool.returncode, said), (1, f"soak-service: ended by {number.name}, before it was done\n"))
                self.assertEqual(os.listdir(folder), [])
                self.assertFalse(Path(f"/proc/{services[0]}").exists())


if __name__ == "__main__":
    unittest.main()
