"""Attempts to leave a granted directory, or to change in it what the grant does not allow: by links, by
names, by races."""

import os
import stat
import threading
import unittest

from attack import SANITIZED, Attack

MODULE = "wasi_snapshot_preview1"
SIGNATURES = {
    "path_open": "i32 i32 i32 i32 i32 i64 i64 i32 i32", "fd_read": "i32 i32 i32 i32", "fd_write": "i32 i32 i32 i32",
    "fd_close": "i32", "path_symlink": "i32 i32 i32 i32 i32", "path_link": "i32 i32 i32 i32 i32 i32 i32",
    "path_readlink": "i32 i32 i32 i32 i32 i32", "path_rename": "i32 i32 i32 i32 i32 i32",
    "path_unlink_file": "i32 i32 i32", "path_create_directory": "i32 i32 i32", "path_remove_directory": "i32 i32 i32",
    "path_filestat_get": "i32 i32 i32 i32 i32",
}
CREATE, DIRECTORY, TRUNCATE = 1, 2, 8
READ, WRITE = 2, 64
ALL_RIGHTS = (1 << 29) - 1
NOENT, PERM, ROFS, XDEV, NOTCAPABLE, ACCES, LOOP, NAMETOOLONG = 44, 63, 69, 75, 76, 2, 32, 37
OUT = {PERM, NOTCAPABLE, ACCES}  # what leads out of a grant ends in one of these


class Program:
    """A WASI command that makes calls one after another, and prints the error number of each on a line of its own."""

    def __init__(self):
        self.data, self.body, self.at = [], [], 4096

    def place(self, text):
        raw = text if isinstance(text, bytes) else text.encode()
        escaped = "".join(f"\\{byte:02x}" for byte in raw)
        self.data.append(f'(data (i32.const {self.at}) "{escaped}")')
        self.at += len(raw) + 8
        return f"(i32.const {self.at - len(raw) - 8}) (i32.const {len(raw)})"

    def say(self, call):
        self.body.append(f"(call $say {call})")

    def call(self, name, *path, directory="(i32.const 3)"):
        self.say(f"(call ${name} {directory} {' '.join(self.place(part) for part in path)})")

    def open(self, path, flags=0, rights=READ, follow=1, directory="(i32.const 3)"):
        """Opened files stay open, under the number at 64."""
        self.say(f"(call $path_open {directory} (i32.const {follow}) {self.place(path)} (i32.const {flags}) "
                 f"(i64.const {rights}) (i64.const {ALL_RIGHTS}) (i32.const 0) (i32.const 64))")

    def show(self, path):
        """Prints the error number of opening, and the readable contents."""
        self.open(path)
        self.body.append("(call $show)")

    def overwrite(self, path, flags=CREATE):
        self.open(path, flags, READ | WRITE)
        self.body.append("(call $overwrite)")

    def symlink(self, target, path):
        self.say(f"(call $path_symlink {self.place(target)} (i32.const 3) {self.place(path)})")

    def link(self, old, new):
        self.say(f"(call $path_link (i32.const 3) (i32.const 0) {self.place(old)} (i32.const 3) {self.place(new)})")

    def rename(self, old, new):
        self.say(f"(call $path_rename (i32.const 3) {self.place(old)} (i32.const 3) {self.place(new)})")

    def text(self, times=1):
        imports = "".join(f'(import "{MODULE}" "{name}" (func ${name} (param {types}) (result i32)))'
                          for name, types in SIGNATURES.items())
        # 0: a vector; 16: its byte count; 64: the last descriptor; 128: digits; 256: bytes that were read.
        return f"""(module {imports} (memory (export "memory") 16) {"".join(self.data)}
          (data (i32.const 2048) "OVERWRITTEN")
          (func $put (param $at i32) (param $size i32)
            (i32.store (i32.const 0) (local.get $at)) (i32.store (i32.const 4) (local.get $size))
            (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
          (func $say (param $errno i32)
            (if (local.get $errno) (then (i32.store (i32.const 64) (i32.const -1))))
            (i32.store8 (i32.const 128) (i32.add (i32.const 48) (i32.div_u (local.get $errno) (i32.const 10))))
            (i32.store8 (i32.const 129) (i32.add (i32.const 48) (i32.rem_u (local.get $errno) (i32.const 10))))
            (i32.store8 (i32.const 130) (i32.const 10))
            (call $put (i32.const 128) (i32.const 3)))
          (func $show
            (i32.store (i32.const 0) (i32.const 256)) (i32.store (i32.const 4) (i32.const 256))
            (i32.store (i32.const 16) (i32.const 0))
            (if (i32.eqz (call $fd_read (i32.load (i32.const 64)) (i32.const 0) (i32.const 1) (i32.const 16)))
              (then (call $put (i32.const 256) (i32.load (i32.const 16)))))
            (drop (call $fd_close (i32.load (i32.const 64)))))
          (func $overwrite
            (i32.store (i32.const 0) (i32.const 2048)) (i32.store (i32.const 4) (i32.const 11))
            (drop (call $fd_write (i32.load (i32.const 64)) (i32.const 0) (i32.const 1) (i32.const 16)))
            (drop (call $fd_close (i32.load (i32.const 64)))))
          (func (export "_start") (local $left i32)
            (local.set $left (i32.const {times}))
            (loop $again {" ".join(self.body)}
              (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"""


class FilesAttack(Attack):
    def setUp(self):
        super().setUp()
        self.inside, self.outside = self.folder / "inside", self.folder / "outside"
        self.inside.mkdir()
        self.outside.mkdir()
        (self.outside / "secret").write_text("THE SECRET")
        self.program = Program()

    def attack(self, *grants, times=1, more=()):
        """Runs the program; by default inside is granted as /w, with links. Returns the error numbers."""
        flags = [word for grant in grants or (f"fs:write,links:{self.inside}:/w",) for word in ("--allow", grant)]
        path = self.file("attack.wat", self.program.text(times))
        done = self.membrane("run", path, "--fuel", "1e10", "--output", "8MiB", *flags, *more)
        self.assertNotIn(b"THE SECRET", done.stdout + done.stderr, str(done))
        self.assertEqual((self.outside / "secret").read_text(), "THE SECRET")
        self.assertEqual([entry.name for entry in self.outside.iterdir()], ["secret"])
        self.done = done
        return [int(line) for line in done.stdout.splitlines() if line.isdigit() and len(line) == 2]

    def assert_out(self, errnos):
        self.assertTrue(errnos and all(errno in OUT for errno in errnos), f"{errnos}\n{self.done}")

    def test_a_link_of_the_host_that_climbs_out(self):
        (self.inside / "up").symlink_to("../outside/secret")
        (self.inside / "dir").symlink_to("../outside")
        for path in ("w/up", "w/dir/secret", "w/dir/../outside/secret"):
            self.program.show(path)
            self.program.overwrite(path)
        self.program.overwrite("w/dir/new")
        self.assert_out(self.attack())

    def test_an_absolute_link_of_the_host(self):
        (self.inside / "absolute").symlink_to(self.outside / "secret")
        (self.inside / "home").symlink_to(self.inside)
        self.program.show("w/absolute")
        self.program.overwrite("w/absolute")
        self.program.overwrite("w/home/new")
        self.assert_out(self.attack())

    def test_a_chain_of_links_whose_last_one_leads_out(self):
        for number in range(10):
            (self.inside / f"l{number}").symlink_to(f"l{number + 1}")
        (self.inside / "l10").symlink_to("../outside/secret")
        self.program.show("w/l0")
        self.program.overwrite("w/l0")
        self.assert_out(self.attack())

    def test_a_link_that_the_program_makes_to_an_absolute_path(self):
        self.program.symlink(str(self.outside / "secret"), "w/l")
        self.program.symlink("/", "w/m")
        self.assertEqual(self.attack(), [PERM, PERM])
        self.assertEqual(list(self.inside.iterdir()), [])

    def test_a_link_that_the_program_makes_out_of_the_grant(self):
        for target in ("../outside/secret", "x/../../outside/secret", "./../outside", "../inside/x"):
            self.program.symlink(target, "w/l")
        self.assert_out(self.attack())
        self.assertEqual(list(self.inside.iterdir()), [])

    def test_a_link_that_leads_out_once_its_directory_is_moved_up(self):
        self.program.call("path_create_directory", "w/a")
        self.program.call("path_create_directory", "w/a/b")
        self.program.symlink("../../outside/secret", "w/a/b/l")
        self.program.rename("w/a/b", "w/b")
        self.program.show("w/b/l")
        self.program.overwrite("w/b/l")
        errnos = self.attack()
        self.assertEqual(errnos[:3], [0, 0, 0])
        self.assertNotEqual(errnos[3], 0, "a directory with such a link does not move up")
        self.assertFalse((self.inside / "b").exists())

    def test_dot_dot_above_the_root(self):
        for path in ("../outside/secret", "w/../../outside/secret", "w/./../../../../etc/passwd", ".."):
            self.program.show(path)
        self.assert_out(self.attack())

    def test_dot_dot_out_of_a_directory_that_is_open(self):
        (self.inside / "sub").mkdir()
        (self.inside / "file").write_text("x")
        (self.inside / "sub" / "l").symlink_to("../file")
        here = "(i32.load (i32.const 64))"
        for path in ("../file", "l"):
            self.program.open("w/sub", DIRECTORY)
            self.program.open(path, directory=here)
        errnos = self.attack()
        self.assertEqual([errnos[0], errnos[2]], [0, 0])
        self.assert_out([errnos[1], errnos[3]])

    def test_absolute_paths(self):
        for path in (str(self.outside / "secret"), "/etc/passwd", "//etc/passwd", "/w/../etc/passwd"):
            self.program.show(path)
        self.assert_out(self.attack())

    def test_out_of_a_grant_of_the_root(self):
        (self.inside / "up").symlink_to("../outside/secret")
        for path in ("up", "../outside/secret", "./../outside/secret", "/etc/passwd"):
            self.program.show(path)
        self.program.symlink("../x", "l")
        self.assert_out(self.attack(f"fs:write,links:{self.inside}:/"))

    def test_the_links_of_proc(self):
        (self.inside / "root").symlink_to("/proc/self/root")
        (self.inside / "cwd").symlink_to("/proc/self/cwd")
        self.program.show("w/root/etc/passwd")
        self.program.show("w/cwd/outside/secret")
        self.assert_out(self.attack())

    def test_fifos_devices_and_sockets(self):
        os.mkfifo(self.inside / "fifo")
        names = ["fifo"]
        try:
            os.mknod(self.inside / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
            names.append("zero")
        except PermissionError:
            pass  # only root makes devices
        for name in names:
            (self.inside / f"{name}_link").symlink_to(name)
            for path in (f"w/{name}", f"w/{name}_link"):
                self.program.show(path)
                self.program.overwrite(path)
            self.program.link(f"w/{name}", "w/new")
            self.program.rename(f"w/{name}", "w/new")
            self.program.call("path_unlink_file", f"w/{name}")
        self.assert_out(self.attack())
        self.assertFalse((self.inside / "new").exists())

    def test_a_hard_link_to_a_file_outside_is_not_written(self):
        os.link(self.outside / "secret", self.inside / "hard")
        (self.inside / "l").symlink_to("hard")
        self.program.overwrite("w/hard", CREATE | TRUNCATE)
        self.program.overwrite("w/l", 0)
        self.assert_out(self.attack())

    def test_more_names_for_a_hard_link_do_not_make_it_writable(self):
        os.link(self.outside / "secret", self.inside / "hard")
        self.program.link("w/hard", "w/a")
        self.program.link("w/a", "w/b")
        self.program.call("path_unlink_file", "w/hard")
        self.program.call("path_unlink_file", "w/a")
        self.program.overwrite("w/b")
        errnos = self.attack()
        self.assertIn(errnos[0], OUT)
        self.assertFalse((self.inside / "b").samefile(self.outside / "secret"))

    def test_names_and_links_between_two_grants(self):
        other = self.folder / "other"
        other.mkdir()
        (self.inside / "x").write_text("x")
        self.program.rename("w/x", "o/x")
        self.program.link("w/x", "o/x")
        self.program.rename("w/x", "tmp/x")
        self.assertEqual(self.attack(f"fs:write,links:{self.inside}:/w", f"fs:write,links:{other}:/o"), [XDEV] * 3)
        self.assertEqual(list(other.iterdir()), [])

    def test_a_link_into_a_grant_for_reading_only(self):
        (self.inside / "ro").mkdir()
        (self.inside / "ro" / "x").write_text("kept")
        self.program.symlink("ro/x", "w/l")
        self.program.symlink("ro", "w/d")
        self.program.overwrite("w/l")
        self.program.overwrite("w/d/x")
        self.program.overwrite("w/d/../ro/new")
        self.program.link("w/ro/x", "w/mine")
        errnos = self.attack(f"fs:write,links:{self.inside}:/w", f"fs:read:{self.inside / 'ro'}:/w/ro")
        self.assertEqual(errnos, [0, 0, ROFS, ROFS, ROFS, XDEV])
        self.assertEqual((self.inside / "ro" / "x").read_text(), "kept")

    def test_what_is_granted_is_moved_away_or_replaced_by_a_link(self):
        (self.inside / "ro").mkdir()
        self.program.rename("w/ro", "w/moved")
        self.program.call("path_remove_directory", "w/ro")
        self.program.rename("w", "v")
        self.program.symlink("x", "w/ro")
        errnos = self.attack(f"fs:write,links:{self.inside}:/w", f"fs:read:{self.inside / 'ro'}:/w/ro")
        self.assertTrue(errnos and all(errnos), errnos)
        self.assertTrue((self.inside / "ro").is_dir())

    def test_links_where_the_grant_has_none(self):
        (self.inside / "file").write_text("x")
        self.program.symlink("file", "w/l")
        self.program.link("w/file", "w/h")
        self.assertEqual(self.attack(f"fs:write:{self.inside}:/w"), [PERM, PERM])
        self.assertEqual([entry.name for entry in self.inside.iterdir()], ["file"])

    def test_links_that_are_longer_at_each_step(self):
        for number in range(45):
            (self.inside / f"b{number}").symlink_to(f"b{number + 1}/" * 16 + "x")
        (self.inside / "self").symlink_to("self/" * 800 + "self")
        for path in ("w/b0", "w/self"):
            self.program.show(path)
            self.program.call("path_create_directory", f"{path}/d")
        errnos = self.attack(times=10)
        self.assertTrue(errnos and all(errnos), errnos)
        self.assert_cpu(self.done, 10)

    def test_paths_that_are_too_long_or_too_deep(self):
        for path in ("w/" + "a" * 256, "w/" + "a/" * 3000, "w/" + "a/" * 200 + "x", "w/" + "../w/" * 700 + "y"):
            self.program.overwrite(path)
        self.program.symlink("a" * 5000, "w/l")
        self.program.symlink("a/" * 3000, "w/l")
        errnos = self.attack()
        self.assertTrue(errnos and all(errnos[:3] + errnos[4:]), errnos)

    def test_names_with_nul_and_names_that_are_no_text(self):
        for path in (b"w/a\0b", b"w/\xff\xfe", b"w/\xc0\xae\xc0\xae/x", b"w/..\0/secret"):
            self.program.overwrite(path)
            self.program.symlink("x", path)
        self.program.symlink(b"x\0/../..", "w/l")
        self.program.symlink(b"\xff", "w/l")
        errnos = self.attack()
        self.assertTrue(errnos and all(errnos), errnos)
        self.assertEqual(list(self.inside.iterdir()), [])

    def test_a_link_whose_target_is_no_text(self):
        os.symlink(b"\xff\xfe", self.inside / "l")
        self.program.show("w/l")
        self.program.overwrite("w/l")
        self.assert_out(self.attack())

    def test_names_with_escapes_do_not_reach_the_terminal(self):
        for name in ("w/\x1b[2J\x1b]0;x\x07", "w/\r\n\x1b[31mreport: all is well"):
            self.program.overwrite(name)
            self.program.call("path_unlink_file", name + "/")
            self.program.show("missing" + name)
        self.attack()
        self.assertNotIn(b"\x1b", self.done.stderr, str(self.done))

    def test_a_name_of_a_file_outside_is_removed_by_another_grant(self):
        os.link(self.outside / "secret", self.inside / "hard")
        self.program.link("w/hard", "w/a")
        self.program.call("path_unlink_file", "k/hard")
        self.program.overwrite("w/a")
        self.program.overwrite("w/hard", 0)
        errnos = self.attack(f"fs:write,links:{self.inside}:/w", f"fs:write:{self.inside}:/k")
        self.assertIn(errnos[0], OUT)
        self.assertFalse((self.inside / "a").exists() and (self.inside / "a").samefile(self.outside / "secret"))

    def test_a_link_is_moved_to_where_it_leads_out(self):
        self.program.call("path_create_directory", "w/d")
        self.program.symlink("../outside/secret", "w/d/l")
        self.program.rename("w/d/l", "w/report")
        self.program.call("path_create_directory", "w/d/e")
        self.program.symlink("../../outside/secret", "w/d/e/l")
        self.program.rename("w/d/e", "w/e")
        errnos = self.attack()
        self.assertEqual((errnos[:2], errnos[3:5]), ([0, 0], [0, 0]))
        for path in (self.inside / "report", self.inside / "e" / "l"):
            self.assertFalse(path.exists(), errnos)

    def test_the_times_of_a_file_outside(self):
        self.need("python")
        os.link(self.outside / "secret", self.inside / "hard")
        before = os.stat(self.outside / "secret").st_mtime_ns
        self.membrane("run", "-e", "import os; os.utime('/w/hard', (5, 5))", "--allow", f"fs:write:{self.inside}:/w")
        self.assertEqual(os.stat(self.outside / "secret").st_mtime_ns, before)

    def test_directories_so_deep_that_their_names_fill_the_host(self):
        self.program.open("tmp", DIRECTORY)
        name = "n" * 250
        part = self.program.place(name)
        for _ in range(1500):
            self.program.body.append(f"(drop (call $path_create_directory (i32.load (i32.const 64)) {part}))"
                                     f"(drop (call $path_open (i32.load (i32.const 64)) (i32.const 0) {part} (i32.const 2)"
                                     f" (i64.const {READ}) (i64.const {ALL_RIGHTS}) (i32.const 0) (i32.const 64)))")
        path = self.file("attack.wat", self.program.text())
        done = self.membrane("run", path, "--memory", "2MiB")
        self.assert_memory(done, 2 << 20)
        self.assert_cpu(done, 5)

    def test_more_links_than_the_grant_has_files(self):
        (self.folder / "few.toml").write_text(
            f'[[fs]]\nguest = "/w"\nhost = "{self.inside}"\nmode = "write"\nlinks = true\nmax_files = 5\n')
        for number in range(10):
            self.program.symlink("x", f"w/s{number}")
            self.program.link("w/s0", f"w/h{number}")
        path = self.file("attack.wat", self.program.text())
        self.membrane("run", path, "--policy", "few.toml")
        self.assertEqual(len(list(self.inside.iterdir())), 5)

    def race(self, prepare, swap):
        """Swaps names as quickly as it can while the program uses them, repeatedly."""
        prepare()
        stop = threading.Event()

        def swapping():
            while not stop.is_set():
                swap()

        swapper = threading.Thread(target=swapping)
        swapper.start()
        try:
            for path in ("w/x/secret", "w/l/secret"):
                self.program.show(path)
                self.program.overwrite(path)
                self.program.link(path, "w/taken")
                self.program.show("w/taken")
                self.program.call("path_unlink_file", "w/taken")
                self.program.overwrite("w/x/new")
                self.program.rename("w/x/new", "w/x/newer")
                self.program.call("path_unlink_file", "w/x/newer")
            errnos = self.attack(times=50 if SANITIZED else 300, more=("--host-calls", "1000000"))
        finally:
            stop.set()
            swapper.join()
        self.assertIn(0, errnos, "the program never came to a file: nothing was raced")

    def test_a_directory_is_swapped_for_a_link_during_the_calls(self):
        def prepare():
            (self.inside / "x").mkdir()
            (self.inside / "x" / "secret").write_text("harmless")
            (self.inside / "evil").symlink_to("../outside")
            (self.inside / "l").symlink_to("x")

        def swap():
            os.rename(self.inside / "x", self.inside / "kept")
            os.rename(self.inside / "evil", self.inside / "x")
            os.rename(self.inside / "x", self.inside / "evil")
            os.rename(self.inside / "kept", self.inside / "x")

        self.race(prepare, swap)

    def test_the_target_of_a_link_is_swapped_during_the_calls(self):
        targets = ["../outside", "real", "real/../../outside", "/"]

        def prepare():
            (self.inside / "real").mkdir()
            (self.inside / "real" / "secret").write_text("harmless")
            (self.inside / "x").symlink_to("real")
            (self.inside / "l").symlink_to("x")

        def swap():
            targets.append(targets.pop(0))
            (self.inside / "fresh").symlink_to(targets[0])
            os.rename(self.inside / "fresh", self.inside / "x")

        self.race(prepare, swap)


if __name__ == "__main__":
    unittest.main()
