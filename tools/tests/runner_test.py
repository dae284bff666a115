import contextlib
import io
import sys
import unittest

from support import load, project

runner = load("test")
JUNIT = """<testsuite>
<testcase name="good" status="run"/>
<testcase name="bad" status="fail"><failure message=""/></testcase>
<testcase name="lazy" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
<testcase name="off" status="disabled"/>
</testsuite>"""


def closing_line(script: str):
    with contextlib.redirect_stdout(io.StringIO()):
        return runner.closing_line("stage", [sys.executable, "-c", script])


def report(**outcomes) -> tuple[int, list[str]]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = runner.report(outcomes)
    return code, out.getvalue().splitlines()


class Runner(unittest.TestCase):
    def test_counts_come_from_the_junit_file(self):
        with project({"junit.xml": JUNIT}) as root:
            outcome = runner.read_junit(root / "junit.xml")
        self.assertEqual((outcome.passed, outcome.failed, outcome.skipped), (1, 1, 2))
        self.assertEqual(outcome.names_failed, ["bad"])
        self.assertEqual(outcome.names_skipped, ["lazy", "off"])

    def test_counts_come_from_a_closing_line(self):
        outcome = closing_line("print('1 passed, 0 failed, 0 skipped\\nSKIPPED: x\\n7 passed, 0 failed, 1 skipped')")
        self.assertEqual((outcome.passed, outcome.failed, outcome.skipped), (7, 0, 1))
        self.assertEqual(outcome.names_skipped, ["x"])

    def test_the_official_scripts_are_named_by_file(self):
        outcome = closing_line("""print('ok    a.wast: 4 passed\\n'
                                        'FAIL  c.wast: 0 passed, 1 failed\\n4 passed, 1 failed, 0 skipped')""")
        self.assertEqual((outcome.passed, outcome.failed, outcome.skipped), (4, 1, 0))
        self.assertEqual(outcome.names_failed, ["c.wast: 0 passed, 1 failed"])

    def test_a_bad_exit_code_is_a_failure_whatever_the_line_says(self):
        self.assertEqual(closing_line("print('7 passed, 0 failed, 0 skipped'); exit(1)").failed, 1)

    def test_no_closing_line_is_a_failure(self):
        self.assertEqual(closing_line("print('fine')").failed, 1)

    def test_the_report_sums_names_what_was_skipped_and_closes_with_the_counts(self):
        code, lines = report(a=runner.Outcome(passed=2), b=runner.Outcome(passed=1, skipped=1, names_skipped=["x"]))
        self.assertEqual(code, 0)
        self.assertIn("skipped: b: x", lines)
        self.assertEqual(lines[-1], "3 passed, 0 failed, 1 skipped")

    def test_every_stage_is_in_one_group_or_has_to_be_named(self):
        self.assertEqual(runner.stages_of([]), ["release", "spectest", "wasi-testsuite", "corpus", "archive", "format"])
        self.assertEqual(runner.stages_of(["test-all"]), ["asan-ubsan", "fuzz", "tsan"])
        self.assertEqual(runner.stages_of(["fuzz", "test"]), ["fuzz", "release", "spectest", "wasi-testsuite", "corpus", "archive",
                                                             "format"])
        in_groups = [stage for group in runner.GROUPS.values() for stage in group]
        self.assertEqual(len(in_groups), len(set(in_groups)))
        self.assertFalse(set(in_groups) & set(runner.STAGES_TO_BE_NAMED))

    def test_progress_and_failures_are_reported(self):
        progress = runner.Progress("testing", runner.CTEST_STEP)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertTrue(progress.takes("   1/12 Test  #3: a.B ........   Passed    0.01 sec"))
            progress.next = 0
            self.assertTrue(progress.takes("  11/12 Test  #4: a.C ........***Skipped   0.01 sec"))
            self.assertFalse(progress.takes("  12/12 Test  #5: a.D ........***Failed    0.01 sec"))
        self.assertRegex(out.getvalue(), r"^\[\d+:\d\d\] testing: 11 of 12\n$")
        self.assertTrue(runner.Progress("building", runner.NINJA_STEP).takes("[1/119] Building CXX object x.o"))

    def test_the_stages_of_aarch64_run_only_when_they_are_named(self):
        self.assertFalse(set(runner.STAGES) & set(runner.STAGES_TO_BE_NAMED))
        self.assertIn("engine_test", runner.test_programs())
        self.assertEqual(runner.emulated("membrane", "run")[-2:], ["build/aarch64/membrane", "run"])

    def test_the_report_fails_with_a_failure_and_with_nothing_run(self):
        self.assertEqual(report(a=runner.failure("x"))[0], 1)
        self.assertEqual(report(a=runner.Outcome())[0], 1)


if __name__ == "__main__":
    unittest.main()
