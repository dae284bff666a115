// Steps in Python and JavaScript, as the loop runs them. Skipped if the language is not installed
// (tools/get-languages); Python also in builds with sanitizers, where compiling it takes minutes.

#include "agent/executor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "agent/model_client.h"
#include "agent/model_server_testing.h"
#include "agent/prompt.h"
#include "agent/transcript.h"
#include "sandbox/template_testing.h"

namespace membrane::agent {
namespace {

using policy::Resource;
using sandbox::Outcome;
using sandbox::Report;

Program program(std::string written_in, std::string source) {
  Program program;
  program.written_in = std::move(written_in);
  program.source = std::move(source);
  return program;
}

constexpr uint64_t kStepFuel = 2'000'000'000;

class ExecutorTest : public ::testing::Test {
 protected:
  ExecutorTest() {
    options_.policy.limits.fuel = kStepFuel;
    options_.policy.limits.wall_ms = 600'000;
    policy::Limits whole = options_.policy.limits;
    whole.fuel = 10 * kStepFuel;
    options_.budget = std::make_shared<policy::Budget>(whole);
    options_.budget->set_deadline(std::chrono::steady_clock::time_point::max());
  }
  void open_all(std::initializer_list<const char*> languages) {
    for (const char* const language : languages) {
      options_.templates[language] = sandbox::open_template(language);
      if (options_.templates[language] == nullptr)
        GTEST_SKIP() << language << " is not installed, or not for this build";
    }
  }
  Report run(const std::string& written_in, const std::string& source) {
    if (!executor_) executor_ = sandbox_executor(options_);
    context_.cancel = &cancel_;
    return executor_(program(written_in, source), context_);
  }
  // A whole task with these replies, over HTTP; returns the observations.
  TaskResult run_task(const std::vector<std::string>& replies, std::vector<Language> languages) {
    std::vector<nlohmann::json> answers;
    for (const std::string& reply : replies) answers.push_back(streamed({reply}));
    ModelServer server(answers);
    ModelConfig config;
    config.model = "scripted";
    config.base_url = server.base_url();
    auto client = ModelClient::create(std::move(config));
    EXPECT_TRUE(client) << client.error().message;
    if (!client) return {};
    const Catalog catalog;
    LoopOptions loop_options;
    loop_options.languages = languages;
    Loop loop(**client, sandbox_executor(options_), options_.budget, catalog, "SYSTEM", loop_options);
    TranscriptWriter writer([this](std::string_view line) { transcript_ += line; }, "scripted", "{}",
                            languages);
    loop.add_observer(writer);
    const TaskResult result = loop.run("the task", cancel_);
    for (const Message& message : loop.messages())
      if (message.content.starts_with("Observation:")) observations_.push_back(message.content);
    return result;
  }

  ExecutorOptions options_;
  Executor executor_;
  StepContext context_;
  std::atomic<bool> cancel_{false};
  std::vector<std::string> observations_;
  std::string transcript_;
};

const char* const kWatSeven = "(func (export \"main\") (result i32) (i32.const 7))";

TEST_F(ExecutorTest, ALanguageWithoutATemplateIsAnsweredAndCostsNoStep) {
  const Report report = run("cobol", "DISPLAY 42");
  EXPECT_EQ(report.outcome, Outcome::kInvalid);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_NE(report.errors[0].message.find("cobol"), std::string::npos);
  EXPECT_FALSE(report.errors[0].hint.empty());
  EXPECT_EQ(run("wat", kWatSeven).results.at(0).value, "7");
}

TEST_F(ExecutorTest, StateStaysThroughAConversation) {
  open_all({"js"});
  if (IsSkipped()) return;
  std::string heard;
  context_.on_stdout = [&](std::string_view text) { heard += text; };
  EXPECT_EQ(run("js", "const x = 20; console.log('set')").outcome, Outcome::kOk);
  EXPECT_EQ(heard, "set\n");
  EXPECT_EQ(run("wat", kWatSeven).results.at(0).value, "7") << "a step in WAT between";
  EXPECT_EQ(run("js", "x + 22").result, "42");
  ++context_.conversation;
  EXPECT_EQ(run("js", "typeof x").result, "'undefined'") << "another conversation knows nothing of it";
}

TEST_F(ExecutorTest, AStepThatRunsOutOfFuelIsUndoneAndTheNextGoesOn) {
  open_all({"js"});
  if (IsSkipped()) return;
  run("js", "let x = 20");
  const uint64_t before = options_.budget->left(Resource::kFuel);
  const Report endless = run("js", "x = 1; for (;;) {}");
  EXPECT_EQ(endless.outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(options_.budget->left(Resource::kFuel), before - endless.fuel_used) << "of the one budget";
  EXPECT_EQ(run("js", "x + 22").result, "42");
  options_.budget->set(Resource::kFuel, 0);
  EXPECT_EQ(run("js", "x").outcome, Outcome::kOutOfFuel);
}

TEST_F(ExecutorTest, ACancelEndsTheStepAndTheNextGoesOn) {
  open_all({"js"});
  if (IsSkipped()) return;
  run("js", "let x = 20");
  cancel_ = true;
  EXPECT_EQ(run("js", "for (;;) {}").outcome, Outcome::kCancelled);
  cancel_ = false;
  EXPECT_EQ(run("js", "x + 22").result, "42");
}

TEST_F(ExecutorTest, TypesAreTakenAwayByTheName) {
  open_all({"js"});
  if (IsSkipped()) return;
  if (find_language(std::vector{language_of_package(options_.templates["js"]->package())}, "ts") == nullptr)
    GTEST_SKIP() << "JavaScript is installed without TypeScript";
  executor_ = sandbox_executor(options_);
  Program typed = program("js", "const n: number = 42; n");
  typed.name = "program.ts";
  EXPECT_EQ(executor_(typed, context_).result, "42");
  typed.source = "n";
  EXPECT_EQ(executor_(typed, context_).result, "42");
}

TEST_F(ExecutorTest, ATaskInPython) {
  open_all({"python"});
  if (IsSkipped()) return;
  const TaskResult result =
      run_task({"```python\nx = 20\nprint('set')\n```", "```python\nx + 22\n```",
                "```python\nfrom membrane import http\nhttp.get('http://127.0.0.1:1/')\n```",
                "```python\nopen('/tmp/a.txt', 'w').write('kept'); 1 / 0\n```",
                "```py\nfrom membrane import agent\nagent.submit(f'{x} ' + "
                "open('/tmp/a.txt').read())\n```"},
               {language_of_package(options_.templates["python"]->package())});
  EXPECT_EQ(result.stop, Stop::kAnswered);
  EXPECT_EQ(result.answer, "20 kept");
  EXPECT_EQ(result.totals.steps, 5u);
  EXPECT_EQ(result.totals.repairs, 0u);
  EXPECT_EQ(result.totals.host_calls_denied, 1u);
  ASSERT_EQ(observations_.size(), 5u);
  EXPECT_NE(observations_[0].find("stdout:\nset\n"), std::string::npos);
  EXPECT_NE(observations_[1].find("result:\n42\n"), std::string::npos);
  EXPECT_NE(observations_[2].find("--allow 'http:GET:http://127.0.0.1:1/"), std::string::npos);
  EXPECT_NE(observations_[3].find("ZeroDivisionError"), std::string::npos);
  EXPECT_NE(observations_[3].find("/tmp/a.txt (4 bytes)"), std::string::npos);
}

TEST_F(ExecutorTest, ATaskInJavaScriptAndWatIsToldOfAnUnknownLanguageAndReplays) {
  open_all({"js"});
  if (IsSkipped()) return;
  const std::vector<Language> languages{language_of_package(options_.templates["js"]->package()), wat()};
  const TaskResult result = run_task(
      {"```javascript\nlet x = 20\n```", "```wat\n" + std::string(kWatSeven) + "\n```", "```bash\nls\n```",
       "```js\nx + 22\n```", "```js\nmembrane.agent.submit('it is ' + (x + 22))\n```"},
      languages);
  EXPECT_EQ(result.answer, "it is 42");
  EXPECT_EQ(result.totals.repairs, 1u);
  ASSERT_EQ(observations_.size(), 5u);
  EXPECT_NE(observations_[1].find("results: 7 (i32)"), std::string::npos);
  EXPECT_NE(
      observations_[2].find("bash cannot be run here. Write JavaScript (```javascript) or WAT (```wat)"),
      std::string::npos)
      << observations_[2];
  EXPECT_NE(observations_[3].find("result:\n42\n"), std::string::npos);

  auto recording = Recording::parse(transcript_, "t.jsonl");
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ(recording->languages, (std::vector<std::string>{"js", "wat"}));
  EXPECT_EQ(recording->runs.at(0).program.written_in, "js");
  EXPECT_EQ(recording->runs.at(1).program.written_in, "wat");
  RecordedModel model(*recording);
  const Catalog catalog;
  LoopOptions loop_options;
  loop_options.languages = languages;
  Loop loop(model, sandbox_executor(options_), options_.budget, catalog, "SYSTEM", loop_options);
  ReplayCheck check(*recording);
  loop.add_observer(check);
  EXPECT_EQ(loop.run("the task", cancel_).answer, "it is 42");
  EXPECT_EQ(check.divergences(), std::vector<std::string>{});
}

}  // namespace
}  // namespace membrane::agent
