#include "sources.h"

#include <cmath>
#include <cstring>

#include "turn.h"

namespace membrane::node {
namespace {

template <typename Kind>
Kind kind_at(const Napi::Object& words, const char* name) {
  return static_cast<Kind>(words.Get(name).As<Napi::Number>().Uint32Value());
}

constexpr double kNsPerMs = 1e6;

std::optional<int64_t> now_ns() {
  const auto answer = Turn::ask("now", 0, nullptr);
  const double ms = answer && answer->number ? *answer->number : -1;
  constexpr double kMostMs = 9e12;  // what fits in nanoseconds
  if (!(ms >= 0 && ms < kMostMs)) return std::nullopt;
  // Whole milliseconds exactly, and fractions as precisely as a double allows.
  const double whole = std::floor(ms);
  return static_cast<int64_t>(whole) * 1'000'000 + static_cast<int64_t>((ms - whole) * kNsPerMs);
}

bool fill(std::span<uint8_t> bytes) {
  const auto answer = Turn::ask("fill", static_cast<double>(bytes.size()), nullptr);
  if (!answer || answer->bytes.size() != bytes.size()) return false;
  std::memcpy(bytes.data(), answer->bytes.data(), bytes.size());
  return true;
}

}  // namespace

void add_sources(const Napi::Object& words, SessionOptions& options) {
  options.clock.kind = kind_at<SessionClock::Kind>(words, "clock");
  options.clock.start_ms = words.Get("startMs").As<Napi::Number>().Int64Value();
  if (options.clock.kind == SessionClock::Kind::kAsked) options.clock.now_ns = now_ns;
  options.timezone = words.Get("timezone").As<Napi::String>().Utf8Value();
  options.sleep.kind = kind_at<SessionSleep::Kind>(words, "sleep");
  if (options.sleep.kind == SessionSleep::Kind::kAsked)
    options.sleep.pass = [](uint64_t ns, const std::function<bool()>& must_stop) {
      return Turn::ask("sleep", static_cast<double>(ns) / kNsPerMs, &must_stop).has_value();
    };
  options.entropy.kind = kind_at<SessionEntropy::Kind>(words, "entropy");
  bool is_lossless = true;
  options.entropy.seed = words.Get("seed").As<Napi::BigInt>().Uint64Value(&is_lossless);
  const auto seed = words.Get("seedBytes").As<Napi::Uint8Array>();
  options.entropy.seed_bytes.assign(reinterpret_cast<const char*>(seed.Data()), seed.ByteLength());
  if (options.entropy.kind == SessionEntropy::Kind::kAsked) options.entropy.fill = fill;
}

}  // namespace membrane::node
