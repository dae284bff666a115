#!/usr/bin/env python3
"""`membrane shell` and `membrane run --tty`: a sandbox on a terminal, which the test holds the other end of.

MEMBRANE_COMMAND names the command. The image is made of this machine's own programs (linux_testing.py).
"""

import os
import platform
import signal
import subprocess
import sys
import tempfile
import termios
import unittest
from pathlib import Path

from linux_testing import Terminal, make_image

MEMBRANE = os.environ.get("MEMBRANE_COMMAND", "build/release/membrane")


@unittest.skipUnless(platform.machine() == "x86_64", "the linux kind runs on x86-64")
class ShellTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        tar = Path(folder.name) / "host.tar"
        cls.environment = {**os.environ, "MEMBRANE_IMAGES": str(Path(folder.name) / "images"), "TERM": "vt100"}
        make_image(tar)
        subprocess.run([MEMBRANE, "image", "import", str(tar), "--tag", "host"], env=cls.environment, check=True,
                       stdout=subprocess.DEVNULL)

    def start(self, *words, **size):
        terminal = Terminal([MEMBRANE, *words], self.environment, **size)
        self.addCleanup(terminal.close)
        return terminal

    def shell(self, *words, **size):
        """A shell that has said its prompt."""
        terminal = self.start("shell", "--image", "host", "--env", "PS1=ready> ", *words, **size)
        terminal.expect("ready> ")
        return terminal

    def plain_shell(self, **size):
        return self.shell("bash", "--norc", "--noprofile", "-i", **size)

    def assert_restored(self, terminal):
        self.assertEqual(termios.tcgetattr(terminal.slave), terminal.modes)


class Sessions(ShellTest):
    def test_a_shell_and_its_exit_code(self):
        terminal = self.plain_shell()
        terminal.type("echo $((6*7)) $TERM; tty\r")
        terminal.expect("\n42 vt100\r\n/dev/pts/0\r\n")
        terminal.expect("ready> ")
        terminal.type("exit 7\r")
        self.assertEqual(terminal.end(), 7)
        self.assert_restored(terminal)

    def test_a_login_shell_is_usual(self):
        terminal = self.start("shell", "--image", "host")
        terminal.type("echo a$((1+1))b; exit 3\r")
        terminal.expect("a2b\r\n")
        self.assertEqual(terminal.end(), 3)

    def test_the_end_of_input_ends_it(self):
        terminal = self.plain_shell()
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)

    def test_a_command_with_its_own_options(self):
        terminal = self.start("shell", "--image", "host", "sh", "-c", "exit 5")
        self.assertEqual(terminal.end(), 5)
        terminal = self.start("shell", "--image", "host", "--", "sh", "-c", "exit 6")
        self.assertEqual(terminal.end(), 6)

    def test_a_signal_is_reported_as_shells_do(self):
        terminal = self.start("shell", "--image", "host", "sh", "-c", "kill -TERM $$")
        self.assertEqual(terminal.end(), 128 + signal.SIGTERM)

    def test_an_option_that_is_unknown(self):
        terminal = self.start("shell", "--imagine", "host")
        self.assertEqual(terminal.end(), 2)
        self.assertIn("--imagine", terminal.seen)

    def test_run_has_a_terminal_too(self):
        terminal = self.start("run", "--kind", "linux", "--image", "host", "-t", "-q", "--", "sh", "-c",
                              "test -t 0 && test -t 1 && exit 4")
        self.assertEqual(terminal.end(), 4)
        self.assert_restored(terminal)


class Keys(ShellTest):
    def test_an_interrupt_goes_to_the_command(self):
        terminal = self.plain_shell()
        terminal.type("sh -c 'echo up; exec cat'\r")
        terminal.expect("\nup\r\n")
        terminal.type("\x03")
        terminal.expect("ready> ")
        terminal.type("echo $?\r")
        terminal.expect("\n130\r\n")

    def test_a_job_is_stopped_and_continues(self):
        terminal = self.plain_shell()
        terminal.type("echo up; cat\r")
        terminal.expect("\nup\r\n")
        terminal.type("one\r")
        terminal.expect("one\r\none\r\n")
        terminal.type("\x1a")
        terminal.expect("Stopped")
        terminal.expect("ready> ")
        terminal.type("jobs\r")
        terminal.expect("Stopped +[^\n]*cat")
        terminal.type("fg\r")
        terminal.expect("\n[^\n]*cat\r\n")
        terminal.type("two\r")
        terminal.expect("two\r\ntwo\r\n")
        terminal.type("\x03")
        terminal.expect("ready> ")

    def test_the_window_grows(self):
        terminal = self.plain_shell(rows=30, columns=90)
        terminal.type("stty size\r")
        terminal.expect("\n30 90\r\n")
        terminal.type("trap 'echo resized' WINCH; echo set\r")
        # Before its prompt, Readline reads the size and sets it again, and so might undo ours.
        terminal.expect("\nset\r\nready> ")
        terminal.resize(33, 99)
        terminal.type("\r")
        terminal.expect("resized")
        terminal.type("stty size\r")
        terminal.expect("\n33 99\r\n")

    def test_a_program_that_draws(self):
        """As an editor does: without echo, key by key, with the size of the window."""
        program = ("import os,sys,tty,termios; old=termios.tcgetattr(0); tty.setraw(0); s=os.get_terminal_size(); "
                   "say=lambda t: (sys.stdout.write(t), sys.stdout.flush()); "
                   "say('\\x1b[2J\\x1b[%d;%dH*' % (s.lines, s.columns)); "
                   "[say(repr(os.read(0,8))) for _ in range(3)]; termios.tcsetattr(0, termios.TCSADRAIN, old)")
        terminal = self.plain_shell(rows=20, columns=60)
        terminal.type(f'python3 -c "{program}"\r')
        terminal.expect(r"\x1b\[2J\x1b\[20;60H\*")
        for key, shown in (("x", r"b'x'"), ("\x03", r"b'\\x03'"), ("\x1b[A", r"b'\\x1b\[A'")):
            terminal.type(key)
            terminal.expect(shown)
        terminal.expect("ready> ")


class Ends(ShellTest):
    def test_a_signal_to_membrane_restores_the_terminal(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            terminal = self.plain_shell()
            self.assertNotEqual(termios.tcgetattr(terminal.slave), terminal.modes)
            terminal.process.send_signal(number)
            self.assertEqual(terminal.end(), 1)
            self.assert_restored(terminal)

    def test_a_missing_terminal_is_reported(self):
        done = subprocess.run([MEMBRANE, "shell", "--image", "host"], env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"is not a terminal", done.stderr)

    def test_a_missing_image(self):
        terminal = self.start("shell", "--image", "nosuch")
        self.assertEqual(terminal.end(), 2)
        self.assert_restored(terminal)

    def test_a_limit_ends_it(self):
        terminal = self.start("shell", "--image", "host", "--wall", "300ms", "sh", "-c", "while :; do :; done")
        self.assertEqual(terminal.end(), 1)
        self.assertIn("limit", terminal.seen)
        self.assert_restored(terminal)


if __name__ == "__main__":
    sys.exit(unittest.main())
