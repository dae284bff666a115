#include "host/limits/host_memory.h"

#include <algorithm>
#include <numeric>

namespace membrane::host {
namespace {

// The part beyond what the host lends.
uint64_t borrowed(uint64_t kept) { return kept - std::min(kept, HostMemory::kKeptBytes); }

}  // namespace

uint64_t HostMemory::kept() const { return std::accumulate(kept_.begin(), kept_.end(), uint64_t{0}); }

bool HostMemory::keep(Holder holder, uint64_t bytes) {
  uint64_t& of_holder = kept_[static_cast<size_t>(holder)];
  const uint64_t before = kept();
  const uint64_t after = before - of_holder + bytes;
  if (after > before && bytes > of_holder + left_to_keep()) return false;
  if (limit_ != nullptr && borrowed(after) != borrowed(before) && !limit_->lower_by(borrowed(after)))
    return false;
  of_holder = bytes;
  return true;
}

bool HostMemory::keep_what_is_there(Holder holder, uint64_t bytes) {
  const uint64_t most = kept_[static_cast<size_t>(holder)] + left_to_keep();
  return keep(holder, std::min(bytes, most)) && bytes <= most;
}

uint64_t HostMemory::left_to_keep() const {
  const uint64_t unused = kKeptBytes - std::min(kept(), kKeptBytes);
  return unused + (limit_ == nullptr ? 0 : limit_->left_bytes());
}

uint64_t HostMemory::left_for_call() const {
  const uint64_t all = kCallBytes + left_to_keep();
  return all - std::min(all, in_use_);
}

}  // namespace membrane::host
