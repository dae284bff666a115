#include "sources.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <string>
#include <utility>

#include "callable.h"
#include "running.h"

namespace nb = nanobind;

namespace membrane::python {
namespace {

SessionClock clock_of(const nb::dict& words) {
  const auto kind = static_cast<SessionClock::Kind>(nb::cast<int>(words["clock"]));
  if (kind != SessionClock::Kind::kAsked)
    return {.kind = kind, .start_ms = nb::cast<int64_t>(words["start_ms"])};
  return SessionClock::asked([now = hold(nb::borrow(words["now"]))] {
    return asked("the clock of a session", std::optional<int64_t>(),
                 [&] { return std::optional(nb::cast<int64_t>(now->get()())); });
  });
}

SessionSleep sleep_of(const nb::dict& words) {
  const auto kind = static_cast<SessionSleep::Kind>(nb::cast<int>(words["sleep"]));
  if (kind != SessionSleep::Kind::kAsked) return {.kind = kind};
  return SessionSleep::asked(
      [pass = hold(nb::borrow(words["pass"]))](uint64_t ns, const std::function<bool()>& must_stop) {
        return asked("the sleep of a session", false, [&] {
          call_with_must_stop(pass->get(), must_stop, ns);
          return true;
        });
      });
}

SessionEntropy entropy_of(const nb::dict& words) {
  const auto kind = static_cast<SessionEntropy::Kind>(nb::cast<int>(words["entropy"]));
  if (kind != SessionEntropy::Kind::kAsked) {
    const auto seed = nb::cast<nb::bytes>(words["seed_bytes"]);
    return {.kind = kind,
            .seed = nb::cast<uint64_t>(words["seed"]),
            .seed_bytes = std::string(seed.c_str(), seed.size())};
  }
  return SessionEntropy::asked([fill = hold(nb::borrow(words["fill"]))](std::span<uint8_t> bytes) {
    return asked("the entropy of a session", false, [&] {
      const auto given = nb::cast<nb::bytes>(fill->get()(bytes.size()));
      if (given.size() != bytes.size()) return false;
      std::memcpy(bytes.data(), given.c_str(), bytes.size());
      return true;
    });
  });
}

}  // namespace

void add_sources(const nb::dict& words, SessionOptions& options) {
  options.clock = clock_of(words);
  options.sleep = sleep_of(words);
  options.entropy = entropy_of(words);
  options.timezone = nb::cast<std::string>(words["timezone"]);
}

}  // namespace membrane::python
