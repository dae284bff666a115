// Where a session's time and randomness come from: an embedder's choice, which replaces the policy's. By default the
// policy decides: a virtual clock and seeded randomness, unless it grants the real ones.
//
// Functions are called on the thread of the turn, and must answer at once. Forks of a session share them, and may
// call them concurrently. A function that throws is treated as having failed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace membrane {

// The time that programs see.
struct SessionClock {
  enum class Kind : uint8_t { kByPolicy, kVirtual, kReal, kAsked };
  Kind kind = Kind::kByPolicy;
  int64_t start_ms = 0;  // for kVirtual: since 1970 in UTC; 0 to the end of year 9999
  std::function<std::optional<int64_t>()>
      now_ns{};  // for kAsked: since 1970; nothing: the program's call fails

  // Starts at this time, and advances by 1 ms at each reading and by the time that programs sleep. A loaded session
  // has already advanced by the time that passed in it.
  static SessionClock starting_at(int64_t start_ms) {
    return {.kind = Kind::kVirtual, .start_ms = start_ms, .now_ns = {}};
  }
  // The machine's clock.
  static SessionClock real() { return {.kind = Kind::kReal, .now_ns = {}}; }
  // time.monotonic() and performance.now() are the time passed on this clock, and never go back.
  static SessionClock asked(std::function<std::optional<int64_t>()> now_ns) {
    return {.kind = Kind::kAsked, .now_ns = std::move(now_ns)};
  }
};

// How a program's sleep passes.
struct SessionSleep {
  enum class Kind : uint8_t { kByClock, kVirtual, kReal, kAsked };
  // kByClock: like kReal on the machine's clock, else like kVirtual.
  Kind kind = Kind::kByClock;
  // For kAsked: returns when the time has passed, or soon after `must_stop` returns true because the turn must end:
  // it was cancelled, or its time is up. False: the program's call fails.
  std::function<bool(uint64_t duration_ns, const std::function<bool()>& must_stop)> pass{};

  // Returns at once. The session's clock advances by the duration, whichever it is.
  static SessionSleep at_once() { return {.kind = Kind::kVirtual, .pass = {}}; }
  // In real time, within the turn's limit. The virtual clock advances, too.
  static SessionSleep real() { return {.kind = Kind::kReal, .pass = {}}; }
  static SessionSleep asked(std::function<bool(uint64_t, const std::function<bool()>&)> pass) {
    return {.kind = Kind::kAsked, .pass = std::move(pass)};
  }
};

// The source of random numbers: os.urandom(), crypto, and generators that no program has seeded.
struct SessionEntropy {
  enum class Kind : uint8_t { kByPolicy, kSeeded, kReal, kAsked };
  Kind kind = Kind::kByPolicy;
  uint64_t seed = 0;         // for kSeeded: as in the policy
  std::string seed_bytes{};  // replaces `seed` unless empty; of any length
  // For kAsked: fills all of `bytes`. False: the program's call fails. Each use is a host call.
  std::function<bool(std::span<uint8_t> bytes)> fill{};

  // The same session draws the same numbers; each fork has its own. A loaded session starts a stream that is derived
  // from this seed and from the state of its old stream: the same bytes with the same seed give the same numbers,
  // and numbers drawn before do not repeat.
  static SessionEntropy seeded(uint64_t seed) {
    return {.kind = Kind::kSeeded, .seed = seed, .seed_bytes = {}, .fill = {}};
  }
  static SessionEntropy seeded(std::string bytes) {
    return {.kind = Kind::kSeeded, .seed_bytes = std::move(bytes), .fill = {}};
  }
  // The machine's entropy.
  static SessionEntropy real() { return {.kind = Kind::kReal, .seed_bytes = {}, .fill = {}}; }
  static SessionEntropy asked(std::function<bool(std::span<uint8_t>)> fill) {
    return {.kind = Kind::kAsked, .seed_bytes = {}, .fill = std::move(fill)};
  }
};

}  // namespace membrane
