// From a validated function body to internal code (code.h).
//
// Deterministic: the same body gives the same words at every call, so that no table of places is
// kept. When a trap or a backtrace needs places, the function is translated again, once, with a
// Recorder for each word in question.
//
// Threads: pure; scratch space is thread-local.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/code/code.h"
#include "wasm/module.h"

namespace membrane::engine {

// A slot that is not written yet, since its value is a constant or in another slot.
struct PendingSlot {
  uint16_t slot = 0;
  bool is_constant = false;
  uint64_t value = 0;  // the constant, or the other slot
};

// The origin of the word of interest.
struct Recorder {
  uint32_t wanted = UINT32_MAX;              // index of a word: an operation that may trap, or a header
  uint32_t wanted_code_offset = UINT32_MAX;  // or: of segments
  std::vector<uint32_t> headers;             // their header words

  bool found = false;
  uint32_t code_offset = 0;          // of the instruction, from the body's start; for a header, of the
                                     // instruction before it (the call that returns to it)
  uint32_t cost_to_here = 0;         // of the segment, up to and with the instruction
  uint32_t header = 0;               // index of the segment's header word
  std::vector<PendingSlot> pending;  // at a header: of the operand stack
};

// Appends the code of function `index` to `out`. Calls carry the addresses of the module's FunctionCodes;
// `recorders`, which may be empty, and `catches` are filled in.
void translate(CompiledModule& module, uint32_t index, std::vector<Word>& out, std::span<Recorder> recorders,
               CatchTable* catches = nullptr);

}  // namespace membrane::engine
