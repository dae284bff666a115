// Hints for a program that embeds the engine: the embedder's calls in place of the command's flags.
//
// Threads: pure.
#pragma once

#include <string>

#include "sandbox/report/report.h"

namespace membrane::face {

// "--allow kv" is Policy::allow("kv"), and "limits.fuel (--fuel 400)" is limits.fuel (Policy::limit("fuel", "400")). Other words stay.
// python/membrane/_hints.py and node/src/hints.ts turn these into their own.
std::string embedder_hint(std::string hint);

// In the messages, hints and grants of the report.
void say_to_embedder(sandbox::Report& report);

}  // namespace membrane::face
