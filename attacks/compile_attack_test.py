"""Attempts to make compilation cost more than the text is worth: time that grows faster than the size,
error lists larger than the program, forms that expand, and programs that are still compiling when their time
is over."""

import json
import unittest

import worst_texts
from attack import MIB, SANITIZED, Attack

SIZE = 1_000_000 if not SANITIZED else 100_000
SECONDS = 3  # of CPU for 1 MB, on a loaded machine; tools/bench-texts holds it to one
MEMORY = 400 * MIB
OUTPUT_BYTES = 128 << 10


class CompileAttack(Attack):
    def check(self, name, text):
        done = self.membrane("check", self.file(f"{name}.wat", text), codes=(0, 2))
        self.assert_cpu(done, SECONDS)
        self.assert_memory(done, MEMORY)
        self.assertLessEqual(len(done.stdout) + len(done.stderr), OUTPUT_BYTES)
        return done

    def check_group(self, *names):
        for name in names:
            with self.subTest(name):
                self.check(name, worst_texts.text(name, SIZE))

    def test_names_that_nobody_defined(self):
        self.check_group("unknown_functions", "unknown_variables", "unknown_locals", "unknown_instructions",
                         "unknown_fields", "unknown_types", "unknown_labels_in_a_table", "unknown_elements")

    def test_names_that_are_nearly_those_of_thousands(self):
        self.check_group("unknown_functions_among_many")

    def test_imports_that_nobody_provides(self):
        self.check_group("unknown_imports")

    def test_names_that_stand_twice(self):
        self.check_group("duplicate_functions", "duplicate_exports", "imports_after_definitions", "forward_types")

    def test_findings_that_quote_half_a_megabyte(self):
        self.check_group("one_long_name", "one_long_function_with_findings", "one_long_line_of_findings")

    def test_loops_whose_labels_must_be_free(self):
        self.check_group("loops", "for_loops", "loops_whose_labels_are_taken")

    def test_checked_calls_that_expand(self):
        self.check_group("checked_calls_in_many_functions", "checked_calls_with_many_results")

    def test_concatenations_that_expand(self):
        self.check_group("concat_of_many", "many_concats")

    def test_flat_code_whose_operands_may_be_anywhere_behind(self):
        self.check_group("flat_tables", "flat_table_gets", "flat_blocks_and_branches", "flat_blocks", "bare_values")

    def test_short_forms_by_the_hundred_thousand(self):
        self.check_group("increments", "literals")

    def test_selects_whose_type_is_at_the_bottom(self):
        self.check_group("nested_selects", "selects_above_many")

    def test_types_of_a_thousand_parameters_that_many_use(self):
        self.check_group("functions_of_a_large_type", "branches_of_a_large_type", "calls_of_a_large_type",
                         "tables_of_large_labels")

    def test_fields_by_the_ten_thousand(self):
        self.check_group("functions", "types", "groups", "subtypes", "exports", "globals", "data", "elements",
                         "tables_with_values")

    def test_locals_that_are_far_away(self):
        self.check_group("locals", "far_locals")

    def test_deep_blocks_below_long_tables(self):
        self.check_group("deep_blocks_and_tables", "branches_behind_the_end", "constants", "labels")

    def test_numbers_that_are_long(self):
        self.check_group("long_numbers", "many_long_numbers")

    def test_comments_brackets_and_strings_without_end(self):
        self.check_group("comments", "annotations", "brackets", "closing_brackets", "strings", "one_string", "escapes",
                         "quoted_names", "spaces", "lines", "no_program")

    def test_forms_that_nest_without_end(self):
        for opening, closing in [("(while 1 ", ")"), ("(if $x (then ", "))"), ("(for $i 0 9 ", ")"), ("(block ", ")"),
                                 ("(drop (i32.eqz ", "))"), ("(set $x ", ")"), ("(concat ", ")"), ("block ", "end ")]:
            for depth in (900, 9000, 90_000):
                text = "(module (func (param $x i32) " + opening * depth + closing * depth + "))"
                with self.subTest(opening=opening, depth=depth):
                    self.check("deep", text)

    def test_expanding_what_has_to_be_refused(self):
        done = self.membrane("check", "--expand", self.file("x.wat", worst_texts.text("many_concats", SIZE)))
        self.assertLessEqual(len(done.stdout), 32 << 20)
        self.assert_memory(done, MEMORY)

    # -- the wall

    def timed_out(self, *arguments):
        done = self.membrane("run", *arguments, "--wall", "1ms", "--json", codes=(1,))
        report = json.loads(done.stdout)
        self.assertEqual(report["outcome"], "timed_out")
        self.assertTrue(report["error"]["message"] and report["error"]["hint"])
        if not SANITIZED:  # a step of which takes longer than a worker's grace: its supervisor may be the one who ends it
            self.assertIn("compiled", report["error"]["message"])
        self.assert_cpu(done, 1)

    def test_a_text_that_compiles_when_its_time_is_over(self):
        self.timed_out(self.file("x.wat", worst_texts.text("constants", 20_000_000)))

    def test_a_text_that_expands_when_its_time_is_over(self):
        self.timed_out(self.file("x.wat", worst_texts.text("increments", 10_000_000)))

    def test_a_binary_whose_functions_all_have_fifty_thousand_locals(self):
        body = b"\x01\xd0\x86\x03\x7f\x0b"  # one run of 50,000 i32, and the end
        count = 120_000
        functions = leb(count) + b"\0" * count
        bodies = leb(count) + (leb(len(body)) + body) * count
        binary = (b"\0asm\1\0\0\0" + section(1, b"\1\x60\0\0") + section(3, functions) +
                  section(7, b"\1\3run\0\0") + section(10, bodies))
        name = self.file("x.wasm", binary)
        for tier in ("compiler", "auto", "interpreter"):
            done = self.membrane("run", name, "--tier", tier, "--wall", "1s", "--memory", "64KiB")
            self.assert_cpu(done, 5)

    def test_a_binary_in_the_compiler_tier_when_its_time_is_over(self):
        count = 50_000
        body = b"\0" + b"\x41\1\x1a" * 30 + b"\x0b"
        binary = (b"\0asm\1\0\0\0" + section(1, b"\1\x60\0\0") + section(3, leb(count) + b"\0" * count) +
                  section(7, b"\1\3run\0\0") + section(10, leb(count) + (leb(len(body)) + body) * count))
        self.timed_out(self.file("x.wasm", binary), "--tier", "compiler")

    def compiled(self, body):
        """Runs a function without parameters in each tier: it may end in any way, but within its time and
        in little memory. Type 1 returns a thousand values, and type 2 takes and returns them."""
        thousand = leb(1000) + b"\x7f" * 1000
        types = b"\3\x60\0\0\x60\0" + thousand + b"\x60" + thousand + thousand
        binary = (b"\0asm\1\0\0\0" + section(1, types) + section(3, b"\1\0") + section(7, b"\1\3run\0\0") +
                  section(10, b"\1" + leb(len(body) + 2) + b"\0" + body + b"\x0b"))
        name = self.file("x.wasm", binary)
        for tier in ("compiler", "auto", "interpreter"):
            done = self.membrane("run", name, "--tier", tier, "--wall", "500ms", "--memory", "64KiB")
            self.assert_cpu(done, 2)
            self.assert_memory(done, MEMORY)

    def test_tables_of_many_labels_that_take_a_thousand_values(self):
        table = b"\x41\0\x0e" + leb(65_520) + bytes(i % 2 for i in range(65_521))
        block = b"\2\1\2\1\x41\6" + b"\x41\1" * 1000 + table + b"\x0b\x0b" + b"\x1a" * 1000
        self.compiled(block * 20)

    def test_tables_of_all_labels_around_them_that_take_a_thousand_values(self):
        depth = 500
        body = b"\x41\5" + b"\2\1\x41\6" * depth + b"\x41\1" * 1000
        for level in range(depth, 0, -1):
            body += b"\x41\0\x0e" + leb(1000) + b"".join(leb(i % level) for i in range(1001)) + b"\x0b"
        self.compiled(body + b"\x1a" * 1001)

    def test_branches_that_move_a_thousand_values(self):
        self.compiled(b"\x41\5\2\1\x41\6" + b"\x41\1" * 1000 + b"\x41\0\x0d\0" * 250_000 + b"\x0c\0\x0b" + b"\x1a" * 1001)

    def test_blocks_that_take_a_thousand_values(self):
        block = b"\2\2\x0b"  # a block that takes and gives a thousand values
        self.compiled(b"\x41\1" * 1000 + block * 300_000 + b"\x1a" * 1000)

    def test_tries_with_sixty_thousand_clauses(self):
        clauses = b"\2\x40\x1f\x40" + leb(60_000) + b"\2\0" * 60_000 + b"\x0b\x0b"
        self.compiled(clauses * 10)

    def test_names_in_thousands_of_small_maps(self):
        maps = 60_000
        entry = b"".join(leb(i) + b"\1\0\0" for i in range(maps))
        names = leb(maps) + entry
        custom = b"\4name" + b"\2" + leb(len(names)) + names
        binary = b"\0asm\1\0\0\0" + section(0, custom)
        done = self.membrane("check", self.file("x.wasm", binary), codes=(0, 2))
        self.assert_cpu(done, 1)

    def test_a_check_whose_time_is_over(self):
        done = self.membrane("check", "--wall", "1ms", self.file("x.wat", worst_texts.text("constants", 20_000_000)),
                             codes=(2,))
        self.assertIn(b"longer than its time", done.stderr)
        self.assert_cpu(done, 1)


def leb(number):
    out = b""
    while True:
        byte, number = number & 0x7F, number >> 7
        out += bytes([byte | (0x80 if number else 0)])
        if not number:
            return out


def section(kind, content):
    return bytes([kind]) + leb(len(content)) + content


if __name__ == "__main__":
    unittest.main()
