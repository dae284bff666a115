// Where the frames of a run stand.
//
// Threads: reads an Execution that its thread has stopped.
#pragma once

#include <span>
#include <vector>

#include "engine/code.h"
#include "engine/trap.h"

namespace membrane::engine {

// One frame: a word of the interpreter's code, or an address in machine code.
struct FrameStop {
  const FunctionCode* function;
  const Word* at = nullptr;
  const void* native_at = nullptr;
  uint64_t* fp = nullptr;  // of a frame of the interpreter
};

// The stack of a stopped run, innermost first; at most `limit` frames.
std::vector<FrameStop> frame_stops(Execution& ex, size_t limit);

struct StopPlaces {
  std::vector<CodePlace> places;  // of each stop
  uint32_t unspent = 0;           // of the innermost stop's segment: the cost of what is behind it
};
StopPlaces places_of(std::span<const FrameStop> stops);

}  // namespace membrane::engine
