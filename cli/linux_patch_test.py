#!/usr/bin/env python3
"""Git patches of what Linux programs changed: `membrane run --diff`. Those of a service are in service/linux_test.py.

MEMBRANE_COMMAND names the command. The image is made of this machine's own programs (linux_testing.py).
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from linux_testing import make_image

MEMBRANE = os.environ.get("MEMBRANE_COMMAND", "build/release/membrane")
ENDS_S = 120
PROGRAMS = "sh bash cat ls echo mkdir rm cp mv ln chmod printf head true".split()
CHANGES = ("cd /data; echo more >> text; rm -r sub; ln -s text link; printf '\\0\\1\\2' > binary; printf x > 'a name'; "
           "chmod +x program; mkdir -p new/er; echo y > new/er/file")


@unittest.skipUnless(platform.machine() == "x86_64", "the linux kind runs on x86-64")
class PatchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.environment = {**os.environ, "MEMBRANE_IMAGES": str(cls.folder / "images")}
        make_image(cls.folder / "host.tar", PROGRAMS)
        cls.membrane("image", "import", cls.folder / "host.tar", "--tag", "host")
        context = cls.folder / "context"
        for name, text in {"text": "one\ntwo\n", "sub/a": "a\n", "sub/b": "b\n", "program": "#!/bin/sh\n"}.items():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            (context / name).write_text(text)
        cls.context = context
        (cls.folder / "Dockerfile").write_text("FROM host\nCOPY . /data\n")
        cls.membrane("image", "build", "-q", "-t", "base", "-f", cls.folder / "Dockerfile", context)

    @classmethod
    def membrane(cls, *words, code=0, input=None):
        done = subprocess.run([MEMBRANE, *map(str, words)], env=cls.environment, capture_output=True, timeout=ENDS_S, input=input)
        if done.returncode != code:
            raise AssertionError(f"{done.returncode}: {done.stderr.decode(errors='replace')}")
        return done

    def git_apply(self, patch: bytes, *options) -> Path:
        """Applies it to what the image has; returns the directory."""
        if shutil.which("git") is None:
            self.skipTest("there is no git")
        folder = tempfile.mkdtemp(dir=self.folder)
        shutil.copytree(self.context, f"{folder}/data")
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.folder)}
        for each in (["--check"], []):
            done = subprocess.run(["git", "apply", *each, *options, "-"], cwd=folder, input=patch, capture_output=True, env=environment)
            self.assertEqual(done.returncode, 0, done.stderr + patch)
        return Path(folder) / "data"

    def check_changed(self, data: Path):
        self.assertEqual((data / "text").read_text(), "one\ntwo\nmore\n")
        self.assertFalse((data / "sub/a").exists())
        self.assertEqual(os.readlink(data / "link"), "text")
        self.assertEqual((data / "binary").read_bytes(), b"\0\1\2")
        self.assertEqual((data / "a name").read_text(), "x")
        self.assertTrue(os.access(data / "program", os.X_OK))
        self.assertEqual((data / "new/er/file").read_text(), "y\n")


class Run(PatchTest):
    def test_git_takes_what_a_run_changed(self):
        patch = self.folder / "run.patch"
        self.membrane("run", "--kind", "linux", "--image", "base", "-q", "--diff", patch, "--", "sh", "-c", CHANGES)
        self.check_changed(self.git_apply(patch.read_bytes()))

    def test_nothing_is_an_empty_one(self):
        patch = self.folder / "empty.patch"
        self.membrane("run", "--kind", "linux", "--image", "base", "-q", "--diff", patch, "--", "true")
        self.assertEqual(patch.read_bytes(), b"")

    def test_what_git_cannot_express_is_reported(self):
        patch = self.folder / "left.patch"
        done = self.membrane("run", "--kind", "linux", "--image", "base", "-q", "--diff", patch, "--", "mkdir", "/hollow")
        self.assertIn(b"changes that are not in the patch: 1 ", done.stderr)

    def test_a_file_that_cannot_be_written(self):
        done = self.membrane("run", "--kind", "linux", "--image", "base", "-q", "--diff", self.folder / "no/such", "--", "true", code=2)
        self.assertIn(b"cannot write", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
