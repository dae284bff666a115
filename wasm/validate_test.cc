#include "wasm/validate.h"

#include <gtest/gtest.h>

#include "base/stop_scope.h"
#include "wasm/assemble_testing.h"
#include "wasm/binary.h"
#include "wasm/limits.h"
#include "wasm/text/parser.h"

namespace membrane::wasm {
namespace {

using namespace testing;
using enum ValType;
using enum DiagnosticCode;

Module parse(std::string_view text) {
  auto module = parse_text(text);
  if (module) return *std::move(module);
  ADD_FAILURE() << render(module.error()[0], text, "test.wat");
  return {};
}

// What validation says of a text, as a person or a model reads it; "" when it is valid.
std::string verdict(std::string_view text) {
  const Module module = parse(text);
  const auto info = validate(module, text);
  return info ? "" : render(info.error(), text, "t.wat");
}

FunctionInfo info_of(std::string_view text) {
  const auto info = validate(parse(text), text);
  EXPECT_TRUE(info.has_value()) << verdict(text);
  return info && !info->functions.empty() ? info->functions[0] : FunctionInfo{};
}

// -- each code once: what is wrong, where, and the hint

struct Wrong {
  DiagnosticCode code;
  std::string_view text;
  std::string_view at;       // the text at the place
  std::string_view message;  // is in the message
  std::string_view found, expected;
  std::string_view hint;  // is in the hint
};

const Wrong kWrong[] = {
    // operands
    {kTypeMismatch, "(module (func (result i32)\n  (i32.add (i32.const 1) (f32.const 2))))", "i32.add",
     "operand 2 of 2 is f32", "[i32 f32]", "[i32 i32]",
     "(i32.trunc_sat_f32_s …), or i32.trunc_sat_f32_s right before i32.add"},
    {kTypeMismatch, "(module (func (param $x i64) (result i32)\n  (i32.lt_s (local.get $x) (i64.const 2))))",
     "i32.lt_s", "i32.lt_s takes [i32 i32], but the stack holds [i64 i64]", "[i64 i64]", "[i32 i32]",
     "Use i64.lt_s"},
    {kTypeMismatch, "(module (func (result i32) f64.const 1 f64.const 2 i32.div_u))", "i32.div_u", "",
     "[f64 f64]", "[i32 i32]", "Use f64.div"},
    {kTypeMismatch, "(module (func $f (param i32 i32)) (func (call $f (i64.const 1) (i32.const 2))))",
     "call $f", "call $f takes [i32 i32]", "[i64 i32]", "[i32 i32]", "(i32.wrap_i64 …)"},
    {kTypeMismatch, "(module (memory 1) (func (i64.store (i64.const 2) (i32.const 0))))", "i64.store",
     "i64.store takes [i32 i64]", "[i64 i32]", "[i32 i64]", "Swap the two operands"},
    {kTypeMismatch, "(module (func (local $x f64) (local.set $x (i32.const 1))))", "local.set $x",
     "local.set $x takes [f64]", "[i32]", "[f64]", "f64.convert_i32_s"},
    {kMissingValue, "(module (func (result i32) i32.const 1 i32.add))", "i32.add",
     "the stack holds only [i32]", "[i32]", "[i32 i32]", "Push the operands"},
    {kMissingValue, "(module (func i32.const 1 (block (drop))))", "drop", "the stack holds nothing", "[]",
     "[any]", "out of its reach, so keep it in a local"},
    {kMissingValue, "(module (func $f (result i32)))", ")", "the function must end with [i32]", "[]", "[i32]",
     ""},
    {kLeftoverValues, "(module (func\n  i32.const 1\n  i64.const 2))", ")", "2 values left over", "[i32 i64]",
     "[]", "Add `drop` 2 times"},
    {kResultTypeMismatch, "(module (func (result i64) i32.const 1))", ")", "the function must end with",
     "[i32]", "[i64]", "i64.extend_i32_s"},
    {kResultTypeMismatch, "(module (func (drop (block (result f32) i64.const 1))))", ")",
     "the block must end with", "[i64]", "[f32]", "f32.convert_i64_s"},
    {kNotAReference, "(module (func (drop (ref.is_null (i32.const 1)))))", "ref.is_null", "", "[i32]",
     "[funcref], [externref] or another reference", "ref.func"},
    // exceptions
    {kTypeMismatch, "(module (tag $e (param i32)) (func (throw $e (f64.const 1))))", "throw $e",
     "throw $e takes [i32], but the stack holds [f64]", "[f64]", "[i32]", "(i32.trunc_sat_f64_s …)"},
    {kMissingValue, "(module (func (throw_ref)))", "throw_ref", "the stack holds nothing", "[]", "[exnref]",
     ""},
    {kUnknownTag, "(module (func (throw 3)))", "throw 3", "there is no tag 3: there are none", "3", "", ""},
    {kUnknownTag, "(module (tag) (func (try_table (catch 1 0))))", "try_table (catch 1 0)",
     "there is no tag 1", "1", "0", ""},
    {kUnknownLabel, "(module (func (try_table (catch_all 1))))", "try_table (catch_all 1)", "", "1", "0", ""},
    {kBranchTypeMismatch, "(module (tag $e (param i64)) (func (try_table (catch_ref $e 0))))",
     "try_table (catch_ref $e 0)", "catch_ref branches to the function with other values than it takes",
     "[i64 exnref]", "[]", "Give the block that is branched to the result type [i64 exnref]"},
    {kTagWithResults, "(module (tag $e (param i32) (result i32)))", "(tag $e (param i32) (result i32))",
     "tag $e has results", "[i32]", "[]", "parameters only"},
    {kSelectNeedsType, "(module (func (drop (select (ref.null func) (ref.null func) (i32.const 1)))))",
     "select", "between references", "[funcref funcref]", "two numbers or two vectors",
     "(select (result funcref)"},
    {kSelectArity, "(module (func (unreachable) (select (result i32 i32)) (unreachable)))",
     "select (result i32 i32)", "", "2 types", "1 type", "if"},
    // control
    {kUnknownLabel, "(module (func (block (br 2))))", "br 2", "there is no label 2: there are 2", "2",
     "0 to 1", "innermost"},
    {kBranchTypeMismatch, "(module (func (result i32) (block (result i32) (br 0 (f32.const 1)))))", "br 0",
     "br to the block takes [i32]", "[f32]", "[i32]", "i32.trunc_sat_f32_s"},
    {kBranchTableArity,
     "(module (func (block (block (result i32) (br_table 0 1 (i32.const 1) (i32.const 0))) (drop))))",
     "br_table 0 1", "", "[]", "[i32]", "same result types"},
    {kIfWithoutElse, "(module (func (drop (if (result i32) (i32.const 1) (then (i32.const 2))))))", ")", "",
     "[]", "[i32]", "(else"},
    {kResultTypeMismatch,
     "(module (func $f (result i64) (i64.const 1)) (func (result i32) (return_call $f)))", "return_call $f",
     "other results", "[i64]", "[i32]", "without return_"},
    // indices
    {kUnknownLocal, "(module (func (param i32) (local i32) (drop (local.get 2))))", "local.get 2",
     "there is no local 2: there are 2", "2", "0 to 1", "(local $name i32)"},
    {kUnknownGlobal, "(module (global i32 (i32.const 0)) (func (drop (global.get 7))))", "global.get 7",
     "there is no global 7: there is 1", "7", "0", "(global"},
    {kUnknownFunction, "(module (func (call 1)))", "call 1", "there is no function 1", "1", "0",
     "Imported functions"},
    {kUnknownTable, "(module (func (drop (table.size 0))))", "table.size 0", "there are none", "0", "",
     "(table 1 funcref)"},
    {kUnknownType, "(module (table 1 funcref) (func (call_indirect (type 9) (i32.const 0))))",
     "call_indirect (type 9)", "there is no type 9", "9", "0", "(type"},
    {kUnknownElement, "(module (func (elem.drop 0)))", "elem.drop 0", "there is no element segment 0", "0",
     "", "from 0"},
    {kUnknownData, "(module (memory 1) (func (data.drop 3)) (data \"\"))", "data.drop 3",
     "there is no data segment 3", "3", "0", "from 0"},
    {kMissingMemory, "(module (func (i32.store (i32.const 0) (i32.const 1))))", "i32.store",
     "i32.store needs a memory", "", "", "(memory 1)"},
    // immediates
    {kAlignmentTooLarge, "(module (memory 1) (func (drop (i32.load align=8 (i32.const 0)))))",
     "i32.load align=8", "i32.load", "align=8", "align=4 or less", "natural alignment"},
    {kLaneOutOfRange, "(module (func (param v128) (drop (i32x4.extract_lane 4 (local.get 0)))))",
     "i32x4.extract_lane 4", "no lane 4", "4", "0 to 3", "i32x4"},
    {kImmutableGlobal, "(module (global $g i32 (i32.const 0)) (func (global.set $g (i32.const 1))))",
     "global.set $g", "immutable", "i32", "(mut i32)", "(global $name (mut i32)"},
    {kUndeclaredReference, "(module (func $f) (func (drop (ref.func $f))))", "ref.func $f", "ref.func $f", "",
     "", "(elem declare func $f)"},
    {kTableTypeMismatch, "(module (table 1 externref) (func (call_indirect (i32.const 0))))", "call_indirect",
     "", "externref", "funcref", "call_indirect needs"},
    {kTableTypeMismatch,
     "(module (table 1 externref) (table 1 funcref) (func (table.copy 0 1 (i32.const 0) (i32.const 0) "
     "(i32.const 0))))",
     "table.copy 0 1", "table.copy copies between different types", "funcref", "externref", ""},
    // declarations
    {kNotConstant, "(module (global i32 (i32.shl (i32.const 1) (i32.const 2))))", "i32.shl",
     "the initial value of global 0", "i32.shl", "", "start function"},
    {kNotConstant, "(module (import \"a\" \"g\" (global (mut i32))) (memory 1) (data (global.get 0) \"\"))",
     "global.get 0", "mutable", "global.get 0", "", ""},
    {kUnknownGlobal, "(module (global i32 (i32.const 1)) (global i32 (global.get 1)))", "global.get 1",
     "global 1 has no value yet", "1", "one of the first 1 global", "Move that global"},
    {kResultTypeMismatch, "(module (memory 1) (data (i64.const 0) \"\"))", "\"\"",
     "the offset of data segment 0 must end with", "[i64]", "[i32]", "Write a constant of type i32."},
    {kDuplicateExport, "(module\n (func (export \"f\"))\n (func (export \"f\")))", "\"f\"",
     "\"f\" is exported twice", "\"f\"", "", "Rename"},
    {kUnknownFunction, "(module\n (export \"main\" (func 3)))", "\"main\"",
     "export \"main\" names function 3", "3", "", ""},
    {kUnknownMemory, "(module (data (i32.const 0) \"x\"))", "(data (i32.const 0) \"x\")",
     "data segment 0 names memory 0", "0", "", "(memory 1)"},
    {kUnknownMemory, "(module (memory 1) (memory 1) (func (drop (memory.size 2))))", "memory.size 2",
     "there is no memory 2", "2", "0 to 1", ""},
    {kUnknownMemory, "(module (memory 1) (func (memory.copy 0 1 (i32.const 0) (i32.const 0) (i32.const 0))))",
     "memory.copy 0 1", "there is no memory 1", "1", "0", ""},
    {kMemoryTooLarge, "(module (memory 65537))", "(memory 65537)", "memory 0 is larger than 4 GiB",
     "65537 pages", "at most 65536 pages", "in pages of 64 KiB"},
    {kMinExceedsMax, "(module (import \"env\" \"m\" (memory 3 2)))", "(import \"env\" \"m\" (memory 3 2))",
     "import \"env\" \"m\"", "3 2", "", "minimum first"},
    {kStartSignature, "(module (func $main (result i32) (i32.const 0))\n (start $main))", "(start $main)",
     "$main", "[] -> [i32]", "[] -> []", "export it"},
    {kTableTooLarge, "(module (table 4294967296 funcref))", "(table 4294967296 funcref)",
     "table 0 has more elements", "4294967296", "at most 4294967295", "(table i64 1 funcref)"},
    {kOffsetTooLarge, "(module (memory 1) (func (drop (i32.load offset=4294967296 (i32.const 0)))))",
     "i32.load offset=4294967296", "beyond a memory with 32-bit", "offset=4294967296",
     "offset=4294967295 or less", "(memory i64 1)"},
    {kTypeMismatch, "(module (memory i64 1) (func (drop (i32.load (i32.const 0)))))", "i32.load",
     "i32.load takes [i64]", "[i32]", "[i64]", "i64.extend_i32_s"},
    {kTypeMismatch,
     "(module (memory i64 1) (memory 1) (func (memory.copy 0 1 (i64.const 0) (i32.const 0) (i64.const 0))))",
     "memory.copy 0 1", "takes [i64 i32 i32]", "[i64 i32 i64]", "[i64 i32 i32]", ""},
    {kTypeMismatch, "(module (table i64 1 funcref) (func (drop (table.get 0 (i32.const 0)))))", "table.get 0",
     "table.get 0 takes [i64]", "[i32]", "[i64]", ""},
};

TEST(Validate, SaysWhatIsWrongWhereAndHowToMendIt) {
  for (const Wrong& w : kWrong) {
    const Module module = parse(w.text);
    const auto info = validate(module, w.text);
    ASSERT_FALSE(info.has_value()) << w.text;
    const Diagnostic& d = info.error();
    const std::string shown = render(d, w.text, "t.wat");
    EXPECT_EQ(name_of(d.code), name_of(w.code)) << shown;
    EXPECT_EQ(w.text.substr(d.place.offset, d.place.end_offset - d.place.offset), w.at) << shown;
    EXPECT_TRUE(d.place.in_text()) << shown;
    EXPECT_NE(d.message.find(w.message), std::string::npos) << shown;
    EXPECT_EQ(d.found, w.found) << shown;
    EXPECT_EQ(d.expected, w.expected) << shown;
    EXPECT_NE(hint_of(d).find(w.hint), std::string_view::npos) << shown;
    EXPECT_FALSE(is_malformed(d.code)) << shown;
  }
}

TEST(Validate, RendersForTheReader) {
  EXPECT_EQ(
      verdict("(module\n  (func $mean (param $sum f64) (param $n i32) (result f64)\n"
              "    (f64.div (local.get $sum) (local.get $n))))"),
      "t.wat:3:6: error[type-mismatch]: f64.div takes [f64 f64], but the stack holds [f64 i32]: operand 2 of "
      "2 is "
      "i32 (in function $mean)\n"
      "  3 |     (f64.div (local.get $sum) (local.get $n))))\n"
      "    |      ^^^^^^^\n"
      "  expected: [f64 f64]\n"
      "  found: [f64 i32]\n"
      "  hint: Convert the operand: (f64.convert_i32_s …), or f64.convert_i32_s right before f64.div.\n");
}

// Every repair that names an instruction must be one that exists and mends the types.
TEST(Validate, ConversionsThatAreSuggestedMend) {
  for (const char* const from : {"i32", "i64", "f32", "f64"}) {
    for (const char* const to : {"i32", "i64", "f32", "f64"}) {
      if (std::string_view(from) == to) continue;
      const std::string head = std::string("(module (func (param ") + from + ") (result " + to + ") ";
      const auto wrong = validate(parse(head + "(local.get 0)))"));
      ASSERT_FALSE(wrong.has_value());
      const std::string_view hint = hint_of(wrong.error());
      const size_t open = hint.find('(');
      const std::string instruction(hint.substr(open + 1, hint.find(' ', open) - open - 1));
      EXPECT_EQ(verdict(head + "(" + instruction + " (local.get 0))))"), "") << hint;
    }
  }
}

// -- limits

std::string repeated(std::string_view what, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += what;
  return out;
}

void expect_limit(const std::string& within, const std::string& beyond) {
  EXPECT_EQ(verdict(within).substr(0, 200), "");
  const auto info = validate(parse(beyond));
  ASSERT_FALSE(info.has_value()) << beyond.substr(0, 200);
  EXPECT_EQ(name_of(info.error().code), "implementation-limit") << info.error().message;
}

TEST(ValidateLimits, HoldParametersAndResults) {
  const auto with = [](size_t params, size_t results) {
    return "(module (type (func (param" + repeated(" i32", params) + ") (result" + repeated(" i32", results) +
           "))))";
  };
  expect_limit(with(kMaxParams, 0), with(kMaxParams + 1, 0));
  expect_limit(with(0, kMaxResults), with(0, kMaxResults + 1));
}

TEST(ValidateLimits, HoldLabelsOfABranchTable) {
  const auto with = [](size_t labels) {
    return "(module (func (br_table" + repeated(" 0", labels) + " 0 (i32.const 0))))";
  };
  expect_limit(with(kMaxBranchTableLabels), with(kMaxBranchTableLabels + 1));
}

// What is too deep for the text parser comes as a binary.
Bytes one_function(const Bytes& code_bytes, const std::vector<ValType>& results = {}) {
  return binary(
      {section(1, vec({func_type({}, results), func_type({}, std::vector<ValType>(kMaxResults, kI32))})),
       section(3, vec({{0}})), section(10, vec({sized(cat({{0}, code_bytes}))}))});
}

Bytes repeated_code(const std::string& text, size_t times) {
  const Bytes once = code(text);
  Bytes out;
  for (size_t i = 0; i < times; ++i) out.insert(out.end(), once.begin(), once.end());
  return out;
}

std::string verdict_of_binary(const Bytes& bytes) {
  const auto module = decode(std::span(bytes));
  if (!module) return "not decoded: " + module.error().message;
  const auto info = validate(*module);
  return info ? "" : std::string(name_of(info.error().code));
}

TEST(ValidateLimits, HoldLocals) {
  const auto with = [](uint32_t locals) {
    return binary({section(1, vec({func_type({kI64}, {})})), section(3, vec({{0}})),
                   section(10, vec({body("end", {{locals, kI32}})}))});
  };
  EXPECT_EQ(verdict_of_binary(with(kMaxLocals - 1)), "");
  EXPECT_EQ(verdict_of_binary(with(kMaxLocals)), "implementation-limit");
}

TEST(ValidateLimits, HoldNesting) {
  const auto with = [](size_t blocks) {
    return one_function(cat({repeated_code("block", blocks), repeated_code("end", blocks + 1)}));
  };
  EXPECT_EQ(verdict_of_binary(with(kMaxNesting - 1)), "");
  EXPECT_EQ(verdict_of_binary(with(kMaxNesting)), "implementation-limit");
}

TEST(ValidateLimits, HoldTheOperandStack) {
  // A block of type 1 leaves a thousand values after an unreachable.
  const auto with = [](size_t blocks) {
    return one_function(cat({repeated_code("block 1; unreachable; end", blocks), code("unreachable; end")}));
  };
  EXPECT_EQ(verdict_of_binary(with(kMaxOperandStack / kMaxResults - 1)), "");
  EXPECT_EQ(verdict_of_binary(with(kMaxOperandStack / kMaxResults + 1)), "implementation-limit");
}

TEST(ValidateLimits, HoldTheSizeOfABody) {
  EXPECT_EQ(verdict_of_binary(one_function(cat({Bytes(kMaxBodyBytes - 1, 0x01), {0x0B}}))), "");
  EXPECT_EQ(verdict_of_binary(one_function(cat({Bytes(kMaxBodyBytes, 0x01), {0x0B}}))),
            "implementation-limit");
}

// -- what is malformed inside bodies

TEST(ValidateMalformed, BodiesAreRefusedWithCodeAndOffset) {
  struct Malformed {
    std::string_view what;
    Bytes code;
    DiagnosticCode code_wanted;
    uint32_t offset;  // into the body's instructions
  };
  const Malformed cases[] = {
      {"an opcode of a later version", {0x01, 0xE0, 0x0B}, kIllegalOpcode, 1},
      {"an atomic instruction", {0x01, 0xFE, 0x00, 0x02, 0x00, 0x0B}, kIllegalOpcode, 1},
      {"a prefixed opcode that is none", {0xFC, 0x20, 0x0B}, kIllegalOpcode, 0},
      {"an immediate cut off", {0x41, 0x80}, kUnexpectedEnd, 1},
      {"a constant of 33 bits", {0x41, 0x80, 0x80, 0x80, 0x80, 0x70, 0x1A, 0x0B}, kMalformedInteger, 1},
      {"a block type that is none", {0x02, 0x68, 0x0B, 0x0B}, kMalformedType, 1},
      {"ref.null of i32", {0xD0, 0x7F, 0x1A, 0x0B}, kMalformedType, 1},
      {"more labels than bytes", {0x41, 0, 0x0E, 0xFF, 0x01, 0, 0x0B}, kLengthOutOfBounds, 5},
      {"no end", {0x01}, kMissingEnd, 1},
      {"a block without end", {0x02, 0x40, 0x0B}, kMissingEnd, 3},
      {"code after the end", {0x0B, 0x01, 0x0B}, kTrailingCode, 1},
      {"else without if", {0x02, 0x40, 0x05, 0x0B, 0x0B}, kElseWithoutIf, 2},
      {"else twice", {0x41, 0, 0x04, 0x40, 0x05, 0x05, 0x0B, 0x0B}, kElseWithoutIf, 5},
      {"data.drop without data count", {0xFC, 0x09, 0x00, 0x0B}, kDataCountRequired, 0},
  };
  for (const Malformed& m : cases) {
    const Bytes bytes = one_function(m.code);
    const auto module = decode(std::span(bytes));
    ASSERT_TRUE(module.has_value()) << m.what;
    const auto info = validate(*module);
    ASSERT_FALSE(info.has_value()) << m.what;
    EXPECT_EQ(name_of(info.error().code), name_of(m.code_wanted)) << m.what;
    EXPECT_EQ(info.error().place.offset, module->functions[0].code.offset + m.offset) << m.what;
    EXPECT_TRUE(is_malformed(info.error().code)) << m.what;
  }
}

TEST(ValidateMalformed, IsSaidBeforeWhatIsInvalid) {
  const Bytes bytes = binary({section(1, vec({func_type({}, {})})), section(3, vec({{0}, {0}})),
                              section(10, vec({body("i32.add; end"), sized({0, 0xFF, 0x0B})}))});
  EXPECT_EQ(verdict_of_binary(bytes), "illegal-opcode");
}

// -- what is accepted

TEST(Validate, AcceptsAnythingOnTheStackOfUnreachableCode) {
  EXPECT_EQ(verdict("(module (func (result i64) unreachable i32.add drop select i64.add))"), "");
  EXPECT_EQ(
      verdict(
          "(module (func (result i32) (block (result i32) (br 0 (i32.const 1)) (drop) (f32.neg) (drop))))"),
      "");
  EXPECT_EQ(
      verdict(
          "(module (func (block (result f32) (block (result i32) (unreachable) (br_table 0 1 (i32.const 0)))"
          " (drop) (f32.const 0)) (drop)))"),
      "");
  EXPECT_NE(verdict("(module (func unreachable i32.const 1 i64.eqz drop))"), "");
  EXPECT_NE(verdict("(module (func (result i32) unreachable i64.const 1))"), "");
}

TEST(Validate, AcceptsBlocksWithParametersAndSeveralResults) {
  EXPECT_EQ(
      verdict("(module (func (param i32) (result i32 i32)\n"
              "  (local.get 0) (i32.const 1)\n"
              "  (block (param i32 i32) (result i32 i32) (i32.add) (local.get 0))\n"
              "  (loop (param i32 i32) (result i32 i32) (br_if 0 (local.get 0)))\n"
              "  (if (param i32 i32) (result i32 i32) (local.get 0) (then) (else (drop) (local.get 0)))))"),
      "");
}

TEST(Validate, AcceptsReferencesThatAreDeclaredAnywhereOutsideOfBodies) {
  const std::string use = " (func $f) (func (drop (ref.func $f))))";
  EXPECT_EQ(verdict("(module (elem declare func $f)" + use), "");
  EXPECT_EQ(verdict("(module (export \"f\" (func $f))" + use), "");
  EXPECT_EQ(verdict("(module (global funcref (ref.func $f))" + use), "");
  EXPECT_EQ(verdict("(module (table funcref (elem (ref.func $f)))" + use), "");
  EXPECT_NE(verdict("(module (start $f)" + use), "");
}

TEST(Validate, FindsTypesOfLocalsFarBack) {
  const std::string text =
      "(module (func (param f32) (local" + repeated(" i32", 2000) +
      ") (local i64 v128) (local i64)"
      " (drop (i64.add (local.get 2001) (local.get 2003))) (drop (i32.eqz (local.get 2000)))"
      " (drop (v128.not (local.get 2002)))";
  EXPECT_EQ(verdict(text + "))"), "");
  EXPECT_NE(verdict(text + " (drop (i32.eqz (local.get 2001)))))"), "");
  EXPECT_NE(verdict(text + " (drop (local.get 2004))))"), "");
}

// -- what the engine learns

TEST(ValidationInfo, TellsTheFrameOfEachFunction) {
  const FunctionInfo info = info_of(
      "(module (func (param i32 v128) (result i32) (local f64 v128)\n"
      "  (block (result i32) (i32.add (i32.const 1) (i32.mul (i32.const 2) (i32.const 3))))\n"
      "  (drop (v128.and (local.get 1) (local.get 3)))))");
  EXPECT_EQ(info.local_count, 4u);
  EXPECT_EQ(info.local_slots, 6u);
  EXPECT_EQ(info.max_stack_values, 3u);
  EXPECT_EQ(info.max_stack_slots, 5u);  // the block's result and two vectors
  EXPECT_EQ(info.max_nesting, 2u);
  EXPECT_FALSE(info.has_calls);
  EXPECT_TRUE(info.uses_simd);
}

TEST(ValidationInfo, CountsVectorsThatABranchDrops) {
  const FunctionInfo info = info_of(
      "(module (func (param v128) (local.get 0) (local.get 0) (return) (drop) (i32.const 1) (drop)))");
  EXPECT_EQ(info.max_stack_values, 2u);
  EXPECT_EQ(info.max_stack_slots, 4u);
}

TEST(ValidationInfo, TellsOfCallsAndVectors) {
  EXPECT_TRUE(info_of("(module (func (call 0)))").has_calls);
  EXPECT_TRUE(info_of("(module (table 1 funcref) (func (call_indirect (i32.const 0))))").has_calls);
  const auto plain = validate(parse("(module (import \"a\" \"b\" (func)) (func (call 0)) (func))"));
  ASSERT_TRUE(plain.has_value());
  EXPECT_FALSE(plain->uses_simd);
  ASSERT_EQ(plain->functions.size(), 2u);
  EXPECT_TRUE(plain->functions[0].has_calls);
  EXPECT_FALSE(plain->functions[1].has_calls);
  EXPECT_TRUE(validate(parse("(module (func (drop (v128.const i32x4 0 0 0 0))))"))->uses_simd);
  EXPECT_TRUE(validate(parse("(module (global v128 (v128.const i32x4 0 0 0 0)))"))->uses_simd);
  EXPECT_TRUE(validate(parse("(module (import \"a\" \"b\" (func (param v128))))"))->uses_simd);
}

TEST(Validator, FunctionsWithoutANameAreNumberedInOneWay) {
  const std::string_view text = "(module (func) (func (export \"f\") (i32.add)))";
  const Module module = parse(text);
  const auto bad = Validator(module, text).validate_function(1);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().function, "#1 (export \"f\")");
  const Module starts = parse("(module (func (param i32)) (start 0))");
  const auto refused = validate(starts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "the start function #0 takes or returns values");
}

TEST(Validator, ValidatesFunctionByFunction) {
  const std::string_view text = "(module (func $good (result i32) (i32.const 1)) (func $bad (i32.const 1)))";
  const Module module = parse(text);
  Validator validator(module, text);
  ASSERT_TRUE(validator.validate_declarations().has_value());
  const auto bad = validator.validate_function(1);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().function, "$bad");
  const auto good = validator.validate_function(0);  // a failure leaves the validator usable
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(good->max_stack_values, 1u);
}

TEST(PlaceOf, IsALineInTextAndAnOffsetWithout) {
  const std::string_view text = "(module (func\n  nop\n  nop))";
  const Module module = parse(text);
  const uint32_t second = module.functions[0].code.offset + 1;
  EXPECT_EQ(place_of(module, second, text).line, 3u);
  EXPECT_EQ(place_of(module, second, text).column, 3u);
  EXPECT_EQ(place_of(module, second, ""), (Place{second, 0, 0, 0}));
}

// -- work that its owner can stop: how often it is asked is in proportion to the work

std::string repeated(size_t count, std::string_view unit) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += unit;
  return text;
}
// Types $t0 to $t62, each the supertype of the next, and $wide, a hundred references to $t0.
std::string chain_of_subtypes() {
  std::string text = "(type $t0 (sub (struct)))";
  for (int i = 1; i < 63; ++i)
    text += "(type $t" + std::to_string(i) + " (sub $t" + std::to_string(i - 1) + " (struct)))";
  return text + "(type $wide (func (result" + repeated(100, " (ref null $t0)") + ")))";
}
uint32_t times_asked(std::string_view text) {
  const Module module = parse(text);
  uint32_t asked = 0;
  const StopScope scope([&] {
    ++asked;
    return false;
  });
  static_cast<void>(validate(module));
  return asked;
}

TEST(ValidationStops, InTheClausesOfATryTable) {
  EXPECT_GT(times_asked("(module " + chain_of_subtypes() + "(tag (param" + repeated(100, " (ref null $t62)") +
                        ")) (func (block (type $wide) (try_table" + repeated(1000, " (catch 0 0)") +
                        ") unreachable) unreachable))"),
            300u);
}
TEST(ValidationStops, InTheLabelsOfABranchTable) {
  std::string labels;
  for (int i = 0; i < 300; ++i) labels += " " + std::to_string(i);
  EXPECT_GT(times_asked("(module " + chain_of_subtypes() + "(func" + repeated(300, "(block (type $wide)") +
                        repeated(100, "(ref.null $t62)") + "(i32.const 0) br_table" + labels +
                        repeated(300, ")") + " unreachable))"),
            100u);
}
TEST(ValidationStops, InTheFormsOfBodiesAfterOneThatIsInvalid) {
  EXPECT_GT(times_asked("(module (func drop)" + repeated(8, "(func" + repeated(65536, " nop") + ")") + ")"),
            8u);
}
TEST(ValidationStops, InTheSupertypesOfTypes) {
  const std::string params = "(func (param" + repeated(500, " (ref null $t0)") + "))))";
  std::string types = "(type $f0 (sub " + params;
  for (int i = 1; i < 200; ++i) types += "(type (sub $f0 " + params;
  EXPECT_GT(times_asked("(module " + chain_of_subtypes() + types + ")"), 100u);
}

}  // namespace
}  // namespace membrane::wasm
