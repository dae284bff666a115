// One call of a host function, as its handler sees it: arguments that have been checked,
// and whom to ask.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/broker.h"
#include "host/guest.h"
#include "host/random.h"
#include "host/registry.h"
#include "host/work.h"

namespace membrane::host {

// What capabilities remember between the calls of one run.
struct CapabilityState {
  int32_t http_status = 0;  // of the last http.* call; 0 when it got no answer
  Headers http_headers;
  std::optional<RandomStream> random;  // keyed by the broker at the first use
};

// How a call ends for the program.
enum class CallEnd : uint8_t {
  kReturn,       // with its results
  kExit,         // the run is over, and well
  kTrap,         // a function without an errno failed
  kOutOfFuel,    // nothing was done: with more fuel, call again
  kWaits,        // for an answer of the embedder's, with which the call is made again
  kOutOfMemory,  // a function without an errno had no room for its result
  kOutOfOutput,
};

// The largest string that a handler makes, however much memory there is.
inline constexpr uint64_t kMaxResultBytes = 64ull << 20;

// One of several requests that a call makes. The report gives each the same share of the call's time.
struct CallPart {
  HostError error = {Errno::kOk, {}, {}};
  std::string summary;  // for people: its texts and numbers
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
};

class Call {
 public:
  Call(Guest& guest_of_call, Broker& broker_of_call, CapabilityState& state_of_run)
      : guest(guest_of_call), broker(broker_of_call), state(state_of_run) {}

  // Arguments, counted from 0, by their declared type. Strings lie in the program's memory:
  // they hold until the handler returns.
  [[nodiscard]] std::string_view text(size_t index) const { return strings[index]; }
  [[nodiscard]] int32_t i32(size_t index) const { return static_cast<int32_t>(bits[index]); }
  [[nodiscard]] int64_t i64(size_t index) const { return static_cast<int64_t>(bits[index]); }
  [[nodiscard]] double f64(size_t index) const { return std::bit_cast<double>(bits[index]); }

  // Before a string of this size is made: ENOMEM when it is past kMaxResultBytes, or needs more of the host's memory
  // than the sandbox has left. (It is there twice in the end: in the host, and in the program's memory.)
  [[nodiscard]] HostResult<void> check_size(uint64_t bytes) const;
  // A string of the program's as a result, when there is room for it.
  [[nodiscard]] HostResult<Value> copy_of(std::string_view text) const;

  Guest& guest;
  Broker& broker;
  CapabilityState& state;
  CallEnd end = CallEnd::kReturn;  // a handler may end the run
  Work work;                       // what it does besides taking and giving bytes
  std::optional<std::vector<CallPart>>
      parts;  // of a call that makes several: the report lists these, and not the call

  std::array<std::string_view, kMaxParams> strings{};
  std::array<uint64_t, kMaxParams> bits{};
};

// For handlers whose function gives nothing but an errno.
inline HostResult<Value> nothing(HostResult<void> result) {
  if (!result) return std::unexpected(std::move(result).error());
  return Value();
}
inline Value truth(bool value) { return Value(int32_t{value}); }

}  // namespace membrane::host
