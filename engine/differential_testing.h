// Holds the engine to the reference interpreter, on one generated module.
//
// Threads: pure, but for the engine's own pools.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/tier.h"

namespace membrane::engine {

// What became of the compared modules.
struct DifferentialCount {
  uint64_t finished = 0, trapped = 0, too_long = 0;
  uint64_t fuel = 0;
};

// Makes a module from the choices and runs it by the reference, by a tier of the engine at once, and
// by that with a little fuel at a time. "" when all agree in results, trap, its place, fuel, memory,
// table and globals; else what differs.
std::string compare_with_reference(std::span<const uint8_t> choices, DifferentialCount& count, Tier tier);

}  // namespace membrane::engine
