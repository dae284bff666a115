#include "lang/wat/preprocessor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "lang/wat/host_testing.h"
#include "lang/wat/load.h"
#include "wasm/validate.h"

namespace membrane::lang {
namespace {

std::string describe(const std::vector<Diagnostic>& diagnostics, std::string_view source) {
  std::string text;
  for (const Diagnostic& d : diagnostics) text += render(d, source, "test.wat");
  return text;
}

// Loaded and validated, with findings at the author's places.
std::expected<LoadedWat, std::vector<Diagnostic>> compile(std::string_view source) {
  auto loaded = load_wat(source, test_host());
  if (!loaded) return loaded;
  if (auto checked = wasm::validate(loaded->module, loaded->expansion.text_or(source)); !checked) {
    Diagnostic d = std::move(checked).error();
    d.place = loaded->expansion.original_place(d.place, source);
    return std::unexpected(std::vector{std::move(d)});
  }
  return loaded;
}

// Ignores differences in white space.
std::string squeeze(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (const char c : text) {
    if (c == '"') in_string = !in_string;
    const bool is_space = !in_string && (c == ' ' || c == '\n');
    if (is_space && (out.empty() || out.back() == ' ' || out.back() == '(')) continue;
    if (c == ')' && !out.empty() && out.back() == ' ' && !in_string) out.pop_back();
    out.push_back(is_space ? ' ' : c);
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string expanded(std::string_view source) {
  const auto expansion = expand(source, test_host());
  if (!expansion) return describe(expansion.error(), source);
  const auto again = expand(expansion->text_or(source), test_host());
  EXPECT_TRUE(again && !again->changed) << expansion->text;
  const auto compiled = compile(source);
  EXPECT_TRUE(compiled) << describe(compiled.error(), source) << expansion->text;
  return squeeze(expansion->text_or(source));
}

// The body of an exported function with these locals, expanded.
std::string body(std::string_view locals, std::string_view code, std::string_view result = "") {
  const std::string head =
      squeeze("(module (func (export \"main\") " + std::string(result) + std::string(locals));
  std::string text = expanded(head + " " + std::string(code) + "))");
  if (!text.starts_with(head)) return text;
  return squeeze(std::string_view(text).substr(head.size(), text.size() - head.size() - 2));
}

TEST(Expand, LeavesPlainTextAlone) {
  constexpr std::string_view kPlain =
      "(module (memory (export \"memory\") 1) (func $f (param $x i32) (result i32) (block $l (br $l) (br "
      "0))\n"
      "  (call $f (local.get $x)) (if (then) (else)) i32.const 1 if $x nop end local.get $x))";
  const auto expansion = expand(kPlain, test_host());
  ASSERT_TRUE(expansion);
  EXPECT_FALSE(expansion->changed);
  EXPECT_EQ(expansion->text_or(kPlain), kPlain);
}

TEST(Expand, ImportsHostFunctionsOnFirstUse) {
  EXPECT_EQ(
      expanded("(module (func (export \"main\") (call $io.print_i32 (i32.const 1)) (call $io.print_i32 "
               "(i32.const 2))))"),
      "(module (import \"io\" \"print_i32\" (func $io.print_i32 (param i32))) (func (export \"main\") (call "
      "$io.print_i32 "
      "(i32.const 1)) (call $io.print_i32 (i32.const 2))) (memory (export \"memory\") 1) (global (export "
      "\"__heap_base\") i32 (i32.const 1024)))");
}

TEST(Expand, LetsTheAuthorsImportWin) {
  EXPECT_EQ(
      expanded("(import \"io\" \"print_i32\" (func $io.print_i32 (param i32))) (memory (export \"memory\") 2)"
               "(func (export \"main\") (call $io.print_i32 7))"),
      "(import \"io\" \"print_i32\" (func $io.print_i32 (param i32))) (memory (export \"memory\") 2)(func "
      "(export "
      "\"main\") (call $io.print_i32 (i32.const 7)))");
}

TEST(Expand, ExportsTheMemoryOfAProgramForTheHost) {
  EXPECT_EQ(expanded("(import \"io\" \"print\" (func $print (param i32))) (memory 1)(func (export \"main\") "
                     "(call $print (i32.const 0)))"),
            "(import \"io\" \"print\" (func $print (param i32))) (memory 1)(func (export \"main\") (call "
            "$print (i32.const 0))) "
            "(export \"memory\" (memory 0))");
}

TEST(Expand, AddsTheMemoryThatLoadsAndStoresNeed) {
  EXPECT_EQ(expanded("(func (export \"main\") (i32.store8 (i32.const 0) (i32.const 65)))"),
            "(func (export \"main\") (i32.store8 (i32.const 0) (i32.const 65))) (memory (export \"memory\") "
            "1) (global (export "
            "\"__heap_base\") i32 (i32.const 1024))");
}

TEST(Expand, MovesNumberedFunctionsBehindAddedImports) {
  EXPECT_EQ(
      expanded("(import \"a\" \"b\" (func)) (table 2 funcref) (elem (i32.const 0) 0 1) (func (export "
               "\"main\") call 0 call 1 "
               "(drop (ref.func 1)) (call $io.print_i32 1)) (start 1)"),
      "(import \"a\" \"b\" (func)) (import \"io\" \"print_i32\" (func $io.print_i32 (param i32))) (table 2 "
      "funcref) (elem "
      "(i32.const 0) 0 2) (func (export \"main\") call 0 call 2 (drop (ref.func 2)) (call $io.print_i32 "
      "(i32.const 1))) "
      "(start 2) (memory (export \"memory\") 1) (global (export \"__heap_base\") i32 (i32.const 1024))");
}

TEST(Expand, ExportsAnEntryThatHasNoExport) {
  EXPECT_EQ(expanded("(func $main (result i32) 5)"),
            "(func $main (result i32) (i32.const 5)) (export \"main\" (func $main))");
  EXPECT_EQ(expanded("(func $main) (func $run)"), "(func $main) (func $run) (export \"run\" (func $run))");
  EXPECT_EQ(expanded("(func $main) (start $main)"), "(func $main) (start $main)");
  EXPECT_EQ(expanded("(func $main) (func (export \"other\"))"), "(func $main) (func (export \"other\"))");
}

TEST(Expand, GivesBareOperandsTheTypeThatIsTaken) {
  EXPECT_EQ(body("(local $x i32)", "(drop (i32.add $x -1))"),
            "(drop (i32.add (local.get $x) (i32.const -1)))");
  EXPECT_EQ(body("(local $x i64)", "(drop (i64.add $x 0x1F))"),
            "(drop (i64.add (local.get $x) (i64.const 0x1F)))");
  EXPECT_EQ(body("", "(drop (f32.mul 2 1.5))"), "(drop (f32.mul (f32.const 2) (f32.const 1.5)))");
  EXPECT_EQ(body("", "(drop (f64.min nan -inf))"), "(drop (f64.min (f64.const nan) (f64.const -inf)))");
  EXPECT_EQ(body("", "(drop 1)(drop 1.5)"), "(drop (i32.const 1))(drop (f64.const 1.5))");
  EXPECT_EQ(body("(local $x f64)", "(drop (select 1 $x 0))"),
            "(drop (select (f64.const 1) (local.get $x) (i32.const 0)))");
  EXPECT_EQ(body("(local $x f32)", "(local.set $x 1)(local.set 0 2)"),
            "(local.set $x (f32.const 1))(local.set 0 (f32.const 2))");
  EXPECT_EQ(body("", "(return 5)", "(result i64)"), "(return (i64.const 5))");
  EXPECT_EQ(body("", "(block $l (result f32) (br_if $l 5 1))", "(result f32)"),
            "(block $l (result f32) (br_if $l (f32.const 5) (i32.const 1)))");
  EXPECT_EQ(body("(local $c i32)", "(block $a (block $b (br_table $a $b $c)))"),
            "(block $a (block $b (br_table $a $b (local.get $c))))");
}

TEST(Expand, AlignsBareOperandsWithTheStack) {
  EXPECT_EQ(body("", "i32.const 0 (drop (i64.shl (i64.extend_i32_s) 5))"),
            "i32.const 0 (drop (i64.shl (i64.extend_i32_s) (i64.const 5)))");
}

TEST(Expand, TypesArgumentsByTheCallee) {
  EXPECT_EQ(
      expanded("(func $f (param i64 f32 i32)) (func (export \"main\") (local $x i32) (call $f 1 2 $x))"),
      "(func $f (param i64 f32 i32)) (func (export \"main\") (local $x i32) (call $f (i64.const 1) "
      "(f32.const 2) "
      "(local.get $x)))");
  EXPECT_EQ(expanded("(type $t (func (param i64))) (table 1 funcref) (func (export \"main\") (call_indirect "
                     "(type $t) 1 0))"),
            "(type $t (func (param i64))) (table 1 funcref) (func (export \"main\") (call_indirect (type $t) "
            "(i64.const 1) "
            "(i32.const 0)))");
}

TEST(Expand, ReadsGlobalsAndPrefersLocals) {
  EXPECT_EQ(expanded("(global $g (mut i64) (i64.const 1)) (global $x i32 7) (func (export \"main\") (param "
                     "$x f32) (set $g "
                     "(i64.add $g 1)) (drop $x))"),
            "(global $g (mut i64) (i64.const 1)) (global $x i32 (i32.const 7)) (func (export \"main\") "
            "(param $x f32) "
            "(global.set $g (i64.add (global.get $g) (i64.const 1))) (drop (local.get $x)))");
}

TEST(Expand, TakesValuesAtTheEndOfASequence) {
  EXPECT_EQ(body("(local $x i64)", "(if (result i64) 1 (then $x) (else 2))", "(result i64)"),
            "(if (result i64) (i32.const 1) (then (local.get $x)) (else (i64.const 2)))");
  EXPECT_EQ(body("", "1 2.5", "(result i64 f64)"), "(i64.const 1) (f64.const 2.5)");
}

TEST(Expand, TellsTheConditionOfAnIfFromItsLabel) {
  EXPECT_EQ(body("(local $x i32)", "(if $x (then))"), "(if (local.get $x) (then))");
  EXPECT_EQ(body("(local $x i32)", "(if $x $x (then (br $x)))"), "(if $x (local.get $x) (then (br $x)))");
  EXPECT_EQ(body("(local $x i32)", "(if $x (result i32) (then 1) (else 2))", "(result i32)"),
            "(if (result i32) (local.get $x) (then (i32.const 1)) (else (i32.const 2)))");
}

TEST(Expand, DeclaresLocalsAtTheirFirstSet) {
  EXPECT_EQ(
      body("", "(set $x 1) (set $x (i32.add $x 1))"),
      "(local $x i32) (local.set $x (i32.const 1)) (local.set $x (i32.add (local.get $x) (i32.const 1)))");
  EXPECT_EQ(body("", "(set $x 1.5) (set $y (i64.const 1)) (set $z $y)"),
            "(local $x f64) (local $y i64) (local $z i64) (local.set $x (f64.const 1.5)) (local.set $y "
            "(i64.const 1)) (local.set "
            "$z (local.get $y))");
  EXPECT_EQ(body("(local $x f32)", "(set $x 1)"), "(local.set $x (f32.const 1))");
}

TEST(Expand, SetsSeveralVariablesFromOneCall) {
  EXPECT_EQ(expanded("(func $two (result i64 i32) 1 2) (func (export \"main\") (set $a $b (call $two)))"),
            "(func $two (result i64 i32) (i64.const 1) (i32.const 2)) (func (export \"main\") (local $a i64) "
            "(local $b i32) "
            "(local.set $a (local.set $b (call $two))))");
}

TEST(Expand, StepsVariables) {
  EXPECT_EQ(body("(local $x i32)", "(inc $x) (inc $x 5) (dec $x $x)"),
            "(local.set $x (i32.add (local.get $x) (i32.const 1))) (local.set $x (i32.add (local.get $x) "
            "(i32.const 5))) "
            "(local.set $x (i32.sub (local.get $x) (local.get $x)))");
  EXPECT_EQ(body("(local $x f64)", "(dec $x 0.5)"),
            "(local.set $x (f64.sub (local.get $x) (f64.const 0.5)))");
}

TEST(Expand, WritesWhileLoops) {
  EXPECT_EQ(body("(local $n i32)", "(while $n (dec $n))"),
            "(loop $while.1 (if (local.get $n) (then (local.set $n (i32.sub (local.get $n) (i32.const 1))) "
            "(br $while.1))))");
  EXPECT_EQ(body("", "(while 1 (while 2 (break)) (continue))"),
            "(loop $while.1 (if (i32.const 1) (then (block $while.2.break (loop $while.2 (if (i32.const 2) "
            "(then (br "
            "$while.2.break) (br $while.2))))) (br $while.1) (br $while.1))))");
}

TEST(Expand, WritesForLoops) {
  EXPECT_EQ(body("", "(for $i 0 10 nop)"),
            "(local $i i32) (local.set $i (i32.const 0)) (loop $for.1 (if (i32.lt_s (local.get $i) "
            "(i32.const 10)) (then nop "
            "(local.set $i (i32.add (local.get $i) (i32.const 1))) (br $for.1))))");
  EXPECT_EQ(body("(local $n i32)", "(for $i $n (i32.mul $n 2) (if $i (then (continue))) (break))"),
            "(local $i i32) (local $for.1.to i32) (local.set $i (local.get $n)) (local.set $for.1.to "
            "(i32.mul (local.get $n) "
            "(i32.const 2))) (block $for.1.break (loop $for.1 (if (i32.lt_s (local.get $i) (local.get "
            "$for.1.to)) (then (block "
            "$for.1.continue (if (local.get $i) (then (br $for.1.continue))) (br $for.1.break)) (local.set "
            "$i (i32.add "
            "(local.get $i) (i32.const 1))) (br $for.1)))))");
}

TEST(Expand, WalksOverLists) {
  const std::string code = body("(local $text i32)", "(each $line (lines $text) nop)");
  const std::string expected =
      "(local $line i32) (local $each.1.at i32) (local $each.1.end i32) "
      "(local.set $each.1.at (call $list.lines (local.get $text))) "
      "(drop (call $list.count (local.get $each.1.at))) (local.set $each.1.end (i32.add (i32.add "
      "(local.get $each.1.at) (i32.const 4)) (i32.load (local.get $each.1.at)))) (local.set $each.1.at "
      "(i32.add (local.get $each.1.at) (i32.const 4))) (loop $each.1 (if (i32.lt_u (local.get $each.1.at) "
      "(local.get $each.1.end)) (then (local.set $line (local.get $each.1.at)) (local.set $each.1.at "
      "(i32.add (i32.add (local.get $each.1.at) (i32.const 4)) (i32.load (local.get $each.1.at)))) nop "
      "(br $each.1))))";
  EXPECT_NE(code.find(expected), std::string::npos) << code;
}

TEST(Expand, TellsTheIndexOfEachFromItsList) {
  const auto takes_index = [](std::string_view code) {
    return body("(local $text i32) (local $list i32)", code).find("(i32.const -1)") != std::string::npos;
  };
  EXPECT_TRUE(takes_index("(each $line $i (lines $text) (set $last $i))"));
  EXPECT_TRUE(takes_index("(each $line $i $list (set $last $i))"));
  EXPECT_FALSE(takes_index("(each $line $list (call $io.print $line))"));
  EXPECT_FALSE(takes_index("(each $line $list)"));
  EXPECT_FALSE(takes_index("(each $line $list (if $text (then (break))))"));
}

TEST(Expand, LeavesEachLoopsAndNestsThem) {
  const std::string code = body("(local $text i32)",
                                "(each $line (lines $text) (if $line (then (continue))) "
                                "(each $field (split $line \",\") (break)))");
  EXPECT_NE(code.find("(br $each.1)"), std::string::npos) << code;
  EXPECT_NE(code.find("(block $each.2.break"), std::string::npos) << code;
  EXPECT_NE(code.find("(br $each.2.break)"), std::string::npos) << code;
}

TEST(Expand, ChecksAListThatCanFail) {
  const std::string code = body("(local $text i32)", "(drop (items $text))");
  EXPECT_NE(code.find("(call $list.items (local.get $text))"), std::string::npos) << code;
  EXPECT_NE(code.find("$membrane.fail"), std::string::npos) << code;
}

TEST(Expand, TakesMemory) {
  const std::string code = body("(local $n i32)", "(drop (alloc (i32.mul $n 4)))");
  EXPECT_NE(
      code.find("(drop (i32.add (call $str.zeros (i32.mul (local.get $n) (i32.const 4))) (i32.const 4)))"),
      std::string::npos)
      << code;
}

TEST(Expand, InternsStringsPastTheAuthorsData) {
  EXPECT_EQ(expanded("(memory (export \"memory\") 1) (data (i32.const 2000) \"abc\\00\\01\") (func (export "
                     "\"main\") (drop (string "
                     "\"hi\\n\")) (drop \"hi\\n\") (drop (string \"a\" \"b\")))"),
            "(memory (export \"memory\") 1) (data (i32.const 2000) \"abc\\00\\01\") (func (export \"main\") "
            "(drop (i32.const 2008)) "
            "(drop (i32.const 2008)) (drop (i32.const 2016))) (data (i32.const 2008) "
            "\"\\03\\00\\00\\00hi\\n\\00\\02\\00\\00\\00ab\") "
            "(global (export \"__heap_base\") i32 (i32.const 2024))");
}

TEST(Expand, GrowsAMemoryThatIsTooSmallForTheLiterals) {
  EXPECT_EQ(expanded("(memory (export \"memory\") 0) (func (export \"main\") (drop (string \"\")))"),
            "(memory (export \"memory\") 1) (func (export \"main\") (drop (i32.const 1024))) (data "
            "(i32.const 1024) "
            "\"\\00\\00\\00\\00\") (global (export \"__heap_base\") i32 (i32.const 1032))");
}

TEST(Expand, WritesCharactersAsTheirNumbers) {
  EXPECT_EQ(body("", R"((drop (char "a")) (drop (char "\n")) (drop (char "é")) (drop (char "\ff")))"),
            "(drop (i32.const 97)) (drop (i32.const 10)) (drop (i32.const 233)) (drop (i32.const 255))");
}

constexpr std::string_view kFail = "(import \"membrane\" \"fail\" (func $membrane.fail (param i32 i32 i32)))";

// The text between the function's head and what is added after it.
std::string checked(std::string_view code) {
  std::string text = expanded("(func (export \"main\")\n" + std::string(code) + ")");
  const size_t head = text.find("(local $membrane.errno i32)");
  const size_t tail = text.find(" (memory (export");
  if (text.find(kFail) == std::string::npos || head == std::string::npos || tail == std::string::npos)
    return text;
  const size_t begin = head + std::string_view("(local $membrane.errno i32) ").size();
  return text.substr(begin, tail - begin - 1);
}

TEST(Expand, ChecksTheErrnoOfACall) {
  EXPECT_EQ(checked("(drop (call $http.get! (i32.const 8)))"),
            "(drop (if (param i32) (result i32) (local.tee $membrane.errno (call $http.get (i32.const 8))) "
            "(then (call "
            "$membrane.fail (local.get $membrane.errno) (i32.const 1024) (i32.const 2)) (unreachable))))");
}

TEST(Expand, LeavesNothingOfACheckedCallThatGivesOnlyAnErrno) {
  EXPECT_EQ(checked("\n(call $kv.set! (i32.const 8) (i32.const 16))"),
            "(if (local.tee $membrane.errno (call $kv.set (i32.const 8) (i32.const 16))) (then (call "
            "$membrane.fail (local.get "
            "$membrane.errno) (i32.const 1024) (i32.const 3)) (unreachable)))");
}

TEST(Expand, KeepsWideValuesOfCheckedCalls) {
  EXPECT_EQ(checked("(drop (i64.add (call $time.now_ms!) 1))"),
            "(drop (i64.add (if (param i64) (result i64) (local.tee $membrane.errno (call $time.now_ms)) "
            "(then (call "
            "$membrane.fail (local.get $membrane.errno) (i32.const 1024) (i32.const 2)) (unreachable))) "
            "(i64.const 1)))");
}

TEST(Expand, ChecksCallsWithoutParentheses) {
  EXPECT_EQ(checked("i32.const 8 call $http.get! drop"),
            "i32.const 8 call $http.get (if (param i32) (result i32) (local.tee $membrane.errno) (then (call "
            "$membrane.fail "
            "(local.get $membrane.errno) (i32.const 1024) (i32.const 2)) (unreachable))) drop");
}

TEST(Expand, TakesTheMarkOfACallThatCannotFailForNothing) {
  EXPECT_EQ(body("", "(drop (call $f!))").substr(0, 10), "test.wat:1");
  const std::string text = expanded("(func (export \"main\") (call $io.print_i32! 1))");
  EXPECT_NE(text.find("(call $io.print_i32 (i32.const 1)))"), std::string::npos) << text;
  EXPECT_EQ(text.find(kFail), std::string::npos);
}

TEST(Expand, ChecksFunctionsOfTheAuthor) {
  EXPECT_EQ(checked("(call $f!)) (func $f (result i32) 0").substr(0, 69),
            "(if (local.tee $membrane.errno (call $f)) (then (call $membrane.fail ");
}

TEST(Expand, PrefersAFunctionWhoseNameEndsInTheMark) {
  EXPECT_EQ(expanded("(func $f! (export \"main\")) (func (call $f!))"),
            "(func $f! (export \"main\")) (func (call $f!))");
}

TEST(Expand, JoinsStrings) {
  EXPECT_EQ(checked("(drop (concat 8 (i32.const 16)))").substr(0, 8), "test.wat");
  EXPECT_EQ(checked("(drop (concat \"a\" (call $io.input)))"),
            "(drop (if (param i32) (result i32) (local.tee $membrane.errno (call $str.concat (i32.const "
            "1040) (call $io.input))) "
            "(then (call $membrane.fail (local.get $membrane.errno) (i32.const 1024) (i32.const 2)) "
            "(unreachable))))");
  EXPECT_EQ(body("(local $a i32)", "(drop (concat $a))"), "(drop (local.get $a))");
}

TEST(Expand, KeepsHiddenNamesApartFromTheAuthors) {
  const std::string text = expanded(
      "(func (export \"main\") (local $membrane.errno f32) (local $for.1.to i64) (for $i 0 (i32.const 1) "
      "(call $kv.set! \"k\" \"v\")))");
  EXPECT_NE(text.find("(local $membrane.errno_ i32)"), std::string::npos) << text;
  EXPECT_NE(text.find("(local $for.1.to_ i32)"), std::string::npos) << text;
}

TEST(Expand, KeepsEveryLineWhereItWas) {
  constexpr std::string_view kSource =
      ";; a comment\n(module\n  (func $main\n    (call $io.print\n      (string\n        \"a\"))\n    "
      "(concat \"a\"\n  \"b\")\n drop ;; done\n  )\n)\n";
  const auto expansion = expand(kSource, test_host());
  ASSERT_TRUE(expansion);
  const size_t drop = expansion->text.find("drop ;; done");
  ASSERT_NE(drop, std::string::npos);
  EXPECT_EQ(locate(expansion->text, static_cast<uint32_t>(drop)).line, 9u);
}

// The instructions of the module map to the author's text.
TEST(Compile, MapsInstructionsToTheAuthorsText) {
  constexpr std::string_view kSource =
      "(func $main (result i32)\n  (set $x 4)\n  (i32.div_s $x\n    (call $str.length (call $http.get! "
      "\"u\"))))";
  const auto compiled = compile(kSource);
  ASSERT_TRUE(compiled) << describe(compiled.error(), kSource);
  std::vector<std::string> sources;
  for (const wasm::SourcePoint& p : compiled->module.source_map) {
    const auto range = compiled->expansion.original_range(p.text_offset, p.text_end);
    sources.emplace_back(kSource.substr(range.begin, range.end - range.begin));
  }
  const auto has = [&](std::string_view text) {
    return std::find(sources.begin(), sources.end(), text) != sources.end();
  };
  EXPECT_TRUE(has("i32.div_s"));
  EXPECT_TRUE(has("4"));
  EXPECT_TRUE(has("$x"));
  EXPECT_TRUE(has("\"u\""));
  EXPECT_TRUE(has("(call $http.get!"));
}

TEST(Compile, ReportsTypesAtTheAuthorsPlace) {
  constexpr std::string_view kSource =
      "(func $main (param $n f64)\n  (call $io.print \"x\")\n  (while (i32.lt_s $n 10) (inc $n)))";
  const auto compiled = compile(kSource);
  ASSERT_FALSE(compiled);
  const Diagnostic& d = compiled.error().front();
  EXPECT_EQ(d.code, DiagnosticCode::kTypeMismatch);
  EXPECT_EQ(d.place.line, 3u);
  EXPECT_EQ(d.place.column, 11u);
}

TEST(Compile, TakesPlainTextAsItIs) {
  const auto compiled = compile(
      "(module (func (export \"add\") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))");
  ASSERT_TRUE(compiled);
  EXPECT_EQ(compiled->module.exports.size(), 1u);
  EXPECT_TRUE(compiled->module.memories.empty());
}

}  // namespace
}  // namespace membrane::lang
