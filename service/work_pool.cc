#include "service/work_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace membrane::service {

WorkPool::WorkPool(const Bounds& bounds) : bounds_(bounds) {
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

void WorkPool::push(const std::string& owner, Task task) {
  const auto of = owners_.try_emplace(owner).first;
  if (of->second.queue.empty()) turns_.push_back(of);
  of->second.queue.push_back(std::move(task));
  ++queued_;
  if (ends_ || idle_ >= queued_ || threads_.size() >= bounds_.threads) return;
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // no more threads can be created: the existing ones do it
  }
}

bool WorkPool::post(const std::string& owner, Task task) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = owners_.find(owner);
    const size_t own = found == owners_.end() ? 0 : found->second.queue.size();
    if (ends_ || queued_ >= bounds_.queued || own >= bounds_.queued_of_each()) return false;
    push(owner, std::move(task));
  }
  wake_.notify_one();
  return true;
}

void WorkPool::post_rest(const std::string& owner, Task task) {
  {
    const std::lock_guard lock(mutex_);
    push(owner, std::move(task));
  }
  wake_.notify_one();
}

size_t WorkPool::queued() const {
  const std::lock_guard lock(mutex_);
  return queued_;
}

std::list<WorkPool::Owners::iterator>::iterator WorkPool::next() {
  return std::ranges::find_if(turns_, [this](const auto& owner) {
    return ends_ || owner->second.running < bounds_.threads_of_each();
  });
}

void WorkPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return ends_ || next() != turns_.end(); });
    --idle_;
    const auto turn = next();
    if (turn == turns_.end()) return;
    const Owners::iterator owner = *turn;
    Task task = std::move(owner->second.queue.front());
    owner->second.queue.pop_front();
    --queued_;
    if (owner->second.queue.empty()) turns_.erase(turn);
    else turns_.splice(turns_.end(), turns_, turn);
    ++owner->second.running;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    if (--owner->second.running == 0 && owner->second.queue.empty()) owners_.erase(owner);
  }
}

}  // namespace membrane::service
