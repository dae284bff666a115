// What a frozen run includes besides its instance: the embedder's part of a snapshot. For the format see
// docs/snapshot-format.md.
//
// The policy is not included: the thawing caller decides what is granted. Nor is the outside world: files, stores,
// databases and the real clock are as they are at that time.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/dispatch.h"
#include "host/flows.h"
#include "host/local_broker.h"

namespace membrane::sandbox {

// For a run that waits for the answer to a call. Otherwise, a run that has read data marked by the trifecta rule is
// written as version 3, and others as version 2.
inline constexpr uint32_t kFrozenStateVersion = 4;

// The functions that a run calls, in this order. Those that a module lacks are skipped.
enum class RunPhase : uint8_t {
  kStart,       // the module's start function
  kInitialize,  // the export _initialize, of a WASI reactor
  kEntry,
};

struct FrozenState {
  std::string program_name;
  std::string entry;                  // the export that is called, or will be
  RunPhase phase = RunPhase::kEntry;  // the current phase: later ones are still to come
  std::vector<std::string> arguments;
  std::string input;

  // Output so far.
  std::string stdout_text, stderr_text, result, answer;
  bool submitted = false;
  uint64_t written_bytes = 0;  // to stdout and stderr, in bytes as written

  std::string wasi;  // from wasi::System::freeze(); "" when the module imports nothing of WASI

  uint64_t heap_next = 0;
  bool memory_limit_was_hit = false;
  host::LocalBroker::Position sources;
  uint64_t host_calls = 0, bytes_in = 0, bytes_out = 0, tokens = 0;  // taken from the budget
  uint64_t tokens_reported = 0;
  host::Dispatcher::History history;
  host::FlowState flows;

  // It waits for the answer to a call of an embedder's function: its frames are just before the call, which has been
  // counted. The value is the function's note, "" for none.
  std::optional<std::string> waits;
};

std::vector<uint8_t> write_state(FrozenState state);
// Errors: kInvalidInput for an invalid state, kUnsupported for another version.
Result<FrozenState> read_state(std::span<const uint8_t> bytes);

}  // namespace membrane::sandbox
