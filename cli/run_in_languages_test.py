"""membrane run, with programs in Python and JavaScript."""

import http.server
import json
import os
import subprocess
import sys
import threading
import unittest

from command_testing import COMMAND, SECONDS, WithLanguages
from linux_testing import Terminal


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

    def test_a_byte_order_mark_is_not_part_of_a_program(self):
        mark = b"\xef\xbb\xbf"
        for name, text in (("p.py", b"print(7)"), ("p.js", b"console.log(7)"), ("p.ts", b"console.log(7 as number)"),
                           ("p.wat", b'(func (export "run") (result i32) (i32.const 7))')):
            with self.subTest(name=name):
                self.assertEqual(self.membrane("run", self.file(name, mark + text), "-q").stdout, "7\n")
                self.assertEqual(self.membrane("check", name).stdout, f"{name}: no errors\n")
        self.assertEqual(self.membrane("run", "-q", "-e", "\ufeff6 + 1").stdout, "7\n")
        policy = self.file("policy.toml", mark + b'[limits]\noutput = "2 MiB"\n')
        self.assertEqual(self.membrane("run", "--policy", policy, "-q", "-e", "7").stdout, "7\n")

    def test_a_python_program_that_is_not_utf8_is_refused(self):
        program = self.file("latin.py", "# -*- coding: latin-1 -*-\nprint('caf\u00e9')\n".encode("latin-1"))
        for command in "run", "check":
            refused = self.membrane(command, program, code=2).stderr
            self.assertIn("latin.py is not UTF-8: line 2 has the byte 0xE9", refused)
            self.assertIn("iconv -f latin1 -t utf-8 latin.py > utf-8.py", refused)
        subprocess.run(["iconv", "-f", "latin1", "-t", "utf-8", "latin.py", "-o", "utf-8.py"], cwd=self.folder, check=True)
        self.assertEqual(self.membrane("run", "utf-8.py", "-q").stdout, "caf\u00e9\n")

    def test_output_that_is_not_text_counts_by_its_bytes(self):
        written = "import sys; sys.stdout.buffer.write(b'\\xff' * 1000); sys.stdout.flush()"
        report = json.loads(self.membrane("run", "--json", "--output", "1020", "-e", written + "; 'the value'").stdout)
        self.assertEqual((report["outcome"], report["stdout"], report["result"]), ("ok", "\ufffd" * 1000, "'the value'"))
        self.assertNotIn("output_bytes_cut", report)
        done = subprocess.run([COMMAND, "run", "--output", "1000", "-e", written], capture_output=True, env=self.environment,
                              timeout=SECONDS)
        self.assertEqual((done.returncode, done.stdout), (0, b"\xff" * 1000))
        self.assertNotIn(b"cut", done.stderr)
        self.membrane("run", "--json", "--output", "999", "-e", written, code=1)

    def test_a_sleep_that_outlasts_the_run_is_where_it_ends(self):
        program = self.file("sleeps.py", "import time\n\ntime.sleep(60)\n")
        reported = self.membrane("run", "--allow", "time", "--wall", "1s", program, code=1).stderr
        self.assertIn("error[timed_out] sleeps.py:3", reported)

    def test_a_program_has_variables_of_its_environment(self):
        shows = {"python": "import os; [os.environ.get(name) for name in ('A', 'QUOTED', 'FROM_HOST')]",
                 "js": "JSON.stringify([process.env.A, process.env.QUOTED, process.env.FROM_HOST])"}
        given = ["--env", "A=1", "--env", "A=2", "--env", "QUOTED='\"\u20ac\\n", "--env", "FROM_HOST"]
        for language, code in shows.items():
            shown = self.membrane("run", "--lang", language, "-q", *given, "-e", code, FROM_HOST="yes").stdout
            self.assertEqual([shown.count(each) for each in ("2", "\u20ac", "yes")], [1, 1, 1], shown)
        program = self.file("env.py", "import os, sys; print(os.environ['A'], __name__, sys.argv[1:])")
        self.assertEqual(self.membrane("run", program, "--env", "A=b", "-q", "x").stdout, "b __main__ ['x']\n")
        traceback = self.membrane("run", "--env", "A=b", "-e", "1 / 0", code=1).stderr
        self.assertEqual(traceback, self.membrane("run", "-e", "1 / 0", code=1).stderr.split("fuel: ")[0] +
                         "fuel: " + traceback.split("fuel: ")[1])
        self.membrane("keys", "generate")
        refused = self.membrane("run", "--env", "A=b", "--seal", "a.receipt", "-e", "1", code=2)
        self.assertIn("--env with --seal is for WebAssembly", refused.stderr)

    def test_local_time_follows_tz(self):
        python = "import datetime; print(datetime.datetime.fromtimestamp(1783166400).hour)"  # at noon
        javascript = "console.log(new Date(1783166400000).getHours())"
        for zone, hour in (("Asia/Tokyo", 21), ("EST5EDT,M3.2.0,M11.1.0", 8), ("JST-9", 21), ("Nowhere/Atlantis", 12), ("", 12)):
            for language, program in (("python", python), ("js", javascript)):
                with self.subTest(zone=zone, language=language):
                    done = self.membrane("run", "-q", "--env", f"TZ={zone}", "--lang", language, "-e", program)
                    self.assertEqual(done.stdout, f"{hour}\n")
        changes = ("import os, time\nfor zone in 'Asia/Tokyo', 'UTC':\n    os.environ['TZ'] = zone\n    time.tzset()\n"
                   "    print(time.localtime(1783166400).tm_hour, time.tzname)")
        self.assertEqual(self.membrane("run", "-q", "-e", changes).stdout, "21 ('JST', 'JST')\n12 ('UTC', 'UTC')\n")

    def test_whole_numbers_of_pandas_have_64_bits(self):
        code = ("import pandas as pd; of = pd.Series([3e9, 5.0]); "
                "[int((of.astype(kind) * 100).max()) for kind in (int, 'int')], str(pd.Series([1], dtype=int).dtype)")
        self.assertEqual(self.membrane("run", "-q", "-e", code).stdout, "([300000000000, 300000000000], 'int64')\n")

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
        reported = self.membrane("run", "-", "--lang", "py", stdin="input()", code=1).stderr
        self.assertIn("EOFError", reported)
        self.assertIn("give the program input by --input FILE.\n", reported)
        reported = self.membrane("run", "-e", "input()", code=1).stderr
        self.assertIn("EOFError", reported)
        self.assertIn("give the program input by a pipe or --input FILE.\n", reported)

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
        self.assertIn("hint: There is no nofile.csv in the current directory, either.\n", reported)
        self.assertNotIn("--allow", reported)
        reported = self.membrane("run", program, "--allow", "fs:read:./data", "data/no.csv", code=1).stderr
        self.assertIn("hint: There is no data/no.csv in the current directory, either. The program can access ./data as /data (read).\n", reported)

        reported = self.membrane("run", "-e", "open('/in/no.csv')", "--allow", "fs:write:data:/in", code=1).stderr
        self.assertIn("hint: The program can access data as /in (read and write).\n", reported)

    def test_a_text_in_the_other_language_has_a_hint(self):
        for name, text, hint in (("a.py", "const x = 1;\nconsole.log(x);\n", "The text ran as Python, and looks like JavaScript: --lang js runs it as that."),
                                 ("a.js", "def f(x):\n    return x\nprint(f(1))\n", "The text ran as JavaScript, and looks like Python: --lang python runs it as that.")):
            self.assertIn(f"hint: {hint}\n", self.membrane("run", self.file(name, text), code=1).stderr)
        self.assertNotIn("looks like", self.membrane("run", self.file("b.py", "x = = 1\n"), code=1).stderr)

    def test_a_full_quota_of_own_files_is_named(self):
        for code in (["-e", "open('/tmp/x', 'wb').write(b'x' * (70 << 20))"],
                     ["--lang", "js", "-e", "require('fs').writeFileSync('/tmp/x', new Uint8Array(70 << 20))"]):
            self.assertIn("hint: A program's own files may have 64 MiB together, and 10,000 names: ", self.membrane("run", *code, code=1).stderr)

    def test_an_object_too_large_for_any_memory_is_no_matter_of_the_limit(self):
        for limit in ([], ["--memory", "4GiB"]):
            reported = self.membrane("run", "-e", "x = [0] * 10**10", *limit, code=1).stderr
            self.assertIn("no object can have 2 GiB or more: make it smaller", reported)
            self.assertNotIn("--memory", reported)

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

    def test_a_report_for_a_program_says_nothing_of_files_that_are_not_granted(self):
        (self.folder / "data").mkdir()
        self.file("data/granted.csv", "")
        program = self.file("p.py", "import sys\nraise FileNotFoundError(\"x: '%s'\" % sys.argv[1])")
        hints = {path: json.loads(self.membrane("run", program, "--allow", "fs:read:./data:/in", "--json", path, code=1).stdout)["error"]["hint"]
                 for path in ("p.py", "no.py", "data/granted.csv")}
        self.assertEqual(hints["p.py"], hints["no.py"])
        self.assertNotIn("here", hints["p.py"])
        self.assertIn("the program sees it as /in/granted.csv", hints["data/granted.csv"])
        script = self.file("p.mjs", "import './q.mjs'")
        before = self.membrane("run", script, "--json", code=1).stdout
        self.file("q.mjs", "")
        after = self.membrane("run", script, "--json", code=1).stdout
        self.assertEqual(json.loads(before)["error"], json.loads(after)["error"])

    def test_a_module_beside_the_program_is_reported_with_the_grant_for_it(self):
        (self.folder / "app").mkdir()
        self.file("app/helper.py", "x = 42")
        program = self.file("app/main.py", "import helper\nprint(helper.x)")
        reported = self.membrane("run", program, code=1).stderr
        self.assertIn("helper is next to the program, and not granted: --dir app:/:ro grants it.", reported)
        self.assertNotIn("--with", reported)
        self.assertEqual(self.membrane("run", program, "--dir", "app:/:ro", "-q").stdout, "42\n")

    def test_a_file_beside_the_program_is_reported_with_the_grant_for_it(self):
        (self.folder / "app").mkdir()
        self.file("app/cfg.json", "42")
        program = self.file("app/j.py", "print(open('cfg.json').read())")
        self.assertIn("cfg.json is next to the program, and not granted: --dir app:/:ro grants it.",
                      self.membrane("run", program, code=1).stderr)
        self.assertEqual(self.membrane("run", program, "--dir", "app:/:ro", "-q").stdout, "42\n")

    def test_a_text_of_javascript_that_ran_as_python_is_reported(self):
        self.assertIn("--lang js", self.membrane("run", "-e", "console.log(1)", code=1).stderr)
        self.assertNotIn("--lang", self.membrane("run", "-e", "print(nothing)", code=1).stderr)

    def repl_at_terminal(self, typed, **environment):
        """What the terminal shows of these lines, which arrive at once, as a paste does."""
        terminal = Terminal([COMMAND, "repl"], {**self.environment, "TERM": "dumb", "NO_COLOR": "1", **environment})
        try:
            terminal.expect("python> ")
            terminal.type(typed)
            terminal.type("'e' 'nd'\n")
            shown = terminal.expect(r"(?s)(.*)\r\n'end'\r\n").group(1)
            terminal.type("exit()\n")
            self.assertEqual(terminal.end(), 0)
            return shown
        finally:
            terminal.close()

    def test_every_character_that_is_typed_at_a_terminal_arrives(self):
        for locale in ({"LANG": "C.UTF-8"}, {"LANG": "C"}, {"LC_ALL": ""}):
            with self.subTest(locale=locale):
                shown = self.repl_at_terminal("größe = 'ü→🎉'\nlen(grö\t), größe\n", **{"LANG": "", "LC_ALL": "", **locale})
                self.assertIn("(3, 'ü→🎉')\r\n", shown)

    def test_an_empty_line_of_a_pasted_block_does_not_end_it(self):
        shown = self.repl_at_terminal("def f(n):\n    n += 1\n\n    return n\n\n\ndef g(n):\n    return n\n\nf(40) + g(1)\n")
        self.assertIn("\r\n42\r\n", shown)
        self.assertNotIn("Error", shown)

    def test_an_entry_has_no_input(self):
        self.assertRegex(self.repl_at_terminal("input()\n"), r"EOFError.*\r\n  hint: An entry has no input")

    def test_an_empty_line_in_a_block_does_not_end_it(self):
        entries = ("def f(n):\n    n += 1\n\n    return n\n\nf(1)\n"
                   "try:\n    1 / 0\n\nexcept ZeroDivisionError:\n    x = 5\n\n\nx\n")
        done = self.membrane("repl", "--json", stdin=entries)
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(r["outcome"], r["result"]) for r in reports],
                         [("ok", ""), ("ok", "2"), ("ok", ""), ("ok", "5")])


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_redirected = self.path.startswith("/redir")
        self.send_response(302 if is_redirected else 200)
        if is_redirected:
            self.send_header("Location", "/item/1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class RequestsInReports(WithLanguages):
    """What the reports of Python and JavaScript show of requests over HTTP."""

    def setUp(self):
        super().setUp()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.host = f"127.0.0.1:{server.server_port}"
        self.grant = ("--allow", f"http:{self.host}")

    def requests(self, path, headers):
        return (("python", f"import requests; requests.get('http://{self.host}{path}', headers={headers}).url"),
                ("js", f"(await fetch('http://{self.host}{path}', {{headers: {headers}}})).url"))

    def test_credentials_are_hidden(self):
        headers = {name: "s3cret" for name in
                   ("Authorization", "cookie", "X-Api-Key", "api-key", "X-Auth-Token", "My-Secret")} | {"X-A": "shown"}
        for language, program in self.requests("/?api_key=s3cret&q=shown", headers):
            for flags in ([], ["--json"]):
                with self.subTest(language=language, flags=flags):
                    done = self.membrane("run", "--lang", language, "-e", f"{program.removesuffix('.url')}; 1", *self.grant, *flags)
                    self.assertNotIn("s3cret", done.stdout + done.stderr)
                    self.assertIn("/?api_key=***&q=shown", done.stdout + done.stderr)
            refused = self.membrane("run", "--lang", language, "-e", program.replace("get(", "post("), "--json",
                                    "--allow", f"http:HEAD:http://{self.host}/*", code=2)
            self.assertNotIn("s3cret", json.dumps(json.loads(refused.stdout)["host_calls"]))

    def test_each_request_that_a_redirect_makes_is_listed(self):
        for language, program in self.requests("/redir?token=s3cret", {"X-A": "b"}):
            with self.subTest(language=language):
                done = self.membrane("run", "--lang", language, "-e", program, *self.grant, "--journal", "run.journal", "--json")
                report = json.loads(done.stdout)
                self.assertEqual(report["result"].strip("'"), f"http://{self.host}/item/1")
                self.assertEqual([(call["name"], call["arguments"].split(", ")[1]) for call in report["host_calls"]],
                                 [("http.exchange", f"http://{self.host}/redir?token=***"),
                                  ("http.redirect", f"http://{self.host}/item/1")])
                again = json.loads(self.membrane("run", "--lang", language, "-e", program, "--json", *self.grant,
                                                 "--replay", "run.journal").stdout)
                self.assertEqual([call["arguments"] for call in again["host_calls"]],
                                 [call["arguments"] for call in report["host_calls"]])
                (self.folder / "run.journal").unlink()
                shown = self.membrane("run", "--lang", language, "-e", program, *self.grant)
                self.assertIn(f"call: http.redirect GET, http://{self.host}/item/1 -> OK", shown.stdout + shown.stderr)

    def test_a_run_does_not_start_without_the_secrets_of_its_grants(self):
        policy = self.file("policy.toml", f'[[http]]\nmethods = ["GET"]\nurl = "http://{self.host}/*"\n'
                                          'header = { Authorization = { secret = "SHOP_KEY" } }\n')
        for command in (("run", "-e", "print(7)"), ("repl",), ("mcp",)):
            said = self.membrane(*command, "--policy", policy, code=2)
            self.assertIn("the secret SHOP_KEY, which a grant sends, is not set", said.stderr)
            self.assertNotIn("7", said.stdout)
        said = self.membrane("run", "-e", "1", "--policy", policy, SHOP_KEY="short", code=2).stderr
        self.assertIn("at least 8 bytes", said)
        self.membrane("run", "-e", "print(7)", "--policy", policy, "--journal", "run.journal", SHOP_KEY="long enough")
        self.membrane("run", "-e", "print(7)", "--policy", policy, "--replay", "run.journal")


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
            reported = self.membrane("run", program, code=1).stderr
            self.assertIn("is next to the program, and not granted: --dir app:/:ro grants it.", reported)
            self.assertNotIn("HOST_DIRECTORY", reported)
            self.assertEqual(self.membrane("run", program, "--dir", "app:/:ro", "-q").stdout, "42\n")
        for name, text in (("p.js", "require('./none')"), ("p.mjs", "import './none.js'")):
            reported = self.membrane("run", self.file(name, text), code=1).stderr
            self.assertIn("Error: Cannot find module './none", reported)
            for part in ("is next to", "hint:", "denied", "HOST_DIRECTORY"):
                self.assertNotIn(part, reported)

    def test_a_path_like_a_flag_of_the_report_ends_it_too(self):
        folder = "--allow fs:read:HOST_DIRECTORY:"
        (self.folder / folder).mkdir()
        self.file(f"{folder}/b.mjs", "export const x = 1")
        self.file(f"{folder}/a.mjs", "import './b.mjs'")
        reported = self.membrane("run", f"./{folder}/a.mjs", code=1).stderr
        self.assertIn("./b.mjs is next to the program, and not granted: --dir ./", reported)

    def test_a_programs_own_text_stays_in_its_traceback(self):
        (self.folder / "app").mkdir()
        self.file("app/b.mjs", "export const x = 1")
        program = self.file("app/p.mjs", "await import('./b.mjs').catch((e) => { e.own = '--allow fs:read:HOST_DIRECTORY:/own'; throw e; })")
        reported = self.membrane("run", program, code=1).stderr
        self.assertIn("./b.mjs is next to the program, and not granted: --dir app:/:ro grants it.", reported)
        self.assertIn("--allow fs:read:HOST_DIRECTORY:/own", reported)

    def test_a_limit_of_host_calls_is_named(self):
        grants = ["--allow", "fs:read:./node_modules:/node_modules", "--host-calls", "2"]
        self.assertIn("EBUDGET", self.membrane("run", self.file("p.js", "require('twice')"), *grants, code=1).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
