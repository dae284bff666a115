"""Attempts by and through WASI programs: floods of inputs and outputs, ways out of --dir, abnormal
ends."""

import os
import sys
import unittest

from attack import MIB, Attack, ROOT

sys.path.insert(0, str(ROOT / "cli"))
from wasi_programs_test import COPY, exits, program  # noqa: E402

LOOP = "(loop $again {} (br $again))"
FLOOD = "(call $put (i32.const {}) (i32.const 65536) (i32.const 65536))"
BIG = '(memory (export "memory") 512)'  # 32 MiB


class WasiAttack(Attack):
    def wasi(self, body, *options, name="x.wat", codes=(0, 1, 2), stdin=b"", environment=None, **more):
        path = self.file(name, program(body, **more))
        return self.membrane("run", *options, path, stdin=stdin, codes=codes, **(environment or {}))

    # -- what it is given ---------------------------------------------------------------------------------------

    def test_more_arguments_than_its_memory_holds(self):
        path = self.file("x.wat", program("(drop (call $args_get (i32.const 0) (i32.const 32768)))", uses=["args_get"],
                                          memory='(memory (export "memory") 1)'))
        done = self.membrane("run", path, "--", *["x" * 300] * 200)
        self.assert_memory(done, 64 * MIB)

    def test_an_environment_that_its_memory_cannot_hold(self):
        options = [word for i in range(200) for word in ("--env", f"NAME{i}={'v' * 300}")]
        done = self.wasi("(drop (call $environ_get (i32.const 0) (i32.const 32768)))", *options, uses=["environ_get"],
                         memory='(memory (export "memory") 1)')
        self.assert_memory(done, 64 * MIB)
        self.assert_cpu(done, 5)

    def test_a_variable_with_two_names(self):
        done = self.membrane("run", "--env", "=x", self.file("x.wat", COPY), codes=(2,))
        self.assertIn(b"names no variable", done.stderr)

    def test_what_the_host_has_in_its_environment_is_not_seen(self):
        done = self.wasi("(drop (call $environ_sizes_get (i32.const 16) (i32.const 20)))"
                         "(call $proc_exit (i32.load (i32.const 16)))", uses=["environ_sizes_get"], codes=(0,),
                         environment={"SECRET": "hunter2"})
        self.assertNotIn(b"hunter2", done.stdout + done.stderr)

    def test_an_endless_input(self):
        """Read in constant memory, paid with fuel."""
        path = self.file("x.wat", program(LOOP.format("(drop (call $get))")))
        done = self.membrane("run", path, "--input", "/dev/zero", "--fuel", "1e7", codes=(1,))
        self.assertIn(b"out_of_fuel", done.stderr)
        self.assert_memory(done, 64 * MIB)
        self.assert_cpu(done, 20)

    def test_an_endless_input_of_a_program_that_is_no_wasi_program(self):
        path = self.file("x.wat", '(func (export "run") (call $io.print (call $io.input)))')
        done = self.membrane("run", path, "--input", "/dev/zero", "--bytes-in", "1MiB", codes=(2,))
        self.assertIn(b"more than 1048576 bytes", done.stderr)
        self.assert_memory(done, 64 * MIB)

    def test_an_input_that_never_comes(self):
        read, write = os.pipe()
        self.addCleanup(os.close, write)
        self.addCleanup(os.close, read)
        done = self.membrane("run", self.file("x.wat", COPY), "--wall", "1s", "--input", f"/proc/{os.getpid()}/fd/{read}", codes=(1,))
        self.assertIn(b"timed_out", done.stderr)
        self.assert_cpu(done, 5)

    # -- what it says -------------------------------------------------------------------------------------------

    def flood(self, stream, *options, body=FLOOD):
        done = self.wasi(LOOP.format(body.format(stream)), "--output", "100KiB", *options, memory=BIG, codes=(1,))
        self.assert_memory(done, 64 * MIB)
        return done

    def test_a_flood_on_stdout(self):
        self.assertEqual(len(self.flood(1).stdout), 100 << 10)

    def test_a_flood_on_stderr(self):
        self.assertLess(len(self.flood(2).stderr), (100 << 10) + 2000)

    def test_a_flood_of_what_is_no_text(self):
        """Each byte becomes three in a report."""
        done = self.flood(1, "--json", body="(memory.fill (i32.const 65536) (i32.const 255) (i32.const 65536))" + FLOOD)
        self.assertLess(len(done.stdout), 3 * (100 << 10) + 2000)

    def test_one_write_of_the_whole_memory(self):
        done = self.wasi("(call $put (i32.const 1) (i32.const 64) (i32.const 33000000))", "--output", "1KiB", memory=BIG, codes=(1,))
        self.assertEqual(len(done.stdout), 1024)
        self.assert_memory(done, 64 * MIB)

    def test_vectors_that_all_name_the_whole_memory(self):
        fill = ("(local $i i32) (loop $next (i32.store (i32.add (i32.const 1024) (i32.shl (local.get $i) (i32.const 3))) (i32.const 0))"
                "(i32.store (i32.add (i32.const 1028) (i32.shl (local.get $i) (i32.const 3))) (i32.const 33554432))"
                "(br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1024))))")
        done = self.wasi(fill + "(call $proc_exit (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 1024) (i32.const 8)))",
                         memory=BIG, codes=(28,))  # EINVAL
        self.assert_memory(done, 64 * MIB)

    def test_more_vectors_than_there_can_be(self):
        self.wasi("(call $proc_exit (call $fd_write (i32.const 1) (i32.const 0) (i32.const -1) (i32.const 8)))",
                  codes=(21, 28))

    def test_control_characters_in_the_program_name(self):
        done = self.wasi("(unreachable)", name="\x1b[2J.wat", codes=(1,))
        self.assertNotIn(b"\x1b[2J", done.stderr)

    # -- the end ------------------------------------------------------------------------------------------------

    def test_an_exit_code_that_ends_in_eight_zero_bits(self):
        for code in (256, 65536, -256):
            self.membrane("run", self.file("x.wat", exits(code)), codes=(255,))

    def test_an_exit_code_that_says_membrane_failed(self):
        done = self.membrane("run", self.file("x.wat", exits(3)), codes=(3,))
        self.assertIn(b"outcome: ok", done.stderr)

    def test_every_signal_that_it_can_raise(self):
        for number in (*range(32), -1):
            self.wasi(f"(drop (call $proc_raise (i32.const {number})))", uses=["proc_raise"])

    def test_a_sleep_that_outlasts_the_wall(self):
        subscription = "(i32.store8 (i32.const 1032) (i32.const 0)) (i32.store (i32.const 1040) (i32.const 1)) (i64.store (i32.const 1048) (i64.const 9000000000000000))"
        done = self.wasi(subscription + "(drop (call $poll_oneoff (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 16)))",
                         "--allow", "time", "--wall", "1s", uses=["poll_oneoff"], codes=(1,))
        self.assertIn(b"timed_out", done.stderr)

    def test_sleeps_without_end_on_the_virtual_clock(self):
        subscription = "(i32.store8 (i32.const 1032) (i32.const 0)) (i32.store (i32.const 1040) (i32.const 1)) (i64.store (i32.const 1048) (i64.const 1000000000))"
        done = self.wasi(subscription + LOOP.format("(drop (call $poll_oneoff (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 16)))"),
                         "--fuel", "1e6", uses=["poll_oneoff"], codes=(1,))
        self.assertIn(b"out_of_fuel", done.stderr)
        self.assert_cpu(done, 10)

    # -- ways out of --dir --------------------------------------------------------------------------------------

    def open(self, path, *options):
        """Opens a path relative to /, for reading; returns the errno."""
        (self.folder / "in").mkdir(exist_ok=True)
        self.file("in/inside.txt", "inside")
        self.file("outside.txt", "outside")
        size = len(path.encode())
        body = (f"(call $proc_exit (call $path_open (i32.const 3) (i32.const 1) (i32.const 1024) (i32.const {size}) (i32.const 0) "
                "(i64.const 2) (i64.const 0) (i32.const 0) (i32.const 16)))")
        text = "".join(f"\\{byte:02x}" for byte in path.encode())
        return self.wasi(body, *options, uses=["path_open"], more=f'(data (i32.const 1024) "{text}")', codes=range(80)).code

    def test_paths_that_climb_out_of_a_directory(self):
        for grant in ("in", "in:/", "in:/a/b:ro", "in::in"):
            base = {"in": "in/", "in:/": "", "in:/a/b:ro": "a/b/", "in::in": "in/"}[grant]
            self.assertEqual(self.open(base + "inside.txt", "--dir", grant), 0, grant)
            for path in ("../outside.txt", "../../outside.txt", "./.././../outside.txt", "x/../../outside.txt", "..", "../.."):
                self.assertNotEqual(self.open(base + path + ("" if "txt" in path else "/outside.txt"), "--dir", grant), 0, (grant, path))

    def test_links_that_lead_out_of_a_directory(self):
        (self.folder / "in").mkdir(exist_ok=True)
        self.file("outside.txt", "outside")
        (self.folder / "in/link").symlink_to("../outside.txt")
        (self.folder / "in/absolute").symlink_to(self.folder / "outside.txt")
        (self.folder / "in/up").symlink_to("..")
        for path in ("in/link", "in/absolute", "in/up/outside.txt", "in/up/in/inside.txt"):
            self.assertNotEqual(self.open(path, "--dir", "in"), 0, path)

    def test_writing_where_it_may_only_read(self):
        (self.folder / "in").mkdir(exist_ok=True)
        self.file("in/kept.txt", "kept")
        for flags, name in ((1, "new.txt"), (8, "kept.txt")):  # create; truncate
            body = (f"(call $proc_exit (call $path_open (i32.const 3) (i32.const 1) (i32.const 1024) (i32.const {3 + len(name)}) (i32.const {flags}) "
                    "(i64.const 66) (i64.const 0) (i32.const 0) (i32.const 16)))")
            done = self.wasi(body, "--dir", "in:ro", uses=["path_open"], more=f'(data (i32.const 1024) "in/{name}")', codes=range(80))
            self.assertNotEqual(done.code, 0)
        self.assertEqual((self.folder / "in/kept.txt").read_text(), "kept")
        self.assertEqual(os.listdir(self.folder / "in"), ["kept.txt"])

    def test_a_directory_flag_that_names_the_host_as_it_likes(self):
        for flag in ("", ":/x", "::", "in:../up", "..", "in:/a/../../b", "nowhere"):
            done = self.membrane("run", self.file("x.wat", COPY), "--dir", flag, codes=(2,))
            self.assertIn(b"hint:", done.stderr)

    def test_all_descriptors_there_can_be(self):
        opens = "(drop (call $path_open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 2) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 16)))"
        done = self.wasi(LOOP.format(opens), "--fuel", "1e7", uses=["path_open"], more='(data (i32.const 1024) ".")', codes=(1,))
        self.assertIn(b"out_of_fuel", done.stderr)
        self.assert_memory(done, 64 * MIB)
        self.assert_cpu(done, 20)

    def test_files_of_its_own_beyond_their_quota(self):
        body = ("(drop (call $path_open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1) (i64.const 66) (i64.const 0) (i32.const 0) (i32.const 16)))"
                + LOOP.format("(call $put (i32.load (i32.const 16)) (i32.const 65536) (i32.const 16777216))"))
        done = self.wasi(body, "--fuel", "1e9", uses=["path_open"], memory=BIG, more='(data (i32.const 1024) "f")', codes=(1,))
        self.assert_memory(done, (64 + 64) * MIB)

    # -- modules ------------------------------------------------------------------------------------------------

    def test_a_module_that_imports_a_function_ten_thousand_times(self):
        imports = '(import "wasi_snapshot_preview1" "sched_yield" (func (result i32)))' * 10_000
        done = self.membrane("run", self.file("x.wat", f'(module {imports} (func (export "_start")))'), codes=(0, 2))
        self.assert_memory(done, 64 * MIB)
        self.assert_cpu(done, 20)

    def test_wasi_functions_with_types_of_their_own(self):
        for kind in ("(func (param i64))", "(func (result i64))", "(global i32)", "(memory 1)", "(table 1 funcref)"):
            self.membrane("run", self.file("x.wat", f'(module (import "wasi_snapshot_preview1" "fd_write" {kind}) (func (export "_start")))'),
                          codes=(2,))

    def test_an_initializer_that_never_returns(self):
        done = self.membrane("run", self.file("x.wat", f'(module (func (export "_initialize") {LOOP.format("")}) (func (export "f")))'),
                             "--invoke", "f", "--fuel", "1e6", codes=(1,))
        self.assertIn(b"out_of_fuel", done.stderr)

    def test_exiting_while_it_is_initialized(self):
        text = '(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32))) (func (export "_initialize") (call $exit (i32.const 7))) (func (export "f") unreachable))'
        self.membrane("run", self.file("x.wat", text), "--invoke", "f", codes=(7,))


if __name__ == "__main__":
    unittest.main()
