// Starting programs: execve(), for ELF programs and for scripts.
#pragma once

#include <string>
#include <vector>

#include "linux/kernel/kernel.h"

namespace membrane::linux {

constexpr uint64_t kMostArgumentBytes = 2u << 20;  // of arguments and environment, with their addresses

struct Execution {
  std::string path;
  LocationRef from = nullptr;  // where a relative path begins; nullptr: the working directory
  std::vector<std::string> arguments, environment;
  LocationRef program = nullptr;  // instead of a path: of execveat() with AT_EMPTY_PATH
};

// The task becomes the only one of its process, with the new program's memory; its registers are at the program's start.
// Errors: those of execve(); then nothing has changed. When the new program fails after the old one is gone, the process ends.
Done execute(Kernel& kernel, Task& task, Execution wanted);

// The path of a program by its name, which is looked for along PATH as execvp() does.
Try<std::string> find_program(Kernel& kernel, const Process& process, const Kernel::Start& start);

// What an ending task leaves behind for the others: clear_child_tid, robust futexes (futexes.cc).
void leave_threads(Task& task);

}  // namespace membrane::linux
