#include "wasm/module.h"

#include <algorithm>
#include <atomic>

namespace membrane::wasm {
namespace {

// The number of imports in an index space, where they come first. Logarithmic, since it is called
// often, and there may be very many.
uint32_t count_imports(const auto& space) {
  const auto end = std::partition_point(space.begin(), space.end(),
                                        [](const auto& item) { return item.import != kNotImported; });
  return static_cast<uint32_t>(end - space.begin());
}

}  // namespace

namespace {

std::string_view name_of_heap_type(ValType type) {
  switch (nullable(type)) {
    case ValType::kFuncRef: return "func";
    case ValType::kExternRef: return "extern";
    case ValType::kAnyRef: return "any";
    case ValType::kEqRef: return "eq";
    case ValType::kI31Ref: return "i31";
    case ValType::kStructRef: return "struct";
    case ValType::kArrayRef: return "array";
    case ValType::kExnRef: return "exn";
    case ValType::kNullRef: return "none";
    case ValType::kNullExternRef: return "noextern";
    case ValType::kNullFuncRef: return "nofunc";
    case ValType::kNullExnRef: return "noexn";
    default: return "any";
  }
}

}  // namespace

std::string name_of(ValType type) {
  switch (type) {
    case ValType::kI32: return "i32";
    case ValType::kI64: return "i64";
    case ValType::kF32: return "f32";
    case ValType::kF64: return "f64";
    case ValType::kV128: return "v128";
    case ValType::kI8: return "i8";
    case ValType::kI16: return "i16";
    case ValType::kNullRef: return "nullref";
    case ValType::kNullFuncRef: return "nullfuncref";
    case ValType::kNullExternRef: return "nullexternref";
    case ValType::kNullExnRef: return "nullexnref";
    case ValType::kBottomRef: return "a reference";
    case ValType::kBottom: return "any";
    default: break;
  }
  if (!is_indexed(type) && is_nullable(type)) return std::string(name_of_heap_type(type)) + "ref";
  return std::string(is_nullable(type) ? "(ref null " : "(ref ") +
         (is_indexed(type) ? std::to_string(type_index_of(type)) : std::string(name_of_heap_type(type))) +
         ")";
}

// Each type has a word of static memory, which is written once. There is one for every type that a module can
// refer to; the system provides memory for those that are used.
std::span<const ValType> only(ValType t) {
  constexpr size_t kAbstract = 512, kDefined = size_t{kUnknownTypeIndex} + 1;
  static constinit ValType words[kAbstract + 2 * kDefined];
  const auto bits = static_cast<uint32_t>(t);
  const size_t at =
      is_indexed(t) ? kAbstract + 2 * size_t{type_index_of(t)} + (is_nullable(t) ? 0 : 1) : bits % kAbstract;
  const std::atomic_ref word(words[at]);
  ValType none{};
  if (word.load(std::memory_order_acquire) != t)
    word.compare_exchange_strong(none, t, std::memory_order_acq_rel);
  return {&words[at], 1};
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

void keep_detail(Module& module, TypeDetail detail) {
  auto& details = module.type_details;
  if (details.empty() && is_plain(detail)) return;
  while (details.size() + 1 < module.types.size()) {
    details.emplace_back();
    details.back().group_begin = static_cast<uint32_t>(details.size() - 1);
  }
  details.push_back(std::move(detail));
}

uint32_t Module::imported_function_count() const { return count_imports(functions); }
uint32_t Module::imported_table_count() const { return count_imports(tables); }
uint32_t Module::imported_memory_count() const { return count_imports(memories); }
uint32_t Module::imported_global_count() const { return count_imports(globals); }

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
