// What a call of the module face takes along besides its instance: the embedder's part of its snapshot, byte by byte in
// docs/snapshot-format.md. Runs of a sandbox have another (frozen_state.h).
//
// Threads: values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace membrane::sandbox {

inline constexpr uint32_t kKeptCallVersion = 1;

struct KeptCall {
  uint64_t heap_next = 0;  // of the heap of host functions
  // It waits for the answer to the call of the host that its frames stand in front of: what the function said of it, "" for
  // nothing.
  std::optional<std::string> waits;
};

std::vector<uint8_t> write_kept_call(KeptCall call);
// Errors: kInvalidInput for what is no such call, kUnsupported for another version.
Result<KeptCall> read_kept_call(std::span<const uint8_t> bytes);

}  // namespace membrane::sandbox
