// Ctrl-C as a flag: it stops the step in progress, not the program.
//
// Threads: one object at a time in a process.
#pragma once

#include <signal.h>

#include <atomic>

namespace membrane::agent {

class Interrupt {
 public:
  // Takes over SIGINT; the destructor restores it.
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Set by SIGINT; the code that acts on it clears it. If it is still set at the third signal, nobody
  // listens, and the process ends as SIGINT ends it.
  [[nodiscard]] std::atomic<bool>& flag();

 private:
  struct sigaction before_{};
};

}  // namespace membrane::agent
