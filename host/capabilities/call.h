// A call of a host function, as its handler sees it: arguments that have been checked, and access to the broker.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/broker/broker.h"
#include "host/capabilities/function_spec.h"
#include "host/guest/guest.h"
#include "host/limits/work.h"
#include "host/sources/random.h"

namespace membrane::host {

// The state of capabilities between the calls of one run.
struct CapabilityState {
  int32_t http_status = 0;  // of the last http.* call; 0 when it got no response
  Headers http_headers;
  std::optional<RandomStream> random;  // seeded by the broker at the first use
};

// How a call ends for the program.
enum class CallEnd : uint8_t {
  kReturn,       // with its results
  kExit,         // the run has ended successfully
  kTrap,         // a function without an errno failed
  kOutOfFuel,    // nothing was done: add fuel and call again
  kWaits,        // waits for an answer of the embedder, with which the call is repeated
  kOutOfMemory,  // a function without an errno had no room for its result
  kOutOfOutput,
};

// The largest string that a handler makes, however much memory is available.
inline constexpr uint64_t kMaxResultBytes = 64ull << 20;

// One of several requests in a call. The report divides the call's time equally between them.
struct CallPart {
  HostError error = {Errno::kOk, {}, {}};
  std::string summary;  // for people: its strings and numbers
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  std::vector<std::string> redirects = {};  // HttpResponse::redirects
};

class Call {
 public:
  Call(Guest& guest_of_call, Broker& broker_of_call, CapabilityState& state_of_run)
      : guest(guest_of_call), broker(broker_of_call), state(state_of_run) {}

  // Arguments, counted from 0, by their declared type. Strings are in the program's memory: they are valid until the
  // handler returns.
  [[nodiscard]] std::string_view text(size_t index) const { return strings[index]; }
  [[nodiscard]] int32_t i32(size_t index) const { return static_cast<int32_t>(bits[index]); }
  [[nodiscard]] int64_t i64(size_t index) const { return static_cast<int64_t>(bits[index]); }
  [[nodiscard]] double f64(size_t index) const { return std::bit_cast<double>(bits[index]); }

  // Call before making a string of this size: ENOMEM when it exceeds kMaxResultBytes, or needs more host memory than
  // the sandbox has left. (In the end it exists twice: in the host, and in the program's memory.)
  [[nodiscard]] HostResult<void> check_size(uint64_t bytes) const;
  // Copies a string of the program as a result, if there is room for it.
  [[nodiscard]] HostResult<Value> copy_of(std::string_view text) const;

  Guest& guest;
  Broker& broker;
  CapabilityState& state;
  CallEnd end = CallEnd::kReturn;  // a handler may end the run
  Work work;                       // besides taking and returning bytes
  std::optional<std::vector<CallPart>>
      parts;  // for a call with several requests: the report lists these instead of the call
  std::vector<std::string> redirects;  // HttpResponse::redirects, for the report

  std::array<std::string_view, kMaxParams> strings{};
  std::array<uint64_t, kMaxParams> bits{};
};

// For handlers whose function returns only an errno.
inline HostResult<Value> nothing(HostResult<void> result) {
  if (!result) return std::unexpected(std::move(result).error());
  return Value();
}
inline Value truth(bool value) { return Value(int32_t{value}); }

}  // namespace membrane::host
