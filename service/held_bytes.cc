#include "service/held_bytes.h"

#include "base/text.h"

namespace membrane::service {

Answer<void> HeldBytes::Hold::try_grow(uint64_t bytes) {
  if (in_ == nullptr || bytes == 0) return {};
  const std::lock_guard lock(in_->mutex_);
  const auto found = in_->bytes_.find(owner_);
  const uint64_t held = found == in_->bytes_.end() ? 0 : found->second;
  if (held > in_->most_of_each_ || bytes > in_->most_of_each_ - held)
    return refuse(
        ApiCode::kTooManyRequests,
        "the token's requests hold " + count_of(held, "byte") + " of the service's memory, and may hold " +
            std::to_string(in_->most_of_each_),
        "Read the answers and the output that wait, let execs end that wait with long code or input, and "
        "try again.");
  in_->bytes_[owner_] = held + bytes;
  bytes_ += bytes;
  return {};
}

void HeldBytes::Hold::grow(uint64_t bytes) {
  if (in_ == nullptr || bytes == 0) return;
  const std::lock_guard lock(in_->mutex_);
  in_->bytes_[owner_] += bytes;
  bytes_ += bytes;
}

void HeldBytes::Hold::shrink(uint64_t bytes) {
  if (in_ == nullptr || bytes == 0) return;
  const std::lock_guard lock(in_->mutex_);
  const auto found = in_->bytes_.find(owner_);
  found->second -= bytes;
  bytes_ -= bytes;
  if (found->second == 0) in_->bytes_.erase(found);
}

uint64_t HeldBytes::of(const std::string& owner) const {
  const std::lock_guard lock(mutex_);
  const auto found = bytes_.find(owner);
  return found == bytes_.end() ? 0 : found->second;
}

}  // namespace membrane::service
