#include "threads.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace membrane::node {

namespace {

constexpr std::chrono::seconds kPatience(10);  // how long an idle thread is kept

class Threads {
 public:
  void run(std::function<void()> act) {
    const std::scoped_lock lock(mutex_);
    acts_.push_back(std::move(act));
    if (idle_ >= acts_.size()) return has_act_.notify_one();
    std::thread([this] { serve(); }).detach();
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (acts_.empty()) {
        ++idle_;
        const bool has = has_act_.wait_for(lock, kPatience, [this] { return !acts_.empty(); });
        --idle_;
        if (!has) return;
      }
      const std::function<void()> act = std::move(acts_.front());
      acts_.pop_front();
      lock.unlock();
      act();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable has_act_;
  std::deque<std::function<void()>> acts_;
  size_t idle_ = 0;
};

}  // namespace

void run_on_thread(std::function<void()> act) {
  static Threads& threads = *new Threads;  // never destroyed, since threads may outlive main()
  threads.run(std::move(act));
}

}  // namespace membrane::node
