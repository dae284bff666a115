#include "engine/freeze/snapshot_references.h"

#include "engine/execution/frame_states.h"
#include "engine/instance/machine.h"

namespace membrane::engine {

using wasm::ValType;

ReferenceKind reference_kind(const wasm::Module& module, ValType type) {
  if (!wasm::is_ref(type)) return ReferenceKind::kNone;
  switch (wasm::top_of(module, type)) {
    case ValType::kFuncRef: return ReferenceKind::kFunction;
    case ValType::kExnRef: return ReferenceKind::kException;
    case ValType::kAnyRef: return ReferenceKind::kAny;
    default: return ReferenceKind::kExtern;
  }
}

uint64_t thawed(Instance& instance, ReferenceKind kind, uint64_t bits) {
  if (bits == 0) return 0;
  const auto number_of = [&](uint64_t number) { return number + Machine::first_object(instance); };
  switch (kind) {
    case ReferenceKind::kFunction:
      return reinterpret_cast<uint64_t>(Machine::function(instance, static_cast<uint32_t>(bits - 1)));
    case ReferenceKind::kException: return bits + Machine::first_exception(instance);
    case ReferenceKind::kAny: return renumbered(bits, number_of);
    case ReferenceKind::kExtern: return renumbered_extern(bits, number_of);
    case ReferenceKind::kNone: return bits;
  }
  return bits;
}

bool refers_to_objects(const wasm::Module& module, ValType type) {
  const ReferenceKind kind = reference_kind(module, type);
  return kind == ReferenceKind::kAny || kind == ReferenceKind::kExtern;
}
bool has_heap(const wasm::Module& module) { return !module.type_details.empty(); }
bool is_array(const wasm::Module& module, uint32_t type) {
  return module.kind_of_type(type) == wasm::TypeKind::kArray;
}

bool calls(const wasm::Module& module, wasm::TypeRelations& relations, const wasm::StackTypes& stack,
           uint32_t function) {
  if (stack.before == wasm::Opcode::kCall) return stack.before_index == function;
  return callee_type(module, stack) != nullptr &&
         relations.type_matches(module.functions[function].type, stack.before_index);
}

}  // namespace membrane::engine
