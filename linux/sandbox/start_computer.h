// How the parts of this folder start live computers.
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/result.h"
#include "linux/sandbox/kernel_process.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::linux {

// Sends the spec to a kernel process that waits for it. `child`: that process, when it is the caller's own child; else 0.
Result<std::unique_ptr<LiveComputer>> begin_computer(HostFile socket, const LiveSpec& spec, pid_t child);
// Waits for the end of a child whose socket is closed; one that takes too long is killed.
void end_child(pid_t child);
// Whether its clock is to be a virtual one: that of the kept sandbox, or as the spec says.
bool wants_virtual_clock(const LiveSpec& spec);
// Whether the platform that is demanded, or the faster one of this machine, is `kvm`.
bool wants_kvm(const LiveSpec& spec);
// Errors: kNotFound.
Result<HostFile> open_image(const std::string& path);

}  // namespace membrane::linux
