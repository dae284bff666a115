"""The base of all attacks: runs the command as an attacker's victim would, and measures the cost to the
host.

A file `NAME_attack_test.py` holds the attempts against one part; each test method is one attempt, named after
what it tries. It passes when the attack fails: the process ends by itself, within its time and memory, and
the attacker's goal is not reached.

MEMBRANE_COMMAND names the command (build/release of these sources otherwise). MEMBRANE_SANITIZED=1 says that
it was built with a sanitizer: stacks and memory are then not held to their limits.
"""

import os
import resource
import subprocess
import tempfile
import threading
import time
import unittest
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = os.environ.get("MEMBRANE_COMMAND", str(ROOT / "build" / "release" / "membrane"))
LANGUAGES = Path(os.environ.get("MEMBRANE_LANGUAGES", ROOT / "build" / "languages"))
SANITIZED = os.environ.get("MEMBRANE_SANITIZED") == "1"

MIB = 1 << 20
HOST_STACK_BYTES = 256 << 10  # a host that recurses on foreign data does not survive with so little
HOST_MEMORY_BYTES = 32 * MIB  # what a sandbox may cost the host beyond its own memory limit
MAX_SECONDS = 600             # a process that needs longer hangs


@dataclass
class Run:
    """One ended process. `memory_bytes` is the largest resident set; `cpu_s` is user and system time together."""
    code: int
    stdout: bytes
    stderr: bytes
    cpu_s: float
    wall_s: float
    memory_bytes: int

    def __str__(self):
        return (f"exit code {self.code}, {self.wall_s:.2f} s, {self.cpu_s:.2f} s of CPU, {self.memory_bytes / MIB:.1f} MiB\n"
                f"{self.stdout[:2000]!r}\n{self.stderr[:2000]!r}")


def _limit_stack():
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_STACK, (HOST_STACK_BYTES, HOST_STACK_BYTES))


def resident_bytes(pid):
    """The current memory of a process."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def execute(arguments, stdin=b"", folder=None, environment=None):
    """Runs a command with a small stack. Its output is kept completely; it is killed after MAX_SECONDS."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        source.write(stdin)
        source.seek(0)
        start = time.monotonic()
        process = subprocess.Popen(arguments, stdin=source, stdout=out, stderr=err, cwd=folder, env=environment,
                                   preexec_fn=_limit_stack)
        watchdog = threading.Timer(MAX_SECONDS, process.kill)
        watchdog.start()
        _, status, usage = os.wait4(process.pid, 0)
        watchdog.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - start
        out.seek(0)
        err.seek(0)
        return Run(process.returncode, out.read(), err.read(), usage.ru_utime + usage.ru_stime, wall,
                   usage.ru_maxrss * 1024)


class Attack(unittest.TestCase):
    """A directory of its own, and an environment in which only the languages are configured."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMBRANE_")}
        self.environment["XDG_STATE_HOME"] = str(self.folder / "state")
        self.environment["MEMBRANE_LANGUAGES"] = str(LANGUAGES)

    def file(self, name, content):
        """Writes a file into the attempt's directory; returns its name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def need(self, language):
        if SANITIZED and language == "python":
            self.skipTest("Python is not prepared by a sanitized build, which would take minutes")
        if not (LANGUAGES / language).exists():
            self.skipTest(f"{language} is not installed (tools/get-languages --directory build/languages)")

    def membrane(self, *arguments, stdin=b"", codes=(0, 1, 2), **environment):
        """Runs the command. It must end by itself, with one of these exit codes: a signal or a failure of
        Membrane's own (3) means that the attack succeeded."""
        done = execute([COMMAND, *map(str, arguments)], stdin, self.folder, {**self.environment, **environment})
        self.assertIn(done.code, codes, str(done))
        return done

    def assert_memory(self, done, limit_bytes, beside=None):
        """Holds the host to the sandbox's memory limit and HOST_MEMORY_BYTES more, on top of what the run `beside`
        (the same kind of program, doing nothing) needs."""
        if SANITIZED:
            return
        base = (beside or self.membrane("--version")).memory_bytes
        self.assertLessEqual(done.memory_bytes, base + limit_bytes + HOST_MEMORY_BYTES, str(done))

    def assert_cpu(self, done, seconds):
        """Holds the host to this much CPU time; ten times as much where a sanitizer slows it down."""
        self.assertLessEqual(done.cpu_s, seconds * (10 if SANITIZED else 1), str(done))
