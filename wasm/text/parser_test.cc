#include "wasm/text/parser.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "wasm/binary.h"
#include "wasm/body.h"
#include "wasm/text/lexer.h"

namespace membrane::wasm {
namespace {

Module parse(std::string_view text) {
  auto module = parse_text(text);
  if (module) return std::move(*module);
  ADD_FAILURE() << render(module.error()[0], text, "test.wat");
  return {};
}

// The code of the last function, without its `end`, in hex.
std::string code(std::string_view text) {
  const Module module = parse(text);
  if (module.functions.empty()) return "no function";
  const auto bytes = module.view(module.functions.back().code);
  return hex_of(bytes.first(bytes.size() - 1));
}

// Hex digits, in which spaces are for the reader.
std::string hex(std::string_view digits) {
  std::string out(digits);
  std::erase(out, ' ');
  return out;
}

bool same(std::string_view a, std::string_view b) { return encode(parse(a)) == encode(parse(b)); }

TEST(TextParser, FoldedAndFlatInstructionsAreTheSame) {
  EXPECT_EQ(code("(func (result i32) (i32.add (i32.const 2) (i32.const 2)))"), hex("410241026a"));
  EXPECT_EQ(code("(func (result i32) i32.const 2 i32.const 2 i32.add)"), hex("410241026a"));
  EXPECT_EQ(code("(func (param i32) (if (local.get 0) (then nop) (else unreachable)))"),
            hex("2000 0440 01 05 00 0b"));
  EXPECT_EQ(code("(func (param i32) local.get 0 if nop else unreachable end)"), hex("200004400105000b"));
  EXPECT_EQ(code("(func (block (result i32) (loop (br 1 (i32.const 7)))) drop)"),
            code("(func block (result i32) loop i32.const 7 br 1 end end drop)"));
  EXPECT_EQ(code("(func i32.const 1 (drop))"), hex("41011a"));
}

TEST(TextParser, LabelsCountFromTheInside) {
  EXPECT_EQ(code("(func (block $a (block $b (br $a) (br $b) (br 2))))"), hex("02400240 0c01 0c00 0c02 0b0b"));
  EXPECT_EQ(code("(func (block $a (block $a (br $a))))"), hex("02400240 0c00 0b0b"));
  EXPECT_EQ(code("(func block $a i32.const 0 br_table $a 1 $a end $a)"), hex("0240 4100 0e02000100 0b"));
  // The condition of a folded if is outside of its label.
  EXPECT_EQ(code("(func (block $a (if $a (br $a (i32.const 1)) (then (br $a)) (else (br $a)))))"),
            hex("0240 4101 0c00 0440 0c00 05 0c00 0b0b"));
}

TEST(TextParser, ClausesCountLabelsFromOutsideOfTheirTryTable) {
  const std::string wanted = hex("0240 1f40 04 00 00 00 01 00 01 02 00 03 01 0c01 0c00 0b 0b");
  EXPECT_EQ(code("(tag $e) (func (block $a (try_table $b (catch $e $a) (catch_ref $e 1) (catch_all $a)"
                 " (catch_all_ref 1) (br $a) (br $b))))"),
            wanted);
  EXPECT_EQ(code("(tag $e) (func block $a try_table $b (catch $e $a) (catch_ref 0 1) (catch_all 0)"
                 " (catch_all_ref 1) br $a br $b end $b end)"),
            wanted);
  // Its own label hides an outer one of the same name only inside.
  EXPECT_EQ(code("(func (block $a (try_table $a (catch_all $a) (br $a))))"),
            hex("0240 1f40 01 02 00 0c00 0b0b"));
  EXPECT_EQ(code("(tag $e (param i32)) (func (throw $e (i32.const 1)) (throw_ref (ref.null exn)))"),
            hex("4101 0800 d069 0a"));
}

TEST(TextParser, LabelsAreFoundAmongManyAndInnerOnesHideOuterOnes) {
  constexpr int kBlocks = 100;  // more than are scanned
  std::string by_name = "(func ", by_depth = "(func ";
  for (int i = 0; i < kBlocks; ++i) {  // $l0 … $l49, then the same names again
    by_name += "block $l" + std::to_string(i % 50) + " ";
    by_depth += "block ";
    for (int l = 0; l < 50; ++l) {
      const int target = l <= i % 50 ? i / 50 * 50 + l : (i / 50 - 1) * 50 + l;
      if (target < 0) continue;
      by_name += "br $l" + std::to_string(l) + " ";
      by_depth += "br " + std::to_string(i - target) + " ";
    }
  }
  for (int i = kBlocks; i-- > 0;) {
    by_name += "br $l" + std::to_string(i % 50) + " end ";
    by_depth += "br 0 end ";
  }
  EXPECT_EQ(code(by_name + ")"), code(by_depth + ")"));
  EXPECT_FALSE(parse_text(by_name + "br $l0)").has_value());
}

TEST(TextParser, NamesMayBeUsedBeforeTheyAreDefined) {
  EXPECT_TRUE(
      same(R"((func (call $g) (drop (global.get $x)) (drop (table.size $t)) (data.drop $d) (elem.drop $e))
                       (func $g) (global $x i32 (i32.const 0)) (table $t 1 funcref) (data $d "") (elem $e func $g)
                       (memory 1))",
           R"((func (call 1) (drop (global.get 0)) (drop (table.size 0)) (data.drop 0) (elem.drop 0))
                       (func $g) (global $x i32 (i32.const 0)) (table $t 1 funcref) (data $d "") (elem $e func 1)
                       (memory 1))"));
}

TEST(TextParser, InlineTypesAreAppendedInOrderOfTheText) {
  const Module m = parse(R"((func $a (result f64) (f64.const 0))
                            (func $b (param i32) (block (param i64) (result f32 f32) unreachable) drop drop)
                            (type (func (param i32)))
                            (func $c (param f32))
                            (func $d (result f64) (f64.const 1)))");
  ASSERT_EQ(m.types.size(), 4u);
  EXPECT_EQ(m.types[0], (FuncType{{ValType::kI32}, {}}));
  EXPECT_EQ(m.types[1], (FuncType{{}, {ValType::kF64}}));
  EXPECT_EQ(m.types[2], (FuncType{{ValType::kI64}, {ValType::kF32, ValType::kF32}}));
  EXPECT_EQ(m.types[3], (FuncType{{ValType::kF32}, {}}));
  EXPECT_EQ(m.functions[3].type, 1u);
}

TEST(TextParser, AbbreviationsExpand) {
  EXPECT_TRUE(
      same(R"((func (import "m" "f") (param i32)) (table (export "t") (import "m" "t") 1 funcref)
                      (memory (import "m" "m") 1 2) (global (import "m" "g") (mut i32)))",
           R"((import "m" "f" (func (param i32))) (export "t" (table 0)) (import "m" "t" (table 1 funcref))
                      (import "m" "m" (memory 1 2)) (import "m" "g" (global (mut i32))))"));
  EXPECT_TRUE(same(R"((func $f) (table funcref (elem $f 0)))",
                   R"((func $f) (table 2 2 funcref) (elem (table 0) (offset (i32.const 0)) func 0 0))"));
  EXPECT_TRUE(same(R"((memory (data "ab" "c")))", R"((memory 1 1) (data (offset i32.const 0) "abc"))"));
  EXPECT_TRUE(same(R"((table 1 funcref) (func $f) (elem (i32.const 0) $f))",
                   R"((table 1 funcref) (func $f) (elem (table 0) (offset (i32.const 0)) func $f))"));
  EXPECT_TRUE(same("(func (param i32 i64) (local i32) (local i32 f32))",
                   "(func (param i32) (param i64) (local i32 i32 f32))"));
  EXPECT_TRUE(
      same(R"((func (export "a") (export "b")))", R"((export "a" (func 0)) (export "b" (func 0)) (func))"));
  EXPECT_TRUE(same("(module (func))", "(func)"));
  EXPECT_TRUE(same("(module)", ""));
}

TEST(TextParser, ImmediatesAreEncodedAsTheBinaryHasThem) {
  EXPECT_EQ(code("(memory 1) (func (i32.load8_u offset=300 (i32.const 0)) drop)"), hex("4100 2d00ac02 1a"));
  EXPECT_EQ(code("(memory 1) (memory $m 1) (func (i32.load8_u $m offset=300 (i32.const 0)) drop)"),
            hex("4100 2d4001ac02 1a"));
  EXPECT_EQ(code("(memory 1) (memory $m 1) (func (memory.size 1) (memory.grow $m) drop)"),
            hex("3f01 4001 1a"));
  EXPECT_EQ(code("(memory 1) (memory 1) (data \"\") (func (memory.copy 0 1 (i32.const 0) (i32.const 0) "
                 "(i32.const 0))"
                 " (memory.init 1 0 (i32.const 0) (i32.const 0) (i32.const 0)))"),
            hex("4100 4100 4100 fc0a0001 4100 4100 4100 fc080001"));
  EXPECT_EQ(
      code("(memory 1) (memory 1) (func (v128.load8_lane 1 3 (i32.const 0) (v128.const i64x2 0 0)) drop)"),
      hex("4100 fd0c00000000000000000000000000000000 fd544001"
          "0003 1a"));
  EXPECT_EQ(code("(memory 1) (func (i64.load align=1 (i32.const 0)) drop)"), hex("4100 290000 1a"));
  EXPECT_EQ(code("(func (drop (i32.const 0xFFFFFFFF)) (drop (i64.const -0x80)))"), hex("417f1a 42807f1a"));
  EXPECT_EQ(code("(func (drop (f32.const nan:0x200000)) (drop (f64.const -inf)))"),
            hex("430000a07f1a 44000000000000f0ff1a"));
  EXPECT_EQ(code("(func (drop (v128.const i16x8 1 -1 0 0 0 0 0 0x8000)))"),
            hex("fd0c 0100ffff000000000000000000000080 1a"));
  EXPECT_EQ(code("(func (drop (f64x2.abs (v128.const i64x2 0 0))))").substr(36), hex("fdec01 1a"));
  EXPECT_EQ(code("(table $t 1 funcref) (table $u 1 funcref) (func (table.copy $u $t (i32.const 0) (i32.const "
                 "0) (i32.const 0)))")
                .substr(12),
            hex("fc0e0100"));
  EXPECT_EQ(code("(table $t 1 funcref) (table $u 1 funcref) (elem $e func) (func (table.init $u $e "
                 "(i32.const 0) (i32.const 0) (i32.const 0)))")
                .substr(12),
            hex("fc0c0001"));
  EXPECT_EQ(code("(table 1 funcref) (func (call_indirect (param i32) (i32.const 1) (i32.const 0)))"),
            hex("41014100 110100"));
  EXPECT_EQ(code("(func unreachable select (result i64) drop)"), hex("00 1c017e 1a"));
}

TEST(TextParser, KeepsNamesAndPlaces) {
  constexpr std::string_view kText =
      "(module $m\n  (func $f (param $p i32) (local $l f32)\n    block $b\n      local.get $p\n      drop\n  "
      "  end))";
  const Module m = parse(kText);
  EXPECT_EQ(m.names.module, "m");
  EXPECT_EQ(m.names.function(0), "f");
  EXPECT_EQ(m.names.local(0, 0), "p");
  EXPECT_EQ(m.names.local(0, 1), "l");
  ASSERT_EQ(m.names.labels.size(), 1u);
  EXPECT_EQ(m.names.labels[0].name, "b");
  BodyReader reader(m.view(m.functions[0].code));
  std::vector<std::string> texts;
  while (reader.next()) {
    const SourcePoint* point = m.source_of(m.functions[0].code.offset + reader.instruction().offset);
    ASSERT_NE(point, nullptr);
    texts.emplace_back(kText.substr(point->text_offset, point->text_end - point->text_offset));
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"block $b", "local.get $p", "drop", "end", ")"}));
}

TEST(TextParser, SourcePlacesFollowTheOrderOfExecutionInFoldedCode) {
  const Module m = parse("(func (result i32) (i32.add (i32.const 1) (i32.mul (i32.const 2) (i32.const 3))))");
  ASSERT_EQ(m.source_map.size(), 6u);
  for (size_t i = 1; i < m.source_map.size(); ++i)
    EXPECT_LT(m.source_map[i - 1].code_offset, m.source_map[i].code_offset);
  EXPECT_EQ(m.source_map[4].text_offset, 20u);  // i32.add comes last
}

TEST(TextParser, DeepNestingIsRefusedAndNeverOverflows) {
  const auto nested = [](size_t depth, std::string_view open, std::string_view inner,
                         std::string_view close) {
    std::string text = "(func ";
    for (size_t i = 0; i < depth; ++i) text += open;
    text += inner;
    for (size_t i = 0; i < depth; ++i) text += close;
    return text + ")";
  };
  EXPECT_TRUE(parse_text(nested(9'000, "(block ", "", ")")).has_value());
  EXPECT_TRUE(parse_text(nested(9'000, "(drop ", "(i32.const 0)", ")")).has_value());
  for (const auto& text : {nested(100'000, "(block ", "", ")"), nested(100'000, "block ", "", "end "),
                           nested(100'000, "(i32.eqz ", "(i32.const 0)", ")")}) {
    const auto module = parse_text(text);
    ASSERT_FALSE(module.has_value());
    EXPECT_EQ(module.error()[0].code, DiagnosticCode::kNestingTooDeep);
  }
  EXPECT_FALSE(parse_text(std::string(1'000'000, '(')).has_value());
}

// -- findings: what the author sees -------------------------------------------------------------

struct Finding {
  DiagnosticCode code;
  std::string_view text;
  std::string_view at;       // what the place covers
  std::string_view message;  // a part of it
  std::string_view hint;     // a part of it
};

// A test's name would otherwise be the bytes of the finding, which change with each build.
void PrintTo(const Finding& f, std::ostream* out) { *out << name_of(f.code); }

class TextFindings : public ::testing::TestWithParam<Finding> {};

TEST_P(TextFindings, SaysWhatIsWrongWhereAndHowToMendIt) {
  const Finding& f = GetParam();
  const auto module = parse_text(f.text);
  ASSERT_FALSE(module.has_value()) << f.text;
  const Diagnostic& d = module.error()[0];
  const std::string shown = render(d, f.text, "test.wat");
  EXPECT_EQ(name_of(d.code), name_of(f.code)) << shown;
  EXPECT_EQ(f.text.substr(d.place.offset, d.place.end_offset - d.place.offset), f.at) << shown;
  EXPECT_NE(d.message.find(f.message), std::string::npos) << shown;
  EXPECT_NE(hint_of(d).find(f.hint), std::string_view::npos) << shown;
  EXPECT_FALSE(hint_of(d).empty());
}

using enum DiagnosticCode;
const Finding kFindings[] = {
    {kBadStringEscape, R"((data "a\q"))", R"(\q)", "escape", R"(\\)"},
    {kExtraParenthesis, "(func))", ")", "closes nothing", "too early"},
    {kInvalidCharacter, "(func \x01)", "\x01", "not allowed here", "Remove"},
    {kInvalidUtf8, ";; \xFF\n(func)", "\xFF", "not UTF-8", "UTF-8"},
    {kUnclosedParenthesis, "(module (func (nop)", "(", "never closed", "Count"},
    {kUnterminatedAnnotation, "(@a (func)", "(", "annotation", ")"},
    {kUnterminatedComment, "(func) (; x", "(;", "never closed", ";)"},
    {kUnterminatedString, "(data \"abc", "\"abc", "no closing quote", "\""},
    {kBareOperand, "(func (param $x i32) (i32.add $x (i32.const 1)))", "$x", "where an operand",
     "(local.get $x)"},
    {kBareOperand, "(func (i32.add 1 2))", "1", "where an operand", "(i32.const 1)"},
    {kBareOperand, "(global $g i32 (i32.const 0)) (func (drop $g))", "$g", "where an operand",
     "(global.get $g)"},
    {kBareOperand, "(func (drop i32.const 1))", "i32.const", "where an operand", "parentheses"},
    {kDuplicateName, "(func $f) (func $f)", "$f", "a second function is called $f", "Rename"},
    {kDuplicateName, "(func (param $x i32) (local $x i32))", "$x", "a second local", "Rename"},
    {kDuplicateStart, "(func) (start 0) (start 0)", "start", "starts once", "Keep one"},
    {kImportAfterDefinition, "(func)\n(import \"a\" \"b\" (func))", "import", "after the func in line 1",
     "top"},
    {kImportAfterDefinition, "(memory 1)\n(func (import \"a\" \"b\"))", "func", "after the memory", "top"},
    {kInlineTypeMismatch, "(type $t (func (param i32))) (func (type $t) (param i64))", "(",
     "differs from type $t", "Remove"},
    {kLabelMismatch, "(func block $a end $b)", "$b", "not that of its block", "Repeat"},
    {kLabelMismatch, "(func block end $b)", "$b", "has no label", "Repeat"},
    {kMalformedAlignment, "(memory 1) (func (drop (i32.load align=3 (i32.const 0))))", "align=3",
     "power of two", "align=1"},
    {kMalformedNumber, "(func (drop (i32.const 1.5)))", "1.5", "not a literal of i32", "Integers"},
    {kMalformedNumber, "(func (param $x i32) (drop (i32.const $x)))", "$x", "not a number", "(local.get $x)"},
    {kMalformedToken, "(func (drop (i32.const 0))0drop)", "0drop", "does not fit", "space"},
    {kMalformedUtf8, "(func (export \"\\ff\"))", "\"\\ff\"", "not UTF-8", "\\u{e9}"},
    {kMisplacedDeclaration, "(func (nop) (local $x i32))", "local", "after an instruction",
     "top of the function"},
    {kMisplacedDeclaration, "(func (result i32) (param i32) (i32.const 0))", "param", "too late",
     "The order is"},
    {kMisplacedDeclaration, "(module (func $a (nop) (func $b)))", "func", "among instructions",
     "missing above"},
    {kMissingOperand, "(func (local.get))", "local.get", "lacks an immediate", "after"},
    {kMissingOperand, "(func (drop (i32.const)))", "i32.const", "lacks an immediate", "after"},
    {kMissingThen, "(func (if (i32.const 1)))", "if", "no (then", "(then …)"},
    {kNumberOutOfRange, "(func (drop (i32.const 4294967296)))", "4294967296", "out of range for i32",
     "smaller"},
    {kNumberOutOfRange, "(func (drop (f32.const 1e99)))", "1e99", "out of range for f32", "wider"},
    {kNumberOutOfRange, "(func (drop (v128.const i8x16 256 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0)))", "256", "for i8",
     "smaller"},
    {kNumberOutOfRange, "(memory 99999999999999999999)", "99999999999999999999", "out of range for u64",
     "smaller"},
    {kStrayElse, "(func (else (nop)))", "else", "belongs to no `if`", "(then …)"},
    {kStrayElse, "(func block else end)", "else", "belongs to no `if`", "else"},
    {kStrayEnd, "(func nop end)", "end", "closes no block", "Remove"},
    {kStrayEnd, "(func (block nop end))", "end", "closes no block", "without `end`"},
    {kUnclosedBlock, "(func block nop)", ")", "the `block` in line 1 has no `end`", "`end`"},
    {kUnexpectedToken, "(func) nop", "nop", "does not fit", "grammar"},
    {kUnexpectedToken, "(module binary \"\")", "binary", "test scripts", "grammar"},
    {kUnexpectedToken, "(export main (func 0))", "main", "does not fit", "grammar"},
    {kUnknownData, "(memory 1) (data $abc \"\") (func (data.drop $abd))", "$abd",
     "no data segment is called $abd", "$abc"},
    {kUnknownElement, "(elem $abc func) (func (elem.drop $abd))", "$abd", "no element segment", "$abc"},
    {kUnknownField, "(fnuc)", "fnuc", "not a module field", "Did you mean func?"},
    {kUnknownField, "(func) (i32.add)", "i32.add", "not a module field", "closed too early"},
    {kUnknownFunction, "(func $print) (func (call $pritn))", "$pritn", "no function is called $pritn",
     "Did you mean $print?"},
    {kUnknownGlobal, "(func (local $x i32) (drop (global.get $x)))", "$x", "no global", "$x is a local"},
    {kUnknownInstruction, "(func (i32.ad (i32.const 1)))", "i32.ad", "not an instruction",
     "Did you mean i32.add?"},
    {kUnknownInstruction, "(func (drop (i32.atomic.load (i32.const 0))))", "i32.atomic.load",
     "threads proposal", "without atomic"},
    {kUnknownInstruction, "(func get_local 0 drop)", "get_local", "not an instruction",
     "Did you mean local.get?"},
    {kUnknownInstruction, "(func (f32.convert_u/i64 (nop)))", "f32.convert_u/i64", "not an",
     "f32.convert_i64_u"},
    {kUnknownLabel, "(func (block $out (br $ot)))", "$ot", "no block around this is labelled $ot", "$out"},
    {kUnknownLocal, "(func (param $count i32) (drop (local.get $cuont)))", "$cuont", "no local",
     "Did you mean $count?"},
    {kUnknownLocal, "(global $g i32 (i32.const 0)) (func (drop (local.get $g)))", "$g", "no local",
     "$g is a global"},
    {kUnknownMemory, "(data (memory $m) (i32.const 0) \"\")", "$m", "no memory", "memory"},
    {kUnknownTable, "(table $tab 1 funcref) (func (drop (table.size $tap)))", "$tap", "no table",
     "Did you mean $tab?"},
    {kUnknownType, "(func (type $t))", "$t", "no type", "type"},
    {kUnknownType, "(func (type 0) (param i32))", "0", "there is no type 0", "type"},
    {kUnknownType, "(func (type 1)) (func) (func (param i32))", "1", "further down", "(type $name"},
    {kUnknownValueType, "(func (param int))", "int", "not a value type", "i32"},
    {kUnknownValueType, "(func (param i23))", "i23", "not a value type", "Did you mean"},
};

INSTANTIATE_TEST_SUITE_P(All, TextFindings, ::testing::ValuesIn(kFindings), [](const auto& finding) {
  std::string name(name_of(finding.param.code));
  std::erase(name, '-');
  return name + "_" + std::to_string(finding.index);
});

TEST(TextFindings, TooLargeATextIsRefused) {
  const std::string text(kMaxTextBytes + 1, ' ');
  const auto module = parse_text(text);
  ASSERT_FALSE(module.has_value());
  EXPECT_EQ(module.error()[0].code, kTextTooLarge);
}

TEST(TextFindings, TooManyLocalsAreRefused) {
  std::string text = "(func (local";
  for (int i = 0; i < 50'001; ++i) text += " i32";
  const auto module = parse_text(text + "))");
  ASSERT_FALSE(module.has_value());
  EXPECT_EQ(module.error()[0].code, kImplementationLimit);
}

TEST(TextFindings, SeveralAreFoundAtOnceInTheOrderOfTheText) {
  constexpr std::string_view kText = R"((module
    (func $f (param $x i32)
      (drop (local.get $y))
      (frobnicate)
      (call $g))
    (func $f (br $out))
    (memroy 1)))";
  const auto module = parse_text(kText);
  ASSERT_FALSE(module.has_value());
  std::vector<DiagnosticCode> codes;
  for (const auto& d : module.error()) codes.push_back(d.code);
  EXPECT_EQ(codes, (std::vector{kUnknownLocal, kUnknownInstruction, kUnknownFunction, kDuplicateName,
                                kUnknownLabel, kUnknownField}));
  EXPECT_EQ(module.error()[0].function, "$f");
  EXPECT_EQ(module.error()[0].place.line, 3u);
}

TEST(TextFindings, StayShortWhateverTheTextSays) {
  const std::string word(1'000'000, 'a');
  for (const std::string& text :
       {"(func (" + word + "))", "(func (local.get $" + word + "))", "(" + word + ")",
        "(func br $" + word + ")", "(func (param " + word + "))", "(func (i32.const " + word + "))",
        "(func (i32.const 0" + word + "))", "(func (i32.eqz $" + word + "))",
        "(func $" + word + "x) (func (call $" + word + "y))"}) {
    const auto module = parse_text(text);
    ASSERT_FALSE(module.has_value());
    const Diagnostic& d = module.error()[0];
    EXPECT_LT(d.message.size() + d.found.size() + d.expected.size() + d.hint.size(), 1000u)
        << d.message.substr(0, 200);
  }
}

TEST(TextFindings, AreNotMoreThanTwenty) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "(func (drop (local.get $x)))\n";
  const auto module = parse_text(text);
  ASSERT_FALSE(module.has_value());
  EXPECT_EQ(module.error().size(), kMaxParseErrors);
}

}  // namespace
}  // namespace membrane::wasm
