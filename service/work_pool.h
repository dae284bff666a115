// Threads that do what takes longer than a moment, and a bounded queue before them. The first thread is there from the
// start, another is started when there is work for it.
//
// Threads: any. Tasks must not throw.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace membrane::service {

class WorkPool {
 public:
  using Task = std::function<void()>;

  WorkPool(size_t most_threads, size_t most_queued);
  // Does what is queued, then returns.
  ~WorkPool();

  // False when the queue is full, or the pool ends: the task is not done.
  [[nodiscard]] bool post(Task task);
  // For the rest of what was begun: is queued in any case.
  void post_rest(Task task);
  [[nodiscard]] size_t queued() const;

 private:
  void work();
  void push(Task task);  // with the mutex

  const size_t most_threads_, most_queued_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<Task> queue_;
  bool ends_ = false;
  size_t idle_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace membrane::service
