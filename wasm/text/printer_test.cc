#include "wasm/text/printer.h"

#include <gtest/gtest.h>

#include "wasm/binary.h"
#include "wasm/text/parser.h"

namespace membrane::wasm {
namespace {

Module parse(std::string_view text) {
  auto module = parse_text(text);
  if (module) return std::move(*module);
  ADD_FAILURE() << render(module.error()[0], text, "test.wat");
  return {};
}

TEST(TextPrinter, PrintsFlatTextWithNames) {
  EXPECT_EQ(print_text(parse(R"((module $m
  (import "io" "print" (func $print (param i32)))
  (memory $mem 1 2)
  (global $g (mut f32) (f32.const 1.5))
  (data (i32.const 8) "hi\n\ff")
  (func $f (export "f") (param $a i32) (result i32) (local i64)
    (block $out (br_if $out (local.get $a)))
    (call $print (i32.load offset=4 align=1 (i32.const -1)))
    (local.get 0)))
)")),
            R"((module $m
  (type (;0;) (func (param i32)))
  (type (;1;) (func (param i32) (result i32)))
  (import "io" "print" (func $print (;0;) (type 0) (param i32)))
  (memory $mem (;0;) 1 2)
  (global $g (;0;) (mut f32) f32.const 0x1.8p+0 (;=1.5;))
  (export "f" (func $f))
  (data (;0;) (offset i32.const 8) "hi\n\ff")
  (func $f (;1;) (type 1) (param $a i32) (result i32)
    (local i64)
    block $out
      local.get $a
      br_if $out
    end
    i32.const -1
    i32.load offset=4 align=1
    call $print
    local.get $a))
)");
}

TEST(TextPrinter, QuotesNamesThatAreNoIdentifiersAndUsesIndicesWhereTheyAreNotUnique) {
  Module m = parse("(func $f) (func $g) (func $h (call $f) (call $g) (call $h))");
  m.names.functions = {{0, 0, "std::vector<int>(size_t, x)"}, {0, 1, "same"}, {0, 2, "same"}};
  const std::string text = print_text(m);
  EXPECT_NE(text.find("(func $\"std::vector<int>(size_t, x)\" (;0;)"), std::string::npos) << text;
  EXPECT_NE(text.find("call $\"std::vector<int>(size_t, x)\"\n    call $same\n    call 2"), std::string::npos)
      << text;
  const auto again = parse_text(text);
  ASSERT_TRUE(again.has_value()) << text;
  EXPECT_EQ(again->names.function(0), "std::vector<int>(size_t, x)");
}

TEST(TextPrinter, NamesCannotBreakOutOfTheirComment) {
  Module m = parse("(func)");
  for (const char* name : {"a ;) (start 0) (;", "(;", ";)", "\n", "\"", "\xFF", ""}) {
    m.names.functions = {{0, 0, name}};
    const auto again = parse_text(print_text(m));
    ASSERT_TRUE(again.has_value()) << print_text(m);
    EXPECT_EQ(again->start, UINT32_MAX);
  }
}

TEST(TextPrinter, HiddenLabelsGoByDepth) {
  const std::string text = print_text(parse("(func (block $l (block $l (br $l) (br 1))))"));
  EXPECT_NE(text.find("br $l\n        br 1"), std::string::npos) << text;
}

TEST(TextPrinter, PrintsTagsAndClauses) {
  const std::string_view text = R"((module
  (type (;0;) (func))
  (type $t (;1;) (func (param i32)))
  (import "a" "b" (tag $far (;0;) (type $t) (param i32)))
  (tag $near (;1;) (type 0))
  (global (;0;) exnref ref.null exn)
  (export "near" (tag $near))
  (func (;0;) (type 0)
    block $l
      try_table $l (catch $near $l) (catch_all 1)
        br $l
      end
    end
    block (type 2) (result i32 exnref)
      try_table (catch_ref $far 0)
        i32.const 1
        throw $far
      end
      unreachable
    end
    throw_ref))
)";
  const std::string printed = print_text(parse(R"((module
    (type (func)) (type $t (func (param i32))) (import "a" "b" (tag $far (type $t)))
    (tag $near (export "near")) (global exnref (ref.null exn))
    (func
      (block $l (try_table $l (catch $near $l) (catch_all 1) (br $l)))
      (block (result i32 exnref)
        (try_table (catch_ref $far 0) (throw $far (i32.const 1))) (unreachable))
      (throw_ref))))"));
  EXPECT_EQ(printed.substr(0, printed.find("  (type (;2;)")) + printed.substr(printed.find("  (import")),
            text);
  EXPECT_EQ(print_text(parse(printed)), printed);
}

// What does not validate still prints, and does not crash.
TEST(TextPrinter, PrintsBrokenModules) {
  Module m = parse("(func (export \"f\"))");
  m.functions.own()[0].type = 99;
  m.functions.own()[0].code.size = 0;
  m.exports[0].index = 77;
  m.start = 55;
  m.local_runs.own().push_back({4'000'000'000u, ValType::kI64});
  m.functions.own()[0].local_run_count = 1;
  m.elements.emplace_back().functions = {1, 2};
  m.elements[0].mode = SegmentMode::kActive;
  m.elements[0].table = 3;
  const std::string text = print_text(m);
  EXPECT_LT(text.size(), 2'000'000u);
  EXPECT_NE(text.find("more locals than text can have"), std::string::npos);
  EXPECT_NE(text.find("code that cannot be decoded"), std::string::npos);
}

}  // namespace
}  // namespace membrane::wasm
