// The texts of /proc/PID. Threads: the kernel's thread.
#pragma once

#include <string>
#include <string_view>

#include "linux/abi/answer.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {

// A process to be shown, and one of its tasks; a zombie has no task.
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
// The position and flags of an open file.
Try<std::string> fdinfo_text(File& file, bool closes_on_exec);
// The mounts, in the format of /proc/mounts and mountinfo.
std::string mounts_text();
std::string mountinfo_text();

}  // namespace membrane::linux
