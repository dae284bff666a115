// Queues of waiters. A system call that waits holds no stack: it names the queues that may change its answer,
// and is retried when one of them is woken. Threads: the kernel's thread.
#pragma once

#include <cstddef>
#include <vector>

namespace membrane::linux {

class WaitQueue;

// A waiting task or epoll instance. It must not be moved while it is in queues.
class Waiter {
 public:
  virtual ~Waiter() { leave(); }
  // A queue that it is in was woken; it is still in all of its queues. It must not join or leave queues here,
  // only record that it was woken. It may wake
  // another queue if that takes few steps and cannot lead back to this one.
  virtual void on_wake() = 0;
  void join(WaitQueue& queue);
  void leave();  // all queues
  [[nodiscard]] bool is_waiting() const { return !queues_.empty(); }
  [[nodiscard]] bool is_in(const WaitQueue& queue) const;

 private:
  friend class WaitQueue;
  std::vector<WaitQueue*> queues_;
};

class WaitQueue {
 public:
  WaitQueue() = default;
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;
  ~WaitQueue();  // wakes the waiters
  void wake();   // all, in order of arrival
  [[nodiscard]] bool is_empty() const { return waiters_.empty(); }

 private:
  friend class Waiter;
  std::vector<Waiter*> waiters_;
};

}  // namespace membrane::linux
