// Holds the engine to the reference interpreter, on one generated module.
//
// Threads: pure, but for the engine's own pools.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace membrane::engine {

// What became of the compared modules.
struct DifferentialCount {
  uint64_t finished = 0, trapped = 0, too_long = 0;
  uint64_t fuel = 0;
};

// Makes a module from the choices and runs it by the reference, by the engine at once, and by the
// engine with a little fuel at a time. "" when all agree in results, trap, its place, fuel, memory,
// table and globals; else what differs.
std::string compare_with_reference(std::span<const uint8_t> choices, DifferentialCount& count);

}  // namespace membrane::engine
