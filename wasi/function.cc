#include "wasi/function.h"

#include <algorithm>
#include <vector>

namespace membrane::wasi {
namespace {

constexpr Before kNothing{};
constexpr Before iovecs(uint8_t pointer, uint8_t count) { return {Before::Kind::kIovecs, pointer, count}; }
constexpr Before length(uint8_t argument) { return {Before::Kind::kLength, argument, 0}; }

wasm::FuncType type_of(std::string_view params, bool returns) {
  wasm::FuncType type;
  for (const char letter : params)
    type.params.push_back(letter == 'I' ? wasm::ValType::kI64 : wasm::ValType::kI32);
  if (returns) type.results.push_back(wasm::ValType::kI32);
  return type;
}

const std::vector<Function>& table() {
  static const std::vector<Function> rows = {
#define WASI(name, params, before)                                                               \
  {FunctionId::name, #name, type_of(params, FunctionId::name != FunctionId::proc_exit), before},
#include "wasi/preview1.def"
#undef WASI
  };
  return rows;
}

}  // namespace

std::span<const Function> functions() { return table(); }

const Function* find_function(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &Function::name);
  return found == table().end() ? nullptr : &*found;
}

}  // namespace membrane::wasi
