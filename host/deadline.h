// When a run's host calls must have ended: at the end of the run's time, at its budget's deadline, or at once when
// the owner stops the run, whichever comes first. Code that waits for the outside world polls this, or waits no
// longer than left_ms().
//
// Ownership: budget and cancel flag are borrowed. Threads: set_end() only while no call is in progress; everything
// else from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "policy/budget.h"

namespace membrane::host {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // `cancel`: true stops the run; may be null.
  explicit Deadline(const policy::Budget& budget, const std::atomic<bool>* cancel = nullptr)
      : budget_(&budget), cancel_(cancel) {}

  void set_end(Clock::time_point end) { end_ = end; }
  void set_cancel(const std::atomic<bool>* cancel) { cancel_ = cancel; }

  // A budget's owner may move its deadline forward during a call.
  [[nodiscard]] Clock::time_point end() const { return std::min(end_, budget_->deadline()); }
  // The same for a call with less time. Saturates.
  [[nodiscard]] Deadline within(uint64_t timeout_ms) const {
    Deadline shorter = *this;
    const auto now = Clock::now();
    constexpr uint64_t kLongestMs = 30ull * 86'400'000;
    shorter.end_ = std::min(end_, now + std::chrono::milliseconds(std::min(timeout_ms, kLongestMs)));
    return shorter;
  }
  [[nodiscard]] bool cancelled() const {
    return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool passed() const { return cancelled() || Clock::now() >= end(); }
  // Rounded up; 0 when it has passed, Budget::kUnlimited when there is none.
  [[nodiscard]] uint64_t left_ms() const {
    if (cancelled()) return 0;
    if (end() == Clock::time_point::max()) return policy::Budget::kUnlimited;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end() - Clock::now());
    return left.count() > 0 ? static_cast<uint64_t>(left.count()) : 0;
  }

 private:
  const policy::Budget* budget_;
  const std::atomic<bool>* cancel_;
  Clock::time_point end_ = Clock::time_point::max();
};

}  // namespace membrane::host
