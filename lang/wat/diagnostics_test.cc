// Every diagnostic, as the author of a program sees it: through load_program, the validator and the linker. For each
// code, a program with the fault, the place of the finding, the text for found and expected, the suggested repair,
// and a repaired program that is accepted. The last test compares this list with base/diagnostics.def, so that no
// code is missing.
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "host/calls/link.h"
#include "lang/load_program.h"
#include "wasm/validate.h"

namespace membrane::lang {
namespace {

using enum DiagnosticCode;

// The first finding about a program; nothing when it is accepted.
std::optional<Diagnostic> first_finding(std::string_view source, std::string_view name = "program.wat") {
  auto loaded = load_program(source, SourceFormat::kAuto, name);
  if (!loaded) return loaded.error().front();
  if (auto checked = wasm::validate(loaded->module, loaded->text()); !checked)
    return loaded->to_author(checked.error());
  if (auto linkage = host::link_imports(loaded->module); !linkage) return linkage.error().front();
  return std::nullopt;
}

struct Case {
  DiagnosticCode code;
  std::string_view faulty;    // the finding's place is between ‹ and ›
  std::string_view found;     // equals Diagnostic::found
  std::string_view expected;  // contained in Diagnostic::expected
  std::string_view hint;      // contained in the repair
  std::string_view repaired;  // the program with the repair
};

const std::string kManyParams = [] {
  std::string text = "‹(type› (func (param";  // the beginning of a long field
  for (int i = 0; i < 1001; ++i) text += " i32";
  return text + ")))";
}();

const Case kCases[] = {
    // -- lexer
    {kBadStringEscape, R"((func (export "main") (call $io.print "a‹\q›")))", R"(\q)", R"(\\)",
     R"(a backslash as \\)", R"((func (export "main") (call $io.print "a\\q")))"},
    {kExtraParenthesis, R"((func (export "main"))‹)›)", ")", "", "closed too early",
     R"((func (export "main")))"},
    {kInvalidCharacter, R"((func (export "main") ‹é›))", "é", "", "inside a string",
     R"((func (export "main") (call $io.print "é")))"},
    {kInvalidUtf8, "(func (export \"main\") (call $io.print \"‹\xFF›\"))", "", "", "\\hh",
     R"((func (export "main") (call $io.print "\ff")))"},
    {kUnclosedParenthesis, "(module ‹(›func (export \"main\") (nop)", "the end of the text", ")",
     "Count the parentheses", "(module (func (export \"main\") (nop)))"},
    {kUnterminatedAnnotation, "‹(›@note (func)", "", "", "Close the annotation", "(@note) (func)"},
    {kUnterminatedComment, "(func) ‹(;› done", "", "", "Close the comment with ;)", "(func) (; done ;)"},
    {kUnterminatedString, "(func (call $io.print ‹\"hello))›\n", "", "", "Close the string",
     "(func (call $io.print \"hello\"))\n"},

    // -- text parser
    {kBareOperand, "(func (param $x i32) i32.add ‹$x› 1)", "$x", "a folded instruction", "(i32.add $x 1)",
     "(func (param $x i32) (drop (i32.add $x 1)))"},
    {kDuplicateName, "(func $f)\n(func ‹$f›)", "$f", "", "Rename", "(func $f)\n(func $g)"},
    {kDuplicateStart, "(func $f) (start $f)\n(‹start› $f)", "", "", "Keep one (start …)",
     "(func $f) (start $f)"},
    {kImportAfterDefinition, "(func)\n(‹import› \"io\" \"newline\" (func))", "", "before the first func",
     "Move all imports to the top", "(import \"io\" \"newline\" (func))\n(func)"},
    {kInlineTypeMismatch, "(type $t (func (param i32))) (func ‹(›type $t) (param i64))", "", "",
     "Remove the inline", "(type $t (func (param i32))) (func (type $t))"},
    {kLabelMismatch, "(func block $a end ‹$b›)", "", "", "Repeat the block's label",
     "(func block $a end $a)"},
    {kMalformedAlignment, "(func (drop (i32.load ‹align=3› (i32.const 0))))", "", "", "align=1, 2, 4",
     "(func (drop (i32.load align=2 (i32.const 0))))"},
    {kMalformedNumber, "(func (drop (i32.add 1 ‹2.5›)))", "2.5", "", "Integers are 42",
     "(func (drop (i32.add 1 2)))"},
    {kMalformedToken, "(func (drop (i32.const 0))‹0drop›)", "`0drop`", "", "Put a space between",
     "(func (drop (i32.const 0)) (i32.const 0) drop)"},
    {kMalformedUtf8, "(func (export ‹\"\\ff\"›))", "", "", "\\u{e9}", "(func (export \"\\u{e9}\"))"},
    {kMisplacedDeclaration, "(func (nop) (‹local› $x i32))", "", "an instruction",
     "to the top of the function", "(func (local $x i32) (nop))"},
    {kMissingOperand, "(func (‹local.get›))", "", "", "after the instruction",
     "(func (param $x i32) (drop (local.get $x)))"},
    {kMissingThen, "(func (param $x i32) (‹if› $x))", "", "", "(then …)",
     "(func (param $x i32) (if $x (then)))"},
    {kNumberOutOfRange, "(func (drop (i32.add 1 ‹4294967296›)))", "4294967296", "", "wider type",
     "(func (drop (i64.add 1 4294967296)))"},
    {kStrayElse, "(func (‹else› (nop)))", "", "", "(then …)",
     "(func (param $x i32) (if $x (then) (else (nop))))"},
    {kStrayEnd, "(func nop ‹end›)", "", "", "Remove it", "(func nop)"},
    {kUnclosedBlock, "(func block nop‹)›", "", "", "`end`", "(func block nop end)"},
    {kUnexpectedToken, "(func) ‹nop›", "`nop`", "field", "grammar", "(func nop)"},
    {kLegacyExceptions, "(tag $e) (func (‹try› (do (throw $e)) (catch $e)))", "try", "",
     "(try_table (catch $tag $h)", "(tag $e) (func (block $h (try_table (catch $e $h) (throw $e))))"},
    {kUnknownField, "(‹fnuc›)", "fnuc", "func", "Did you mean func?", "(func)"},
    {kUnknownInstruction, "(func (drop (‹i32.ad› 1 2)))", "i32.ad", "", "Did you mean i32.add?",
     "(func (drop (i32.add 1 2)))"},
    {kUnknownValueType, "(func (param ‹int›))", "", "", "i32, i64, f32", "(func (param i32))"},

    // -- names, wherever they are resolved
    {kUnknownData, "(memory 1) (data $abc \"\") (func (data.drop ‹$abd›))", "$abd", "", "Did you mean $abc?",
     "(memory 1) (data $abc \"\") (func (data.drop $abc))"},
    {kUnknownElement, "(elem $abc func) (func (elem.drop ‹$abd›))", "$abd", "", "Did you mean $abc?",
     "(elem $abc func) (func (elem.drop $abc))"},
    {kUnknownFunction, "(func $count)\n(func (call ‹$cuont›))", "$cuont", "$count", "Did you mean $count?",
     "(func $count)\n(func (call $count))"},
    {kUnknownGlobal, "(func (local $x i32) (drop (global.get ‹$x›)))", "$x", "",
     "$x is a local: use local.get", "(func (local $x i32) (drop (local.get $x)))"},
    {kUnknownLabel, "(func (block $out (br ‹$ot›)))", "$ot", "", "Did you mean $out?",
     "(func (block $out (br $out)))"},
    {kUnknownLocal, "(func (param $count i32) (drop (local.get ‹$cuont›)))", "$cuont", "",
     "Did you mean $count?", "(func (param $count i32) (drop (local.get $count)))"},
    {kUnknownMemory, "(memory 1) (data (memory ‹$m›) (i32.const 0) \"\")", "$m", "", "(memory 1)",
     "(memory 1) (data (memory 0) (i32.const 0) \"\")"},
    {kUnknownTable, "(table $tab 1 funcref) (func (drop (table.size ‹$tap›)))", "$tap", "",
     "Did you mean $tab?", "(table $tab 1 funcref) (func (drop (table.size $tab)))"},
    {kUnknownTag, "(tag $error) (func (throw ‹$eror›))", "$eror", "", "Did you mean $error?",
     "(tag $error) (func (throw $error))"},
    {kUnknownType, "(func (type ‹$t›))", "$t", "", "(type $name", "(type $t (func)) (func (type $t))"},

    // -- validator: the actual and the expected stack
    {kTagWithResults, "‹(tag $e (result i32))›", "[i32]", "[]", "parameters only", "(tag $e (param i32))"},
    {kBranchTypeMismatch, "(tag $e (param i32)) (func (block $h (‹try_table (catch $e $h)› (throw $e 1))))",
     "[i32]", "[]", "result type [i32]",
     "(tag $e (param i32)) (func (drop (block $h (result i32) (try_table (catch $e $h) (throw $e 1)) 0)))"},
    {kTypeMismatch, "(func (result i32)\n  (‹i32.add› (i32.const 1) (f32.const 2)))", "[i32 f32]",
     "[i32 i32]", "i32.trunc_sat_f32_s",
     "(func (result i32)\n  (i32.add (i32.const 1) (i32.trunc_sat_f32_s (f32.const 2))))"},
    {kTypeMismatch, "(func (set $sum 0) (set ‹$sum› (f64.add $sum 1.5)))", "f64", "i32",
     "since the first (set $sum …) gives $sum its type: write (set $sum (f64.const 0)) there",
     "(func (set $sum (f64.const 0)) (set $sum (f64.add $sum 1.5)))"},
    {kTypeMismatch, "(func (param $n i32) (set ‹$n› (i64.extend_i32_s $n)))", "i64", "i32",
     "another variable", "(func (param $n i32) (set $m (i64.extend_i32_s $n)))"},
    {kMissingValue, "(func (result i32) i32.const 1 ‹i32.add›)", "[i32]", "[i32 i32]", "Push the operands",
     "(func (result i32) i32.const 1 i32.const 2 i32.add)"},
    {kLeftoverValues, "(func\n  i32.const 1\n  i64.const 2‹)›", "[i32 i64]", "[]", "Add `drop` 2 times",
     "(func\n  i32.const 1\n  i64.const 2 drop drop)"},
    {kLeftoverValues, "(func (export \"main\")\n  (call $kv.set \"a\" \"b\")\n  (call $io.newline)‹)›",
     "[i32]", "[]", "(call $kv.set …) in line 2 leaves an errno: write (call $kv.set! …)",
     "(func (export \"main\")\n  (call $kv.set! \"a\" \"b\")\n  (call $io.newline))"},
    {kLeftoverValues, "(func (export \"main\") (call $kv.get \"a\")‹)›", "[i32 i32]", "[]",
     "write (drop (call $kv.get! …)) to drop the value",
     "(func (export \"main\") (drop (call $kv.get! \"a\")))"},
    {kLeftoverValues, "(func (export \"main\") (set $n (i32.add (call $str.to_i32 \"4\") 1))‹)›", "[i32]",
     "[]", "write (call $str.to_i32! …) to keep the value",
     "(func (export \"main\") (set $n (i32.add (call $str.to_i32! \"4\") 1)))"},
    {kLeftoverValues,
     "(func $f (result i32 i32) (call $kv.get \"a\")) (func (export \"main\") (i32.add 1 2)‹)›", "[i32]",
     "[]", "Add `drop` once", "(func $f (result i32 i32) (call $kv.get \"a\")) (func (export \"main\"))"},
    {kLeftoverValues,
     "(func (export \"main\") (if 1 (then (call $kv.get \"a\") (drop) (drop) (i32.add 1 2))‹)›)", "[i32]",
     "[]", "Add `drop` once", "(func (export \"main\") (if 1 (then (call $kv.get \"a\") (drop) (drop))))"},
    {kResultTypeMismatch, "(func (result i64) i32.const 1‹)›", "[i32]", "[i64]", "i64.extend_i32_s",
     "(func (result i64) i32.const 1 i64.extend_i32_s)"},
    {kBranchTypeMismatch, "(func (result i32) (block (result i32) (‹br 0› (f32.const 1))))", "[f32]", "[i32]",
     "i32.trunc_sat_f32_s",
     "(func (result i32) (block (result i32) (br 0 (i32.trunc_sat_f32_s (f32.const 1)))))"},
    {kBranchTableArity,
     "(func (block (block (result i32) (‹br_table 0 1› (i32.const 1) (i32.const 0))) (drop)))", "[]", "[i32]",
     "same result types",
     "(func (block (result i32) (block (result i32) (br_table 0 1 (i32.const 1) (i32.const 0)))) (drop))"},
    {kIfWithoutElse, "(func (drop (if (result i32) (i32.const 1) (then (i32.const 2))‹)›))", "[]", "[i32]",
     "(else", "(func (drop (if (result i32) (i32.const 1) (then (i32.const 2)) (else (i32.const 3)))))"},
    {kNotAReference, "(func (drop (‹ref.is_null› (i32.const 1))))", "[i32]", "[funcref]", "ref.null",
     "(func (drop (ref.is_null (ref.null func))))"},
    {kSelectNeedsType, "(func (drop (‹select› (ref.null func) (ref.null func) (i32.const 1))))",
     "[funcref funcref]", "two numbers", "(select (result funcref)",
     "(func (drop (select (result funcref) (ref.null func) (ref.null func) (i32.const 1))))"},
    {kSelectArity, "(func (unreachable) (‹select (result i32 i32)›) (unreachable))", "2 types", "1 type",
     "(select (result i32)", "(func (unreachable) (select (result i32)) (unreachable))"},
    {kAlignmentTooLarge, "(memory 1) (func (drop (‹i32.load align=8› (i32.const 0))))", "align=8",
     "align=4 or less", "Leave out align=", "(memory 1) (func (drop (i32.load (i32.const 0))))"},
    {kLaneOutOfRange, "(func (param v128) (drop (‹i32x4.extract_lane 4› (local.get 0))))", "4", "0 to 3",
     "i32x4 has 0 to 3", "(func (param v128) (drop (i32x4.extract_lane 3 (local.get 0))))"},
    {kImmutableGlobal, "(global $g i32 (i32.const 0)) (func ‹(set› $g 1))", "i32", "(mut i32)",
     "(global $name (mut i32)", "(global $g (mut i32) (i32.const 0)) (func (set $g 1))"},
    {kUndeclaredReference, "(func $f) (func (drop (‹ref.func $f›)))", "", "", "(elem declare func $f)",
     "(func $f) (elem declare func $f) (func (drop (ref.func $f)))"},
    {kNotDefaultable, "‹(table 1 (ref func))›", "(ref func)", "funcref", "Write the initial value",
     "(func $f) (table 1 (ref func) (ref.func $f))"},
    {kSubtypeMismatch, "(type $a (struct))\n‹(type $b (sub $a (struct)))›", "type 0", "",
     "Repeat the supertype's", "(type $a (sub (struct)))\n(type $b (sub $a (struct)))"},
    {kUninitializedLocal, "(func (local $x (ref func)) (drop (‹local.get $x›)))", "(ref func)", "funcref",
     "Set it first", "(func (local $x funcref) (drop (local.get $x)))"},
    {kUnknownStructField,
     "(type $s (struct (field $x i32)))\n(func (param (ref $s)) (drop (struct.get $s ‹$y› (local.get 0))))",
     "$y", "", "Name the field",
     "(type $s (struct (field $x i32)))\n(func (param (ref $s)) (drop (struct.get $s $x (local.get 0))))"},
    {kImmutableField,
     "(type $s (struct (field i32)))\n(func (param (ref $s)) (‹struct.set $s 0› (local.get 0) (i32.const "
     "1)))",
     "i32", "", "(field $name (mut i32))",
     "(type $s (struct (field (mut i32))))\n(func (param (ref $s)) (struct.set $s 0 (local.get 0) (i32.const "
     "1)))"},
    {kPackedField,
     "(type $s (struct (field i8)))\n(func (param (ref $s)) (drop (‹struct.get $s 0› (local.get 0))))", "i8",
     "not packed", "get_s and get_u",
     "(type $s (struct (field i8)))\n(func (param (ref $s)) (drop (struct.get_u $s 0 (local.get 0))))"},
    {kTableTypeMismatch, "(table 1 externref) (func (‹call_indirect› (i32.const 0)))", "externref", "funcref",
     "a table of funcref", "(table 1 funcref) (func (call_indirect (i32.const 0)))"},
    {kNotConstant, "(global i32 (‹i32.shl› (i32.const 1) (i32.const 2)))", "i32.shl", "", "Use t.const",
     "(global i32 (i32.mul (i32.const 1) (i32.const 4)))"},
    {kDuplicateExport, "(func (export \"f\"))\n(func (export ‹\"f\"›))", "\"f\"", "", "Rename",
     "(func (export \"f\"))\n(func (export \"g\"))"},
    {kOffsetTooLarge, "(memory 1) (func (drop (‹i32.load offset=4294967296› (i32.const 0))))",
     "offset=4294967296", "offset=4294967295 or less", "(memory i64 1)",
     "(memory i64 1) (func (drop (i32.load offset=4294967296 (i64.const 0))))"},
    {kTableTooLarge, "‹(table 4294967296 funcref)›", "4294967296", "at most 4294967295",
     "(table i64 1 funcref)", "(table i64 4294967296 funcref)"},
    {kMemoryTooLarge, "‹(memory 65537)›", "65537 pages", "65536 pages", "(memory 1) is 65536 bytes",
     "(memory 1)"},
    {kMinExceedsMax, "‹(memory 3 2)›", "3 2", "", "minimum first", "(memory 2 3)"},
    {kStartSignature, "(func $main (result i32) (i32.const 0))\n‹(start $main)›", "[] -> [i32]", "[] -> []",
     "without parameters and results", "(func $main)\n(start $main)"},
    {kImplementationLimit, kManyParams, "1001", "at most 1000", "smaller", "(type (func (param i32)))"},

    // -- preprocessor
    {kArgumentCount, "(func (call ‹$kv.set!› \"key\"))", "1 value", "kv.set(key, value) -> errno",
     "exactly the arguments", "(func (call $kv.set! \"key\" \"value\"))"},
    {kArgumentCount, "(func (call ‹$io.print!› (call $http.get \"http://a/\")))", "2 values",
     "io.print(text)", "write (call $http.get! …)",
     "(func (call $io.print! (call $http.get! \"http://a/\")))"},
    {kBadCharForm, "(func (drop ‹(char› \"ab\")))", "2 bytes", "one character", "(char \"a\")",
     "(func (drop (char \"a\")))"},
    {kBadConcat, "(func (drop ‹(concat›)))", "(concat)", "(concat a b …)", "strings to join",
     "(func (drop (concat \"a\" \"b\")))"},
    {kBadAlloc, "(func (drop ‹(alloc›)))", "nothing", "(alloc bytes)", "(alloc 400)",
     "(func (drop (alloc 400)))"},
    {kBadEach, "(func ‹(each› $line (nop)))", "", "(each $line (lines $text) body…)",
     "(each $line (lines $text)", "(func (param $text i32) (each $line (lines $text) (nop)))"},
    {kBadFor, "(func ‹(for› $i 10 (nop)))", "", "", "(for $i 0 10 body…)", "(func (for $i 0 10 (nop)))"},
    {kBadLoopExit, "(func (block ‹(break›)))", "no loop around it", "(for …) or (each …)", "(br $label)",
     "(func (block $done (br $done)))"},
    {kBadSet, "(func ‹(set› $x))", "no value", "(set $name value)", "Write (set $x 0)", "(func (set $x 0))"},
    {kBadStep, "(func ‹(inc› 5))", "5", "(inc $x)", "(inc $x 5)", "(func (param $x i32) (inc $x 5))"},
    {kBadStringForm, "(func (param $s i32) (call $io.print ‹(string› $s)))", "$s", "literals in quotes",
     "write $s", "(func (param $s i32) (call $io.print $s))"},
    {kBadWhile, "(func ‹(while›))", "nothing", "(while condition body…)", "(while (i32.lt_s $i 10) body…)",
     "(func (param $i i32) (while (i32.lt_s $i 10) (inc $i)))"},
    {kCharacterLiteral, "(func (param $c i32) (drop (i32.eq $c ‹'a'›)))", "'a'", "(char \"a\")",
     "Write (char \"a\")", "(func (param $c i32) (drop (i32.eq $c (char \"a\"))))"},
    {kCheckWithoutErrno, "(func $f) (func (call ‹$f!›))", "no result", "an i32 errno",
     "Write (call $f …) without the !", "(func $f) (func (call $f))"},
    {kCodeOutsideFunction, "‹(set› $x 1)", "(set …)", "a function around it", "(func (export \"main\") …)",
     "(func (export \"main\") (set $x 1))"},
    {kForeignWord, "(func (result i32) (‹+› 1 2))", "+", "(i32.add a b)", "Write (i32.add a b)",
     "(func (result i32) (i32.add 1 2))"},
    {kForeignWord, "(func (‹print› \"hi\"))", "print", "$io.print", "(call $io.print",
     "(func (call $io.print \"hi\"))"},
    {kMissingCall, "(func ‹(io.print› (string \"hi\")))", "(io.print …)", "(call $io.print …)",
     "Write (call $io.print …)", "(func (call $io.print (string \"hi\")))"},
    {kNotOneValue, "(func (set $body ‹(call› $http.get \"http://a/\")))", "2 values", "1 value",
     "(set $value $errno (call $http.get …))", "(func (set $value $errno (call $http.get \"http://a/\")))"},
    {kNotOneValue, "(func (drop (concat \"a\" ‹(call› $http.get \"http://a/\"))))", "2 values", "one value",
     "write (call $http.get! …)", "(func (drop (concat \"a\" (call $http.get! \"http://a/\"))))"},
    {kNumberAsString, "(func (call $io.print ‹42›))", "42", "the address of a string", "(string \"42\")",
     "(func (call $io.print (string \"42\")))"},
    {kStringPlacement,
     "(import \"a\" \"base\" (global $b i32))\n‹(data› (global.get $b) \"x\") (func (drop (string \"s\")))",
     "not constant", "(data (i32.const 1024) …)", "constant offsets", ""},
    {kStringPlacement, "(memory ‹0› 0) (func (drop (string \"s\")))", "0 pages at most", "1 page",
     "leave the memory out", "(func (drop (string \"s\")))"},
    {kUnfoldedForm, "(func ‹set› $x 1)", "set", "(set …)", "Write (set …)", "(func (set $x 1))"},
    {kUnknownCapability, "(func (drop (call ‹$http.gett!› \"http://a/\")))", "$http.gett!", "$http.get!",
     "Did you mean $http.get!?", "(func (drop (call $http.get! \"http://a/\")))"},
    {kUnknownCapability, "(func (call ‹$println› \"x\"))", "$println", "$io.println",
     "Did you mean $io.println?", "(func (call $io.println \"x\"))"},
    {kUnknownVariable, "(func (param $count i32) (drop (i32.add ‹$cuont› 1)))", "$cuont", "",
     "Did you mean $count?", "(func (param $count i32) (drop (i32.add $count 1)))"},
    {kUnsupportedLanguage, "‹i›mport json\nprint(1)\n", "Python", "WAT", "--lang python",
     "(func (export \"main\"))"},
    {kUnsupportedLanguage, "‹c›onst x = 1;", "JavaScript", "WAT", "--lang js", "(func (export \"main\"))"},
    {kUnsupportedLanguage, "‹`›``wat\n(func)\n```", "Markdown", "WAT", "without the ``` lines", "(func)"},
    {kUnsupportedLanguage, "‹#›include <stdio.h>\nint main() {}", "C", "WAT", "compile it to Wasm", "(func)"},
};

std::string without_marks(std::string_view text, size_t* begin = nullptr, size_t* end = nullptr) {
  std::string out(text);
  constexpr std::string_view kOpen = "‹";
  constexpr std::string_view kClose = "›";
  const size_t open = out.find(kOpen);
  if (open != std::string::npos) out.erase(open, kOpen.size());
  const size_t close = out.find(kClose);
  if (close != std::string::npos) out.erase(close, kClose.size());
  if (begin != nullptr) *begin = open;
  if (end != nullptr) *end = close;
  return out;
}

// The name would otherwise be the bytes of the case, which change with each build.
void PrintTo(const Case& c, std::ostream* out) { *out << name_of(c.code); }

class EachFinding : public ::testing::TestWithParam<Case> {};

TEST_P(EachFinding, SaysWhereWhatAndHowToMendIt) {
  const Case& c = GetParam();
  size_t begin = 0;
  size_t end = 0;
  const std::string faulty = without_marks(c.faulty, &begin, &end);
  const auto d = first_finding(faulty);
  ASSERT_TRUE(d) << "accepted: " << faulty;
  const std::string shown = render(*d, faulty, "program.wat");
  EXPECT_EQ(name_of(d->code), name_of(c.code)) << shown;
  EXPECT_EQ(faulty.substr(d->place.offset, d->place.end_offset - d->place.offset),
            faulty.substr(begin, end - begin))
      << shown;
  const Place place = locate(faulty, static_cast<uint32_t>(begin));
  EXPECT_EQ(d->place.line, place.line) << shown;
  EXPECT_EQ(d->place.column, place.column) << shown;
  EXPECT_NE(d->found.find(c.found), std::string::npos) << shown;
  EXPECT_NE(d->expected.find(c.expected), std::string::npos) << shown;
  EXPECT_NE(hint_of(*d).find(c.hint), std::string_view::npos) << shown;
  EXPECT_FALSE(d->message.empty());
}

// The advice is good: a program that follows it is accepted.
TEST_P(EachFinding, IsMendedByItsRepair) {
  const Case& c = GetParam();
  if (c.repaired.empty()) return;
  const auto d = first_finding(c.repaired);
  EXPECT_FALSE(d) << render(*d, c.repaired, "repaired.wat");
}

std::string test_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = std::to_string(info.index) + "_";
  for (const char c : name_of(info.param.code)) name += c == '-' ? '_' : c;
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, EachFinding, ::testing::ValuesIn(kCases), test_name);

// -- binaries: the place is an offset

struct BinaryCase {
  DiagnosticCode code;
  std::string_view hex;  // the bytes after the magic; the whole binary after "!"; a function's code after "@"
  uint32_t offset;
  std::string_view hint;
};

const BinaryCase kBinaryCases[] = {
    {kBadMagic, "!28 6d 6f 64 75 6c 65 29", 0, "00 61 73 6D"},
    {kBadVersion, "!00 61 73 6d 0d 00 01 00", 4, "Components"},
    {kDataCountMismatch, "0c 01 01", 10, "number of data segments"},
    {kDataCountRequired, "@fc 09 00 0b", 0, "data count section"},
    {kFunctionCodeMismatch, "01 04 01 60 00 00 03 02 01 00", 18, "one body"},
    {kIllegalOpcode, "@e0 0b", 0, "WebAssembly 3.0"},
    {kLegacyExceptions, "@06 40 19 0b 0b", 0, "-sWASM_LEGACY_EXCEPTIONS=0"},
    {kLengthOutOfBounds, "01 09 00", 9, "cut short"},
    {kMalformedInteger, "03 07 01 82 80 80 80 80 00", 11, "5 bytes"},
    {kMalformedKind, "02 05 01 00 00 05 00", 13, "0 func, 1 table"},
    {kMalformedSectionId, "0e 00", 8, "0 to 13"},
    {kMalformedType, "01 04 01 5d 00 00", 11, "i32 7F"},
    {kMalformedUtf8, "00 02 01 ff", 11, "UTF-8"},
    {kMissingEnd, "@", 0, "`end`"},
    {kSectionOutOfOrder, "01 01 00 01 01 00", 11, "Order:"},
    {kSectionSizeMismatch, "01 02 00 00", 11, "match"},
    {kTooManyLocals, "01 04 01 60 00 00 03 02 01 00 0a 0c 01 0a 02 ff ff ff ff 0f 7f 01 7e 0b", 0,
     "Declare fewer"},
    {kTrailingCode, "@0b 01 0b", 0, "Remove what follows"},
    {kUnexpectedEnd, "!00 61 73 6d 01", 5, "cut short"},
    {kElseWithoutIf, "@02 40 05 0b 0b", 0, "between `if` and its `end`"},
    {kMissingMemory, "@41 00 2d 00 00 1a 0b", 0, "(memory 1)"},
};

std::string bytes_of(std::string_view hex) {
  const bool is_whole = hex.starts_with('!');
  const bool is_code = hex.starts_with('@');
  std::string bytes;
  std::istringstream words(std::string(hex.substr(is_whole || is_code ? 1 : 0)));
  for (std::string word; words >> word;) bytes.push_back(static_cast<char>(std::stoi(word, nullptr, 16)));
  if (is_whole) return bytes;
  const std::string magic("\0asm\1\0\0\0", 8);
  if (!is_code) return magic + bytes;
  // Its type, [] -> [], and one body without locals.
  const auto size = static_cast<char>(bytes.size());
  return magic + std::string("\1\4\1\x60\0\0\3\2\1\0\x0a", 11) + static_cast<char>(size + 3) + '\1' +
         static_cast<char>(size + 1) + '\0' + bytes;
}

TEST(BinaryFindings, SayWhereAndHowToMendIt) {
  for (const BinaryCase& c : kBinaryCases) {
    const std::string bytes = bytes_of(c.hex);
    auto d = first_finding(bytes);
    if (c.code == kBadMagic || bytes.size() < 8) {  // as an explicit binary: otherwise it is taken for text
      const auto loaded = load_program(bytes, SourceFormat::kWasm);
      ASSERT_FALSE(loaded);
      d = loaded.error().front();
    }
    ASSERT_TRUE(d) << c.hex;
    const std::string shown = render(*d, {}, "program.wasm");
    EXPECT_EQ(name_of(d->code), name_of(c.code)) << shown;
    EXPECT_FALSE(d->place.in_text()) << shown;
    EXPECT_NE(hint_of(*d).find(c.hint), std::string_view::npos) << shown;
    EXPECT_TRUE(c.offset == 0 || d->place.offset == c.offset) << shown;
  }
}

// -- findings that need large texts

TEST(LimitFindings, RefuseATextThatIsTooLarge) {
  const auto d = first_finding("(;" + std::string(size_t{64} << 20, ' ') + ";)");
  ASSERT_TRUE(d);
  EXPECT_EQ(name_of(d->code), name_of(kTextTooLarge));
  EXPECT_NE(hint_of(*d).find("Split"), std::string_view::npos);
}

TEST(LimitFindings, RefuseFormsThatNestTooDeeply) {
  std::string code = "$x";
  for (int i = 0; i < 2000; ++i) code = "(i32.eqz " + code + ")";
  const std::string source = "(func (param $x i32) (drop " + code + "))";
  const auto d = first_finding(source);
  ASSERT_TRUE(d);
  EXPECT_EQ(name_of(d->code), name_of(kNestingTooDeep));
  EXPECT_NE(hint_of(*d).find("Split the expression with locals"), std::string_view::npos);
  EXPECT_EQ(d->place.line, 1u);
}

// -- linker: an import has no place in a Module

TEST(LinkFindings, SuggestTheFunctionThatWasMeant) {
  const auto d = first_finding(R"((import "http" "gett" (func (param i32) (result i32 i32))))");
  ASSERT_TRUE(d);
  EXPECT_EQ(name_of(d->code), name_of(kUnknownImport));
  EXPECT_EQ(d->found, "http.gett");
  EXPECT_EQ(d->expected, "http.get");
  EXPECT_FALSE(first_finding(R"((import "http" "get" (func (param i32) (result i32 i32))))"));
}

TEST(LinkFindings, ShowTheTypeThatAnImportHas) {
  const auto d = first_finding(R"((import "http" "get" (func (param i32) (result i32))))");
  ASSERT_TRUE(d);
  EXPECT_EQ(name_of(d->code), name_of(kImportTypeMismatch));
  EXPECT_EQ(d->expected, "(func (param i32) (result i32 i32))");
  EXPECT_NE(hint_of(*d).find("(import \"http\" \"get\" (func $http.get (param i32) (result i32 i32)))"),
            std::string_view::npos);
}

// -- the whole list

TEST(AllFindings, HaveATestHere) {
  std::set<DiagnosticCode> tested = {kTextTooLarge, kNestingTooDeep, kUnknownImport, kImportTypeMismatch};
  for (const Case& c : kCases) tested.insert(c.code);
  for (const BinaryCase& c : kBinaryCases) tested.insert(c.code);
  for (size_t i = 0; i < static_cast<size_t>(kCount); ++i) {
    const auto code = static_cast<DiagnosticCode>(i);
    EXPECT_TRUE(tested.contains(code)) << name_of(code) << " has no test in lang/wat/diagnostics_test.cc";
    EXPECT_FALSE(default_hint_of(code).empty()) << name_of(code) << " says no repair";
    EXPECT_TRUE(title_of(code).ends_with(".")) << name_of(code);
  }
  EXPECT_GE(tested.size(), 40u);
}

// docs/diagnostics.md is generated from the table: a heading for each section, a row for each code.
TEST(AllFindings, AreInTheirPage) {
  std::ifstream file(std::string(MEMBRANE_SOURCE_DIR) + "/docs/diagnostics.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  for (size_t i = 0; i < static_cast<size_t>(kCount); ++i) {
    const auto code = static_cast<DiagnosticCode>(i);
    const std::string row = "| `" + std::string(name_of(code)) + "` | " + std::string(title_of(code)) +
                            " | " + std::string(default_hint_of(code)) + " |";
    EXPECT_NE(text.find(row), std::string::npos) << "docs/diagnostics.md lacks: " << row;
  }
}

}  // namespace
}  // namespace membrane::lang
