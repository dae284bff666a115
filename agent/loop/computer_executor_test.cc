#include "agent/loop/computer_executor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "agent/actions/computer_actions.h"
#include "agent/model/model_client.h"
#include "agent/model/model_server_testing.h"
#include "computers/fake_computer_testing.h"
#include "computers/settings.h"

namespace membrane::agent {
namespace {

class ComputerExecutorTest : public ::testing::Test {
 protected:
  ComputerExecutorTest() {
    options_.policy.limits = computers::usual_limits();
    options_.create = [this](int kept) -> Result<std::shared_ptr<linux::LiveComputer>> {
      ++made_;
      linux::LiveSpec spec;
      spec.image = "image";
      spec.kept = kept;
      return source_.create(spec);
    };
    context_.cancel = &cancel_;
  }
  sandbox::Report act(std::string_view entry, const std::string& source,
                      std::vector<std::string> arguments = {}, const std::string& input = "") {
    if (!executor_) executor_ = computer_executor(options_);
    Program program;
    program.written_in = kShell;
    program.entry = entry;
    program.source = source;
    program.arguments = std::move(arguments);
    program.input = input;
    return executor_(program, context_);
  }

  computers::FakeSource source_;
  int made_ = 0;
  ComputerExecutorOptions options_;
  Executor executor_;
  std::atomic<bool> cancel_ = false;
  StepContext context_;
};

TEST_F(ComputerExecutorTest, RunsCommandsInOneSandbox) {
  const sandbox::Report report = act(kRunEntry, "echo hello");
  EXPECT_EQ(report.stdout_text, "hello\n");
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.platform, "test");
  EXPECT_EQ(act(kRunEntry, "exit 3").exit_code, 3);
  EXPECT_EQ(made_, 1);
}

TEST_F(ComputerExecutorTest, ACommandsReportListsItsHostCalls) {
  options_.after_command = [](sandbox::Report& report) {
    report.host_calls.emplace_back().name = "http.request";
  };
  EXPECT_EQ(act(kRunEntry, "echo hello").host_calls.size(), 1u);
}

TEST_F(ComputerExecutorTest, ACommandHasNoMoreTimeThanItAskedFor) {
  options_.policy.limits.wall_ms = 100;
  EXPECT_EQ(act(kRunEntry, "sleep", {"1"}).outcome, sandbox::Outcome::kTimedOut);
}

TEST_F(ComputerExecutorTest, AModelLearnsWhatToDoAboutALimit) {
  options_.policy.limits.wall_ms = 2'000;
  EXPECT_EQ(
      act(kRunEntry, "sleep", {"1"}).errors.at(0).hint,
      "Give it more time: timeout_s may be 2 at most. Or start it with & and its output in a file, and look "
      "there later.");
  options_.policy.limits.wall_ms = 100;
  executor_ = nullptr;
  EXPECT_EQ(act(kRunEntry, "sleep").errors.at(0).hint,
            "No command has more time. Make it do less, or start it with & and its output in a file, and "
            "look there "
            "later.");
  options_.policy.limits.output_bytes = 10;
  options_.policy.limits.wall_ms = 100'000;
  executor_ = nullptr;
  EXPECT_EQ(act(kRunEntry, "flood").errors.at(0).hint,
            "Print less: write it to a file, and look at parts of that.");
}

TEST_F(ComputerExecutorTest, WritesAndReadsBelowItsDirectory) {
  EXPECT_TRUE(act(kWriteEntry, "one\ntwo\nthree\n", {"a.txt"}).stdout_text.contains("/root/a.txt"));
  EXPECT_EQ(act(kReadEntry, "", {"/root/a.txt"}).stdout_text, "one\ntwo\nthree\n");
  EXPECT_EQ(act(kReadEntry, "", {"a.txt", "2", "1"}).stdout_text, "two\n[lines 2 to 2 of 3]\n");
  EXPECT_EQ(act(kReadEntry, "", {"a.txt", "9"}).stdout_text, "[the file has 3 lines]\n");
  EXPECT_EQ(act(kReadEntry, "", {"b.txt"}).outcome, sandbox::Outcome::kInvalid);
}

TEST_F(ComputerExecutorTest, AnEditReplacesTextThatOccursOnce) {
  act(kWriteEntry, "a b b c\n", {"f"});
  EXPECT_TRUE(act(kEditEntry, "X", {"f"}, "a b").stdout_text.contains("line 1"));
  EXPECT_EQ(act(kReadEntry, "", {"f"}).stdout_text, "X b c\n");
  const sandbox::Report missing = act(kEditEntry, "Y", {"f"}, "q");
  EXPECT_EQ(missing.outcome, sandbox::Outcome::kInvalid);
  EXPECT_TRUE(missing.errors.at(0).message.contains("0 times"));
  act(kWriteEntry, "b b\n", {"f"});
  EXPECT_TRUE(act(kEditEntry, "Y", {"f"}, "b").errors.at(0).message.contains("2 times"));
}

TEST_F(ComputerExecutorTest, UndoSetsFilesBack) {
  act(kWriteEntry, "first", {"f"});
  act(kWriteEntry, "second", {"f"});
  act(kEditEntry, "X", {"f"}, "absent");  // changes nothing, so that it is no step
  act(kReadEntry, "", {"f"});
  EXPECT_EQ(act(kUndoEntry, "", {"1"}).outcome, sandbox::Outcome::kOk);
  EXPECT_EQ(act(kReadEntry, "", {"f"}).stdout_text, "first\n");
  act(kUndoEntry, "");
  EXPECT_EQ(act(kReadEntry, "", {"f"}).outcome, sandbox::Outcome::kInvalid);
  EXPECT_EQ(act(kUndoEntry, "").outcome, sandbox::Outcome::kInvalid);
}

TEST_F(ComputerExecutorTest, ADiffIsOfferedWhereItIsPossible) {
  EXPECT_EQ(act(kDiffEntry, "").outcome, sandbox::Outcome::kInvalid);
  executor_ = nullptr;
  options_.diff = [](linux::LiveComputer&) { return Result<std::string>("diff --git a/f b/f\n"); };
  EXPECT_EQ(act(kDiffEntry, "").stdout_text, "diff --git a/f b/f\n");
}

TEST_F(ComputerExecutorTest, AnotherConversationHasAnotherSandbox) {
  act(kWriteEntry, "x", {"f"});
  context_.conversation = 1;
  EXPECT_EQ(act(kReadEntry, "", {"f"}).outcome, sandbox::Outcome::kInvalid);
  EXPECT_EQ(made_, 2);
}

TEST_F(ComputerExecutorTest, CopiesADirectoryIn) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "copied";
  std::filesystem::create_directories(folder / "sub");
  std::ofstream(folder / "sub/a") << "text";
  computers::FakeComputer computer({});
  ASSERT_TRUE(copy_into(computer, folder.string(), "/root/copied"));
  EXPECT_EQ(*computer.read_file("/root/copied/sub/a", 0, 100), "text");
  EXPECT_EQ(copy_into(computer, (folder / "absent").string(), "/x").error().code, ErrorCode::kNotFound);
  std::filesystem::remove_all(folder);
}

// A model that acts by tool calls, and the observations that it gets.
TEST_F(ComputerExecutorTest, AModelWorksByCommandsAndEdits) {
  ModelServer server(
      {streamed_call("write_file", {{"path", "a.c"}, {"content", "int x = 1;\n"}}, "call_1"),
       streamed_call("edit_file", {{"path", "a.c"}, {"old", "x = 1"}, {"new", "x = 2"}}, "call_2"),
       streamed_call("edit_file", {{"path", "a.c"}, {"old", "x = 1"}, {"new", "x = 3"}}, "call_3"),
       streamed_call("run_command", {{"command", "exit 4"}}, "call_4"),
       streamed_call("read_file", {{"path", "a.c"}}, "call_5"),
       streamed_call("submit", {{"answer", "done"}}, "call_6")});
  ModelConfig config;
  config.model = "scripted";
  config.base_url = server.base_url();
  auto client = ModelClient::create(std::move(config));
  ASSERT_TRUE(client) << client.error().message;
  const Catalog catalog;
  LoopOptions loop_options;
  loop_options.languages = {shell()};
  auto budget = std::make_shared<policy::Budget>(options_.policy.limits);
  budget->set_deadline(std::chrono::steady_clock::time_point::max());
  Loop loop(**client, computer_executor(options_), budget, catalog, "SYSTEM", loop_options);
  const TaskResult result = loop.run("the task", cancel_);
  EXPECT_EQ(result.stop, Stop::kAnswered);
  EXPECT_EQ(result.totals.steps, 4u);
  EXPECT_EQ(result.totals.repairs, 1u);
  std::vector<std::string> observations;
  for (const Message& message : loop.messages())
    if (message.role == Role::kTool) observations.push_back(message.content);
  ASSERT_EQ(observations.size(), 6u);
  EXPECT_TRUE(observations[1].contains("edited /root/a.c at line 1"));
  EXPECT_TRUE(observations[2].contains("stands 0 times"));
  EXPECT_TRUE(observations[3].contains("exit code 4"));
  EXPECT_TRUE(observations[4].contains("int x = 2;"));
  EXPECT_FALSE(observations[4].contains("fuel"));
}

}  // namespace
}  // namespace membrane::agent
