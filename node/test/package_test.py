#!/usr/bin/env python3
"""The package as a stranger builds it: its dependencies by npm, its addon over the library of a build directory, in a copy; then its tests.

    MEMBRANE_BUILD=build/release node/test/package_test.py
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

NODE = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("MEMBRANE_BUILD", NODE.parent / "build" / "release")).resolve()
SECONDS = 900


class Package(unittest.TestCase):
    def ran(self, folder, *words, **more):
        return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=folder,
                              env={**os.environ, "MEMBRANE_DIR": str(BUILD), **more})

    def path_with_ty(self, root):
        """PATH, with the type checker where pip brings it. Without it its tests are skipped."""
        if shutil.which("ty"):
            return os.environ["PATH"]
        self.ran(root, sys.executable, "-m", "pip", "install", "-q", "--target", str(root / "checker"), "ty>=0.0.100,<0.1")
        return os.pathsep.join([str(root / "checker" / "bin"), os.environ["PATH"]])

    def test_builds_and_passes_its_tests(self):
        if not shutil.which("npm"):
            self.skipTest("there is no npm")
        with tempfile.TemporaryDirectory(dir=NODE.parent / "build") as made:
            root = Path(made)
            folder = root / "node"
            shutil.copytree(NODE, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "prebuilt"))
            (root / "include").symlink_to(NODE.parent / "include")
            brought = self.ran(folder, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
            if brought.returncode != 0:
                self.skipTest(f"npm could not bring what the package needs: {brought.stderr[-400:]}")
            built = self.ran(folder, "npm", "run", "build")
            self.assertEqual(built.returncode, 0, built.stdout[-3000:] + built.stderr[-3000:])
            tested = self.ran(folder, "npm", "test", PATH=self.path_with_ty(root))
            self.assertEqual(tested.returncode, 0, tested.stdout[-8000:] + tested.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
