// Threads for longer work, with a bounded queue. The first thread exists from the start, another is started
// when there is work for it.
//
// Each task has an owner. Owners take turns, and none gets all threads or the whole queue, so one with many
// or long tasks does not keep the others waiting.
//
// Threads: any. Tasks must not throw.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace membrane::service {

class WorkPool {
 public:
  using Task = std::function<void()>;

  struct Bounds {
    size_t threads = 8, queued = 1'000;  // at most
    // The limit for one owner: three quarters. With few threads all but one; a single one cannot be spared.
    [[nodiscard]] size_t threads_of_each() const {
      return threads < 2 ? threads : std::min(threads - 1, threads - threads / 4);
    }
    [[nodiscard]] size_t queued_of_each() const { return queued - queued / 4; }
  };
  explicit WorkPool(const Bounds& bounds);
  // Finishes what is queued, then returns.
  ~WorkPool();

  // False when the queue has no room for the owner, or the pool ends: the task is not done.
  [[nodiscard]] bool post(const std::string& owner, Task task);
  // For the rest of work that was started: always queued.
  void post_rest(const std::string& owner, Task task);
  [[nodiscard]] size_t queued() const;

 private:
  struct Owner {
    std::deque<Task> queue;
    size_t running = 0;
  };
  using Owners = std::map<std::string, Owner>;

  void work();
  // The rest, under the mutex.
  void push(const std::string& owner, Task task);
  // The first in turn with a thread to spare; when the pool ends each has one.
  [[nodiscard]] std::list<Owners::iterator>::iterator next();

  const Bounds bounds_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  Owners owners_;                      // with queued or running tasks
  std::list<Owners::iterator> turns_;  // owners with queued tasks
  size_t queued_ = 0;
  bool ends_ = false;
  size_t idle_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace membrane::service
