"""Attempts to exceed the output limit: through values, displays, the names of their types, errors and
tracebacks, files, answers, results of exports, and forged results of turns."""

import json
import unittest

from attack import MIB, Attack

LIMIT = 1024
# A report's own parts: names of fields, the account, the allowance of errors, the records of host calls.
ALLOWANCE = 8192


class OutputAttack(Attack):
    def assert_small(self, *arguments, codes=(0, 1, 2), limit=LIMIT, languages=("json", "text"), says=True):
        """Runs the same with and without --json: neither outputs more than the limit and what a report
        needs itself."""
        for form in languages:
            done = self.membrane("run", *arguments, "--output", f"{limit}B", *(["--json"] if form == "json" else []),
                                 codes=codes)
            # In JSON one byte may become six.
            size = len(done.stdout) + len(done.stderr)
            self.assertLessEqual(size, limit * (6 if form == "json" else 2) + ALLOWANCE, str(done))
            if form == "json":
                report = json.loads(done.stdout)
                told = sum(len(part) for part in strings_of(report.get("value", {}))) + sum(
                    len(part) for part in strings_of(report.get("displays", [])))
                told += len(report["stdout"].encode()) + len(report["stderr"].encode()) + len(report.get("answer", ""))
                self.assertLessEqual(told, limit, str(done))
                if says:
                    self.assertTrue(report.get("output_bytes_cut", 0) > 0 or report["outcome"] == "out_of_output",
                                    str(done))
        return done

    def wat(self, text, *arguments, **options):
        return self.assert_small(self.file("x.wat", text), *arguments, **options)

    def python(self, text, **options):
        self.need("python")
        return self.assert_small(self.file("x.py", text), **options)

    def cell(self, language, text, **options):
        self.need(language)
        return self.assert_small("--lang", language, "-e", text, "--fuel", "1e10", "--memory", "1GiB", **options)

    def forged(self, result, **options):
        """A turn whose result is this Python expression."""
        return self.cell("python", "import json, membrane._session as s\n"
                                   f"forged = json.dumps({{'session': 'result', **({result})}}).encode()\n"
                                   "s._encode_result = lambda result: forged\n", **options)

    # -- WAT

    def test_stdout_beyond_the_limit(self):
        self.wat('(func (export "run") (while 1 (call $io.print (string "0123456789abcdef"))))')

    def test_stderr_beside_stdout(self):
        self.wat('(func (export "run") (while 1 (call $io.print (string "0123456789"))'
                 ' (call $io.eprint (string "0123456789"))))')

    def test_a_result_beside_stdout(self):
        text = "r" * 5000
        self.wat(f'(func (export "run") (call $io.print (string "{"p" * 1000}")) (call $io.result (string "{text}")))')

    def test_an_answer(self):
        self.wat(f'(func (export "run") (call $agent.submit (string "{"a" * 5000}")))')

    def test_a_thousand_results_of_an_export(self):
        self.wat('(module (func (export "run") (result' + " i64" * 1000 + ")" +
                 "(i64.const -9223372036854775808)" * 1000 + "))")

    def test_the_names_in_a_backtrace(self):
        name = "n" * 20_000
        self.wat(f'(module (func ${name} (export "run") (param) (call $inner)) (func $inner (call $deeper{name}))'
                 f' (func $deeper{name} unreachable))', says=False)

    def test_the_names_of_exports_that_are_not_the_entry(self):
        exports = "".join(f'(func (export "{"e" * 500}{i}"))' for i in range(100))
        self.wat(f"(module {exports})")

    def test_the_message_of_a_checked_call(self):
        self.wat('(module (import "membrane" "fail" (func $fail (param i32 i32 i32))) (memory (export "memory") 16)'
                 ' (func (export "run") (i32.store (i32.const 0) (i32.const 1000000))'
                 ' (memory.fill (i32.const 4) (i32.const 65) (i32.const 1000000))'
                 ' (call $fail (i32.const 5) (i32.const 0) (i32.const 1))))')

    def test_findings_about_long_names(self):
        self.wat("(module " + "".join(f"(func (call ${'n' * 20_000}{i}))" for i in range(40)) + ")", says=False,
                 limit=16384)

    def test_imports_that_nobody_provides(self):
        self.wat("(module " + "".join(f'(import "{"m" * 3000}" "f{i}" (func))' for i in range(300)) + ")", says=False,
                 limit=16384)

    # -- languages

    def test_a_long_value(self):
        done = self.cell("python", "'x' * 15_003")
        self.assertLess(done.stdout.count(b"x"), 2048)

    def test_many_displays(self):
        self.python("from membrane import display\nfor i in range(900): display('d' * 1000)\n")

    def test_displays_of_nothing(self):
        self.forged("{'displays': [{} for _ in range(1000)]}", says=False)

    def test_the_names_of_types(self):
        self.python("from membrane import display\nclass D:\n  def _repr_mimebundle_(self, **k):\n"
                    "    return {'image/' + 'm' * 100_000: 'x'}\ndisplay(D())\n", says=False)

    def test_an_image(self):
        self.python("from membrane import display\nclass D:\n  def _repr_png_(self): return b'\\x89PNG' * 100_000\n"
                    "  def __repr__(self): return 'image'\ndisplay(D())\n")

    def test_a_long_message(self):
        self.python("raise ValueError('m' * 500_000)")

    def test_a_long_traceback(self):
        self.python("def f(n):\n  try: f(n - 1) if n else 1 / 0\n"
                    "  except Exception as e: raise ValueError('t' * 1000) from e\nf(100)\n")

    def test_a_long_name_of_an_exception(self):
        self.python("raise type('E' * 100_000, (Exception,), {})('m')")

    def test_thousands_of_files(self):
        self.python("for i in range(2000): open('/tmp/' + 'f' * 200 + str(i), 'w').close()\n")

    def test_an_answer_of_python(self):
        self.python("import membrane\nmembrane.agent.submit('a' * 100_000)\n")

    def test_a_forged_value(self):
        self.forged("{'value': {'text/plain': 'v' * 50_000_000}}", limit=10240)

    def test_forged_displays(self):
        self.forged("{'displays': [{'text/plain': 'd' * 50_000} for _ in range(1000)]}", limit=10240)

    def test_a_forged_traceback(self):
        self.forged("{'outcome': 'error', 'error': {'type': 't' * 5_000_000, 'message': 'm' * 5_000_000,"
                    " 'traceback': 'b' * 5_000_000}}", limit=10240)

    def test_forged_types(self):
        self.forged("{'value': {'t' * 5_000_000: 1}, 'displays': [{'u' * 5_000_000: 2}]}", limit=10240)

    def test_a_forged_value_that_is_deep(self):
        self.forged("{'value': {'application/json': [[[['j' * 100_000]]]]}}")

    def test_a_long_value_of_javascript(self):
        self.cell("js", "'x'.repeat(100_000)")

    def test_a_long_error_of_javascript(self):
        self.cell("js", "throw new Error('m'.repeat(1_000_000))")

    def test_what_javascript_prints(self):
        self.cell("js", "for (;;) console.log('0123456789')")

    def test_an_observation_for_a_model(self):
        code = '(func (export "main") (while 1 (call $io.print (string "0123456789"))))'
        answers = (json.dumps({"content": f"```wat\n{code}\n```"}) + "\n" + json.dumps({"content": "ANSWER: x"}) + "\n")
        done = self.membrane("agent", "task", "--language", "wat", "--model-file", self.file("a.jsonl", answers),
                             "--transcript", "t.jsonl", "--output", "1KiB")
        transcript = (self.folder / "t.jsonl").read_bytes()
        self.assertLess(len(transcript) + len(done.stdout), 4 * LIMIT + 2 * ALLOWANCE)
        self.assert_memory(done, 64 * MIB)


def strings_of(value):
    """The texts of a JSON value, as bytes, with the names of its members."""
    todo, found = [value], []
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            found.append(item.encode())
        elif isinstance(item, dict):
            todo.extend(item.values())
            found.extend(name.encode() for name in item if name not in ("base64", "text/plain"))
        elif isinstance(item, list):
            todo.extend(item)
    return found


if __name__ == "__main__":
    unittest.main()
