// Faults in guest memory become traps.
//
// Each tier registers a GuestCode while it runs guest code on a thread. When an access of that thread faults, the
// signal handler asks the innermost GuestCode whether the fault is its own. Any other fault goes to the handler that
// was installed before.
//
// Threads: the handler is installed once for the process; GuestCodes are of one thread.
#pragma once

namespace membrane::engine {

// Installs the handler at its first call.
void install_fault_handler();

class GuestCode {
 public:
  virtual ~GuestCode();  // must still be the innermost of its thread
  GuestCode(const GuestCode&) = delete;
  GuestCode& operator=(const GuestCode&) = delete;

  // Called by the signal handler, for an access to `address` by the instruction that `context` (a ucontext_t) names.
  // True: the access was the guest's, and the thread continues as `context` now says. It may also jump instead of
  // returning. False: it was not the guest's, and nothing changed.
  virtual bool take_fault(const void* address, void* context) = 0;

 protected:
  GuestCode();  // from now on the innermost of this thread

 private:
  GuestCode* const outer_;
};

}  // namespace membrane::engine
