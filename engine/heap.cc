#include "engine/heap.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/machine.h"
#include "engine/standpoints.h"

namespace membrane::engine {

using wasm::ValType;

namespace {

constexpr uint64_t kObjectOverhead = 32;
constexpr uint64_t kLeastStep = 1u << 20;

constexpr uint64_t rounded(uint64_t bytes) { return (bytes + 15) & ~uint64_t{15}; }

uint64_t field_bytes(const RuntimeType& type, uint32_t length) {
  return type.kind == wasm::TypeKind::kArray ? uint64_t{length} * type.fields[0].bytes : type.struct_bytes;
}

}  // namespace

// -- tracing

void Tracer::show(Traced kind, uint64_t bits) {
  if (kind == Traced::kExtern) bits = (bits & kInternalBit) != 0 ? bits & ~kInternalBit : 0;
  if (kind == Traced::kNothing || !is_object(bits) || object_number(bits) >= objects_.size()) return;
  Object* const object = objects_[object_number(bits)];
  if (object == nullptr || object->is_marked) return;
  object->is_marked = true;
  pending_.push_back(object);
}

void Tracer::finish() {
  while (!pending_.empty()) {
    const Object* const object = pending_.back();
    pending_.pop_back();
    look_into(*object);
  }
}

void Tracer::look_into(const Object& object) {
  const auto at = [&](uint64_t offset) {
    uint64_t bits = 0;
    std::memcpy(&bits, object.fields() + offset, sizeof bits);
    return bits;
  };
  if (object.type->kind == wasm::TypeKind::kStruct) {
    for (const FieldLayout& field : object.type->fields)
      if (field.traced != Traced::kNothing) show(field.traced, at(field.offset));
    return;
  }
  const FieldLayout& element = object.type->fields[0];
  if (element.traced == Traced::kNothing) return;
  for (uint32_t i = 0; i < object.length; ++i) show(element.traced, at(uint64_t{i} * element.bytes));
}

// -- the heap

Heap::Heap() = default;
Heap::~Heap() {
  while (first_run_ != nullptr) leave(*first_run_);
  for (Object* const object : objects_) std::free(object);
}

uint64_t Heap::bytes_of(const RuntimeType& type, uint32_t length) {
  return kObjectOverhead + rounded(field_bytes(type, length));
}

uint64_t Heap::add(const RuntimeType& type, uint32_t length) {
  const uint64_t size = rounded(field_bytes(type, length));
  auto* const object = static_cast<Object*>(std::aligned_alloc(alignof(Object), sizeof(Object) + size));
  if (object == nullptr) return 0;
  std::memset(static_cast<void*>(object), 0, sizeof(Object) + size);
  object->type = &type;
  object->length = length;
  bytes_ += kObjectOverhead + size;
  if (objects_.empty()) objects_.push_back(nullptr);
  if (free_.empty()) {
    objects_.push_back(object);
    return object_bits(objects_.size() - 1);
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  objects_[number] = object;
  return object_bits(number);
}

// Takes from the budget the pages that a higher threshold begins. False when `wanted` cannot be.
bool Heap::raise_threshold(uint64_t wanted, MemoryBudget* budget) {
  const auto pages = [](uint64_t bytes) { return (bytes + wasm::kPageBytes - 1) / wasm::kPageBytes; };
  uint64_t raised = std::min(wanted, limit_);
  if (budget != nullptr)
    raised = std::min(raised, (pages(threshold_) + budget->left_pages) * wasm::kPageBytes);
  if (raised > threshold_) {
    if (budget != nullptr) budget->left_pages -= pages(raised) - pages(threshold_);
    threshold_ = raised;
  }
  return wanted <= threshold_;
}

bool Heap::make_room(uint64_t bytes, MemoryBudget* budget) {
  if (fits(bytes)) return true;
  if (bytes > limit_) return false;
  raise_threshold(bytes_ + bytes + kLeastStep, budget);
  return fits(bytes);
}

bool Heap::make_room(uint64_t bytes, Execution& run, MemoryBudget* budget) {
  if (fits(bytes)) return true;
  if (bytes > limit_) return false;
  if (bytes_ == 0 || is_run_from_within(run)) return make_room(bytes, budget);
  collect(run);
  // As much again as is live, so that the work of a collection is in proportion to what was allocated.
  const uint64_t live = bytes_ + bytes;
  if (raise_threshold(live + std::max(kLeastStep, live), budget)) return true;
  return live <= threshold_ - threshold_ / 8;
}

bool Heap::thaw(uint64_t threshold, MemoryBudget* budget) {
  return threshold <= threshold_ || raise_threshold(threshold, budget);
}

// -- runs

void Heap::enter(Execution& run) {
  ExecutionLink& link = Machine::heap_link(run);
  if (link.heap == this) return;
  leave(run);
  link = {this, nullptr, first_run_};
  if (first_run_ != nullptr) Machine::heap_link(*first_run_).previous = &run;
  first_run_ = &run;
}

void Heap::leave(Execution& run) {
  ExecutionLink& link = Machine::heap_link(run);
  if (link.heap == nullptr) return;
  (link.previous == nullptr ? link.heap->first_run_ : Machine::heap_link(*link.previous).next) = link.next;
  if (link.next != nullptr) Machine::heap_link(*link.next).previous = link.previous;
  link = {};
}

// Whether another run of the Store waits inside a call of the host, which made this one: where that stands is
// known when it goes on.
bool Heap::is_run_from_within(Execution& run) const {
  for (Execution* outer = Machine::outer(run); outer != nullptr; outer = Machine::outer(*outer))
    if (Machine::heap_link(*outer).heap == this) return true;
  return false;
}

// -- collection: marks from the roots, and frees the rest

namespace {

void show_results(Tracer& tracer, Execution& run) {
  const FunctionInstance* const entry = Machine::entry(run);
  for (size_t i = 0; i < run.results().size(); ++i) {
    const Value& value = run.results()[i];
    const Instance* const instance = entry->instance;
    const RuntimeValType type =
        instance == nullptr ? RuntimeValType{value.type} : instance->compiled().runtime_type(value.type);
    tracer.show(traced_of(type), value.bits);
  }
}

void show_frames(Tracer& tracer, Execution& run, KnownFrames& known) {
  const RunState state = run.state();
  const bool stands =
      state == RunState::kReady || state == RunState::kOutOfFuel || state == RunState::kInterrupted;
  if (!stands || Machine::entry(run) == nullptr || Machine::entry(run)->code == nullptr) return;
  each_frame_value(run, known, [&](const CompiledModule& module, ValType type, uint64_t bits) {
    if (wasm::is_ref(type)) tracer.show(traced_of(module.runtime_type(type)), bits);
  });
}

}  // namespace

void Heap::collect(Execution& run) {
  Tracer tracer(objects_);
  if (roots) roots(tracer);
  if (known_frames_ == nullptr) known_frames_ = std::make_unique<KnownFrames>();
  for (Execution* at = first_run_; at != nullptr; at = Machine::heap_link(*at).next) {
    show_results(tracer, *at);
    show_frames(tracer, *at, *known_frames_);
  }
  static_cast<void>(run);  // it is among them
  tracer.finish();
  for (size_t i = objects_.size(); i-- > 0;) {
    Object* const object = objects_[i];
    if (object == nullptr) continue;
    if (object->is_marked) {
      object->is_marked = false;
      continue;
    }
    bytes_ -= bytes_of(*object->type, object->length);
    std::free(object);
    objects_[i] = nullptr;
    free_.push_back(static_cast<uint32_t>(i));
  }
}

}  // namespace membrane::engine
