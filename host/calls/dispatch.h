// The common path of every call of a host function.
//
//   decode the arguments ─▶ charge fuel ─▶ handler ─▶ (broker) ─▶ write the result ─▶ record
//
// Fuel for the call and for its input is charged before anything happens, so that a program without it can be paused
// and the call repeated; fuel for its output is owed afterwards, since the size was not known. Other work of a
// handler (host/limits/work.h) ends when the program's fuel does: the call then was not made, and can be repeated with
// more.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/capabilities/call.h"

namespace membrane::host {

struct CallOutcome {
  CallEnd end = CallEnd::kReturn;
  HostError error;  // the reason, unless end is kReturn or kExit
};

// Arguments that are not in the program's memory: each at the index of its parameter, strings in `strings` (borrowed
// for the call), numbers in `bits` in the form of the engine's slots.
struct Arguments {
  std::array<std::string_view, kMaxParams> strings{};
  std::array<uint64_t, kMaxParams> bits{};
};

struct ValueOutcome {
  CallEnd end = CallEnd::kReturn;  // kReturn, kExit, kOutOfFuel or kOutOfOutput
  HostResult<Value> value;         // the function's result, or why it failed, even if it has no errno
};

// Bounds on a line's summary of arguments, in bytes before repair, and on its reason.
inline constexpr size_t kMaxSummaryBytes = 200, kMaxReasonBytes = 1'000;
// Cut to the bound, with "…" where something is missing, and UTF-8.
std::string bounded_summary(std::string summary);
std::string bounded_reason(std::string text);

// Whether the call was refused before anything happened, so that nothing left the machine.
bool was_refused(const HostError& error);

// A line of the report: a call with access to the outside world.
struct CallRecord {
  std::string name;  // "http.get"
  Errno code = Errno::kOk;
  std::string reason = {};     // why it was refused or failed
  std::string grant = {};      // the grant that would allow it
  std::string arguments = {};  // for people: its strings and numbers, truncated
  uint64_t bytes_in = 0;       // received by the program
  uint64_t bytes_out = 0;      // sent by the program; 0 when the call was refused before anything happened
  uint64_t latency_us = 0;

  [[nodiscard]] bool allowed() const { return code != Errno::kAccess; }
  [[nodiscard]] size_t text_bytes() const {
    return name.size() + reason.size() + grant.size() + arguments.size();
  }
};

// The name of the lines that follow a call's, one for each request that redirects made of it.
inline constexpr std::string_view kRedirect = "http.redirect";

// Prefix of the reason of a call whose handler threw.
inline constexpr std::string_view kCapabilityFailed = "the capability failed: ";
// For a call that the process which runs the program had no memory for.
inline constexpr std::string_view kNoMemoryForCall = "the host has no memory for the call";

class Dispatcher {
 public:
  // State between the calls of one run: enough to continue elsewhere.
  struct History {
    CapabilityState state;
    std::vector<CallRecord> records;
    uint64_t malformed = 0;     // number among the records
    uint64_t record_bytes = 0;  // size of their texts
    uint64_t records_dropped = 0;
    HostError last_error{Errno::kOk, {}, {}};
    std::optional<CallRecord> denial;  // the last call that no grant allowed
  };

  // Both are borrowed, and must outlive the dispatcher.
  Dispatcher(Guest& guest, Broker& broker) : guest_(guest), broker_(broker) {}

  // `arguments` and `results` are 64-bit slots of the engine, as many as wasm_signature_of(function) has; i32 in the
  // low half, f64 as its bits.
  CallOutcome call(const FunctionSpec& function, std::span<const uint64_t> arguments,
                   std::span<uint64_t> results);

  // The same call for a program that passes values instead of pointers (host/calls/door.h). Errors in the arguments are
  // passed in their place, and are paid for and recorded like any failure.
  ValueOutcome call(const FunctionSpec& function, const HostResult<Arguments>& arguments);

  // Adds a call of one of the embedder's own functions.
  void record(CallRecord record);
  // The same for a caller that tracks denials itself: last_denial() stays unchanged.
  void list(CallRecord record);

  static constexpr size_t kMaxRecords = 10'000;
  static constexpr size_t kMaxMalformedRecords = 1'000;
  static constexpr size_t kMaxRecordBytes = 2u << 20;  // bound on all their texts
  // In order; beyond kMaxRecords or kMaxRecordBytes calls are only counted. So are calls with malformed arguments
  // (EFAULT, EINVAL) beyond kMaxMalformedRecords: they need not be paid for and had no effect, and must not displace
  // those that did.
  [[nodiscard]] const std::vector<CallRecord>& records() const { return history_.records; }
  [[nodiscard]] uint64_t records_dropped() const { return history_.records_dropped; }
  // The last call that no grant allowed, or null: a program that then traps was denied.
  [[nodiscard]] const CallRecord* last_denial() const {
    return history_.denial ? &*history_.denial : nullptr;
  }

  // Why the last call failed, of whatever kind; kOk when it succeeded. Code that checks an errno right after the
  // call (as "!" does) finds the words for it here.
  [[nodiscard]] const HostError& last_error() const { return history_.last_error; }

  [[nodiscard]] CapabilityState& state() { return history_.state; }
  [[nodiscard]] const History& history() const { return history_; }
  // `history` may come from a thawed run: the bytes of its records are counted here.
  void go_on_from(History history);

 private:
  // What a call is paid and recorded by, from start to end.
  struct Account {
    HostResult<uint64_t> bytes_out;  // of the arguments' strings; or why they are malformed
    uint64_t bytes_in = 0;
    std::string summary = {};
    std::vector<std::string> redirects = {};
    std::optional<std::vector<CallPart>> parts = {};
    std::chrono::steady_clock::time_point start = {};
  };

  HostResult<uint64_t> decode(const FunctionSpec& function, std::span<const uint64_t> arguments, Call& call);
  ValueOutcome act(const FunctionSpec& function, Call& call, Account& account);
  HostResult<Value> perform(const FunctionSpec& function, Call& call);
  HostResult<void> give(const FunctionSpec& function, const Value& value, std::span<uint64_t> results);
  void settle(const FunctionSpec& function, const HostError* error, Account account);
  void record_parts(const FunctionSpec& function, Account& account);
  void record_part(CallRecord record, CallPart part);
  void record_redirects(std::vector<std::string> redirects);
  CallOutcome finish(const FunctionSpec& function, const HostResult<void>& done, std::span<uint64_t> results);

  Guest& guest_;
  Broker& broker_;
  History history_;
};

}  // namespace membrane::host
