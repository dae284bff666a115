"""The help, options, completions and output of the command, and what it says of itself."""

import json
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import unittest

from command_testing import COMMAND, CommandTest, ROOT, SECONDS, SEVEN, fenced

COMMANDS = [[], ["run"], ["thaw"], ["check"], ["agent"], ["mcp"], ["policy"], ["policy", "explain"], ["policy", "test"],
            ["verify"], ["replay"], ["keys"], ["keys", "generate"], ["keys", "rotate"], ["keys", "revoke"], ["keys", "list"],
            ["keys", "publish"], ["capabilities"], ["doctor"], ["spectest"],
            ["languages"], ["languages", "list"], ["languages", "add"], ["languages", "extend"], ["languages", "remove"], ["languages", "warm"], ["repl"], ["completion"], ["man"]]
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


class Usage(CommandTest):
    def test_every_help_has_an_example(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                done = self.membrane(*command, "--help")
                self.assertRegex(done.stdout, r"Examples?:\n(  .*\n)*  membrane " + " ".join(command))
                self.assertEqual(done.stderr, "")

    def test_the_word_help_is_the_option(self):
        for command in [], ["run"], ["policy", "explain"]:
            self.assertEqual(self.membrane("help", *command).stdout, self.membrane(*command, "--help").stdout)
        self.assertEqual(self.membrane("help", "--help").stdout, self.membrane("--help").stdout)
        self.assert_refused(self.membrane("help", "chekc", code=2), "unknown command chekc", "Did you mean check?")

    def test_columns_of_a_help_are_aligned_by_characters(self):
        for command in COMMANDS:
            for line in self.membrane(*command, "--help").stdout.splitlines():
                option = re.match(r"  (-{1,2}[a-z]\S*(?: \S+)?) {2,}(?=\S)", line)
                if option:
                    self.assertEqual(option.end(), 30, line)

    def test_defaults_are_shown_in_one_way(self):
        for command in COMMANDS:
            text = self.membrane(*command, "--help").stdout
            self.assertNotRegex(text, r"\(default [^:]| \(\d+\w*\)|default\)", command)
            self.assertNotIn("Of --kind", text)

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
        for word in ("version", "-V"):
            self.assertEqual(self.membrane(word).stdout, self.membrane("--version").stdout)

    def test_an_unknown_option_is_named_with_the_nearest(self):
        self.assert_refused(self.membrane("run", "x.wat", "--fule", "3", code=2), "unknown option --fule",
                            "Did you mean --fuel?")
        self.assert_refused(self.membrane("check", "--jsn", code=2), "unknown option --jsn", "--json")
        self.assert_refused(self.membrane("repl", "--fuel", code=2), "--fuel needs a value: N", "--help")
        for arguments, unknown, meant in (
                (["run", "--alow", "kv", "-e", "print(2)"], "--alow", "--allow"),
                (["run", "--language", "js", "-e", "1"], "--language", "--lang"),
                (["run", "--timeout", "5s", "-e", "1"], "--timeout", "--wall"), (["run", "-c", "print(1)"], "-c", "-e"),
                (["agent", "--lang", "js", "task"], "--lang", "--language")):
            self.assert_refused(self.membrane(*arguments, code=2), f"unknown option {unknown}\n", f"Did you mean {meant}?")
        self.assert_refused(self.membrane("snapshot", "sb", "--name", "x", code=2), "unknown option --name", "--help")
        self.assert_refused(self.membrane("exec", "-e", "1", code=2), "id is required", "--help")
        self.assert_refused(self.membrane("exec", "", "-e", "1", code=2), "id: it is empty", "--help")
        self.assert_refused(self.membrane("run", "-e", "a", "-e", "b", code=2), "--evaluate is given more than once", "Give it once.")
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
        self.assert_refused(self.membrane(code=2), "no command was given\n", "membrane help lists all commands")
        self.assert_refused(self.membrane("policy", code=2), "membrane policy needs a command: explain or test\n", "policy --help")
        self.assert_refused(self.membrane("audit", code=2), "membrane audit needs a command: show or verify\n", "audit --help")

    def test_options_before_the_command_or_against_each_other(self):
        done = self.membrane("--token", "mbr_secret", "exec", "sbx1", "-e", "1", code=2)
        self.assert_refused(done, "--token comes after the command\n", "membrane exec --token")
        self.assertNotIn("mbr_secret", done.stderr)
        self.assert_refused(self.membrane("exec", "-d", "-i", "sbx1", "-e", "1", code=2), "exclude each other\n", "exec --help")

    def test_a_head_of_an_audit_log_is_a_sha256(self):
        self.file("audit.log", "")
        done = self.membrane("audit", "verify", "--head", "0000", "audit.log", code=2)
        self.assert_refused(done, "--head 0000 is no head of a log\n", "64 hexadecimal digits")

    def test_an_option_that_may_be_meant_for_the_program(self):
        self.file("x.wat", '(func (export "run"))')
        way = "Write -- before options of the program's own: membrane run x.wat -- "
        self.assert_refused(self.membrane("run", "x.wat", "--output", "v.csv", code=2), '--output: "v.csv" is not an amount', way + "--output")
        self.assert_refused(self.membrane("run", "x.wat", "--kind", "fast", code=2), "--kind fast is unknown", way + "--kind")
        self.assert_refused(self.membrane("run", "x.wat", "--input", "v.csv", code=2), "cannot open v.csv", way + "--input")
        done = self.membrane("run", "x.wat", "--env", "NOT_SET_ANYWHERE")
        self.assertIn("membrane: no variable NOT_SET_ANYWHERE is set here, and --env NOT_SET_ANYWHERE passes none\n", done.stderr)
        self.assertIn("membrane run FILE -- --env NOT_SET_ANYWHERE\n", done.stderr)

    def test_a_word_that_is_no_file_here_is_reported_as_that(self):
        (self.folder / "data").mkdir()
        self.file("analyse.py", "")
        for words, cause, fix in ((["tol"], "there is no file tol here", "Check the path. For a command of Linux: "),
                                  (["data"], "data is a directory here\n", "hint: Name a file in it.\n"),
                                  (["data", "x"], "data is a directory here\n", "Name a file in it. For a command of Linux: "),
                                  (["print(1)"], "there is no file print(1) here\n", "membrane run -e '…'.\n"),
                                  (["print(1.5)"], "cannot open print(1.5)", "membrane run -e"),
                                  (["--", "-e", "1"], "there is no file -e here\n", "write -e before --.\n"),
                                  (["python", "analyse.py"], "there is no file python here", "membrane run analyse.py.")):
            self.assert_refused(self.membrane("run", *words, code=2), cause, fix)
        self.assert_refused(self.membrane("thaw", "gone", code=2), "cannot open gone", "hint: Check the path")

    def test_a_program_in_another_language_is_named(self):
        for name, text, cause, fix in (("a.rb", "puts 1\n", "a.rb is Ruby", "membrane languages list"),
                                       ("n.ipynb", '{"cells": []}\n', "n.ipynb is a notebook", "jupyter nbconvert --to script n.ipynb")):
            self.file(name, text)
            self.assert_refused(self.membrane("run", name, code=2), cause, fix)

    def test_a_missing_image_is_answered_with_those_that_exist(self):
        self.assert_refused(self.membrane("shell", code=2), "there is no image debian", "`membrane image import FILE.tar --tag NAME`")
        (self.folder / "files").mkdir()
        self.file("files/a", "")
        self.membrane("image", "import", "files", "--tag", "mine")
        for verb in "run", "shell":
            self.assert_refused(self.membrane(verb, "mine", "ls", "/", code=2), "mine is an image\n",
                                f"membrane {verb} --image mine -- ls /\n")
        for words in ["shell"], ["run", "--kind", "linux", "--", "ls"], ["run", "ls"]:
            self.assert_refused(self.membrane(*words, code=2), "there is no image debian", "--image mine.")
        self.membrane("image", "import", "files", "--tag", "other")
        self.membrane("image", "import", "files", "--tag", "third")
        self.assert_refused(self.membrane("shell", code=2), "there is no image debian", "Name one by --image")
        done = self.membrane("image", "rm", "other", "gone", "third", code=2)
        self.assertEqual(done.stdout, "other\nthird\n")
        for part in "removed; ", "there is no image gone":
            self.assertIn(part, done.stderr)
        self.assertEqual(self.membrane("image", "ls").stdout.split()[0], "mine")

    def test_habits_of_docker_are_answered(self):
        self.file("chart.py", "print(1)\n")
        for words, cause, fix in ((["run", "-v", "./d:/d", "chart.py"], "unknown option -v\n", "--dir HOST:GUEST"),
                                  (["run", "-it", "chart.py"], "unknown option -it\n", "-t gives"),
                                  (["run", "--rm", "chart.py"], "unknown option --rm\n", "Leave it out"),
                                  (["run", "-p", "80:80", "chart.py"], "unknown option -p\n", "nothing connects to a sandbox"),
                                  (["run", "-v", "a", "-e", "print(1)"], "unknown option -v\n", "--dir HOST:GUEST"),
                                  (["shell", "--rm"], "unknown option --rm\n", "Leave it out"),
                                  (["run", "-e", "FOO=bar", "chart.py"], "FOO=bar is a variable\n",
                                   "Write membrane run --env FOO=bar chart.py."),
                                  (["run", "chart.py", "-e", "FOO=bar"], "the program is chart.py already\n", "--env NAME=VALUE"),
                                  (["images"], "unknown command images\n", "membrane image ls"),
                                  (["kill", "x"], "unknown command kill\n", "membrane rm ID"), (["stop"], "unknown command stop\n", "pause ID"),
                                  (["inspect"], "unknown command inspect\n", "membrane info ID"),
                                  (["build", "."], "unknown command build\n", "membrane image build -t NAME ."),
                                  (["pull", "debian"], "unknown command pull\n", "membrane image import FILE.tar --tag NAME"),
                                  (["up"], "unknown command up\n", "membrane serve starts the service")):
            self.assert_refused(self.membrane(*words, code=2), cause, fix)

    def test_every_list_has_both_verbs(self):
        for group in "image", "languages", "keys":
            self.assertEqual(self.membrane(group, "ls").stdout, self.membrane(group, "list").stdout)
            self.assertEqual(self.membrane("help", group, "ls").stdout, self.membrane(group, "list", "--help").stdout)
        for command in "tokens", "snapshots", "templates":
            for verb in "ls", "list":
                self.assertEqual(self.membrane(command, verb, "--help").stdout, self.membrane(command, "--help").stdout)

    def test_the_probable_meaning_is_suggested(self):
        for arguments, meant in ((["x.wat"], "membrane run x.wat"),
                                 (["x.wasm"], "membrane run x.wasm"), (["agent", "two", "words"], "quotes"),
                                 (["policy", "p.toml"], "membrane policy explain p.toml")):
            self.assert_refused(self.membrane(*arguments, code=2), arguments[-1], meant)

    def test_the_grants_in_a_hint_are_accepted(self):
        for wrong in ("http", "http://127.0.0.1:24801/", "https://example.org", "http:GET:127.0.0.1:24801", "example.org",
                      "http:GET:example.org", "http:example.org/v1", "localhost:8000/x", "GET:https://example.org/*", "http:*",
                      "http:get:https://example.org/*", "fs", "fs:rw:./data", "fs:ro:./data", "fs:./data:ro", "./data", "fs:read:..",
                      "fs:wirte:it's here", "sql:./a.db", "kv:", "time:real"):
            refused = self.membrane("policy", "explain", "--allow", wrong, code=2).stderr
            grants = re.findall(r"--allow \S.*", refused.split("hint:")[1])
            self.assertTrue(grants, refused)
            for word in shlex.split(" ".join(grants).replace(",", "")):
                if ":" in word or word in ("kv", "time"):
                    self.membrane("policy", "explain", "--allow", word)

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
        self.assertRegex(shown, r"  memory +[1-9]\d* MiB, in pages of \d+ KiB\n")
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
        self.assert_refused(self.membrane("capabilities", "--markdown", "--prompt", code=2), "exclude each other", "--help")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
