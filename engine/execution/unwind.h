// The search for the clause that catches an exception, and the unwinding of frames of both tiers
// (exceptions.h).
//
// The clauses of compiled code are found by compiling a function again when an exception first passes it. Frames are
// left by forgetting them: what runs next finds the stacks by the innermost record, or by the return address of the
// frame that catches.
//
// Threads: one Run's.
#pragma once

#include "engine/instance/run.h"

namespace membrane::engine {

// See Run::find_catch() and Run::enter_catch().
CatchSearch find_catch(Run& run, uint64_t most_fuel);
Caught enter_catch(Run& run, const CatchSearch& found);

}  // namespace membrane::engine
