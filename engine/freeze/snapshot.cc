#include "engine/freeze/snapshot.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "engine/execution/frame_states.h"
#include "engine/execution/module.h"
#include "engine/freeze/known_places.h"
#include "engine/freeze/snapshot_reader.h"
#include "engine/freeze/snapshot_references.h"
#include "engine/instance/machine.h"
#include "engine/interpreter/interpreter.h"
#include "wasm/binary.h"
#include "wasm/type_relations.h"

namespace membrane::engine {

using wasm::ValType;

KnownPlaces::KnownPlaces(std::shared_ptr<CompiledModule> module)
    : parts_(std::make_unique<Parts>(std::move(module))) {}
KnownPlaces::~KnownPlaces() = default;

Result<Snapshot> Snapshot::read(std::vector<uint8_t> owned, Tier tier, const native::CodeCache* cache) {
  Snapshot s;
  s.bytes_ = std::make_shared<std::vector<uint8_t>>(std::move(owned));
  MEMBRANE_ASSIGN(const auto body, checked_body(*s.bytes_));
  SnapshotReader reader{body};
  const auto binary = reader.section(SnapshotSection::kModule);
  if (!binary) return damaged_snapshot("it has no module");
  auto module = wasm::decode(binary->left());
  if (!module) return damaged_snapshot("its module does not decode: " + module.error().message);
  for (const wasm::Import& import : module->imports)
    if (import.kind != wasm::ExternKind::kFunc)
      return damaged_snapshot("its module imports more than functions");
  auto compiled = compile_module(std::move(*module), {}, tier, cache);
  if (!compiled) return damaged_snapshot("its module is not valid: " + compiled.error().message);
  s.module_ = std::move(*compiled);
  MEMBRANE_TRY(reader.read(s));
  return s;
}

// Null for what is small, and for the first thaw: it may be the only one.
std::shared_ptr<const MemoryImage> Snapshot::image_of(size_t memory) const {
  const std::lock_guard lock(images_->mutex);
  if (memory == 0) ++images_->thawed;
  if (images_->thawed < 2) return nullptr;
  images_->images.resize(memories_.size());
  auto& image = images_->images[memory];
  const auto& parts = memories_[memory].parts;
  uint64_t bytes = 0, end = 0;
  for (const auto& [offset, content] : parts) {
    bytes += content.size();
    end = std::max<uint64_t>(end, offset + content.size());
  }
  if (!image && bytes >= MemoryImage::kLeastBytes) image = MemoryImage::create(end, parts);
  return image;
}

std::expected<Instance*, LinkError> Snapshot::instantiate(Store& store, const Resolver& resolver,
                                                          const InstanceLimits& limits) const {
  std::vector<MemoryStart> starts;
  for (size_t i = 0; i < memories_.size(); ++i) starts.push_back({memories_[i].pages, image_of(i)});
  auto made = store.instantiate(module_, resolver, limits, {.is_alone = true, .memories = &starts});
  if (!made) return made;
  Instance& instance = **made;
  const auto of_limit = [](std::string what) {
    return std::unexpected(LinkError{
        LinkError::Kind::kLimit,
        {ErrorCode::kExhausted, std::move(what), "Raise the limit to what it was when it was frozen."},
        UINT32_MAX,
        {}});
  };
  if (!keep_objects(instance))
    return of_limit("the snapshot's structs and arrays are beyond the memory limit");
  if (!keep_exceptions(instance)) return of_limit("the snapshot's exceptions are beyond their limit");
  const auto value_of = [&](ValType type, uint64_t bits) {
    return thawed(instance, reference_kind(instance.module(), type), bits);
  };
  for (uint32_t i = 0; i < globals_.size(); ++i) {
    GlobalInstance& global = *Machine::global(instance, i);
    global.bits = value_of(global.type.type, globals_[i].bits);
    global.high_bits = globals_[i].high_bits;
  }
  for (uint32_t i = 0; i < memories_.size(); ++i) {
    if (starts[i].image != nullptr) continue;
    const Memory& memory = Machine::memory(instance, i);
    for (const auto& [offset, bytes] : memories_[i].parts)
      std::memcpy(memory.base() + offset, bytes.data(), bytes.size());
  }
  for (uint32_t i = 0; i < tables_.size(); ++i) {
    Table& table = *Machine::table(instance, i);
    if (table.grow(tables_[i].size() - table.elements.size(), 0) < 0)
      return of_limit("a table of the snapshot is beyond the table limit");
    const std::span<uint64_t> elements = table.elements.writable();
    for (size_t n = 0; n < elements.size(); ++n) elements[n] = value_of(table.element, tables_[i][n]);
  }
  auto& segments = Machine::segments(instance);
  for (size_t i = 0; i < segments.size(); ++i) {
    if (dropped_elements_[i]) segments[i] = {};
    for (size_t n = 0; n < element_values_[i].size(); ++n)
      segments[i][n] = value_of(instance.module().elements[i].type, element_values_[i][n]);
  }
  Machine::dropped_datas(instance) = dropped_datas_;
  return made;
}

// They go after those that the store has already. False when there are too many.
bool Snapshot::keep_objects(Instance& instance) const {
  Heap& heap = instance.heap();
  MemoryBudget* const budget = Machine::memory_budget(instance);
  heap.forget_free_numbers();
  Machine::first_object(instance) = heap.end() == 0 ? 0 : heap.end() - 1;  // number 0 is never used
  if (!heap.thaw(heap_threshold_, budget)) return false;
  std::vector<Object*> made;
  for (const ObjectState& state : objects_) {
    const auto& type = *static_cast<const RuntimeType*>(module_->canonical_type(state.type));
    if (!heap.make_room(Heap::bytes_of(type, state.length), budget)) return false;
    const uint64_t reference = heap.add(type, state.length);
    if (reference == 0) return false;
    made.push_back(heap.object(reference));
  }
  wasm::TypeRelations types(module_->module());
  SnapshotReader reader{object_fields_};
  uint64_t last_exception = 0;
  reader.frozen = &module_->module();
  reader.relations = &types;
  reader.most_exception = &last_exception;
  reader.objects = &objects_;
  reader.fields(*this, [&](size_t i, ValType type, const FieldLayout& layout, uint64_t offset,
                           const uint64_t* bits) {
    const uint64_t value[2] = {thawed(instance, reference_kind(module_->module(), type), bits[0]), bits[1]};
    std::memcpy(made[i]->fields() + offset, value, layout.bytes);
  });
  return true;
}

// They go after those that the store has already. False when there are too many.
bool Snapshot::keep_exceptions(Instance& instance) const {
  Machine::first_exception(instance) = Machine::exceptions(instance).size();
  const uint64_t* slot = exception_slots_.data();
  std::vector<uint64_t> payload;
  for (const uint32_t index : exceptions_) {
    const TagInstance& tag = *Machine::tag(instance, index);
    payload.assign(slot, slot + tag.slots);
    slot += tag.slots;
    uint32_t at = 0;
    for (const ValType type : tag.type->params) {
      uint64_t& bits = payload[at];
      bits = thawed(instance, reference_kind(instance.module(), type), bits);
      at += wasm::slots_of(type);
    }
    uint64_t reference = 0;
    if (!Machine::keep_exception(instance, tag, payload.data(), reference)) return false;
  }
  return true;
}

namespace {

// The header of the segment at the offset that `headers` are of; of several, the one at which a run
// can pause.
const Word* header_of(const FunctionCode& function, const std::vector<uint32_t>& headers, bool in_call) {
  const Word* const words = function.code.load(std::memory_order_acquire);
  for (const uint32_t header : headers)
    if (in_call || words[header].header.cost != 0) return words + header;
  return headers.empty() ? nullptr : words + headers.front();
}

std::unexpected<Error> too_deep() {
  return fail(ErrorCode::kExhausted, "the snapshot's stack is beyond the stack limits",
              "Raise the stack limits to what they were when it was frozen.");
}

}  // namespace

Status Snapshot::resume_in(Execution& run, Instance& instance) const {
  FunctionInstance* const entry = instance.function(entry_);
  MEMBRANE_TRY(run.prepare(entry));
  MachineState& m = Machine::state(run);
  const Status put = m.state == RunState::kReady ? place_frames(run, instance) : too_deep();
  // A run with half of its frames must not continue.
  m.state = put ? RunState::kOutOfFuel : RunState::kFinished;
  Machine::owe(run, fuel_owed_);
  return put;
}

Status thaw_frames(std::span<const uint8_t> frames, Execution& run, Instance& instance, KnownPlaces& known) {
  const std::lock_guard lock(known.parts_->mutex);
  Snapshot s;
  s.module_ = known.parts_->module;
  s.known_ = known.parts_.get();
  if (s.module_ != instance.share_compiled()) return damaged_snapshot("its frames are of another module");
  wasm::TypeRelations types(s.module_->module());
  SnapshotReader all{frames};
  auto reader = all.section(SnapshotSection::kFrames);
  if (!reader || !all.left().empty()) return damaged_snapshot("its frames are cut short");
  reader->frozen = &s.module_->module();
  reader->relations = &types;
  reader->objects = &s.objects_;
  reader->known = s.known_;
  if (Status read = reader->frames(s); !read) {
    s.known_->frame_places.reset();  // what was not found may be there
    return read;
  }
  return s.resume_in(run, instance);
}

// Finds where in their functions' code the frames continue, if that is not known yet.
void Snapshot::find_headers(std::map<std::pair<const FunctionCode*, uint32_t>, Recorder>& headers) const {
  if (headers.size() > KnownPlaces::Parts::kMostPlaces) headers.clear();
  Remade<Recorder> places;
  for (const Frame& frame : frames_) {
    const FunctionCode* const code = &module_->function(frame.function);
    if (!headers.contains({code, frame.code_offset})) places.add(code, frame.code_offset);
  }
  places.find([](Recorder& recorder, uint32_t offset) { recorder.wanted_code_offset = offset; },
              [&](const FunctionCode& function, std::span<Recorder> recorders) {
                module_->translate_function(function.index);
                remake(function, recorders);
              });
  places.each([&](const auto& key, Recorder& recorder) { headers.emplace(key, std::move(recorder)); });
}

Status Snapshot::place_frames(Execution& run, Instance& instance) const {
  MachineState& m = Machine::state(run);
  FrameRecord* const records = Machine::frames(run);
  uint64_t* fp = Machine::slots(run);
  // This check comes first: the next steps take time for each place, and a forged snapshot may have
  // very many.
  const auto most_slots = static_cast<size_t>(m.stack_end - fp);
  if (frames_.size() > static_cast<size_t>(m.frames_end - records) || frame_slots_.size() > most_slots)
    return too_deep();
  std::map<Remade<Recorder>::Key, Recorder> own;
  auto& headers = known_ == nullptr ? own : known_->headers;
  find_headers(headers);
  uint64_t* caller_fp = fp;
  const Word* at = kExitStub;  // where the frame below continues
  auto reference = frame_references_.begin();
  for (size_t i = 0; i < frames_.size(); ++i) {
    const Frame& frame = frames_[i];
    const FunctionCode& code = module_->function(frame.function);
    if (code.frame_slots > static_cast<size_t>(m.stack_end - fp)) return too_deep();
    records[i] = {at, i == 0 ? fp : caller_fp, &code, nullptr};
    const bool in_call = i + 1 < frames_.size() || host_call_ != UINT32_MAX;
    at = header_of(code, headers.at({&code, frame.code_offset}).headers, in_call);
    if (at == nullptr) return damaged_snapshot("a frame is not at a safepoint");
    const size_t end = i + 1 < frames_.size() ? frames_[i + 1].first_slot : frame_slots_.size();
    for (size_t slot = frame.first_slot; slot < end; ++slot) fp[slot - frame.first_slot] = frame_slots_[slot];
    // The types were checked when the snapshot was read.
    for (; reference != frame_references_.end() && reference->first < end; ++reference) {
      uint64_t& slot = fp[reference->first - frame.first_slot];
      slot = thawed(instance, static_cast<ReferenceKind>(reference->second), slot);
    }
    caller_fp = fp;
    if (i + 1 < frames_.size()) fp += end - frame.first_slot;
  }
  if (frames_.empty()) {
    place_tail_call(run, instance);
    return {};
  }
  m.top = records + frames_.size() - 1;
  m.fp = fp;
  m.ip = at;
  m.where = Where::kInterpreter;
  if (host_call_ != UINT32_MAX) {
    m.ip = at - kWordsOfCall;
    m.callee = instance.function(host_call_);
    m.at_call = m.has_callee = true;
  }
  return {};
}

// The entry has ended in a tail call of the host, whose arguments are all that is left.
void Snapshot::place_tail_call(Execution& run, Instance& instance) const {
  MachineState& m = Machine::state(run);
  std::ranges::copy(frame_slots_, m.fp);
  for (const auto& [slot, kind] : frame_references_)
    m.fp[slot] = thawed(instance, static_cast<ReferenceKind>(kind), m.fp[slot]);
  m.ip = kTailHostStub;
  m.where = Where::kInterpreter;
  m.callee = instance.function(host_call_);
  m.at_call = m.has_callee = true;
}

}  // namespace membrane::engine
