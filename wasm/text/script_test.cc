#include "wasm/text/script.h"

#include <gtest/gtest.h>

#include <bit>

#include "wasm/text/parser.h"

namespace membrane::wasm {
namespace {

std::vector<Command> script(std::string_view text) {
  auto commands = parse_script(text);
  if (commands) return std::move(*commands);
  ADD_FAILURE() << render(commands.error(), text, "test.wast");
  return {};
}

TEST(Script, ReadsEachKindOfCommandWithItsLine) {
  using enum Command::Kind;
  const auto commands = script(R"((module $m (func))
(register "name" $m)
(invoke $m "f" (i32.const -1))
(assert_return (get $m "g") (i32.const 1))
(assert_trap (invoke "f") "unreachable")
(assert_trap (module (func $s unreachable) (start $s)) "unreachable")

(assert_exhaustion (invoke "f") "call stack exhausted")
(assert_invalid (module (func (result i32))) "type mismatch")
(assert_malformed (module quote "(func") "unexpected")
(assert_unlinkable (module (import "a" "b" (func))) "unknown import"))");
  const std::vector<std::pair<Command::Kind, uint32_t>> expected = {
      {kModule, 1},           {kRegister, 2},         {kAction, 3},           {kAssertReturn, 4},
      {kAssertTrap, 5},       {kAssertTrapModule, 6}, {kAssertExhaustion, 8}, {kAssertInvalid, 9},
      {kAssertMalformed, 10}, {kAssertUnlinkable, 11}};
  ASSERT_EQ(commands.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(commands[i].kind, expected[i].first) << i;
    EXPECT_EQ(commands[i].line, expected[i].second) << i;
  }
  EXPECT_EQ(commands[0].module.name, "m");
  EXPECT_EQ(commands[0].module.source(), "(module $m (func))");
  EXPECT_EQ(commands[1].name, "name");
  EXPECT_EQ(commands[1].module_name, "m");
  EXPECT_EQ(commands[2].action.module, "m");
  EXPECT_EQ(commands[2].action.arguments[0].bits, 0xFFFFFFFFu);
  EXPECT_EQ(commands[3].action.kind, Action::Kind::kGet);
  EXPECT_EQ(commands[4].message, "unreachable");
}

TEST(Script, KeepsModulesAsTheyAreWritten) {
  const auto commands = script(R"wast((module $b binary "\00asm" "\01\00\00\00")
(module quote "(func" ")")
(func $a) (memory 1)
(assert_return (invoke "f")))wast");
  ASSERT_EQ(commands.size(), 4u);
  EXPECT_EQ(commands[0].module.kind, ScriptModule::Kind::kBinary);
  EXPECT_EQ(commands[0].module.source(), std::string_view("\0asm\1\0\0\0", 8));
  EXPECT_EQ(commands[1].module.kind, ScriptModule::Kind::kQuote);
  EXPECT_TRUE(parse_text(commands[1].module.source()).has_value());
  EXPECT_EQ(commands[2].module.source(), "(func $a) (memory 1)");
}

ResultPattern result(std::string_view pattern) {
  const std::string text = "(assert_return (invoke \"f\") " + std::string(pattern) + ")";
  const auto commands = script(text);
  if (commands.size() == 1 && commands[0].results.size() == 1) return commands[0].results[0];
  ADD_FAILURE() << pattern;
  return {};
}

TEST(Script, MatchesNumbersByTheirBits) {
  EXPECT_TRUE(matches(result("(i32.const -1)"), 0xFFFFFFFFu, 0));
  EXPECT_TRUE(matches(result("(i32.const -1)"), ~uint64_t{0}, 0));
  EXPECT_FALSE(matches(result("(i64.const -1)"), 0xFFFFFFFFu, 0));
  EXPECT_FALSE(matches(result("(f64.const 0)"), std::bit_cast<uint64_t>(-0.0), 0));
  EXPECT_TRUE(matches(result("(f32.const nan:0x1)"), 0x7F800001u, 0));
}

TEST(Script, TellsCanonicalFromArithmeticNans) {
  const auto canonical = result("(f32.const nan:canonical)");
  EXPECT_TRUE(matches(canonical, 0x7FC00000u, 0));
  EXPECT_TRUE(matches(canonical, 0xFFC00000u, 0));
  EXPECT_FALSE(matches(canonical, 0x7FC00001u, 0));
  const auto arithmetic = result("(f64.const nan:arithmetic)");
  EXPECT_TRUE(matches(arithmetic, 0xFFF8000000000001u, 0));
  EXPECT_FALSE(matches(arithmetic, 0x7FF0000000000001u, 0));
  EXPECT_FALSE(matches(arithmetic, 0x7FF0000000000000u, 0));
}

TEST(Script, MatchesVectorsByLane) {
  const auto lanes = result("(v128.const f32x4 1 nan:canonical nan:arithmetic -0)");
  const uint64_t low = 0x7FC00000'3F800000u;
  EXPECT_TRUE(matches(lanes, low, 0x80000000'7FC12345u));
  EXPECT_FALSE(matches(lanes, low, 0x00000000'7FC12345u));
  EXPECT_FALSE(matches(lanes, 0x7FC00001'3F800000u, 0x80000000'7FC12345u));
  const auto bytes = result("(v128.const i8x16 1 2 3 4 5 6 7 8 -1 10 11 12 13 14 15 16)");
  EXPECT_TRUE(matches(bytes, 0x0807060504030201u, 0x100F0E0D0C0B0AFFu));
}

TEST(Script, ReadsReferences) {
  EXPECT_TRUE(result("(ref.null extern)").value.is_null);
  EXPECT_EQ(result("(ref.null func)").value.type, ValType::kFuncRef);
  EXPECT_EQ(result("(ref.extern 7)").value.bits, 7u);
  EXPECT_TRUE(result("(ref.func)").any_reference);
}

TEST(Script, SaysWhereItCannotGoOn) {
  for (const std::string_view text :
       {"(assert_foo)", "(assert_return (invoke f))", "(module quote nop)",
        "(invoke \"f\" (i32.const nan:canonical))", "(invoke \"f\" (f32.const nan:canonical))",
        "(assert_return (invoke \"f\") (i32.const 1.5))", "nop",
        "(assert_return (invoke \"f\") (v128.const i7x3 1))", "(register \"a\" 1)",
        "(assert_invalid (func) \"\")"}) {
    const auto commands = parse_script(text);
    ASSERT_FALSE(commands.has_value()) << text;
    EXPECT_EQ(commands.error().code, DiagnosticCode::kUnexpectedToken) << text;
    EXPECT_FALSE(commands.error().expected.empty()) << text;
  }
}

}  // namespace
}  // namespace membrane::wasm
