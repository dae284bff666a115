#!/usr/bin/env python3
"""A hostile Linux program in a sandbox of `--kind linux`.

`linux/*.c` is the program: some 900 acts, each in a process of its own, run in groups by the first process of
a sandbox. An act passes when it reports that it was held, and the sandbox continues after it: the next act
runs. Meanwhile this machine has targets that no act may reach: a file, a listening port, sockets, a process.
"""

import os
import platform
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from attack import COMMAND  # noqa: E402

SOURCES = Path(__file__).resolve().parent / "linux"
TRUE = "int main(void) { return 0; }"
ENDS_S = 600
PLATFORM = os.environ.get("MEMBRANE_LINUX_PLATFORM", "")  # "": the faster one of this machine
ON = ["--platform", PLATFORM, "--env", "SECONDS=60"] if PLATFORM else []


def build(output, *sources, text=None):
    subprocess.run(["cc", "-O1", "-w", "-static", "-pthread", "-o", output, *(sources or ["-xc", "-"])], input=text, text=True,
                   check=True)


@unittest.skipUnless(platform.machine() == "x86_64", "the linux kind runs on x86-64")
@unittest.skipUnless(shutil.which("cc"), "no C compiler builds the hostile program")
class LinuxAttack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        build(cls.folder / "acts", *sorted(SOURCES.glob("*.c")))
        build(cls.folder / "true", text=TRUE)
        cls.environment = {**os.environ, "MEMBRANE_IMAGES": str(cls.folder / "images"), "A_SECRET": "of the host's environment"}
        cls.make_image()
        # Without a user namespace, nothing limits the processes that the superuser's guests create.
        tried = subprocess.run([COMMAND, "run", "--kind", "linux", "--image", "acts", "-q", "--", "/bin/true"], env=cls.environment,
                               capture_output=True, text=True, timeout=60)
        if "refuses a wall" in tried.stderr:
            raise unittest.SkipTest(f"not all walls are up here: {tried.stderr.splitlines()[0]}")
        listed = subprocess.run([cls.folder / "acts", "--list"], capture_output=True, text=True, check=True).stdout
        cls.acts = listed.split()[:-1]  # the last line is "over"
        cls.stand_by()

    @classmethod
    def make_image(cls):
        tar_path = cls.folder / "acts.tar"
        with tarfile.open(tar_path, "w") as tar:
            for name, mode in (("tmp", 0o1777), ("etc", 0o755), ("bin", 0o755), ("root", 0o700), ("proc", 0o555), ("sys", 0o555),
                               ("dev", 0o755)):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, mode
                tar.addfile(entry)
            (cls.folder / "passwd").write_text("root:x:0:0::/root:/bin/true\n")
            for name, source, mode in (("bin/acts", "acts", 0o755), ("bin/true", "true", 0o755), ("etc/passwd", "passwd", 0o644),
                                       ("etc/only-root", "passwd", 0o600)):
                entry = tar.gettarinfo(cls.folder / source, name)
                entry.mode, entry.uid, entry.gid = mode, 0, 0
                with open(cls.folder / source, "rb") as file:
                    tar.addfile(entry, file)
        subprocess.run([COMMAND, "image", "import", tar_path, "--tag", "acts"], env=cls.environment, check=True, capture_output=True)

    @classmethod
    def stand_by(cls):
        """Targets on this machine that must not be reached."""
        secret = cls.folder / "secret"
        secret.write_text("the host's secret\n")
        cls.listeners = []
        for family, address in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, str(cls.folder / "socket")),
                                (socket.AF_UNIX, f"\0membrane-attack-{os.getpid()}")):
            listener = socket.socket(family)
            listener.bind(address)
            listener.listen()
            listener.setblocking(False)
            cls.listeners.append(listener)
            cls.addClassCleanup(listener.close)
        cls.victim = subprocess.Popen(["sleep", "3600"])
        cls.addClassCleanup(cls.victim.wait)
        cls.addClassCleanup(cls.victim.kill)
        cls.targets = [f"file={secret}", f"port={cls.listeners[0].getsockname()[1]}", f"socket={cls.folder / 'socket'}",
                       f"abstract=membrane-attack-{os.getpid()}", f"process={cls.victim.pid}", f"host={socket.gethostname()}"]

    def attack(self, group):
        wanted = [name for name in self.acts if name.startswith(group)]
        self.assertTrue(wanted)
        done = subprocess.run([COMMAND, "run", "--kind", "linux", "--image", "acts", "-q", *ON, "--memory", "512 MiB",
                               "--wall", "9min", "--", "/bin/acts", *self.targets, group], env=self.environment, capture_output=True, timeout=ENDS_S)
        lines = done.stdout.decode(errors="replace").splitlines()
        said = f"{done.stderr.decode(errors='replace')[-2000:]}\nlast: {lines[-3:]}"
        self.assertEqual([line for line in lines if not line.startswith("held ")], ["over"], said)
        self.assertEqual([line.removeprefix("held ") for line in lines[:-1]], wanted, said)
        self.assertEqual(done.returncode, 0, said)
        self.assertIsNone(self.victim.poll(), "a process of the host was ended")
        for listener in self.listeners:
            with self.assertRaises(BlockingIOError, msg="somebody has connected"):
                listener.accept()

    def test_ways_out(self):
        self.attack("escape.")

    def test_floods(self):
        self.attack("flood.")

    def test_instructions(self):
        self.attack("instruction.")

    def test_files_that_are_not_programs(self):
        self.attack("program.")

    def test_memory_that_changes_during_a_call(self):
        self.attack("race.")

    def test_the_stub(self):
        self.attack("stub.")

    def test_system_calls_0_to_99(self):
        self.attack("call.0")

    def test_system_calls_100_to_199(self):
        self.attack("call.1")

    def test_system_calls_200_to_299(self):
        self.attack("call.2")

    def test_system_calls_300_to_399(self):
        self.attack("call.3")

    def test_system_calls_400_and_more(self):
        self.attack("call.4")

    def test_system_calls_that_there_are_not(self):
        self.attack("call.5")


if __name__ == "__main__":
    unittest.main()
