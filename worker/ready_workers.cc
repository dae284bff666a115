#include "worker/ready_workers.h"

#include <algorithm>
#include <chrono>

namespace membrane::worker {

ReadyWorkers::ReadyWorkers(std::shared_ptr<Zygote> zygote, size_t count)
    : zygote_(std::move(zygote)), count_(count) {
  if (count_ != 0) thread_ = std::thread([this] { refill(); });
}

ReadyWorkers::~ReadyWorkers() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wanted_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status ReadyWorkers::open(const sandbox::TemplateSpec& spec) {
  {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(open_, spec) != open_.end()) return {};
  }
  MEMBRANE_TRY(zygote_->open(spec));
  std::deque<Ready> without_it;
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(open_, spec) == open_.end()) open_.push_back(spec);
  without_it.swap(ready_);
  wanted_.notify_all();
  return {};
}

Result<ReadyWorkers::Ready> ReadyWorkers::spawn() {
  size_t templates = 0;
  {
    const std::lock_guard lock(mutex_);
    templates = open_.size();
  }
  MEMBRANE_ASSIGN(auto worker, zygote_->spawn());
  worker->raise_walls({});
  return Ready{std::move(worker), templates};
}

Result<std::shared_ptr<Worker>> ReadyWorkers::take() {
  {
    const std::lock_guard lock(mutex_);
    while (!ready_.empty()) {
      Ready first = std::move(ready_.front());
      ready_.pop_front();
      wanted_.notify_all();
      if (first.templates == open_.size() && first.worker->is_alive()) return std::move(first.worker);
    }
  }
  MEMBRANE_ASSIGN(Ready made, spawn());
  return std::move(made.worker);
}

size_t ReadyWorkers::ready() const {
  const std::lock_guard lock(mutex_);
  return ready_.size();
}

void ReadyWorkers::refill() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (ready_.size() >= count_) {
      wanted_.wait(lock);
      continue;
    }
    lock.unlock();
    auto made = spawn();
    lock.lock();
    if (made && made->templates == open_.size()) ready_.push_back(*std::move(made));
    else if (!made)
      wanted_.wait_for(lock, std::chrono::seconds(1));  // the machine has no room; it may have later
  }
}

}  // namespace membrane::worker
