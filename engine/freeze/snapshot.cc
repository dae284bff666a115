#include "engine/freeze/snapshot.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <tuple>
#include <unordered_map>

#include "base/number_reader.h"
#include "engine/code/fuel.h"
#include "engine/code/numeric.h"
#include "engine/code/translate.h"
#include "engine/execution/backtrace.h"
#include "engine/execution/frame_states.h"
#include "engine/execution/module.h"
#include "engine/instance/machine.h"
#include "engine/interpreter/interpreter.h"
#include "engine/memory/used_pages.h"
#include "engine/native/runtime.h"
#include "wasm/binary.h"
#include "wasm/type_relations.h"
#include "wasm/validate.h"

namespace membrane::engine {
namespace {

using wasm::ValType;

// -- the format: docs/snapshot-format.md ----------------------------------------------------------

constexpr uint32_t kOldestVersion = 2;
constexpr char kMagic[8] = {'M', 'E', 'M', 'B', 'S', 'N', 'A', 'P'};

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t cost_version;
  uint64_t body_bytes;
  uint64_t checksum[2];  // XXH3, 128 bits, of the body
};
static_assert(sizeof(Header) == 40 && std::endian::native == std::endian::little);

enum class Section : uint32_t {
  kModule = 1,
  kGlobals,
  kMemory,
  kTables,
  kSegments,
  kFrames,
  kEmbedder,
  kExceptions,
  kHeap
};

void checksum_of(uint32_t version, std::span<const uint8_t> body, uint64_t (&out)[2]) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(body.data(), body.size(), version - kOldestVersion);
  out[0] = hash.low64;
  out[1] = hash.high64;
}

std::unexpected<Error> damaged(std::string what) {
  return fail(ErrorCode::kInvalidInput, "the snapshot is damaged: " + std::move(what),
              "Freeze the program again.");
}
std::unexpected<Error> unsupported(std::string what, std::string hint) {
  return fail(ErrorCode::kUnsupported, std::move(what), std::move(hint));
}

// -- what both directions know -----------------------------------------------------------------------

// How a reference is written.
enum class Reference : uint8_t { kNone, kFunction, kException, kAny, kExtern };
Reference reference_of(const wasm::Module& module, ValType type) {
  if (!wasm::is_ref(type)) return Reference::kNone;
  switch (wasm::top_of(module, type)) {
    case ValType::kFuncRef: return Reference::kFunction;
    case ValType::kExnRef: return Reference::kException;
    case ValType::kAnyRef: return Reference::kAny;
    default: return Reference::kExtern;
  }
}

// Of a reference below anyref, with the number of its object replaced.
uint64_t renumbered(uint64_t any, auto number_of) {
  return is_object(any) ? object_bits(number_of(object_number(any))) : any;
}
// The same of one below externref, which may be a converted one.
uint64_t renumbered_extern(uint64_t bits, auto number_of) {
  if ((bits & kInternalBit) == 0) return bits;
  return kInternalBit | renumbered(bits & ~kInternalBit, number_of);
}

// What a snapshot's reference is in an instance.
uint64_t thawed(Instance& instance, Reference kind, uint64_t bits) {
  if (bits == 0) return 0;
  const auto number_of = [&](uint64_t number) { return number + Machine::first_object(instance); };
  switch (kind) {
    case Reference::kFunction:
      return reinterpret_cast<uint64_t>(Machine::function(instance, static_cast<uint32_t>(bits - 1)));
    case Reference::kException: return bits + Machine::first_exception(instance);
    case Reference::kAny: return renumbered(bits, number_of);
    case Reference::kExtern: return renumbered_extern(bits, number_of);
    case Reference::kNone: return bits;
  }
  return bits;
}

bool refers_to_objects(const wasm::Module& module, ValType type) {
  const Reference kind = reference_of(module, type);
  return kind == Reference::kAny || kind == Reference::kExtern;
}
bool has_heap(const wasm::Module& module) { return !module.type_details.empty(); }
bool is_array(const wasm::Module& module, uint32_t type) {
  return module.kind_of_type(type) == wasm::TypeKind::kArray;
}

// Whether the frame stands just after a call of this function.
bool calls(const wasm::Module& module, wasm::TypeRelations& relations, const wasm::Standing& standing,
           uint32_t function) {
  if (standing.before == wasm::Opcode::kCall) return standing.before_index == function;
  return callee_type(module, standing) != nullptr &&
         relations.type_matches(module.functions[function].type, standing.before_index);
}

}  // namespace

struct KnownPlaces::Parts {
  static constexpr size_t kMostPlaces = 1 << 15;  // beyond, all are forgotten

  explicit Parts(std::shared_ptr<CompiledModule> m) : module(std::move(m)) {}

  std::mutex mutex;  // guards all of it
  std::shared_ptr<CompiledModule> module;
  std::optional<FramePlaces> standings;
  KnownFrames frames;
  std::map<Remade<Recorder>::Key, Recorder> headers;

  FramePlaces& places() {
    if (!standings || standings->size() > kMostPlaces) standings.emplace(module->module());
    return *standings;
  }
};

KnownPlaces::KnownPlaces(std::shared_ptr<CompiledModule> module)
    : parts_(std::make_unique<Parts>(std::move(module))) {}
KnownPlaces::~KnownPlaces() = default;

// -- writing -------------------------------------------------------------------------------------------

struct SnapshotWriter {
  Execution& run;
  Instance& instance;
  uint64_t fuel_before;
  KnownPlaces::Parts* known = nullptr;
  std::vector<uint8_t> out;
  std::vector<uint32_t> object_numbers;  // of objects, by that in the heap
  bool is_tail_call = false;             // the frame that it stands in ends in a call of the host
  uint32_t version = kOldestVersion;     // kSnapshotVersion when no frame that is written has that call

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
  size_t begin(Section section) {
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
    const Reference kind = reference_of(instance.module(), type);
    const auto number_of = [this](uint64_t number) { return object_numbers[number]; };
    if (kind == Reference::kAny) value = renumbered(value, number_of);
    if (kind == Reference::kExtern) value = renumbered_extern(value, number_of);
    if (kind != Reference::kFunction || value == 0) {
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
  Result<std::vector<FrameState>> stand();
  Status frames();
  Status frame(const FrameState& s, const wasm::Standing& standing);
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

// All objects, also those that a collection would free: when the next one is due is a part of the state.
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
  const size_t at = begin(Section::kHeap);
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

// All that were kept, also those that the program could not reach any more.
Status SnapshotWriter::exceptions() {
  if (instance.module().tags.empty()) return {};
  const size_t at = begin(Section::kExceptions);
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
  const size_t at = begin(Section::kGlobals);
  const wasm::Module& module = instance.module();
  for (uint32_t i = 0; i < module.globals.size(); ++i) {
    const GlobalInstance& global = *Machine::global(instance, i);
    const uint64_t slots[2] = {global.bits, global.high_bits};
    MEMBRANE_TRY(value(global.type.type, slots));
  }
  end(at);
  return {};
}

// A section for each, and one when there is none.
void SnapshotWriter::memories() {
  memory(instance.memory());
  for (uint32_t i = 1; i < instance.module().memories.size(); ++i) memory(&Machine::memory(instance, i));
}

void SnapshotWriter::memory(const Memory* m) {
  const size_t at = begin(Section::kMemory);
  u8(m != nullptr);
  if (m != nullptr) {
    u32(m->pages());
    const std::vector<MemoryRange> parts = used_pages(*m);
    uint64_t bytes_wanted = 0;
    for (const auto& [offset, size] : parts) bytes_wanted += size + 2 * sizeof(uint64_t);
    constexpr uint64_t kRest = 64u << 10;  // for the sections behind: memory is moved once, and not twice
    out.reserve(out.size() + bytes_wanted + kRest);
    for (const auto& [offset, size] : parts) {
      u64(offset);
      blob({m->base() + offset, size});
    }
  }
  end(at);
}

Status SnapshotWriter::tables() {
  const size_t at = begin(Section::kTables);
  for (const Table* const table : Machine::tables(instance)) {
    u32(static_cast<uint32_t>(table->elements.size()));
    for (const uint64_t element : table->elements) MEMBRANE_TRY(reference(table->element, element));
  }
  end(at);
  return {};
}

// The values of those that may refer to objects are written: made again, they would be others.
Status SnapshotWriter::segments() {
  const size_t at = begin(Section::kSegments);
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

Result<std::vector<FrameState>> SnapshotWriter::stand() {
  for (const FrameStop& stop : frame_stops(run, SIZE_MAX))
    if (stop.function->module != &instance.compiled())
      return unsupported("the program is inside a call of another module",
                         "Freeze it outside of such calls.");
  is_tail_call = awaits_tail_call(run);
  if (is_tail_call && known != nullptr)
    return unsupported("the program ends in a call of the host that waits", "Freeze it later.");
  std::vector<FrameState> stands = known == nullptr ? frame_states(run) : frame_states(run, known->frames);
  // Nothing of a frame is used again that ends in a call; what is called gives its results in its place.
  if (is_tail_call) stands.erase(stands.begin());
  return stands;
}

Status SnapshotWriter::frames() {
  MEMBRANE_ASSIGN(const std::vector<FrameState> stands, stand());
  const FunctionInstance* const host = awaited_host(run);
  const auto host_index = instance.index_of(reinterpret_cast<uint64_t>(host));
  if (host != nullptr && !host_index)
    return unsupported("the program waits for a function that is not of its module", "Freeze it later.");

  const size_t at = begin(Section::kFrames);
  u64(fuel_before + run.fuel_used());
  u64(run.fuel_owed());
  u32(Machine::entry(run)->code->index);
  u32(host == nullptr ? UINT32_MAX : *host_index);
  u32(static_cast<uint32_t>(stands.size()));
  FramePlaces own(instance.module());
  FramePlaces& places = known == nullptr ? own : known->places();
  for (size_t i = stands.size(); i-- > 0;) {  // outermost first
    u32(stands[i].function->index);
    u32(stands[i].code_offset);
    places.add(stands[i].function->index, stands[i].code_offset, i != 0 || host != nullptr);
  }
  places.find(UINT64_MAX);
  for (size_t i = stands.size(); i-- > 0;) {
    const FrameState& s = stands[i];
    const wasm::Standing* const standing =
        places.at(s.function->index, s.code_offset, i != 0 || host != nullptr);
    if (standing == nullptr)  // code that cannot be reached has no types: so it is behind a tail call
      return unsupported("the program waits in a tail call of the host", "Freeze it later.");
    MEMBRANE_TRY(frame(s, *standing));
    // The arguments of the host's function stand above the operands.
    if (i == 0 && host != nullptr && !is_tail_call)
      MEMBRANE_TRY(
          arguments(*host, s.fp + wasm::slots_of(types_of(instance.module(), s.function->index, *standing))));
  }
  if (is_tail_call) MEMBRANE_TRY(arguments(*host, tail_call_arguments(run)));
  if (host != nullptr) {
    wasm::TypeRelations types(instance.module());
    if (stands.empty() ||
        !calls(instance.module(), types, *places.at(stands[0].function->index, stands[0].code_offset, true),
               *host_index))
      version = kSnapshotVersion;
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

Status SnapshotWriter::frame(const FrameState& s, const wasm::Standing& standing) {
  const std::vector<ValType> types = types_of(instance.module(), s.function->index, standing);
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
  out.resize(sizeof(Header));
  size_t at = begin(Section::kModule);
  // A binary as it was, so that places stay what they are; what was text is encoded.
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
  at = begin(Section::kEmbedder);
  bytes(embedder_state.data(), embedder_state.size());
  end(at);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = version;
  header.cost_version = kCostVersion;
  header.body_bytes = out.size() - sizeof header;
  checksum_of(header.version, std::span(out).subspan(sizeof header), header.checksum);
  std::memcpy(out.data(), &header, sizeof header);
  return {};
}

Result<std::vector<uint8_t>> freeze(Execution& run, Instance& instance,
                                    std::span<const uint8_t> embedder_state, uint64_t fuel_before) {
  SnapshotWriter writer(run, instance, fuel_before);
  MEMBRANE_TRY(writer.write(embedder_state));
  return std::move(writer.out);
}

// What frames refer to besides functions is in an instance's heap, which an image has none of.
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

// -- reading -----------------------------------------------------------------------------------------------------

struct SnapshotReader : NumberReader {
  using NumberReader::NumberReader;

  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  // The content of the section that must come next.
  std::optional<SnapshotReader> section(Section wanted) {
    if (u32() != static_cast<uint32_t>(wanted)) return std::nullopt;
    const uint64_t size = u64();
    SnapshotReader inside{take(size)};
    if (!ok()) return std::nullopt;
    return inside;
  }
  const wasm::Module* frozen = nullptr;  // the module that all of it is of
  wasm::TypeRelations* relations = nullptr;
  // How many there are: but for the fields of objects, what refers to one comes behind them.
  uint64_t exception_count = 0;
  uint64_t* most_exception = nullptr;  // where objects' fields note the last that they refer to
  const std::vector<Snapshot::ObjectState>* objects = nullptr;
  KnownPlaces::Parts* known = nullptr;

  // Appends the slots of a value. A function is its index plus one.
  void value(ValType type, std::vector<uint64_t>& slots, bool may_be_unset = false) {
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
  // Code does not look again at what its types promise, so a reference must be of its type.
  uint64_t reference(ValType type, bool may_be_unset) {
    const uint64_t reference = u64();
    if (reference == 0) {
      if (!wasm::is_nullable(type) && !may_be_unset) fail();
      return reference;
    }
    switch (reference_of(*frozen, type)) {
      case Reference::kFunction:
        if (reference > frozen->functions.size() ||
            !relations->matches(wasm::ref_to(frozen->functions[reference - 1].type), type))
          fail();
        break;
      case Reference::kException:
        if (most_exception != nullptr) *most_exception = std::max(*most_exception, reference);
        if ((most_exception == nullptr && reference > exception_count) ||
            !relations->matches(wasm::non_null(ValType::kExnRef), type))
          fail();
        break;
      case Reference::kAny:
        if (!is_any(reference, type)) fail();
        break;
      case Reference::kExtern: {
        const uint64_t any = reference & ~kInternalBit;
        const bool is_internal = (reference & kInternalBit) != 0;
        const bool is_whole = is_internal ? (any & kObjectMask) != 0 && is_any(any, ValType::kAnyRef)
                                          : reference < kInternalBit >> 1;
        if (!is_whole || !relations->matches(wasm::non_null(ValType::kExternRef), type)) fail();
        break;
      }
      case Reference::kNone: break;
    }
    return reference;
  }

  // Of a reference below anyref that is not null.
  [[nodiscard]] bool is_any(uint64_t any, ValType type) const {
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

  // Calls take(index, storage type, layout, offset, bits) for each field of each object.
  void fields(const Snapshot& s, auto take) {
    for (size_t i = 0; i < s.objects_.size(); ++i) {
      const Snapshot::ObjectState& object = s.objects_[i];
      const auto types = frozen->fields_of(object.type);
      const auto& layouts = static_cast<const RuntimeType*>(s.module_->canonical_type(object.type))->fields;
      const bool has_elements = is_array(*frozen, object.type);
      const uint64_t count = has_elements ? object.length : types.size();
      for (uint64_t n = 0; n < count && ok(); ++n) {
        const size_t field = has_elements ? 0 : n;
        field_slots.clear();
        if (types[field].type == ValType::kI8) field_slots.push_back(number<uint8_t>());
        else if (types[field].type == ValType::kI16) field_slots.push_back(number<uint16_t>());
        else value(types[field].type, field_slots);
        field_slots.push_back(0);
        const uint64_t offset = has_elements ? n * layouts[0].bytes : layouts[field].offset;
        take(i, types[field].type, layouts[field], offset, field_slots.data());
      }
    }
  }
  std::vector<uint64_t> field_slots;  // of the field at hand

  Status read(Snapshot& s);
  Status heap(Snapshot& s);
  Status exceptions(Snapshot& s);
  Status globals(Snapshot& s);
  Status memory(Snapshot& s);
  Status tables(Snapshot& s);
  Status segments(Snapshot& s);
  Status frames(Snapshot& s);
  Status frame(Snapshot& s, size_t index, const wasm::Standing& standing);
  Status values_of_frames(Snapshot& s, std::span<const ValType> types, size_t locals);
};

Status SnapshotReader::heap(Snapshot& s) {
  s.heap_threshold_ = u64();
  const uint64_t count = u32();
  if (!ok() || count > left().size() / sizeof(Snapshot::ObjectState)) return damaged("its heap is cut short");
  for (uint64_t i = 0; i < count; ++i) {
    const Snapshot::ObjectState object{u32(), u32()};
    if (object.type >= frozen->types.size() || frozen->kind_of_type(object.type) == wasm::TypeKind::kFunc ||
        (object.length != 0 && !is_array(*frozen, object.type)))
      return damaged("an object is of no type of its module");
    s.objects_.push_back(object);
  }
  s.object_fields_ = left();
  fields(s, [](size_t, ValType, const FieldLayout&, uint64_t, const uint64_t*) {});
  if (!ok() || !left().empty()) return damaged("its heap is not of its module");
  return {};
}

Status SnapshotReader::exceptions(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  exception_count = u32();
  for (uint64_t i = 0; i < exception_count; ++i) {
    const uint32_t tag = u32();
    if (!ok() || tag >= module.tags.size()) return damaged("an exception is of no tag");
    s.exceptions_.push_back(tag);
    for (const ValType type : module.type_of_tag(tag).params) value(type, s.exception_slots_);
  }
  if (!ok() || !left().empty()) return damaged("its exceptions are not those of its module");
  return {};
}

Status SnapshotReader::globals(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  for (const wasm::Global& global : module.globals) {
    std::vector<uint64_t> slots;
    value(global.type.type, slots);
    s.globals_.push_back({slots[0], slots.size() > 1 ? slots[1] : 0});
  }
  if (!ok() || !left().empty()) return damaged("its globals are not those of its module");
  return {};
}

Status SnapshotReader::memory(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  const bool has = flag();
  if (has != !module.memories.empty()) return damaged("its memory is not that of its module");
  if (!has) return {};
  Snapshot::MemoryState state{u32(), {}};
  const wasm::Limits& limits = module.memories[s.memories_.size()].type.limits;
  if (state.pages < limits.min || state.pages > limits.max.value_or(wasm::kMaxPages) ||
      state.pages > wasm::kMaxPages)
    return damaged("its memory has a size that its module does not allow");
  const uint64_t size = uint64_t{state.pages} * wasm::kPageBytes;
  while (ok() && !left().empty()) {
    const uint64_t offset = u64(), bytes = u64();
    if (offset > size || bytes > size - offset) return damaged("a part of the memory is beyond its size");
    state.parts.emplace_back(offset, take(bytes));
  }
  if (!ok()) return damaged("its memory is cut short");
  s.memories_.push_back(std::move(state));
  return {};
}

Status SnapshotReader::tables(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  for (const wasm::Table& table : module.tables) {
    const uint64_t count = u32();
    if (!ok() || count * sizeof(uint64_t) > left().size() || count < table.type.limits.min ||
        count > table.type.limits.max.value_or(UINT32_MAX))
      return damaged("a table has a size that its module does not allow");
    std::vector<uint64_t>& elements = s.tables_.emplace_back();
    for (uint64_t i = 0; i < count; ++i) elements.push_back(reference(table.type.element, false));
  }
  if (!ok() || !left().empty()) return damaged("its tables are not those of its module");
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
    if (segment.size() * sizeof(uint64_t) > left().size()) return damaged("its segments are cut short");
    for (size_t n = 0; n < segment.size(); ++n) values.push_back(reference(segment.type, false));
  }
  if (!ok() || !left().empty()) return damaged("its segments are not those of its module");
  return {};
}

// Whether what a function gives back can be taken for the results of another.
bool gives_back(const wasm::Module& module, wasm::TypeRelations& relations, uint32_t function,
                const wasm::FuncType& wanted) {
  return std::ranges::equal(module.type_of_function(function).results, wanted.results,
                            [&](ValType given, ValType taken) { return relations.matches(given, taken); });
}

// A frame stands above one that called its function, or another with the same results, from which tail calls led
// to it.
bool returns_to(const wasm::Module& module, wasm::TypeRelations& relations, const wasm::Standing& standing,
                uint32_t function) {
  const wasm::FuncType* const type = callee_type(module, standing);
  return type != nullptr && gives_back(module, relations, function, *type);
}

// A frame is taken only where its function's types allow it to stand, and above a frame that calls it: a forged
// one could give a number for a reference.
Status SnapshotReader::frame(Snapshot& s, size_t index, const wasm::Standing& standing) {
  const wasm::Module& module = s.module_->module();
  Snapshot::Frame& frame = s.frames_[index];
  frame.first_slot = s.frame_slots_.size();
  const bool is_innermost = index + 1 == s.frames_.size();
  const uint32_t called = is_innermost ? s.host_call_ : s.frames_[index + 1].function;
  const bool may_be_called = called == UINT32_MAX || returns_to(module, *relations, standing, called) ||
                             (is_innermost && calls(module, *relations, standing, called));
  if (!may_be_called) return damaged("a frame is not called by the one below it");
  const std::vector<ValType> types = types_of(module, frame.function, standing);
  MEMBRANE_TRY(values_of_frames(s, types, types.size() - standing.operands.size()));
  if (!is_innermost || called == UINT32_MAX) return {};
  return values_of_frames(s, module.type_of_function(called).params, 0);
}

// The first `locals` may be unset.
Status SnapshotReader::values_of_frames(Snapshot& s, std::span<const ValType> types, size_t locals) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (!ok()) return damaged("its frames are cut short");
    value(types[i], s.frame_slots_, i < locals);
    const Reference kind = reference_of(*frozen, types[i]);
    if (kind != Reference::kNone)
      s.frame_references_.emplace_back(s.frame_slots_.size() - 1, static_cast<uint8_t>(kind));
  }
  return {};
}

// Where the frames stand comes first, and what is in them after all that, so that each function is walked once.
Status SnapshotReader::frames(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  s.fuel_used_ = u64();
  s.fuel_owed_ = u64();
  s.entry_ = u32();
  s.host_call_ = u32();
  const uint64_t count = u32();
  if (s.host_call_ != UINT32_MAX && (s.host_call_ >= module.functions.size() ||
                                     module.functions[s.host_call_].import == wasm::kNotImported))
    return damaged("it waits for a function that is not the host's");
  const bool has_none = count == 0 && s.host_call_ != UINT32_MAX && known == nullptr;
  if (!ok() || (count == 0 && !has_none)) return damaged("it has no frame");
  if (count > left().size() / (2 * sizeof(uint32_t))) return damaged("its frames are cut short");
  FramePlaces own(module);
  FramePlaces& places = known == nullptr ? own : known->places();
  const auto waits = [&](uint64_t i) { return i + 1 < count || s.host_call_ != UINT32_MAX; };
  for (uint64_t i = 0; i < count; ++i) {
    const Snapshot::Frame frame{u32(), u32(), 0};
    if (frame.function >= module.functions.size() ||
        module.functions[frame.function].import != wasm::kNotImported)
      return damaged("a frame is of no function");
    s.frames_.push_back(frame);
    places.add(frame.function, frame.code_offset, waits(i));
  }
  if (s.entry_ >= module.functions.size() || module.functions[s.entry_].import != wasm::kNotImported ||
      !gives_back(module, *relations, has_none ? s.host_call_ : s.frames_[0].function,
                  module.type_of_function(s.entry_)))
    return damaged("its first frame is not of its entry");
  if (has_none) MEMBRANE_TRY(values_of_frames(s, module.type_of_function(s.host_call_).params, 0));
  places.find(left().size() / sizeof(uint32_t));  // the smallest value that is written
  for (uint64_t i = 0; i < count; ++i) {
    const Snapshot::Frame& f = s.frames_[i];
    const wasm::Standing* const standing = places.at(f.function, f.code_offset, waits(i));
    if (standing == nullptr) return damaged("a frame stands where its function cannot stand");
    MEMBRANE_TRY(frame(s, i, *standing));
  }
  if (!ok()) return damaged("its frames are cut short");
  if (!left().empty()) return damaged("something follows its frames");
  return {};
}

Status SnapshotReader::read(Snapshot& s) {
  wasm::TypeRelations types(s.module_->module());
  uint64_t last_exception = 0;
  const auto inside = [&](Section section, Status (SnapshotReader::*part)(Snapshot&)) -> Status {
    auto reader = this->section(section);
    if (!reader) return damaged("a section is missing or cut short");
    reader->frozen = &s.module_->module();
    reader->relations = &types;
    reader->exception_count = s.exceptions_.size();
    reader->most_exception = section == Section::kHeap ? &last_exception : nullptr;
    reader->objects = &s.objects_;
    return ((*reader).*part)(s);
  };
  if (has_heap(s.module_->module())) MEMBRANE_TRY(inside(Section::kHeap, &SnapshotReader::heap));
  if (!s.module_->module().tags.empty())
    MEMBRANE_TRY(inside(Section::kExceptions, &SnapshotReader::exceptions));
  if (last_exception > s.exceptions_.size()) return damaged("an object holds an exception that is not there");
  MEMBRANE_TRY(inside(Section::kGlobals, &SnapshotReader::globals));
  for (size_t i = 0; i < std::max<size_t>(1, s.module_->module().memories.size()); ++i)
    MEMBRANE_TRY(inside(Section::kMemory, &SnapshotReader::memory));
  MEMBRANE_TRY(inside(Section::kTables, &SnapshotReader::tables));
  MEMBRANE_TRY(inside(Section::kSegments, &SnapshotReader::segments));
  MEMBRANE_TRY(inside(Section::kFrames, &SnapshotReader::frames));
  const auto embedder = section(Section::kEmbedder);
  if (!embedder || !left().empty()) return damaged("a section is missing or cut short");
  s.embedder_state_ = embedder->left();
  return {};
}

namespace {

// The body of a snapshot whose header and checksum are right.
Result<std::span<const uint8_t>> checked_body(std::span<const uint8_t> bytes) {
  Header header{};
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return fail(ErrorCode::kInvalidInput, "this is no snapshot", "Give a file that --snapshot has written.");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version < kOldestVersion || header.version > kSnapshotVersion)
    return unsupported("the snapshot has format version " + std::to_string(header.version) +
                           ", and this program reads versions " + std::to_string(kOldestVersion) + " to " +
                           std::to_string(kSnapshotVersion),
                       "Thaw it with the version of Membrane that froze it.");
  if (header.cost_version != kCostVersion)
    return unsupported("the snapshot was frozen under cost table " + std::to_string(header.cost_version) +
                           ", and this program has " + std::to_string(kCostVersion),
                       "Thaw it with the version of Membrane that froze it: fuel would not add up.");
  uint64_t checksum[2];
  checksum_of(header.version, bytes.subspan(sizeof header), checksum);
  if (header.body_bytes != bytes.size() - sizeof header || header.checksum[0] != checksum[0] ||
      header.checksum[1] != checksum[1])
    return damaged("its checksum is not that of its content");
  return bytes.subspan(sizeof header);
}

}  // namespace

Result<std::span<const uint8_t>> embedder_part(std::span<const uint8_t> snapshot) {
  MEMBRANE_ASSIGN(const auto body, checked_body(snapshot));
  SnapshotReader reader{body};
  while (!reader.left().empty()) {
    const uint32_t section = reader.u32();
    const auto content = reader.take(reader.u64());
    if (!reader.ok()) break;
    if (section == static_cast<uint32_t>(Section::kEmbedder)) return content;
  }
  return damaged("a section is missing or cut short");
}

Result<std::vector<uint8_t>> with_embedder_part(std::span<const uint8_t> snapshot,
                                                std::span<const uint8_t> part) {
  MEMBRANE_ASSIGN(const auto old, embedder_part(snapshot));
  // It comes last: what is before it are its size and all else.
  const size_t before = static_cast<size_t>(old.data() - snapshot.data()) - sizeof(uint64_t);
  if (before + sizeof(uint64_t) + old.size() != snapshot.size())
    return damaged("something follows its last section");
  std::vector<uint8_t> made(snapshot.begin(), snapshot.begin() + static_cast<std::ptrdiff_t>(before));
  const uint64_t size = part.size();
  const auto* const size_bytes = reinterpret_cast<const uint8_t*>(&size);
  made.insert(made.end(), size_bytes, size_bytes + sizeof size);
  made.insert(made.end(), part.begin(), part.end());
  Header header{};
  std::memcpy(&header, made.data(), sizeof header);
  header.body_bytes = made.size() - sizeof header;
  checksum_of(header.version, std::span<const uint8_t>(made).subspan(sizeof header), header.checksum);
  std::memcpy(made.data(), &header, sizeof header);
  return made;
}

Result<Snapshot> Snapshot::read(std::vector<uint8_t> owned, Tier tier, const native::CodeCache* cache) {
  Snapshot s;
  s.bytes_ = std::make_shared<std::vector<uint8_t>>(std::move(owned));
  MEMBRANE_ASSIGN(const auto body, checked_body(*s.bytes_));
  SnapshotReader reader{body};
  const auto binary = reader.section(Section::kModule);
  if (!binary) return damaged("it has no module");
  auto module = wasm::decode(binary->left());
  if (!module) return damaged("its module does not decode: " + module.error().message);
  for (const wasm::Import& import : module->imports)
    if (import.kind != wasm::ExternKind::kFunc) return damaged("its module imports more than functions");
  auto compiled = compile_module(std::move(*module), {}, tier, cache);
  if (!compiled) return damaged("its module is not valid: " + compiled.error().message);
  s.module_ = std::move(*compiled);
  MEMBRANE_TRY(reader.read(s));
  return s;
}

// -- thawing -------------------------------------------------------------------------------------------------------

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
    return thawed(instance, reference_of(instance.module(), type), bits);
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

// They go behind those that the store has already. False when there are too many.
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
  reader.fields(
      *this, [&](size_t i, ValType type, const FieldLayout& layout, uint64_t offset, const uint64_t* bits) {
        const uint64_t value[2] = {thawed(instance, reference_of(module_->module(), type), bits[0]), bits[1]};
        std::memcpy(made[i]->fields() + offset, value, layout.bytes);
      });
  return true;
}

// They go behind those that the store has already. False when there are too many.
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
      bits = thawed(instance, reference_of(instance.module(), type), bits);
      at += wasm::slots_of(type);
    }
    uint64_t reference = 0;
    if (!Machine::keep_exception(instance, tag, payload.data(), reference)) return false;
  }
  return true;
}

namespace {

// The headers of the segments that begin at an offset; of several, the one that a run can pause at.
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
  // A run with half of its frames must not go on.
  m.state = put ? RunState::kOutOfFuel : RunState::kFinished;
  Machine::owe(run, fuel_owed_);
  return put;
}

Status thaw_frames(std::span<const uint8_t> frames, Execution& run, Instance& instance, KnownPlaces& known) {
  const std::lock_guard lock(known.parts_->mutex);
  Snapshot s;
  s.module_ = known.parts_->module;
  s.known_ = known.parts_.get();
  if (s.module_ != instance.share_compiled()) return damaged("its frames are of another module");
  wasm::TypeRelations types(s.module_->module());
  SnapshotReader all{frames};
  auto reader = all.section(Section::kFrames);
  if (!reader || !all.left().empty()) return damaged("its frames are cut short");
  reader->frozen = &s.module_->module();
  reader->relations = &types;
  reader->objects = &s.objects_;
  reader->known = s.known_;
  if (Status read = reader->frames(s); !read) {
    s.known_->standings.reset();  // what was not found may be there
    return read;
  }
  return s.resume_in(run, instance);
}

// Where in the code of their functions the frames go on, of those that are not known yet.
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
  // First of all: what follows takes time for each place, and a forged snapshot may have very many.
  const auto most_slots = static_cast<size_t>(m.stack_end - fp);
  if (frames_.size() > static_cast<size_t>(m.frames_end - records) || frame_slots_.size() > most_slots)
    return too_deep();
  std::map<Remade<Recorder>::Key, Recorder> own;
  auto& headers = known_ == nullptr ? own : known_->headers;
  find_headers(headers);
  uint64_t* caller_fp = fp;
  const Word* at = kExitStub;  // where the frame below goes on
  auto reference = frame_references_.begin();
  for (size_t i = 0; i < frames_.size(); ++i) {
    const Frame& frame = frames_[i];
    const FunctionCode& code = module_->function(frame.function);
    if (code.frame_slots > static_cast<size_t>(m.stack_end - fp)) return too_deep();
    records[i] = {at, i == 0 ? fp : caller_fp, &code, nullptr};
    const bool in_call = i + 1 < frames_.size() || host_call_ != UINT32_MAX;
    at = header_of(code, headers.at({&code, frame.code_offset}).headers, in_call);
    if (at == nullptr) return damaged("a frame stands at no safepoint");
    const size_t end = i + 1 < frames_.size() ? frames_[i + 1].first_slot : frame_slots_.size();
    for (size_t slot = frame.first_slot; slot < end; ++slot) fp[slot - frame.first_slot] = frame_slots_[slot];
    // The types were looked at when the snapshot was read.
    for (; reference != frame_references_.end() && reference->first < end; ++reference) {
      uint64_t& slot = fp[reference->first - frame.first_slot];
      slot = thawed(instance, static_cast<Reference>(reference->second), slot);
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

// The entry has ended in a call of the host, whose arguments are all that there is.
void Snapshot::place_tail_call(Execution& run, Instance& instance) const {
  MachineState& m = Machine::state(run);
  std::ranges::copy(frame_slots_, m.fp);
  for (const auto& [slot, kind] : frame_references_)
    m.fp[slot] = thawed(instance, static_cast<Reference>(kind), m.fp[slot]);
  m.ip = kTailHostStub;
  m.where = Where::kInterpreter;
  m.callee = instance.function(host_call_);
  m.at_call = m.has_callee = true;
}

}  // namespace membrane::engine
