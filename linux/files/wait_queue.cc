#include "linux/files/wait_queue.h"

#include <algorithm>

namespace membrane::linux {

void Waiter::join(WaitQueue& queue) {
  if (std::ranges::find(queues_, &queue) != queues_.end()) return;
  queues_.push_back(&queue);
  queue.waiters_.push_back(this);
}

bool Waiter::is_in(const WaitQueue& queue) const {
  return std::ranges::find(queues_, &queue) != queues_.end();
}

void Waiter::leave() {
  for (WaitQueue* queue : queues_) std::erase(queue->waiters_, this);
  queues_.clear();
}

WaitQueue::~WaitQueue() {
  for (Waiter* waiter : waiters_) {
    std::erase(waiter->queues_, this);
    waiter->on_wake();
  }
}

void WaitQueue::wake() {
  for (Waiter* waiter : waiters_) waiter->on_wake();
}

}  // namespace membrane::linux
