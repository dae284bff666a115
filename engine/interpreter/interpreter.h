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
// After a frame that ended in a tail call of the host, whose results are the frame's.
extern const Word kTailHostStub[2];
// After an operation that leaves its frame for a function that is not the instance's own code.
bool is_tail_call(Handler handler);

// The fuel that the interpreter uses before it has the running function compiled, where functions may be
// compiled. About the cost of compiling one.
inline constexpr uint64_t kSampleFuel = 20'000;

// Moves `slice` from the reserve to `fuel`, or more to cover `needed`, or all that is left. True when the
// owner's poll, which is due now and then, asks to stop.
bool refill_slice(Run& run, int64_t& fuel, uint64_t needed, uint64_t slice);

}  // namespace membrane::engine
