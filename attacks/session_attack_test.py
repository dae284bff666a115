"""Attempts against sessions: to get random numbers that were drawn before, to learn another turn's state,
and to exhaust the host with programs that are started for each turn."""

import re
import unittest

from attack import Attack, LANGUAGES, MIB, SANITIZED

# A program that is started for each turn and reads its input to the end. BEGIN runs before it reads, END
# after; $n is the number of bytes, which are at 4096.
FILTER = """(module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 3)
  (data (i32.const 100) "file")
  (data (i32.const 200) "in/data.txt")
  (global $kept (mut i32) (i32.const 0))
  (func $write (param $fd i32) (param $at i32) (param $bytes i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $bytes))
    (drop (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func $read (param $fd i32) (param $at i32) (result i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (i32.const 65536))
    (drop (call $fd_read (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.load (i32.const 8)))
  (func $open (param $at i32) (param $bytes i32) (param $rights i64) (result i32)
    (call $path_open (i32.const 3) (i32.const 0) (local.get $at) (local.get $bytes)
                     (i32.shl (i32.wrap_i64 (i64.shr_u (local.get $rights) (i64.const 6))) (i32.const 0))
                     (local.get $rights) (i64.const 0) (i32.const 1) (i32.const 16)))
  (func $hex (param $at i32) (param $bytes i32) (local $b i32)
    (loop $next
      (local.set $b (i32.load8_u (local.get $at)))
      (i32.store8 (i32.const 50) (i32.add (i32.const 97) (i32.shr_u (local.get $b) (i32.const 4))))
      (i32.store8 (i32.const 51) (i32.add (i32.const 97) (i32.and (local.get $b) (i32.const 15))))
      (call $write (i32.const 1) (i32.const 50) (i32.const 2))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (local.tee $bytes (i32.sub (local.get $bytes) (i32.const 1)))))
    (i32.store8 (i32.const 50) (i32.const 10))
    (call $write (i32.const 1) (i32.const 50) (i32.const 1)))
  (func (export "_start") (local $n i32) (local $got i32)
    BEGIN
    (loop $more
      (local.set $got (call $read (i32.const 0) (i32.add (i32.const 4096) (local.get $n))))
      (local.set $n (i32.and (i32.add (local.get $n) (local.get $got)) (i32.const 0xffff)))
      (br_if $more (local.get $got)))
    END))
"""
DRAW = "(drop (call $random_get (i32.const 300) (i32.const 8)))"
SAY_DRAWN = "(call $hex (i32.const 300) (i32.const 8))"


class SessionAttack(Attack):
    def setUp(self):
        super().setUp()
        self.environment["XDG_CACHE_HOME"] = str(self.folder / "cache")

    def filter(self, begin="", end="", name="filter"):
        """Installs the program as a language that is started for each turn."""
        self.environment["MEMBRANE_LANGUAGES"] = str(self.folder / "languages")
        text = FILTER.replace("BEGIN", begin).replace("END", end)
        self.membrane("languages", "add", name, self.file(f"{name}.wat", text), "--frame", "eof", codes=(0,))

    def turn(self, *options, code="x", name="filter", codes=(0,), **more):
        return self.membrane("run", "--lang", name, "-e", code, *options, codes=codes, **more)

    def repl(self, *entries, name="filter", options=()):
        return self.membrane("repl", "--lang", name, *options, stdin="".join(f"{e}\n" for e in entries).encode())

    def python(self, *entries, options=()):
        if SANITIZED:
            self.skipTest("Python takes minutes to be warm with a sanitizer")
        self.need("python")
        del self.environment["XDG_CACHE_HOME"]
        return self.repl(*entries, name="python", options=options)

    def javascript(self, *entries, options=()):
        self.need("js")
        return self.repl(*entries, name="js", options=options)

    def assert_distinct(self, done, pattern, at_least):
        drawn = re.findall(pattern, done.stdout)
        self.assertGreaterEqual(len(drawn), at_least, str(done))
        self.assertEqual(len(drawn), len(set(drawn)), str(done))

    # -- random numbers -------------------------------------------------------------------------------------------

    def test_a_turn_is_undone_to_have_its_random_numbers_again_in_python(self):
        draw = "import os, random, secrets; print('<', random.random(), os.urandom(8), secrets.token_hex(), '>', flush=True)"
        for options in ((), ("--allow", "random")):
            done = self.python(*[draw + "; os._exit(1)", draw] * 4, options=options)
            self.environment["XDG_CACHE_HOME"] = str(self.folder / "cache")
            self.assert_distinct(done, rb"< (\S+) ", 8)
            self.assert_distinct(done, rb"< \S+ (.*) >", 8)

    def test_a_turn_is_undone_to_have_its_random_numbers_again_in_javascript(self):
        draw = "console.log('<' + Math.random(), crypto.randomUUID() + '>')"
        for options in ((), ("--allow", "random")):
            done = self.javascript(*[draw + "; for (;;) {}", draw] * 4, options=(*options, "--fuel", "3000000"))
            self.assert_distinct(done, rb"<(\S+)", 8)
            self.assert_distinct(done, rb"(\S+)>", 8)

    def test_a_turn_is_undone_to_lose_the_seed_that_the_program_chose(self):
        for options in ((), ("--allow", "random")):
            done = self.python("import random; random.seed(7)", "random.random()", "random.random(); import os; os._exit(1)",
                               "random.random()", options=options)
            self.environment["XDG_CACHE_HOME"] = str(self.folder / "cache")
            drawn = re.findall(rb"0\.\d+", done.stdout)
            self.assertEqual(drawn, [b"0.32383276483316237", b"0.15084917392450192"], str(done))

    def test_going_back_to_a_fork_to_have_the_same_entropy(self):
        draw = "console.log('<' + Math.random(), crypto.randomUUID() + '>')"
        done = self.javascript("1", ":fork", draw, ":back", draw, ":back", draw + "; for (;;) {}", draw, ":back", draw,
                               options=("--fuel", "3000000"))
        self.assert_distinct(done, rb"<(\S+)", 5)
        self.assert_distinct(done, rb"(\S+)>", 5)

    def test_a_fork_and_a_turn_that_was_undone_with_the_same_number(self):
        draw = "console.log('<' + crypto.randomUUID() + '>')"
        done = self.javascript("1", ":fork", draw + "; for (;;) {}", draw, ":back", draw, ":fork", draw, ":back", draw,
                               options=("--fuel", "3000000"))
        self.assert_distinct(done, rb"<(\S+)>", 5)

    def test_a_program_that_draws_before_it_reads_has_the_same_key_in_each_turn(self):
        self.filter(begin=DRAW, end=SAY_DRAWN)
        done = self.repl("a", "", "b", "", "c", "")
        self.assert_distinct(done, rb"[a-p]{16}", 3)
        other = self.turn("--allow", "random"), self.turn("--allow", "random")
        self.assertNotEqual(other[0].stdout, other[1].stdout)

    def test_a_program_that_is_undone_draws_the_same_again(self):
        self.filter(end=DRAW + SAY_DRAWN + """(if (i32.eq (i32.load8_u (i32.const 4096)) (i32.const 0x74))
            (then (unreachable)))""")
        self.assert_distinct(self.repl("t", "", "a", "", "t", "", "t", "", "a", ""), rb"[a-p]{16}", 5)

    # -- programs that are started for each turn ------------------------------------------------------------------

    def test_memory_of_an_earlier_turn_is_read_by_a_later_one(self):
        self.filter(begin="(call $hex (i32.const 4096) (i32.const 4))", end="")
        done = self.repl("secret", "", "x", "", "y", "")
        self.assertEqual(re.findall(rb"[a-p]{8}", done.stdout), [b"aaaaaaaa"] * 3)
        self.filter(end="(call $hex (i32.const 4098) (i32.const 4))", name="warm")
        done = self.repl("secret", "", "", "x", "", name="warm")
        self.assertIn(b"aaaaaaaa", done.stdout)
        self.assertEqual(len(set(re.findall(rb"[a-p]{8}", done.stdout))), 2)

    def test_a_fixed_point_is_kept_in_a_global_that_counts_turns(self):
        self.filter(end="""(global.set $kept (i32.add (global.get $kept) (i32.const 1)))
            (i32.store8 (i32.const 300) (global.get $kept)) (call $hex (i32.const 300) (i32.const 1))""")
        self.assertEqual(re.findall(rb"\b[a-p]{2}\b", self.repl("a", "", "b", "", "c", "").stdout), [b"ab"] * 3)

    def test_output_before_the_first_read_passes_the_output_limit(self):
        flood = """(loop $flood (call $write (i32.const 1) (i32.const 4096) (i32.const 60000)) (br $flood))"""
        self.filter(begin=flood)
        done = self.turn("--output", "4KiB", codes=(1, 2))
        self.assertLessEqual(len(done.stdout), 8 << 10)
        self.assert_memory(done, 64 * MIB)

    def test_a_program_that_never_reads_holds_up_the_making_of_its_image(self):
        self.filter(begin="(loop $for_ever (br $for_ever))")
        made = self.membrane("languages", "warm", "filter", codes=(0,))
        self.assert_cpu(made, 60)
        self.assertIn(b"fuel", self.turn("--fuel", "1000000", codes=(1, 2)).stderr)

    def test_what_a_program_says_and_its_code_get_lost_when_it_does_not_read(self):
        self.filter(begin=SAY_DRAWN + "(call $proc_exit (i32.const 7))")
        done = self.turn("--json", codes=(0, 1, 7))
        self.assertIn(b"aaaaaaaaaaaaaaaa", done.stdout)
        self.assertRegex(done.stdout, rb'"exit_code": ?7')

    def test_the_policys_clock_is_the_one_of_the_image(self):
        self.filter(begin="(drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 300)))", end=SAY_DRAWN)
        self.membrane("languages", "warm", "filter", codes=(0,))
        first, second = self.turn("--allow", "time"), self.turn("--allow", "time")
        self.assertNotEqual(first.stdout, second.stdout)

    def test_a_granted_file_is_not_seen_since_the_program_looked_for_it_before_it_read(self):
        self.file("in/data.txt", "granted")
        self.filter(begin="(drop (call $open (i32.const 200) (i32.const 11) (i64.const 2)))",
                    end="(call $write (i32.const 1) (i32.const 5000) (call $read (i32.load (i32.const 16)) (i32.const 5000)))")
        self.membrane("languages", "warm", "filter", codes=(0,))
        self.assertIn(b"granted", self.turn("--allow", "fs:read:./in").stdout)

    def test_files_of_turns_grow_without_a_bound(self):
        # Each turn appends 64 KiB; the session's files have a quota.
        append = """(drop (call $path_open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 4) (i32.const 1)
              (i64.const 66) (i64.const 0) (i32.const 1) (i32.const 16)))
            (loop $again (call $write (i32.load (i32.const 16)) (i32.const 65536) (i32.const 65536))
              (br_if $again (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 500))))"""
        self.filter(end=append)
        done = self.repl(*["a", ""] * 60)
        self.assert_memory(done, 256 * MIB)

    def test_thousands_of_turns_leave_something_behind_each(self):
        self.filter(end="(call $hex (i32.const 4096) (i32.const 1))")
        few, many = self.repl(*["a", ""] * 10), self.repl(*["a", ""] * 3000)
        self.assertEqual(len(re.findall(rb"\b[a-p]{2}\b", many.stdout)), 3000)
        if not SANITIZED:
            self.assertLess(many.memory_bytes, few.memory_bytes + 32 * MIB)

    def test_a_turn_has_a_hundred_megabytes(self):
        self.filter(end="(call $hex (i32.const 4096) (i32.const 1))")
        text = self.file("large.txt", b"a" * (100 * MIB))
        done = self.membrane("run", "--lang", "filter", text, "--module", "256MiB", codes=(0, 1))
        self.assert_memory(done, 512 * MIB)

    def test_arguments_with_nul_or_without_end(self):
        self.filter()
        self.turn(codes=(0,))
        done = self.membrane("run", "--lang", "filter", self.file("x.txt", "x"), *["a" * 1000] * 100, codes=(0, 1, 2))
        self.assert_memory(done, 64 * MIB)

    def test_an_exit_code_beyond_a_byte(self):
        for code in (256, 2**31, 2**32 - 1):
            name = f"exit{code}"
            self.filter(end=f"(call $proc_exit (i32.const {code}))", name=name)
            self.assertNotEqual(self.turn(name=name, codes=range(1, 256)).code, 3)


if __name__ == "__main__":
    unittest.main()
