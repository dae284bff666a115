"""The tests of run-python-tests and run-test262: what they parse, and how they continue after a test that
ends everything."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import load  # noqa: E402

python_tests = load("run-python-tests")
test262 = load("run-test262")

# Stands in for the command: the interpreter "ends" in the test b, unless b is left out.
COMMAND = r"""
import json, sys
request = json.load(open(sys.argv[sys.argv.index("--input") + 1]))
lines = []
def tell(**what):
    lines.append("noise of a test\x02" + json.dumps(what))
for test in "abc":
    if test in request["leave_out"]:
        continue
    tell(start=test)
    if test == "b":
        print(json.dumps({"outcome": "trapped", "error": {"code": "unreachable"}, "stdout": "\n".join(lines)}))
        sys.exit(1)
    tell(end=test, outcome="passed" if test == "a" else "failed", detail="wrong\nx.py:1")
tell(done=True)
print(json.dumps({"outcome": "ok", "stdout": "\n".join(lines)}))
"""


class PythonTests(unittest.TestCase):
    def test_a_module_is_begun_again_behind_what_ended_it(self):
        with tempfile.TemporaryDirectory() as folder:
            command = Path(folder) / "command.py"
            command.write_text(COMMAND)
            module = python_tests.run_module([sys.executable, str(command)], Path(folder), "test_x")
        self.assertEqual(module.outcomes, {"a": "passed", "b": "ended", "c": "failed"})
        self.assertEqual(module.failures(), ["b", "c"])
        self.assertIn("unreachable", module.details["b"])

    def test_what_is_not_judged_has_no_reason(self):
        rows = [("of another version", "test.test_x.*", python_tests.re.compile("older"))]
        self.assertEqual(python_tests.why_of(rows, "test.test_x.C.test", "an older text"), "of another version")
        self.assertEqual(python_tests.why_of(rows, "test.test_x.C.test", "another text"), "")
        self.assertEqual(python_tests.why_of(rows, "test.test_y.C.test", "an older text"), "")

    def test_the_judgements_can_be_read(self):
        rows = python_tests.judged()
        self.assertTrue(rows)
        self.assertTrue(all(why and name for why, name, _ in rows))


class Test262(unittest.TestCase):
    def read(self, front: str) -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "test" / "x.js"
            path.parent.mkdir()
            path.write_text(f"/*---\n{front}---*/\ncode();\n")
            return test262.read_test(path, Path(folder))

    def test_front_matter_is_read_in_both_forms(self):
        test = self.read("description: x\nflags: [onlyStrict, async]\nfeatures:\n  - let\n  - class\nincludes: [a.js]\n"
                         "negative:\n  phase: parse\n  type: SyntaxError\n")
        self.assertEqual((test.flags, test.features, test.includes), ({"onlyStrict", "async"}, {"let", "class"}, ["a.js"]))
        self.assertEqual(test.negative, ("parse", "SyntaxError"))
        self.assertEqual(test.modes(), ["strict"])
        self.assertEqual(self.read("description: x\n").modes(), ["sloppy", "strict"])
        self.assertEqual(self.read("flags: [raw]\n").modes(), ["sloppy"])
        self.assertEqual(self.read("flags: [module]\n").modes(), ["module"])

    def test_what_needs_more_of_a_host_is_skipped_with_its_reason(self):
        self.assertIn("an agent", self.read("flags: [CanBlockIsTrue]\n").reason_to_skip())
        self.assertIn("Temporal", self.read("features: [Temporal]\n").reason_to_skip())
        self.assertEqual(self.read("features: [let]\n").reason_to_skip(), "")

    def judge(self, front: str, what: str, name: str | None, more: str = "") -> str:
        told = json.dumps({"what": what, "name": name, "message": "m"})
        return test262.judge(self.read(front), {"outcome": "ok", "stdout": f"\x02{told}\n{more}"})

    def test_a_test_is_judged_by_what_it_threw(self):
        self.assertEqual(self.judge("", "ran", None), "")
        self.assertIn("Test262Error", self.judge("", "threw", "Test262Error"))
        negative = "negative:\n  phase: parse\n  type: SyntaxError\n"
        self.assertEqual(self.judge(negative, "threw", "SyntaxError"), "")
        self.assertIn("was expected", self.judge(negative, "ran", None))
        self.assertIn("harness", self.judge("", "harness", None))

    def test_what_is_asynchronous_has_to_say_that_it_ended(self):
        self.assertEqual(self.judge("flags: [async]\n", "ran", None, test262.ASYNC_END + "\n"), "")
        self.assertEqual(self.judge("flags: [async]\n", "ran", None), "it never ended")

    def test_a_run_that_ended_otherwise_says_how(self):
        report = {"outcome": "out_of_fuel", "stdout": "", "error": {"code": "out_of_fuel", "message": "m"}}
        self.assertIn("out_of_fuel", test262.judge(self.read(""), report))

    def test_the_judgements_can_be_read(self):
        self.assertTrue(all(name.startswith("test/") and why for name, why in test262.judged().items()))


if __name__ == "__main__":
    unittest.main()
