"""Attempts against the files that Membrane creates and reads back: warm images, compiled code, packages of
languages. The attacker damages them, or is another user who may write to their directory."""

import os
import shutil
import stat
import subprocess
import unittest
from pathlib import Path

from attack import Attack, LANGUAGES, MIB, SANITIZED

REPLY = b"42 42\n"

# A language small enough to be warm in an instant: each line is a number, and it prints their sum.
SUM = """(module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 4096) "the memory of the image")
  (table 4 funcref)
  (elem (i32.const 0) $read $write)
  (func $read (result i32)
    (i64.store (i32.const 0) (i64.const 0x1_0000_0010))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (select (i32.load8_u (i32.const 16)) (i32.const -1) (i32.load (i32.const 8))))
  (func $write (param $at i32) (param $bytes i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $bytes))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func $print (param $n i32) (param $end i32) (local $at i32)
    (local.set $at (i32.const 63))
    (i32.store8 (i32.const 63) (local.get $end))
    (loop $digit
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at) (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))
      (br_if $digit (local.tee $n (i32.div_u (local.get $n) (i32.const 10)))))
    (call_indirect (param i32 i32) (local.get $at) (i32.sub (i32.const 64) (local.get $at)) (i32.const 1)))
  (func (export "_start") (local $c i32) (local $n i32) (local $sum i32)
    (loop $next
      (local.set $c (call_indirect (result i32) (i32.const 0)))
      (if (i32.eq (local.get $c) (i32.const -1)) (then (return)))
      (if (i32.ne (local.get $c) (i32.const 10))
        (then (local.set $n (i32.add (i32.mul (local.get $n) (i32.const 10)) (i32.sub (local.get $c) (i32.const 48))))
              (br $next)))
      (local.set $sum (i32.add (local.get $sum) (local.get $n)))
      (call $print (local.get $n) (i32.const 32))
      (call $print (local.get $sum) (i32.const 10))
      (local.set $n (i32.const 0))
      (br $next))))
"""


class ImageAttack(Attack):
    """The language `sum` is installed and warm."""

    def setUp(self):
        super().setUp()
        self.environment["MEMBRANE_LANGUAGES"] = str(self.folder / "languages")
        self.environment["XDG_CACHE_HOME"] = str(self.folder / "cache")
        self.membrane("languages", "add", "sum", self.file("sum.wat", SUM), codes=(0,))
        self.assertEqual(self.sum().stdout, REPLY)
        self.cache = self.folder / "cache/membrane/templates"
        self.image = next(self.cache.glob("sum-*.image"))
        self.good = self.image.read_bytes()

    def sum(self, codes=(0,), **environment):
        return self.membrane("run", "--lang", "sum", "-e", "42", codes=codes, **environment)

    def assert_replaced(self, done):
        """The command reports the damage, and the program still runs, from a new image."""
        self.assertEqual(done.stdout, REPLY, str(done))
        self.assertIn(b"is damaged; Membrane builds a new one", done.stderr, str(done))
        self.assertEqual(len(self.image.read_bytes()), len(self.good))
        after = self.sum()
        self.assertEqual(after.stdout, REPLY, str(after))
        self.assertNotIn(b"damaged", after.stderr, str(after))

    def write_over(self, at, junk):
        with open(self.image, "r+b") as file:
            file.seek(at)
            file.write(junk)

    def test_one_byte_of_the_machine_code_is_changed(self):
        # The code is the last part except for the memories, at a multiple of 64 KiB, like the module before
        # it.
        self.write_over(2 * 65536 + 100, b"\x0f\x0b")
        self.assert_replaced(self.sum())

    def test_the_machine_code_is_overwritten_with_traps(self):
        for at in range(65536, len(self.good), 65536):
            self.write_over(at, b"\x0f\x0b" * 1000)
        self.assert_replaced(self.sum())

    def test_one_bit_is_flipped_anywhere(self):
        places = [*range(16, 300, 13), *range(300, len(self.good), len(self.good) // 40)]
        for at in places:
            self.write_over(at, bytes([self.good[at] ^ 1]))
            done = self.sum()
            self.assertEqual(done.stdout, REPLY, f"at {at}: {done}")
            self.assertNotEqual(self.image.read_bytes()[at], self.good[at] ^ 1, f"at {at}: it is still there")
            self.good = self.image.read_bytes()

    def test_the_change_hides_its_time(self):
        before = self.image.stat()
        self.write_over(len(self.good) - 1, bytes([self.good[-1] ^ 1]))
        os.utime(self.image, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assert_replaced(self.sum())

    def test_offsets_lead_past_the_end_of_the_file(self):
        for at in range(104, 240, 8):
            self.write_over(at, (1 << 40).to_bytes(8, "little"))
        self.assert_replaced(self.sum())

    def test_the_file_is_cut_short(self):
        for size in (0, 1, 100, 239, 240, 4096, len(self.good) // 2, len(self.good) - 1):
            with open(self.image, "r+b") as file:
                file.truncate(size)
            self.assert_replaced(self.sum())

    def test_the_file_is_grown_to_a_terabyte(self):
        with open(self.image, "r+b") as file:
            file.truncate(1 << 40)
        done = self.sum()
        self.assert_replaced(done)
        self.assert_memory(done, 64 * MIB)
        self.assert_cpu(done, 10)

    def test_the_image_of_one_language_is_put_in_the_place_of_anothers(self):
        self.membrane("languages", "add", "other", self.file("other.wat", SUM.replace("(i32.const 48)", "(i32.const 49)")),
                      codes=(0,))
        self.membrane("run", "--lang", "other", "-e", "42", codes=(0,))
        other = next(self.cache.glob("other-*.image"))
        # It is intact, and so are its contents: only the user can do this, and gets what was put there.
        os.rename(other, self.image)
        self.assertIn(self.sum(codes=(0, 1, 2)).code, (0, 1, 2))

    def test_everybody_may_write_to_the_directory_of_images(self):
        for mode in (0o777, 0o1777, 0o770):
            os.chmod(self.cache, mode)
            done = self.sum(codes=(2,))
            self.assertIn(b"chmod go-w", done.stderr, str(done))
            self.assertEqual(done.stdout, b"")
        os.chmod(self.cache, 0o700)
        self.assertEqual(self.sum().stdout, REPLY)

    def test_everybody_may_write_to_the_image(self):
        os.chmod(self.image, 0o666)
        self.assertEqual(self.sum().stdout, REPLY)
        self.assertEqual(stat.S_IMODE(self.image.stat().st_mode), 0o600, "it is another, made again")

    def test_the_image_is_a_symbolic_link(self):
        planted = self.folder / "planted"
        os.rename(self.image, planted)
        os.symlink(planted, self.image)
        self.assertEqual(self.sum().stdout, REPLY)
        self.assertFalse(self.image.is_symlink())
        self.assertEqual(planted.read_bytes(), self.good, "nothing was written through the link")

    def test_the_image_has_a_second_name_elsewhere(self):
        os.link(self.image, self.folder / "second")
        self.assertEqual(self.sum().stdout, REPLY)
        self.assertEqual(self.image.stat().st_nlink, 1, "it is another, made again")

    def test_the_image_is_a_pipe_or_a_directory_or_a_device(self):
        os.unlink(self.image)
        os.mkfifo(self.image)
        self.assertEqual(self.sum().stdout, REPLY)
        self.assertTrue(self.image.is_file())
        os.unlink(self.image)
        os.symlink("/dev/zero", self.image)
        self.assertEqual(self.sum().stdout, REPLY)
        os.unlink(self.image)
        os.mkdir(self.image)
        self.sum(codes=(0, 2))

    def test_the_image_belongs_to_somebody_else(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give files away")
        os.chown(self.image, 12345, 12345)
        self.assertEqual(self.sum().stdout, REPLY)
        self.assertEqual(self.image.stat().st_uid, 0, "it is another, made again")
        os.chown(self.cache, 12345, 12345)
        self.assertIn(b"another user owns it", self.sum(codes=(2,)).stderr)

    def test_a_seal_is_forged_for_a_damaged_image(self):
        # A seal contains the identity of a file; a copied seal names another.
        seal = Path(str(self.image) + ".seal")
        for junk in (b"", b"mbrnseal", b"mbrnseal" + bytes(88), os.urandom(96)):
            self.write_over(len(self.good) - 1, bytes([self.good[-1] ^ 1]))
            seal.write_bytes(junk)
            os.chmod(seal, 0o600)
            self.assert_replaced(self.sum())
            self.good = self.image.read_bytes()

    def test_the_seal_is_a_link_to_another_file(self):
        precious = self.folder / "precious"
        precious.write_text("precious")
        seal = Path(str(self.image) + ".seal")
        seal.unlink(missing_ok=True)
        os.symlink(precious, seal)
        self.assertEqual(self.sum().stdout, REPLY)
        self.assertEqual(precious.read_text(), "precious")

    def test_pages_change_between_two_runs_that_found_the_file_sealed(self):
        # Made old, like a file that was written yesterday: it is sealed at once.
        for _ in range(3):
            self.assertEqual(self.sum().stdout, REPLY)
        for _ in range(3):
            self.write_over(65536 * 2 + 64, b"\xcc" * 64)
            self.assert_replaced(self.sum())

    def test_a_package_of_a_language_that_everybody_may_write_to(self):
        package = self.folder / "languages/sum/language.json"
        for path in (package, package.parent):
            mode = path.stat().st_mode
            os.chmod(path, mode | 0o002)
            done = self.sum(codes=(2,))
            self.assertIn(b"any user can write", done.stderr, str(done))
            os.chmod(path, mode)
        self.assertEqual(self.sum().stdout, REPLY)

    def test_the_module_of_a_language_is_replaced(self):
        module = self.folder / "languages/sum/module.wasm"
        module.write_bytes(module.read_bytes() + b"\0\1\0")
        done = self.sum(codes=(2,))
        self.assertIn(b"SHA-256", done.stderr, str(done))

    def test_the_directory_of_compiled_code_is_open_to_others(self):
        cache = self.folder / "code"
        cache.mkdir()
        os.chmod(cache, 0o777)
        program = self.file("p.wat", "(module (func (export \"main\")))")
        done = self.membrane("run", program, "--code-cache", cache, codes=(2,))
        self.assertIn(b"chmod go-w", done.stderr, str(done))

    def test_pythons_machine_code_is_damaged(self):
        if SANITIZED or not (LANGUAGES / "python").exists():
            self.skipTest("Python is not installed, or would take minutes to be warm")
        self.environment["MEMBRANE_LANGUAGES"] = str(LANGUAGES)
        run = ("run", "-e", "print(2+2)")
        self.assertEqual(self.membrane(*run, codes=(0,)).stdout, b"4\n")
        image = next(self.cache.glob("python-*.image"))
        size = image.stat().st_size
        with open(image, "r+b") as file:
            for at in range(size // 3, size, 1 << 20):
                file.seek(at)
                file.write(b"\x0f\x0b")
        done = self.membrane(*run, codes=(0,))
        self.assertEqual(done.stdout, b"4\n", str(done))
        self.assertIn(b"is damaged; Membrane builds a new one", done.stderr)


if __name__ == "__main__":
    unittest.main()
