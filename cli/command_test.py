"""The command as a person runs it: real processes, real files, real sockets.

MEMBRANE_COMMAND and MEMBRANE_MODEL_SERVER name the two programs (build/release of these sources otherwise).
"""

import functools
import hashlib
import http.server
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = os.environ.get("MEMBRANE_COMMAND", str(ROOT / "build" / "release" / "membrane"))
MODEL_SERVER = os.environ.get("MEMBRANE_MODEL_SERVER", str(ROOT / "build" / "release" / "model_server"))
COMMANDS = [[], ["run"], ["thaw"], ["check"], ["agent"], ["mcp"], ["policy"], ["policy", "explain"], ["policy", "test"],
            ["verify"], ["replay"], ["keys"], ["keys", "generate"], ["keys", "rotate"], ["keys", "revoke"], ["keys", "list"],
            ["keys", "publish"], ["capabilities"], ["doctor"], ["spectest"],
            ["languages"], ["languages", "list"], ["languages", "add"], ["languages", "extend"], ["languages", "remove"], ["languages", "warm"], ["repl"], ["completion"], ["man"]]
SECONDS = 600  # a process that needs more hangs
ZSH_SETUP = r"""
PROMPT=''
autoload -Uz compinit
fpath=($PWD/functions $fpath)
compinit -u -D
bindkey '^I' complete-word
mark() { print -n '\0' }
compprefuncs=(mark)
comppostfuncs=(mark exit)
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -A hits "$@"
  builtin compadd "$@"
  local code=$?
  (( $#hits )) && print -l -- $hits
  return code
}
print -n '\0'
"""

ADD = '(func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))'
SEVEN = '(func (export "main") (result i32) (i32.const 7))'
ENDLESS = '(func (export "run") (call $io.println (string "begun")) (loop (br 0)))'
# (module (func (export "f") (result i32) (i32.const 42)))
BINARY = bytes.fromhex("0061736d010000000105016000017f030201000705010166000 00a06010400412a0b".replace(" ", ""))


def large_binary():
    """A hundred functions of type () -> i32, each 2000 additions of 1 to 0; the last is exported as "f"."""
    def number(value):
        low = value & 0x7F
        return bytes([low | 0x80]) + number(value >> 7) if value > 0x7F else bytes([low])

    def section(number_of_it, content):
        return bytes([number_of_it]) + number(len(content)) + content

    body = b"\0" + b"\x41\0" + b"\x41\1\x6a" * 2000 + b"\x0b"
    return (b"\0asm\1\0\0\0" + section(1, b"\1\x60\0\1\x7f") + section(3, number(100) + b"\0" * 100) +
            section(7, b"\1\1f\0" + number(99)) + section(10, number(100) + (number(len(body)) + body) * 100))


class CommandTest(unittest.TestCase):
    """A directory of its own, and an environment in which nothing is configured."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMBRANE_")}
        self.environment["XDG_STATE_HOME"] = str(self.folder / "state")
        self.environment["XDG_DATA_HOME"] = str(self.folder / "data")  # no language is installed there

    def membrane(self, *arguments, stdin="", code=0, **environment):
        """The command's output; the test fails when its exit code differs."""
        done = subprocess.run([COMMAND, *map(str, arguments)], input=stdin, cwd=self.folder, capture_output=True,
                              text=True, env={**self.environment, **environment}, timeout=SECONDS)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def assert_refused(self, done, cause, fix):
        """Checks that standard output is empty, and that standard error says what is wrong and what to
        do."""
        self.assertEqual(done.stdout, "")
        self.assertIn(cause, done.stderr)
        self.assertIn("hint: ", done.stderr)
        self.assertIn(fix, done.stderr)


class Usage(CommandTest):
    def test_every_help_has_an_example(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                done = self.membrane(*command, "--help")
                self.assertRegex(done.stdout, r"Examples?:\n(  .*\n)*  membrane " + " ".join(command))
                self.assertEqual(done.stderr, "")

    def test_every_option_that_an_example_shows_exists(self):
        for command in COMMANDS:
            text = self.membrane(*command, "--help").stdout
            for line in re.findall(r"^  membrane (.*)$", text, re.M):
                shown = re.match(r"((policy|languages|completion) )?\w+", line).group().split()
                options = self.membrane(*shown, "--help").stdout
                for option in re.findall(r"(?<= )--?[a-z][a-z-]*", line):
                    self.assertRegex(options, rf"{option}\b", line)

    def test_the_version_is_a_number(self):
        self.assertRegex(self.membrane("--version").stdout, r"^membrane \d+\.\d+\.\d+\n$")

    def test_an_unknown_option_is_named_with_the_nearest(self):
        self.assert_refused(self.membrane("run", "x.wat", "--fule", "3", code=2), "unknown option --fule",
                            "Did you mean --fuel?")
        self.assert_refused(self.membrane("check", "--jsn", code=2), "unknown option --jsn", "--json")
        self.assert_refused(self.membrane("repl", "--fuel", code=2), "--fuel needs a value: N", "--help")
        for command in COMMANDS:
            self.assert_refused(self.membrane(*command, "--never-heard-of=1", code=2),
                                "unknown option --never-heard-of", "--help")

    def test_an_unknown_command_is_named_with_the_nearest(self):
        self.assert_refused(self.membrane("chekc", code=2), "unknown command chekc", "Did you mean check?")
        self.assert_refused(self.membrane("policy", "explan", code=2), "unknown command explan", "Did you mean explain?")

    def completed(self, shell, *words):
        script = self.file("completion", self.membrane("completion", shell).stdout)
        if shell == "zsh":
            return self.completed_by_zsh(script, " ".join(words))
        line = {"bash": f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _membrane; "
                        'printf "%s\n" "${COMPREPLY[@]}"',
                "fish": f"source {script}; complete -C '{' '.join(words)}'"}[shell]
        done = subprocess.run([shell, "-c", line], cwd=self.folder, capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [each.split("\t")[0] for each in done.stdout.splitlines()]

    def completed_by_zsh(self, script, line):
        """zsh completes only on a terminal: this presses the tab key on one; the arguments of compadd come
        between two NULs."""
        functions = self.folder / "functions"
        functions.mkdir(exist_ok=True)
        shutil.copy(self.folder / script, functions / "_membrane")
        setup = self.file("setup", ZSH_SETUP)
        terminal, other_end = pty.openpty()
        shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=other_end, stdout=other_end, stderr=other_end, cwd=self.folder,
                                 env={**self.environment, "TERM": "dumb"}, start_new_session=True)
        os.close(other_end)
        try:
            os.write(terminal, f"source ./{setup}\n".encode())
            self.read_until_nuls(terminal, 1)
            os.write(terminal, line.encode() + b"\t")
            return self.read_until_nuls(terminal, 2).split(b"\0")[1].decode().split()
        finally:
            self.end(shell)
            os.close(terminal)

    def read_until_nuls(self, terminal, count):
        text = b""
        while text.count(b"\0") < count:
            self.assertTrue(select.select([terminal], [], [], SECONDS)[0], text)
            text += os.read(terminal, 4096)
        return text

    def test_shells_complete_commands_options_and_files(self):
        self.file("program.wat", SEVEN)
        for shell in "bash", "zsh", "fish":
            if shutil.which(shell) is None:
                print(f"there is no {shell} here: its completion is not tried")
                continue
            with self.subTest(shell=shell):
                self.assertEqual(self.completed(shell, "membrane", "la"), ["languages"])
                self.assertEqual(self.completed(shell, "membrane", "languages", "ad"), ["add"])
                self.assertEqual(self.completed(shell, "membrane", "run", "--fu"), ["--fuel"])
                self.assertIn("--warm", self.completed(shell, "membrane", "languages", "add", "--wa"))
                self.assertEqual(self.completed(shell, "membrane", "run", "prog"), ["program.wat"])

    def test_the_manual_has_every_command_and_option(self):
        page = self.membrane("man").stdout.replace("\\-", "-")
        for command in COMMANDS[1:]:
            self.assertIn(f".SH membrane {' '.join(command)}\n", page)
        self.assertRegex(page, r"(?m)^\.B --fuel N$")
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-k", "-Kutf8", "-man", "-Tutf8", "-ww"], input=self.membrane("man").stdout, capture_output=True,
                                  text=True, timeout=SECONDS)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_no_command_is_an_error(self):
        self.assert_refused(self.membrane(code=2), "no command was given; there are run, thaw, ", "membrane --help")
        self.assert_refused(self.membrane("policy", code=2), "no command was given; there are explain, test", "policy --help")

    def test_the_probable_meaning_is_suggested(self):
        for arguments, meant in ((["help"], "membrane COMMAND --help"), (["x.wat"], "membrane run x.wat"),
                                 (["x.wasm"], "membrane run x.wasm"), (["agent", "two", "words"], "quotes"),
                                 (["policy", "p.toml"], "membrane policy explain p.toml")):
            self.assert_refused(self.membrane(*arguments, code=2), arguments[-1], meant)

    def test_every_limit_of_a_policy_is_a_flag(self):
        help_text = self.membrane("run", "--help").stdout
        for limit in json.loads(self.membrane("policy", "explain", "--json").stdout)["limits"]:
            self.assertRegex(help_text, rf"  --{limit.replace('_', '-')} ")
        deep = '(func $f (export "run") (param i32) (call $f (local.get 0)))'
        self.assertIn("call_depth", json.dumps(json.loads(self.membrane(
            "policy", "explain", "--call-depth", "7", "--module", "9KiB", "--table-elements", "0", "--json").stdout)))
        self.membrane("run", "-e", deep, "1", "--call-depth", "7", code=1)
        self.assertIn("bytes", self.membrane("run", self.file("deep.wat", deep), "--module", "8B", code=2).stderr)

    def test_an_option_that_is_a_variable_names_it(self):
        for option, variable in (("--model", "MEMBRANE_MODEL"), ("--base-url", "MEMBRANE_BASE_URL"),
                                 ("--api-key", "MEMBRANE_API_KEY")):
            self.assert_refused(self.membrane("agent", "task", option, "x", code=2), f"unknown option {option}",
                                f"{variable}=")

    def test_with_json_a_refused_request_is_one_object(self):
        seven = self.file("seven.wat", SEVEN)
        self.file("typo.toml", "[limits]\nfule = 3\n")
        for command, code in (
                (["run", "gone.wat"], "not_found"), (["run"], "invalid_argument"),
                (["run", seven, "--fule", "3"], "invalid_argument"),
                (["run", seven, "--fuel", "much"], "invalid_argument"),
                (["run", seven, "--policy", "typo.toml"], "invalid_input"),
                (["run", seven, "--allow", "everything"], "invalid_argument"),
                (["run", seven, "--input", "gone.txt"], "not_found"),
                (["run", seven, "--allow", "fs:read:./gone"], "not_found"),
                (["check", "gone.wat"], "not_found"), (["check"], "invalid_argument"),
                (["check", seven, "--expnd"], "invalid_argument"),
                (["agent", "task"], "not_found"), (["agent", "task", "--max-steps", "0"], "invalid_argument"),
                (["policy", "explain", "typo.toml"], "invalid_input"),
                (["policy", "explain", "--no"], "invalid_argument"),
                (["capabilities", "htp"], "not_found"), (["capabilities", "--no"], "invalid_argument")):
            with self.subTest(command=command):
                done = self.membrane(*command, "--json", code=2)
                self.assertEqual((done.stdout.count("\n"), done.stderr), (1, ""))
                answer = json.loads(done.stdout)
                self.assertEqual((answer["outcome"], answer["error"]["code"]), ("invalid", code))
                self.assertTrue(answer["error"]["message"])
                self.assertTrue(answer["error"]["hint"])
                if command[0] == "run":
                    required = json.loads((ROOT / "docs" / "report.schema.json").read_text())["required"]
                    self.assertLessEqual(set(required), set(answer))
                else:
                    self.assertEqual(list(answer), ["outcome", "error"])
        self.assertEqual(self.membrane("run", "gone.wat", "--", "--json", code=2).stdout, "")

    def test_what_must_be_given_is_named(self):
        self.assert_refused(self.membrane("check", code=2), "file is required", "membrane check --help")
        self.assert_refused(self.membrane("run", code=2), "no program", "-e")
        self.assert_refused(self.membrane("run", "-e", SEVEN, "--invoke", "", code=2), "--invoke names no function",
                            "remove --invoke")

    def test_a_number_out_of_range_is_refused(self):
        self.assert_refused(self.membrane("agent", "task", "--max-steps", "0", code=2), "--max-steps", "--help")

    def test_what_is_not_a_terminal_gets_no_colours(self):
        bad = self.file("bad.wat", '(func (export "run") (unreachable))')
        answers = self.file("answers.jsonl", '{"content": "ANSWER: x"}\n')
        for done in (self.membrane("run", bad, code=1), self.membrane("agent", "t", "--model-file", answers),
                     self.membrane("run", "-e", SEVEN), self.membrane("check", bad)):
            self.assertNotIn("\x1b", done.stdout + done.stderr)

    def on_terminal(self, *arguments, code=0, **environment):
        """What a command prints on a terminal."""
        master, terminal = os.openpty()
        process = subprocess.Popen([COMMAND, *(arguments or ("run", "-e", SEVEN))], stdin=subprocess.DEVNULL,
                                   stdout=terminal, stderr=terminal, cwd=self.folder,
                                   env={**self.environment, **environment})
        os.close(terminal)
        output = b""
        try:
            while piece := os.read(master, 4096):
                output += piece
        except OSError:  # how Linux says that nobody holds the other side any more
            pass
        os.close(master)
        self.assertEqual(process.wait(SECONDS), code)
        return output.decode()

    def test_a_terminal_gets_colours_unless_no_color_is_set(self):
        self.environment.pop("NO_COLOR", None)
        self.assertIn("\x1b[", self.on_terminal())
        self.assertNotIn("\x1b", self.on_terminal(NO_COLOR="1"))
        self.assertIn("\x1b[", self.on_terminal(NO_COLOR=""))

    # Clears the screen, sets the title by C1, rings, goes back to the line's start; a tab, a line and é stay.
    DRIVES = r"""(func (export "run") (call $io.print (string "\1b[2J\c2\9b2J\07\0d\7f\tcaf\c3\a9\n")))"""

    def test_a_program_cannot_drive_the_terminal(self):
        plain = {"NO_COLOR": "1"}
        text = self.on_terminal("run", "-e", self.DRIVES, **plain)
        self.assertTrue(text.startswith("\\x1b[2J\\x9b2J\\x07\\x0d\\x7f\tcafé\r\n"), repr(text))
        answers = self.file("answers.jsonl", "".join(json.dumps(a) + "\n" for a in (
            fenced(self.DRIVES), {"content": "ANSWER: \x1b[2J"})))
        raw = self.file("raw.wat", '(func (export "run")) (; \x1b[2J\u009b2J ;)')
        for command in (["run", "-e", self.DRIVES, "--json"], ["agent", "t", "--model-file", answers],
                        ["agent", "t", "--model-file", answers, "--json"], ["check", raw, "--expand"],
                        ["check", raw, "--expand", "--json"]):
            text = self.on_terminal(*command, **plain)
            self.assertNotRegex(text.replace("\r\n", "\n"), "[\x00-\x08\x0b-\x1f\x7f-\x9f]", command)
        self.assertEqual(json.loads(self.on_terminal("run", "-e", self.DRIVES, "--json", **plain))["stdout"],
                         "\x1b[2J\u009b2J\x07\r\x7f\tcafé\n")

    def test_a_pipe_gets_every_byte(self):
        done = subprocess.run([COMMAND, "run", "-e", self.DRIVES], capture_output=True, env=self.environment,
                              timeout=SECONDS, check=True)
        self.assertEqual(done.stdout, b"\x1b[2J\xc2\x9b2J\x07\r\x7f\tcaf\xc3\xa9\n")


class Run(CommandTest):
    def report(self, *arguments, code=0, **more):
        return json.loads(self.membrane("run", *arguments, "--json", code=code, **more).stdout)

    def test_text_binary_argument_and_standard_input(self):
        self.assertEqual(self.membrane("run", self.file("seven.wat", SEVEN)).stdout, "7\n")
        self.assertEqual(self.membrane("run", self.file("f.wasm", BINARY), "--invoke", "f").stdout, "42\n")
        self.assertEqual(self.membrane("run", "-e", SEVEN).stdout, "7\n")
        self.assertEqual(self.membrane("run", "-", stdin=SEVEN).stdout, "7\n")

    def test_every_tier_gives_the_same_report(self):
        looping = """(func (export "run") (result i32) (local i32)
          (loop $again (br_if $again (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 300000))))
          (i32.load (i32.sub (i32.const 0) (local.get 0))))"""
        seen = []
        for tier in "interpreter", "compiler", "auto":
            report = self.report("-e", looping, "--tier", tier, code=1)
            for name in "compile_us", "run_us":
                del report[name]
            seen.append(report)
        self.assertEqual(seen[0]["error"]["code"], "memory_out_of_bounds")
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0], seen[2])
        self.assertIn("compiler", self.membrane("run", "-e", looping, "--tier", "jit", code=2).stderr)

    def test_compiled_code_is_kept_and_found(self):
        program, cache = self.file("large.wasm", large_binary()), self.folder / "cache"
        seen = []
        for _ in range(3):
            report = self.report(program, "--invoke", "f", "--code-cache", cache)
            for name in "compile_us", "run_us":
                del report[name]
            seen.append(report)
            self.assertEqual(len(os.listdir(cache)), 1)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0], seen[2])
        self.assertEqual(seen[0]["results"], [{"type": "i32", "value": 2000}])
        os.chmod(cache, 0o777)
        self.assertIn("chmod", self.membrane("run", program, "--code-cache", cache, code=2).stderr)

    def test_the_report_goes_to_standard_error(self):
        done = self.membrane("run", "-e", '(func (export "run") (call $io.print (string "hello")))')
        self.assertEqual(done.stdout, "hello")
        self.assertRegex(done.stderr, r"^outcome: ok\nfuel: \d+, memory: 64 KiB, compiled in .* ms, ran .* ms\n$")

    def test_what_a_program_left_in_a_line_does_not_run_into_what_follows(self):
        printing = '(func (export "run") %s (call $io.print (string "sum: ")) %s)'
        self.assertEqual(self.membrane("run", "-e", printing % ("(result i32)", "(i32.const 4)")).stdout, "sum: \n4\n")
        both = subprocess.run([COMMAND, "run", "-e", printing % ("", "")], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=self.environment, timeout=SECONDS)
        self.assertTrue(both.stdout.startswith("sum: \noutcome: ok\n"), both.stdout)

    def test_a_program_cannot_drive_the_terminal_by_its_report(self):
        done = self.membrane("run", "-e", r"""(func $main (call $io.eprint "\1b[2J") (call $io.result "\1b[2J")
                               (drop (call $kv.get! "\1b]0;x\07")))""", "--allow", "kv", code=1)
        self.assertTrue(done.stderr.startswith("\x1b[2J\n"), done.stderr)  # its own output, into a pipe
        report = done.stderr.removeprefix("\x1b[2J\n")
        self.assertNotIn("\x1b", report)
        self.assertIn(r"\x1b[2J", report)
        self.assertIn(r"\x1b]0;x\x07", report)
        bad = self.file("bad.wat", '(func (export "run") (drop "\x1b[2J"))')
        self.assertNotIn("\x1b", self.membrane("check", bad, code=2).stdout)
        self.assertNotIn("\x1b", self.membrane("run", bad, code=2).stderr)

    def test_the_entry_is_start_else_run_else_main(self):
        entries = {name: f'(func (export "{name}") (result i32) (i32.const {value}))'
                   for name, value in (("main", 1), ("run", 2), ("_start", 3))}
        for names, value in ((["main"], 1), (["main", "run"], 2), (["main", "run", "_start"], 3)):
            self.assertEqual(self.membrane("run", "-e", " ".join(entries[n] for n in names)).stdout, f"{value}\n")
        self.assertEqual(self.membrane("run", "-e", "".join(entries.values()), "--invoke", "main").stdout, "1\n")

    def test_typed_arguments(self):
        add = self.file("add.wat", ADD)
        for a, b, total in (("2", "2", 4), ("-2", "-3", -5), ("0x10", "-1", 15), ("-2147483648", "0", -2147483648),
                            ("4294967295", "1", 0)):
            self.assertEqual(self.membrane("run", add, "--invoke", "add", a, b).stdout, f"{total}\n")
        floats = self.file("floats.wat", """(func (export "f") (param i64 f32 f64) (result i64 f32 f64)
                                              (local.get 0) (local.get 1) (local.get 2))""")
        for arguments, printed in ((["-9223372036854775808", "-1.5", "1e-3"], "-9223372036854775808\n-1.5\n0.001\n"),
                                   (["--", "7", "-inf", "nan"], "7\n-inf\nnan\n")):
            self.assertEqual(self.membrane("run", floats, "--invoke", "f", *arguments).stdout, printed)

    def test_wrong_arguments_are_invalid(self):
        add = self.file("add.wat", ADD)
        for arguments, code in ((["1"], "wrong_argument_count"), (["1", "2", "3"], "wrong_argument_count"),
                                (["1", "x"], "invalid_argument"), (["1", "4294967296"], "invalid_argument")):
            report = self.report(add, "--invoke", "add", *arguments, code=2)
            self.assertEqual((report["outcome"], report["error"]["code"]), ("invalid", code))
            self.assertTrue(report["error"]["hint"])
        report = self.report(add, "--invoke", "sub", "1", "2", code=2)
        self.assertEqual(report["error"]["code"], "unknown_entry")
        self.assertIn("add", report["error"]["hint"])

    def test_input_and_arguments_as_text(self):
        program = self.file("echo.wat", """(func (export "main")
          (call $io.print (call $io.input)) (call $io.println (call $io.argument! (i32.const 1))))""")
        data = self.file("data.txt", "from a file, ")
        self.assertEqual(self.membrane("run", program, "--input", data, "a", "b c").stdout, "from a file, b c\n")
        self.assertEqual(self.membrane("run", program, "--input", "-", "a", "b", stdin="piped ").stdout, "piped b\n")
        self.assert_refused(self.membrane("run", program, "--input", "gone.txt", code=2), "gone.txt", "path")

    def test_json_is_one_object_with_stable_fields(self):
        done = self.membrane("run", "-e", '(func (export "run") (result i32 i64 f64) (call $io.print (string "out"))'
                             " (i32.const -1) (i64.const 9007199254740993) (f64.const inf))", "--json")
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout.count("\n"), 1)
        report = json.loads(done.stdout)
        self.assertEqual(list(report), ["outcome", "results", "result", "stdout", "stderr", "fuel_used", "cost_version",
                                        "memory_peak_bytes", "tokens_used", "compile_us", "run_us", "host_calls"])
        self.assertEqual(report["results"], [{"type": "i32", "value": -1}, {"type": "i64", "value": "9007199254740993"},
                                             {"type": "f64", "value": "inf"}])
        self.assertEqual((report["outcome"], report["stdout"]), ("ok", "out"))

    def test_exit_codes_tell_the_guests_failure_from_the_requests(self):
        for program, flags, outcome, code in (
                (SEVEN, [], "ok", 0),
                ('(func (export "run") (unreachable))', [], "trapped", 1),
                ('(func (export "run") (loop (br 0)))', ["--fuel", "1000"], "out_of_fuel", 1),
                ('(func (export "run") (loop (br 0)))', ["--fuel", "9e18", "--wall", "50ms"], "timed_out", 1),
                ('(func $f (export "run") (call $f))', [], "trapped", 1),
                ('(memory 100)' + SEVEN, ["--memory", "1MiB"], "out_of_memory", 1),
                ('(func (export "run") (call $io.print (string "four")))', ["--output", "3B"], "out_of_output", 1),
                ('(func (export "run") (drop (call $kv.get! (string "k"))))', [], "denied", 2),
                ('(func (export "run") (i32.add))', [], "invalid", 2),
                ('(func (export "run") (i32.ad 1 2))', [], "invalid", 2),
                ("(module", [], "invalid", 2)):
            with self.subTest(program=program, flags=flags):
                self.assertEqual(self.report("-e", program, *flags, code=code)["outcome"], outcome)

    def test_a_trap_has_its_place_and_its_callers(self):
        program = self.file("deep.wat", '(func $inner (unreachable))\n(func $outer (call $inner))\n'
                            '(func (export "run") (call $outer))')
        text = self.membrane("run", program, code=1).stderr
        self.assertIn("error[unreachable] line 1:15 in $inner: ", text)
        self.assertEqual(re.findall("called from (.*)", text),
                         ["line 2:15 in $outer", 'line 3:23 in #2 (export "run")'])
        error = self.report(program, code=1)["error"]
        self.assertEqual(error["place"]["function"], "$inner")
        self.assertEqual([frame["function"] for frame in error["backtrace"]], ["$outer", '#2 (export "run")'])

    def test_a_denied_call_says_what_would_allow_it(self):
        program = '(func (export "run") (drop (call $http.get! (string "https://example.org/x"))))'
        report = self.report("-e", program, code=2)
        self.assertEqual(report["host_calls"][0]["bytes_out"], 0)
        self.assertEqual(report["error"]["code"], "EACCES")
        self.assertIn("--allow 'http:GET:https://example.org/*'", report["error"]["hint"])
        call = report["host_calls"][0]
        self.assertEqual((call["name"], call["decision"], call["errno"]), ("http.get", "denied", "EACCES"))

    def test_fuel_is_the_same_in_every_run(self):
        program = self.file("count.wat", '(func (export "run") (local $i i32) (loop $l (br_if $l (i32.lt_s '
                            "(local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000)))))")
        used = {self.report(program)["fuel_used"] for _ in range(3)}
        self.assertEqual(len(used), 1)
        fuel = used.pop()
        self.assertEqual(self.report(program, "--fuel", fuel)["outcome"], "ok")
        self.assertEqual(self.report(program, "--fuel", fuel - 1, code=1)["outcome"], "out_of_fuel")

    def test_a_large_module_runs_unless_a_limit_is_given(self):
        count, size = 65 << 20, b""
        for shift in (0, 7, 14, 21):
            size += bytes([(count >> shift & 0x7F) | (0x80 if shift < 21 else 0)])
        content = b"\x01x" + bytes(count - 2)  # a section that nobody knows
        module = self.file("large.wasm", b"\0asm\1\0\0\0" + b"\0" + size + content +
                           b"\1\4\1\x60\0\0\3\2\1\0\7\7\1\3run\0\0\x0a\4\1\2\0\x0b")
        self.membrane("run", module)
        self.assertIn("64", self.membrane("run", module, "--module", "64MiB", code=2).stderr)

    def test_a_replay_says_which_directories_it_needs(self):
        (self.folder / "in").mkdir()
        program = self.file("probe.wat", """(module
          (import "wasi_snapshot_preview1" "fd_prestat_get" (func $get (param i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (memory 1) (func (export "_start") (call $exit (call $get (i32.const 3) (i32.const 0)))))""")
        self.membrane("run", program, "--dir", "in", "--journal", "run.journal", "-q")
        done = self.membrane("run", program, "--replay", "run.journal", "-q", code=2)
        self.assertIn("/in to write", done.stderr)
        self.assertIn("--allow fs:write:HOST_DIRECTORY:/in", done.stderr)
        self.membrane("run", program, "--dir", "in", "--replay", "run.journal", "-q")

    def test_a_journal_replays_without_the_world(self):
        (self.folder / "site").mkdir()
        (self.folder / "site" / "page").write_text("from the server")
        handler = functools.partial(QuietHandler, directory=str(self.folder / "site"))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever).start()
        base = f"http://127.0.0.1:{server.server_port}"
        program = self.file("fetch.wat", f'(func (export "run") (call $kv.set! (string "k") (call $http.get! '
                            f'(string "{base}/page"))) (call $io.println (call $kv.get! (string "k")))'
                            ' (call $io.println (call $random.uuid)))')
        grants = ["--allow", f"http:GET:{base}/*", "--allow", "kv", "--allow", "random"]
        try:
            first = self.membrane("run", program, *grants, "--journal", "run.journal").stdout
        finally:
            server.shutdown()
            server.server_close()
        self.assertTrue(first.startswith("from the server\n"))
        self.assertEqual(self.membrane("run", program, *grants, "--replay", "run.journal").stdout, first)
        self.assertNotIn("from the server", self.membrane("run", program, *grants, code=1).stdout)
        other = self.file("other.wat", '(func (export "run") (drop (call $kv.get! (string "k"))))')
        report = self.report(other, *grants, "--replay", "run.journal", code=1)
        self.assertEqual((report["outcome"], report["error"]["code"]), ("diverged", "replay_diverged"))
        self.assertIn("call 1 is kv.get(k), and the journal has http.request", report["error"]["message"])

    def test_a_journal_that_cannot_be_written_stops_before_anything_happens(self):
        done = self.membrane("run", "-e", SEVEN, "--journal", "no/such/directory", code=2)
        self.assertEqual(done.stdout, "")
        self.assertIn("no/such/directory", done.stderr)

    def test_what_cannot_be_used_is_refused_with_its_cause(self):
        self.file("junk", "junk\n")
        self.file("seven.wat", SEVEN)
        self.file("seven", SEVEN)
        self.file("typo.toml", "[limits]\nfule = 3\n")
        for arguments, cause, fix in (
                (["gone.wat"], "gone.wat", "path"),
                (["-e", SEVEN, "--replay", "junk"], "journal", "as Membrane wrote it"),
                (["-e", SEVEN, "--replay", "gone"], "gone", "path"),
                (["-e", SEVEN, "--policy", "gone.toml"], "gone.toml", "path"),
                (["-e", SEVEN, "--policy", "typo.toml"], "limits.fule", "fuel"),
                (["-e", SEVEN, "--policy", "."], "is a directory", "./policy.toml"),
                (["-e", SEVEN, "--policy", "seven.wat"], "is a program, not a policy", "membrane run seven.wat"),
                (["-e", SEVEN, "--policy", "seven"], "is a program, not a policy", "TOML"),
                (["-e", SEVEN, "--fuel", "much"], "much", "2e9"),
                (["-e", SEVEN, "--wall", "10"], "unit", "10 s"),
                (["-e", SEVEN, "--memory", "64"], "less than a page", "64MiB"),
                (["-e", SEVEN, "--allow", "fs:read"], "fs:read", "fs:read:"),
                (["-e", SEVEN, "--allow", "everything"], "everything", "http"),
                (["-e", SEVEN, "--allow", "ai"], "MEMBRANE_MODEL and MEMBRANE_BASE_URL are not set", "MEMBRANE_MODEL=")):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.membrane("run", *arguments, code=2), cause, fix)

    def test_files_are_seen_under_their_grant(self):
        (self.folder / "data").mkdir()
        (self.folder / "data" / "x").write_text("granted")
        program = '(func (export "run") (call $io.print (call $fs.read! (string "/data/x"))))'
        self.assertEqual(self.membrane("run", "-e", program, "--allow", "fs:read:./data").stdout, "granted")
        self.assertEqual(self.report("-e", program, code=2)["outcome"], "denied")

    def test_a_missing_granted_directory_is_named_before_the_run(self):
        prints = '(func (export "run") (call $io.print (string "ran")))'
        for grant in ("fs:read:./gone", "fs:write:./gone:/out", "sql:papers:./gone.db"):
            self.assert_refused(self.membrane("run", "-e", prints, "--allow", grant, code=2), "./gone",
                                str(self.folder.resolve()))
            self.assert_refused(self.membrane("agent", "t", "--allow", grant, code=2), "does not exist", "Create it")
            done = self.membrane("policy", "explain", "--allow", grant)
            self.assertIn("does not exist", done.stderr)
            self.assertIn("./gone", done.stdout)
        (self.folder / "gone").mkdir()
        self.assertEqual(self.membrane("run", "-e", prints, "--allow", "fs:read:./gone").stdout, "ran")
        self.assertEqual(self.membrane("policy", "explain", "--allow", "fs:read:./gone").stderr, "")

    def test_an_interrupt_cancels_the_program(self):
        process = subprocess.Popen([COMMAND, "run", "-e", ENDLESS, "--fuel", "9e18", "--wall", "1h"], text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=self.environment)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "begun\n")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS)
        self.assertIn("outcome: cancelled", errors)
        self.assertEqual(process.returncode, 1)


class Thaw(CommandTest):
    COUNTS = """(func (export "run") (param $n i32) (result i32) (local $i i32)
      (call $io.print (string "begun, "))
      (loop (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if 0 (i32.lt_u (local.get $i) (local.get $n))))
      (call $io.print (string "done")) (local.get $i))"""

    def report(self, *arguments, code=0):
        return json.loads(self.membrane(*arguments, "--json", code=code).stdout)

    def test_a_run_continues_in_other_processes_and_ends_as_one(self):
        program = self.file("counts.wat", self.COUNTS)
        whole = self.report("run", program, "1000")
        frozen = self.report("run", program, "1000", "--freeze-after", "2e3", "--snapshot", "f.snap", code=4)
        self.assertEqual((frozen["outcome"], frozen["stdout"]), ("frozen", "begun, "))
        self.assertLessEqual(frozen["fuel_used"], 2000)
        self.assertEqual(frozen["snapshot_bytes"], (self.folder / "f.snap").stat().st_size)
        later = self.report("thaw", "f.snap", "--freeze-after", "4000", "--snapshot", "f.snap", "--tier", "compiler",
                            code=4)
        self.assertGreater(later["fuel_used"], frozen["fuel_used"])
        (self.folder / program).unlink()
        for tier in ("interpreter", "compiler", "auto"):  # three forks
            end = self.report("thaw", "f.snap", "--fuel", whole["fuel_used"], "--tier", tier)
            for field in ("outcome", "results", "stdout", "fuel_used", "memory_peak_bytes", "host_calls"):
                self.assertEqual(end[field], whole[field], field)
        self.assertEqual(self.report("thaw", "f.snap", "--fuel", whole["fuel_used"] - 1, code=1)["outcome"],
                         "out_of_fuel")
        self.assertEqual([path.name for path in self.folder.iterdir() if "snap" in path.name], ["f.snap"])

    def test_a_person_sees_the_output_once(self):
        program = self.file("counts.wat", self.COUNTS)
        first = self.membrane("run", program, "100", "--freeze-after", "200", "--snapshot", "f.snap", code=4)
        self.assertEqual(first.stdout, "begun, ")
        self.assertIn("outcome: frozen", first.stderr)
        self.assertRegex(first.stderr, r"snapshot: \d+ bytes")
        self.assertEqual(self.membrane("thaw", "f.snap").stdout, "done\n100\n")

    def test_a_program_that_ends_before_leaves_no_snapshot_and_says_so(self):
        done = self.membrane("run", "-e", SEVEN, "--freeze-after", "1e6", "--snapshot", "f.snap")
        self.assertIn("no snapshot", done.stderr)
        self.assertEqual(self.report("run", "-e", SEVEN, "--freeze-after", "1e6", "--snapshot", "f.snap")
                         ["snapshot_bytes"], 0)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_malformed_snapshot_is_refused(self):
        self.file("counts.wat", self.COUNTS)
        refused = self.report("thaw", "counts.wat", code=2)
        self.assertEqual(refused["error"]["code"], "invalid_input")
        self.assertIn("--snapshot", refused["error"]["hint"])
        self.membrane("run", "counts.wat", "100", "--freeze-after", "200", "--snapshot", "f.snap", code=4)
        whole = bytearray((self.folder / "f.snap").read_bytes())
        whole[-1] ^= 1
        self.file("f.snap", bytes(whole))
        self.assertIn("damaged", self.membrane("thaw", "f.snap", code=2).stderr)
        self.assert_refused(self.membrane("thaw", "nothing.snap", code=2), "cannot open", "path")

    def test_options_that_do_not_fit_are_refused(self):
        self.assert_refused(self.membrane("run", "-e", SEVEN, "--freeze-after", "5", code=2), "go together",
                            "the file")
        self.assert_refused(self.membrane("run", "-e", SEVEN, "--snapshot", "f", code=2), "go together", "when")
        self.assert_refused(self.membrane("run", "-e", SEVEN, "--freeze-after", "soon", "--snapshot", "f", code=2),
                            "soon", "2e9")
        self.assert_refused(self.membrane("run", "-e", SEVEN, "--freeze-after", "5", "--snapshot", "no/f", code=2),
                            "cannot write no/f", "directory")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Check(CommandTest):
    BAD = '(func (export "run") (result i32) (i32.ad (i32.const 1)))'

    def test_nothing_wrong(self):
        self.assertEqual(self.membrane("check", self.file("a.wat", ADD)).stdout, "a.wat: no errors\n")
        self.assertEqual(self.membrane("check", self.file("f.wasm", BINARY)).stdout, "f.wasm: no errors\n")
        self.assertEqual(self.membrane("check", "-", stdin=ADD).stdout, "standard input: no errors\n")
        self.assertEqual(json.loads(self.membrane("check", "a.wat", "--json").stdout),
                         {"file": "a.wat", "ok": True, "diagnostics": []})

    def test_it_is_the_same_in_a_worker_and_in_the_process(self):
        programs = {"a.wat": ADD, "bad.wat": self.BAD, "f.wasm": BINARY, "cut.wasm": BINARY[:-3], "empty.wat": "",
                    "deep.wat": "(" * 100_000, "a.py": "x = 1\n", "bad.py": "x = (1\n", "bad.js": "let x = ;"}
        for name, text in programs.items():
            self.file(name, text)
            for flags in ((), ("--json",)) + ((("--expand",),) if name.endswith((".wat", ".wasm")) else ()):
                with self.subTest(name=name, flags=flags):
                    done = [subprocess.run([COMMAND, "check", name, *flags, *where], cwd=self.folder, capture_output=True,
                                           env=self.environment, timeout=SECONDS, check=False)
                            for where in ((), ("--in-process",))]
                    self.assertEqual(*[(each.returncode, each.stdout, each.stderr) for each in done])

    def test_a_finding_has_place_line_caret_and_hint(self):
        text = self.membrane("check", self.file("bad.wat", self.BAD), code=2).stdout
        self.assertTrue(text.startswith("bad.wat:1:36: error[unknown-instruction]: "), text)
        self.assertIn("| " + self.BAD + "\n", text)
        self.assertIn("^^^^^^\n", text)
        self.assertIn("hint: Did you mean i32.add?", text)

    def test_json_findings_have_stable_fields(self):
        found = json.loads(self.membrane("check", self.file("bad.wat", self.BAD), "--json", code=2).stdout)
        self.assertEqual((found["file"], found["ok"]), ("bad.wat", False))
        self.assertEqual(list(found["diagnostics"][0]), ["code", "message", "line", "column", "offset", "end_offset",
                                                         "function", "expected", "found", "hint"])
        self.assertEqual((found["diagnostics"][0]["line"], found["diagnostics"][0]["offset"]), (1, 35))

    def test_a_file_that_is_not_a_program_is_reported(self):
        elf = self.file("program", b"\x7fELF\x02\x01\x01\x00\x9b")
        for name, cause in ((elf, "an ELF program, neither a WebAssembly binary nor WAT"),
                            (self.file("bytes", bytes(range(256))), "neither a WebAssembly binary nor WAT"),
                            (self.file("empty.wat", ""), "the program is empty"),
                            (self.file("blank.wat", " \n\n"), "the program is empty")):
            self.assertIn(cause, self.membrane("check", name, code=2).stdout)
            done = self.membrane("run", name, code=2)
            self.assertIn(cause, done.stderr)
            self.assertIn("hint: ", done.stderr)

    def test_a_capability_that_does_not_exist_is_found(self):
        program = '(func (export "run") (drop (call $http.gett! (string "x"))))'
        self.assertIn("http.get", self.membrane("check", self.file("p.wat", program), code=2).stdout)

    def test_a_broken_binary_has_its_offset(self):
        text = self.membrane("check", self.file("cut.wasm", BINARY[:-3]), code=2).stdout
        self.assertRegex(text, r"^cut\.wasm: offset \d+: error\[[a-z-]+\]: ")

    def test_the_expansion_is_plain_and_runs_the_same(self):
        program = self.file("p.wat", '(func (export "run") (result i32) (set $x 40) (i32.add $x 2))')
        plain = self.membrane("check", program, "--expand").stdout
        self.assertIn("local.set", plain)
        self.assertIn("i32.const 40", plain)
        self.assertEqual(self.membrane("run", self.file("plain.wat", plain)).stdout, "42\n")
        self.assertEqual(self.membrane("check", "plain.wat", "--expand").stdout, plain)
        self.assertEqual(json.loads(self.membrane("check", program, "--expand", "--json").stdout)["expanded"], plain)

    def test_a_binary_expands_to_text_that_runs_the_same(self):
        text = self.membrane("check", self.file("f.wasm", BINARY), "--expand").stdout
        self.assertEqual(self.membrane("run", self.file("f.wat", text), "--invoke", "f").stdout, "42\n")

    def test_a_missing_file(self):
        self.assert_refused(self.membrane("check", "gone.wat", code=2), "gone.wat", "path")

    def test_every_program_of_the_catalog_passes(self):
        for program in sorted((ROOT / "catalog").glob("*.wat")):
            self.membrane("check", program)


class PolicyExplain(CommandTest):
    def test_an_empty_policy_grants_nothing(self):
        text = self.membrane("policy", "explain").stdout
        for sentence in ("cannot reach the network", "cannot see any file", "no key-value store", "1,000,000,000",
                         "A Linux sandbox is limited to 2 GiB of memory", "10 min of wall-clock time of a command", "512 processes"):
            self.assertIn(sentence, text)

    def test_file_and_flags_add_up(self):
        policy = self.file("p.toml", '[limits]\nfuel = 5_000\n[[http]]\nmethods = ["GET"]\nurl = "https://example.org/*"\n')
        text = self.membrane("policy", "explain", policy, "--allow", "fs:read:./data", "--memory", "1MiB").stdout
        for part in ("GET", "https://example.org", "/data", "5,000 instructions", "1 MiB of linear memory"):
            self.assertIn(part, text)
        self.assertEqual(self.membrane("policy", "explain", "--policy", policy).stdout,
                         self.membrane("policy", "explain", policy).stdout)

    def test_json_is_a_policy_again(self):
        text = self.membrane("policy", "explain", "--allow", "kv", "--fuel", "77", "--json").stdout
        self.assertEqual(json.loads(text)["limits"]["fuel"], 77)
        self.assertEqual(self.membrane("policy", "explain", self.file("again.json", text), "--json").stdout, text)

    def test_the_examples_are_policies(self):
        for policy in sorted((ROOT / "examples" / "policies").glob("*.toml")):
            self.assertIn("limited to", self.membrane("policy", "explain", policy).stdout)

    def test_bad_files_are_refused_with_their_line(self):
        self.file("typo.toml", "[limits]\nfule = 3\n")
        self.assert_refused(self.membrane("policy", "explain", "typo.toml", code=2), "line 2", "fuel")
        self.assert_refused(self.membrane("policy", "explain", "gone.toml", code=2), "gone.toml", "path")
        done = self.membrane("policy", "explain", self.file("broken.toml", "[limits\n"), code=2)
        self.assertIn("line 1", done.stderr)

    def test_two_policies_are_refused(self):
        self.assert_refused(self.membrane("policy", "explain", "a.toml", "--policy", "b.toml", code=2), "excludes",
                            "--help")


# A language: each line is a sum of numbers; it prints the sum, and the total of all lines.
CALCULATOR = r"""(module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $read (result i32)
    (i64.store (i32.const 0) (i64.const 0x1_0000_0010))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (select (i32.load8_u (i32.const 16)) (i32.const -1) (i32.load (i32.const 8))))
  (func $print (param $n i32) (param $end i32) (local $at i32)
    (local.set $at (i32.const 63))
    (i32.store8 (i32.const 63) (local.get $end))
    (loop $digit
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at) (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))
      (br_if $digit (local.tee $n (i32.div_u (local.get $n) (i32.const 10)))))
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (i32.sub (i32.const 64) (local.get $at)))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start") (local $c i32) (local $number i32) (local $sum i32) (local $total i32)
    (loop $next
      (local.set $c (call $read))
      (if (i32.eq (local.get $c) (i32.const -1)) (then (return)))
      (if (i32.eq (local.get $c) (i32.const 0x6c)) (then (loop $for_ever (br $for_ever))))
      (if (i32.lt_u (i32.sub (local.get $c) (i32.const 48)) (i32.const 10))
        (then (local.set $number (i32.add (i32.mul (local.get $number) (i32.const 10))
                                          (i32.sub (local.get $c) (i32.const 48))))
              (br $next)))
      (local.set $sum (i32.add (local.get $sum) (local.get $number)))
      (local.set $number (i32.const 0))
      (br_if $next (i32.ne (local.get $c) (i32.const 10)))
      (local.set $total (i32.add (local.get $total) (local.get $sum)))
      (call $print (local.get $sum) (i32.const 32))
      (call $print (local.get $total) (i32.const 10))
      (local.set $sum (i32.const 0))
      (br $next))))
"""


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

    def test_an_entry_is_paused_forked_and_continues_in_both(self):
        self.add()
        done = self.membrane("repl", "--lang", "calc",
                             stdin=":pause 10\n1\n8\n:fork\n:pause\n:go\n2\n:back\n:go\n5\n:go\n")
        self.assertEqual(done.stdout, "paused; :go resumes it\npaused; :go resumes it\nfork 1\n1 1\n2 3\n"
                                      "back at fork 1\n1 1\n5 6\n")
        self.assertIn("the session's last turn is paused", done.stderr)
        self.assertIn("no turn is paused", done.stderr)

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


class Doctor(CommandTest):
    def test_it_says_what_its_help_promises(self):
        def doctor(*words):
            done = subprocess.run([COMMAND, "doctor", *words], env=self.environment, capture_output=True, text=True, timeout=SECONDS)
            self.assertIn(done.returncode, (0, 2), done.stderr)  # 2: a wall is missing on this machine
            return done.stdout
        text = doctor()
        for part in "walls", "libraries", "languages", "linux programs", "limits":
            self.assertIn(f"\n{part}\n", text)
        limits = json.loads(doctor("--json"))["limits"]
        shown = text.partition("\nlimits\n")[2]
        self.assertRegex(shown, r"  memory +[1-9]\d* [KMGT]iB, in pages of \d+ KiB\n")
        if limits["open_files"] < 2**63:
            self.assertIn(f"{limits['open_files']:,}\n", shown)


class Capabilities(CommandTest):
    def test_the_reference_page_is_what_the_program_prints(self):
        page = self.membrane("capabilities", "--markdown").stdout
        self.assertEqual(page, (ROOT / "docs" / "capabilities.md").read_text(), "tools/generate-docs writes it")
        self.assertIn("do not edit", page[:300])
        text = self.membrane("capabilities").stdout
        self.assertNotIn("do not edit", text)
        self.assertEqual(text.split("\n\n", 2)[2], page.split("\n\n", 2)[2])

    def test_the_machine_says_how_files_are_opened_and_whether_code_is_compiled(self):
        machine = json.loads(self.membrane("capabilities", "--machine", "--json").stdout)["machine"]
        self.assertIn(machine["files"], ("openat2", "walk"))
        self.assertIsInstance(machine["compiler"], bool)
        text = self.membrane("capabilities", "--machine").stdout
        self.assertIn(f"files     {machine['files']}: ", text)
        self.assertIn("compiler  yes" if machine["compiler"] else "compiler  no", text)

    def test_the_three_forms_name_the_same_functions(self):
        capabilities = json.loads(self.membrane("capabilities", "--json").stdout)["capabilities"]
        in_json = [function["name"] for capability in capabilities for function in capability["functions"]]
        prompt, page = self.membrane("capabilities", "--prompt").stdout, self.membrane("capabilities").stdout
        names = re.findall(r"^  ([a-z]+\.[a-z0-9_]+)\(", prompt, re.M)
        self.assertGreater(len(names), 50)
        left_out = ["http.get_many"]  # of the prompt: the languages' libraries know it
        self.assertEqual(names, [name for name in in_json if name not in left_out])
        for name in in_json:
            self.assertIn(name, page)

    def test_one_capability_and_one_function(self):
        text = self.membrane("capabilities", "http").stdout
        self.assertTrue(text.startswith("## http\n"), text[:100])
        self.assertIn("--allow 'http:GET:https://example.org/*'", text)
        self.assertEqual(re.findall("^### (.*)$", text, re.M),
                         ["http.get", "http.post", "http.request", "http.exchange", "http.get_many", "http.status",
                          "http.header"])
        self.assertEqual(re.findall("^### (.*)$", self.membrane("capabilities", "http.get").stdout, re.M), ["http.get"])
        found = json.loads(self.membrane("capabilities", "http.get", "--json").stdout)["capabilities"]
        self.assertEqual([(c["name"], [f["name"] for f in c["functions"]]) for c in found], [("http", ["http.get"])])
        self.assertTrue(self.membrane("capabilities", "kv", "--prompt").stdout.startswith("kv: "))

    def test_an_unknown_name_is_answered_with_the_nearest(self):
        self.assert_refused(self.membrane("capabilities", "htp", code=2), "no capability or function htp", "http?")
        self.assert_refused(self.membrane("capabilities", "http.gett", code=2), "http.gett", "Did you mean http.get?")
        self.assert_refused(self.membrane("capabilities", "nonsense", code=2), "nonsense", "Capabilities are io, http")

    def test_one_form_at_a_time(self):
        self.assert_refused(self.membrane("capabilities", "--markdown", "--prompt", code=2), "excludes", "--help")


class Spectest(CommandTest):
    GOOD = '(module (func (export "f") (result i32) (i32.const 1)))\n(assert_return (invoke "f") (i32.const 1))\n'

    def test_a_script_that_passes(self):
        text = self.membrane("spectest", self.file("good.wast", self.GOOD)).stdout
        self.assertEqual(text, "ok    good.wast: 2 passed\n2 passed, 0 failed, 0 skipped\n")

    def test_a_script_that_fails_names_its_line(self):
        self.file("bad.wast", self.GOOD + '(assert_return (invoke "f") (i32.const 2))\n')
        text = self.membrane("spectest", "bad.wast", code=1).stdout
        self.assertIn("bad.wast:3: assert_return", text)
        self.assertTrue(text.endswith("2 passed, 1 failed, 0 skipped\n"))

    def test_a_directory_is_all_its_scripts(self):
        self.file("a.wast", self.GOOD)
        self.file("b.wast", self.GOOD)
        self.assertTrue(self.membrane("spectest", ".").stdout.endswith("4 passed, 0 failed, 0 skipped\n"))

    def test_a_missing_resource(self):
        self.assert_refused(self.membrane("spectest", "gone.wast", code=2), "gone.wast", "path")
        (self.folder / "empty").mkdir()
        self.assert_refused(self.membrane("spectest", "empty", code=2), "no .wast", "directory")


def fenced(program):
    return {"content": f"I run it.\n```wat\n{program}\n```\n"}


class Agent(CommandTest):
    PRINTS = '(func (export "main") (call $io.println (string "forty-two")))'
    INVALID = '(func (export "main") (call $io.printn (string "x")))'

    def answers(self, *answers):
        return self.file("answers.jsonl", "".join(json.dumps(answer) + "\n" for answer in answers))

    def test_thought_program_observation_answer_and_table(self):
        answers = self.answers(fenced(self.INVALID), fenced(self.PRINTS), {"content": "ANSWER: It is 42."})
        text = self.membrane("agent", "What is it?", "--model-file", answers).stdout
        for part in ("I run it.", "── observation", "unknown", "forty-two", "── answer\nIt is 42.\n", "1 step, 1 repair\n"):
            self.assertIn(part, text)

    def test_a_budget_that_is_used_up(self):
        answers = self.answers(*[fenced(self.PRINTS)] * 3)
        text = self.membrane("agent", "task", "--model-file", answers, "--max-steps", "2", code=1).stdout
        self.assertIn("out_of_steps", text)

    def test_json_is_one_object(self):
        answers = self.answers(fenced(self.PRINTS), {"content": "ANSWER: 42"})
        done = self.membrane("agent", "task", "--model-file", answers, "--json")
        self.assertEqual((done.stdout.count("\n"), done.stderr), (1, ""))
        result = json.loads(done.stdout)
        self.assertEqual((result["stop"], result["answer"], result["error"]), ("answered", "42", None))
        self.assertEqual(result["totals"]["steps"], 1)
        self.assertGreater(result["totals"]["fuel"], 0)

    def test_a_transcript_replays_without_a_difference(self):
        answers = self.answers(fenced(self.INVALID), fenced(self.PRINTS), {"content": "ANSWER: 42"})
        self.membrane("agent", "task", "--model-file", answers, "--transcript", "run.jsonl")
        lines = [json.loads(line) for line in (self.folder / "run.jsonl").read_text().splitlines()]
        self.assertEqual((lines[0]["type"], lines[-1]["type"]), ("header", "end"))
        done = self.membrane("agent", "--replay", "run.jsonl")
        self.assertEqual(done.stderr, "")
        self.assertIn("42", done.stdout)

    def test_a_replay_that_differs_says_where(self):
        answers = self.answers(fenced(self.PRINTS), {"content": "ANSWER: 42"})
        self.membrane("agent", "task", "--model-file", answers, "--transcript", "run.jsonl")
        text = (self.folder / "run.jsonl").read_text()
        changed = re.sub(r'"fuel_used":\d+', '"fuel_used":1', text)
        self.assertNotEqual(changed, text)
        done = self.membrane("agent", "--replay", self.file("changed.jsonl", changed), code=1)
        self.assertRegex(done.stderr, r"membrane: replay: .*fuel_used was 1, is \d+")

    def recorded(self, code, *options):
        """A transcript of one program and an answer, as text."""
        answers = self.answers(fenced(code), {"content": "ANSWER: done"})
        self.membrane("agent", "task", "--model-file", answers, "--transcript", "run.jsonl", *options)
        return (self.folder / "run.jsonl").read_text()

    USES_KV = '(func (export "main") (result i32) (call $kv.set (string "k") (string "v")))'

    def test_a_replay_is_granted_no_more_than_was_recorded(self):
        self.recorded(self.USES_KV)
        done = self.membrane("agent", "--replay", "run.jsonl", "--allow", "kv")
        self.assertIn("kv was not granted when the run was recorded: it is not granted now", done.stderr)
        self.assertIn("failed host calls", done.stdout)

    def test_a_transcript_grants_nothing_by_itself(self):
        text = self.recorded(self.USES_KV, "--allow", "kv")
        header = json.loads(text.splitlines()[0])
        header["policy"]["kv"]["path"] = "made.db"
        forged = self.file("forged.jsonl", "\n".join([json.dumps(header), *text.splitlines()[1:]]) + "\n")
        done = self.membrane("agent", "--replay", forged, code=1)
        self.assertIn("kv in made.db was granted when the run was recorded, and is not now", done.stderr)
        self.assertFalse((self.folder / "made.db").exists())

    def test_a_replay_has_the_limits_of_the_recording(self):
        self.recorded(self.PRINTS, "--fuel", "123456", "--output", "777B")
        self.assertEqual(self.membrane("agent", "--replay", "run.jsonl").stderr, "")
        self.membrane("agent", "--replay", "run.jsonl", "--fuel", "2e9", "--transcript", "again.jsonl")
        limits = json.loads((self.folder / "again.jsonl").read_text().splitlines()[0])["policy"]["limits"]
        self.assertEqual(limits["fuel"], 123456)

    def test_a_transcript_whose_policy_cannot_be_read_is_refused(self):
        text = self.recorded(self.PRINTS)
        header = json.loads(text.splitlines()[0])
        header["policy"] = {"everything": True}
        forged = self.file("forged.jsonl", "\n".join([json.dumps(header), *text.splitlines()[1:]]) + "\n")
        self.assertIn("policy in the header", self.membrane("agent", "--replay", forged, code=2).stderr)

    def test_json_needs_a_task(self):
        answers = self.file("answers.jsonl", '{"content": "ANSWER: x"}\n')
        done = self.membrane("agent", "--json", "--model-file", answers, stdin="hi\n", code=2)
        error = json.loads(done.stdout)["error"]
        self.assertIn("--json", error["message"])
        self.assertIn("task", error["hint"])

    def test_the_prompt_holds_functions_policy_and_catalog(self):
        text = self.membrane("agent", "--print-prompt", "--allow", "http:GET:https://example.org/*").stdout
        for part in ("http: get!(url)->body", "https://example.org", "ANSWER:", "Not granted: fs, "):
            self.assertIn(part, text)
        self.assertNotIn("\nsql: ", text)
        programs = {program.stem: re.findall("^;; needs: (.*)$", program.read_text(), re.M)
                    for program in (ROOT / "catalog").glob("*.wat")}
        for grants in ([], ["kv"], ["kv", "ai", "sql:d:d.db", "fs:read:.:/data", "http:GET:https://example.org/*"]):
            flags = [part for grant in grants for part in ("--allow", grant)]
            text = self.membrane("agent", "--print-prompt", "--catalog", ROOT / "catalog", *flags).stdout
            granted = {grant.split(":")[0] for grant in grants}
            left_out = 0
            for name, needs in programs.items():
                can_run = all(need in granted for need in ", ".join(needs).split(", ") if need)
                left_out += not can_run
                self.assertEqual(bool(re.search(rf"(?:^|, ){name}(?:[,(.]|$)", text, re.M)), can_run, name)
            self.assertEqual(re.findall(r"^(\d+) more needs? what is not granted", text, re.M),
                             [str(left_out)] if left_out else [])

    def test_the_prompt_is_as_large_as_its_page_says(self):
        said = re.search(r"system prompt has about (\d+) KB", (ROOT / "docs" / "local-model.md").read_text()).group(1)
        policy = ROOT / "examples" / "policies" / "web-research.toml"
        done = self.membrane("agent", "--print-prompt", "--catalog", ROOT / "catalog", "--policy", policy)
        self.assertEqual(round(len(done.stdout.encode()) / 1000), int(said))

    def test_a_missing_language_is_refused_before_anything_is_asked(self):
        answers = self.answers({"content": "ANSWER: x"})
        self.assert_refused(self.membrane("agent", "task", "--model-file", answers, "--language", "wat,python", code=2),
                            "python is not installed", "languages add python")
        self.assert_refused(self.membrane("agent", "task", "--model-file", answers, "--language", "../wat", code=2),
                            "not the name of a language", "python, js or wat")
        self.assertEqual(self.membrane("agent", "task", "--model-file", answers, "--language", "wat").stderr, "")

    def test_a_program_in_another_language_is_answered_with_the_installed_ones(self):
        answers = self.answers({"content": "```bash\nls\n```"}, {"content": "ANSWER: x"})
        text = self.membrane("agent", "task", "--model-file", answers).stdout
        self.assertIn("Programs in bash cannot be run here. Write WAT (```wat).", text)

    def test_the_fuel_of_a_task_can_be_more_than_a_program_has(self):
        endless = fenced('(func (export "main") (loop (br 0)))')
        answers = self.answers(endless, fenced(self.PRINTS), {"content": "ANSWER: x"})
        fuel = ("--model-file", answers, "--fuel", "1e6", "--json")
        totals = json.loads(self.membrane("agent", "task", *fuel, code=1).stdout)
        self.assertEqual((totals["stop"], totals["totals"]["steps"]), ("out_of_fuel", 1))
        totals = json.loads(self.membrane("agent", "task", *fuel, "--task-fuel", "3e6").stdout)
        self.assertEqual((totals["stop"], totals["totals"]["steps"]), ("answered", 2))
        self.assertIn("--task-fuel", self.membrane("agent", "task", "--task-fuel", "much", code=2).stderr)

    def test_no_model_and_bad_files_are_refused(self):
        self.assert_refused(self.membrane("agent", "task", code=2), "No model is configured", "MEMBRANE_MODEL=")
        for flag in ("--model-file", "--replay"):
            self.assertIn("gone", self.membrane("agent", "task", flag, "gone", code=2).stderr)
        self.file("bad.jsonl", '{"contents": "x"}\n')
        self.assertIn("contents", self.membrane("agent", "task", "--model-file", "bad.jsonl", code=2).stderr)


class WithLanguages(CommandTest):
    """With the languages of this machine (tools/get-languages); skipped if there are none."""

    def setUp(self):
        super().setUp()
        for name in "XDG_DATA_HOME", "MEMBRANE_LANGUAGES":
            self.environment.pop(name, None)
            if name in os.environ:
                self.environment[name] = os.environ[name]


class RunInLanguages(WithLanguages):
    def setUp(self):
        super().setUp()
        for name in "python", "js":
            if subprocess.run([COMMAND, "run", "--lang", name, "-e", "1"], capture_output=True, env=self.environment,
                              timeout=SECONDS).returncode != 0:
                self.skipTest(f"{name} is not installed")

    def test_an_empty_program_is_a_program(self):
        for arguments in (["-e", ""], ["-e", "", "--lang", "python"], ["-e", "", "--lang", "js"],
                          ["-e", "", "--lang", "python", "an argument"], [self.file("empty.py", "")],
                          [self.file("empty.js", "")]):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.membrane("run", *arguments, "-q").stdout, "")

    def test_a_program_gets_piped_input(self):
        data = "3\n4"
        for name, text in (("a.py", "print(int(input()) + int(input()))"), ("b.py", "import sys; print(sum(map(int, sys.stdin)))"),
                           ("c.py", "print(sum(map(int, open(0))))"), ("d.py", "import fileinput; print(sum(map(int, fileinput.input())))"),
                           ("e.py", "import sys; print(sum(map(int, sys.stdin.buffer.read().split())))"),
                           ("a.js", "console.log(Number(prompt()) + Number(prompt()))"),
                           ("b.js", "console.log(eval(require('fs').readFileSync(0, 'utf8').split('\\n').join('+')))"),
                           ("c.js", "let s = ''; process.stdin.on('data', (d) => s += d).on('end', () => console.log(eval(s.replace('\\n', '+'))))"),
                           ("d.mjs", "import { createInterface } from 'node:readline';\nlet sum = 0;\n"
                                     "for await (const line of createInterface({ input: process.stdin })) sum += Number(line);\nconsole.log(sum)")):
            with self.subTest(name=name):
                program = self.file(name, text)
                self.assertEqual(self.membrane("run", program, "-q", stdin=data).stdout, "7\n")
                self.assertEqual(self.membrane("run", program, "-q", "--input", "-", stdin=data).stdout, "7\n")
                self.assertEqual(self.membrane("run", program, "-q", "--input", self.file("data", data)).stdout, "7\n")
        self.assertEqual(self.membrane("run", "-e", "input()", "-q", stdin="piped").stdout, "'piped'\n")
        self.assertIn("EOFError", self.membrane("run", "-", "--lang", "py", stdin="input()", code=1).stderr)
        self.assertIn("EOFError", self.membrane("run", "-e", "input()", code=1).stderr)

    def test_an_endless_pipe_delays_only_its_reader(self):
        read, write = os.pipe()
        try:
            for arguments, code, reported in ((["-e", "2 + 2", "-q"], 0, "4\n"), (["--lang", "js", "-e", "2 + 2", "-q"], 0, "4\n"),
                                          (["-e", "input()", "--wall", "200ms"], 1, "waiting for its standard input"),
                                          (["--lang", "js", "-e", "prompt()", "--wall", "200ms"], 1, "waiting for its standard input")):
                done = subprocess.run([COMMAND, "run", *arguments], stdin=read, capture_output=True, text=True, cwd=self.folder,
                                      env=self.environment, timeout=SECONDS)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(reported, done.stdout + done.stderr)
        finally:
            os.close(read)
            os.close(write)
        done = self.membrane("run", "-e", "input()", "--bytes-in", "10", stdin="x" * 11, code=2)
        self.assertIn("the input has more than 10 bytes", done.stderr)
        self.assertIn("--bytes-in", done.stderr)

    def test_binary_input_is_whole(self):
        data = self.file("data", bytes(range(256)) * 1000)
        program = self.file("p.py", "import sys; b = sys.stdin.buffer.read(); print(b == bytes(range(256)) * 1000)")
        self.assertEqual(self.membrane("run", program, "-q", "--input", data).stdout, "True\n")
        program = self.file("p.js", "const b = require('fs').readFileSync(0); console.log(b.length, b[255], b[256 * 999 + 200])")
        self.assertEqual(self.membrane("run", program, "-q", "--input", data).stdout, "256000 255 200\n")

    def test_a_language_that_is_not_named_is_guessed_and_reported(self):
        done = self.membrane("run", "-", "-q", stdin="import sys\nprint(40 + 2)")
        self.assertEqual((done.stdout, done.stderr), ("42\n", "membrane: standard input looks like Python, and runs as that; "
                                                               "--lang says what it is\n"))
        self.assertEqual(self.membrane("run", self.file("p.txt", "const a = 42;\nconsole.log(a)"), "-q").stdout, "42\n")
        self.assertEqual(self.membrane("run", "-", "-q", stdin="#!/usr/bin/env python3\n42;").stdout, "")
        self.assertEqual(self.membrane("run", "-", "-q", stdin="(async () => { console.log(42) })()").stdout, "42\n")
        self.assert_refused(self.membrane("run", "-", stdin="1 + 1", code=2), "does not say what language", "--lang")
        self.assertIn("looks like Rust", self.membrane("run", self.file("a.rs", "fn main() {\n  let a = 1;\n}"), code=2).stderr)
        self.assertIn("looks like C", self.membrane("run", "-", stdin="#include <stdio.h>\n// let\n", code=2).stderr)

    def test_languages_have_the_names_that_people_use(self):
        for word in ("py", "Python3", "python"):
            self.assertEqual(self.membrane("run", "--lang", word, "-e", "6 * 7", "-q").stdout, "42\n")
            self.membrane("check", "-", "--lang", word, stdin="x = 1")
            self.assertEqual(self.membrane("repl", word, stdin="6 * 7\n").stdout, "42\n")
        for word in ("ts", "typescript"):
            self.assertEqual(self.membrane("run", "--lang", word, "-e", "let a: number = 42; a", "-q").stdout, "42\n")
            self.membrane("check", "-", "--lang", word, stdin="let a: number = 1")
        self.assertEqual(self.membrane("repl", "--lang", "javascript", stdin="6 * 7\n").stdout, "42\n")

    def test_what_ends_a_program_ends_its_session(self):
        for language, entry, code in (("py", "exit()", 0), ("py", "quit", 0), ("py", "import sys; sys.exit(3)", 3), ("js", ".exit", 0),
                                      ("js", "process.exit(4)", 4), ("py", ":quit", 0), ("js", "/q", 0)):
            with self.subTest(entry=entry):
                done = self.membrane("repl", language, stdin=f"40 + 2\n{entry}\n5\n", code=code)
                self.assertEqual(done.stdout, "42\n")

    def test_commands_of_a_session_begin_with_either(self):
        done = self.membrane("repl", "js", stdin="var x = 1\n/fork\nx = 2\n/back to/.test('back to')\n:back\nx\n:frk\n/fork/.test('fork')\n")
        self.assertEqual(done.stdout, "fork 1\n2\ntrue\nback at fork 1\n1\ntrue\n")
        self.assertIn("There is no command :frk. Did you mean :fork? There are :help, :fork, ", done.stderr)
        self.assertFalse((self.folder / "state").exists(), "a history was kept without a terminal")

    def test_a_replay_says_which_directories_it_needs(self):
        (self.folder / "in").mkdir()
        self.file("in/x.txt", "read")
        program = self.file("p.py", "print(open('/in/x.txt').read())")
        self.assertEqual(self.membrane("run", program, "--dir", "in:ro", "--journal", "run.journal", "-q").stdout, "read\n")
        self.assertIn("/in to read", self.membrane("run", program, "--replay", "run.journal", code=2).stderr)
        self.file("in/x.txt", "something else")
        done = self.membrane("run", program, "--dir", "in:ro", "--replay", "run.journal", "-q")
        self.assertEqual(done.stdout, "read\n")

    def test_a_check_says_where_the_text_is_wrong_and_runs_nothing(self):
        for name, text, line, column in (("p.py", "print('ran')\nx = = 1\n", 2, 5), ("p.js", "console.log('ran')\nlet b = ;", 2, None),
                                         ("q.py", "é = (\n", 1, 6), ("r.ts", "let a: number = 1;\nlet b: = ;", 2, None)):
            with self.subTest(name=name):
                done = self.membrane("check", self.file(name, text), code=2)
                self.assertRegex(done.stdout, rf"^{name}:{line}:{column or r'[0-9]+'}: error\[\w+\]: ")
                self.assertNotIn("ran", done.stdout)
                found, = json.loads(self.membrane("check", name, "--json", code=2).stdout)["diagnostics"]
                self.assertEqual((found["line"], found["code"]), (line, "SyntaxError"))
        for name, text in (("p.py", "print('ran')"), ("p.js", "console.log('ran')"), ("p.mjs", "import x from './y.js'")):
            self.assertEqual(self.membrane("check", self.file(name, text)).stdout, f"{name}: no errors\n")
        self.assertEqual(self.membrane("check", "-", "--lang", "python", stdin="x = 1").stdout, "standard input: no errors\n")
        self.membrane("check", "p.py", "--expand", code=2)

    def test_what_a_program_made_comes_back_with_out(self):
        program = self.file("p.py", """
import os
from membrane import chart, display
os.makedirs("/plots/deep"); open("/plots/deep/a.txt", "w").write("made"); open("/b.bin", "wb").write(bytes(range(256)))
display(chart.bar({"a": 1}))
""")
        self.assertIn("--out DIR", self.membrane("run", program).stderr)
        report = json.loads(self.membrane("run", program, "--out", "results", "--json").stdout)
        self.assertEqual(sorted(report["kept"]), ["results/b.bin", "results/display-1.svg", "results/plots/deep/a.txt"])
        self.assertEqual((self.folder / "results/plots/deep/a.txt").read_text(), "made")
        self.assertEqual((self.folder / "results/b.bin").read_bytes(), bytes(range(256)))
        self.assertIn("<svg", (self.folder / "results/display-1.svg").read_text())
        self.file("results/b.bin", "older, and longer than what replaces it" * 100)
        done = self.membrane("run", program, "--out", "results/")
        self.assertIn("kept: results/b.bin, ", done.stderr)
        self.assertNotIn("--out DIR", done.stderr)
        self.assertEqual((self.folder / "results/b.bin").read_bytes(), bytes(range(256)))

    def test_out_writes_through_nothing_that_lies_in_the_way(self):
        program = self.file("p.py", "import os\nos.makedirs('/d'); open('/d/x', 'w').write('new')")
        (self.folder / "outside").mkdir()
        self.file("outside/x", "untouched")
        (self.folder / "results").mkdir()
        for name, target in (("d", "../outside"), ("d", str(self.folder / "outside"))):
            (self.folder / "results" / name).symlink_to(target)
            self.assertIn("d/x cannot be written", self.membrane("run", program, "--out", "results", code=2).stderr)
            (self.folder / "results" / name).unlink()
        (self.folder / "results/d").mkdir()
        (self.folder / "results/d/x").symlink_to(self.folder / "outside/x")
        self.membrane("run", program, "--out", "results", code=2)
        (self.folder / "results/d/x").unlink()
        os.mkfifo(self.folder / "results/d/x")
        self.membrane("run", program, "--out", "results", code=2)
        self.assertEqual((self.folder / "outside/x").read_text(), "untouched")
        self.membrane("run", program, "--out", program, code=2)

    def test_a_replay_without_the_clock_and_randomness_of_the_recording_differs(self):
        program = self.file("p.py", "import os, time\nprint(time.time(), os.urandom(4).hex())")
        grants = ["--allow", "time", "--allow", "random"]
        first = self.membrane("run", program, *grants, "--journal", "run.journal", "-q").stdout
        self.assertEqual(self.membrane("run", program, *grants, "--replay", "run.journal", "-q").stdout, first)
        for granted in ([], grants[:2], grants[2:]):
            with self.subTest(granted=granted):
                report = json.loads(self.membrane("run", program, *granted, "--replay", "run.journal", "--json", code=1).stdout)
                self.assertEqual((report["outcome"], report["error"]["code"]), ("diverged", "replay_diverged"))
                self.assertIn("grants of time, random", report["error"]["hint"])


    def test_a_file_that_is_not_granted_is_reported_with_the_flag_that_grants_it(self):
        (self.folder / "in").mkdir()
        self.file("in/x.txt", "read")
        self.file("y.txt", "too")
        for path, grant in ("in/x.txt", "fs:read:in:/in"), ("/in/x.txt", None), ("y.txt", "fs:read:y.txt:/y.txt"):
            program = self.file("p.py", f"print(open({path!r}).read())")
            reported = self.membrane("run", program, code=1).stderr
            if grant is None:
                self.assertIn("No file or directory of the host is granted.", reported)
                self.assertNotIn("is here", reported)
                continue
            self.assertIn(f"hint: {path} is here, and not granted: --allow {grant} grants it.", reported)
            self.membrane("run", program, "--allow", grant)

    def test_a_granted_file_is_reported_with_its_path_in_the_program(self):
        (self.folder / "data").mkdir()
        self.file("data/log.csv", "a,b")
        absolute = str(self.folder / "data/log.csv")
        program = self.file("p.py", "import sys\nprint(open(sys.argv[1]).read())")
        script = self.file("p.js", "console.log(require('fs').readFileSync(process.argv[2], 'utf8'))")
        for run in program, script:
            for grant, path, seen in (("fs:read:./data/log.csv", "data/log.csv", "/log.csv"),
                                      ("fs:read:./data", absolute, "/data/log.csv"),
                                      (f"fs:read:{self.folder}/data/:/in", "data/log.csv", "/in/log.csv")):
                with self.subTest(run=run, grant=grant):
                    reported = self.membrane("run", run, "--allow", grant, path, code=1).stderr
                    self.assertIn(f"hint: {path} is granted, and the program sees it as {seen}: open that.", reported)
                    self.assertNotIn("not granted", reported)
                    self.assertEqual(self.membrane("run", run, "--allow", grant, seen, "-q").stdout, "a,b\n")

    def test_a_file_that_is_nowhere_is_offered_no_grant(self):
        (self.folder / "data").mkdir()
        program = self.file("p.py", "import sys\nprint(open(sys.argv[1]).read())")
        reported = self.membrane("run", program, "nofile.csv", code=1).stderr
        self.assertIn("hint: nofile.csv is not here, either.\n", reported)
        self.assertNotIn("--allow", reported)
        reported = self.membrane("run", program, "--allow", "fs:read:./data", "data/no.csv", code=1).stderr
        self.assertIn("hint: data/no.csv is not here, either. Of the host, the program can access /data (to read).\n", reported)

    def test_a_missing_directory_to_write_to_has_a_hint_that_makes_or_grants_it(self):
        reported = self.membrane("run", "-e", "open('/nope/x', 'w')", code=1).stderr
        self.assertIn("hint: There is no directory /nope in the sandbox: os.makedirs makes it.", reported)
        reported = self.membrane("run", "-e", "open('nope/x', 'w')", code=1).stderr
        self.assertIn("hint: There is no directory /nope in the sandbox: os.makedirs makes it.", reported)
        (self.folder / "out").mkdir()
        reported = self.membrane("run", "-e", "open('out/x', 'w')", code=1).stderr
        self.assertIn("hint: out is here, and not granted: --allow fs:write:out:/out grants it.", reported)
        self.membrane("run", "-e", "open('out/x', 'w').close()", "--allow", "fs:write:out:/out")

    def test_hints_do_not_mention_files_outside_the_working_directory(self):
        for path in ("/etc/passwd", "../" + self.folder.name + "/y.txt", str(self.folder / "y.txt")):
            self.file("y.txt", "")
            for name, text in (("p.py", f"open({path!r})"), ("p.js", f"require('fs').readFileSync({path!r})")):
                done = subprocess.run([COMMAND, "run", self.file(name, text)], cwd=self.folder, env=self.environment,
                                      capture_output=True, text=True, timeout=SECONDS)
                self.assertIn(done.returncode, (1, 2))
                self.assertNotIn("is here", done.stderr)

    def test_a_module_beside_the_program_is_reported_with_the_grant_for_it(self):
        (self.folder / "app").mkdir()
        self.file("app/helper.py", "x = 42")
        program = self.file("app/main.py", "import helper\nprint(helper.x)")
        reported = self.membrane("run", program, code=1).stderr
        self.assertIn("helper is next to the program, and not granted: --dir app:/:ro grants it.", reported)
        self.assertNotIn("--with", reported)
        self.assertEqual(self.membrane("run", program, "--dir", "app:/:ro", "-q").stdout, "42\n")

    def test_an_empty_line_in_a_block_does_not_end_it(self):
        entries = ("def f(n):\n    n += 1\n\n    return n\n\nf(1)\n"
                   "try:\n    1 / 0\n\nexcept ZeroDivisionError:\n    x = 5\n\n\nx\n")
        done = self.membrane("repl", "--json", stdin=entries)
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(r["outcome"], r["result"]) for r in reports],
                         [("ok", ""), ("ok", "2"), ("ok", ""), ("ok", "5")])


class PackagesOfJavaScript(WithLanguages):
    def setUp(self):
        super().setUp()
        if subprocess.run([COMMAND, "run", "--lang", "js", "-e", "1"], capture_output=True, env=self.environment,
                          timeout=SECONDS).returncode != 0:
            self.skipTest("js is not installed")
        for folder in "node_modules/twice", "data":
            (self.folder / folder).mkdir(parents=True)
        self.file("node_modules/twice/package.json", '{"name": "twice", "exports": {"import": "./m.mjs", "require": "./c.js"}}')
        self.file("node_modules/twice/c.js", "module.exports = (n) => 2 * n")
        self.file("node_modules/twice/m.mjs", "export default (n) => 2 * n + 0.5")
        self.file("data/in.txt", "21")

    def test_come_from_a_granted_directory_and_replay(self):
        program = self.file("p.js", "const fs = require('fs');\nconst twice = require('twice');\n"
                                    "fs.writeFileSync('/data/out.txt', String(twice(Number(fs.readFileSync('/data/in.txt', 'utf8')))));\n"
                                    "import('twice').then((m) => console.log(m.default(1)));\n")
        grants = ["--allow", "fs:read:./node_modules:/node_modules", "--allow", "fs:write:./data:/data"]
        self.assertEqual(self.membrane("run", program, *grants, "--journal", "run.journal", "-q").stdout, "2.5\n")
        self.assertEqual((self.folder / "data/out.txt").read_text(), "42")
        self.file("data/in.txt", "something else")
        self.assertEqual(self.membrane("run", program, *grants, "--replay", "run.journal", "-q").stdout, "2.5\n")

    def test_missing_packages_say_how_to_get_them(self):
        reported = self.membrane("run", self.file("p.mjs", "import twice from 'twice';"), code=1).stderr
        for part in ("Cannot find module 'twice'", "--with twice", "--allow fs:read:./node_modules:/node_modules"):
            self.assertIn(part, reported)
        reported = self.membrane("run", self.file("p.js", "require('fs').readFileSync('/data/in.txt')"), code=1).stderr
        for part in ("ENOENT: no such file or directory, open '/data/in.txt'", "--allow fs:read:HOST_DIRECTORY:/data"):
            self.assertIn(part, reported)

    def test_one_beside_the_program_is_reported_with_the_flag_that_grants_it(self):
        (self.folder / "app/lib").mkdir(parents=True)
        self.file("app/lib/half.js", "module.exports = 21; exports.n = 1")
        for name, text in (("p.js", "console.log(2 * require('./lib/half'))"), ("p.mjs", "import n from './lib/half.js'; console.log(2 * n)")):
            program = self.file(f"app/{name}", text)
            reported = self.membrane("run", program, code=2).stderr
            self.assertIn("is next to the program, and not granted: --dir app:/:ro grants it.", reported)
            self.assertNotIn("HOST_DIRECTORY", reported)
            self.assertEqual(self.membrane("run", program, "--dir", "app:/:ro", "-q").stdout, "42\n")
        reported = self.membrane("run", self.file("p.js", "require('./none')"), code=2).stderr
        self.assertNotIn("is next to", reported)

    def test_a_limit_of_host_calls_is_named(self):
        grants = ["--allow", "fs:read:./node_modules:/node_modules", "--host-calls", "2"]
        self.assertIn("EBUDGET", self.membrane("run", self.file("p.js", "require('twice')"), *grants, code=1).stderr)


class AgentInLanguages(WithLanguages):
    def task(self, language, *replies, options=(), code=0):
        done = subprocess.run([COMMAND, "agent", "--print-prompt", "--language", language], capture_output=True,
                              env=self.environment, timeout=SECONDS)
        if done.returncode != 0:
            self.skipTest(f"{language} is not installed")
        answers = self.file("answers.jsonl", "".join(json.dumps({"content": reply}) + "\n" for reply in replies))
        return self.membrane("agent", "task", "--model-file", answers, "--language", language, "--transcript", "run.jsonl",
                             *options, code=code)

    def test_a_task_in_python_ends_in_its_answer_and_replays(self):
        (self.folder / "data").mkdir()
        self.file("data/a.csv", "n\n2\n40\n")
        text = self.task("python", "```python\nimport csv\nrows = [int(r['n']) for r in csv.DictReader(open('/data/a.csv'))]\n```",
                         "```python\nopen('/etc/passwd')\n```", "```python\nsum(rows)\n```",
                         "```python\nfrom membrane import agent\nagent.submit(str(sum(rows)))\n```",
                         options=["--allow", "fs:read:./data:/data", "--fuel", "2e9"]).stdout
        for part in ("result:\n42\n", "FileNotFoundError", "── answer\n42\n", "4 steps\n"):
            self.assertIn(part, text)
        done = self.membrane("agent", "--replay", "run.jsonl", "--fuel", "2e9", "--allow", "fs:read:./data:/data")
        self.assertEqual(done.stderr, "")

    def test_a_task_in_javascript_and_wat_continues_when_a_step_has_no_fuel(self):
        text = self.task("js,wat", "```js\nlet x = 20\n```", "```js\nfor (;;) {}\n```", fenced(SEVEN)["content"],
                         "```js\nx + 22\n```", "ANSWER: done", options=["--fuel", "5e8"]).stdout
        for part in ("outcome: out_of_fuel", "results: 7 (i32)", "result:\n42\n", "── answer\ndone\n"):
            self.assertIn(part, text)
        lines = [json.loads(line) for line in (self.folder / "run.jsonl").read_text().splitlines()]
        self.assertEqual((lines[0]["version"], lines[0]["languages"]), (2, ["js", "wat"]))
        self.assertEqual([line["language"] for line in lines if line["type"] == "program"], ["js", "js", "wat", "js"])
        done = self.membrane("agent", "--replay", "run.jsonl", "--fuel", "5e8")
        self.assertEqual(done.stderr, "")


class Served(CommandTest):
    """With a scripted model server over real HTTP, in a process of its own."""

    def serve(self, *answers):
        """Starts the server; returns the environment that names it."""
        self.server = subprocess.Popen([MODEL_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop)
        self.server.stdin.write(json.dumps({"answers": answers}))
        self.server.stdin.close()
        port = int(self.server.stdout.readline())
        # It logs each request, and would stop at a full pipe.
        self.drain = threading.Thread(target=self.server.stdout.read)
        self.drain.start()
        return {"MEMBRANE_MODEL": "scripted", "MEMBRANE_BASE_URL": f"http://127.0.0.1:{port}/v1",
                "MEMBRANE_API_KEY": "the-key-of-this-test"}

    def stop(self):
        self.server.kill()
        self.server.wait()
        self.drain.join()
        self.server.stdout.close()

    @staticmethod
    def says(content):
        return {"json": {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
                         "usage": {"prompt_tokens": 10, "completion_tokens": 5}}}

    @staticmethod
    def streams(content, **how):
        half = len(content) // 2
        pieces = [{"choices": [{"delta": {"content": text}}]} for text in (content[:half], content[half:])]
        return {"events": [*pieces, {"choices": [{"delta": {}, "finish_reason": "stop"}]}, "[DONE]"], **how}


class AgentOverHttp(Served):
    def test_a_task_over_http_with_faults(self):
        program = fenced(Agent.PRINTS)["content"]
        environment = self.serve({"status": 503, "body": "busy"}, self.streams(program, split=7),
                                 {"status": 429, "headers": {"Retry-After": "0"}, "body": "slower"},
                                 self.says("ANSWER: 42"))
        done = self.membrane("agent", "task", "--json", "--transcript", "run.jsonl", **environment)
        result = json.loads(done.stdout)
        self.assertEqual((result["stop"], result["answer"]), ("answered", "42"))
        self.assertEqual(result["totals"]["steps"], 1)
        self.assertNotIn("the-key-of-this-test", done.stdout + done.stderr + (self.folder / "run.jsonl").read_text())
        self.assertEqual(self.membrane("agent", "--replay", "run.jsonl").stderr, "")

    def test_a_refusal_ends_with_cause_and_fix(self):
        environment = self.serve({"status": 401, "json": {"error": {"message": "wrong key the-key-of-this-test"}}})
        result = json.loads(self.membrane("agent", "task", "--json", code=2, **environment).stdout)
        self.assertEqual(result["stop"], "model_failed")
        self.assertIn("401", result["error"]["message"])
        self.assertIn("MEMBRANE_API_KEY", result["error"]["hint"])
        self.assertNotIn("the-key-of-this-test", json.dumps(result))

    def test_a_program_asks_the_model(self):
        environment = self.serve(self.says("four"))
        program = '(func (export "run") (call $io.print (call $ai.complete! (string "2+2?"))))'
        report = json.loads(self.membrane("run", "-e", program, "--allow", "ai", "--json", **environment).stdout)
        self.assertEqual((report["stdout"], report["tokens_used"]), ("four", 15))

    def test_an_interrupt_ends_the_task(self):
        environment = self.serve({"events": [{"choices": [{"delta": {"content": "I think"}}]}], "end": "stall"})
        process = subprocess.Popen([COMMAND, "agent", "task"], cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**self.environment, **environment})
        self.addCleanup(self.end, process)
        self.assertIn("step 1", process.stdout.readline())
        self.assertEqual(process.stdout.read(len("I think")), "I think")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=SECONDS)
        self.assertIn("cancelled", output)
        self.assertEqual(process.returncode, 1)


class Conversation(Served):
    def test_tasks_and_commands_over_a_pipe(self):
        environment = self.serve(self.says(fenced(Agent.PRINTS)["content"]), self.says("ANSWER: It is 42."),
                                 self.says("ANSWER: Still 42."))
        done = self.membrane("agent", "--allow", "kv", **environment,
                             stdin="/policy\nWhat is it?\nAnd \\\nnow?\n/budget\n/save saved.jsonl\n/quit\nnever read\n")
        for part in ("key-value store", "forty-two", "It is 42.", "Still 42.", "Saved to saved.jsonl"):
            self.assertIn(part, done.stdout)
        self.assertRegex(done.stdout, r"fuel +\d+ left")
        self.assertNotIn("\x1b", done.stdout)
        lines = [json.loads(line) for line in (self.folder / "saved.jsonl").read_text().splitlines()]
        self.assertEqual([line["text"] for line in lines if line["type"] == "task"], ["What is it?", "And \nnow?"])

    def test_a_slip_in_a_command_is_answered(self):
        answers = self.file("answers.jsonl", '{"content": "ANSWER: x"}\n')
        self.assertIn("Did you mean /budget?", self.membrane("agent", "--model-file", answers, stdin="/budgt\n").stdout)

    def test_the_end_of_the_input_leaves(self):
        answers = self.file("answers.jsonl", '{"content": "ANSWER: from the file"}\n')
        self.assertIn("from the file", self.membrane("agent", "--model-file", answers, stdin="a task").stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
