// Compares the engine with the reference interpreter, on one generated module.
//
// Threads: pure, but for the engine's own pools.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/code/tier.h"

namespace membrane::engine {

// The outcomes of the compared modules.
struct DifferentialCount {
  uint64_t finished = 0, trapped = 0, too_long = 0;
  uint64_t fuel = 0;
};

// Makes a module from the choices and runs it by the reference, by a tier of the engine at once, and
// by that with a little fuel at a time. "" when all agree in results, trap, its place, fuel, memory,
// table and globals; else what differs.
std::string compare_with_reference(std::span<const uint8_t> choices, DifferentialCount& count, Tier tier);

// For comparing with other engines: a module of the shared dialect and its outcome here, as fields
// separated by tabs (tools/compare-with-v8 reads them). "" when it ended for a reason that only this engine has:
// its fuel, or the depth of calls.
//
//   the binary, in base64      the arguments of "run", as type:bits, separated by commas
//   "finished" or the trap     its results, likewise      the globals g0 to g3, as bits
//   the table, a 0 or 1 for each element      the memory's size      its SHA-256
std::string run_for_others(std::span<const uint8_t> choices, Tier tier);

}  // namespace membrane::engine
