// Skipped where no group can be created: without root and without a delegated one.
#include "worker/control_groups.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <vector>

#include "worker/walls.h"

namespace membrane::worker {
namespace {

constexpr uint64_t kMemoryBytes = 64u << 20, kProcesses = 8;

// Runs `act` in a process in the group; returns its status as in waitpid().
int status_of(ControlGroups& groups, const std::function<int()>& act) {
  int go[2] = {};
  EXPECT_EQ(pipe(go), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    char byte = 0;
    if (read(go[0], &byte, 1) != 1) _exit(1);
    _exit(act());
  }
  const Status added = groups.add(pid);
  EXPECT_TRUE(added) << added.error().message;
  EXPECT_EQ(write(go[1], "x", 1), 1);
  close(go[0]);
  close(go[1]);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

TEST(ControlGroups, EndWhoTakesMoreMemoryThanTheyMay) {
  ControlGroups groups = ControlGroups::make({.memory_bytes = kMemoryBytes});
  if (groups.bounded().empty()) GTEST_SKIP() << groups.missing();
  const int status = status_of(groups, [] {
    const size_t bytes = 4 * kMemoryBytes;
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 2;
    for (size_t at = 0; at < bytes; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

// Like a zygote and a compromised worker of it: memory in files counts for the group, and belongs to no
// process.
TEST(ControlGroups, EndAWorkerBeforeWhatItWasForkedFrom) {
  ControlGroups groups = ControlGroups::make({.memory_bytes = kMemoryBytes});
  if (groups.bounded().empty()) GTEST_SKIP() << groups.missing();
  const int status = status_of(groups, [] {
    std::vector<char> own(kMemoryBytes / 2, 'x');  // more than the worker has
    const pid_t worker = fork();
    if (worker == 0) {
      Walls walls;
      enclose({}, walls);
      const int file = memfd_create("file", 0);
      const std::vector<char> some(1u << 20, 'x');
      while (write(file, some.data(), some.size()) > 0) continue;
      _exit(1);
    }
    int how = 0;
    if (waitpid(worker, &how, 0) != worker || own[own.size() / 2] != 'x') return 2;
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL ? 0 : 3;
  });
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ControlGroups, LetNoMoreProcessesBeThanTheyMay) {
  ControlGroups groups = ControlGroups::make({.processes = kProcesses});
  if (groups.bounded().empty()) GTEST_SKIP() << groups.missing();
  const int status = status_of(groups, [] {
    std::vector<pid_t> children;
    for (pid_t child = 0; children.size() < 64 && (child = fork()) >= 0; children.push_back(child))
      if (child == 0)
        while (true) pause();
    for (const pid_t child : children) kill(child, SIGKILL), waitpid(child, nullptr, 0);
    const auto made = static_cast<int>(children.size());
    return made;
  });
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(kProcesses) - 1);
}

TEST(ControlGroups, AreRemovedAtTheirEndAndAfterACrash) {
  const pid_t crashed = fork();
  if (crashed == 0) {
    auto* const groups = new ControlGroups(ControlGroups::make({.processes = kProcesses}));
    _exit(groups->bounded().empty() ? 1 : 0);  // without its destructor, as one that is killed
  }
  int status = 0;
  waitpid(crashed, &status, 0);
  if (WEXITSTATUS(status) != 0) GTEST_SKIP() << "no group can be made here";
  std::filesystem::path own;
  {
    const ControlGroups groups = ControlGroups::make({.processes = kProcesses});
    ASSERT_EQ(groups.directories().size(), 1u) << groups.missing();
    own = groups.directories().front();
    EXPECT_TRUE(std::filesystem::exists(own));
    EXPECT_FALSE(std::filesystem::exists(own.parent_path() / ("membrane-" + std::to_string(crashed))));
  }
  EXPECT_FALSE(std::filesystem::exists(own));
}

TEST(ControlGroups, SayWhatIsNotBounded) {
  const ControlGroups groups = ControlGroups::make({.memory_bytes = kMemoryBytes, .processes = kProcesses});
  EXPECT_EQ(groups.bounded().size() == 2, groups.missing().empty()) << groups.missing();
  EXPECT_TRUE(ControlGroups::make({}).missing().empty());
}

}  // namespace
}  // namespace membrane::worker
