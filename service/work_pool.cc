#include "service/work_pool.h"

#include <system_error>
#include <utility>

namespace membrane::service {

WorkPool::WorkPool(size_t most_threads, size_t most_queued)
    : most_threads_(most_threads), most_queued_(most_queued) {
  threads_.emplace_back([this] { work(); });
}

WorkPool::~WorkPool() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkPool::push(Task task) {
  queue_.push_back(std::move(task));
  if (ends_ || idle_ >= queue_.size() || threads_.size() >= most_threads_) return;
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // there can be no more threads: those that there are do it
  }
}

bool WorkPool::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (ends_ || queue_.size() >= most_queued_) return false;
    push(std::move(task));
  }
  wake_.notify_one();
  return true;
}

void WorkPool::post_rest(Task task) {
  {
    const std::lock_guard lock(mutex_);
    push(std::move(task));
  }
  wake_.notify_one();
}

size_t WorkPool::queued() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

void WorkPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return ends_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace membrane::service
