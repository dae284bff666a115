// The interpreter: threaded code, a handler an operation, each handler ending in a jump
// to the next (a tail call, so that the interpreter's eight registers stay in the CPU's).
//
// Where the compiler cannot be trusted with tail calls (no optimisation, sanitizers), the
// same handlers return to a loop instead; results and fuel are the same.
//
// Threads: runs on the thread that calls Execution::resume.
#pragma once

#include "engine/instance/run.h"

namespace membrane::engine {

// Runs `run` from its saved registers until it stops; its state says why.
void interpret(Run& run);

// The code after the outermost frame.
extern const Word kExitStub[2];
// After a frame that compiled code has called.
extern const Word kReturnToNativeStub[2];
// After a call into another instance.
extern const Word kCrossReturnStub[2];
// In place of a frame that ended in a call of the host, whose results are the frame's.
extern const Word kTailHostStub[2];
// Of an operation that leaves its frame for a function that is not the instance's own code.
bool is_tail_call(Handler handler);

// What the interpreter uses before the function that then runs is compiled, where functions may be. About what
// compiling one costs.
inline constexpr uint64_t kSampleFuel = 20'000;

// Moves `slice` from the reserve to `fuel`, or what it takes to cover `needed`, or what there is. True when
// the owner's poll, which it is time for now and then, asks to stop.
bool refill_slice(Run& run, int64_t& fuel, uint64_t needed, uint64_t slice);

}  // namespace membrane::engine
