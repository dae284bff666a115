// References in snapshots: functions are indices, objects and exceptions are numbers of the snapshot's own.
//
// Threads: one at a time, as for the Instance.
#pragma once

#include <cstdint>

#include "engine/heap/heap.h"
#include "engine/instance/instance.h"
#include "wasm/module.h"
#include "wasm/type_relations.h"
#include "wasm/validate.h"

namespace membrane::engine {

// How a reference is written.
enum class ReferenceKind : uint8_t { kNone, kFunction, kException, kAny, kExtern };
ReferenceKind reference_kind(const wasm::Module& module, wasm::ValType type);

// A reference below anyref, with the number of its object replaced.
inline uint64_t renumbered(uint64_t any, auto number_of) {
  return is_object(any) ? object_bits(number_of(object_number(any))) : any;
}
// The same for one below externref, which may be a converted one.
inline uint64_t renumbered_extern(uint64_t bits, auto number_of) {
  if ((bits & kInternalBit) == 0) return bits;
  return kInternalBit | renumbered(bits & ~kInternalBit, number_of);
}

// The instance's reference for that of a snapshot.
uint64_t thawed(Instance& instance, ReferenceKind kind, uint64_t bits);

// Whether values of the type may lead to structs and arrays.
bool refers_to_objects(const wasm::Module& module, wasm::ValType type);
bool has_heap(const wasm::Module& module);
bool is_array(const wasm::Module& module, uint32_t type);

// Whether the frame has just called this function.
bool calls(const wasm::Module& module, wasm::TypeRelations& relations, const wasm::StackTypes& stack,
           uint32_t function);

}  // namespace membrane::engine
