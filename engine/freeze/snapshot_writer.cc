// Freezing: a paused run and its instance as the bytes of a snapshot, and its frames alone.
//
// Threads: of the thread that has the Execution.
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "engine/execution/backtrace.h"
#include "engine/execution/frame_states.h"
#include "engine/freeze/known_places.h"
#include "engine/freeze/snapshot.h"
#include "engine/freeze/snapshot_format.h"
#include "engine/freeze/snapshot_references.h"
#include "engine/instance/machine.h"
#include "engine/memory/used_pages.h"
#include "wasm/binary.h"
#include "wasm/type_relations.h"

namespace membrane::engine {

using wasm::ValType;

namespace {

std::unexpected<Error> unsupported(std::string what, std::string hint) {
  return fail(ErrorCode::kUnsupported, std::move(what), std::move(hint));
}

}  // namespace

struct SnapshotWriter {
  Execution& run;
  Instance& instance;
  uint64_t fuel_before;
  KnownPlaces::Parts* known = nullptr;
  std::vector<uint8_t> out;
  std::vector<uint32_t> object_numbers;  // of objects, by that in the heap
  bool is_tail_call = false;             // its frame ends in a call of the host
  uint32_t version =
      kOldestSnapshotVersion;  // kNewestSnapshotVersion when no frame that is written has that call

  SnapshotWriter(Execution& r, Instance& i, uint64_t before) : run(r), instance(i), fuel_before(before) {}

  void bytes(const void* from, size_t count) {
    const auto* const p = static_cast<const uint8_t*>(from);
    out.insert(out.end(), p, p + count);
  }
  void u8(uint8_t v) { out.push_back(v); }
  void u32(uint32_t v) { bytes(&v, sizeof v); }
  void u64(uint64_t v) { bytes(&v, sizeof v); }
  void blob(std::span<const uint8_t> data) {
    u64(data.size());
    bytes(data.data(), data.size());
  }
  size_t begin(SnapshotSection section) {
    u32(static_cast<uint32_t>(section));
    u64(0);
    return out.size();
  }
  void end(size_t at) {
    const uint64_t size = out.size() - at;
    std::memcpy(out.data() + at - sizeof size, &size, sizeof size);
  }

  // References are functions' indices plus one, and objects' places in their section plus one; the embedder's
  // numbers and those of exceptions stay.
  Status reference(ValType type, uint64_t value) {
    const ReferenceKind kind = reference_kind(instance.module(), type);
    const auto number_of = [this](uint64_t number) { return object_numbers[number]; };
    if (kind == ReferenceKind::kAny) value = renumbered(value, number_of);
    if (kind == ReferenceKind::kExtern) value = renumbered_extern(value, number_of);
    if (kind != ReferenceKind::kFunction || value == 0) {
      u64(value);
      return {};
    }
    const auto index = instance.index_of(value);
    if (!index)
      return unsupported("the program holds a function that is not of its module",
                         "A program that shares tables with others cannot be frozen.");
    u64(uint64_t{*index} + 1);
    return {};
  }
  Status value(ValType type, const uint64_t* slot) {
    switch (type) {
      case ValType::kI32:
      case ValType::kF32: u32(static_cast<uint32_t>(slot[0])); return {};
      case ValType::kI64:
      case ValType::kF64: u64(slot[0]); return {};
      case ValType::kV128:
        u64(slot[0]);
        u64(slot[1]);
        return {};
      default: return reference(type, slot[0]);
    }
  }

  Status write(std::span<const uint8_t> embedder_state);
  Status check();
  Status heap();
  Status object(const Object& object, uint32_t type);
  Status exceptions();
  Status globals();
  void memories();
  void memory(const Memory* m);
  Status tables();
  Status segments();
  Result<std::vector<FrameState>> find_states();
  Status frames();
  Status frame(const FrameState& s, const wasm::StackTypes& stack);
  Status arguments(const FunctionInstance& host, const uint64_t* slot);
};

Status SnapshotWriter::check() {
  const RunState state = run.state();
  if (state != RunState::kReady && state != RunState::kOutOfFuel && state != RunState::kInterrupted)
    return fail(ErrorCode::kInvalidArgument, "only a run that is paused can be frozen",
                "Freeze it when it is out of fuel or interrupted.");
  if (Machine::entry(run) != nullptr && Machine::entry(run)->code == nullptr)
    return unsupported("the function that was called is one of the host, which cannot be frozen",
                       "Call a function of the program.");
  if (Machine::entry(run) == nullptr || Machine::entry(run)->instance != &instance)
    return fail(ErrorCode::kInvalidArgument, "the run is not one of this instance",
                "Give the instance it runs in.");
  for (const wasm::Import& import : instance.module().imports)
    if (import.kind != wasm::ExternKind::kFunc)
      return unsupported(
          "the program imports a " + std::string(name_of(import.kind)) + ", which others share",
          "Only a program that imports nothing but functions can be frozen.");
  return {};
}

// All objects, even those that a collection would free: the time of the next collection is part of the
// state.
Status SnapshotWriter::heap() {
  const wasm::Module& module = instance.module();
  const Heap& heap = instance.heap();
  object_numbers.assign(heap.end(), 0);
  std::unordered_map<const wasm::FuncType*, uint32_t> types;
  for (uint32_t i = 0; i < module.types.size(); ++i) types.emplace(instance.compiled().canonical_type(i), i);
  std::vector<std::pair<const Object*, uint32_t>> objects;
  bool is_own = true;
  heap.each([&](size_t number, const Object& object) {
    const auto type = types.find(object.type);
    is_own &= type != types.end();
    if (!is_own) return;
    objects.emplace_back(&object, type->second);
    object_numbers[number] = static_cast<uint32_t>(objects.size());
  });
  if (!is_own)
    return unsupported("the program's heap has objects of another module",
                       "A program that shares its heap with others cannot be frozen.");
  if (!has_heap(module)) return {};
  const size_t at = begin(SnapshotSection::kHeap);
  u64(heap.threshold());
  u32(static_cast<uint32_t>(objects.size()));
  for (const auto& [object, type] : objects) {
    u32(type);
    u32(object->length);
  }
  for (const auto& [object, type] : objects) MEMBRANE_TRY(this->object(*object, type));
  end(at);
  return {};
}

Status SnapshotWriter::object(const Object& object, uint32_t type) {
  const auto fields = instance.module().fields_of(type);
  const auto field = [&](ValType storage, const FieldLayout& layout, uint64_t offset) -> Status {
    uint64_t bits[2] = {};
    std::memcpy(bits, object.fields() + offset, layout.bytes);
    if (!wasm::is_packed(storage)) return value(storage, bits);
    bytes(bits, layout.bytes);
    return {};
  };
  const std::vector<FieldLayout>& layouts = object.type->fields;
  if (is_array(instance.module(), type)) {
    for (uint64_t i = 0; i < object.length; ++i)
      MEMBRANE_TRY(field(fields[0].type, layouts[0], i * layouts[0].bytes));
    return {};
  }
  for (size_t i = 0; i < fields.size(); ++i)
    MEMBRANE_TRY(field(fields[i].type, layouts[i], layouts[i].offset));
  return {};
}

// All that were kept, even those that the program cannot reach any more.
Status SnapshotWriter::exceptions() {
  if (instance.module().tags.empty()) return {};
  const size_t at = begin(SnapshotSection::kExceptions);
  const ExceptionArena& arena = Machine::exceptions(instance);
  u32(static_cast<uint32_t>(arena.size()));
  for (uint64_t reference = 1; reference <= arena.size(); ++reference) {
    const ExceptionArena::Exception& exception = *arena.find(reference);
    if (exception.tag->instance != &instance)
      return unsupported("an exception of another module was caught",
                         "A program that shares exceptions with others cannot be frozen.");
    u32(exception.tag->index);
    const uint64_t* slot = exception.payload();
    for (const ValType type : exception.tag->type->params) {
      MEMBRANE_TRY(value(type, slot));
      slot += wasm::slots_of(type);
    }
  }
  end(at);
  return {};
}

Status SnapshotWriter::globals() {
  const size_t at = begin(SnapshotSection::kGlobals);
  const wasm::Module& module = instance.module();
  for (uint32_t i = 0; i < module.globals.size(); ++i) {
    const GlobalInstance& global = *Machine::global(instance, i);
    const uint64_t slots[2] = {global.bits, global.high_bits};
    MEMBRANE_TRY(value(global.type.type, slots));
  }
  end(at);
  return {};
}

// A section for each; an empty one when there is none.
void SnapshotWriter::memories() {
  memory(instance.memory());
  for (uint32_t i = 1; i < instance.module().memories.size(); ++i) memory(&Machine::memory(instance, i));
}

void SnapshotWriter::memory(const Memory* m) {
  const size_t at = begin(SnapshotSection::kMemory);
  u8(m != nullptr);
  if (m != nullptr) {
    u32(m->pages());
    const std::vector<MemoryRange> parts = used_pages(*m);
    uint64_t bytes_wanted = 0;
    for (const auto& [offset, size] : parts) bytes_wanted += size + 2 * sizeof(uint64_t);
    constexpr uint64_t kRest = 64u << 10;  // for the sections that follow, so that memory is moved once
    out.reserve(out.size() + bytes_wanted + kRest);
    for (const auto& [offset, size] : parts) {
      u64(offset);
      blob({m->base() + offset, size});
    }
  }
  end(at);
}

Status SnapshotWriter::tables() {
  const size_t at = begin(SnapshotSection::kTables);
  for (const Table* const table : Machine::tables(instance)) {
    u32(static_cast<uint32_t>(table->elements.size()));
    for (const uint64_t element : table->elements) MEMBRANE_TRY(reference(table->element, element));
  }
  end(at);
  return {};
}

// Writes the values that may refer to objects, since objects that were made again would be different ones.
Status SnapshotWriter::segments() {
  const size_t at = begin(SnapshotSection::kSegments);
  const auto& segments = Machine::segments(instance);
  for (const auto& segment : segments) u8(segment.empty());
  for (const bool dropped : Machine::dropped_datas(instance)) u8(dropped);
  for (size_t i = 0; i < segments.size(); ++i) {
    const ValType type = instance.module().elements[i].type;
    if (!refers_to_objects(instance.module(), type)) continue;
    for (const uint64_t element : segments[i]) MEMBRANE_TRY(reference(type, element));
  }
  end(at);
  return {};
}

// -- frames --------------------------------------------------------------------------------------------------

Result<std::vector<FrameState>> SnapshotWriter::find_states() {
  for (const FrameStop& stop : frame_stops(run, SIZE_MAX))
    if (stop.function->module != &instance.compiled())
      return unsupported("the program is inside a call of another module",
                         "Freeze it outside of such calls.");
  is_tail_call = awaits_tail_call(run);
  if (is_tail_call && known != nullptr)
    return unsupported("the program ends in a call of the host that waits", "Freeze it later.");
  std::vector<FrameState> states = known == nullptr ? frame_states(run) : frame_states(run, known->frames);
  // A frame that ends in a tail call is not used again: the callee returns its results in the frame's place.
  if (is_tail_call) states.erase(states.begin());
  return states;
}

Status SnapshotWriter::frames() {
  MEMBRANE_ASSIGN(const std::vector<FrameState> states, find_states());
  const FunctionInstance* const host = awaited_host(run);
  const auto host_index = instance.index_of(reinterpret_cast<uint64_t>(host));
  if (host != nullptr && !host_index)
    return unsupported("the program waits for a function that is not of its module", "Freeze it later.");

  const size_t at = begin(SnapshotSection::kFrames);
  u64(fuel_before + run.fuel_used());
  u64(run.fuel_owed());
  u32(Machine::entry(run)->code->index);
  u32(host == nullptr ? UINT32_MAX : *host_index);
  u32(static_cast<uint32_t>(states.size()));
  FramePlaces own(instance.module());
  FramePlaces& places = known == nullptr ? own : known->places();
  for (size_t i = states.size(); i-- > 0;) {  // outermost first
    u32(states[i].function->index);
    u32(states[i].code_offset);
    places.add(states[i].function->index, states[i].code_offset, i != 0 || host != nullptr);
  }
  places.find(UINT64_MAX);
  for (size_t i = states.size(); i-- > 0;) {
    const FrameState& s = states[i];
    const wasm::StackTypes* const stack =
        places.at(s.function->index, s.code_offset, i != 0 || host != nullptr);
    if (stack == nullptr)  // unreachable code has no types, so the frame is after a tail call
      return unsupported("the program waits in a tail call of the host", "Freeze it later.");
    MEMBRANE_TRY(frame(s, *stack));
    // The arguments of the host's function are above the operands.
    if (i == 0 && host != nullptr && !is_tail_call)
      MEMBRANE_TRY(
          arguments(*host, s.fp + wasm::slots_of(types_of(instance.module(), s.function->index, *stack))));
  }
  if (is_tail_call) MEMBRANE_TRY(arguments(*host, tail_call_arguments(run)));
  if (host != nullptr) {
    wasm::TypeRelations types(instance.module());
    if (states.empty() ||
        !calls(instance.module(), types, *places.at(states[0].function->index, states[0].code_offset, true),
               *host_index))
      version = kNewestSnapshotVersion;
  }
  end(at);
  return {};
}

Status SnapshotWriter::arguments(const FunctionInstance& host, const uint64_t* slot) {
  for (const ValType type : host.type->params) {
    MEMBRANE_TRY(value(type, slot));
    slot += wasm::slots_of(type);
  }
  return {};
}

Status SnapshotWriter::frame(const FrameState& s, const wasm::StackTypes& stack) {
  const std::vector<ValType> types = types_of(instance.module(), s.function->index, stack);
  const std::vector<uint64_t> slots = s.slots(wasm::slots_of(types));
  uint32_t slot = 0;
  for (const ValType type : types) {
    MEMBRANE_TRY(value(type, slots.data() + slot));
    slot += wasm::slots_of(type);
  }
  return {};
}

Status SnapshotWriter::write(std::span<const uint8_t> embedder_state) {
  MEMBRANE_TRY(check());
  out.resize(kSnapshotHeaderBytes);
  size_t at = begin(SnapshotSection::kModule);
  // A binary is written as it was, so that places stay the same; a module from text is encoded.
  const std::span<const uint8_t> original = instance.module().content();
  const bool is_binary = original.size() > 4 && std::memcmp(original.data(), "\0asm", 4) == 0;
  const std::vector<uint8_t> encoded = is_binary ? std::vector<uint8_t>() : wasm::encode(instance.module());
  const std::span<const uint8_t> module = is_binary ? original : encoded;
  bytes(module.data(), module.size());
  end(at);
  MEMBRANE_TRY(heap());
  MEMBRANE_TRY(exceptions());
  MEMBRANE_TRY(globals());
  memories();
  MEMBRANE_TRY(tables());
  MEMBRANE_TRY(segments());
  MEMBRANE_TRY(frames());
  at = begin(SnapshotSection::kEmbedder);
  bytes(embedder_state.data(), embedder_state.size());
  end(at);
  seal_snapshot(out, version);
  return {};
}

Result<std::vector<uint8_t>> freeze(Execution& run, Instance& instance,
                                    std::span<const uint8_t> embedder_state, uint64_t fuel_before) {
  SnapshotWriter writer(run, instance, fuel_before);
  MEMBRANE_TRY(writer.write(embedder_state));
  return std::move(writer.out);
}

// Frames that refer to anything but functions need the instance's heap, which an image does not
// have.
Result<std::vector<uint8_t>> freeze_frames(Execution& run, Instance& instance, KnownPlaces& known) {
  const std::lock_guard lock(known.parts_->mutex);
  SnapshotWriter writer(run, instance, 0);
  writer.known = known.parts_.get();
  MEMBRANE_TRY(writer.check());
  if (has_heap(instance.module()) || Machine::exceptions(instance).size() != 0)
    return unsupported("the program has structs, arrays or kept exceptions",
                       "Freeze it as a snapshot, with its instance.");
  MEMBRANE_TRY(writer.frames());
  return std::move(writer.out);
}

}  // namespace membrane::engine
