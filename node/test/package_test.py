#!/usr/bin/env python3
"""The package as a stranger builds it: its dependencies by npm, its addon over the library of a build directory, in a copy; then its tests,
and that its stubs are those of the Python package.

    MEMBRANE_BUILD=build/release node/test/package_test.py
"""

import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from typing import Callable, Literal, Optional

NODE = Path(__file__).resolve().parent.parent
PROJECT = NODE.parent
BUILD = Path(os.environ.get("MEMBRANE_BUILD", PROJECT / "build" / "release")).resolve()
SECONDS = 900

STUBS = """
import { stubs } from 'membrane'
const { words, modules, inputs } = JSON.parse(process.argv[1])
const of = (module) => Object.fromEntries(words.filter((each) => each[0] === module)
  .map(([, name, signature, doc, async]) => [name, { call: () => 0, signature, doc, async }]))
process.stdout.write(stubs({ functions: of(''), modules: Object.fromEntries(modules.map((each) => [each, of(each)])), inputs }))
"""


def price(item: str, count: int = 1, *more: float, unit: Optional[str] = None, **rest: bool) -> int:
    """What an item costs: "one" \\ many.

    In cents."""


async def rate(currency: "Literal['EUR', 'CHF']", /, at=-1.5, by: Callable[[int], str] = len) -> Optional[float]:
    """Ends with a "quote\""""


def bare(a, b=[], c="x, y=z"):
    pass


INPUTS = {"rows": [{"n": 1}, {"n": 2}], "both": [1, "a"], "empty": [], "none": None, "yes": True, "half": 0.5, "many": [1, "a", None, 2.5, True],
          "deep": [[[[[[1]]]]]], "named": {"a": [1.5], "b": [2.5]}}  # fmt: skip


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("npm"):
            raise unittest.SkipTest("there is no npm")
        made = tempfile.TemporaryDirectory(dir=PROJECT / "build")
        cls.addClassCleanup(made.cleanup)
        cls.root = Path(made.name)
        cls.folder = cls.root / "node"
        shutil.copytree(NODE, cls.folder, ignore=shutil.ignore_patterns("node_modules", "dist", "prebuilt"))
        for name in ("include", "tools"):
            (cls.root / name).symlink_to(PROJECT / name)
        brought = cls.ran("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
        if brought.returncode != 0:
            raise unittest.SkipTest(f"npm could not bring what the package needs: {brought.stderr[-400:]}")
        built = cls.ran("npm", "run", "build")
        if built.returncode != 0:
            raise AssertionError(built.stdout[-3000:] + built.stderr[-3000:])

    @classmethod
    def ran(cls, *words, **more):
        return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=cls.folder,
                              env={**os.environ, "MEMBRANE_DIR": str(BUILD), **more})

    def path_with_ty(self):
        """PATH, with the type checker where pip brings it. Without it its tests are skipped."""
        if shutil.which("ty"):
            return os.environ["PATH"]
        target = self.root / "checker"
        self.ran(sys.executable, "-m", "pip", "install", "-q", "--target", str(target), "ty>=0.0.100,<0.1")
        return os.pathsep.join([str(target / "bin"), os.environ["PATH"]])

    def test_it_passes_its_tests(self):
        tested = self.ran("npm", "test", PATH=self.path_with_ty())
        failed = re.findall(r"^not ok .*?^  \.\.\.$", tested.stdout, re.M | re.S)
        self.assertEqual(tested.returncode, 0, "\n".join(failed) + tested.stdout[-1000:] + tested.stderr[-2000:])

    def test_its_stubs_are_those_of_the_python_package(self):
        python = types.ModuleType("membrane")  # without what it imports for services
        python.__path__ = [str(PROJECT / "python" / "membrane")]
        sys.modules["membrane"] = python
        spec = importlib.util.spec_from_file_location("_values", PROJECT / "lang/python/guest/membrane/_values.py")
        values = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(values)
        modules = {"bank": {"rate": rate, "bare": bare}}
        registry = importlib.import_module("membrane._functions").Registry(values, [price], modules, INPUTS, None)
        words = json.dumps({"words": registry.words, "modules": list(modules), "inputs": INPUTS})
        said = self.ran("node", "--input-type=module", "-e", STUBS, words)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(said.stdout, importlib.import_module("membrane._stubs").Stubs(registry).text())


if __name__ == "__main__":
    unittest.main()
