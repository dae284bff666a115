#!/usr/bin/env python3
"""Tests the package as users install it: pip builds it over the library of a build directory, into a virtual environment, where its tests
and the programs of its README run.

    MEMBRANE_BUILD=build/release python/tests/package_test.py
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

PYTHON = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("MEMBRANE_BUILD", PYTHON.parent / "build" / "release")).resolve()
SECONDS = 900
SECTION = "## In this process"


def programs_of_readme():
    """The programs in the package's README, and in the project's."""
    section = (PYTHON / "README.md").read_text().split(SECTION, 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```py\n(.*?)^```", section + (PYTHON.parent / "README.md").read_text(), re.M | re.S)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        venv = cls.folder / "venv"
        for words in ([sys.executable, "-m", "venv", venv],
                      [venv / "bin/pip", "install", "-q", f"{PYTHON}[check,opentelemetry]", "-C", f"cmake.define.membrane_DIR={BUILD}"],
                      [venv / "bin/pip", "install", "-q", "opentelemetry-sdk", "ipython", "mypy", "numpy", "pandas"]):
            done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
            if done.returncode != 0 and "_native" not in done.stderr:
                raise unittest.SkipTest(f"pip could not fetch what the package needs: {done.stderr[-400:]}")
            if done.returncode != 0:
                raise AssertionError(done.stderr[-4000:])
        cls.python = venv / "bin/python"
        has = cls.ran("-c", "import membrane; membrane.open_language('python')")
        if has.returncode != 0 and "is not installed" in has.stderr:
            raise unittest.SkipTest(has.stderr.strip().splitlines()[-1])

    @classmethod
    def ran(cls, *words, **environment):
        return subprocess.run([cls.python, "-B", *words], capture_output=True, text=True, timeout=SECONDS, check=False, cwd=cls.folder,
                              env={**os.environ, **environment})

    def check(self, name, **environment):
        done = self.ran(PYTHON / "tests" / f"{name}_test.py", **environment)
        self.assertEqual(done.returncode, 0, done.stderr[-8000:])
        self.assertNotIn("skipped", done.stderr)

    def test_sessions(self):
        self.check("session")

    def test_functions(self):
        self.check("functions")

    def test_waiting(self):
        self.check("waiting")

    def test_inputs(self):
        self.check("inputs")

    def test_sources(self):
        self.check("sources")

    def test_agents(self):
        self.check("agents")
        self.check("agents", MEMBRANE_TEST_ISOLATED="1")

    def test_stops(self):
        self.check("stops")
        self.check("stops", MEMBRANE_TEST_ISOLATED="1")

    def test_hostile_programs(self):
        self.check("hostile")

    def test_isolated(self):
        self.check("isolated")

    def test_types_of_cells(self):
        self.check("check")

    def test_telemetry(self):
        self.check("telemetry")

    def test_pools(self):
        self.check("pool")

    def test_notebooks(self):
        self.check("display")

    def test_the_package_is_typed(self):
        for program in programs_of_readme():
            path = self.folder / "typed.py"
            path.write_text(textwrap.dedent(program))
            done = self.ran("-m", "mypy", "--strict", path)
            self.assertEqual(done.returncode, 0, f"{program}\n{done.stdout}")

    def test_a_wrong_argument_is_found_by_its_type(self):
        path = self.folder / "wrong.py"
        wrong = ("Pool(functoins=[])", "AsyncPool(gate=5)", "AsyncSession(timeout=3)", "load(b'', lifetime_s=1)", "load(b'', receipts=None)", "Session(approve=5)")
        path.write_text("from membrane import AsyncPool, AsyncSession, Pool, Session, load\n" + "\n".join(wrong) + "\nPool(functions=[], limits={'fuel': 1})\n")
        done = self.ran("-m", "mypy", "--strict", path)
        self.assertEqual([int(line) for line in re.findall(r":(\d+): error", done.stdout)], [2, 3, 4, 5, 6, 7], done.stdout)

    def test_programs_of_the_readme(self):
        programs = programs_of_readme()
        self.assertTrue(programs)
        for program in programs:
            path = self.folder / "program.py"
            path.write_text(textwrap.dedent(program))
            done = self.ran(path)
            self.assertEqual(done.returncode, 0, f"{program}\n{done.stderr}")
            said = "".join(line.partition("#>")[2].strip() + "\n" for line in program.splitlines() if "#>" in line)
            self.assertEqual(done.stdout, said, program)


if __name__ == "__main__":
    unittest.main()
