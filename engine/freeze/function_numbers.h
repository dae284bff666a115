// References to functions of a module as numbers that mean the same in every process: a function's index plus one, and 0
// for null.
//
// Of references in an instance that stands alone (InstanceStart): its own functions are the module's, and the imports,
// which are others in each Store, are in a list of their own: where they are, and which they are.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/code/compiled_module.h"

namespace membrane::engine {

// kUnsupported for what is neither null nor a function of the module.
Result<std::vector<uint32_t>> function_numbers(std::span<const uint64_t> references, CompiledModule& module,
                                               std::span<const std::pair<size_t, uint32_t>> imports);

// The number of an import stays 0, and the import is added to `imports`. A number that is not a function's makes `ok`
// false; the caller checks the type.
std::vector<uint64_t> function_references(std::span<const uint32_t> numbers, CompiledModule& module,
                                          std::vector<std::pair<size_t, uint32_t>>& imports, bool& ok);

}  // namespace membrane::engine
