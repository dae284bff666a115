"""Programs of a given size that are as expensive to compile as their author can make them: each targets
one thing that a compiler might do more than once for each byte. `tools/bench-texts` measures them;
`compile_attack_test.py` enforces their bounds.

    worst_texts.text("loops", 1_000_000)
    worst_texts.texts(1_000_000)    # {name: what makes its text}, each of about that size
"""


def _fill(size, head, unit, tail=""):
    """`head`, as many of `unit` (a text, or a function of their number) as there is room for, and
    `tail`."""
    make = unit if callable(unit) else lambda _: unit
    parts, length, number = [head], len(head) + len(tail), 0
    while True:
        part = make(number)
        if length + len(part) > size:
            return "".join(parts) + tail
        parts.append(part)
        length += len(part)
        number += 1


def _function(size, unit, head='(module (memory 1) (func (export "run")', tail="))"):
    return _fill(size, head, unit, tail)


def _sugar(size, unit, head=""):
    """Inside a function that only the preprocessor understands."""
    return _fill(size, '(module (func (export "run") (set $first 1)' + head, unit, "))")


def text(name, size):
    return texts(size)[name]()


def texts(size):
    half = size // 2
    long_type = "(type $t (func (param" + " i32" * 1000 + ") (result" + " i32" * 1000 + ")))"
    long_result = " i32" * 1000
    names = _fill(half, "(module", lambda n: f"(func $function_with_quite_a_long_name_that_is_not_yours_{n:08})")
    locals_ = "(local" + " i32 i64" * 24_000 + ")"
    return {
        # findings and their suggestions
        "unknown_functions": lambda: _function(size, lambda n: f"(call $unknown_name_{n})"),
        "unknown_functions_among_many": lambda: _fill(size, names + '(func (export "run")',
                                              lambda n: f"(call $function_with_quite_a_long_name_that_is_not_mine_{n})",
                                              "))"),
        "unknown_variables": lambda: _sugar(size, lambda n: f"(set $a $unknown_{n})"),
        "unknown_locals": lambda: _fill(size, "(module (func", lambda n: f"(local $l{n} i32)(local.get $k{n})", "))"),
        "unknown_instructions": lambda: _function(size, lambda n: f"(i32.adf{n})"),
        "unknown_fields": lambda: _fill(size, "(module", lambda n: f"(fumc{n})", ")"),
        "unknown_types": lambda: _fill(size, "(module", lambda n: f"(func (param i{n}))", ")"),
        "unknown_labels_in_a_table": lambda: _function(size, lambda n: f" $l{n}", head="(module (func (br_table", tail=")))"),
        "unknown_elements": lambda: _fill(size, "(module (table 1 funcref)(elem (i32.const 0)", lambda n: f" $f{n}", "))"),
        "unknown_imports": lambda: _fill(size, "(module", lambda n: f'(import "htpt" "gett{n}" (func))', ")"),
        "duplicate_functions": lambda: _fill(size, "(module", "(func $same)", ")"),
        "duplicate_exports": lambda: _fill(size, "(module (func $f)", '(export "same" (func $f))', ")"),
        "imports_after_definitions": lambda: _fill(size, "(module (func)", '(import "io" "print" (func))', ")"),
        "one_long_name": lambda: '(module (func (call $' + "n" * (size - 40) + ")))",
        "one_long_function_with_findings": lambda: "(module (func $" + "n" * half + _fill(half, "", lambda n: f"(call $x{n})") + "))",
        "one_long_line_of_findings": lambda: _fill(size, "(module (func", "(i32.const 99999999999)", "))"),
        "forward_types": lambda: _fill(size, "(module", lambda n: f"(func (type {n + 9_000_000}))", ")"),
        # the preprocessor
        "loops": lambda: _sugar(size, "(while 0)"),
        "for_loops": lambda: _sugar(size, "(for $i 0 $first)"),
        "each_loops": lambda: _sugar(size, "(each $i $first)"),
        "each_loops_with_an_index": lambda: _sugar(size, "(each $i $n (lines $first)(break))"),
        "each_loops_in_one_another": lambda: _sugar(size, "(each $i $first " * 120 + ")" * 120),
        "lists": lambda: _sugar(size, '(drop(split $first ","))'),
        "lists_of_lists": lambda: _sugar(size, "(drop " + "(lines " * 250 + "$first" + ")" * 251),
        "checked_lists": lambda: _sugar(size, "(drop(items $first))"),
        "allocations": lambda: _sugar(size, "(drop(alloc 4))"),
        "loops_whose_labels_are_taken": lambda: _sugar(size, "(while 0 (break))", "".join(
            f"(local $while.{n}.break i32)" for n in range(1000))),
        "checked_calls_in_many_functions": lambda: _fill(size, "(module", '(func (call $io.print! "a"))', ")"),
        "checked_calls_with_many_results": lambda: _fill(size, "(module " + long_type.replace("$t", "$t") +
                                                 '(func $f (type $t)(unreachable))(func (set $x 1)', "(call $f!)", "))"),
        "concat_of_many": lambda: _fill(size, '(module (func (export "run") (drop (concat', ' "a"', "))))"),
        "many_concats": lambda: _fill(size, '(module (func (export "run")', "(drop (concat" + ' ""' * 9000 + "))", "))"),
        "flat_tables": lambda: _fill(size, "(module (table 1 funcref)(func (set $x 1)", " table.size drop", "))"),
        "flat_table_gets": lambda: _fill(size, "(module (table 1 funcref)(func (set $x 1) i32.const 0", " table.get 0", "))"),
        "flat_blocks_and_branches": lambda: _fill(size, "(module (func (set $x 1) " + "block " * 9000, "(br $x 1)", "))"),
        "flat_blocks": lambda: _fill(size, "(module (func (set $x 1)", " block", "))"),
        "bare_values": lambda: _fill(size, "(module (func (set $x 1) (block (result" + long_result + ")", " 1", ")))"),
        "increments": lambda: _sugar(size, "(inc $first)"),
        "literals": lambda: _sugar(size, lambda n: f'(drop "{n}")'),
        "nested_selects": lambda: "(module (func (set $x 1) (drop 1 " + "(select " * (size // 10) + "))",
        "selects_above_many": lambda: _sugar(size, "(nop)", "(drop 1 " + "(select " * 900) + ")" * 901,
        "functions_of_a_large_type": lambda: _fill(size, "(module " + long_type, "(func(type 0)unreachable)", "(func (set $x 1)))"),
        "branches_of_a_large_type": lambda: _fill(size, "(module (func (set $x 1)(block $l (result" + long_result + ")", "(br $l)", ")))"),
        # the parser and the validator
        "functions": lambda: _fill(size, "(module", "(func)", ")"),
        "types": lambda: _fill(size, "(module", lambda n: f"(type (func (param {'i32 ' * (n % 40)})(result {'i64 ' * (n // 40 % 40)})))", ")"),
        "groups": lambda: _fill(size, "(module", lambda n: f"(rec (type (struct (field i32) (field (ref null {n})))))", ")"),
        "subtypes": lambda: _fill(size, "(module (type (sub (struct)))", lambda n: f"(type (sub {n % 60} (struct)))", ")"),
        "exports": lambda: _fill(size, "(module (func $f)", lambda n: f'(export "{n}" (func $f))', ")"),
        "globals": lambda: _fill(size, "(module (global i32 (i32.const 0))", lambda n: f"(global i32 (global.get {n}))", ")"),
        "data": lambda: _fill(size, "(module (memory 1)", '(data (i32.const 0) "a")', ")"),
        "elements": lambda: _fill(size, "(module (table 1 funcref)(func)", "(elem (i32.const 0) 0)", ")"),
        "tables_with_values": lambda: _fill(size, "(module " + _fill(half, "", '(import "" "" (global i32))'),
                                    "(table 0 funcref (ref.null func))", ")"),
        "locals": lambda: _function(size, " i32 i64", head="(module (func (local", tail=")))"),
        "far_locals": lambda: _fill(size, "(module (func " + locals_, "(drop (local.get 47999))", "))"),
        "deep_blocks_and_tables": lambda: "(module (func " + "block " * 4000 + _fill(
            size - 4000 * 10, "", lambda n: "i32.const 0 br_table " + " ".join(str(i) for i in range(4000)) + " ")
            + "end " * 4000 + "))",
        "tables_of_large_labels": lambda: _fill(size, "(module " + long_type + "(func (block (type 0) (block (type 0)",
                                        " (br_table " + "0 1 " * 1000 + ")", "))))"),
        "calls_of_a_large_type": lambda: _fill(size, "(module " + long_type + "(func $f (type 0) unreachable)(func unreachable",
                                       " call $f", "))"),
        "branches_behind_the_end": lambda: _function(size, "(br 0)"),
        "constants": lambda: _function(size, "(drop (i32.const 1))"),
        "long_numbers": lambda: "(module (func (drop (f64.const 0." + "7" * (size - 60) + "))))",
        "many_long_numbers": lambda: _function(size, "(drop (f64.const 0x1." + "7" * 900 + "p-1000))"),
        "escapes": lambda: '(module (memory 1)(data (i32.const 0) "' + "\\u{10ffff}" * (size // 11) + '"))',
        "comments": lambda: "(;" * (size // 4) + ";)" * (size // 4) + "(module)",
        "annotations": lambda: _fill(size, "", "(@a)", "(module)"),
        "brackets": lambda: "(" * size,
        "closing_brackets": lambda: "(module" + ")" * (size - 7),
        "strings": lambda: _fill(size, "(module (memory 1)(data (i32.const 0)", ' ""', "))"),
        "one_string": lambda: '(module (memory 1)(data (i32.const 0) "' + "a" * (size - 60) + '"))',
        "quoted_names": lambda: _fill(size, "(module", lambda n: f'(func $"{n}")', ")"),
        "labels": lambda: _function(size, lambda n: f"(block $l{n})"),
        "spaces": lambda: " " * size + "(module)",
        "lines": lambda: "\n" * (size - 40) + "(module (func (call $nothing)))",
        "no_program": lambda: "x " * (size // 2),
    }
