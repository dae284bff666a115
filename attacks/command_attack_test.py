"""Attempts against the command itself: files and options that are not what they claim to be."""

import unittest

from attack import Attack


class CommandAttack(Attack):
    def test_a_module_of_nothing_but_a_header_that_promises_more(self):
        done = self.membrane("run", self.file("x.wasm", b"\0asm\1\0\0\0\x0a\xff\xff\xff\xff\x0f"), codes=(2,))
        self.assertIn(b"error", done.stderr)

    def test_a_program_that_is_all_opening_brackets(self):
        done = self.membrane("check", self.file("x.wat", "(" * 1_000_000), codes=(1, 2))
        self.assert_memory(done, 64 << 20)


if __name__ == "__main__":
    unittest.main()
