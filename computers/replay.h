// Runs a command again that a receipt is of (`membrane run --kind linux --deterministic --seal`), and says whether the same came out.
//
// Threads: the caller's process has one.
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "sandbox/receipt_replay.h"

namespace membrane::computers {

// Whether what the receipt is of ran in a Linux sandbox.
bool is_of_computer(const sandbox::Receipt& receipt);

// The image is found among those of this machine. Errors: kUnsupported for what cannot be the same again, with the reason; kNotFound for
// an image that is not here; kInvalidArgument when a line that is needed was taken away; those of linux::run_computer().
Result<sandbox::Replayed> replay(std::span<const sandbox::SealedRun> runs,
                                 const std::function<bool()>& is_cancelled);

}  // namespace membrane::computers
