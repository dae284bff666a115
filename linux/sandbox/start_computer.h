// How the parts of this directory start live computers.
#pragma once

#include <sys/types.h>

#include <memory>
#include <utility>

#include "base/result.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/kernel_process.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::linux {

// A handle, from pidfd_open(), of a child that was not waited for. None: see errno.
HostFile handle_of(pid_t child);

// A kernel process that dies with this object.
class OwnedProcess {
 public:
  static OwnedProcess of_child(pid_t child);
  // `handle`: from handle_of(); `child`: its process id if it is the caller's own child, which is then waited
  // for; else 0.
  OwnedProcess(HostFile handle, pid_t child) : handle_(std::move(handle)), child_(child) {}
  OwnedProcess(OwnedProcess&& other) noexcept
      : handle_(std::move(other.handle_)), child_(std::exchange(other.child_, 0)) {}
  OwnedProcess& operator=(OwnedProcess&&) = delete;
  ~OwnedProcess();
  void end();  // from any thread

 private:
  HostFile handle_;
  pid_t child_;
};

// Sends the spec to a kernel process that waits for it at the other end of the socket.
Result<std::unique_ptr<LiveComputer>> begin_computer(HostFile socket, OwnedProcess process,
                                                     const LiveSpec& spec);
// Waits for the end of a child whose socket is closed; one that takes too long is killed.
void end_child(pid_t child);
// Whether its clock should be virtual: as in the kept sandbox, or as the spec says.
bool wants_virtual_clock(const LiveSpec& spec);
// Whether the demanded platform, or else this machine's faster one, is `kvm`.
bool wants_kvm(const LiveSpec& spec);
// Errors: kNotFound.
Result<HostFile> open_image(const std::string& path);

}  // namespace membrane::linux
