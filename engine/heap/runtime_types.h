// What types mean at run time, across modules.
//
// In a module of plain types (final function types, each in a group of its own, that name no other types), a type
// is its FuncType: two are the same when they are equal, in any module. That costs nothing to make, and most modules
// are so. Where a module has others, all its types are looked up in a registry of the process by
// their recursive groups, and become RuntimeTypes: two that are not plain are the same when they have one
// address. A type is in the registry as long as a module that has it is alive.
//
// Threads: the registry is shared; the rest is constant.
//
// Specification: chapters 3.3 (matching) and 4.2 (runtime structure).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "wasm/module.h"

namespace membrane::engine {

// What a collector must know of a value.
enum class Traced : uint8_t {
  kNothing,
  kAny,     // a reference below anyref
  kExtern,  // below externref: the host's, or a converted one
};

// Where a field is in an object. Fields keep their order, each at a multiple of its size, so that a subtype's
// begin with its supertype's.
struct FieldLayout {
  uint32_t offset = 0;
  uint8_t bytes = 0;  // 1, 2, 4, 8 or 16
  Traced traced = Traced::kNothing;
};

// A type of the registry.
struct RuntimeType : wasm::FuncType {
  wasm::TypeKind kind = wasm::TypeKind::kFunc;
  uint32_t depth = 0;  // how many supertypes it has, direct or not
  const RuntimeType* supertype = nullptr;
  std::vector<FieldLayout> fields;  // of a struct; of an array that of its elements
  uint32_t struct_bytes = 0;
};

// Those of one module, which keeps them alive.
class ModuleTypes {
 public:
  ModuleTypes() = default;
  ~ModuleTypes();
  ModuleTypes(const ModuleTypes&) = delete;
  ModuleTypes& operator=(const ModuleTypes&) = delete;

  // The identity of each type of the module, whose declarations are valid; it must outlive this. Equal types
  // have equal pointers, to RuntimeTypes where the module has types that are not plain.
  void find(const wasm::Module& module);

  [[nodiscard]] const wasm::FuncType* operator[](uint32_t index) const { return types_[index]; }
  [[nodiscard]] const wasm::FuncType* const* data() const { return types_.data(); }

 private:
  struct Group;
  friend struct TypeRegistry;
  void unify(const wasm::Module& module);
  void look_up(const wasm::Module& module);

  std::vector<const wasm::FuncType*> types_;
  std::vector<std::shared_ptr<Group>> groups_;  // each refers to none but those before it
};

inline wasm::TypeKind kind_of(const wasm::FuncType* type) {
  return type->is_unique ? static_cast<const RuntimeType*>(type)->kind : wasm::TypeKind::kFunc;
}
bool same_type(const wasm::FuncType* a, const wasm::FuncType* b);
// Whether `sub` is `super`, or has it as a supertype.
inline bool is_subtype(const wasm::FuncType* sub, const wasm::FuncType* super) {
  if (sub == super) return true;
  if (!sub->is_unique || !super->is_unique) return same_type(sub, super);
  const auto* type = static_cast<const RuntimeType*>(sub);
  const auto* const wanted = static_cast<const RuntimeType*>(super);
  while (type->depth > wanted->depth) type = type->supertype;
  return type == wanted;
}

// A value type, and the defined type that it refers to, if any.
struct RuntimeValType {
  wasm::ValType type = wasm::ValType::kI32;
  const wasm::FuncType* defined = nullptr;
};
bool matches(const RuntimeValType& sub, const RuntimeValType& super);
Traced traced_of(const RuntimeValType& type);

}  // namespace membrane::engine
