#include "base/subprocess.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

namespace membrane {
namespace {

Subprocess shell(const std::string& script) { return {.arguments = {"/bin/sh", "-c", script}}; }

TEST(SubprocessTest, ItsOutputAndItsExitCodeAreKnown) {
  const auto end = run_subprocess(shell("echo out; echo err >&2; exit 7"));
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->exit_code, 7);
  EXPECT_EQ(end->output, "out\nerr\n");
}

TEST(SubprocessTest, ItHasAnEmptyInputAndADirectoryAndVariablesOfItsOwn) {
  setenv("SUBPROCESS_KEPT", "kept", 1);
  setenv("SUBPROCESS_SET", "before", 1);
  Subprocess process = shell("cat; pwd; echo $SUBPROCESS_KEPT $SUBPROCESS_SET");
  process.directory = "/";
  process.environment = {{"SUBPROCESS_SET", "after"}};
  const auto end = run_subprocess(process);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output, "/\nkept after\n");
}

TEST(SubprocessTest, ArgumentsAreNoShells) {
  const auto end = run_subprocess({.arguments = {"echo", "$HOME; `id`", "*"}});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output, "$HOME; `id` *\n");
}

TEST(SubprocessTest, OfALongOutputTheEndIsKept) {
  Subprocess process = shell("i=0; while [ $i -lt 5000 ]; do echo a line; i=$((i+1)); done; echo the end");
  process.most_output_bytes = 100;
  const auto end = run_subprocess(process);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output.size(), 100u);
  EXPECT_TRUE(end->output.ends_with("the end\n"));
}

TEST(SubprocessTest, AProgramThatIsNotThereIsNamed) {
  const auto end = run_subprocess({.arguments = {"no-such-program-of-membrane"}});
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::kNotFound);
  EXPECT_NE(end.error().message.find("no-such-program-of-membrane"), std::string::npos);
}

TEST(SubprocessTest, OneThatIsKilledHasTheSignalsNumber) {
  const auto end = run_subprocess(shell("kill -9 $$"));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_code, 128 + SIGKILL);
}

// False for a zombie.
bool is_running(pid_t id) {
  std::FILE* const file = std::fopen(("/proc/" + std::to_string(id) + "/stat").c_str(), "r");
  if (file == nullptr) return false;
  char letter = 'Z';
  const bool known = std::fscanf(file, "%*d %*s %c", &letter) == 1;
  std::fclose(file);
  return known && letter != 'Z' && letter != 'X';
}

// The child process is in the same group, and ends with it.
TEST(SubprocessTest, AtTheDeadlineItsWholeGroupEnds) {
  std::string directory = ::testing::TempDir() + "subprocess-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  Subprocess process = shell("sleep 3600 & echo $! > child; wait");
  process.directory = directory;
  process.most_time = std::chrono::hours(1);
  pid_t child = 0;
  process.watch = [&]() -> Status {
    std::FILE* const file = std::fopen((directory + "/child").c_str(), "r");
    if (file == nullptr) return {};
    const bool known = std::fscanf(file, "%d", &child) == 1;
    std::fclose(file);
    if (!known) return {};
    return fail(ErrorCode::kCancelled, "stopped", "");
  };
  const auto end = run_subprocess(process);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::kCancelled);
  while (is_running(child)) sched_yield();
  std::filesystem::remove_all(directory);

  process = shell("sleep 3600");
  process.most_time = {};
  EXPECT_EQ(run_subprocess(process).error().code, ErrorCode::kTimedOut);
}

}  // namespace
}  // namespace membrane
