#include "engine/heap/heap.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/memory/memory.h"

namespace membrane::engine {

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

// Takes the pages of a higher threshold from the budget. False when there is not enough for
// `wanted`.
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

bool Heap::make_room(uint64_t bytes, HeapRun& run, MemoryBudget* budget) {
  if (fits(bytes)) return true;
  if (bytes > limit_) return false;
  if (bytes_ == 0 || is_run_from_within(run)) return make_room(bytes, budget);
  collect();
  // As much again as is live, so that the work of a collection is in proportion to what was allocated.
  const uint64_t live = bytes_ + bytes;
  if (raise_threshold(live + std::max(kLeastStep, live), budget)) return true;
  return live <= threshold_ - threshold_ / 8;
}

bool Heap::thaw(uint64_t threshold, MemoryBudget* budget) {
  return threshold <= threshold_ || raise_threshold(threshold, budget);
}

// -- runs

HeapRun::~HeapRun() { Heap::leave(*this); }

void Heap::enter(HeapRun& run) {
  if (run.heap_ == this) return;
  leave(run);
  run.heap_ = this;
  run.next_ = first_run_;
  if (first_run_ != nullptr) first_run_->previous_ = &run;
  first_run_ = &run;
}

void Heap::leave(HeapRun& run) {
  if (run.heap_ == nullptr) return;
  (run.previous_ == nullptr ? run.heap_->first_run_ : run.previous_->next_) = run.next_;
  if (run.next_ != nullptr) run.next_->previous_ = run.previous_;
  run.heap_ = nullptr;
  run.previous_ = run.next_ = nullptr;
}

// Whether another run of the Store waits inside a call of the host, which made this one.
bool Heap::is_run_from_within(const HeapRun& run) const {
  for (const HeapRun* at = first_run_; at != nullptr; at = at->next_)
    if (at != &run && at->is_running_) return true;
  return false;
}

// -- collection: marks from the roots, and frees the rest

void Heap::collect() {
  Tracer tracer(objects_);
  if (roots) roots(tracer);
  for (HeapRun* at = first_run_; at != nullptr; at = at->next_) at->show_roots(tracer, root_cache_);
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
