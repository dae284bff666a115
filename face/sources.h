// An embedder's choice of a session's time and randomness, in the sandbox's types.
//
// Threads: functions without state.
#pragma once

#include <optional>

#include "membrane/session.hpp"
#include "sandbox/run/sandbox.h"

namespace membrane::face {

// Fills in `made`, which has its policy already. Fails for a choice that is impossible: a clock that begins outside its range, a missing
// function, an unknown time zone.
std::optional<Failure> add_sources(SessionOptions& options, sandbox::RunOptions& made);

}  // namespace membrane::face
