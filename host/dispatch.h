// The one path that every call of a host function takes.
//
//   decode the arguments ─▶ charge fuel ─▶ handler ─▶ (broker) ─▶ write the result ─▶ record
//
// Fuel for the call and for what it takes in is charged before anything happens, so that a
// program without it can be paused and the call made again; fuel for what the call gives is
// owed afterwards, for its size was not known. What a handler does besides (host/work.h) ends with
// the program's fuel: the call then was not made, and can be made again with more.
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

#include "host/call.h"

namespace membrane::host {

struct CallOutcome {
  CallEnd end = CallEnd::kReturn;
  HostError error;  // why, unless end is kReturn or kExit
};

// Arguments that do not lie in the program's memory: each in the place of its parameter, strings
// among `strings` (borrowed for the call), numbers among `bits` as the engine's slots have them.
struct Arguments {
  std::array<std::string_view, kMaxParams> strings{};
  std::array<uint64_t, kMaxParams> bits{};
};

struct ValueOutcome {
  CallEnd end = CallEnd::kReturn;  // kReturn, kExit, kOutOfFuel or kOutOfOutput
  HostResult<Value> value;         // what the function gave, or why it failed, also when it has no errno
};

// What a line shows of its call's arguments, in bytes before they are repaired, and of why it failed.
inline constexpr size_t kMaxSummaryBytes = 200, kMaxReasonBytes = 1'000;
// Cut to that, with "…" where something is missing, and UTF-8.
std::string bounded_summary(std::string summary);
std::string bounded_reason(std::string text);

// Nothing of it left the machine: it was refused before anything happened.
bool was_refused(const HostError& error);

// A line of the report: a call that reached for the world.
struct CallRecord {
  std::string name;  // "http.get"
  Errno code = Errno::kOk;
  std::string reason = {};     // why it was refused or failed
  std::string grant = {};      // what would allow it
  std::string arguments = {};  // for people: its texts and numbers, cut short
  uint64_t bytes_in = 0;       // to the program
  uint64_t bytes_out = 0;      // from the program; 0 when the call was refused before anything happened
  uint64_t latency_us = 0;

  [[nodiscard]] bool allowed() const { return code != Errno::kAccess; }
  [[nodiscard]] size_t text_bytes() const {
    return name.size() + reason.size() + grant.size() + arguments.size();
  }
};

// Begins the reason of a call whose handler threw.
inline constexpr std::string_view kCapabilityFailed = "the capability failed: ";
// Of a call for which the process that runs the program had no memory.
inline constexpr std::string_view kNoMemoryForCall = "the host has no memory for the call";

class Dispatcher {
 public:
  // What it remembers between the calls of one run: enough to go on elsewhere.
  struct History {
    CapabilityState state;
    std::vector<CallRecord> records;
    uint64_t malformed = 0;     // of the records
    uint64_t record_bytes = 0;  // their texts
    uint64_t records_dropped = 0;
    HostError last_error{Errno::kOk, {}, {}};
    std::optional<CallRecord> denial;  // the last call that no grant allowed
  };

  // Both are borrowed, and must outlive the dispatcher.
  Dispatcher(Guest& guest, Broker& broker) : guest_(guest), broker_(broker) {}

  // `arguments` and `results` are the 64-bit slots of the engine, as many as
  // wasm_signature_of(function) has; i32 in the low half, f64 as its bits.
  CallOutcome call(const FunctionSpec& function, std::span<const uint64_t> arguments,
                   std::span<uint64_t> results);

  // The same call for a program that hands over values and no pointers (host/door.h). What is wrong
  // with the arguments is told instead of them, and is paid for and recorded as any failure is.
  ValueOutcome call(const FunctionSpec& function, const HostResult<Arguments>& arguments);

  // Adds a call that somebody else made: of a function of the embedder's own.
  void record(CallRecord record);
  // The same, for whoever knows himself what was denied: last_denial() stays as it is.
  void list(CallRecord record);

  static constexpr size_t kMaxRecords = 10'000;
  static constexpr size_t kMaxMalformedRecords = 1'000;
  static constexpr size_t kMaxRecordBytes = 2u << 20;  // of all their texts
  // In order; past kMaxRecords or kMaxRecordBytes only counted. So are calls with malformed arguments (EFAULT, EINVAL)
  // past kMaxMalformedRecords: they need not be paid for and did nothing, and must not push out what did.
  [[nodiscard]] const std::vector<CallRecord>& records() const { return history_.records; }
  [[nodiscard]] uint64_t records_dropped() const { return history_.records_dropped; }
  // The last call that no grant allowed, or null: a program that then traps was denied.
  [[nodiscard]] const CallRecord* last_denial() const {
    return history_.denial ? &*history_.denial : nullptr;
  }

  // Why the last call failed, whatever it reached for; kOk when it did not. Who checks an errno
  // right behind the call (as "!" does) finds the words for it here.
  [[nodiscard]] const HostError& last_error() const { return history_.last_error; }

  [[nodiscard]] CapabilityState& state() { return history_.state; }
  [[nodiscard]] const History& history() const { return history_; }
  // `history` may be one that was thawed: the bytes of its records are counted here.
  void go_on_from(History history);

 private:
  // What a call is paid and recorded by, from its beginning to its end.
  struct Account {
    HostResult<uint64_t> bytes_out;  // of the arguments' strings; or why they are malformed
    uint64_t bytes_in = 0;
    std::string summary = {};
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
  CallOutcome finish(const FunctionSpec& function, const HostResult<void>& done, std::span<uint64_t> results);

  Guest& guest_;
  Broker& broker_;
  History history_;
};

}  // namespace membrane::host
