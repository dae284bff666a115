// The policies in examples/policies are documentation, and must be valid.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "policy/policy.h"

namespace membrane::policy {
namespace {

TEST(ExamplePolicies, AllAreReadAndExplained) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MEMBRANE_SOURCE_DIR "/examples/policies")) {
    const auto policy = load_policy(entry.path());
    ASSERT_TRUE(policy) << entry.path() << ": " << policy.error().to_string();
    EXPECT_FALSE(explain(*policy).empty()) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 4);
}

TEST(ExamplePolicies, NothingGrantsNothing) {
  const auto policy = load_policy(MEMBRANE_SOURCE_DIR "/examples/policies/nothing.toml");
  ASSERT_TRUE(policy) << policy.error().to_string();
  Policy empty;
  empty.limits = policy->limits;
  EXPECT_EQ(*policy, empty);
}

}  // namespace
}  // namespace membrane::policy
