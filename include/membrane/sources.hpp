// Where a session's time and randomness come from: what its embedder chooses beside the policy, in whose place it stands. Without a
// choice the policy decides: a virtual clock and seeded randomness, unless it grants the real ones.
//
// Functions are called on the thread of the turn, and answer at once. Forks of a session share them, and may call them at the same
// time. What they throw is as if they had failed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace membrane {

// What programs see as the time.
struct SessionClock {
  enum class Kind : uint8_t { kByPolicy, kVirtual, kReal, kAsked };
  Kind kind = Kind::kByPolicy;
  int64_t start_ms = 0;  // of kVirtual, since 1970 in UTC: 0 to the end of year 9999
  std::function<std::optional<int64_t>()>
      now_ns{};  // of kAsked: since 1970; nothing: the program's call fails

  // Begins there, and moves on by 1 ms at each reading, and by what programs sleep. A loaded session has moved on already by what
  // has passed in it.
  static SessionClock starting_at(int64_t start_ms) {
    return {.kind = Kind::kVirtual, .start_ms = start_ms, .now_ns = {}};
  }
  // The machine's.
  static SessionClock real() { return {.kind = Kind::kReal, .now_ns = {}}; }
  // time.monotonic() and performance.now() are what has passed on it, and never go back.
  static SessionClock asked(std::function<std::optional<int64_t>()> now_ns) {
    return {.kind = Kind::kAsked, .now_ns = std::move(now_ns)};
  }
};

// How a program's sleep passes.
struct SessionSleep {
  enum class Kind : uint8_t { kByClock, kVirtual, kReal, kAsked };
  // kByClock: kReal on the machine's clock, else kVirtual.
  Kind kind = Kind::kByClock;
  // Of kAsked: returns when the time has passed, and soon after `must_stop` says that the turn is to end: it was cancelled, or its time
  // is up. False: the program's call fails.
  std::function<bool(uint64_t duration_ns, const std::function<bool()>& must_stop)> pass{};

  // At once. The session's clock moves on by it, whichever it is.
  static SessionSleep at_once() { return {.kind = Kind::kVirtual, .pass = {}}; }
  // In real time, within the turn's limit. The virtual clock moves on by it, too.
  static SessionSleep real() { return {.kind = Kind::kReal, .pass = {}}; }
  static SessionSleep asked(std::function<bool(uint64_t, const std::function<bool()>&)> pass) {
    return {.kind = Kind::kAsked, .pass = std::move(pass)};
  }
};

// What random numbers are made of: os.urandom(), crypto, and generators that no program has seeded.
struct SessionEntropy {
  enum class Kind : uint8_t { kByPolicy, kSeeded, kReal, kAsked };
  Kind kind = Kind::kByPolicy;
  uint64_t seed = 0;         // of kSeeded: as the policy's
  std::string seed_bytes{};  // in its place, of any length, where it is not empty
  // Of kAsked: fills all of `bytes`. False: the program's call fails. Each use is a host call.
  std::function<bool(std::span<uint8_t> bytes)> fill{};

  // The same session, the same numbers; each fork has its own. A loaded session begins a stream that follows from this seed and from
  // where it stood: the same bytes with the same seed give the same, and nothing that it drew before comes again.
  static SessionEntropy seeded(uint64_t seed) {
    return {.kind = Kind::kSeeded, .seed = seed, .seed_bytes = {}, .fill = {}};
  }
  static SessionEntropy seeded(std::string bytes) {
    return {.kind = Kind::kSeeded, .seed_bytes = std::move(bytes), .fill = {}};
  }
  // The machine's.
  static SessionEntropy real() { return {.kind = Kind::kReal, .seed_bytes = {}, .fill = {}}; }
  static SessionEntropy asked(std::function<bool(std::span<uint8_t>)> fill) {
    return {.kind = Kind::kAsked, .seed_bytes = {}, .fill = std::move(fill)};
  }
};

}  // namespace membrane
