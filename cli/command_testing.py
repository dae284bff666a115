"""What the tests of the command have in common. They run it as a person does: real processes, real files, real sockets.

MEMBRANE_COMMAND names the command (build/release of these sources otherwise).
"""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = os.environ.get("MEMBRANE_COMMAND", str(ROOT / "build" / "release" / "membrane"))
SECONDS = 600  # a process that needs more hangs
ADD = '(func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))'
SEVEN = '(func (export "main") (result i32) (i32.const 7))'
# (module (func (export "f") (result i32) (i32.const 42)))
BINARY = bytes.fromhex("0061736d010000000105016000017f030201000705010166000 00a06010400412a0b".replace(" ", ""))
# A language: each line is a sum of numbers; it prints the sum, and the total of all lines.
CALCULATOR = r"""(module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $read (result i32)
    (i64.store (i32.const 0) (i64.const 0x1_0000_0010))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (select (i32.load8_u (i32.const 16)) (i32.const -1) (i32.load (i32.const 8))))
  (func $print (param $n i32) (param $end i32) (local $at i32)
    (local.set $at (i32.const 63))
    (i32.store8 (i32.const 63) (local.get $end))
    (loop $digit
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at) (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))
      (br_if $digit (local.tee $n (i32.div_u (local.get $n) (i32.const 10)))))
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (i32.sub (i32.const 64) (local.get $at)))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start") (local $c i32) (local $number i32) (local $sum i32) (local $total i32)
    (loop $next
      (local.set $c (call $read))
      (if (i32.eq (local.get $c) (i32.const -1)) (then (return)))
      (if (i32.eq (local.get $c) (i32.const 0x6c)) (then (loop $for_ever (br $for_ever))))
      (if (i32.lt_u (i32.sub (local.get $c) (i32.const 48)) (i32.const 10))
        (then (local.set $number (i32.add (i32.mul (local.get $number) (i32.const 10))
                                          (i32.sub (local.get $c) (i32.const 48))))
              (br $next)))
      (local.set $sum (i32.add (local.get $sum) (local.get $number)))
      (local.set $number (i32.const 0))
      (br_if $next (i32.ne (local.get $c) (i32.const 10)))
      (local.set $total (i32.add (local.get $total) (local.get $sum)))
      (call $print (local.get $sum) (i32.const 32))
      (call $print (local.get $total) (i32.const 10))
      (local.set $sum (i32.const 0))
      (br $next))))
"""


def fenced(program):
    return {"content": f"I run it.\n```wat\n{program}\n```\n"}


class CommandTest(unittest.TestCase):
    """A directory of its own, and an environment in which nothing is configured."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMBRANE_")}
        self.environment["XDG_CONFIG_HOME"] = str(self.folder / "config")
        self.environment["XDG_STATE_HOME"] = str(self.folder / "state")
        self.environment["XDG_DATA_HOME"] = str(self.folder / "data")  # no language is installed there

    def membrane(self, *arguments, stdin="", code=0, **environment):
        """The command's output; the test fails when its exit code differs."""
        done = subprocess.run([COMMAND, *map(str, arguments)], input=stdin, cwd=self.folder, capture_output=True,
                              text=True, env={**self.environment, **environment}, timeout=SECONDS)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def assert_refused(self, done, cause, fix):
        """Checks that standard output is empty, and that standard error says what is wrong and what to
        do."""
        self.assertEqual(done.stdout, "")
        self.assertIn(cause, done.stderr)
        self.assertIn("hint: ", done.stderr)
        self.assertIn(fix, done.stderr)


class WithLanguages(CommandTest):
    """With the languages of this machine (tools/get-languages); skipped if there are none."""

    def setUp(self):
        super().setUp()
        for name in "XDG_DATA_HOME", "MEMBRANE_LANGUAGES":
            self.environment.pop(name, None)
            if name in os.environ:
                self.environment[name] = os.environ[name]
