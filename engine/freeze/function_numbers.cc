#include "engine/freeze/function_numbers.h"

#include <algorithm>

#include "engine/instance/machine.h"

namespace membrane::engine {

namespace {
constexpr uint32_t kNull = 0;
}

Result<std::vector<uint32_t>> function_numbers(std::span<const uint64_t> references, CompiledModule& module,
                                               std::span<const std::pair<size_t, uint32_t>> imports) {
  const LoneFunctions& lone = module.lone();
  const uint32_t imported = module.module().imported_function_count();
  const size_t own_count = module.module().functions.size() - imported;
  std::vector<uint32_t> numbers(references.size(), kNull);
  for (size_t i = 0; i < references.size(); ++i) {
    if (const auto own = Machine::place_among(lone.functions(), own_count, references[i]))
      numbers[i] = imported + *own + 1;
    else if (references[i] != 0) numbers[i] = UINT32_MAX;
  }
  for (const auto& [at, index] : imports) numbers[at] = index + 1;
  if (std::ranges::find(numbers, UINT32_MAX) != numbers.end())
    return fail(ErrorCode::kUnsupported, "the program holds a reference that is no function of its module",
                "Freeze a run of it into a snapshot instead.");
  return numbers;
}

std::vector<uint64_t> function_references(std::span<const uint32_t> numbers, CompiledModule& module,
                                          std::vector<std::pair<size_t, uint32_t>>& imports, bool& ok) {
  FunctionInstance* const own = module.lone().functions();
  const uint32_t imported = module.module().imported_function_count();
  const size_t function_count = module.module().functions.size();
  std::vector<uint64_t> references(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == kNull) continue;
    const uint32_t index = numbers[i] - 1;
    if (index >= function_count) ok = false;
    else if (index < imported) imports.emplace_back(i, index);
    else references[i] = reinterpret_cast<uint64_t>(own + (index - imported));
  }
  return references;
}

}  // namespace membrane::engine
