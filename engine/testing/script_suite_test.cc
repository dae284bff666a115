// The official test suite, run.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "engine/native/compiler.h"
#include "engine/testing/script_runner.h"
#include "wasm/text/suite_testing.h"

namespace membrane::engine {
namespace {

// With Tier::kCompiler every function of a script has machine code, where there can be any; but in these scripts
// some work on structs, arrays or references of a type, which are the interpreter's.
constexpr std::string_view kInterpreted[] = {"array.wast",           "array_copy.wast",
                                             "array_fill.wast",      "array_init_data.wast",
                                             "array_init_elem.wast", "array_new_data.wast",
                                             "array_new_elem.wast",  "br_on_cast.wast",
                                             "br_on_cast_fail.wast", "br_on_non_null.wast",
                                             "br_on_null.wast",      "call_ref.wast",
                                             "extern.wast",          "i31.wast",
                                             "ref_as_non_null.wast", "ref_cast.wast",
                                             "ref_eq.wast",          "ref_test.wast",
                                             "return_call_ref.wast", "struct.wast",
                                             "table_init.wast",      "table_init64.wast",
                                             "type-subtyping.wast"};
void expect_compiled(std::string_view file, Tier tier, const ScriptResult& result) {
  if (tier != Tier::kCompiler || !native::machine_is_supported()) return;
  if (std::ranges::find(kInterpreted, file) != std::end(kInterpreted)) return;
  EXPECT_EQ(result.compiled, result.functions) << file;
}

class OfficialSuite : public ::testing::TestWithParam<Tier> {};
INSTANTIATE_TEST_SUITE_P(Tiers, OfficialSuite,
                         ::testing::Values(Tier::kInterpreter, Tier::kCompiler, Tier::kAuto),
                         [](const auto& tier) { return std::string(name_of(tier.param)); });

// How many commands of the scripts passed; the others are failures of the test.
uint64_t passed_of(const std::vector<std::filesystem::path>& files, Tier tier) {
  uint64_t passed = 0;
  for (const auto& file : files) {
    const auto result = run_script(wasm::read_file(file), file.filename().string(), tier);
    if (!result) {
      ADD_FAILURE() << file << ": " << result.error().message;
      return passed;
    }
    passed += result->passed;
    expect_compiled(file.filename().string(), tier, *result);
    for (const ScriptFailure& failure : result->failures)
      ADD_FAILURE() << file << ":" << failure.line << ": " << failure.command << ": " << failure.what;
  }
  return passed;
}

TEST_P(OfficialSuite, EveryCommandOfEveryScriptPasses) {
  const auto files = wasm::suite_files();
  if (files.empty()) GTEST_SKIP() << "the official test suite is not here";
  const uint64_t passed = passed_of(files, GetParam());
  EXPECT_GT(passed, 50'000u);
  RecordProperty("passed", std::to_string(passed));
}

TEST_P(OfficialSuite, EveryCommandOfTheScriptsOfTheProposalsPasses) {
  const auto files = wasm::suite_files("core-3.0");
  if (files.empty()) GTEST_SKIP() << "the official test suite is not here";
  EXPECT_GT(passed_of(files, GetParam()), 65'000u);
}

}  // namespace
}  // namespace membrane::engine
