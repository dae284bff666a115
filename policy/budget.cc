#include "policy/budget.h"

#include <algorithm>

#include "policy/policy.h"

namespace membrane::policy {
namespace {

using Clock = std::chrono::steady_clock;

// Atomically replaces `left` by `next(left)` and returns the previous value. An unlimited resource stays unlimited.
// Relaxed ordering is enough: a budget guards nothing but its own number.
template <typename Next>
uint64_t update(std::atomic<uint64_t>& left, Next next) {
  uint64_t before = left.load(std::memory_order_relaxed);
  while (before != Budget::kUnlimited &&
         !left.compare_exchange_weak(before, next(before), std::memory_order_relaxed)) {}
  return before;
}

}  // namespace

std::string_view name_of(Resource resource) {
  switch (resource) {
    case Resource::kFuel: return "fuel";
    case Resource::kHostCalls: return "host_calls";
    case Resource::kBytesIn: return "bytes_in";
    case Resource::kBytesOut: return "bytes_out";
    case Resource::kTokens: return "tokens";
    case Resource::kCount: break;
  }
  return "unknown";
}

std::string_view used_up(Resource resource) {
  switch (resource) {
    case Resource::kFuel: return "The run's fuel is used up (limits.fuel, --fuel).";
    case Resource::kHostCalls:
      return "The run's budget of host calls is used up (limits.host_calls, --host-calls).";
    case Resource::kBytesIn:
      return "The run's budget of bytes from the world is used up (limits.bytes_in, --bytes-in).";
    case Resource::kBytesOut:
      return "The run's budget of bytes to the world is used up (limits.bytes_out, --bytes-out).";
    case Resource::kTokens: return "The run's budget of tokens is used up (limits.tokens, --tokens).";
    case Resource::kCount: break;
  }
  return "";
}

Budget::Budget() : deadline_(Clock::time_point::max()) {
  for (auto& left : left_) left.store(kUnlimited, std::memory_order_relaxed);
}

Budget::Budget(const Limits& limits) : Budget() {
  set(Resource::kFuel, limits.fuel);
  set(Resource::kHostCalls, limits.host_calls);
  set(Resource::kBytesIn, limits.bytes_in);
  set(Resource::kBytesOut, limits.bytes_out);
  set(Resource::kTokens, limits.tokens);
  set_deadline(Clock::now() + std::chrono::milliseconds(limits.wall_ms));
}

void Budget::set(Resource resource, uint64_t amount) {
  left_[static_cast<size_t>(resource)].store(amount, std::memory_order_relaxed);
}

bool Budget::take(Resource resource, uint64_t amount) {
  const uint64_t before = update(left_[static_cast<size_t>(resource)],
                                 [amount](uint64_t left) { return left >= amount ? left - amount : left; });
  return before >= amount;
}

uint64_t Budget::take_up_to(Resource resource, uint64_t amount) {
  const uint64_t before = update(left_[static_cast<size_t>(resource)],
                                 [amount](uint64_t left) { return left - std::min(left, amount); });
  return std::min(before, amount);
}

bool Budget::take_after(Resource resource, uint64_t amount) { return take_up_to(resource, amount) == amount; }

void Budget::give_back(Resource resource, uint64_t amount) {
  update(left_[static_cast<size_t>(resource)],
         [amount](uint64_t left) { return left + std::min(amount, kUnlimited - 1 - left); });
}

uint64_t Budget::left(Resource resource) const {
  return left_[static_cast<size_t>(resource)].load(std::memory_order_relaxed);
}

void Budget::set_deadline(Clock::time_point deadline) {
  deadline_.store(deadline, std::memory_order_relaxed);
}

Clock::time_point Budget::deadline() const { return deadline_.load(std::memory_order_relaxed); }

uint64_t Budget::wall_left_ms() const {
  const auto end = deadline();
  if (end == Clock::time_point::max()) return kUnlimited;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  return left.count() > 0 ? static_cast<uint64_t>(left.count()) : 0;
}

}  // namespace membrane::policy
