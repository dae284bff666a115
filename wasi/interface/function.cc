#include "wasi/interface/function.h"

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
#define WASI(name, params, before)                                                                      \
  {FunctionId::name, Abi::kPreview1, #name, type_of(params, FunctionId::name != FunctionId::proc_exit), \
   before},
#include "wasi/interface/preview1.def"
#undef WASI
  };
  return rows;
}

const std::vector<Function>& unstable_table() {
  static const std::vector<Function> rows = [] {
    std::vector<Function> found = table();
    std::erase_if(found, [](const Function& function) { return function.id == FunctionId::sock_accept; });
    for (Function& function : found) function.abi = Abi::kUnstable;
    return found;
  }();
  return rows;
}

const Function* find_in(const std::vector<Function>& rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &Function::name);
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

std::span<const Function> functions() { return table(); }

const Function* find_function(std::string_view name) { return find_in(table(), name); }

const Function* find_function(std::string_view module, std::string_view name) {
  if (module == kModule) return find_in(table(), name);
  return module == kUnstableModule ? find_in(unstable_table(), name) : nullptr;
}

}  // namespace membrane::wasi
