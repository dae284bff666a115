// What a call of the module interface includes besides its instance: the embedder's part of its snapshot. For the
// format see docs/snapshot-format.md. Runs of a sandbox have another one (frozen_state.h).
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
  uint64_t heap_next = 0;  // end of the host functions' allocations in the heap
  // It waits for the answer to a host call, with its frames just before the call: the function's note, "" for none.
  std::optional<std::string> waits;
};

std::vector<uint8_t> write_kept_call(KeptCall call);
// Errors: kInvalidInput for an invalid call, kUnsupported for another version.
Result<KeptCall> read_kept_call(std::span<const uint8_t> bytes);

}  // namespace membrane::sandbox
