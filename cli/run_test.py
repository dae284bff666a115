"""membrane run and membrane thaw, with modules."""

import functools
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import unittest

from command_testing import ADD, BINARY, COMMAND, CommandTest, SECONDS, SEVEN

ENDLESS = '(func (export "run") (call $io.println (string "begun")) (loop (br 0)))'


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


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Run(CommandTest):
    def report(self, *arguments, code=0, **more):
        return json.loads(self.membrane("run", *arguments, "--json", code=code, **more).stdout)

    def test_text_binary_argument_and_standard_input(self):
        self.assertEqual(self.membrane("run", self.file("seven.wat", SEVEN)).stdout, "7\n")
        self.assertEqual(self.membrane("run", self.file("f.wasm", BINARY), "--invoke", "f").stdout, "42\n")
        self.assertEqual(self.membrane("run", "-e", SEVEN).stdout, "7\n")
        self.assertEqual(self.membrane("run", "-", stdin=SEVEN).stdout, "7\n")

    def test_no_dead_process_is_left_to_the_first_of_a_container(self):
        adopting = """
import ctypes, os, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
for words, text in ("run -e (nop)", ""), ("run missing.wat", ""), ("check -", "(func)"), ("repl", ":quit"):
    subprocess.run([sys.argv[1], *words.split(" ", 2)], input=text, text=True, capture_output=True)
    try:
        print(words, os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        pass  # as it should be
"""
        done = subprocess.run([sys.executable, "-c", adopting, COMMAND], capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual((done.stdout, done.stderr), ("", ""))

    def test_closed_standard_files_are_empty(self):
        program = self.file("seven.wat", SEVEN)
        for words, code, printed in ((f"check {program} <&-", 0, "seven.wat: no errors\n"), ("run - <&-", 2, ""), (f"run {program} <&-", 0, "7\n"),
                                     (f"run {program} >&-", 0, ""), (f"run {program} <&- >&- 2>&-", 0, "")):
            done = subprocess.run(["sh", "-c", f"exec {COMMAND} {words}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, timeout=SECONDS, cwd=self.folder, env=self.environment)
            self.assertEqual((done.returncode, done.stdout), (code, printed), words + done.stderr)

    def test_output_that_cannot_be_written_is_reported(self):
        program = self.file("seven.wat", SEVEN)
        for words in ("run", program), ("run", "--json", program), ("check", program), ("help",), ("capabilities",):
            with open("/dev/full", "w") as full:
                done = subprocess.run([COMMAND, *words], stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                      timeout=SECONDS, cwd=self.folder, env=self.environment)
            self.assertEqual(done.returncode, 3, words)
            self.assertIn("membrane: cannot write standard output", done.stderr, words)

    def test_a_program_may_be_a_pipe(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for program, printed in ((SEVEN.encode(), "7\n"), (BINARY, "42\n")):
            writer = threading.Thread(target=pipe.write_bytes, args=(program,))
            writer.start()
            words = ("--invoke", "f") if program == BINARY else ()
            self.assertEqual(self.membrane("run", pipe, *words).stdout, printed)
            writer.join()

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
        self.assertEqual(error["place"], {"function": "$inner", "offset": 14, "line": 1, "column": 15})  # of the text
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

    def test_no_more_is_read_than_a_program_or_a_snapshot_may_have(self):
        for command, said in (("run", "/dev/zero has more than 268435456 bytes"), ("thaw", "this is no snapshot")):
            done = self.membrane(command, "/dev/zero", code=2)
            self.assertIn(said, done.stderr)
            self.assertIn("hint: ", done.stderr)

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
                (["-e", SEVEN, "--memory", "10GB"], "--memory: 10GB is out of range", "4 GiB"),
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
            self.assertTrue(done.stderr.startswith("warning: ./gone"), done.stderr)
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
        self.assertIn("Ctrl-C stopped the program", errors)
        self.assertEqual(process.returncode, -signal.SIGINT, "so that a shell ends its loop")


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


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
