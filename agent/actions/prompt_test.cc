#include "agent/actions/prompt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "agent/actions/action.h"
#include "host/calls/registry.h"

namespace membrane::agent {
namespace {

const ActionLanguage kPython{.name = "python",
                             .title = "Python",
                             .tags = {"python", "py"},
                             .version = "3.15.0",
                             .modules = {"numpy", "pandas"}};
const ActionLanguage kJavaScript{.name = "js", .title = "JavaScript", .tags = {"javascript", "js", "ts"}};

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

TEST_F(PromptTest, HasWhatIsAvailable) {
  EXPECT_TRUE(has("kv.get(key) -> value, errno"));
  EXPECT_TRUE(has("GET https://example.org/ is allowed."));
  EXPECT_TRUE(has("sort-lines"));
  EXPECT_TRUE(has("7 steps"));
  EXPECT_TRUE(has("1234 bytes"));
}

TEST_F(PromptTest, ExplainsEveryFormOfTheLanguage) {
  for (const char* form : {"`\"text\"`", "(concat ", "(call $http.get! ", "(set $x ", "(inc $x)", "(dec $x)",
                           "(char ", "(break)", "(continue)", "(while ", "(for $i FROM TO ", "(each $x LIST",
                           "(lines TEXT)", "(words TEXT)", "(split TEXT", "(items JSON)", "(alloc N)"})
    EXPECT_TRUE(has(form)) << form;
}

TEST_F(PromptTest, ExplainsEveryWayToAct) {
  for (const ToolSpec& tool : tools_for(catalog_, std::vector{wat()}))
    EXPECT_TRUE(has(tool.name)) << tool.name;
  for (const char* way :
       {"```wat", "```run", "ANSWER:", ";; entry:", ";; arguments:", ";; input:", "$agent.submit"})
    EXPECT_TRUE(has(way)) << way;
}

TEST_F(PromptTest, SaysWhenNothingIsGrantedAndLeavesOutWhatIsMissing) {
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
  const auto prompt_without = [&](std::vector<std::string_view> missing) {
    return build_system_prompt({.capabilities = {},
                                .policy_explanation = {},
                                .catalog = &catalog_,
                                .ungranted = std::move(missing),
                                .languages = {kPython}});
  };
  prompt_ = prompt_without({"http"});
  EXPECT_TRUE(has("- sort-lines: "));
  EXPECT_TRUE(has("- keep: "));
  EXPECT_FALSE(has("- fetch: "));
  EXPECT_TRUE(has("1 more needs what is not granted: http.\n"));
  prompt_ = prompt_without({"http", "kv"});
  EXPECT_TRUE(has("2 more need what is not granted: http, kv.\n"));
  prompt_ = prompt_without({});
  EXPECT_TRUE(has("- fetch: "));
  EXPECT_FALSE(has("not granted: "));
  prompt_ = build_system_prompt(
      {.capabilities = {}, .policy_explanation = {}, .catalog = &catalog_, .ungranted = {"http"}});
  EXPECT_TRUE(has("\nkeep, sort-lines\n1 more needs what is not granted: http.\n"))
      << "in short where there is WAT";
}

std::string prompt_in(std::vector<ActionLanguage> languages, const policy::Policy& policy = {}) {
  const auto none = ungranted(policy);
  return build_system_prompt({.capabilities = functions_prompt(languages, none),
                              .policy_explanation = policy::explain_briefly(policy),
                              .ungranted = none,
                              .languages = std::move(languages)});
}

TEST_F(PromptTest, DescribesOnlyTheChosenLanguages) {
  prompt_ = prompt_in({kPython});
  for (const char* part : {"programs in Python.", "```python\n", "agent.submit(text)", "# Python (3.15.0)",
                           "Also there: numpy and pandas.", "names the grant"})
    EXPECT_TRUE(has(part)) << part << prompt_;
  for (const char* part : {"WAT", "```wat", "$agent", "JavaScript", ";; entry", "errno="})
    EXPECT_FALSE(has(part)) << part;
  prompt_ = prompt_in({kJavaScript});
  EXPECT_TRUE(has("# JavaScript\n") && has("membrane.agent.submit(text)") && has("```ts block"));
  EXPECT_FALSE(has("Python") || has("WAT"));
  prompt_ = prompt_in({kPython, wat()});
  for (const char* part :
       {"programs in Python or WebAssembly text (WAT).", "whose tag is the language", "```python\n",
        "```wat\n", "# Python", "# WAT", ";; entry", "`$agent.submit` (WAT)"})
    EXPECT_TRUE(has(part)) << part;
  prompt_ = prompt_in({{.name = "ruby", .title = "ruby", .tags = {"ruby", "rb"}}});
  EXPECT_TRUE(has("```ruby\n") && has("# ruby\n"));
}

TEST_F(PromptTest, ALanguageLearnsOfGrantsThatItDoesNotHaveItself) {
  policy::Policy policy;
  prompt_ = prompt_in({kPython}, policy);
  for (const char* part : {"kv.get", "http.get", "requests", "open()", "str.", "json.", "io.print"})
    EXPECT_FALSE(has(part)) << part;
  EXPECT_TRUE(has("agent.ask(question) -> answer — "));
  for (const char* grant : {"kv", "http:GET:http://127.0.0.1:1/*", "fs:read:.:/data"})
    EXPECT_TRUE(policy::allow(policy, grant));
  prompt_ = prompt_in({kPython}, policy);
  for (const char* part :
       {"kv.get(key) -> value — ", "kv.set(key, value) — ", "`http.get(url)`", "`requests`", "for open()"})
    EXPECT_TRUE(has(part)) << part;
  EXPECT_FALSE(has("fs.read(") || has("http.post(")) << "it has open() and requests itself";
  prompt_ = prompt_in({kJavaScript}, policy);
  EXPECT_TRUE(has("fs.read(path) -> bytes — ") && has("`fetch`"));
}

TEST_F(PromptTest, DescribesEveryFunctionShortlyForWat) {
  prompt_ = functions_prompt(std::vector{wat()}, {});
  for (const host::Capability& capability : host::capabilities())
    for (const host::FunctionSpec& function : capability.functions)
      EXPECT_EQ(
          std::regex_search(prompt_, std::regex("\n" + std::string(function.module) + ":(.*[ /])" +
                                                std::string(function.name) + (function.can_fail ? "!" : "") +
                                                (function.is_rare ? "[ .\n]" : "[/(]"))),
          function.in_prompt)
          << function.module << "." << function.name;
  EXPECT_TRUE(has("slice(text start# end#)->text") && has(" trim/lower/upper/"));
  prompt_ = functions_prompt(std::vector{wat()}, std::vector<std::string_view>{"http"});
  EXPECT_FALSE(has("\nhttp:"));
}

// Only calls that reach outside are counted, so a program may make the others as often as its fuel lasts.
TEST_F(PromptTest, NamesWhatCountsAsAHostCall) {
  prompt_ = functions_prompt(std::vector{wat()}, {});
  for (const host::Capability& capability : host::capabilities()) {
    const auto reaches = [](const host::FunctionSpec& f) { return f.effect == host::Effect::kWorld; };
    const bool all_may = std::ranges::any_of(capability.functions, reaches);
    const size_t line = prompt_.find("Only those of ");
    const std::string counted = prompt_.substr(line, prompt_.find('\n', line) - line);
    EXPECT_EQ(counted.find(std::string(capability.name)) != std::string::npos, all_may) << capability.name;
  }
}

TEST_F(PromptTest, DescribesIntegersOfNumpyForPython) {
  prompt_ = prompt_in({kPython});
  EXPECT_TRUE(has("astype(int)"));
  EXPECT_TRUE(has("write \"int64\""));
  ActionLanguage bare = kPython;
  bare.modules.clear();
  prompt_ = prompt_in({bare});
  EXPECT_FALSE(has("numpy"));
}

TEST_F(PromptTest, SaysHowToAskForMore) {
  prompt_ = prompt_in({wat()});
  EXPECT_TRUE(has("call the tool capabilities, or write\n```run\ncapabilities str\n```\n"));
  Completion question;
  question.content = "```run\ncapabilities str\n```";
  EXPECT_EQ(read_reply(question, catalog_, std::vector{wat()}).actions.at(0).kind, Action::Kind::kAsk);
  prompt_ = prompt_in({kPython});
  EXPECT_FALSE(has("capabilities")) << "in terms of WAT";
}

constexpr size_t kMostBytes = 8'000;  // every step pays for them

// As `membrane agent --language wat --print-prompt` prints it, with the programs of catalog/.
std::string whole_prompt(const policy::Policy& policy) {
  const auto catalog = Catalog::load(MEMBRANE_SOURCE_DIR "/catalog");
  EXPECT_TRUE(catalog && catalog->problems().empty() && catalog->entries().size() > 30);
  const auto none = ungranted(policy);
  const std::vector languages{wat()};
  return build_system_prompt({.capabilities = functions_prompt(languages, none),
                              .policy_explanation = policy::explain_briefly(policy),
                              .catalog = &*catalog,
                              .max_steps = 20,
                              .observation_bytes = 6'000,
                              .ungranted = none,
                              .languages = languages});
}

TEST_F(PromptTest, IsShortUnderEveryExamplePolicy) {
  size_t policies = 0;
  for (const auto& file : std::filesystem::directory_iterator(MEMBRANE_SOURCE_DIR "/examples/policies")) {
    if (file.path().extension() != ".toml") continue;
    const auto policy = policy::load_policy(file.path().string());
    ASSERT_TRUE(policy) << file.path();
    EXPECT_LE(whole_prompt(*policy).size(), kMostBytes) << file.path();
    ++policies;
  }
  EXPECT_GE(policies, 4u);
}

TEST_F(PromptTest, IsShortWithEveryGrant) {
  policy::Policy all;
  for (const char* grant : {"http:GET,POST:https://api.example.org/v1/*", "http:GET:https://*.example.com/*",
                            "fs:read:./data:/data", "fs:write:./out:/out", "kv:./memo.db",
                            "sql:papers:./papers.db", "ai", "ask", "time", "random"})
    ASSERT_TRUE(policy::allow(all, grant)) << grant;
  prompt_ = whole_prompt(all);
  EXPECT_LE(prompt_.size(), kMostBytes);
  for (const host::Capability& capability : host::capabilities())
    EXPECT_TRUE(has("\n" + std::string(capability.name) + ":")) << capability.name;
}

TEST_F(PromptTest, IsFrugal) {
  EXPECT_LT(build_system_prompt({}).size() / 4, 1'100u) << "tokens, which every step pays";
  policy::Policy all;
  for (const char* grant : {"kv", "http:GET:http://127.0.0.1:1/*", "fs:read:.:/data"})
    EXPECT_TRUE(policy::allow(all, grant));
  EXPECT_LT(prompt_in({wat()}, all).size(), 8'000u);
  EXPECT_LT(prompt_in({kPython}).size() / 4, 800u);
  EXPECT_LT(prompt_in({kJavaScript}).size() / 4, 800u);
}

}  // namespace
}  // namespace membrane::agent
