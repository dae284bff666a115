#include "agent/loop.h"

#include <gtest/gtest.h>

#include <deque>

#include "agent/model_client.h"
#include "agent/model_server_testing.h"

namespace membrane::agent {
namespace {

using policy::Budget;
using policy::Resource;
using sandbox::Outcome;
using sandbox::Report;

Completion says(std::string content, Finish finish = Finish::kStop) {
  Completion completion;
  completion.content = std::move(content);
  completion.finish = finish;
  completion.usage = {100, 10, false};
  return completion;
}
Completion runs(const std::string& source) { return says("```wat\n" + source + "\n```"); }
Completion calls(std::vector<ToolCall> tool_calls) {
  Completion completion = says("", Finish::kToolCalls);
  completion.tool_calls = std::move(tool_calls);
  return completion;
}

// Replies as scripted, and records its queries.
class ScriptedModel final : public ChatModel {
 public:
  std::deque<Result<Completion>> script;
  std::vector<ChatQuery> queries;
  std::function<void(const ChatControl&)> before_answer;

  Result<Completion> complete(const ChatQuery& query, const ChatControl& control) override {
    queries.push_back(query);
    if (before_answer) before_answer(control);
    if (control.cancel->load()) return fail(ErrorCode::kCancelled, "cancelled");
    if (script.empty()) return fail(ErrorCode::kInternal, "the script is over");
    auto completion = script.front();
    script.pop_front();
    if (completion && control.on_text) control.on_text(completion->content);
    return completion;
  }
  std::string name() const override { return "scripted"; }
};

class Notes final : public Observer {
 public:
  std::vector<std::string> lines;
  std::vector<std::string> observations;
  void on_task(std::string_view task) override { lines.push_back("task " + std::string(task)); }
  void on_step(uint32_t n) override { lines.push_back("step " + std::to_string(n)); }
  void on_text(std::string_view text) override { lines.push_back("text " + std::string(text.substr(0, 6))); }
  void on_program(const Program&) override { lines.push_back("program"); }
  void on_stdout(std::string_view text) override { lines.push_back("stdout " + std::string(text)); }
  void on_report(const Program&, const Report&) override { lines.push_back("report"); }
  void on_observation(std::string_view text) override { observations.emplace_back(text); }
  void on_note(std::string_view text) override { lines.push_back("note " + std::string(text)); }
  void on_end(const TaskResult& result) override {
    lines.push_back("end " + std::string(name_of(result.stop)));
  }
};

class LoopTest : public ::testing::Test {
 protected:
  LoopTest() {
    EXPECT_TRUE(catalog_.add(";; name: add\n;; does: Adds.\n(module $add)", "add.wat"));
    budget_->set(Resource::kTokens, 1'000'000);
    budget_->set(Resource::kFuel, 1'000'000);
  }
  Loop& loop() {
    if (!loop_) {
      loop_ = std::make_unique<Loop>(
          model_,
          [this](const Program& program, const StepContext& context) {
            programs_.push_back(program);
            return executor_(program, context);
          },
          budget_, catalog_, "SYSTEM", options_);
      loop_->add_observer(notes_);
    }
    return *loop_;
  }
  TaskResult run(std::string_view task = "the task") { return loop().run(task, cancel_); }
  // The whole conversation that the nth query showed to the model.
  std::string conversation(size_t n) const {
    std::string text;
    for (const Message& message : model_.queries.at(n).messages)
      text += std::string(name_of(message.role)) + ": " + message.content + "\n";
    return text;
  }

  ScriptedModel model_;
  Catalog catalog_;
  std::shared_ptr<Budget> budget_ = std::make_shared<Budget>();
  LoopOptions options_;
  std::function<Report(const Program&, const StepContext&)> executor_ = [](const Program&,
                                                                           const StepContext&) {
    Report report;
    report.stdout_text = "42";
    report.fuel_used = 10;
    return report;
  };
  std::vector<Program> programs_;
  std::atomic<bool> cancel_{false};
  Notes notes_;
  std::unique_ptr<Loop> loop_;
};

Report outcome(Outcome outcome, std::string code, std::string message = "m", std::string hint = "h") {
  Report report;
  report.outcome = outcome;
  report.errors = {{std::move(code), std::move(message), {}, std::move(hint), {}}};
  return report;
}

// -- the way through ----------------------------------------------------------------------

TEST_F(LoopTest, ThinksActsObservesAnswers) {
  model_.script = {runs("(module)"), says("ANSWER: 42")};
  executor_ = [](const Program&, const StepContext& context) {
    context.on_stdout("42");
    Report report;
    report.stdout_text = "42";
    report.fuel_used = 10;
    report.tokens_used = 5;
    report.host_calls = {{"http.get", true, "", "", "", "", 300, 20, 0},
                         {"http.get", false, "EACCES", "no", "--allow x", "", 0, 0, 0}};
    return report;
  };
  const TaskResult result = run();
  EXPECT_EQ(result.stop, Stop::kAnswered);
  EXPECT_EQ(result.answer, "42");
  EXPECT_EQ(notes_.lines,
            (std::vector<std::string>{"task the task", "step 1", "text ```wat", "program", "stdout 42",
                                      "report", "step 2", "text ANSWER", "end answered"}));
  EXPECT_EQ(conversation(0), "system: SYSTEM\nuser: the task\n");
  EXPECT_NE(conversation(1).find("user: Observation:\noutcome: ok"), std::string::npos);
  EXPECT_NE(conversation(1).find("granted by --allow x"), std::string::npos);
  const Totals& t = result.totals;
  EXPECT_EQ(t.steps, 1u);
  EXPECT_EQ(t.fuel, 10u);
  EXPECT_EQ(t.host_calls_allowed, 1u);
  EXPECT_EQ(t.host_calls_denied, 1u);
  EXPECT_EQ(t.bytes_in, 300u);
  EXPECT_EQ(t.bytes_out, 20u);
  EXPECT_EQ(t.tokens_in, 200u);
  EXPECT_EQ(t.tokens_out, 20u);
  EXPECT_EQ(t.tokens_of_programs, 5u);
  EXPECT_EQ(budget_->left(Resource::kTokens), 1'000'000u - 220u);
  const std::string table = render_totals(result);
  for (const char* row : {"answered", "fuel        10", "1 allowed, 1 denied", "300 in, 20 out",
                          "225 (200 in, 20 out, 5 by programs)"})
    EXPECT_NE(table.find(row), std::string::npos) << row << "\n" << table;
}

TEST_F(LoopTest, AProgramMaySubmit) {
  model_.script = {runs("(module)")};
  executor_ = [](const Program&, const StepContext&) {
    Report report;
    report.submitted = true;
    report.answer = "from the program";
    return report;
  };
  EXPECT_EQ(run().answer, "from the program");
}

TEST_F(LoopTest, ToolCallsAreAnsweredEach) {
  model_.script = {calls({{"a", "run_catalog", R"({"name":"add","arguments":["2","40"]})"},
                          {"b", "submit", R"({"answer":"guess"})"},
                          {"c", "nonsense", "{}"}}),
                   calls({{"d", "submit", R"({"answer":"42"})"}})};
  const TaskResult result = run();
  EXPECT_EQ(result.answer, "42") << "an answer beside a program was a guess";
  ASSERT_EQ(programs_.size(), 1u);
  EXPECT_EQ(programs_[0].arguments, (std::vector<std::string>{"2", "40"}));
  const auto& messages = model_.queries[1].messages;
  ASSERT_EQ(messages.size(), 6u);
  EXPECT_EQ(messages[2].tool_calls.size(), 3u);
  for (size_t i = 3; i < 6; ++i) EXPECT_EQ(messages[i].role, Role::kTool);
  EXPECT_EQ(messages[4].tool_call_id, "b");
  EXPECT_NE(messages[4].content.find("Not taken"), std::string::npos);
  EXPECT_EQ(loop().messages().back().tool_call_id, "d") << "the answer's call is answered, too";
}

TEST_F(LoopTest, ToolsAreOfferedUnlessTurnedOff) {
  model_.script = {says("ANSWER: x")};
  run();
  EXPECT_EQ(model_.queries[0].tools.size(), 4u);
  loop_.reset();
  options_.tools = false;
  model_.script = {says("ANSWER: x")};
  run();
  EXPECT_TRUE(model_.queries[1].tools.empty());
}

TEST_F(LoopTest, TheConversationGoesOnUntilReset) {
  model_.script = {says("ANSWER: one"), says("ANSWER: two"), says("ANSWER: three")};
  run("first");
  run("second");
  EXPECT_NE(conversation(1).find("user: first\nassistant: ANSWER: one\n"), std::string::npos);
  loop().reset();
  run("third");
  EXPECT_EQ(conversation(2), "system: SYSTEM\nuser: third\n");
}

TEST_F(LoopTest, TheExecutorIsToldOfLanguageAndConversation) {
  options_.languages = {{.name = "python", .title = "Python", .tags = {"python", "py"}}, wat()};
  std::vector<uint64_t> conversations;
  executor_ = [&](const Program&, const StepContext& context) {
    conversations.push_back(context.conversation);
    return Report{};
  };
  model_.script = {says("```py\nx = 1\n```"), runs("(module)"), says("ANSWER: ok"), says("```python\nx\n```"),
                   says("ANSWER: ok")};
  run();
  loop().reset();
  run();
  ASSERT_EQ(programs_.size(), 3u);
  EXPECT_EQ(programs_[0].written_in, "python");
  EXPECT_EQ(programs_[1].written_in, "wat");
  EXPECT_EQ(conversations[0], conversations[1]);
  EXPECT_NE(conversations[1], conversations[2]);
  EXPECT_NE(model_.queries[0].tools.at(0).parameters.find("\"python\""), std::string::npos);
}

TEST_F(LoopTest, ALanguageThatWasNotChosenIsARepair) {
  model_.script = {says("```python\nprint(1)\n```"), says("Hm."), says("ANSWER: ok")};
  const TaskResult result = run();
  EXPECT_EQ(result.totals.repairs, 1u);
  EXPECT_TRUE(programs_.empty());
  EXPECT_NE(conversation(1).find("Programs in python cannot be run here. Write WAT (```wat)."),
            std::string::npos);
  EXPECT_NE(conversation(2).find("a fenced block in WAT (```wat)"), std::string::npos);
}

// -- repairs -----------------------------------------------------------------------------------

TEST_F(LoopTest, DiagnosticsGoBackAndCostNoStep) {
  model_.script = {runs("(modul)"), runs("(module)"), says("ANSWER: ok")};
  executor_ = [](const Program& program, const StepContext&) {
    return program.source.starts_with("(modul)")
               ? outcome(Outcome::kInvalid, "unexpected-token", "modul?", "Write module.")
               : Report{};
  };
  const TaskResult result = run();
  EXPECT_EQ(result.stop, Stop::kAnswered);
  EXPECT_EQ(result.totals.steps, 1u);
  EXPECT_EQ(result.totals.repairs, 1u);
  EXPECT_NE(conversation(1).find("error[unexpected-token]"), std::string::npos);
  EXPECT_NE(conversation(1).find("hint: Write module."), std::string::npos);
}

TEST_F(LoopTest, RepairsInARowAreBounded) {
  options_.max_repairs = 3;
  int n = 0;
  executor_ = [&n](const Program&, const StepContext&) {
    return outcome(Outcome::kInvalid, "type-mismatch", "different each time " + std::to_string(++n));
  };
  for (int i = 0; i < 10; ++i) model_.script.push_back(runs("(module " + std::to_string(i) + ")"));
  const TaskResult result = run();
  EXPECT_EQ(result.stop, Stop::kOutOfRepairs);
  EXPECT_EQ(result.totals.repairs, 4u);
  EXPECT_EQ(model_.queries.size(), 5u) << "and one last turn for the answer";
  EXPECT_EQ(result.totals.steps, 0u);
}

TEST_F(LoopTest, AnUnclearReplyIsARepair) {
  model_.script = {says("```run\nsub 1\n```"), says("ANSWER: ok")};
  const TaskResult result = run();
  EXPECT_EQ(result.totals.repairs, 1u);
  EXPECT_NE(conversation(1).find("no program \"sub\""), std::string::npos);
}

TEST_F(LoopTest, AQuestionAboutHostFunctionsIsAnsweredAndAStep) {
  model_.script = {says("```run\ncapabilities kv\n```"), says("```run\ncapabilities k\n```"),
                   calls({{"c1", "capabilities", R"x({"names":["kv.get"]})x"}}), says("ANSWER: 42")};
  const TaskResult result = run();
  EXPECT_EQ(result.answer, "42");
  EXPECT_EQ(result.totals.steps, 2u);
  EXPECT_EQ(result.totals.repairs, 1u);
  EXPECT_TRUE(programs_.empty());
  EXPECT_NE(notes_.observations.at(0).find("kv.set(key, value) -> errno"), std::string::npos);
  EXPECT_NE(conversation(1).find("kv.keys(prefix)"), std::string::npos) << "the model sees it";
  EXPECT_EQ(model_.queries.at(3).messages.back().tool_call_id, "c1");
}

TEST_F(LoopTest, QuestionsAboutHostFunctionsAreBounded) {
  options_.max_steps = 3;
  options_.observation_bytes = 100;
  for (int i = 0; i < 3; ++i) model_.script.push_back(says("```run\ncapabilities str\n```"));
  model_.script.push_back(says("ANSWER: 42"));
  EXPECT_EQ(run().answer, "42");
  EXPECT_EQ(model_.queries.size(), 4u);
  EXPECT_LT(notes_.observations.at(0).size(), 200u);
  EXPECT_NE(notes_.observations.at(0).find("was cut"), std::string::npos);
}

TEST_F(LoopTest, ASecondProgramIsSaidToBePassedOver) {
  model_.script = {says("```wat\n(module)\n```\n```wat\n(module $b)\n```"), says("ANSWER: ok")};
  run();
  EXPECT_EQ(programs_.size(), 1u);
  EXPECT_NE(conversation(1).find("Only the first block"), std::string::npos);
}

// -- circles ------------------------------------------------------------------------------------

TEST_F(LoopTest, TheSameFailureThriceIsSaidAndFiveTimesStopped) {
  executor_ = [](const Program&, const StepContext&) { return outcome(Outcome::kTrapped, "unreachable"); };
  for (int i = 0; i < 5; ++i) model_.script.push_back(runs("(module)"));
  model_.script.push_back(says("ANSWER: I could not"));
  const TaskResult result = run();
  EXPECT_EQ(conversation(2).find("3 times"), std::string::npos);
  EXPECT_NE(conversation(3).find("3 times"), std::string::npos);
  EXPECT_EQ(programs_.size(), 5u);
  EXPECT_EQ(result.stop, Stop::kAnswered) << "asked once more, it answered";
  EXPECT_EQ(result.answer, "I could not");
  EXPECT_NE(conversation(5).find("No more programs can run"), std::string::npos);
}

TEST_F(LoopTest, WordsWithoutAnActionAreAskedAboutOnceThenTaken) {
  model_.script = {says("Let me think."), says("The answer is 42.")};
  const TaskResult result = run();
  EXPECT_EQ(result.stop, Stop::kAnswered);
  EXPECT_EQ(result.answer, "The answer is 42.");
  EXPECT_NE(conversation(1).find("Nothing was run"), std::string::npos);
}

TEST_F(LoopTest, RepliesThatAreCutOrEmptyAreNoAnswers) {
  model_.script = {says("Well, ", Finish::kLength), says("the ", Finish::kCut),
                   says("answer", Finish::kLength)};
  EXPECT_EQ(run().stop, Stop::kStuck);
  EXPECT_NE(conversation(1).find("cut off"), std::string::npos);
  loop().reset();
  model_.script = {says(""), says(""), says("")};
  EXPECT_EQ(run().stop, Stop::kStuck);
}

TEST_F(LoopTest, AFilteredReplyEndsTheTask) {
  model_.script = {says("", Finish::kFiltered)};
  const TaskResult result = run();
  EXPECT_EQ(result.stop, Stop::kModelFailed);
  EXPECT_NE(result.error->message.find("filter"), std::string::npos);
}

// -- budgets ---------------------------------------------------------------------------------------

TEST_F(LoopTest, StepsAreBounded) {
  options_.max_steps = 3;
  for (int i = 0; i < 9; ++i) model_.script.push_back(runs("(module " + std::to_string(i) + ")"));
  const TaskResult result = run();
  EXPECT_EQ(result.stop, Stop::kOutOfSteps);
  EXPECT_EQ(programs_.size(), 3u) << "a program in the last turn is not run";
  EXPECT_EQ(model_.queries.size(), 4u);
  ASSERT_EQ(model_.queries[3].tools.size(), 1u);
  EXPECT_EQ(model_.queries[3].tools[0].name, "submit");
}

TEST_F(LoopTest, TheStepsOfOneReplyAreBoundedToo) {
  options_.max_steps = 2;
  const std::string source = R"x({"source":"(module)"})x";
  model_.script = {
      calls({{"a", "run_program", source}, {"b", "run_program", source}, {"c", "run_program", source}}),
      calls({{"d", "submit", R"({"answer":"x"})"}})};
  EXPECT_EQ(run().answer, "x");
  EXPECT_EQ(programs_.size(), 2u);
}

TEST_F(LoopTest, NoFuelNoPrograms) {
  model_.script = {runs("(module)"), says("ANSWER: so far")};
  executor_ = [this](const Program&, const StepContext&) {
    EXPECT_EQ(budget_->take_up_to(Resource::kFuel, 2'000'000), 1'000'000u);
    return outcome(Outcome::kOutOfFuel, "out_of_fuel");
  };
  EXPECT_EQ(run().answer, "so far");
  EXPECT_NE(conversation(1).find("fuel budget"), std::string::npos);
}

TEST_F(LoopTest, TokensAreTakenAndBounded) {
  budget_->set(Resource::kTokens, 230);
  for (int i = 0; i < 9; ++i) model_.script.push_back(runs("(module " + std::to_string(i) + ")"));
  const TaskResult result = run();
  EXPECT_EQ(result.stop, Stop::kOutOfTokens);
  EXPECT_EQ(model_.queries.size(), 2u);
  EXPECT_LT(model_.queries[1].max_tokens, 120u) << "the reply may not be longer than what is left";
  ASSERT_TRUE(result.error);
  EXPECT_NE(result.error->hint.find("--tokens"), std::string::npos);
}

TEST_F(LoopTest, AnswersOfTheServersOwnLimitsAreNoTokenBudget) {
  model_.script = {fail(ErrorCode::kExhausted, "quota")};
  EXPECT_EQ(run().stop, Stop::kModelFailed);
}

TEST_F(LoopTest, TheDeadlineEndsTheTask) {
  model_.script = {runs("(module)"), says("ANSWER: late")};
  executor_ = [this](const Program&, const StepContext&) {
    budget_->set_deadline(std::chrono::steady_clock::now());
    return Report{};
  };
  const TaskResult result = run();
  EXPECT_EQ(result.stop, Stop::kTimedOut);
  EXPECT_EQ(model_.queries.size(), 1u);
}

TEST_F(LoopTest, EachTaskMayHaveAWallOfItsOwn) {
  budget_->set_deadline(std::chrono::steady_clock::now());
  options_.task_wall_ms = 3'600'000;
  model_.script = {says("ANSWER: x")};
  EXPECT_EQ(run().stop, Stop::kAnswered);
  EXPECT_GT(budget_->wall_left_ms(), 0u);
}

TEST_F(LoopTest, ObservationsAreBounded) {
  options_.observation_bytes = 500;
  executor_ = [](const Program&, const StepContext&) {
    Report report;
    report.stdout_text = std::string(100'000, 'x');
    return report;
  };
  model_.script = {runs("(module)"), says("ANSWER: x")};
  run();
  EXPECT_LE(notes_.observations.at(0).size(), 500u);
}

TEST_F(LoopTest, ALongConversationIsCutAtItsOldestSteps) {
  options_.history_tokens = 2'000;
  options_.max_steps = 30;
  for (int i = 0; i < 25; ++i)
    model_.script.push_back(runs("(module $step" + std::to_string(i) + " " + std::string(400, ';') + ")"));
  model_.script.push_back(says("ANSWER: done"));
  ASSERT_EQ(run("REMEMBER THE TASK").stop, Stop::kAnswered);
  for (const ChatQuery& query : model_.queries) EXPECT_LE(estimate_tokens(query.messages), 2'000u);
  const std::string last = conversation(25);
  EXPECT_EQ(last.find("$step3 "), std::string::npos);
  EXPECT_NE(last.find("$step24 "), std::string::npos);
  EXPECT_NE(last.find("REMEMBER THE TASK"), std::string::npos);
  EXPECT_TRUE(last.starts_with("system: SYSTEM"));
  EXPECT_NE(last.find("Earlier steps were cut"), std::string::npos);
  EXPECT_NE(last.find("- ran a program: outcome: ok; stdout:; 42; fuel: 10\n"), std::string::npos) << last;
}

TEST_F(LoopTest, AWindowThatIsTooSmallIsLearnedFromTheRefusal) {
  options_.max_steps = 30;
  for (int i = 0; i < 8; ++i)
    model_.script.push_back(runs("(module $step" + std::to_string(i) + " " + std::string(400, ';') + ")"));
  model_.script.push_back(fail(ErrorCode::kTooLong, "maximum context length is 1000 tokens"));
  model_.script.push_back(says("ANSWER: done"));
  EXPECT_EQ(run("REMEMBER THE TASK").stop, Stop::kAnswered);
  EXPECT_LE(estimate_tokens(model_.queries.at(9).messages),
            estimate_tokens(model_.queries.at(8).messages) * 2 / 3);
  EXPECT_NE(conversation(9).find("REMEMBER THE TASK"), std::string::npos);
  EXPECT_NE(conversation(9).find("$step7 "), std::string::npos);
}

TEST_F(LoopTest, ATaskThatFitsNoWindowEndsWithTheServersWords) {
  model_.script = {fail(ErrorCode::kTooLong, "maximum context length is 10 tokens")};
  const TaskResult result = run();
  EXPECT_EQ(result.stop, Stop::kModelFailed);
  EXPECT_EQ(result.error->message, "maximum context length is 10 tokens");
}

TEST_F(LoopTest, CuttingKeepsEachToolCallWithItsAnswer) {
  options_.history_tokens = 1'500;
  options_.max_steps = 30;
  const std::string source = R"x({"source":"(module )x" + std::string(600, ';') + R"x()"})x";
  for (int task = 0; task < 3; ++task) {
    for (int i = 0; i < 6; ++i) {
      const std::string id = std::to_string(task) + "/" + std::to_string(i);
      model_.script.push_back(
          calls({{id + "a", "run_program", source}, {id + "b", "run_catalog", R"({"name":"add"})"}}));
    }
    model_.script.push_back(says("ANSWER: ok"));
    run("task " + std::to_string(task));
  }
  for (const ChatQuery& query : model_.queries) {
    std::vector<std::string> open;
    for (const Message& message : query.messages) {
      if (message.role == Role::kTool) {
        ASSERT_FALSE(open.empty());
        EXPECT_EQ(message.tool_call_id, open.front());
        open.erase(open.begin());
        continue;
      }
      EXPECT_TRUE(open.empty());
      for (const ToolCall& call : message.tool_calls) open.push_back(call.id);
    }
    EXPECT_TRUE(open.empty());
  }
  EXPECT_NE(conversation(model_.queries.size() - 1).find("task 2"), std::string::npos);
}

// -- stopping ----------------------------------------------------------------------------------------

TEST_F(LoopTest, ACancelWhileTheModelAnswersEndsTheStep) {
  model_.before_answer = [this](const ChatControl&) { cancel_ = true; };
  const TaskResult result = run();
  EXPECT_EQ(result.stop, Stop::kCancelled);
  cancel_ = false;
  model_.before_answer = nullptr;
  model_.script = {says("ANSWER: later")};
  EXPECT_EQ(run("go on").answer, "later") << "the loop lives on";
}

TEST_F(LoopTest, ACancelReachesTheProgram) {
  model_.script = {
      calls({{"a", "run_catalog", R"({"name":"add"})"}, {"b", "run_catalog", R"({"name":"add"})"}})};
  executor_ = [this](const Program&, const StepContext& context) {
    cancel_ = true;
    EXPECT_TRUE(context.cancel->load());
    return outcome(Outcome::kCancelled, "cancelled");
  };
  EXPECT_EQ(run().stop, Stop::kCancelled);
  EXPECT_EQ(programs_.size(), 1u);
  EXPECT_NE(loop().messages().back().content.find("stopped this step"), std::string::npos);
}

TEST_F(LoopTest, APersonMayGuideAfterACancel) {
  model_.script = {runs("(module)"), says("ANSWER: guided")};
  executor_ = [this](const Program&, const StepContext&) {
    cancel_ = true;
    return outcome(Outcome::kCancelled, "cancelled");
  };
  loop().set_on_cancelled([] { return std::optional<std::string>("use the catalog"); });
  EXPECT_EQ(run().answer, "guided");
  EXPECT_NE(conversation(1).find("says: use the catalog"), std::string::npos);
}

TEST_F(LoopTest, AModelThatFailsEndsTheTaskWithItsReason) {
  model_.script = {fail(ErrorCode::kUnavailable, "The server is down.", "Start it.")};
  const TaskResult result = run();
  EXPECT_EQ(result.stop, Stop::kModelFailed);
  EXPECT_EQ(result.error->to_string(), "The server is down. (Start it.)");
}

// -- the whole of it over HTTP -------------------------------------------------------------------------

TEST_F(LoopTest, RunsAgainstAServerWithFaultsOnTheWay) {
  ModelServer server({streamed_call("run_program", {{"source", "(module)"}}),
                      {{"status", 503}, {"json", {{"error", {{"message", "busy"}}}}}},
                      {{"events", {event({{"content", "ANS"}})}}, {"end", "reset"}},
                      streamed({"ANSWER: ", "42"})});
  class NoWait final : public RetryClock {
    int64_t unix_s() override { return 0; }
    bool wait_ms(uint64_t, const std::atomic<bool>*) override { return true; }
  } clock;
  ModelConfig config;
  config.model = "m";
  config.base_url = server.base_url();
  auto client = ModelClient::create(config, clock);
  ASSERT_TRUE(client);
  Loop loop(
      **client, [this](const Program& p, const StepContext& c) { return executor_(p, c); }, budget_, catalog_,
      "SYSTEM");
  const TaskResult result = loop.run("the task", cancel_);
  EXPECT_EQ(result.answer, "42");
  const nlohmann::json messages = server.line(3)["body"]["messages"];
  EXPECT_EQ(messages[3]["role"], "tool");
  EXPECT_EQ(messages[3]["tool_call_id"], "call_a");
}

}  // namespace
}  // namespace membrane::agent
