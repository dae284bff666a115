"""Attempts to leave a granted directory by its paths, its links and by races, with both ways of opening
files: openat2, and the walk that is used if a kernel or a container has no openat2.

The attacker controls the program, and a helper outside the wall that renames directories and links inside the
grant while the program runs; neither may make the program see or touch anything outside."""

import contextlib
import ctypes
import json
import os
import socket
import sys
import threading
import unittest
from pathlib import Path

from attack import COMMAND, Attack, execute

HERE = Path(__file__).resolve().parent
AT_FDCWD, RENAME_EXCHANGE = -100, 2
ROUNDS = 2000
SECRET = b"the secret\n"

libc = ctypes.CDLL(None, use_errno=True)

# Does one thing ROUNDS times, and prints what was read each time that it succeeded.
READS = """(func (export "run") (local $i i32) (local $text i32) (local $errno i32)
  (loop $again
    (call $fs.read (string "%s")) (local.set $errno) (local.set $text)
    (if (i32.eqz (local.get $errno)) (then (call $io.print (local.get $text))))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $i) (i32.const %d)))))"""
LISTS = READS.replace("fs.read", "fs.list")
WRITES = """(func (export "run") (local $i i32)
  (loop $again
    (drop (call $fs.%s (string "%s") (string "overwritten")))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $i) (i32.const %d)))))"""
REMOVES = """(func (export "run") (local $i i32)
  (loop $again
    (drop (call $fs.remove (string "%s")))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $i) (i32.const %d)))))"""


class Tries:
    """Every attempt, for each way of opening files; `way` is what the machine's report says."""
    way = ""
    launcher = ()

    def setUp(self):
        super().setUp()
        (self.folder / "in" / "sub").mkdir(parents=True)
        (self.folder / "out" / "sub").mkdir(parents=True)
        for place in ("in/f", "in/sub/f"):
            self.file(place, b"harmless\n")
        for place in ("out/f", "out/sub/f"):
            self.file(place, SECRET)
        said = self.run_membrane("capabilities", "--machine", "--json")
        if json.loads(said.stdout)["machine"]["files"] != self.way:
            self.skipTest(f"files are not opened by {self.way} here")

    def run_membrane(self, *arguments):
        done = execute([*self.launcher, COMMAND, *map(str, arguments)], b"", self.folder, self.environment)
        self.assertIn(done.code, (0, 1, 2), str(done))
        return done

    def run_program(self, program, mode="read", grant="in", calls=ROUNDS + 10):
        return self.run_membrane("run", "-e", program, "--allow", f"fs:{mode}:./{grant}:/data", "--host-calls", calls,
                                 "--memory", "64MiB", "--wall", "10min")

    def link(self, target, name):
        os.symlink(target, self.folder / name)

    @contextlib.contextmanager
    def meanwhile(self, act):
        """Repeats something until the block ends."""
        ended = threading.Event()

        def work():
            while not ended.is_set():
                act()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def swap(self, a, b):
        """Exchanges two names in one step."""
        libc.renameat2(AT_FDCWD, os.fsencode(self.folder / a), AT_FDCWD, os.fsencode(self.folder / b), RENAME_EXCHANGE)

    def move(self, a, b):
        """Moves a name away and back."""
        with contextlib.suppress(OSError):
            os.rename(self.folder / a, self.folder / b)
        with contextlib.suppress(OSError):
            os.rename(self.folder / b, self.folder / a)

    def assert_only_harmless(self, done):
        self.assertEqual(set(done.stdout.splitlines(True)) - {b"harmless\n"}, set(), str(done))

    def assert_outside_untouched(self):
        self.assertEqual((self.folder / "out/f").read_bytes(), SECRET)
        self.assertEqual((self.folder / "out/sub/f").read_bytes(), SECRET)
        found = sorted(str(path.relative_to(self.folder)) for path in (self.folder / "out").rglob("*"))
        self.assertEqual(found, ["out/f", "out/sub", "out/sub/f"])

    def assert_refused(self, path, mode="read"):
        done = self.run_program(READS % (path, 1), mode)
        self.assertEqual(done.stdout, b"", str(done))
        self.assertNotIn(SECRET.strip(), done.stderr)

    # -- without a race

    def test_dots_in_the_path(self):
        for path in ("/data/../out/f", "/data/sub/../../out/f", "/data/./../out/f", "/data/sub//..//..//out/f"):
            self.assert_refused(path)

    def test_a_link_that_climbs_out(self):
        self.link("../out/f", "in/climbs")
        self.assert_refused("/data/climbs")

    def test_a_link_that_goes_up_more_often_than_there_are_directories(self):
        self.link("../" * 40 + "etc/passwd", "in/climbs")
        self.assert_refused("/data/climbs")

    def test_an_absolute_link(self):
        self.link(str(self.folder / "out/f"), "in/absolute")
        self.link("/etc/passwd", "in/passwd")
        self.assert_refused("/data/absolute")
        self.assert_refused("/data/passwd")

    def test_a_link_to_a_link_that_climbs_out_from_a_deeper_place(self):
        self.link("../../out", "in/sub/up")
        self.link("sub/up/f", "in/chain")
        self.assert_refused("/data/chain")
        self.assert_refused("/data/sub/up/f")

    def test_a_directory_that_is_a_link_into_proc(self):
        self.link("/proc/self/root", "in/root")
        self.link("/proc/self/cwd", "in/cwd")
        self.assert_refused("/data/root/etc/passwd")
        self.assert_refused("/data/cwd/out/f")

    def test_the_links_of_proc_itself(self):
        for path in ("/data/root/etc/passwd", "/data/cwd/out/f", "/data/fd/0", "/data/exe"):
            done = self.run_membrane("run", "-e", READS % (path, 1), "--allow", "fs:read:/proc/self:/data")
            self.assertEqual(done.stdout, b"", str(done))

    def test_what_is_mounted_below_the_grant(self):
        for path in ("/data/proc/version", "/data/proc/self/environ"):
            done = self.run_membrane("run", "-e", READS % (path, 1), "--allow", "fs:read:/:/data")
            self.assertEqual(done.stdout, b"", str(done))

    def test_ten_thousand_links_that_lead_to_each_other(self):
        self.link("f", "in/l0")
        for i in range(1, 10_000):
            os.symlink(f"l{i - 1}", self.folder / f"in/l{i}")
        done = self.run_program(READS % ("/data/l9999", 100))
        self.assertEqual(done.stdout, b"", str(done))
        self.assert_cpu(done, 5)

    def test_links_that_multiply_the_components(self):
        many = "sub/../" * 500
        self.link(many, "in/m0")
        for i in range(1, 40):
            self.link(f"m{i - 1}/{many}", f"in/m{i}")
        done = self.run_program(READS % ("/data/m39/f", 20))  # the kernel goes all these ways, the walk gives up
        self.assert_only_harmless(done)
        self.assert_cpu(done, 10)

    def test_a_fifo_and_a_socket_that_nobody_answers(self):
        os.mkfifo(self.folder / "in/fifo")
        with socket.socket(socket.AF_UNIX) as listener:
            directory = os.open(self.folder / "in", os.O_PATH)  # a path of its own would be too long for a socket
            self.addCleanup(os.close, directory)
            listener.bind(f"/proc/self/fd/{directory}/socket")
            self.assert_refused("/data/fifo")
            self.assert_refused("/data/socket")

    def test_a_write_through_a_link_and_through_a_directory_that_is_one(self):
        self.link("../out/f", "in/file")
        self.link("../out/new", "in/dangling")
        self.link("../out/sub", "in/directory")
        for name in ("file", "dangling", "directory/f", "directory/new"):
            for verb in ("write", "append"):
                self.run_program(WRITES % (verb, f"/data/{name}", 1), "write")
            self.run_program(REMOVES % (f"/data/{name}", 1), "write")
        self.assert_outside_untouched()

    def test_a_hard_link_to_a_file_outside(self):
        os.link(self.folder / "out/f", self.folder / "in/hard")
        self.run_program(WRITES % ("append", "/data/hard", 1), "write")
        self.run_program(WRITES % ("write", "/data/hard", 1), "write")
        self.assert_outside_untouched()

    # -- while a helper renames

    def test_a_read_while_a_directory_and_a_link_change_places(self):
        self.link("../out/sub", "in/other")
        with self.meanwhile(lambda: self.swap("in/sub", "in/other")):
            self.assert_only_harmless(self.run_program(READS % ("/data/sub/f", ROUNDS)))

    def test_a_read_while_a_file_and_a_link_change_places(self):
        self.link("../out/f", "in/other")
        with self.meanwhile(lambda: self.swap("in/f", "in/other")):
            self.assert_only_harmless(self.run_program(READS % ("/data/f", ROUNDS)))

    def test_a_read_through_dots_of_a_link_while_its_directory_is_moved_out(self):
        self.link("../f", "in/sub/up")
        with self.meanwhile(lambda: self.move("in/sub", "out/moved")):
            self.assert_only_harmless(self.run_program(READS % ("/data/sub/up", ROUNDS)))

    def test_a_read_while_a_link_changes_its_target(self):
        self.link("sub/f", "in/one")
        self.link("../out/f", "in/two")
        with self.meanwhile(lambda: self.swap("in/one", "in/two")):
            self.assert_only_harmless(self.run_program(READS % ("/data/one", ROUNDS)))

    def test_a_list_while_a_directory_and_a_link_change_places(self):
        self.file("out/sub/of_the_owner", b"")
        self.link("../out/sub", "in/other")
        with self.meanwhile(lambda: self.swap("in/sub", "in/other")):
            done = self.run_program(LISTS % ("/data/sub", ROUNDS))
        self.assertNotIn(b"of_the_owner", done.stdout)

    def test_a_write_while_a_directory_and_a_link_change_places(self):
        self.link("../out/sub", "in/other")
        with self.meanwhile(lambda: self.swap("in/sub", "in/other")):
            for verb in ("write", "append"):
                self.run_program(WRITES % (verb, "/data/sub/f", ROUNDS), "write")
        self.assert_outside_untouched()

    def test_a_write_while_a_file_and_a_link_change_places(self):
        self.link("../out/f", "in/other")
        with self.meanwhile(lambda: self.swap("in/f", "in/other")):
            for verb in ("write", "append"):
                self.run_program(WRITES % (verb, "/data/f", ROUNDS), "write")
        self.assert_outside_untouched()

    def test_new_directories_while_one_of_them_becomes_a_link(self):
        self.link("../out/sub", "in/other")
        with self.meanwhile(lambda: self.swap("in/sub", "in/other")):
            self.run_program(WRITES % ("write", "/data/sub/new/deeper/f", ROUNDS), "write")
        self.assert_outside_untouched()

    def test_a_remove_while_a_directory_and_a_link_change_places(self):
        self.link("../out/sub", "in/other")
        with self.meanwhile(lambda: self.swap("in/sub", "in/other")):
            self.run_program(REMOVES % ("/data/sub/f", ROUNDS), "write")
        self.assert_outside_untouched()


class PathsByOpenat2(Tries, Attack):
    way = "openat2"


class PathsByWalk(Tries, Attack):
    way = "walk"
    launcher = (sys.executable, str(HERE / "seccomp_without_openat2.py"), "ENOSYS")

    def test_a_container_that_forbids_openat2_opens_no_other_way_than_the_walk(self):
        self.launcher = (*self.launcher[:2], "EPERM")
        said = self.run_membrane("capabilities", "--machine")
        self.assertIn(b"files     walk: ", said.stdout)
        self.link("../out/f", "in/climbs")
        self.assert_refused("/data/climbs")
        self.assertEqual(self.run_program(READS % ("/data/sub/f", 1)).stdout, b"harmless\n")


if __name__ == "__main__":
    unittest.main()
