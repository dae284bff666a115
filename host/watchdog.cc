#include "host/watchdog.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace membrane::host {

// Lives as long as the process: a waiting thread costs nothing, and a thread that is joined at exit would need
// someone to wake it. A child of fork() has no threads, so it creates its own object.
class Watchdog::Thread {
 public:
  static Thread& instance() {
    static std::atomic<Thread*> current = [] {
      pthread_atfork(nullptr, nullptr, [] { current = new Thread; });
      return new Thread;
    }();
    return *current;
  }

  void add(Watch* watch) {
    const std::lock_guard lock(mutex_);
    if (!start()) return;
    watches_.push_back(watch);
    changed_.notify_one();
  }
  void remove(Watch* watch) {
    const std::lock_guard lock(mutex_);  // held while a callback runs
    std::erase(watches_, watch);
  }

 private:
  // An owner stops a run by a flag, which cannot wake a thread.
  static constexpr std::chrono::milliseconds kTick{20};

  bool start() {
    if (started_) return true;
    try {
      std::thread([this] { run(); }).detach();
      started_ = true;
    } catch (const std::system_error&) {  // no thread can be created now
    }
    return started_;
  }

  [[noreturn]] void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (watches_.empty()) changed_.wait(lock);
      const auto now = Deadline::Clock::now();
      auto next = now + kTick;
      for (Watch* watch : watches_) {
        if (watch->called_) continue;
        if (watch->deadline_.passed()) {
          watch->called_ = true;
          watch->on_end_();
        } else {
          next = std::min(next, watch->deadline_.end());
        }
      }
      if (!watches_.empty()) changed_.wait_until(lock, next);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watch*> watches_;
  bool started_ = false;
};

Watchdog::Watch::Watch(const Deadline& deadline, std::function<void()> on_end)
    : deadline_(deadline), on_end_(std::move(on_end)) {
  Thread::instance().add(this);
}

Watchdog::Watch::~Watch() { Thread::instance().remove(this); }

}  // namespace membrane::host
