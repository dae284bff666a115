// The official test suite, run.

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/script_runner.h"
#include "wasm/text/suite_testing.h"

namespace membrane::engine {
namespace {

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
    for (const ScriptFailure& failure : result->failures)
      ADD_FAILURE() << file << ":" << failure.line << ": " << failure.command << ": " << failure.what;
  }
  EXPECT_GT(passed, 65'000u);
}

}  // namespace
}  // namespace membrane::engine
