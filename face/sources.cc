#include "face/sources.h"

#include <utility>

#include "face/convert.h"
#include "host/sources/random_fork.h"

namespace membrane::face {
namespace {

constexpr int64_t kLastMs = 253'402'300'799'999;  // of year 9999

// Calls a function of the embedder; an exception becomes a failure.
template <typename Result, typename Call>
Result caught(Call call) {
  try {
    return call();
  } catch (const std::exception&) {
    return {};
  }
}

Failure no_function(std::string_view what, std::string_view field) {
  return invalid_argument("the session's " + std::string(what) + " is to be asked, and has no function",
                          "Set " + std::string(field) + ", or choose another kind.");
}

std::optional<Failure> add_clock(SessionClock& clock, policy::TimeGrant& grant, host::Sources& sources) {
  using enum SessionClock::Kind;
  if (clock.kind == kByPolicy) return std::nullopt;
  if (clock.kind == kVirtual && (clock.start_ms < 0 || clock.start_ms > kLastMs))
    return invalid_argument("the session's clock cannot begin at " + std::to_string(clock.start_ms) + " ms",
                            "Give a time from 1970 to the year 9999, in milliseconds since 1970.");
  if (clock.kind == kAsked && !clock.now_ns) return no_function("clock", "SessionClock::now_ns");
  grant = {};
  grant.real = clock.kind != kVirtual;
  if (clock.kind == kVirtual) grant.start_ms = clock.start_ms;
  if (clock.kind == kAsked)
    sources.now_ns = [ask = std::move(clock.now_ns)] { return caught<std::optional<int64_t>>(ask); };
  return std::nullopt;
}

std::optional<Failure> add_sleep(SessionSleep& sleep, const SessionClock& clock, host::Sources& sources) {
  using enum SessionSleep::Kind;
  if (sleep.kind == kAsked && !sleep.pass) return no_function("sleep", "SessionSleep::pass");
  switch (sleep.kind) {
    case kByClock:
      if (clock.kind == SessionClock::Kind::kAsked) sources.sleep = host::Sources::Sleep::kAtOnce;
      break;
    case kVirtual: sources.sleep = host::Sources::Sleep::kAtOnce; break;
    case kReal: sources.sleep = host::Sources::Sleep::kInTime; break;
    case kAsked:
      sources.sleep = host::Sources::Sleep::kAsked;
      sources.sleep_ns = [pass = std::move(sleep.pass)](uint64_t ns, const std::function<bool()>& must_stop) {
        return caught<bool>([&] { return pass(ns, must_stop); });
      };
  }
  return std::nullopt;
}

std::optional<Failure> add_entropy(SessionEntropy& entropy, policy::RandomGrant& grant,
                                   host::Sources& sources) {
  using enum SessionEntropy::Kind;
  if (entropy.kind == kByPolicy) return std::nullopt;
  if (entropy.kind == kAsked && !entropy.fill) return no_function("entropy", "SessionEntropy::fill");
  grant = {};
  grant.real = entropy.kind != kSeeded;
  if (entropy.kind == kSeeded) {
    grant.seed = entropy.seed;
    sources.key = entropy.seed_bytes.empty() ? RandomStream::key_of(entropy.seed)
                                             : host::key_of_seed(entropy.seed_bytes);
  }
  if (entropy.kind == kAsked)
    sources.fill = [fill = std::move(entropy.fill)](std::span<uint8_t> bytes) {
      return caught<bool>([&] { return fill(bytes); });
    };
  return std::nullopt;
}

}  // namespace

std::optional<Failure> add_sources(SessionOptions& options, sandbox::RunOptions& made) {
  auto sources = std::make_shared<host::Sources>();
  if (auto wrong = add_clock(options.clock, made.policy.time, *sources)) return wrong;
  if (auto wrong = add_sleep(options.sleep, options.clock, *sources)) return wrong;
  if (auto wrong = add_entropy(options.entropy, made.policy.random, *sources)) return wrong;
  made.sources = std::move(sources);
  if (options.timezone.empty()) return std::nullopt;
  auto zone = host::find_time_zone(options.timezone);
  if (!zone) return failure_of(zone.error());
  made.time_zone = std::make_shared<const host::TimeZone>(*std::move(zone));
  return std::nullopt;
}

}  // namespace membrane::face
