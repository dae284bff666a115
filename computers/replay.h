// Repeats the command of a receipt (`membrane run --kind linux --deterministic --seal`) and reports whether
// the result is the same.
//
// Threads: the caller's process has one.
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "sandbox/receipt_replay.h"

namespace membrane::computers {

// Whether the receipt's run was in a Linux sandbox.
bool is_of_computer(const sandbox::Receipt& receipt);

// The image must be among those of this machine. Errors: kUnsupported for a run that cannot be repeated, with
// the reason; kNotFound for a missing image; kInvalidArgument when a needed line was removed; those of
// linux::run_computer().
Result<sandbox::Replayed> replay(std::span<const sandbox::SealedRun> runs,
                                 const std::function<bool()>& is_cancelled);

}  // namespace membrane::computers
