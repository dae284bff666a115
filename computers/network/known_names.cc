#include "computers/network/known_names.h"

#include <algorithm>

namespace membrane::computers {

host::HostResult<std::vector<policy::Address>> KnownNames::resolve(const std::string& host,
                                                                   uint64_t timeout_ms) {
  const auto until = Clock::now() + std::chrono::milliseconds(std::min<uint64_t>(timeout_ms, 3'600'000));
  std::unique_lock lock(mutex_);
  make_room();
  Name* name = &names_[host];
  if (name->is_asked) {
    const auto is_answered = [&] {
      name = &names_[host];
      return !name->is_asked;
    };
    if (!answered_.wait_until(lock, until, is_answered))
      return host::refuse(host::Errno::kTimedOut,
                          "The name service gave no address for " + host + " in time.");
    if (name->found) return *name->found;
  }
  if (name->found && *name->found && Clock::now() - name->found_at < kKnownFor) return *name->found;
  name->is_asked = true;
  lock.unlock();
  Addresses found = resolver_.resolve(host, timeout_ms);
  lock.lock();
  name = &names_[host];
  name->is_asked = false;
  name->found = found;
  name->found_at = Clock::now();
  answered_.notify_all();
  return found;
}

// Entries that nobody waits for.
void KnownNames::make_room() {
  if (names_.size() < kMostNames) return;
  std::erase_if(names_, [](const auto& each) { return !each.second.is_asked; });
}

}  // namespace membrane::computers
