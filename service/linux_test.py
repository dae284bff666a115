#!/usr/bin/env python3
"""A service's Linux sandboxes, by the command: made, asked to run commands, given files, ended.

MEMBRANE_COMMAND names the command. The image is made of this machine's own programs (cli/linux_testing.py).
"""

import os
import platform
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
from linux_testing import make_image  # noqa: E402
from service_testing import SANITIZED, Service  # noqa: E402

MEMBRANE = os.environ.get("MEMBRANE_COMMAND", "build/release/membrane")


@unittest.skipIf(SANITIZED, "a sanitizer makes calls that the kernel process of Linux programs may not make")
@unittest.skipUnless(platform.machine() == "x86_64", "the linux kind runs on x86-64")
class LinuxSandboxes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        os.environ["MEMBRANE_IMAGES"] = str(cls.folder / "images")
        make_image(cls.folder / "host.tar")
        subprocess.run([MEMBRANE, "image", "import", cls.folder / "host.tar", "--tag", "host"], check=True, capture_output=True)
        cls.service = Service()
        cls.addClassCleanup(cls.service.stop)

    def membrane(self, *words, code=0, input=None):
        done = subprocess.run([MEMBRANE, *map(str, words)], input=input, capture_output=True, timeout=120,
                              env={**os.environ, "MEMBRANE_URL": self.service.url, "MEMBRANE_TOKEN": self.service.token})
        self.assertEqual(done.returncode, code, done.stderr.decode(errors="replace"))
        return done.stdout

    def create(self):
        sandbox = self.membrane("create", "--template", "linux:host").decode().strip()
        self.addCleanup(self.membrane, "rm", sandbox)
        return sandbox

    def test_scripts_and_commands(self):
        sandbox = self.create()
        self.assertEqual(self.membrane("exec", sandbox, "-e", "echo one > /tmp/x; pwd"), b"/root\n")
        self.assertEqual(self.membrane("exec", sandbox, "cat", "/tmp/x"), b"one\n")
        self.membrane("exec", sandbox, "-e", "exit 3", code=3)

    def test_files_come_and_go(self):
        sandbox = self.create()
        (self.folder / "data").write_bytes(bytes(range(256)) * 1000)
        self.membrane("cp", self.folder / "data", f"{sandbox}:/tmp/data")
        self.assertEqual(self.membrane("exec", sandbox, "wc", "-c", "/tmp/data"), b"256000 /tmp/data\n")
        self.membrane("cp", f"{sandbox}:/tmp/data", self.folder / "back")
        self.assertEqual((self.folder / "back").read_bytes(), (self.folder / "data").read_bytes())

    def test_patches_of_what_has_changed(self):
        one, two = self.create(), self.create()
        self.assertEqual(self.membrane("diff", one), b"")
        self.membrane("exec", one, "-e", "mkdir /root/r; cd /root/r; seq 20 > text; printf '\\0\\1' > binary; ln -s text link; echo more >> /etc/hosts")
        patch = self.membrane("diff", one)
        self.assertIn(b"diff --git a/etc/hosts b/etc/hosts\n", patch)
        self.assertEqual(self.membrane("patch", two, "-", input=patch), b"4 files changed\n")
        self.assertEqual(self.membrane("diff", two), patch)
        self.assertEqual(self.membrane("exec", two, "tail", "-1", "/root/r/link"), b"20\n")
        below = self.membrane("diff", one, "--directory", "/root/r")
        self.assertIn(b"diff --git a/text b/text\n", below)
        self.assertNotIn(b"hosts", below)
        self.membrane("patch", self.create(), "-", "--directory", "/tmp/x", input=below)

    def test_commands_are_whom_the_image_says(self):
        (self.folder / "Dockerfile").write_text("FROM host\nENV A=b\nWORKDIR /work\nUSER nobody\n")
        subprocess.run([MEMBRANE, "image", "build", "-q", "-t", "theirs", self.folder], check=True, capture_output=True)
        sandbox = self.membrane("create", "--template", "linux:theirs").decode().strip()
        self.addCleanup(self.membrane, "rm", sandbox)
        self.assertEqual(self.membrane("exec", sandbox, "-e", "id -u; echo $A; pwd"), b"65534\nb\n/work\n")

    def test_a_bad_patch_changes_nothing(self):
        sandbox = self.create()
        bad = (b"--- a/etc/hosts\n+++ b/etc/hosts\n@@ -1 +1 @@\n-127.0.0.1 localhost\n+gone\n"
               b"--- a/etc/passwd\n+++ b/etc/passwd\n@@ -1 +1 @@\n-nobody\n+here\n")
        told = subprocess.run([MEMBRANE, "patch", sandbox, "-"], input=bad, capture_output=True, timeout=60,
                              env={**os.environ, "MEMBRANE_URL": self.service.url, "MEMBRANE_TOKEN": self.service.token})
        self.assertEqual(told.returncode, 2, told.stderr)
        self.assertIn(b"etc/passwd, line 8 of the patch", told.stderr)
        self.assertEqual(self.membrane("diff", sandbox), b"")

    def test_only_linux_sandboxes_have_patches(self):
        other = self.membrane("create", "--template", "wat").decode().strip()
        self.addCleanup(self.membrane, "rm", other)
        self.membrane("diff", other, code=2)

    def test_sandboxes_are_apart(self):
        one, two = self.create(), self.create()
        self.membrane("exec", one, "-e", "echo secret > /tmp/secret")
        self.membrane("exec", two, "cat", "/tmp/secret", code=1)

    def test_processes_go_on_between_execs(self):
        sandbox = self.create()
        self.membrane("exec", sandbox, "-e", "mkfifo /tmp/pipe; cat /tmp/pipe > /tmp/got 2> /dev/null &")
        self.assertEqual(self.membrane("exec", sandbox, "-e", "echo there > /tmp/pipe; while ! [ -s /tmp/got ]; do sleep 0.01; done; cat /tmp/got"),
                         b"there\n")

    def test_what_it_cannot_do_is_refused(self):
        sandbox = self.create()
        refused = subprocess.run([MEMBRANE, "create", "--template", "linux:host", "--allow", "kv"],
                                 capture_output=True, timeout=60,
                                 env={**os.environ, "MEMBRANE_URL": self.service.url, "MEMBRANE_TOKEN": self.service.token})
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(b"host functions", refused.stderr)
        self.assertTrue(sandbox)


if __name__ == "__main__":
    unittest.main()
