"""The tests of run-corpus: which programs it finds, what it passes to them, and how it judges their
output."""

import contextlib
import io
import sys
import unittest

from support import load, project

corpus_tool = load("run-corpus")

# Stands in for membrane: prints its arguments, its input, and the files that it finds.
COMMAND = r"""
import os, sys
words = sys.argv[1:]
print(words[:2], "--allow" in words, words[words.index("--") + 1:])
print(open(words[words.index("--input") + 1]).read() if "--input" in words else "no input")
print(sorted(os.listdir(".")), open("data/x.txt").read())
"""
FILES = {
    "programs.toml": '[python.text]\na = { data = true, arguments = ["-v"], input = "hello" }\n[wat.numbers]\nb = {}\n',
    "judged.txt": "# A comment\n[ours]\npython/a  prints too much\n",
    "python/a.py": "print(1)\n", "wat/b.wat": "(func $main)\n", "data/x.txt": "x",
}


def printed(what, *arguments) -> tuple[object, str]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        return what(*arguments), out.getvalue()


class Corpus(unittest.TestCase):
    def test_a_program_has_its_kind_and_what_it_is_given(self):
        with project(FILES) as root:
            programs, problems = corpus_tool.read_corpus(root)
        self.assertEqual([p.full_name for p in programs], ["python/a", "wat/b"])
        self.assertEqual(problems, [])
        self.assertEqual((programs[0].kind, programs[0].arguments, programs[1].input), ("text", ["-v"], ""))
        self.assertEqual(programs[0].grants(), ["fs:read:./data"])
        self.assertEqual(corpus_tool.wanted(programs, ["python/*"]), programs[:1])

    def test_what_does_not_fit_is_a_problem(self):
        table = '[python.text]\na = { inputs = "x" }\ngone = {}\n'
        with project(FILES | {"programs.toml": table, "javascript/c.ts": ""}) as root:
            _, problems = corpus_tool.read_corpus(root)
        text = "\n".join(problems)
        for part in ("a: unknown field inputs", "gone has no file", "c.ts is not in", "b.wat is not in"):
            self.assertIn(part, text)

    def test_a_program_runs_beside_a_copy_of_the_data_with_grants_and_no_limits(self):
        with project(FILES | {"command.py": COMMAND}) as root:
            programs, _ = corpus_tool.read_corpus(root)
            programs[0].allow.append("fs:write:./out")
            (root / "python" / "a.out").write_text("['run', 'a.py'] True ['-v']\nhello\n['a.py', 'data', 'out'] x\n")
            outcome = corpus_tool.run_program([sys.executable, str(root / "command.py")], root, programs[0])
            left = sorted(path.name for path in root.iterdir())
        self.assertEqual((outcome.detail, outcome.outcome), ([], "passed"))
        self.assertNotIn("out", left)

    def test_an_output_that_is_missing_is_a_failure(self):
        with project(FILES) as root:
            programs, _ = corpus_tool.read_corpus(root)
            outcome = corpus_tool.run_program(["true"], root, programs[1])
        self.assertEqual(outcome.outcome, "failed")
        self.assertIn("--expect", outcome.detail[0])

    def test_no_argument_is_a_limit(self):
        programs, problems = corpus_tool.read_corpus(corpus_tool.CORPUS)
        self.assertEqual(problems, [])
        options = set()
        for program in programs:
            words = corpus_tool.membrane_arguments(program)
            options |= {word for word in words[:words.index("--")] if word.startswith("-")}
        self.assertEqual(options, {"--quiet", "--allow", "--input"})

    def test_every_program_has_an_expected_output(self):
        programs, _ = corpus_tool.read_corpus(corpus_tool.CORPUS)
        self.assertEqual([p.full_name for p in programs if not p.path.with_suffix(".out").is_file()], [])

    def test_the_first_differences_are_shown(self):
        told = corpus_tool.judge(0, "1\n2\n", "", "1\n3\n", False)
        self.assertEqual(told, ["the output differs", "-3", "+2"])
        many = "".join(f"{n}\n" for n in range(50))
        told = corpus_tool.judge(0, "", "", many, False)
        self.assertEqual((len(told), told[-1]), (corpus_tool.SHOWN_LINES + 1, "… and 45 lines more"))
        self.assertEqual(len(corpus_tool.judge(0, "", "", many, True)), 51)
        self.assertEqual(corpus_tool.judge(0, "1", "", "1\n", False), ["the output differs", "only line ends differ"])

    def test_a_failure_says_why_the_program_ended(self):
        report = "Traceback:\n  f()\nValueError: bad\noutcome: exit\ncall: fs.open /data -> OK\nfuel: 1, memory: 2\n"
        self.assertEqual(corpus_tool.judge(1, "", report, "", False), ["exit code 1: ValueError: bad"])
        fuel = "outcome: out_of_fuel\nerror[out_of_fuel]: the program used up its fuel\n  hint: give it more\nfuel: 9\n"
        self.assertIn("used up its fuel", corpus_tool.why_it_ended(fuel))

    def test_a_known_failure_is_no_failure_of_the_run_and_one_that_passes_is_named(self):
        with project(FILES) as root:
            programs, _ = corpus_tool.read_corpus(root)
            rows = corpus_tool.read_judged(root)
        self.assertEqual(rows, {"python/a": ("ours", "prints too much")})
        failed = [corpus_tool.Outcome("python/a", "failed", 0, ["exit code 1"]), corpus_tool.Outcome("wat/b", "passed")]
        code, text = printed(corpus_tool.report, programs, failed, rows, [])
        self.assertEqual(code, 0)
        self.assertIn("failed, as is known: ours: 1", text)
        self.assertTrue(text.endswith("1 passed, 0 failed, 0 skipped\n"))
        code, text = printed(corpus_tool.report, programs, failed, {}, [])
        self.assertEqual(code, 1)
        self.assertIn("FAILED: python/a: exit code 1", text)
        passed = [corpus_tool.Outcome("python/a", "passed"), corpus_tool.Outcome("wat/b", "skipped")]
        code, text = printed(corpus_tool.report, programs, passed, rows, [])
        self.assertEqual(code, 0)
        self.assertIn("passes again: python/a", text)
        self.assertTrue(text.endswith("1 passed, 0 failed, 1 skipped\n"))

    def test_every_judgement_is_of_a_program_and_has_a_reason(self):
        programs, _ = corpus_tool.read_corpus(corpus_tool.CORPUS)
        names = {program.full_name for program in programs}
        for name, (whose, why) in corpus_tool.read_judged(corpus_tool.CORPUS).items():
            self.assertIn(name, names)
            self.assertTrue(whose and why, name)

    def test_expected_outputs_are_written_by_the_commands_that_are_named(self):
        with project(FILES) as root:
            programs, _ = corpus_tool.read_corpus(root)
            code, text = printed(corpus_tool.expect_all, root, programs, {".py": [sys.executable]}, 1)
            written = (root / "python" / "a.out").read_text()
        self.assertEqual((code, written), (0, "1\n"))
        self.assertTrue(text.endswith("1 passed, 0 failed, 1 skipped\n"))

    def test_a_language_that_the_command_lacks_is_skipped_with_its_reason(self):
        with project(FILES | {"c.py": "import sys; print('membrane: no python here', file=sys.stderr)"}) as root:
            programs, _ = corpus_tool.read_corpus(root)
            command = [sys.executable, str(root / "c.py")]
            outcomes, text = printed(corpus_tool.run_all, command, root, programs, 1, False)
        self.assertEqual([outcome.outcome for outcome in outcomes], ["skipped", "skipped"])
        self.assertIn("SKIPPED: programs in python: membrane: no python here", text)


if __name__ == "__main__":
    unittest.main()
