// Starts programs: execve(), for ELF programs and for scripts.
#pragma once

#include <string>
#include <vector>

#include "linux/kernel/kernel.h"

namespace membrane::linux {

constexpr uint64_t kMostArgumentBytes = 2u << 20;  // arguments and environment, with their addresses

struct Execution {
  std::string path;
  LocationRef from = nullptr;  // base of a relative path; nullptr: the working directory
  std::vector<std::string> arguments, environment;
  LocationRef program = nullptr;  // instead of a path: for execveat() with AT_EMPTY_PATH
};

// The task becomes the only one of its process, with the new program's memory; its registers are at the
// program's entry point. Errors: those of execve(); then nothing has changed. If the new program fails after
// the old one is gone, the process ends.
Done execute(Kernel& kernel, Task& task, Execution wanted);

// Finds a program by name along PATH, as execvp() does.
Try<std::string> find_program(Kernel& kernel, const Process& process, const Kernel::Start& start);

// What an ending task does for others: clear_child_tid, robust futexes (futexes.cc).
void leave_threads(Task& task);

}  // namespace membrane::linux
