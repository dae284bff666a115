#include "worker/ready_workers.h"

#include <algorithm>
#include <chrono>

namespace membrane::worker {
namespace {

constexpr std::chrono::milliseconds kQuiet(10);
// After a worker was taken, and while others are left: its guest gets the processors first.
constexpr std::chrono::milliseconds kPause(3);

}  // namespace

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
  return Ready{.worker = std::move(worker), .templates = templates};
}

Result<std::shared_ptr<Worker>> ReadyWorkers::take() {
  MEMBRANE_ASSIGN(auto worker, take_any());
  worker->set_siblings([weak = weak_from_this(), zygote = zygote_] {
    const auto all = weak.lock();
    return all ? all->take() : zygote->spawn();
  });
  return worker;
}

Result<std::shared_ptr<Worker>> ReadyWorkers::take_any() {
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
    if (ready_.size() < count_) {
      const bool is_urgent = 2 * ready_.size() < count_;
      if (is_urgent || wanted_.wait_for(lock, kPause) == std::cv_status::timeout) spawn_another(lock);
    } else if (std::ranges::all_of(ready_, &Ready::has_rehearsed)) {
      wanted_.wait(lock);
    } else if (wanted_.wait_for(lock, kQuiet) == std::cv_status::timeout) {
      rehearse_another(lock);
    }
  }
}

void ReadyWorkers::spawn_another(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  auto made = spawn();
  lock.lock();
  if (made && made->templates == open_.size()) ready_.push_back(*std::move(made));
  else if (!made)
    wanted_.wait_for(lock, std::chrono::seconds(1));  // the machine has no room now; it may have later
}

// Rehearsed workers come first, and are taken first.
void ReadyWorkers::rehearse_another(std::unique_lock<std::mutex>& lock) {
  const auto found = std::ranges::find(ready_, false, &Ready::has_rehearsed);
  if (found == ready_.end()) return;
  Ready next = std::move(*found);
  ready_.erase(found);
  lock.unlock();
  next.worker->rehearse();
  next.has_rehearsed = true;
  lock.lock();
  if (next.templates == open_.size() && next.worker->is_alive()) ready_.push_front(std::move(next));
}

}  // namespace membrane::worker
