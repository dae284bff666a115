// An embedder's choice of a session's time and randomness, in the sandbox's types.
//
// Threads: functions without state.
#pragma once

#include <optional>

#include "membrane/session.hpp"
#include "sandbox/run/sandbox.h"

namespace membrane::face {

// Into `made`, whose policy is there. The failure of a choice that cannot be had: a clock that begins outside its range, a function that is
// missing, a time zone that is not there.
std::optional<Failure> add_sources(SessionOptions& options, sandbox::RunOptions& made);

}  // namespace membrane::face
