// How the functions of a module run.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace membrane::engine {

// Results, fuel, traps and their places are the same in all.
enum class Tier : uint8_t {
  kInterpreter,  // starts at once
  kCompiler,     // everything is compiled to machine code first; what cannot be is interpreted
  kAuto,         // interpreted first; a function that uses much fuel is compiled, also while it runs
};

std::string_view name_of(Tier tier);  // "interpreter", "compiler", "auto"
std::optional<Tier> find_tier(std::string_view name);

}  // namespace membrane::engine
