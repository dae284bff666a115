// Valid WebAssembly modules from any bytes, for fuzzing and differential tests.
//
// The bytes are choices: the same bytes make the same module, and when they are used up, the module
// is brought to its end. Instructions are chosen with the types on the stack in view; what an
// instruction lacks is pushed for it. So the module always validates, and values stay pending on the
// stack across sets, calls and blocks, which is where a translator that defers them can go wrong.
//
// The modules have several functions of all number types and vectors, blocks with parameters and results, exceptions, every kind of
// branch, direct, indirect and tail calls, structs, arrays and references, memory and table instructions that are mostly in bounds,
// globals, loops that mostly end, and every numeric and vector instruction. No imports.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace membrane::engine {

struct GeneratedModule {
  std::vector<uint8_t> binary;
  // The arguments of function 0, exported as "run": one number each, whose bits are made to fit the parameter's
  // type; a vector's other half is made from them.
  std::vector<uint64_t> arguments;
};

enum class Dialect : uint8_t {
  kOurs,    // all that this engine knows
  kShared,  // what other engines know, too, and has one result everywhere: no exceptions, one memory, NaNs that
            // arithmetic makes become one at once, and "run" takes and gives no vectors
};

GeneratedModule generate_module(std::span<const uint8_t> choices, Dialect dialect = Dialect::kOurs);

// `count` bytes of choices that look random and are the same everywhere.
std::vector<uint8_t> choices_of_seed(uint64_t seed, size_t count);

}  // namespace membrane::engine
