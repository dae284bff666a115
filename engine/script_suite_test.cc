// The official test suite, run.

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/native/compiler.h"
#include "engine/script_runner.h"
#include "wasm/text/suite_testing.h"

namespace membrane::engine {
namespace {

// With Tier::kCompiler every function of a script has machine code where that can be, but in those scripts.
constexpr std::string_view kInterpreted[] = {"throw.wast", "throw_ref.wast", "try_table.wast"};
void expect_compiled(std::string_view file, Tier tier, const ScriptResult& result) {
  const bool is_interpreted = std::ranges::find(kInterpreted, file) != std::end(kInterpreted);
  if (tier != Tier::kCompiler || !native::machine_is_supported() || is_interpreted) return;
  EXPECT_EQ(result.compiled, result.functions) << file;
}

class OfficialSuite : public ::testing::TestWithParam<Tier> {};
INSTANTIATE_TEST_SUITE_P(Tiers, OfficialSuite,
                         ::testing::Values(Tier::kInterpreter, Tier::kCompiler, Tier::kAuto),
                         [](const auto& tier) { return std::string(name_of(tier.param)); });

TEST_P(OfficialSuite, EveryCommandOfEveryScriptPasses) {
  const auto files = wasm::suite_files();
  if (files.empty()) GTEST_SKIP() << "the official test suite is not here";
  uint64_t passed = 0;
  for (const auto& file : files) {
    const auto result = run_script(wasm::read_file(file), file.filename().string(), GetParam());
    ASSERT_TRUE(result) << file << ": " << result.error().message;
    passed += result->passed;
    expect_compiled(file.filename().string(), GetParam(), *result);
    for (const ScriptFailure& failure : result->failures)
      ADD_FAILURE() << file << ":" << failure.line << ": " << failure.command << ": " << failure.what;
  }
  EXPECT_GT(passed, 50'000u);
  RecordProperty("passed", std::to_string(passed));
}

TEST_P(OfficialSuite, EveryCommandOfTheScriptsOfTheProposalsPasses) {
  const auto files = wasm::suite_files("core-3.0");
  if (files.empty()) GTEST_SKIP() << "the official test suite is not here";
  uint64_t passed = 0;
  for (const auto& file : files) {
    const auto result = run_script(wasm::read_file(file), file.filename().string(), GetParam());
    ASSERT_TRUE(result) << file << ": " << result.error().message;
    passed += result->passed;
    expect_compiled(file.filename().string(), GetParam(), *result);
    for (const ScriptFailure& failure : result->failures)
      ADD_FAILURE() << file << ":" << failure.line << ": " << failure.command << ": " << failure.what;
  }
  EXPECT_GT(passed, 65'000u);
}

}  // namespace
}  // namespace membrane::engine
