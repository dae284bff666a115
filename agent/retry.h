// When to ask a server again: exponential back-off with jitter, and Retry-After
// (RFC 9110, section 10.2.3).
//
// Threads: a Backoff is used by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/curl.h"

namespace membrane::agent {

// The clock for retries; a test supplies its own and never waits.
class RetryClock {
 public:
  virtual ~RetryClock() = default;
  virtual int64_t unix_s() = 0;
  // False when `cancel` was set before the time was over.
  virtual bool wait_ms(uint64_t ms, const std::atomic<bool>* cancel) = 0;
  static RetryClock& real();
};

class Backoff {
 public:
  static constexpr uint64_t kFirstMs = 500;
  static constexpr uint64_t kMaxMs = 30'000;

  // Equal seeds give equal waits.
  explicit Backoff(uint64_t seed) : state_(seed) {}
  // The wait before retry 0, 1, 2…: doubling, capped, with a random half removed, so that many clients that
  // failed together do not return together.
  uint64_t wait_ms(uint32_t retry);

 private:
  uint64_t state_;
};

// Parses "120", or "Wed, 21 Oct 2026 07:28:00 GMT" seen at `now_unix_s`; a past date is 0. Nothing for
// anything else.
std::optional<uint64_t> retry_after_ms(const CurlApi& api, std::string_view value, int64_t now_unix_s);

// Whether a status is worth a retry: 408, 409, 425, 429 and the 5xx except 501 and 505.
bool is_transient(int status);

}  // namespace membrane::agent
