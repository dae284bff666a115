#include "engine/freeze/snapshot_reader.h"

#include <algorithm>

#include "engine/execution/frame_states.h"
#include "engine/freeze/known_places.h"

namespace membrane::engine {

using wasm::ValType;

std::optional<SnapshotReader> SnapshotReader::section(SnapshotSection wanted) {
  if (u32() != static_cast<uint32_t>(wanted)) return std::nullopt;
  const uint64_t size = u64();
  SnapshotReader inside{take(size)};
  if (!ok()) return std::nullopt;
  return inside;
}

void SnapshotReader::value(ValType type, std::vector<uint64_t>& slots, bool may_be_unset) {
  switch (type) {
    case ValType::kI32:
    case ValType::kF32: slots.push_back(u32()); break;
    case ValType::kI64:
    case ValType::kF64: slots.push_back(u64()); break;
    case ValType::kV128:
      slots.push_back(u64());
      slots.push_back(u64());
      break;
    default: slots.push_back(reference(type, may_be_unset)); break;
  }
}

uint64_t SnapshotReader::reference(ValType type, bool may_be_unset) {
  const uint64_t reference = u64();
  if (reference == 0) {
    if (!wasm::is_nullable(type) && !may_be_unset) fail();
    return reference;
  }
  switch (reference_kind(*frozen, type)) {
    case ReferenceKind::kFunction:
      if (reference > frozen->functions.size() ||
          !relations->matches(wasm::ref_to(frozen->functions[reference - 1].type), type))
        fail();
      break;
    case ReferenceKind::kException:
      if (most_exception != nullptr) *most_exception = std::max(*most_exception, reference);
      if ((most_exception == nullptr && reference > exception_count) ||
          !relations->matches(wasm::non_null(ValType::kExnRef), type))
        fail();
      break;
    case ReferenceKind::kAny:
      if (!is_any(reference, type)) fail();
      break;
    case ReferenceKind::kExtern: {
      const uint64_t any = reference & ~kInternalBit;
      const bool is_internal = (reference & kInternalBit) != 0;
      const bool is_whole = is_internal ? (any & kObjectMask) != 0 && is_any(any, ValType::kAnyRef)
                                        : reference < kInternalBit >> 1;
      if (!is_whole || !relations->matches(wasm::non_null(ValType::kExternRef), type)) fail();
      break;
    }
    case ReferenceKind::kNone: break;
  }
  return reference;
}

bool SnapshotReader::is_any(uint64_t any, ValType type) const {
  ValType own = ValType::kAnyRef;  // of the host's
  if (is_i31(any)) {
    if (any > UINT32_MAX) return false;
    own = ValType::kI31Ref;
  } else if (is_object(any)) {
    const uint64_t number = object_number(any);
    if (number == 0 || number > objects->size()) return false;
    own = wasm::ref_null_to((*objects)[number - 1].type);
  }
  return relations->matches(wasm::non_null(own), type);
}

Status SnapshotReader::heap(Snapshot& s) {
  s.heap_threshold_ = u64();
  const uint64_t count = u32();
  if (!ok() || count > left().size() / sizeof(Snapshot::ObjectState))
    return damaged_snapshot("its heap is cut short");
  for (uint64_t i = 0; i < count; ++i) {
    const Snapshot::ObjectState object{u32(), u32()};
    if (object.type >= frozen->types.size() || frozen->kind_of_type(object.type) == wasm::TypeKind::kFunc ||
        (object.length != 0 && !is_array(*frozen, object.type)))
      return damaged_snapshot("an object is of no type of its module");
    s.objects_.push_back(object);
  }
  s.object_fields_ = left();
  fields(s, [](size_t, ValType, const FieldLayout&, uint64_t, const uint64_t*) {});
  if (!ok() || !left().empty()) return damaged_snapshot("its heap is not of its module");
  return {};
}

Status SnapshotReader::exceptions(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  exception_count = u32();
  for (uint64_t i = 0; i < exception_count; ++i) {
    const uint32_t tag = u32();
    if (!ok() || tag >= module.tags.size()) return damaged_snapshot("an exception is of no tag");
    s.exceptions_.push_back(tag);
    for (const ValType type : module.type_of_tag(tag).params) value(type, s.exception_slots_);
  }
  if (!ok() || !left().empty()) return damaged_snapshot("its exceptions are not those of its module");
  return {};
}

Status SnapshotReader::globals(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  for (const wasm::Global& global : module.globals) {
    std::vector<uint64_t> slots;
    value(global.type.type, slots);
    s.globals_.push_back({slots[0], slots.size() > 1 ? slots[1] : 0});
  }
  if (!ok() || !left().empty()) return damaged_snapshot("its globals are not those of its module");
  return {};
}

Status SnapshotReader::memory(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  const bool has = flag();
  if (has != !module.memories.empty()) return damaged_snapshot("its memory is not that of its module");
  if (!has) return {};
  Snapshot::MemoryState state{u32(), {}};
  const wasm::Limits& limits = module.memories[s.memories_.size()].type.limits;
  if (state.pages < limits.min || state.pages > limits.max.value_or(wasm::kMaxPages) ||
      state.pages > wasm::kMaxPages)
    return damaged_snapshot("its memory has a size that its module does not allow");
  const uint64_t size = uint64_t{state.pages} * wasm::kPageBytes;
  while (ok() && !left().empty()) {
    const uint64_t offset = u64(), bytes = u64();
    if (offset > size || bytes > size - offset)
      return damaged_snapshot("a part of the memory is beyond its size");
    state.parts.emplace_back(offset, take(bytes));
  }
  if (!ok()) return damaged_snapshot("its memory is cut short");
  s.memories_.push_back(std::move(state));
  return {};
}

Status SnapshotReader::tables(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  for (const wasm::Table& table : module.tables) {
    const uint64_t count = u32();
    if (!ok() || count * sizeof(uint64_t) > left().size() || count < table.type.limits.min ||
        count > table.type.limits.max.value_or(UINT32_MAX))
      return damaged_snapshot("a table has a size that its module does not allow");
    std::vector<uint64_t>& elements = s.tables_.emplace_back();
    for (uint64_t i = 0; i < count; ++i) elements.push_back(reference(table.type.element, false));
  }
  if (!ok() || !left().empty()) return damaged_snapshot("its tables are not those of its module");
  return {};
}

Status SnapshotReader::segments(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  for (size_t i = 0; i < module.elements.size(); ++i) s.dropped_elements_.push_back(flag());
  for (size_t i = 0; i < module.datas.size(); ++i) s.dropped_datas_.push_back(flag());
  for (size_t i = 0; i < module.elements.size() && ok(); ++i) {
    std::vector<uint64_t>& values = s.element_values_.emplace_back();
    const wasm::ElementSegment& segment = module.elements[i];
    if (!refers_to_objects(module, segment.type) || s.dropped_elements_[i]) continue;
    if (segment.size() * sizeof(uint64_t) > left().size())
      return damaged_snapshot("its segments are cut short");
    for (size_t n = 0; n < segment.size(); ++n) values.push_back(reference(segment.type, false));
  }
  if (!ok() || !left().empty()) return damaged_snapshot("its segments are not those of its module");
  return {};
}

namespace {

// Whether a function's results can be taken for those of another.
bool results_match(const wasm::Module& module, wasm::TypeRelations& relations, uint32_t function,
                   const wasm::FuncType& wanted) {
  return std::ranges::equal(module.type_of_function(function).results, wanted.results,
                            [&](ValType given, ValType taken) { return relations.matches(given, taken); });
}

// Whether the caller's frame called this function, or another with the same results, from which tail calls led to it.
bool returns_to(const wasm::Module& module, wasm::TypeRelations& relations, const wasm::StackTypes& stack,
                uint32_t function) {
  const wasm::FuncType* const type = callee_type(module, stack);
  return type != nullptr && results_match(module, relations, function, *type);
}

}  // namespace

// A frame is accepted only at a place that its function has, and above a frame that calls it: a forged one could
// pass off a number as a reference.
Status SnapshotReader::frame(Snapshot& s, size_t index, const wasm::StackTypes& stack) {
  const wasm::Module& module = s.module_->module();
  Snapshot::Frame& frame = s.frames_[index];
  frame.first_slot = s.frame_slots_.size();
  const bool is_innermost = index + 1 == s.frames_.size();
  const uint32_t called = is_innermost ? s.host_call_ : s.frames_[index + 1].function;
  const bool may_be_called = called == UINT32_MAX || returns_to(module, *relations, stack, called) ||
                             (is_innermost && calls(module, *relations, stack, called));
  if (!may_be_called) return damaged_snapshot("a frame is not called by the one below it");
  const std::vector<ValType> types = types_of(module, frame.function, stack);
  MEMBRANE_TRY(values_of_frames(s, types, types.size() - stack.operands.size()));
  if (!is_innermost || called == UINT32_MAX) return {};
  return values_of_frames(s, module.type_of_function(called).params, 0);
}

// The first `locals` may be unset.
Status SnapshotReader::values_of_frames(Snapshot& s, std::span<const ValType> types, size_t locals) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (!ok()) return damaged_snapshot("its frames are cut short");
    value(types[i], s.frame_slots_, i < locals);
    const ReferenceKind kind = reference_kind(*frozen, types[i]);
    if (kind != ReferenceKind::kNone)
      s.frame_references_.emplace_back(s.frame_slots_.size() - 1, static_cast<uint8_t>(kind));
  }
  return {};
}

// The places of all frames come first, and then their values, so that each function is walked once.
Status SnapshotReader::frames(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  s.fuel_used_ = u64();
  s.fuel_owed_ = u64();
  s.entry_ = u32();
  s.host_call_ = u32();
  const uint64_t count = u32();
  if (s.host_call_ != UINT32_MAX && (s.host_call_ >= module.functions.size() ||
                                     module.functions[s.host_call_].import == wasm::kNotImported))
    return damaged_snapshot("it waits for a function that is not the host's");
  const bool has_none = count == 0 && s.host_call_ != UINT32_MAX && known == nullptr;
  if (!ok() || (count == 0 && !has_none)) return damaged_snapshot("it has no frame");
  if (count > left().size() / (2 * sizeof(uint32_t))) return damaged_snapshot("its frames are cut short");
  FramePlaces own(module);
  FramePlaces& places = known == nullptr ? own : known->places();
  const auto waits = [&](uint64_t i) { return i + 1 < count || s.host_call_ != UINT32_MAX; };
  for (uint64_t i = 0; i < count; ++i) {
    const Snapshot::Frame frame{u32(), u32(), 0};
    if (frame.function >= module.functions.size() ||
        module.functions[frame.function].import != wasm::kNotImported)
      return damaged_snapshot("a frame is of no function");
    s.frames_.push_back(frame);
    places.add(frame.function, frame.code_offset, waits(i));
  }
  if (s.entry_ >= module.functions.size() || module.functions[s.entry_].import != wasm::kNotImported ||
      !results_match(module, *relations, has_none ? s.host_call_ : s.frames_[0].function,
                     module.type_of_function(s.entry_)))
    return damaged_snapshot("its first frame is not of its entry");
  if (has_none) MEMBRANE_TRY(values_of_frames(s, module.type_of_function(s.host_call_).params, 0));
  places.find(left().size() / sizeof(uint32_t));  // the smallest value that is written
  for (uint64_t i = 0; i < count; ++i) {
    const Snapshot::Frame& f = s.frames_[i];
    const wasm::StackTypes* const stack = places.at(f.function, f.code_offset, waits(i));
    if (stack == nullptr) return damaged_snapshot("a frame is at a place where its function cannot be");
    MEMBRANE_TRY(frame(s, i, *stack));
  }
  if (!ok()) return damaged_snapshot("its frames are cut short");
  if (!left().empty()) return damaged_snapshot("something follows its frames");
  return {};
}

Status SnapshotReader::read(Snapshot& s) {
  wasm::TypeRelations types(s.module_->module());
  uint64_t last_exception = 0;
  const auto inside = [&](SnapshotSection section, Status (SnapshotReader::*part)(Snapshot&)) -> Status {
    auto reader = this->section(section);
    if (!reader) return damaged_snapshot("a section is missing or cut short");
    reader->frozen = &s.module_->module();
    reader->relations = &types;
    reader->exception_count = s.exceptions_.size();
    reader->most_exception = section == SnapshotSection::kHeap ? &last_exception : nullptr;
    reader->objects = &s.objects_;
    return ((*reader).*part)(s);
  };
  if (has_heap(s.module_->module())) MEMBRANE_TRY(inside(SnapshotSection::kHeap, &SnapshotReader::heap));
  if (!s.module_->module().tags.empty())
    MEMBRANE_TRY(inside(SnapshotSection::kExceptions, &SnapshotReader::exceptions));
  if (last_exception > s.exceptions_.size())
    return damaged_snapshot("an object holds an exception that is not there");
  MEMBRANE_TRY(inside(SnapshotSection::kGlobals, &SnapshotReader::globals));
  for (size_t i = 0; i < std::max<size_t>(1, s.module_->module().memories.size()); ++i)
    MEMBRANE_TRY(inside(SnapshotSection::kMemory, &SnapshotReader::memory));
  MEMBRANE_TRY(inside(SnapshotSection::kTables, &SnapshotReader::tables));
  MEMBRANE_TRY(inside(SnapshotSection::kSegments, &SnapshotReader::segments));
  MEMBRANE_TRY(inside(SnapshotSection::kFrames, &SnapshotReader::frames));
  const auto embedder = section(SnapshotSection::kEmbedder);
  if (!embedder || !left().empty()) return damaged_snapshot("a section is missing or cut short");
  s.embedder_state_ = embedder->left();
  return {};
}

}  // namespace membrane::engine
