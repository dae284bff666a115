// The places of a run's frames.
//
// Threads: reads a Run that its thread has stopped.
#pragma once

#include <span>
#include <vector>

#include "engine/code/code.h"
#include "engine/code/trap.h"
#include "engine/instance/run.h"

namespace membrane::engine {

// One frame: a word of the interpreter's code, or an address in machine code.
struct FrameStop {
  const FunctionCode* function;
  const Word* at = nullptr;
  const void* native_at = nullptr;
  uint64_t* fp = nullptr;  // its first slot
  size_t depth = 0;        // of its record, or of its return address
  Instance* instance = nullptr;
  // The run waits at `at` for fuel or its owner, and has not executed what comes next.
  bool is_unpaid = false;
};

// Walks from the innermost frame outwards. A frame's caller is the interpreter's or machine code: the
// record and the return address of its depth say which (native/state.h).
class FrameWalk {
 public:
  explicit FrameWalk(Run& run);
  bool next(FrameStop& stop);  // false after the outermost

 private:
  void leave();
  void leave_record();

  const MachineState& m_;
  const FrameRecord* const frames_;
  ptrdiff_t depth_ = 0;
  const Word* at_ = nullptr;
  uint64_t* fp_ = nullptr;
  const void* native_at_ = nullptr;  // when the frame at depth_ is machine code's
  Instance* instance_;               // whose code the frame runs
};

// The stack of a stopped run, innermost first; at most `limit` frames.
std::vector<FrameStop> frame_stops(Run& run, size_t limit);

struct StopPlaces {
  std::vector<CodePlace> places;  // of each stop
  uint32_t unspent = 0;           // of the innermost stop's segment: the cost of what comes after it
};
StopPlaces places_of(std::span<const FrameStop> stops);

}  // namespace membrane::engine
