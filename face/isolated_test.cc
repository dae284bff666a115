// What only a session in a process of its own has: its process. Skipped where JavaScript is not installed (tools/get-languages).

#include "face/isolated.h"
#include "face/place_testing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "base/sanitized_testing.h"
#include "membrane/session.h"
#include "membrane/session.hpp"

namespace membrane {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience(60);

// -- processes of this test alone, which are started by a name of its own -------------------------------------------

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {(std::istreambuf_iterator<char>(in)), {}};
}

fs::path name_of_program() { return ::testing::TempDir() + "membrane-worker-" + std::to_string(getpid()); }

std::set<pid_t> processes_of(const fs::path& program) {
  std::set<pid_t> found;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos &&
        text_of(entry.path() / "cmdline") == program.string() + '\0')
      found.insert(static_cast<pid_t>(std::stol(name)));
  }
  return found;
}

// Also as zombies.
bool are_gone(const std::set<pid_t>& processes) {
  return std::ranges::none_of(processes,
                              [](pid_t each) { return fs::exists("/proc/" + std::to_string(each)); });
}

size_t count_descriptors() {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

template <typename Holds>
bool becomes_true(Holds holds) {
  for (const auto until = Clock::now() + kPatience; Clock::now() < until; std::this_thread::yield())
    if (holds()) return true;
  return holds();
}

class IsolatedSession : public WithLanguage<::testing::Test> {
 protected:
  void SetUp() override {
    use_language("js");
    if (IsSkipped()) return;
    const auto program = face::find_worker_program();
    ASSERT_TRUE(program) << program.error().message;
    fs::create_symlink(*program, program_);
    setenv("MEMBRANE_WORKER", program_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("MEMBRANE_WORKER");
    fs::remove(program_);
  }
  Session session(SessionOptions options = {}) const {
    put(options, true);
    auto made = Session::create(language_, std::move(options));
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  // The zygote, and all workers.
  [[nodiscard]] std::set<pid_t> processes() const { return processes_of(program_); }

  const fs::path program_ = name_of_program();
};

TEST_F(IsolatedSession, RunsInAnotherProcessWhichEndsWithIt) {
  Session zygotes = session();
  const std::set<pid_t> first = processes();
  ASSERT_FALSE(first.empty());
  std::set<pid_t> second;
  {
    Session of = session();
    EXPECT_EQ(of.run({.code = "6 * 7"}).result, "42");
    for (const pid_t each : processes())
      if (!first.contains(each)) second.insert(each);
    EXPECT_FALSE(second.empty());
  }
  EXPECT_TRUE(becomes_true([&] { return are_gone(second); }));
  EXPECT_EQ(zygotes.run({.code = "1"}).result, "1");
}

TEST_F(IsolatedSession, ManyLeaveNothing) {
  Session first = session();
  EXPECT_EQ(first.run({.code = "1"}).result, "1");
  const std::set<pid_t> at_start = processes();
  const size_t descriptors = count_descriptors();
  std::set<pid_t> seen;
  for (int i = 0; i < (kIsSanitized ? 20 : 200); ++i) {
    Session of = session();
    ASSERT_EQ(of.run({.code = "6 * 7"}).result, "42") << i;
    if (i % 20 == 0) seen.merge(processes());
  }
  for (const pid_t each : at_start) seen.erase(each);
  EXPECT_EQ(count_descriptors(), descriptors);
  EXPECT_TRUE(becomes_true([&] { return are_gone(seen); }));
}

TEST_F(IsolatedSession, ItsDeathCostsItsSessionOnly) {
  Session other = session();
  other.run({.code = "var x = 41"});
  const std::set<pid_t> first = processes();
  Session of = session();
  std::vector<pid_t> its;
  std::ranges::set_difference(processes(), first, std::back_inserter(its));
  ASSERT_EQ(its.size(), 1u);
  auto branch = of.fork();
  ASSERT_TRUE(branch);
  ASSERT_EQ(kill(its.front(), SIGKILL), 0);
  const Report lost = of.run({.code = "2"});
  EXPECT_EQ(lost.outcome, Outcome::kFailed);
  ASSERT_EQ(lost.failures.size(), 1u);
  EXPECT_EQ(lost.failures[0].code, "worker_lost");
  EXPECT_FALSE(lost.failures[0].hint.empty());
  EXPECT_FALSE(of.dump());
  EXPECT_EQ(of.run({.code = "3"}).outcome, Outcome::kFailed);
  EXPECT_EQ(branch->run({.code = "4"}).result, "4");
  EXPECT_EQ(other.run({.code = "x + 1"}).result, "42");
  Session next = session();
  EXPECT_EQ(next.run({.code = "5"}).result, "5");
}

TEST_F(IsolatedSession, AnotherZygoteTakesThePlaceOfOneThatEnded) {
  Session of = session();
  for (const pid_t each : processes()) kill(each, SIGKILL);
  EXPECT_EQ(of.run({.code = "1"}).outcome, Outcome::kFailed);
  Session next = session();
  EXPECT_EQ(next.run({.code = "6 * 7"}).result, "42");
}

TEST_F(IsolatedSession, AFunctionThatKillsItsWorkerEndsTheTurnOnly) {
  std::set<pid_t> first;
  SessionOptions options;
  options.functions.push_back({.name = "end", .call = [&](const FunctionCall&) {
                                 for (const pid_t each : processes())
                                   if (!first.contains(each)) kill(each, SIGKILL);
                                 return Answer::value("1");
                               }});
  Session keeps_zygote = session();
  first = processes();
  Session of = session(std::move(options));
  const Report report = of.run({.code = "end()"});
  EXPECT_EQ(report.outcome, Outcome::kFailed);
  ASSERT_EQ(report.host_calls.size(), 1u);  // it was called, and the report says so
  EXPECT_EQ(report.host_calls[0].name, "end");
  EXPECT_EQ(keeps_zygote.run({.code = "1"}).result, "1");
}

TEST_F(IsolatedSession, ItsBytesResumeInThisProcessAndBack) {
  SessionOptions options;
  int calls = 0;
  options.functions.push_back({.name = "ask", .call = [&](const FunctionCall&) {
                                 ++calls;
                                 return Answer::later();
                               }});
  for (const bool begins_isolated : {true, false}) {
    calls = 0;
    put(options, begins_isolated);
    auto of = Session::create(language_, options);
    ASSERT_TRUE(of) << of.error().message;
    EXPECT_EQ(of->run({.code = "var n = 1; var m = ask('a') + n; m"}).outcome, Outcome::kWaiting);
    const auto bytes = of->dump();
    ASSERT_TRUE(bytes) << bytes.error().message;
    put(options, !begins_isolated);
    auto again = Session::load(language_, *bytes, options);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->resume({Answer::value("41")}).result, "42");
    EXPECT_EQ(calls, 1);
    const auto later = again->dump();
    ASSERT_TRUE(later);
    put(options, begins_isolated);
    auto back = Session::load(language_, *later, options);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->run({.code = "m"}).result, "42");
  }
}

TEST_F(IsolatedSession, UsesTheSameFuelAndReportsTheSameCalls) {
  const auto report_in = [&](bool isolated) {
    SessionOptions options;
    put(options, isolated);
    EXPECT_TRUE(options.policy.limit("fuel", "1e8"));
    options.functions.push_back(
        {.name = "price", .call = [](const FunctionCall&) { return Answer::value("7"); }});
    auto of = Session::create(language_, std::move(options));
    EXPECT_TRUE(of);
    of->run({.code = "var s = 0"});
    Report report = of->run({.code = "for (let i = 0; i < 20; ++i) s += price(i); console.log(s); s"});
    // A turn that is undone, by steps that are run again: no function is called for these.
    Report undone = of->run({.code = "s = price(0) + 'x'; for (;;) {}"});
    return std::tuple(report.result, report.stdout_text, report.fuel_used, report.host_calls.size(),
                      undone.outcome, undone.fuel_used, of->run({.code = "s"}).result);
  };
  EXPECT_EQ(report_in(true), report_in(false));
}

TEST_F(IsolatedSession, AFunctionMayTakeLongerThanItsTurn) {
  SessionOptions options;
  ASSERT_TRUE(options.policy.limit("wall", "50 ms"));
  std::chrono::milliseconds takes(4000);  // also than the grace that workers have
  options.functions.push_back({.name = "wait", .call = [&](const FunctionCall&) {
                                 poll(nullptr, 0, static_cast<int>(takes.count()));
                                 return Answer::value("1");
                               }});
  Session of = session(std::move(options));
  of.run({.code = "var kept = 42"});
  EXPECT_EQ(of.run({.code = "wait(); for (;;) {}"}).outcome, Outcome::kTimedOut);
  takes = std::chrono::milliseconds(0);
  EXPECT_EQ(of.run({.code = "kept"}).result, "42");
}

TEST_F(IsolatedSession, ForksRunWhileTheOtherWaitsInAFunction) {
  Session* branch = nullptr;
  std::string of_branch;
  SessionOptions options;
  options.functions.push_back(
      {.name = "later", .call = [&](const FunctionCall&) { return Answer::later(); }});
  options.functions.push_back(
      {.name = "other", .call = [&](const FunctionCall&) {
         std::thread([&] { of_branch = branch->run({.code = "n + 1"}).result; }).join();
         return Answer::value("1");
       }});
  Session of = session(std::move(options));
  of.run({.code = "var n = 1"});
  ASSERT_EQ(of.run({.code = "n = later()"}).outcome, Outcome::kWaiting);
  auto forked = of.fork();
  ASSERT_TRUE(forked);
  EXPECT_EQ(forked->resume({Answer::value("5")}).outcome, Outcome::kOk);
  branch = &*forked;
  EXPECT_EQ(of.resume({Answer::value("7")}).outcome, Outcome::kOk);
  EXPECT_EQ(of.run({.code = "other() + n"}).result, "8");
  EXPECT_EQ(of_branch, "6");
}

TEST_F(IsolatedSession, AForkOfTheProcessHasNoPartInIts) {
  Session of = session();
  of.run({.code = "var n = 6"});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool is_refused = of.run({.code = "n"}).outcome == Outcome::kFailed;
    { const Session gone(std::move(of)); }  // ends nothing of the parent's
    SessionOptions options;
    put(options, true);
    auto own = Session::create(language_, options);
    _exit(is_refused && own && own->run({.code = "7"}).result == "7" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(of.run({.code = "n * 7"}).result, "42");
}

TEST_F(IsolatedSession, NothingIsLeftOfAProcessThatIsKilled) {
  int said[2], held[2];
  ASSERT_EQ(pipe2(said, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(held, O_CLOEXEC), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(held[1]);
    Session of = session();
    if (fork() == 0) {  // has its sockets, too, until this test is over
      char none = 0;
      _exit(static_cast<int>(read(held[0], &none, 1)));
    }
    static_cast<void>(!write(said[1], "x", 1));
    of.run({.code = "for (;;) {}"});
    _exit(0);
  }
  char x = 0;
  ASSERT_EQ(read(said[0], &x, 1), 1);
  const std::set<pid_t> its = processes();
  EXPECT_GE(its.size(), 2u);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(becomes_true([&] { return are_gone(its); }));
  for (const int each : {said[0], said[1], held[0], held[1]}) close(each);
}

TEST_F(IsolatedSession, HasNothingOfTheEmbeddersProcess) {
  setenv("MEMBRANE_TEST_SECRET", "in the environment", 1);
  const int open_file = open("/proc/self/status", O_RDONLY);  // not closed on exec
  ASSERT_GE(open_file, 0);
  Session of = session();
  for (const pid_t each : processes()) {
    const fs::path process = "/proc/" + std::to_string(each);
    EXPECT_FALSE(text_of(process / "environ").contains("MEMBRANE_TEST_SECRET"));
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(process / "fd", failed)) {
      std::error_code gone;
      EXPECT_FALSE(fs::read_symlink(entry.path(), gone).string().ends_with("/status"));
    }
  }
  close(open_file);
}

TEST_F(IsolatedSession, WithoutItsProgramItIsRefused) {
  setenv("MEMBRANE_WORKER", "/nowhere/membrane-worker", 1);
  SessionOptions options;
  put(options, true);
  auto made = Session::create(language_, options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, "not_found");
  EXPECT_TRUE(made.error().message.contains("/nowhere/membrane-worker"));
  EXPECT_FALSE(made.error().hint.empty());
  setenv("MEMBRANE_WORKER", "/bin/true", 1);
  made = Session::create(language_, options);
  ASSERT_FALSE(made);
  EXPECT_TRUE(made.error().message.contains("does not start"));
  unsetenv("MEMBRANE_WORKER");
  made = Session::create(language_, options);
  EXPECT_TRUE(made) << made.error().message;
}

}  // namespace
}  // namespace membrane
