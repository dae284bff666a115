#include "agent/prompt.h"

#include <gtest/gtest.h>

#include "agent/action.h"
#include "host/registry.h"

namespace membrane::agent {
namespace {

class PromptTest : public ::testing::Test {
 protected:
  PromptTest() {
    EXPECT_TRUE(catalog_.add(";; name: sort-lines\n;; does: Sorts lines.\n(module)", "sort-lines.wat"));
    prompt_ = build_system_prompt({.capabilities = "kv.get(key) -> value, errno",
                                   .policy_explanation = "GET https://example.org/ is allowed.",
                                   .catalog = &catalog_,
                                   .max_steps = 7,
                                   .observation_bytes = 1234});
  }
  bool has(std::string_view text) const { return prompt_.find(text) != std::string::npos; }

  Catalog catalog_;
  std::string prompt_;
};

TEST_F(PromptTest, HoldsWhatIsThere) {
  EXPECT_TRUE(has("kv.get(key) -> value, errno"));
  EXPECT_TRUE(has("GET https://example.org/ is allowed."));
  EXPECT_TRUE(has("- sort-lines: Sorts lines."));
  EXPECT_TRUE(has("7 steps"));
  EXPECT_TRUE(has("1234 bytes"));
}

TEST_F(PromptTest, ExplainsEveryFormOfTheLanguage) {
  for (const char* form : {"(string \"", "(concat ", "(call $http.get! ", "(set $x ", "(inc $x)", "(dec $x)",
                           "(char ", "(break)", "(continue)", "(while ", "(for $i FROM TO "})
    EXPECT_TRUE(has(form)) << form;
}

TEST_F(PromptTest, ExplainsEveryWayToAct) {
  for (const ToolSpec& tool : tools_for(catalog_)) EXPECT_TRUE(has(tool.name)) << tool.name;
  for (const char* way :
       {"```wat", "```run", "ANSWER:", ";; entry:", ";; arguments:", ";; input:", "$agent.submit"})
    EXPECT_TRUE(has(way)) << way;
}

TEST_F(PromptTest, SaysWhenNothingIsGrantedAndLeavesOutWhatIsNotThere) {
  prompt_ = build_system_prompt({});
  EXPECT_TRUE(has("Nothing outside of the program is granted."));
  EXPECT_FALSE(has("Ready programs"));
  EXPECT_FALSE(has("run_catalog"));
}

TEST_F(PromptTest, DescribesOnlyWhatIsGranted) {
  policy::Policy policy;
  const auto none = ungranted(policy);
  for (const std::string_view module : none) EXPECT_NE(host::find_capability(module), nullptr) << module;
  EXPECT_EQ(none.size(), 5u);
  const std::string small = host::capabilities_prompt(none);
  EXPECT_EQ(small.find("http.get("), std::string::npos);
  EXPECT_NE(small.find("agent.submit("), std::string::npos);
  policy.http.emplace_back();
  policy.kv.emplace();
  const std::string granted = host::capabilities_prompt(ungranted(policy));
  EXPECT_NE(granted.find("http.get("), std::string::npos);
  EXPECT_NE(granted.find("kv.get("), std::string::npos);
  EXPECT_EQ(granted.find("sql."), std::string::npos);
}

TEST_F(PromptTest, ListsOnlyProgramsThatCanRun) {
  EXPECT_TRUE(catalog_.add(";; name: fetch\n;; does: Fetches.\n;; needs: http, kv\n(module)", "fetch.wat"));
  EXPECT_TRUE(catalog_.add(";; name: keep\n;; does: Keeps.\n;; needs: kv\n(module)", "keep.wat"));
  prompt_ = build_system_prompt(
      {.capabilities = {}, .policy_explanation = {}, .catalog = &catalog_, .ungranted = {"http"}});
  EXPECT_TRUE(has("- sort-lines: "));
  EXPECT_TRUE(has("- keep: "));
  EXPECT_FALSE(has("- fetch: "));
  EXPECT_TRUE(has("1 more needs what is not granted: http.\n"));
  prompt_ = build_system_prompt(
      {.capabilities = {}, .policy_explanation = {}, .catalog = &catalog_, .ungranted = {"http", "kv"}});
  EXPECT_TRUE(has("2 more need what is not granted: http, kv.\n"));
  prompt_ = build_system_prompt({.capabilities = {}, .policy_explanation = {}, .catalog = &catalog_});
  EXPECT_TRUE(has("- fetch: "));
  EXPECT_FALSE(has("not granted: "));
}

TEST_F(PromptTest, IsFrugal) {
  EXPECT_LT(build_system_prompt({}).size() / 4, 900u) << "tokens, which every step pays";
}

}  // namespace
}  // namespace membrane::agent
