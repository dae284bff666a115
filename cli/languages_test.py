"""membrane languages: adding, extending, warming and removing them."""

import hashlib
import json
import os
import sys
import unittest
from pathlib import Path

from command_testing import CALCULATOR, CommandTest, ROOT


class Template(CommandTest):
    """Any WASI command that reads code is a language."""

    def setUp(self):
        super().setUp()
        self.environment["MEMBRANE_LANGUAGES"] = str(self.folder / "languages")
        self.environment["XDG_DATA_HOME"] = str(self.folder / "data")
        self.environment["XDG_CACHE_HOME"] = str(self.folder / "cache")
        self.file("calc.wat", CALCULATOR)

    def add(self, *more):
        return self.membrane("languages", "add", "calc", "calc.wat", "--extension", ".calc", *more)

    def listed(self):
        return {each["name"]: each for each in json.loads(self.membrane("languages", "list", "--json").stdout)["languages"]}

    def test_one_that_was_added_runs_from_a_file_a_text_and_in_a_session(self):
        done = self.add("--version", "1.0", "--init", "100", "--env", "A=b", "--arg=-x")
        self.assertIn("membrane languages warm calc", done.stdout)
        self.assertEqual(self.listed()["calc"]["warm_images"], [{"modules": [], "path": None, "bytes": 0}])
        self.file("program.calc", "20+22\n1")
        self.assertEqual(self.membrane("run", "program.calc").stdout, "42 142\n1 143\n")
        self.assertEqual(self.membrane("run", "--lang", "calc", "-e", "1+1").stdout, "2 102\n")
        self.assertEqual(self.membrane("repl", "--lang", "calc", stdin="1\n2\n:fork\n3\n:back\n4\n").stdout,
                         "1 101\n2 103\nfork 1\n3 106\nback at fork 1\n4 107\n")
        report = json.loads(self.membrane("run", "--lang", "calc", "-e", "5", "--json").stdout)
        self.assertEqual((report["outcome"], report["stdout"]), ("ok", "5 105\n"))

    def test_waiting_for_a_writer_of_the_input_ends_by_the_limit(self):
        self.add()
        os.mkfifo(self.folder / "pipe")
        done = self.membrane("run", "--lang", "calc", "-e", "5", "--input", "pipe", "--wall", "1s", code=1)
        self.assertIn("outcome: timed_out", done.stderr)

    def test_an_entry_is_paused_forked_and_continues_in_both(self):
        self.add()
        done = self.membrane("repl", "--lang", "calc",
                             stdin=":pause 10\n1\n8\n:fork\n:pause\n:go\n2\n:back\n:go\n5\n:go\n")
        self.assertEqual(done.stdout, "each entry pauses after 10 fuel\npaused; :go resumes it\npaused; :go resumes it\nfork 1\n"
                                      "entries run to their end\n1 1\n2 3\nback at fork 1\n1 1\n5 6\n")
        self.assertIn("the session's last turn is paused", done.stderr)
        self.assertIn("no entry is paused: :pause 1e6 pauses", done.stderr)

    def test_a_command_with_a_wrong_argument_changes_nothing(self):
        self.add()
        done = self.membrane("repl", "--lang", "calc", stdin=":pause 10\n:pause x\n1\n:pause\n:go\n:go now\n:save\n:save /gone there\n")
        self.assertEqual(done.stdout, "each entry pauses after 10 fuel\npaused; :go resumes it\nentries run to their end\n1 1\n")
        self.assertIn(':pause takes an amount of fuel, as :pause 1e6', done.stderr)
        self.assertIn("no entry is paused", done.stderr)
        self.assertIn("write :save FILE AS", done.stderr)
        self.assertIn("/gone", done.stderr)
        self.assertFalse((self.folder / "there").exists())

    def test_a_session_has_one_language(self):
        self.add()
        self.assert_refused(self.membrane("repl", "calc", "--lang", "python", code=2), "two languages are named: calc, and python by --lang", "Name one")
        self.assertEqual(self.membrane("repl", "calc", "--lang", "calc", stdin="1\n").stdout, "1 1\n")

    def test_a_turn_that_ends_badly_leaves_the_session_as_it_was(self):
        self.add()
        done = self.membrane("repl", "--lang", "calc", "--fuel", "100000", stdin="7\n5l\n1\n")
        self.assertEqual(done.stdout, "7 7\n1 8\n")
        self.assertIn("is as it was before", done.stderr)
        self.assertEqual(self.membrane("run", "--lang", "calc", "--fuel", "1e5", "-e", "l", code=1).stdout, "")

    def test_list_shows_languages_and_warm_makes_the_image(self):
        self.assertIn("membrane languages add", self.membrane("languages", "list").stderr)
        self.add("--version", "1.0")
        self.assertRegex(self.membrane("languages", "list").stdout, r"^calc  1\.0  stdin  \S+/languages/calc  not warm yet\n$")
        warm = json.loads(self.membrane("languages", "warm", "calc", "--json").stdout)
        self.assertEqual((warm["name"], warm["was_warm"]), ("calc", False))
        self.assertTrue(json.loads(self.membrane("languages", "warm", "calc", "--json").stdout)["was_warm"])
        image, = self.listed()["calc"]["warm_images"]
        self.assertEqual(Path(image["path"]).stat().st_size, image["bytes"])
        self.assertRegex(self.membrane("languages", "list").stdout, r"  warm, \d+\.\d MiB\n$")
        self.assertRegex(self.membrane("languages", "warm", "calc").stdout, r"^calc  1\.0  stdin  \S+/languages/calc  warm, \d+\.\d MiB\n$")

    def test_a_language_is_made_of_another_that_has_run_something(self):
        self.add("--version", "1.0", "--init", "100")
        self.membrane("languages", "extend", "more", "calc", "--init", "11")
        self.assertEqual(self.membrane("run", "--lang", "more", "-e", "1").stdout, "1 112\n")
        self.assertEqual(self.membrane("run", "--lang", "calc", "-e", "1").stdout, "1 101\n")
        self.file("program.calc", "1")
        self.assertEqual(self.membrane("run", "program.calc").stdout, "1 101\n", "names stay the first one's")
        self.assertEqual((self.listed()["more"]["version"], self.listed()["more"]["extensions"]), ("1.0", []))
        self.membrane("languages", "remove", "calc")
        self.assertEqual(self.membrane("run", "--lang", "more", "-e", "1").stdout, "1 112\n", "it has files of its own")
        for arguments, cause, fix in ((["x", "none"], "none is not installed", "languages add"),
                                      (["x", "more", "--import", "numpy"], "for Python", "--init"),
                                      (["more", "more"], "already", "remove more")):
            with self.subTest(arguments):
                self.assert_refused(self.membrane("languages", "extend", *arguments, code=2), cause, fix)

    def test_what_is_removed_is_gone_with_its_image(self):
        self.add()
        self.membrane("languages", "warm", "calc")
        removed = json.loads(self.membrane("languages", "remove", "calc", "--json").stdout)
        self.assertEqual(removed, {"name": "calc", "removed_images": 1})
        self.assertEqual(self.listed(), {})
        self.assertEqual(list((self.folder / "cache/membrane/templates").iterdir()), [])
        self.assert_refused(self.membrane("languages", "remove", "calc", code=2), "calc is not installed", "languages list")

    def test_module_and_files_are_copied_and_known_by_their_hashes(self):
        self.file("words.txt", "one")
        (self.folder / "tree/below").mkdir(parents=True)
        self.file("tree/below/two.txt", "two")
        self.add("--file", "/usr/share/words=words.txt", "--directory", "/data=tree")
        for name in ("calc.wat", "words.txt", "tree/below/two.txt"):
            (self.folder / name).unlink()
        self.assertEqual(self.membrane("run", "--lang", "calc", "-e", "1").stdout, "1 1\n")
        language = json.loads((self.folder / "languages/calc/language.json").read_text())
        self.assertEqual([file["guest"] for file in language["files"]], ["/usr/share/words", "/data/below/two.txt"])
        copy = self.folder / "languages/calc" / language["files"][1]["path"]
        self.assertEqual(copy.read_text(), "two")
        self.assertEqual(hashlib.sha256(b"two").hexdigest(), language["files"][1]["sha256"])
        copy.write_text("another")
        self.assert_refused(self.membrane("run", "--lang", "calc", "-e", "1", code=2), "SHA-256", "Install")

    def test_what_cannot_be_a_language_is_refused_and_nothing_is_left(self):
        self.file("library.wat", '(module (func (export "run")))')
        self.file("broken.wasm", b"\0asm\1\0\0\0\7")
        (self.folder / "links").mkdir()
        (self.folder / "links/link").symlink_to("/etc/passwd")
        for arguments, cause, fix in (
                (["calc", "gone.wasm"], "gone.wasm", "path"),
                (["calc", "library.wat"], "_start", "WASI command"),
                (["calc", "broken.wasm"], "broken.wasm", "WebAssembly"),
                (["Calc!", "calc.wat"], "Calc!", "a-z"),
                (["../calc", "calc.wat"], "../calc", "a-z"),
                (["wat", "calc.wat"], "wat", "engine"),
                (["calc", "calc.wat", "--driver", "none"], "none", "stdin"),
                (["calc", "calc.wat", "--frame", "none"], "none", "length"),
                (["calc", "calc.wat", "--env", "none"], "none", "NAME=VALUE"),
                (["calc", "calc.wat", "--file", "/a=none"], "none", "path"),
                (["calc", "calc.wat", "--file", "a=calc.wat"], "a is not a valid path", "absolute"),
                (["calc", "calc.wat", "--file", "/b/../../a=calc.wat"], "/a is not a valid path", "absolute"),
                (["calc", "calc.wat", "--directory", "/a=none"], "none", "path"),
                (["calc", "calc.wat", "--directory", "/a=links"], "link", "copy"),
                (["calc", "calc.wat", "--frame", "door", "--init", "1"], "init", "languages.md")):
            with self.subTest(arguments):
                self.assert_refused(self.membrane("languages", "add", *arguments, code=2), cause, fix)
        self.assertEqual(list((self.folder / "languages").glob("*")), [])
        self.add()
        self.assert_refused(self.membrane("languages", "add", "calc", "calc.wat", code=2), "already", "remove calc")

    def test_a_program_that_does_not_wait_for_code_is_reported_at_its_first_use(self):
        self.file("ends.wat", '(module (func (export "_start")))')
        self.membrane("languages", "add", "ends", "ends.wat")
        self.assert_refused(self.membrane("run", "--lang", "ends", "-e", "1", code=2), "could not be started", "--frame eof")

    def test_arguments_for_a_program_that_has_none_are_refused(self):
        self.add()
        self.file("program.calc", "1")
        done = self.membrane("run", "program.calc", "one", code=2)
        self.assertIn("has no arguments", done.stderr)


class AddedLanguages(CommandTest):
    """Languages of examples/languages, if their modules exist."""

    def setUp(self):
        super().setUp()
        self.environment["MEMBRANE_LANGUAGES"] = str(self.folder / "languages")
        self.environment["XDG_CACHE_HOME"] = str(self.folder / "cache")

    def module(self, variable, how):
        path = os.environ.get(variable)
        if not path:
            self.skipTest(f"{variable} names no module: {how} makes it")
        return Path(path).resolve()

    def reports(self, language, *entries):
        done = self.membrane("repl", "--lang", language, "--json", stdin="".join(entry + "\n" for entry in entries))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_ruby(self):
        module = self.module("MEMBRANE_RUBY", "examples/languages/ruby/get")
        self.membrane("languages", "add", "ruby", module, "--frame", "door", "--extension", ".rb",
                      "--file", f"/driver.rb={ROOT / 'examples/languages/ruby/driver.rb'}", "--arg", "/driver.rb")
        first, second, wrong, denied, ended, again = self.reports(
            "ruby", "x = 20; puts :said", "x + 22", "raise ArgumentError, 'no'",
            "Membrane.call('http.get', 'https://example.org/')", "x = 1; exit 3", "x")
        self.assertEqual((first["stdout"], second["result"]), ("said\n", "42"))
        self.assertEqual((wrong["outcome"], wrong["error"]["code"]), ("raised", "ArgumentError"))
        self.assertIn("<cell 3>:1", wrong["error"]["traceback"])
        self.assertNotIn("driver.rb", wrong["error"]["traceback"])
        self.assertEqual(denied["outcome"], "denied")
        self.assertEqual((ended["exit_code"], again["result"]), (3, "1"))
        done = self.membrane("repl", "--lang", "ruby", stdin="def f(n)\n  n + 1\nend\nf(1)\ndef g\n\n")
        self.assertEqual(done.stdout, ":f\n2\n")
        self.assertIn("incomplete", done.stderr)
        script = self.file("script.rb", "puts ARGV.inspect, $stdin.gets")
        self.file("input", "a line\n")
        self.assertEqual(self.membrane("run", script, "one", "--input", "input").stdout, '["one"]\na line\n')

    def test_sqlite(self):
        module = self.module("MEMBRANE_SQLITE", "examples/languages/sqlite/build")
        self.membrane("languages", "add", "sqlite", module, "--arg=-batch", "--extension", ".sql")
        done = self.membrane("repl", "--lang", "sqlite", stdin="create table t(a); insert into t values (1), (2);\n"
                             ":fork\ndelete from t;\nselect count(*) from t;\n:back\nselect\n sum(a) from t;\n")
        self.assertEqual(done.stdout, "fork 1\n0\nback at fork 1\n3\n")
        query = self.file("query.sql", "select 40 + 2;")
        self.assertEqual(self.membrane("run", query).stdout, "42\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
