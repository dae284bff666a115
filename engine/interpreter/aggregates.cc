#include "engine/interpreter/aggregates.h"

#include <cstring>

#include "engine/code/fuel.h"
#include "engine/instance/machine.h"
#include "engine/interpreter/bulk.h"
#include "wasm/type_relations.h"

namespace membrane::engine {
namespace {

using wasm::Opcode;
using wasm::ValType;

// One instruction, with its operands.
class Aggregate {
 public:
  Aggregate(Run& run, const Word* ip, uint64_t* fp)
      : run_(run),
        m_(Machine::state(run)),
        instance_(*m_.instance),
        ip_(ip),
        slots_(fp + ip[1].slots.a),
        type_(*static_cast<const RuntimeType*>(
            Machine::type(instance_, static_cast<uint32_t>(ip[2].constant)))),
        number_(static_cast<uint32_t>(ip[2].constant >> 32)) {}

  AggregateOutcome run(Opcode op) {
    switch (op) {
      case Opcode::kStructNew: return allocate(0, 0) && (set_fields(), true) ? done() : outcome_;
      case Opcode::kStructNewDefault: return allocate(0, 0) ? done() : outcome_;
      case Opcode::kArrayNew: {
        const uint32_t length = i32(element_slots());
        return allocate(length, 0) && (fill(0, length, slots_), true) ? done() : outcome_;
      }
      case Opcode::kArrayNewDefault: return allocate(i32(0), 0) ? done() : outcome_;
      case Opcode::kArrayNewFixed: return allocate(number_, 0) && (set_elements(), true) ? done() : outcome_;
      case Opcode::kArrayNewData:
      case Opcode::kArrayNewElem: return new_from_segment(op == Opcode::kArrayNewElem);
      case Opcode::kArrayFill: return array_fill();
      case Opcode::kArrayCopy: return array_copy();
      case Opcode::kArrayInitData:
      case Opcode::kArrayInitElem: return init_from_segment(op == Opcode::kArrayInitElem);
      default: return trap(TrapKind::kUnreachable);  // not reached: the translator sends no other
    }
  }

 private:
  [[nodiscard]] uint32_t i32(uint32_t slot) const { return static_cast<uint32_t>(slots_[slot]); }
  [[nodiscard]] const FieldLayout& element() const { return type_.fields[0]; }
  [[nodiscard]] uint32_t element_slots() const { return element().bytes == 16 ? 2 : 1; }

  AggregateOutcome trap(TrapKind kind) {
    m_.trap_kind = kind;
    return outcome_ = AggregateOutcome::kTrapped;
  }
  bool pay(uint64_t price) {
    if (static_cast<int64_t>(price) > m_.fuel) {
      m_.fuel_needed = price;
      outcome_ = AggregateOutcome::kUnpaid;
      return false;
    }
    m_.fuel -= static_cast<int64_t>(price);
    return true;
  }
  AggregateOutcome done() {
    slots_[0] = made_;
    return AggregateOutcome::kDone;
  }

  // Pays, makes room, and makes the object. During a collection the run is at the head of the operation's segment,
  // where its operands are still on the stack.
  bool allocate(uint32_t length, uint64_t more_fuel) {
    Heap& heap = instance_.heap();
    const uint64_t bytes = Heap::bytes_of(type_, length);
    if (!pay(allocation_cost(bytes) + more_fuel)) return false;
    m_.ip = ip_ - ip_[1].slots.d;
    const bool has_room = heap.make_room(bytes, run_, Machine::memory_budget(instance_));
    m_.ip = ip_;
    if (has_room) made_ = heap.add(type_, length);
    if (made_ != 0) return true;
    trap(TrapKind::kHeapExhausted);
    return false;
  }

  uint8_t* fields() { return instance_.heap().object(made_)->fields(); }

  void set_fields() {
    uint8_t* const to = fields();
    const uint64_t* from = slots_;
    for (const FieldLayout& field : type_.fields) {
      std::memcpy(to + field.offset, from, field.bytes);
      from += field.bytes == 16 ? 2 : 1;
    }
  }

  void set_elements() {
    uint8_t* to = fields();
    for (uint32_t i = 0; i < number_; ++i, to += element().bytes)
      std::memcpy(to, slots_ + size_t{i} * element_slots(), element().bytes);
  }

  static void fill(uint8_t* to, const FieldLayout& element, uint64_t count, const uint64_t* value) {
    for (uint64_t i = 0; i < count; ++i, to += element.bytes) std::memcpy(to, value, element.bytes);
  }
  void fill(uint32_t from, uint32_t count, const uint64_t* value) {
    fill(fields() + uint64_t{from} * element().bytes, element(), count, value);
  }

  // Bytes of a data segment, or references of an element segment; null when they are not all there.
  const uint8_t* segment_part(bool of_elements, uint64_t from, uint64_t count) {
    if (of_elements) {
      const std::vector<uint64_t>& elements = Machine::elements(instance_, number_);
      if (!in_bounds(from, count, elements.size())) return nullptr;
      return reinterpret_cast<const uint8_t*>(elements.data() + from);
    }
    const std::span<const uint8_t> data = Machine::data(instance_, number_);
    return in_bounds(from, count * element().bytes, data.size()) ? data.data() + from : nullptr;
  }
  static TrapKind out_of_segment(bool of_elements) {
    return of_elements ? TrapKind::kTableOutOfBounds : TrapKind::kMemoryOutOfBounds;
  }

  AggregateOutcome new_from_segment(bool of_elements) {
    const uint64_t from = i32(0), count = i32(1);
    if (!has_part(of_elements, from, count)) return trap(out_of_segment(of_elements));
    if (!allocate(static_cast<uint32_t>(count), 0)) return outcome_;
    if (count != 0) std::memcpy(fields(), segment_part(of_elements, from, count), count * element().bytes);
    return done();
  }
  // An empty part may have no address.
  bool has_part(bool of_elements, uint64_t from, uint64_t count) {
    if (of_elements) return in_bounds(from, count, Machine::elements(instance_, number_).size());
    return in_bounds(from, count * element().bytes, Machine::data(instance_, number_).size());
  }

  // The array that a slot refers to; null after a trap.
  Object* array(uint32_t slot) {
    if (slots_[slot] != 0) return instance_.heap().object(slots_[slot]);
    trap(TrapKind::kNullArray);
    return nullptr;
  }

  AggregateOutcome array_fill() {  // array, from, value, count
    Object* const to = array(0);
    if (to == nullptr) return outcome_;
    const uint64_t from = i32(1), count = i32(2 + element_slots());
    if (!in_bounds(from, count, to->length)) return trap(TrapKind::kArrayOutOfBounds);
    if (!pay(bulk_memory_cost(count * element().bytes))) return outcome_;
    fill(to->fields() + from * element().bytes, element(), count, slots_ + 2);
    return AggregateOutcome::kDone;
  }

  AggregateOutcome array_copy() {  // to, its index, from, its index, count
    Object* const to = array(0);
    Object* const from = to == nullptr ? nullptr : array(2);
    if (from == nullptr) return outcome_;
    const uint64_t at = i32(1), source = i32(3), count = i32(4), bytes = element().bytes;
    if (!in_bounds(at, count, to->length) || !in_bounds(source, count, from->length))
      return trap(TrapKind::kArrayOutOfBounds);
    if (!pay(bulk_memory_cost(count * bytes))) return outcome_;
    std::memmove(to->fields() + at * bytes, from->fields() + source * bytes, count * bytes);
    return AggregateOutcome::kDone;
  }

  AggregateOutcome init_from_segment(bool of_elements) {  // array, its index, the segment's, count
    Object* const to = array(0);
    if (to == nullptr) return outcome_;
    const uint64_t at = i32(1), from = i32(2), count = i32(3), bytes = element().bytes;
    if (!in_bounds(at, count, to->length)) return trap(TrapKind::kArrayOutOfBounds);
    if (!has_part(of_elements, from, count)) return trap(out_of_segment(of_elements));
    if (!pay(bulk_memory_cost(count * bytes))) return outcome_;
    if (count != 0)
      std::memcpy(to->fields() + at * bytes, segment_part(of_elements, from, count), count * bytes);
    return AggregateOutcome::kDone;
  }

  Run& run_;
  MachineState& m_;
  Instance& instance_;
  const Word* const ip_;
  uint64_t* const slots_;  // the operands, the result first
  const RuntimeType& type_;
  const uint32_t number_;  // the second number of the instruction
  uint64_t made_ = 0;
  AggregateOutcome outcome_ = AggregateOutcome::kDone;
};

ValType abstract_of(const Heap& heap, uint64_t any) {
  if (is_i31(any)) return ValType::kI31Ref;
  if (!is_object(any)) return ValType::kAnyRef;
  return heap.object(any)->type->kind == wasm::TypeKind::kStruct ? ValType::kStructRef : ValType::kArrayRef;
}

}  // namespace

AggregateOutcome perform_aggregate(Run& run, const Word* ip, uint64_t* fp) {
  return Aggregate(run, ip, fp).run(static_cast<Opcode>(ip[3].constant));
}

bool is_of_type(const Run& run, uint64_t bits, ValType type) {
  if (bits == 0) return wasm::is_nullable(type);
  Instance& instance = *Machine::state(const_cast<Run&>(run)).instance;
  const ValType wanted = wasm::nullable(type);
  if (wasm::is_indexed(type)) {
    const wasm::FuncType* const defined = Machine::type(instance, wasm::type_index_of(type));
    if (kind_of(defined) == wasm::TypeKind::kFunc)
      return is_subtype(Machine::target(instance, bits)->type, defined);
    return is_object(bits) && is_subtype(instance.heap().object(bits)->type, defined);
  }
  // In the hierarchies of functions, host references and exceptions, every value but null has the top type, and
  // none has the bottom type.
  if (wasm::is_bottom_ref(wanted)) return false;
  if (!wasm::abstract_matches(wanted, ValType::kAnyRef)) return true;
  return wasm::abstract_matches(abstract_of(instance.heap(), bits), wanted);
}

}  // namespace membrane::engine
