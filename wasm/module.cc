#include "wasm/module.h"

#include <algorithm>

namespace membrane::wasm {
namespace {

std::string_view find_name(const std::vector<NameEntry>& names, uint32_t outer, uint32_t index) {
  const auto at = std::lower_bound(names.begin(), names.end(), std::pair(outer, index),
                                   [](const NameEntry& e, std::pair<uint32_t, uint32_t> key) {
                                     return std::pair(e.outer, e.index) < key;
                                   });
  if (at == names.end() || at->outer != outer || at->index != index) return {};
  return at->name;
}

uint32_t count_imports(const Module& module, ExternKind kind) {
  return static_cast<uint32_t>(std::count_if(module.imports.begin(), module.imports.end(),
                                             [&](const Import& i) { return i.kind == kind; }));
}

}  // namespace

std::string_view name_of(ValType type) {
  switch (type) {
    case ValType::kI32: return "i32";
    case ValType::kI64: return "i64";
    case ValType::kF32: return "f32";
    case ValType::kF64: return "f64";
    case ValType::kV128: return "v128";
    case ValType::kFuncRef: return "funcref";
    case ValType::kExternRef: return "externref";
    case ValType::kExnRef: return "exnref";
    case ValType::kBottom: return "any";
  }
  return "any";
}

std::string_view name_of(ExternKind kind) {
  switch (kind) {
    case ExternKind::kFunc: return "func";
    case ExternKind::kTable: return "table";
    case ExternKind::kMemory: return "memory";
    case ExternKind::kGlobal: return "global";
    case ExternKind::kTag: return "tag";
  }
  return "func";
}

std::string_view Names::function(uint32_t index) const { return find_name(functions, 0, index); }
std::string_view Names::local(uint32_t function, uint32_t index) const {
  return find_name(locals, function, index);
}

uint32_t Module::imported_function_count() const { return count_imports(*this, ExternKind::kFunc); }
uint32_t Module::imported_table_count() const { return count_imports(*this, ExternKind::kTable); }
uint32_t Module::imported_memory_count() const { return count_imports(*this, ExternKind::kMemory); }
uint32_t Module::imported_global_count() const { return count_imports(*this, ExternKind::kGlobal); }

const Export* Module::find_export(std::string_view name) const {
  const auto at =
      std::find_if(exports.begin(), exports.end(), [&](const Export& e) { return e.name == name; });
  return at == exports.end() ? nullptr : &*at;
}

const SourcePoint* Module::source_of(uint32_t code_offset) const {
  auto at = std::upper_bound(source_map.begin(), source_map.end(), code_offset,
                             [](uint32_t offset, const SourcePoint& p) { return offset < p.code_offset; });
  return at == source_map.begin() ? nullptr : &*std::prev(at);
}

}  // namespace membrane::wasm
