// Prepaid resources, shared by everything that works on one task: the program of each step, the model that writes
// them, the sub-models that programs call.
//
// A budget only decreases. Taking is atomic and exact: two takers can never spend the same unit, and a request that
// does not fit takes nothing.
//
// Threads: all members may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string_view>

namespace membrane::policy {

struct Limits;

enum class Resource : uint8_t { kFuel, kHostCalls, kBytesIn, kBytesOut, kTokens, kCount };
std::string_view name_of(Resource resource);  // "fuel", "host_calls", "bytes_in", …
// Why a request that does not fit is refused: a sentence with the limit's name and its flag.
std::string_view used_up(Resource resource);
inline constexpr std::string_view kTimeIsUsedUp = "The run's time is used up (limits.wall, --wall).";

class Budget {
 public:
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  Budget();  // everything unlimited, no deadline
  // The amounts that the limits prepay (fuel, host calls, bytes, tokens), and a deadline `wall_ms` from now.
  explicit Budget(const Limits& limits);

  void set(Resource resource, uint64_t amount);
  // Takes `amount` if that much is left; otherwise returns false and takes nothing.
  [[nodiscard]] bool take(Resource resource, uint64_t amount);
  // Takes up to `amount`; returns the amount taken (for fuel slices).
  [[nodiscard]] uint64_t take_up_to(Resource resource, uint64_t amount);
  // Takes `amount` even when less is left, because the cost is known only afterwards, as with a model's tokens: the
  // budget falls to 0. Returns false when the amount did not fit.
  bool take_after(Resource resource, uint64_t amount);
  // Returns units that were taken and not used. Never makes a resource unlimited.
  void give_back(Resource resource, uint64_t amount);
  [[nodiscard]] uint64_t left(Resource resource) const;

  void set_deadline(std::chrono::steady_clock::time_point deadline);
  [[nodiscard]] std::chrono::steady_clock::time_point deadline() const;
  // Time until the deadline, rounded up; 0 when it has passed, kUnlimited when there is none.
  [[nodiscard]] uint64_t wall_left_ms() const;

 private:
  std::array<std::atomic<uint64_t>, static_cast<size_t>(Resource::kCount)> left_;
  std::atomic<std::chrono::steady_clock::time_point> deadline_;
};

}  // namespace membrane::policy
