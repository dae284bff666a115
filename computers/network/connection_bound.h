// Limits the connections that the gateways of several sandboxes may have open together: each takes a thread
// and two descriptors of their owner.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace membrane::computers {

class ConnectionBound : public std::enable_shared_from_this<ConnectionBound> {
 public:
  explicit ConnectionBound(size_t most) : most_(most) {}

  // A connection's slot, until the last copy is destroyed; null when none is left.
  [[nodiscard]] std::shared_ptr<const void> take() {
    for (size_t used = used_; used < most_;)
      if (used_.compare_exchange_weak(used, used + 1))
        return {this, [kept = shared_from_this()](const void*) { --kept->used_; }};
    return nullptr;
  }
  [[nodiscard]] size_t most() const { return most_; }

 private:
  const size_t most_;
  std::atomic<size_t> used_ = 0;
};

}  // namespace membrane::computers
