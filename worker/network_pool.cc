#include "worker/network_pool.h"

#include <fcntl.h>
#include <sched.h>

#include <utility>

namespace membrane::worker {
namespace {

constexpr size_t kMost = 1024;  // each keeps a descriptor open

}  // namespace

Descriptor NetworkPool::current() { return Descriptor(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)); }

bool NetworkPool::join(const Descriptor& network) { return setns(network.number(), CLONE_NEWNET) == 0; }

std::optional<size_t> NetworkPool::enter() {
  if (!home_) home_ = current();
  if (!home_) return std::nullopt;
  if (!free_.empty()) {
    if (!join(all_[free_.back()])) return std::nullopt;
    const size_t number = free_.back();
    free_.pop_back();
    return number;
  }
  if (all_.size() == kMost || unshare(CLONE_NEWNET) != 0) return std::nullopt;
  if (Descriptor made = current()) {
    all_.push_back(std::move(made));
    return all_.size() - 1;
  }
  leave();
  return std::nullopt;
}

void NetworkPool::leave() {
  // If this fails, this process stays in its last worker's network; the next worker gets another one all the
  // same.
  if (home_) static_cast<void>(join(home_));
}

void NetworkPool::close_all() {
  home_ = Descriptor();
  all_.clear();
  free_.clear();
}

}  // namespace membrane::worker
