// What a frozen run takes along besides its instance: the embedder's part of a snapshot, byte by byte in
// docs/snapshot-format.md.
//
// The policy is not in it: whoever thaws says what is granted. Nor is the world: files, stores, databases
// and the real clock are found as they are.
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

// Of a run that waits for the answer to a call. One that does not, and has read what the trifecta rule minds, is written as
// version 3, and others as version 2.
inline constexpr uint32_t kFrozenStateVersion = 4;

// What a run calls, in this order. What a module lacks is left out.
enum class RunPhase : uint8_t {
  kStart,       // the module's start function
  kInitialize,  // the export _initialize, of a WASI reactor
  kEntry,
};

struct FrozenState {
  std::string program_name;
  std::string entry;                  // the export that is called, or will be
  RunPhase phase = RunPhase::kEntry;  // where it stands: the phases after it are to come
  std::vector<std::string> arguments;
  std::string input;

  // What it said.
  std::string stdout_text, stderr_text, result, answer;
  bool submitted = false;
  uint64_t written_bytes = 0;  // to stdout and stderr, as they came

  std::string wasi;  // of wasi::System::freeze(); "" when the module imports nothing of WASI

  uint64_t heap_next = 0;
  bool memory_limit_was_hit = false;
  host::LocalBroker::Position sources;
  uint64_t host_calls = 0, bytes_in = 0, bytes_out = 0, tokens = 0;  // taken from the budget
  uint64_t tokens_reported = 0;
  host::Dispatcher::History history;
  host::FlowState flows;

  // It waits for the answer to the call of an embedder's function that its frames stand in front of, which has counted
  // already: what the function said of it, "" for nothing.
  std::optional<std::string> waits;
};

std::vector<uint8_t> write_state(FrozenState state);
// Errors: kInvalidInput for what is no such state, kUnsupported for another version.
Result<FrozenState> read_state(std::span<const uint8_t> bytes);

}  // namespace membrane::sandbox
