#include "computers/command_run.h"

#include <gtest/gtest.h>

#include "computers/fake_computer_testing.h"

namespace membrane::computers {
namespace {

CommandRun run_of(std::vector<std::string> words) {
  CommandRun run;
  run.spec.arguments = std::move(words);
  return run;
}

class CommandRunTest : public ::testing::Test {
 protected:
  sandbox::Report run(CommandRun of) { return run_command(computer_, std::move(of)); }
  FakeComputer computer_{{}};
};

TEST_F(CommandRunTest, ReportsWhatItPrintedAndItsExitCode) {
  const sandbox::Report printed = run(run_of({"echo", "hello"}));
  EXPECT_EQ(printed.outcome, sandbox::Outcome::kOk);
  EXPECT_EQ(printed.stdout_text, "hello\n");
  EXPECT_EQ(printed.exit_code, 0);
  EXPECT_EQ(printed.memory_peak_bytes, 4096u);
  EXPECT_EQ(run(run_of({"exit", "3"})).exit_code, 3);
}

TEST_F(CommandRunTest, ReportsOutputAsItComes) {
  CommandRun of = run_of({"echo", "hello"});
  std::string heard;
  of.on_output = [&](std::string_view text) { heard += text; };
  const sandbox::Report report = run(std::move(of));
  EXPECT_EQ(heard, "hello\n");
  EXPECT_EQ(report.stdout_text, "hello\n");
}

TEST_F(CommandRunTest, ReportsBytesThatAreNotTextAsRequested) {
  CommandRun of = run_of({"echo", "a\xFF\xC3\xA9"});
  EXPECT_EQ(run(of).stdout_text, "a\xEF\xBF\xBD\xC3\xA9\n");
  std::string heard;
  of.is_exact = true;
  of.on_output = [&](std::string_view bytes) { heard += bytes; };
  EXPECT_EQ(run(of).stdout_text, "a\xFF\xC3\xA9\n");
  EXPECT_EQ(heard, "a\xFF\xC3\xA9\n");
}

TEST_F(CommandRunTest, GivesItInput) {
  CommandRun of = run_of({"cat"});
  of.input = "short";
  EXPECT_EQ(run(of).stdout_text, "short");
  of.input = std::string(100'000, 'x');
  EXPECT_EQ(run(of).stdout_text, of.input);
}

TEST_F(CommandRunTest, ThreadsGiveItInputAsItComes) {
  CommandRun of = run_of({"cat"});
  int pieces = 0;
  of.read_input = [&](std::chrono::milliseconds) {
    return ++pieces < 3 ? sandbox::InputPiece{.bytes = "a"}
                        : sandbox::InputPiece{.bytes = "b", .is_end = true};
  };
  EXPECT_EQ(run(std::move(of)).stdout_text, "aab");
}

TEST_F(CommandRunTest, EndsItAtItsLimits) {
  CommandRun late = run_of({"sleep"});
  late.limits.wall_ms = 1;
  EXPECT_EQ(run(std::move(late)).outcome, sandbox::Outcome::kTimedOut);
  CommandRun loud = run_of({"flood"});
  loud.limits.output_bytes = 1'000;
  const sandbox::Report report = run(std::move(loud));
  EXPECT_EQ(report.outcome, sandbox::Outcome::kOutOfOutput);
  EXPECT_EQ(report.stdout_text.size(), 1'000u);
}

TEST_F(CommandRunTest, NamesTheLimitsThatItCameTo) {
  const sandbox::Report report = run(run_of({"bomb"}));
  ASSERT_EQ(report.limits_reached.size(), 1u);
  EXPECT_EQ(report.limits_reached[0].name, "tasks");
  EXPECT_EQ(report.limits_reached[0].times, 3u);
  EXPECT_EQ(run(run_of({"spin"})).outcome, sandbox::Outcome::kOutOfCpu);
}

TEST_F(CommandRunTest, EndsItWhenItsOwnerSays) {
  CommandRun of = run_of({"sleep"});
  of.is_cancelled = [] { return true; };
  EXPECT_EQ(run(std::move(of)).outcome, sandbox::Outcome::kCancelled);
}

TEST_F(CommandRunTest, SaysWhichSignalEndedIt) {
  CommandRun of = run_of({"sleep"});
  of.on_begun = [](const std::shared_ptr<linux::Command>& command) { command->signal(SIGTERM); };
  const sandbox::Report report = run(std::move(of));
  EXPECT_EQ(report.outcome, sandbox::Outcome::kTrapped);
  EXPECT_EQ(report.errors.at(0).code, "signal");
}

TEST_F(CommandRunTest, RefusesAProgramThatDoesNotExist) {
  EXPECT_EQ(run(run_of({"/bin/missing"})).outcome, sandbox::Outcome::kInvalid);
}

}  // namespace
}  // namespace membrane::computers
