#include "agent/retry.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <string>
#include <thread>

namespace membrane::agent {

namespace {

constexpr uint64_t kMaxSeconds = 10'000'000;  // a longer wait means never, and must not overflow

class SystemClock final : public RetryClock {
 public:
  int64_t unix_s() override { return std::time(nullptr); }
  bool wait_ms(uint64_t ms, const std::atomic<bool>* cancel) override {
    constexpr std::chrono::milliseconds kTick{25};
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    for (;;) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
      const auto left = end - std::chrono::steady_clock::now();
      if (left.count() <= 0) return true;
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kTick));
    }
  }
};

}  // namespace

RetryClock& RetryClock::real() {
  static SystemClock clock;
  return clock;
}

uint64_t Backoff::wait_ms(uint32_t retry) {
  const uint64_t full = std::min(kMaxMs, kFirstMs << std::min(retry, 16u));
  // SplitMix64: one step per wait is random enough to spread clients.
  uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return full / 2 + z % (full / 2 + 1);
}

std::optional<uint64_t> retry_after_ms(const CurlApi& api, std::string_view value, int64_t now_unix_s) {
  uint64_t seconds = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error == std::errc() && end == value.data() + value.size())
    return std::min(seconds, kMaxSeconds) * 1000;
  if (error == std::errc::result_out_of_range) return kMaxSeconds * 1000;
  if (value.find(':') == std::string_view::npos) return {};  // every form of HTTP-date has a time of day
  const int64_t date = api.getdate(std::string(value).c_str(), nullptr);
  if (date < 0) return {};
  return std::min<uint64_t>(static_cast<uint64_t>(std::max<int64_t>(0, date - now_unix_s)), kMaxSeconds) *
         1000;
}

bool is_transient(int status) {
  if (status == 408 || status == 409 || status == 425 || status == 429) return true;
  return status >= 500 && status <= 599 && status != 501 && status != 505;
}

}  // namespace membrane::agent
