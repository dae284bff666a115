// Ctrl-C as a flag: it stops the step that is under way, not the program.
//
// Threads: one object at a time in a process.
#pragma once

#include <signal.h>

#include <atomic>

namespace membrane::agent {

class Interrupt {
 public:
  // Takes SIGINT over; the destructor gives it back.
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Set by SIGINT; whoever acts on it clears it. When it is set still at the third signal, nobody listens,
  // and the process ends as SIGINT ends it.
  [[nodiscard]] std::atomic<bool>& flag();

 private:
  struct sigaction before_{};
};

}  // namespace membrane::agent
