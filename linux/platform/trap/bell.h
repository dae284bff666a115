// What the kernel process sleeps on: a page that all stubs share, with a futex word and hints about threads
// that have stopped. The page contains only hints: a hostile guest can cause spurious wake-ups, or make the
// kernel process sleep until its timeout.
//
// Threads: one uses it, except for wake().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "linux/platform/trap/host_file.h"
#include "linux/platform/trap/stub/layout.h"

namespace membrane::linux {

class Bell {
 public:
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;

  // Whether its memory could be allocated; and the descriptor of that memory, for the stubs.
  explicit operator bool() const { return page_ != nullptr; }
  [[nodiscard]] int file() const { return file_.number(); }

  // The index of a thread that may have stopped; -1: none for now.
  int next_hint();

  // From any thread or signal handler.
  void wake();
  bool take_wake() { return is_woken_.exchange(false); }

  // The value of the futex word. To sleep without missing a ring: call rings(), look for work, call
  // begin_sleep(), look again, and call sleep() or end_sleep().
  [[nodiscard]] uint32_t rings() const;
  // False: a hint or a wake-up came in between.
  bool begin_sleep();
  // The same for a caller that waits for one thread only, and looks at its page again.
  void begin_sleep_for_one();
  void sleep(uint32_t rings, std::chrono::nanoseconds most);
  void end_sleep();

 private:
  HostFile file_;
  TrapBell* page_ = nullptr;
  std::atomic<bool> is_woken_ = false;
  uint64_t words_ = 0, bits_ = 0;  // hints taken but not yet returned
  int word_ = 0;
};

// Wakes all waiters of a word of shared memory, which may include a guest.
void wake_futex(uint32_t& word);

}  // namespace membrane::linux
