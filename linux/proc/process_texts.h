// The texts of /proc/PID. Threads: the kernel's thread.
#pragma once

#include <string>
#include <string_view>

#include "linux/abi/answer.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {

// A process that is looked at, and the task of it; a zombie has no task.
struct ProcessView {
  Kernel& kernel;
  Process& process;
  Task* task = nullptr;
};

Try<std::string> cmdline_text(const ProcessView& of);
Try<std::string> environ_text(const ProcessView& of);
Try<std::string> comm_text(const ProcessView& of);
Done set_comm(const ProcessView& of, std::string_view name);
Try<std::string> maps_text(const ProcessView& of);
Try<std::string> stat_text(const ProcessView& of);
Try<std::string> statm_text(const ProcessView& of);
Try<std::string> status_text(const ProcessView& of);
Try<std::string> limits_text(const ProcessView& of);
// Of an open file: position, flags.
Try<std::string> fdinfo_text(File& file, bool closes_on_exec);
// What is mounted, as /proc/mounts and mountinfo have it.
std::string mounts_text();
std::string mountinfo_text();

}  // namespace membrane::linux
