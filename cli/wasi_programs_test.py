"""WASI programs through the command: their inputs, outputs and exit codes.

MEMBRANE_COMMAND names the command, as in command_testing.py. Programs in C are built where clang and wasi-libc are.
"""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from command_testing import COMMAND, SECONDS, CommandTest  # noqa: E402

SIGNATURES = {
    "args_get": "i32 i32", "args_sizes_get": "i32 i32", "environ_get": "i32 i32", "environ_sizes_get": "i32 i32",
    "clock_time_get": "i32 i64 i32", "random_get": "i32 i32", "fd_read": "i32 i32 i32 i32",
    "fd_write": "i32 i32 i32 i32", "poll_oneoff": "i32 i32 i32 i32", "proc_raise": "i32", "sched_yield": "",
    "path_open": "i32 i32 i32 i32 i32 i64 i64 i32 i32", "fd_readdir": "i32 i32 i32 i64 i32", "fd_close": "i32"}

# Functions that programs share. $put writes bytes to a descriptor; $copy copies stdin to stdout to its end.
LIBRARY = """
  (func $put (param $fd i32) (param $at i32) (param $size i32)
    (i32.store (i32.const 0) (local.get $at)) (i32.store (i32.const 4) (local.get $size))
    (drop (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func $get (result i32)
    (i32.store (i32.const 0) (i32.const 4096)) (i32.store (i32.const 4) (i32.const 4096))
    (i32.store (i32.const 8) (i32.const 0))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.load (i32.const 8)))
  (func $copy (local $got i32)
    (loop $again
      (local.set $got (call $get))
      (if (local.get $got) (then
        (call $put (i32.const 1) (i32.const 4096) (local.get $got))
        (br $again)))))
"""


def program(body, *, uses=(), library=True, memory='(memory (export "memory") 2)', module="wasi_snapshot_preview1",
            more=""):
    """A WASI command whose _start does `body`."""
    names = sorted({*uses, "proc_exit"} | ({"fd_read", "fd_write"} if library else set()))
    imports = ""
    for name in names:
        parameters = "i32" if name == "proc_exit" else SIGNATURES[name]
        result = "" if name == "proc_exit" else "(result i32)"
        imports += f'(import "{module}" "{name}" (func ${name} (param {parameters}) {result}))\n'
    return f'(module {imports} {memory} {more} {LIBRARY if library else ""} (func (export "_start") {body}))'


COPY = program("(call $copy)")
SAY = program('(call $put (i32.const 1) (i32.const 16) (i32.const 4)) (call $put (i32.const 2) (i32.const 20) (i32.const 4))'
              '(call $put (i32.const 1) (i32.const 24) (i32.const 4))', more=r'(data (i32.const 16) "out\nerr\nend\n")')
ARGUMENTS = program("(drop (call $args_sizes_get (i32.const 16) (i32.const 20)))"
                    "(drop (call $args_get (i32.const 1024) (i32.const 8192)))"
                    "(call $put (i32.const 1) (i32.const 8192) (i32.load (i32.const 20)))",
                    uses=("args_get", "args_sizes_get"))
ENVIRONMENT = program("(drop (call $environ_sizes_get (i32.const 16) (i32.const 20)))"
                      "(drop (call $environ_get (i32.const 1024) (i32.const 8192)))"
                      "(call $put (i32.const 1) (i32.const 8192) (i32.load (i32.const 20)))",
                      uses=("environ_get", "environ_sizes_get"))


def exits(code):
    return program(f"(call $proc_exit (i32.const {code}))", library=False)


class WasiTest(CommandTest):
    def run_bytes(self, *arguments, stdin=b"", code=0, **more):
        done = subprocess.run([COMMAND, "run", *map(str, arguments)], input=stdin, cwd=self.folder, capture_output=True,
                              env={**self.environment, **more}, timeout=SECONDS)
        self.assertEqual(done.returncode, code, done)
        return done

    def report(self, *arguments, code=0, **more):
        return json.loads(self.membrane("run", *arguments, "--json", code=code, **more).stdout)


class Wasi(WasiTest):
    # -- output -----------------------------------------------------------------------------------------------

    def test_both_streams_come_as_they_are_written(self):
        say = self.file("say.wat", SAY)
        done = self.membrane("run", say, "--quiet")
        self.assertEqual((done.stdout, done.stderr), ("out\nend\n", "err\n"))
        together = subprocess.run([COMMAND, "run", say, "-q"], cwd=self.folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, env=self.environment, timeout=SECONDS)
        self.assertEqual(together.stdout, "out\nerr\nend\n")
        report = self.report(say)
        self.assertEqual((report["stdout"], report["stderr"]), ("out\nend\n", "err\n"))

    def test_the_report_follows_on_standard_error(self):
        done = self.membrane("run", self.file("say.wat", SAY))
        self.assertRegex(done.stderr, r"^err\noutcome: ok\nfuel: ")

    def test_bytes_that_are_not_text_are_passed_on_byte_for_byte(self):
        copy = self.file("copy.wat", COPY)
        data = bytes(range(256)) * 300
        self.assertEqual(self.run_bytes(copy, "-q", stdin=data).stdout, data)
        self.assertEqual(self.run_bytes(copy, "-q", "--output", str(len(data)), stdin=data).stdout, data)
        short = self.run_bytes(copy, "--output", "1000", stdin=data, code=1)
        self.assertLessEqual(len(short.stdout), 1000)
        self.assertIn(b"out_of_output", short.stderr)

    def test_a_tool_has_the_limits_of_a_tool(self):
        data = b"x" * 3_000_000
        self.assertEqual(self.run_bytes(self.file("copy.wat", COPY), "-q", stdin=data).stdout, data)
        counts = program('(local $i i32) (loop $next (local.set $i (i32.add (local.get $i) (i32.const 1)))'
                         '(br_if $next (i32.lt_u (local.get $i) (i32.const 300000000))))', library=False)
        report = self.report(self.file("counts.wat", counts))
        self.assertGreater(report["fuel_used"], 1_000_000_000)
        self.assertEqual(report["outcome"], "ok")
        self.membrane("run", "counts.wat", "--freeze-after", "1e6", "--snapshot", "counts.snap", code=4)
        self.assertIn("outcome: ok", self.membrane("thaw", "counts.snap").stderr)

    def test_the_terminal_gets_no_escapes(self):
        text = program("(call $put (i32.const 1) (i32.const 16) (i32.const 5)) (call $put (i32.const 2) (i32.const 16) (i32.const 5))",
                       more=r'(data (i32.const 16) "\1b[2J\n")')
        master, slave = pty.openpty()
        process = subprocess.Popen([COMMAND, "run", self.file("x.wat", text), "-q"], cwd=self.folder, stdout=slave,
                                   stderr=slave, stdin=subprocess.DEVNULL, env=self.environment)
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 4096):
                shown += piece
        except OSError:  # the last of the other side is gone
            pass
        self.assertEqual(process.wait(SECONDS), 0)
        os.close(master)
        self.assertEqual(shown.count(rb"\x1b[2J"), 2)
        self.assertNotIn(b"\x1b[2J", shown)

    def test_the_output_limit_says_which_and_what_raises_it(self):
        done = self.run_bytes(self.file("copy.wat", COPY), "--output", "1000", stdin=b"x" * 5000, code=1)
        self.assertIn(b"output limit of 1000 bytes", done.stderr)
        self.assertIn(b"--output", done.stderr)

    def test_check_knows_the_functions_of_wasi(self):
        self.assertEqual(self.membrane("check", self.file("copy.wat", COPY)).stdout, "copy.wat: no errors\n")
        older = COPY.replace("wasi_snapshot_preview1", "wasi_unstable")
        self.assertEqual(self.membrane("check", self.file("older.wat", older)).stdout, "older.wat: no errors\n")

    def test_an_option_without_its_value_is_refused(self):
        path = self.file("exit.wat", exits(0))
        for words in ((path, "--journal"), (path, "--journal", "--", "x"), ("--fuel", "--", path), (path, "--dir"), ("-e",)):
            with self.subTest(words=words):
                self.assert_refused(self.membrane("run", *words, code=2), "needs a value", "--help")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir() if path.is_file()), ["exit.wat"])

    # -- the end -----------------------------------------------------------------------------------------------

    def test_the_exit_code_is_passed_on_and_reported(self):
        for code, seen in ((0, 0), (1, 1), (3, 3), (42, 42), (126, 126), (255, 255), (256, 255), (-1, 255)):
            with self.subTest(code=code):
                path = self.file("exit.wat", exits(code))
                self.membrane("run", path, code=seen)
                report = self.report(path, code=seen)
                self.assertEqual((report["outcome"], report["exit_code"]), ("ok", code))

    def test_the_report_distinguishes_membranes_own_codes(self):
        report = self.report(self.file("two.wat", exits(2)), code=2)
        self.assertEqual((report["outcome"], report["exit_code"]), ("ok", 2))
        report = self.report(self.file("bad.wat", program("(call $nothing)")), code=2)
        self.assertEqual(report["outcome"], "invalid")
        self.assertNotIn("exit_code", report)

    def test_a_start_that_returns_ended_well(self):
        self.assertNotIn("exit_code", self.report(self.file("copy.wat", COPY)))

    def test_a_signal_is_a_trap_that_names_it(self):
        report = self.report(self.file("abort.wat", program("(drop (call $proc_raise (i32.const 6)))", uses=["proc_raise"])), code=1)
        self.assertEqual(report["outcome"], "trapped")
        self.assertIn("abrt", report["error"]["message"])

    def test_a_command_needs_to_export_nothing_but_its_start(self):
        self.membrane("run", self.file("exit.wat", program("(call $proc_exit (i32.const 5))", library=False, memory="")), code=5)
        self.assertEqual(self.membrane("run", self.file("say.wat", SAY.replace('(memory (export "memory") 2)', "(memory 2)")), "-q").stdout,
                         "out\nend\n")

    def test_a_reactor_is_initialized_before_its_export_is_called(self):
        reactor = self.file("reactor.wat", """(module (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
          (global $ready (mut i32) (i32.const 0))
          (func (export "_initialize") (drop (call $yield)) (global.set $ready (i32.const 40)))
          (func (export "add") (param i32) (result i32) (i32.add (global.get $ready) (local.get 0))))""")
        self.assertEqual(self.membrane("run", reactor, "--invoke", "add", "2", "-q").stdout, "42\n")
        self.assertEqual(self.membrane("run", "--invoke", "add", reactor, "-q", "2").stdout, "42\n")
        self.membrane("run", reactor, "--invoke", "_initialize", "-q")
        self.assertIn("add", self.membrane("run", reactor, code=2).stderr)

    # -- what it is given --------------------------------------------------------------------------------------

    def test_arguments_begin_with_the_programs_name(self):
        path = self.file("args.wat", ARGUMENTS)
        for words, seen in (([path], []), ([path, "a", "b c", "ü"], ["a", "b c", "ü"]), ([path, ""], [""]),
                            ([path, "-1", "-.5", "-inf", "-"], ["-1", "-.5", "-inf", "-"]),
                            ([path, "--", "--fuel", "x", "--", "-q"], ["--fuel", "x", "--", "-q"]),
                            (["--", path, "--fuel"], ["--fuel"]),
                            ([path, "-x", "--verbose", "--depth=3", "in"], ["-x", "--verbose", "--depth=3", "in"]),
                            ([path, "check", "run", "help"], ["check", "run", "help"]),
                            (["--fuel", "1e6", path, "a", "--wall", "9s", "b"], ["a", "b"])):
            with self.subTest(words=words):
                self.assertEqual(self.run_bytes(*(["-q"] + words)).stdout.decode(), "".join(f"{each}\0" for each in [path, *seen]))

    def test_the_environment_has_what_was_given_and_nothing_else(self):
        path = self.file("env.wat", ENVIRONMENT)

        def seen(*options, **environment):
            return self.run_bytes("-q", *options, path, **environment).stdout.decode().split("\0")[:-1]

        self.assertEqual(seen(), [])
        self.assertEqual(seen("--env", "A=1", "--env", "B=x=y", "--env", "EMPTY="), ["A=1", "B=x=y", "EMPTY="])
        self.assertEqual(seen("--env", "A=1", "--env", "A=2"), ["A=2"])
        self.assertEqual(seen("--env", "FROM_HOST", FROM_HOST="yes"), ["FROM_HOST=yes"])
        self.assertEqual(seen("--env", "NOT_THERE"), [])
        self.assert_refused(self.membrane("run", path, "--env", "=1", code=2), "names no variable", "NAME=VALUE")

    def test_input_has_a_real_end(self):
        copy = self.file("copy.wat", COPY)
        self.file("in.txt", "from a file")
        self.assertEqual(self.membrane("run", copy, "-q", stdin="one\ntwo").stdout, "one\ntwo")
        self.assertEqual(self.membrane("run", copy, "-q", "--input", "in.txt", stdin="not this").stdout, "from a file")
        self.assertEqual(self.membrane("run", copy, "-q", "--input", "-", stdin="this").stdout, "this")
        self.assertEqual(self.membrane("run", copy, "-q", "--input", "/dev/null", stdin="not this").stdout, "")
        self.assertEqual(self.membrane("run", "-", "-q", stdin=COPY).stdout, "")  # the program was the input
        self.assert_refused(self.membrane("run", copy, "--input", "nowhere", code=2), "nowhere", "Check the path")
        self.assert_refused(self.membrane("run", copy, "--input", ".", code=2), "cannot open .", "Name a file")
        self.assert_refused(self.membrane("run", "-", "--input", "-", stdin=COPY, code=2), "both", "as a file")

    def waiting(self, *more):
        """A process that has begun, and waits for the input of a pipe that has no writer; and that pipe."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.file("begin.wat", program("(call $put (i32.const 1) (i32.const 16) (i32.const 6)) (call $copy)",
                                       more=r'(data (i32.const 16) "begun\n")'))
        process = subprocess.Popen([COMMAND, "run", "begin.wat", "--input", "pipe", *more], cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "begun\n")
        return process, pipe

    def test_waiting_for_a_writer_of_the_input_ends_by_the_limit(self):
        process, _ = self.waiting("--wall", "1s")
        self.assertIn("outcome: timed_out", process.communicate(timeout=SECONDS)[1])

    def test_waiting_for_a_writer_of_the_input_ends_by_an_interrupt(self):
        process, _ = self.waiting("--wall", "1h")
        process.send_signal(signal.SIGINT)
        self.assertIn("Ctrl-C stopped the program", process.communicate(timeout=SECONDS)[1])
        self.assertEqual(process.returncode, -signal.SIGINT)

    def test_the_writer_of_the_input_may_come_late(self):
        process, pipe = self.waiting()
        pipe.write_text("late\n")
        self.assertEqual(process.communicate(timeout=SECONDS)[0], "late\n")

    def test_input_is_streamed(self):
        """Each line is answered before the next is written."""
        process = subprocess.Popen([COMMAND, "run", self.file("copy.wat", COPY), "-q"], cwd=self.folder,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.end, process)
        for line in b"first\n", b"second\n":
            process.stdin.write(line)
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), line)
        process.stdin.close()
        process.stdin = None
        self.assertEqual(process.wait(SECONDS), 0)

    def test_a_question_without_a_lines_end_is_shown_before_the_answer_is_read(self):
        asks = program("(call $put (i32.const 1) (i32.const 16) (i32.const 5)) (drop (call $get))", more='(data (i32.const 16) "name?")')
        process = subprocess.Popen([COMMAND, "run", self.file("ask.wat", asks), "-q"], cwd=self.folder,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.end, process)
        self.assertEqual(os.read(process.stdout.fileno(), 100), b"name?")
        process.stdin.close()
        process.stdin = None
        self.assertEqual(process.wait(SECONDS), 0)

    def test_an_interrupt_ends_a_program_that_waits_for_input(self):
        asks = program("(call $put (i32.const 1) (i32.const 16) (i32.const 5)) (drop (call $get))", more='(data (i32.const 16) "name?")')
        process = subprocess.Popen([COMMAND, "run", self.file("ask.wat", asks), "--wall", "100s"], cwd=self.folder,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.end, process)
        self.assertEqual(os.read(process.stdout.fileno(), 100), b"name?")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(SECONDS), -signal.SIGINT)
        self.assertIn(b"cancelled", process.stderr.read())

    def test_clock_and_randomness_are_as_granted(self):
        clock = self.file("clock.wat", program(
            "(drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 16)))"
            "(drop (call $random_get (i32.const 24) (i32.const 8))) (call $put (i32.const 1) (i32.const 16) (i32.const 16))",
            uses=("clock_time_get", "random_get")))
        same = [self.run_bytes(clock, "-q").stdout for _ in range(2)]
        self.assertEqual(same[0], same[1])
        real = self.run_bytes(clock, "-q", "--allow", "time", "--allow", "random").stdout
        self.assertNotEqual(real[:8], same[0][:8])
        self.assertNotEqual(real[8:], same[0][8:])

    # -- with everything else ----------------------------------------------------------------------------------

    def test_capabilities_work_beside_wasi(self):
        both = program('(call $put (i32.const 1) (i32.const 20) (i32.const 3)) (drop (call $kv_set (i32.const 16) (i32.const 16)))',
                       more=r'(data (i32.const 16) "\03\00\00\00key")').replace(
                           "(module ", '(module (import "kv" "set" (func $kv_set (param i32 i32) (result i32)))', 1)
        report = self.report(self.file("both.wat", both), "--allow", "kv")
        self.assertEqual(report["stdout"], "key")
        self.assertEqual([call["name"] for call in report["host_calls"]], ["kv.set"])

    def test_every_tier_and_the_code_cache_say_the_same(self):
        copy = self.file("copy.wat", COPY)
        seen = [self.report(copy, "--tier", tier, "--code-cache", self.folder / "cache", stdin="x" * 10_000)
                for tier in ("interpreter", "compiler", "auto", "compiler")]
        for report in seen:
            del report["compile_us"], report["run_us"]
            self.assertEqual(report, seen[0])

    def test_a_program_without_fuel_is_stopped(self):
        report = self.report(self.file("copy.wat", COPY), "--fuel", "500", stdin="x" * 100_000, code=1)
        self.assertEqual(report["outcome"], "out_of_fuel")

    def test_a_frozen_program_continues_in_another_process(self):
        copy = self.file("copy.wat", COPY)
        data = "".join(f"line {i}\n" for i in range(3000))
        self.file("in.txt", data)
        whole = self.report(copy, "--input", "in.txt")
        self.assertEqual(whole["stdout"], data)
        frozen = self.report(copy, "--input", "in.txt", "--freeze-after", str(whole["fuel_used"] // 2), "--snapshot", "x.snap", code=4)
        self.assertLess(len(frozen["stdout"]), len(data))
        thawed = json.loads(self.membrane("thaw", "x.snap", "--json").stdout)
        for name in "stdout", "fuel_used", "outcome":
            self.assertEqual(thawed[name], whole[name])

    def test_a_frozen_program_reads_on_from_the_input_of_the_caller_that_thaws(self):
        path = self.file("copy.wat", COPY)
        self.membrane("run", path, "--freeze-after", "0", "--snapshot", "x.snap", code=4)
        self.assertEqual(self.membrane("thaw", "x.snap", "-q", stdin="later").stdout, "later")

    def test_a_frozen_reactor_is_initialized_once(self):
        reactor = self.file("reactor.wat", """(module (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
          (global $count (mut i32) (i32.const 0))
          (func (export "_initialize") (drop (call $yield)) (global.set $count (i32.add (global.get $count) (i32.const 1))))
          (func (export "count") (result i32) (loop (nop)) (drop (call $yield)) (global.get $count)))""")
        whole = self.report(reactor, "--invoke", "count")
        self.assertEqual(whole["results"], [{"type": "i32", "value": 1}])
        for fuel in range(0, whole["fuel_used"], 3):
            self.membrane("run", reactor, "--invoke", "count", "--freeze-after", str(fuel), "--snapshot", "x.snap", code=4)
            thawed = json.loads(self.membrane("thaw", "x.snap", "--json").stdout)
            self.assertEqual((thawed["results"], thawed["fuel_used"]), (whole["results"], whole["fuel_used"]), fuel)


# A clang without the linker of its own version cannot make programs.
CLANG = next(filter(None, (shutil.which("clang" + version) for version in ("-19", "")
                           if shutil.which("wasm-ld" + version))), None)
SYSROOT = Path("/usr/lib/wasm32-wasi")


@unittest.skipUnless(CLANG and SYSROOT.exists(), "needs clang and wasi-libc (apt-get install clang lld wasi-libc)")
class WasiInC(WasiTest):
    """C programs, through wasi-libc."""

    def build(self, text, *flags):
        (self.folder / "x.c").write_text(textwrap.dedent(text))
        subprocess.run([CLANG, "--target=wasm32-wasi", "-O1", "-o", "x.wasm", "x.c", *flags], cwd=self.folder, check=True,
                       timeout=SECONDS)
        return "x.wasm"

    def test_arguments_environment_files_and_exit_code(self):
        program_of_c = self.build("""
            #include <stdio.h>
            #include <stdlib.h>
            int main(int count, char **words) {
              for (int i = 1; i < count; i++) puts(words[i]);
              puts(getenv("HOME") ? getenv("HOME") : "no HOME");
              FILE *file = fopen("in/x.txt", "r");
              if (!file) { perror("in/x.txt"); return 4; }
              for (int c; (c = getc(file)) != EOF;) putchar(c);
              file = fopen("in/new.txt", "w");
              if (!file) { perror("in/new.txt"); return 5; }
              fputs("written", file);
              return fclose(file);
            }""")
        (self.folder / "in").mkdir()
        self.file("in/x.txt", "read\n")
        done = self.membrane("run", program_of_c, "-q", "a", "--verbose", "--dir", "in", "--env", "HOME=/h")
        self.assertEqual(done.stdout, "a\n--verbose\n/h\nread\n")
        self.assertEqual((self.folder / "in/new.txt").read_text(), "written")
        done = self.membrane("run", program_of_c, "--dir", "in:ro", code=5)
        self.assertEqual(done.stdout, "no HOME\nread\n")
        self.assertIn("in/new.txt: Read-only file system", done.stderr)
        done = self.membrane("run", program_of_c, code=4)
        self.assertIn("in/x.txt: No such file", done.stderr)
        self.assertIn("outcome: ok", done.stderr)
        self.assertIn("--allow", done.stderr)
        self.assertIn("--allow", self.membrane("run", program_of_c, "-q", code=4).stderr)

    def test_the_working_directory_as_its_root(self):
        program_of_c = self.build("""
            #include <dirent.h>
            #include <stdio.h>
            #include <string.h>
            #include <sys/stat.h>
            #include <unistd.h>
            int main(int count, char **words) {
              int seen = 0;
              DIR *root = opendir(".");
              for (struct dirent *each; root && (each = readdir(root));)
                if (strcmp(each->d_name, "x.txt") == 0 || strcmp(each->d_name, "dev") == 0) seen++;
              printf("%d\\n", seen);
              FILE *file = fopen(words[1], "r");
              if (!file) { perror(words[1]); return 4; }
              for (int c; (c = getc(file)) != EOF;) putchar(c);
              if (mkdir("made", 0700) || rename("x.txt", "made/y.txt") || fopen("../up.txt", "w")) return 5;
              return fopen("/dev/null", "w") ? 0 : 6;
            }""")
        for path in "x.txt", "./x.txt", "/x.txt":
            with self.subTest(path=path):
                folder = self.folder / "root"
                folder.mkdir(exist_ok=True)
                (folder / "x.txt").write_text("read\n")
                done = self.membrane("run", program_of_c, path, "-q", "--dir", "root:/")
                self.assertEqual(done.stdout, "2\nread\n")
                self.assertEqual((folder / "made/y.txt").read_text(), "read\n")
                shutil.rmtree(folder, ignore_errors=True)
        self.file("x.txt", "here\n")
        self.assertEqual(self.membrane("run", program_of_c, "x.txt", "-q", "--dir", ".").stdout, "2\nhere\n")

    def test_an_abort_names_its_signal(self):
        done = self.membrane("run", self.build("#include <stdlib.h>\nint main() { abort(); }"), code=1)
        self.assertIn("outcome: trapped", done.stderr)

    def test_binary_output_and_input(self):
        program_of_c = self.build("#include <stdio.h>\nint main() { for (int c; (c = getchar()) != EOF;) putchar(255 - c); }")
        data = bytes(range(256)) * 1000
        self.assertEqual(self.run_bytes(program_of_c, "-q", stdin=data).stdout, bytes(255 - b for b in data))

    def test_a_reactor(self):
        program_of_c = self.build('__attribute__((export_name("twice"))) int twice(int x) { return 2 * x; }', "-mexec-model=reactor")
        self.assertEqual(self.membrane("run", program_of_c, "--invoke", "twice", "21", "-q").stdout, "42\n")

    def test_an_object_file_is_recognised(self):
        done = self.membrane("run", self.build("int x; int main() { return x; }", "-c"), code=2)
        self.assertIn("object file", done.stderr)


if __name__ == "__main__":
    unittest.main()
