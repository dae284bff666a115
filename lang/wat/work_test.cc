// The preprocessor's work is proportional to the text: the tests count the sizes of its results, and measure no
// time.
#include <gtest/gtest.h>

#include <string>

#include "base/findings.h"
#include "base/stop_scope.h"
#include "lang/language.h"
#include "lang/wat/expansion.h"
#include "lang/wat/preprocessor.h"
#include "wasm/validate.h"

namespace membrane::lang {
namespace {

std::string repeated(size_t count, std::string_view unit) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += unit;
  return text;
}

std::vector<Diagnostic> findings_of(std::string_view source) {
  const auto loaded = load_program(source);
  return loaded ? std::vector<Diagnostic>() : loaded.error();
}

TEST(Work, FindingsAreBoundedInNumberAndText) {
  const std::string name(200'000, 'n');
  const auto findings = findings_of("(module (func $" + name + repeated(50, "(call $" + name + "x)") + "))");
  ASSERT_FALSE(findings.empty());
  EXPECT_LE(findings.size(), kMaxFindings);
  size_t bytes = 0;
  for (const Diagnostic& d : findings)
    bytes += d.message.size() + d.found.size() + d.expected.size() + d.hint.size() + d.function.size();
  EXPECT_LE(bytes, kMaxFindings * 5 * kMaxFindingTextBytes);
}

TEST(Work, AnExpansionIsBounded) {
  // Each call becomes two lists of a thousand types: without a limit, 600 MB.
  const std::string type = "(type $t (func (param i32) (result" + repeated(999, " i64") + " i32)))";
  const auto findings = findings_of("(module " + type + "(func $f (type $t) unreachable)(func (set $x 1)" +
                                    repeated(60'000, "(call $f! 1)") + "))");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].code, DiagnosticCode::kTextTooLarge);
  EXPECT_NE(findings[0].message.find("expand"), std::string::npos);
}

TEST(Work, AConcatenationIsBounded) {
  const auto findings = findings_of("(module (func (drop (concat" + repeated(100'000, " \"\"") + "))))");
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].code,
            DiagnosticCode::kNestingTooDeep);  // each part is a call around the previous ones
}

TEST(Work, FunctionsOfOneTypeShareIt) {
  // A copy for each would take 4 KB each.
  const auto loaded = load_program("(module (type (func (param" + repeated(1000, " i32") + ")))" +
                                   repeated(20'000, "(func (type 0))") + "(func (set $x 1)))");
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->module.functions.size(), 20'001u);
}

TEST(Work, LabelsOfLoopsAreFreeWhateverTheTextHas) {
  const auto expanded =
      expand("(func (local $while.1__ i32) (local $\"for.7___\" i32) (while 0 (break)))", host_functions());
  ASSERT_TRUE(expanded);
  EXPECT_NE(expanded->text.find("(loop $while.1____ "), std::string::npos) << expanded->text;
  EXPECT_NE(expanded->text.find("(block $while.1.break____ "), std::string::npos) << expanded->text;
}

TEST(Work, ANameThatIsMadeUpIsFree) {
  const auto expanded =
      expand("(func (local $membrane.errno f32) (local $membrane.errno__ f32) (drop (call $kv.get! \"a\")))",
             host_functions());
  ASSERT_TRUE(expanded);
  ASSERT_TRUE(expanded->changed);
  EXPECT_NE(expanded->text.find("(local $membrane.errno___ i32)"), std::string::npos) << expanded->text;
}

TEST(Work, ABareValueHasTheTypeOfTheResultThatItBecomes) {
  const auto expanded = expand("(func (result f32 i64 f64) (set $x 1) 1 2 3)", host_functions());
  ASSERT_TRUE(expanded);
  EXPECT_NE(expanded->text.find("(f32.const 1) (i64.const 2) (f64.const 3)"), std::string::npos)
      << expanded->text;
  const auto more = expand("(func (result f32 i64) (set $x 1) 1 (i64.const 2))", host_functions());
  ASSERT_TRUE(more);
  EXPECT_NE(more->text.find("(f32.const 1) (i64.const 2)"), std::string::npos) << more->text;
}

TEST(Work, ATypeThatManySelectsHideIsNotLookedFor) {
  const std::string code =
      repeated(200'000, "(select ") + "1";  // unclosed: no program, and no recursion into it
  EXPECT_FALSE(findings_of("(module (func (set $x 1) (drop 1 " + code + "))").empty());
  const std::string closed = repeated(100'000, "(select ") + repeated(100'000, ")");
  EXPECT_FALSE(findings_of("(module (func (set $x 1) (drop 1 " + closed + ")))").empty());
}

TEST(Work, BlocksThatNestWithoutEndAreRefused) {
  const auto findings = findings_of("(module (func (set $x 1)" + repeated(100'000, " block") + "))");
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].code, DiagnosticCode::kNestingTooDeep);
}

TEST(Work, TheOwnerStopsIt) {
  const std::string plain =
      "(module (func (export \"run\")" + repeated(50'000, "(drop (i32.const 1))") + "))";
  const std::string sugared = "(module (func (set $x 1)" + repeated(50'000, "(inc $x)") + "))";
  for (const std::string& source : {plain, sugared}) {
    for (const int steps : {0, 1, 5, 20, 60}) {
      int asked = 0;
      const StopScope scope([&] { return asked++ >= steps; });
      const auto loaded = load_program(source);
      bool failed = !loaded;
      if (loaded) failed = !wasm::validate(loaded->module, loaded->text());
      EXPECT_EQ(failed, scope.stopped()) << steps;
    }
  }
}

}  // namespace
}  // namespace membrane::lang
