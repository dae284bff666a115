// The process that creates stubs (stub/jail.c), and their namespaces. All stubs are children of this process,
// in a process group of their own, so that none of their process ids is reused before this process has waited
// for them.
//
// This process must not ignore SIGCHLD, nor wait for children except by their process id or group.
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
  // `device` is /dev/kvm, for monitor processes (linux/platform/kvm/); -1: they are stubs.
  static Result<std::unique_ptr<Nursery>> start(const Bell& bell, const TrapOptions& options,
                                                int device = -1);
  // Ends all stubs and all processes that guests may have created.
  ~Nursery();
  Nursery(const Nursery&) = delete;

  // Requests a stub with these control pages, this socket and, for a monitor, this machine memory. Answers
  // arrive in the order of the requests.
  bool request(int controls, int socket, int machine = -1);
  // Waits for the process id of the oldest request's stub.
  Try<pid_t> collect();

  // The process id in this namespace of the process that stubs see as `inner`; 0 when there is none.
  [[nodiscard]] pid_t number_of(pid_t inner) const;
  // Whether it is a process that this one must wait for, other than the nursery.
  [[nodiscard]] bool is_stub(pid_t process) const;
  // The processes that this one must wait for, except the nursery, as far as /proc reports them.
  [[nodiscard]] std::vector<pid_t> processes() const;
  // The id of an ended process of the group, which may be reused from then on; 0: there is none.
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
