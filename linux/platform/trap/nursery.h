// The process that makes stubs (stub/jail.c), and the namespaces that they live in. All stubs are children of this process,
// in a process group of their own, so that none of their numbers is used again before this process has asked for its end.
//
// This process must not ignore SIGCHLD, nor wait for children that are not its own by number or group.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "linux/abi/answer.h"
#include "linux/platform/trap/bell.h"
#include "linux/platform/trap/trap.h"

namespace membrane::linux {

class Nursery {
 public:
  // Errors: kUnsupported, kUnavailable.
  // `device` is /dev/kvm, for processes that are monitors (linux/platform/kvm/); -1: they are stubs.
  static Result<std::unique_ptr<Nursery>> start(const Bell& bell, const TrapOptions& options,
                                                int device = -1);
  // Ends all stubs, and whatever guests may have made.
  ~Nursery();
  Nursery(const Nursery&) = delete;

  // Asks for a stub with these control pages, this socket and, for a monitor, this machine's memory. The requests' answers
  // come in their order.
  bool request(int controls, int socket, int machine = -1);
  // The process number of the oldest request's stub; waits for it.
  Try<pid_t> collect();

  // What the stubs call `inner`, as this process calls it; 0 when there is none.
  [[nodiscard]] pid_t number_of(pid_t inner) const;
  // Whether it is a process that this one has to wait for, and not the nursery.
  [[nodiscard]] bool is_stub(pid_t process) const;
  // The processes that this one has to wait for, but for the nursery, as far as the system tells (/proc).
  [[nodiscard]] std::vector<pid_t> processes() const;
  // The number of a process of the group that has ended, which is free from then on; 0: there is none.
  pid_t reap();
  [[nodiscard]] pid_t process() const { return process_; }
  [[nodiscard]] uint64_t gate_entry() const { return gate_entry_; }
  [[nodiscard]] bool has_ended() const { return has_ended_; }

  [[nodiscard]] const std::vector<MissingWall>& missing() const { return missing_; }

 private:
  Nursery() = default;
  Status raise(const TrapOptions& options, bool has_device);
  bool name_user(const TrapNurseryStart& start);

  pid_t process_ = -1, group_ = -1;
  HostFile socket_, name_space_;
  uint64_t gate_entry_ = 0;
  bool has_ended_ = false;
  std::vector<MissingWall> missing_;
};

}  // namespace membrane::linux
