// Starts whole processes and measures each from spawn to exit: `measure_process ROUNDS -- CMD… [-- CMD…]…`
// prints a line a run: index of the command, wall time in ns, peak memory in KiB.
//
// The commands take turns, so that what disturbs the machine disturbs all alike. It is a program of its own,
// and a small one, because a child's peak memory begins with its parent's: the kernel carries the high-water
// mark of the forked process across exec.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kWarmUpRounds = 3;  // they fill the page cache, and are not printed

using Command = std::vector<char*>;  // null-terminated, as execv takes it

std::vector<Command> read_commands(int argc, char** argv) {
  std::vector<Command> commands;
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--") == 0) {
      commands.emplace_back();
    } else if (!commands.empty()) {
      commands.back().push_back(argv[i]);
    }
  }
  for (Command& command : commands) command.push_back(nullptr);
  return commands;
}

// Runs one command with its standard output thrown away. False when it did not exit with 0.
bool measure(const Command& command, int silent, long long& wall_ns, long& peak_kib) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = vfork();
  if (child == 0) {
    dup2(silent, STDOUT_FILENO);
    execvp(command[0], command.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child) return false;
  wall_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  peak_kib = usage.ru_maxrss;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Command> commands = read_commands(argc, argv);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 0;  // NOLINT(cert-err34-c): 0 is refused below
  const int silent = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (rounds < 1 || commands.empty() || silent < 0) {
    std::fprintf(stderr, "usage: measure_process ROUNDS -- COMMAND… [-- COMMAND…]…\n");
    return 2;
  }
  for (int round = -kWarmUpRounds; round < rounds; ++round) {
    for (size_t i = 0; i < commands.size(); ++i) {
      long long wall_ns = 0;
      long peak_kib = 0;
      if (!measure(commands[i], silent, wall_ns, peak_kib)) {
        std::fprintf(stderr, "measure_process: %s failed\n", commands[i][0]);
        return 1;
      }
      if (round >= 0) std::printf("%zu %lld %ld\n", i, wall_ns, peak_kib);
    }
  }
}
