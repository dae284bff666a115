"""Runs that begin on one kind of processor and end on another: frozen here, thawed there, and back. Also
whole programs in the installed languages on each: their interpreter is warmed there too, which takes minutes
for Python.

MEMBRANE_COMMAND is this machine's program (build/release of these sources otherwise), and
MEMBRANE_OTHER_COMMAND runs the other's: by default that of build/aarch64 under qemu-aarch64, if both exist.
Otherwise nothing is tested, with a message and the exit code 77.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from frozen_programs import ARGUMENT, PARTS, PROGRAMS, TIERS, facts_of, fuel_of_part  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
HERE = [os.environ.get("MEMBRANE_COMMAND", str(ROOT / "build" / "release" / "membrane"))]
AARCH64 = ROOT / "build" / "aarch64" / "membrane"
EMULATED = ["qemu-aarch64", "-L", str(ROOT / "build" / "aarch64-sysroot"), str(AARCH64)]
SKIPPED = 77
SECONDS = 1200  # a process that needs more hangs


def other_command():
    """What runs the other machine's program, or why there is nothing."""
    if named := os.environ.get("MEMBRANE_OTHER_COMMAND"):
        return shlex.split(named), ""
    if not AARCH64.exists():
        return None, "there is no build/aarch64/membrane: `make test-aarch64` builds it"
    if not shutil.which(EMULATED[0]):
        return None, "there is no qemu-aarch64: Debian's package is qemu-user"
    return EMULATED, ""


THERE, NOTHING_THERE = other_command()
if not NOTHING_THERE and not Path(HERE[0]).exists():
    NOTHING_THERE = f"there is no {HERE[0]}: `make build` builds it"


class OnBoth(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def report(self, machine, *arguments):
        done = subprocess.run([*machine, *map(str, arguments), "--json"], cwd=self.folder, capture_output=True,
                              text=True, timeout=SECONDS)
        self.assertTrue(done.stdout, f"{machine} {arguments}\n{done.stderr}")
        return json.loads(done.stdout)


@unittest.skipIf(NOTHING_THERE, NOTHING_THERE)
class Across(OnBoth):
    def assert_same(self, end, whole):
        self.assertEqual(facts_of(end), facts_of(whole))

    def whole(self, name):
        """The report of the run that is never frozen, which is the same on both machines."""
        (self.folder / f"{name}.wat").write_text(PROGRAMS[name])
        whole = self.report(HERE, "run", f"{name}.wat", ARGUMENT, "--tier", "interpreter")
        self.assertEqual(whole["outcome"], "trapped" if name == "trap" else "ok", whole)
        self.assert_same(self.report(THERE, "run", f"{name}.wat", ARGUMENT), whole)
        return whole

    def moves(self, name, begins, ends, tier):
        whole = self.whole(name)
        for part in range(PARTS + 1):
            with self.subTest(program=name, tier=tier, part=part):
                frozen = self.report(begins, "run", f"{name}.wat", ARGUMENT, "--tier", tier, "--snapshot", "f.snap",
                                     "--freeze-after", fuel_of_part(whole, part))
                self.assertEqual(frozen["outcome"], "frozen", frozen)
                self.assert_same(self.report(ends, "thaw", "f.snap", "--tier", tier), whole)

    def test_what_is_frozen_here_ends_there(self):
        for name in PROGRAMS:
            for tier in TIERS:
                self.moves(name, HERE, THERE, tier)

    def test_what_is_frozen_there_ends_here(self):
        for name in PROGRAMS:
            for tier in TIERS:
                self.moves(name, THERE, HERE, tier)

    def test_a_run_goes_back_and_forth(self):
        for name in PROGRAMS:
            whole = self.whole(name)
            with self.subTest(program=name):
                arguments = ["run", f"{name}.wat", ARGUMENT]
                for part in range(1, PARTS + 1):
                    machine = (HERE, THERE)[part % 2]
                    frozen = self.report(machine, *arguments, "--snapshot", "f.snap", "--freeze-after",
                                         fuel_of_part(whole, part))
                    self.assertEqual(frozen["outcome"], "frozen", frozen)
                    arguments = ["thaw", "f.snap"]
                self.assert_same(self.report(HERE, *arguments), whole)

    def test_the_same_program_is_frozen_to_the_same_bytes(self):
        for name in PROGRAMS:
            whole = self.whole(name)
            with self.subTest(program=name):
                for machine, file in ((HERE, "here.snap"), (THERE, "there.snap")):
                    self.report(machine, "run", f"{name}.wat", ARGUMENT, "--tier", "interpreter", "--snapshot", file,
                                "--freeze-after", whole["fuel_used"] // 2)
                self.assertEqual((self.folder / "here.snap").read_bytes(), (self.folder / "there.snap").read_bytes())


# A language, and a program with numbers, text, errors and seeded randomness.
LANGUAGES = {
    "js": """
      const seen = new Map();
      for (let i = 0; i < 200; ++i) seen.set(`k${(i * 7919) % 31}`, (seen.get(`k${(i * 7919) % 31}`) ?? 0) + Math.sin(i) / 3);
      try { null.x } catch (error) { console.log(error.message) }
      console.log([...seen.keys()].sort().join(), Math.random(), new Date().toISOString(), "é".normalize("NFD").length);
      [...seen.values()].reduce((a, b) => a + b).toFixed(17)""",
    "python": """
      import json, math, random, re, time
      seen = {}
      for i in range(200): seen[f"k{i * 7919 % 31}"] = seen.get(f"k{i * 7919 % 31}", 0) + math.sin(i) / 3
      try: None.x
      except AttributeError as error: print(error)
      print(sorted(seen), random.random(), hash("text"), time.time(), re.findall(r"\\d+", "a1b22"))
      json.dumps([sum(seen.values()).hex(), 2 ** 200, 0.1 + 0.2])""",
}
LANGUAGE_FIELDS = ("outcome", "result", "stdout", "stderr", "fuel_used", "memory_peak_bytes")


@unittest.skipIf(NOTHING_THERE, NOTHING_THERE)
class Languages(OnBoth):
    def language_is_the_same(self, language):
        listed = json.loads(subprocess.check_output([*HERE, "languages", "list", "--json"], text=True))
        if language not in json.dumps(listed):
            self.skipTest(f"{language} is not installed")
        code = textwrap.dedent(LANGUAGES[language]).strip()
        arguments = ["run", "--lang", language, "-e", code, "--wall", "20 min"]
        here, interpreted, there = (self.report(machine, *arguments, *more) for machine, more in
                                    ((HERE, []), (HERE, ["--tier", "interpreter"]), (THERE, [])))
        self.assertEqual(here["outcome"], "ok", here)
        for other in (interpreted, there):
            self.assertEqual({field: other.get(field) for field in LANGUAGE_FIELDS},
                             {field: here.get(field) for field in LANGUAGE_FIELDS})

    def test_javascript_is_the_same(self):
        self.language_is_the_same("js")

    def test_python_is_the_same(self):
        self.language_is_the_same("python")


def main():
    program = unittest.main(verbosity=2, exit=False)
    result = program.result
    failed, skipped = len({test.id() for test, _ in result.failures + result.errors}), len(result.skipped)
    for _, reason in result.skipped[:1]:
        print(f"SKIPPED: {reason}")
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else SKIPPED if NOTHING_THERE else 0


if __name__ == "__main__":
    sys.exit(main())
