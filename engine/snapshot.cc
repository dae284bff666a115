#include "engine/snapshot.h"

#include <fcntl.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <unordered_map>

#include "engine/backtrace.h"
#include "engine/fuel.h"
#include "engine/interpreter.h"
#include "engine/machine.h"
#include "engine/native/runtime.h"
#include "engine/numeric.h"
#include "engine/translate.h"
#include "wasm/binary.h"
#include "wasm/validate.h"

namespace membrane::engine {
namespace {

using wasm::ValType;

// -- the format: docs/snapshot-format.md ----------------------------------------------------------

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
  kEnd
};
constexpr uint64_t kPageOfMemory = 4096;  // what is written of a memory, or left out, at a time

void checksum_of(std::span<const uint8_t> body, uint64_t (&out)[2]) {
  const XXH128_hash_t hash = XXH3_128bits(body.data(), body.size());
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

std::vector<ValType> locals_of(const wasm::Module& module, uint32_t index) {
  const wasm::Function& f = module.functions[index];
  std::vector<ValType> types = module.types[f.type].params;
  for (uint32_t i = 0; i < f.local_run_count; ++i) {
    const wasm::LocalRun& run = module.local_runs[f.first_local_run + i];
    types.insert(types.end(), run.count, run.type);
  }
  return types;
}

// The types of a frame's slots at a place: locals, then operands. A frame that waits for a call holds neither
// the call's arguments nor its results.
std::optional<std::vector<ValType>> types_at(const wasm::Module& module, uint32_t function,
                                             uint32_t code_offset, bool in_call, wasm::Standing& standing) {
  auto found = wasm::standing_at(module, function, code_offset);
  if (!found) return std::nullopt;
  standing = std::move(*found);
  if (in_call) {
    const wasm::FuncType* callee = nullptr;
    if (standing.before == wasm::Opcode::kCall) callee = &module.type_of_function(standing.before_index);
    if (standing.before == wasm::Opcode::kCallIndirect) callee = &module.types[standing.before_index];
    if (callee == nullptr || callee->results.size() > standing.operands.size()) return std::nullopt;
    standing.operands.resize(standing.operands.size() - callee->results.size());
  }
  std::vector<ValType> types = locals_of(module, function);
  types.insert(types.end(), standing.operands.begin(), standing.operands.end());
  return types;
}

}  // namespace

// -- writing -------------------------------------------------------------------------------------------

struct SnapshotWriter {
  Execution& run;
  Instance& instance;
  std::vector<uint8_t> out;
  std::unordered_map<uint64_t, uint32_t> numbers;  // of functions, by their address

  SnapshotWriter(Execution& r, Instance& i) : run(r), instance(i) {
    const auto functions = Machine::all_functions(instance);
    numbers.reserve(functions.size());
    for (size_t n = 0; n < functions.size(); ++n)
      numbers.emplace(reinterpret_cast<uint64_t>(functions[n]), static_cast<uint32_t>(n));
  }

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

  // References are functions' indices plus one; the embedder's numbers stay.
  Status reference(ValType type, uint64_t value) {
    if (type != ValType::kFuncRef || value == 0) {
      u64(value);
      return {};
    }
    const auto found = numbers.find(value);
    if (found == numbers.end())
      return unsupported("the program holds a function that is not of its module",
                         "A program that shares tables with others cannot be frozen.");
    u64(uint64_t{found->second} + 1);
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
  Status globals();
  void memories();
  void memory(const Memory* m);
  Status tables();
  void segments();
  Status frames();
};

Status SnapshotWriter::check() {
  const RunState state = run.state();
  if (state != RunState::kReady && state != RunState::kOutOfFuel && state != RunState::kInterrupted)
    return fail(ErrorCode::kInvalidArgument, "only a run that is paused can be frozen",
                "Freeze it when it is out of fuel or interrupted.");
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

// Which pages the guest has touched, so that a large memory of which little is used is not read whole: the
// kernel's page map says what is present or swapped out. Without it, all are taken as touched.
std::vector<bool> touched_pages(const uint8_t* base, uint64_t bytes) {
  const uint64_t count = bytes / kPageOfMemory;
  std::vector<bool> touched(count, true);
  const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (file < 0) return touched;
  std::vector<uint64_t> entries(std::min<uint64_t>(count, 8192));
  for (uint64_t first = 0; first < count; first += entries.size()) {
    const uint64_t wanted = std::min<uint64_t>(entries.size(), count - first);
    const uint64_t offset = (reinterpret_cast<uint64_t>(base) / kPageOfMemory + first) * sizeof(uint64_t);
    const ssize_t got = pread(file, entries.data(), wanted * sizeof(uint64_t), static_cast<off_t>(offset));
    if (got != static_cast<ssize_t>(wanted * sizeof(uint64_t))) break;
    constexpr uint64_t kPresentOrSwapped = 3ull << 62;
    for (uint64_t i = 0; i < wanted; ++i) touched[first + i] = (entries[i] & kPresentOrSwapped) != 0;
  }
  close(file);
  return touched;
}

bool is_zero(const uint8_t* page) {
  return page[0] == 0 && std::memcmp(page, page + 1, kPageOfMemory - 1) == 0;
}

// Runs of pages that are not all zero: offset and bytes.
std::vector<std::pair<uint64_t, uint64_t>> used_parts(const Memory& m) {
  const uint64_t count = m.size_bytes() / kPageOfMemory;
  const std::vector<bool> touched = sysconf(_SC_PAGESIZE) == kPageOfMemory
                                        ? touched_pages(m.base(), m.size_bytes())
                                        : std::vector<bool>(count, true);
  const auto is_used = [&](uint64_t page) {
    return page < count && touched[page] && !is_zero(m.base() + page * kPageOfMemory);
  };
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  for (uint64_t page = 0; page < count; ++page) {
    if (!is_used(page)) continue;
    const uint64_t first = page;
    while (is_used(page)) ++page;
    parts.emplace_back(first * kPageOfMemory, (page - first) * kPageOfMemory);
  }
  return parts;
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
    const auto parts = used_parts(*m);
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
  for (const Table* const table : Machine::all_tables(instance)) {
    u32(static_cast<uint32_t>(table->elements.size()));
    for (const uint64_t element : table->elements) MEMBRANE_TRY(reference(table->element, element));
  }
  end(at);
  return {};
}

void SnapshotWriter::segments() {
  const size_t at = begin(Section::kSegments);
  for (const auto& segment : Machine::segments(instance)) u8(segment.empty());
  for (const bool dropped : Machine::dropped_datas(instance)) u8(dropped);
  end(at);
}

// -- frames --------------------------------------------------------------------------------------------------

namespace {

// One frame as it stands: all its values in one place, and the offset behind it.
struct Standpoint {
  const FunctionCode* function = nullptr;
  uint32_t code_offset = 0;
  const uint64_t* fp = nullptr;
  std::vector<PendingSlot> pending;  // values that are not in their slots
  std::vector<std::pair<uint16_t, uint64_t>> in_registers;
};

uint64_t canonical_bits(uint64_t bits, bool is_f32) {
  if (is_f32) {
    const auto narrow = static_cast<uint32_t>(bits);
    return (narrow & 0x7FFFFFFFu) > 0x7F800000u ? numeric::kCanonicalNan32 : narrow;
  }
  return (bits & 0x7FFFFFFFFFFFFFFFull) > 0x7FF0000000000000ull ? numeric::kCanonicalNan64 : bits;
}

// Behind these there is no place to stand at.
bool is_tail_call(Handler handler) {
  return handler == kHandlers[static_cast<size_t>(Operation::kReturnCallImport)] ||
         handler == kHandlers[static_cast<size_t>(Operation::kReturnCallIndirect)];
}

Standpoint stand_interpreted(const FrameStop& stop, bool at_call) {
  Standpoint s;
  s.function = stop.function;
  s.fp = stop.fp;
  const Word* const code = stop.function->code.load(std::memory_order_acquire);
  // Not begun yet: it stands at a stub, or at its first header.
  if (code == nullptr || stop.at == kTranslateStub || stop.at == kNativeStub) return s;
  constexpr uint32_t kWordsOfCall = 3;  // a call's header stands behind it
  const Word* const header = at_call ? stop.at + kWordsOfCall : stop.at;
  Recorder recorder;
  recorder.wanted = static_cast<uint32_t>(header - code);
  std::vector<Word> again;
  translate(stop.function->module->module(), stop.function->index, stop.function->module->functions(), again,
            {&recorder, 1});
  s.code_offset = header->header.code_offset;
  s.pending = std::move(recorder.pending);
  return s;
}

// `callee_fp`: where the frame above it begins. A frame that waits for a call, or stands behind one, ends there.
Standpoint stand_compiled(const FrameStop& stop, const uint64_t* callee_fp, const native::NativeState& n) {
  Standpoint s;
  s.function = stop.function;
  const auto code = native::find_code(stop.native_at);
  native::Watch watch;
  watch.wanted_pc = code->pc;
  native::watch(*code, {&watch, 1});
  s.code_offset = watch.behind_call ? watch.behind_offset : watch.code_offset;
  s.fp = watch.behind_call ? callee_fp - watch.frame_advance : callee_fp;
  for (const native::Location& l : watch.locations) {
    using Kind = native::Location::Kind;
    switch (l.kind) {
      case Kind::kRegister: s.in_registers.emplace_back(l.slot, n.registers[l.register_number]); break;
      case Kind::kReal: {
        const uint64_t bits = n.reals[l.register_number][0];
        s.in_registers.emplace_back(l.slot, l.maybe_nan ? canonical_bits(bits, l.is_f32) : bits);
        break;
      }
      case Kind::kConstant: s.pending.push_back({l.slot, true, l.value}); break;
      case Kind::kSlot: s.pending.push_back({l.slot, false, l.value}); break;
    }
  }
  return s;
}

// The values of so many slots from the frame's beginning.
std::vector<uint64_t> slots_at(const Standpoint& s, uint32_t count) {
  std::vector<uint64_t> slots(s.fp, s.fp + count);
  for (const auto& [slot, bits] : s.in_registers)
    if (slot < count) slots[slot] = bits;
  for (const PendingSlot& p : s.pending)
    if (p.slot < count) slots[p.slot] = p.is_constant ? p.value : slots[p.value];
  return slots;
}

}  // namespace

Status SnapshotWriter::frames() {
  MachineState& m = Machine::state(run);
  const std::vector<FrameStop> stops = frame_stops(run, SIZE_MAX);
  std::vector<Standpoint> stands;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].function->module != &instance.compiled())
      return unsupported("the program is inside a call of another module",
                         "Freeze it outside of such calls.");
    if (stops[i].native_at == nullptr) {
      stands.push_back(stand_interpreted(stops[i], i == 0 && m.at_call));
      continue;
    }
    const uint64_t* const above =
        i != 0 ? stands.back().fp
               : reinterpret_cast<const uint64_t*>(m.native->registers[native::kFrameRegister]);
    stands.push_back(stand_compiled(stops[i], above, *m.native));
  }
  if (m.at_call && is_tail_call(m.ip->handler))
    return unsupported("the program ends in a call of the host that waits", "Freeze it later.");
  const bool before_host_call =
      m.at_call || (m.where == Where::kNative && m.native->pc == m.native->exit_instance);
  const FunctionInstance* const host =
      !before_host_call ? nullptr
      : m.at_call       ? m.callee
                  : reinterpret_cast<const FunctionInstance*>(m.native->registers[native::kResultRegister]);
  const auto host_number = numbers.find(reinterpret_cast<uint64_t>(host));
  if (host != nullptr && host_number == numbers.end())
    return unsupported("the program waits for a function that is not of its module", "Freeze it later.");

  const size_t at = begin(Section::kFrames);
  u64(run.fuel_used());
  u32(Machine::entry(run)->code->index);
  u32(host == nullptr ? UINT32_MAX : host_number->second);
  u32(static_cast<uint32_t>(stands.size()));
  for (size_t i = stands.size(); i-- > 0;) {  // outermost first
    const Standpoint& s = stands[i];
    wasm::Standing standing;
    const bool in_call = i != 0 || host != nullptr;
    const auto types = types_at(instance.module(), s.function->index, s.code_offset, in_call, standing);
    if (!types) return fail(ErrorCode::kInternal, "a frame stands at no safepoint", "");
    const std::vector<uint64_t> slots = slots_at(s, wasm::slots_of(*types));
    u32(s.function->index);
    u32(s.code_offset);
    uint32_t slot = 0;
    for (const ValType type : *types) {
      MEMBRANE_TRY(value(type, slots.data() + slot));
      slot += wasm::slots_of(type);
    }
    if (i != 0 || host == nullptr) continue;
    // The arguments of the host's function stand above the operands.
    for (const ValType type : host->type->params) {
      MEMBRANE_TRY(value(type, s.fp + slot));
      slot += wasm::slots_of(type);
    }
  }
  end(at);
  return {};
}

Status SnapshotWriter::write(std::span<const uint8_t> embedder_state) {
  MEMBRANE_TRY(check());
  out.resize(sizeof(Header));
  size_t at = begin(Section::kModule);
  // A binary as it was, so that places stay what they are; what was text is encoded.
  const std::vector<uint8_t>& original = instance.module().bytes;
  const bool is_binary = original.size() > 4 && std::memcmp(original.data(), "\0asm", 4) == 0;
  const std::vector<uint8_t> module = is_binary ? original : wasm::encode(instance.module());
  bytes(module.data(), module.size());
  end(at);
  MEMBRANE_TRY(globals());
  memories();
  MEMBRANE_TRY(tables());
  segments();
  MEMBRANE_TRY(frames());
  at = begin(Section::kEmbedder);
  bytes(embedder_state.data(), embedder_state.size());
  end(at);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kSnapshotVersion;
  header.cost_version = kCostVersion;
  header.body_bytes = out.size() - sizeof header;
  checksum_of(std::span(out).subspan(sizeof header), header.checksum);
  std::memcpy(out.data(), &header, sizeof header);
  return {};
}

Result<std::vector<uint8_t>> freeze(Execution& run, Instance& instance,
                                    std::span<const uint8_t> embedder_state) {
  SnapshotWriter writer(run, instance);
  MEMBRANE_TRY(writer.write(embedder_state));
  return std::move(writer.out);
}

// -- reading -----------------------------------------------------------------------------------------------------

// Reads within bounds; once something is missing, all that follows is zero and ok() is false.
struct SnapshotReader {
  std::span<const uint8_t> left;
  bool good = true;

  [[nodiscard]] bool ok() const { return good; }
  std::span<const uint8_t> take(uint64_t count) {
    if (count > left.size()) {
      good = false;
      left = {};
      return {};
    }
    const auto taken = left.first(count);
    left = left.subspan(count);
    return taken;
  }
  template <typename T>
  T number() {
    T value = 0;
    if (const auto from = take(sizeof value); good) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  uint8_t u8() { return number<uint8_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  bool flag() {
    const uint8_t byte = u8();
    good = good && byte <= 1;
    return byte == 1;
  }
  // The content of the section that must come next.
  std::optional<SnapshotReader> section(Section wanted) {
    if (u32() != static_cast<uint32_t>(wanted)) return std::nullopt;
    const uint64_t size = u64();
    SnapshotReader inside{take(size)};
    if (!good) return std::nullopt;
    return inside;
  }
  // Appends the slots of a value. A function is its index plus one.
  void value(ValType type, size_t functions, std::vector<uint64_t>& slots) {
    switch (type) {
      case ValType::kI32:
      case ValType::kF32: slots.push_back(u32()); break;
      case ValType::kI64:
      case ValType::kF64: slots.push_back(u64()); break;
      case ValType::kV128:
        slots.push_back(u64());
        slots.push_back(u64());
        break;
      default: slots.push_back(reference(type, functions)); break;
    }
  }
  uint64_t reference(ValType type, size_t functions) {
    const uint64_t number = u64();
    if (type == ValType::kFuncRef && number > functions) good = false;
    return number;
  }

  Status read(Snapshot& s);
  Status globals(Snapshot& s);
  Status memory(Snapshot& s);
  Status tables(Snapshot& s);
  Status segments(Snapshot& s);
  Status frames(Snapshot& s);
  Status frame(Snapshot& s, const wasm::Module& module, bool is_innermost);
};

Status SnapshotReader::globals(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  for (const wasm::Global& global : module.globals) {
    std::vector<uint64_t> slots;
    value(global.type.type, module.functions.size(), slots);
    s.globals_.push_back({slots[0], slots.size() > 1 ? slots[1] : 0});
  }
  if (!good || !left.empty()) return damaged("its globals are not those of its module");
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
  while (good && !left.empty()) {
    const uint64_t offset = u64(), bytes = u64();
    if (offset > size || bytes > size - offset) return damaged("a part of the memory is beyond its size");
    state.parts.emplace_back(offset, take(bytes));
  }
  if (!good) return damaged("its memory is cut short");
  s.memories_.push_back(std::move(state));
  return {};
}

Status SnapshotReader::tables(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  for (const wasm::Table& table : module.tables) {
    const uint64_t count = u32();
    if (!good || count * sizeof(uint64_t) > left.size() || count < table.type.limits.min ||
        count > table.type.limits.max.value_or(UINT32_MAX))
      return damaged("a table has a size that its module does not allow");
    std::vector<uint64_t>& elements = s.tables_.emplace_back();
    for (uint64_t i = 0; i < count; ++i)
      elements.push_back(reference(table.type.element, module.functions.size()));
  }
  if (!good || !left.empty()) return damaged("its tables are not those of its module");
  return {};
}

Status SnapshotReader::segments(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  for (size_t i = 0; i < module.elements.size(); ++i) s.dropped_elements_.push_back(flag());
  for (size_t i = 0; i < module.datas.size(); ++i) s.dropped_datas_.push_back(flag());
  if (!good || !left.empty()) return damaged("its segments are not those of its module");
  return {};
}

// A frame is taken only where its function's types allow it to stand, and above a frame that calls it: a forged
// one could give a number for a reference.
Status SnapshotReader::frame(Snapshot& s, const wasm::Module& module, bool is_innermost) {
  Snapshot::Frame frame{u32(), u32(), {}};
  if (!good || frame.function >= module.functions.size() ||
      module.functions[frame.function].import != wasm::kNotImported)
    return damaged("a frame is of no function");
  const bool in_call = !is_innermost || s.host_call_ != UINT32_MAX;
  wasm::Standing standing;
  const auto types = types_at(module, frame.function, frame.code_offset, in_call, standing);
  if (!types) return damaged("a frame stands where its function cannot stand");
  for (const ValType type : *types) {
    if (!good) break;
    value(type, module.functions.size(), frame.slots);
  }
  const auto calls = [&](uint32_t function) {
    return standing.before == wasm::Opcode::kCall
               ? standing.before_index == function
               : module.types[standing.before_index] == module.type_of_function(function);
  };
  // Tail calls may have led from the function that was called to another, with the same results.
  const auto returns_there = [&](uint32_t function) {
    const wasm::FuncType& type = standing.before == wasm::Opcode::kCall
                                     ? module.type_of_function(standing.before_index)
                                     : module.types[standing.before_index];
    return type.results == module.type_of_function(function).results;
  };
  if (is_innermost && in_call) {
    if (!calls(s.host_call_)) return damaged("it waits for a function that is not called there");
    for (const ValType type : module.type_of_function(s.host_call_).params)
      value(type, module.functions.size(), frame.slots);
  }
  const uint32_t called = left.size() >= sizeof(uint32_t) ? SnapshotReader{left}.u32() : UINT32_MAX;
  if (!is_innermost && (called >= module.functions.size() || !returns_there(called)))
    return damaged("a frame is not called by the one below it");
  if (!good) return damaged("its frames are cut short");
  s.frames_.push_back(std::move(frame));
  return {};
}

Status SnapshotReader::frames(Snapshot& s) {
  const wasm::Module& module = s.module_->module();
  s.fuel_used_ = u64();
  s.entry_ = u32();
  s.host_call_ = u32();
  const uint32_t count = u32();
  if (s.host_call_ != UINT32_MAX && (s.host_call_ >= module.functions.size() ||
                                     module.functions[s.host_call_].import == wasm::kNotImported))
    return damaged("it waits for a function that is not the host's");
  if (!good || count == 0) return damaged("it has no frame");
  for (uint32_t i = 0; i < count; ++i) MEMBRANE_TRY(frame(s, module, i + 1 == count));
  if (s.entry_ >= module.functions.size() || module.functions[s.entry_].import != wasm::kNotImported ||
      module.type_of_function(s.frames_[0].function).results != module.type_of_function(s.entry_).results)
    return damaged("its first frame is not of its entry");
  if (!left.empty()) return damaged("something follows its frames");
  return {};
}

Status SnapshotReader::read(Snapshot& s) {
  const auto inside = [&](Section section, Status (SnapshotReader::*part)(Snapshot&)) -> Status {
    auto reader = this->section(section);
    if (!reader) return damaged("a section is missing or cut short");
    return ((*reader).*part)(s);
  };
  MEMBRANE_TRY(inside(Section::kGlobals, &SnapshotReader::globals));
  for (size_t i = 0; i < std::max<size_t>(1, s.module_->module().memories.size()); ++i)
    MEMBRANE_TRY(inside(Section::kMemory, &SnapshotReader::memory));
  MEMBRANE_TRY(inside(Section::kTables, &SnapshotReader::tables));
  MEMBRANE_TRY(inside(Section::kSegments, &SnapshotReader::segments));
  MEMBRANE_TRY(inside(Section::kFrames, &SnapshotReader::frames));
  const auto embedder = section(Section::kEmbedder);
  if (!embedder || !left.empty()) return damaged("a section is missing or cut short");
  s.embedder_state_ = embedder->left;
  return {};
}

Result<Snapshot> Snapshot::read(std::vector<uint8_t> owned, Tier tier) {
  Snapshot s;
  s.bytes_ = std::make_shared<std::vector<uint8_t>>(std::move(owned));
  const std::span<const uint8_t> bytes(*s.bytes_);
  Header header{};
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return fail(ErrorCode::kInvalidInput, "this is no snapshot", "Give a file that --snapshot has written.");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kSnapshotVersion)
    return unsupported("the snapshot has format version " + std::to_string(header.version) +
                           ", and this program reads version " + std::to_string(kSnapshotVersion),
                       "Thaw it with the version of Membrane that froze it.");
  if (header.cost_version != kCostVersion)
    return unsupported("the snapshot was frozen under cost table " + std::to_string(header.cost_version) +
                           ", and this program has " + std::to_string(kCostVersion),
                       "Thaw it with the version of Membrane that froze it: fuel would not add up.");
  uint64_t checksum[2];
  checksum_of(bytes.subspan(sizeof header), checksum);
  if (header.body_bytes != bytes.size() - sizeof header || header.checksum[0] != checksum[0] ||
      header.checksum[1] != checksum[1])
    return damaged("its checksum is not that of its content");
  SnapshotReader reader{bytes.subspan(sizeof header)};
  const auto binary = reader.section(Section::kModule);
  if (!binary) return damaged("it has no module");
  auto module = wasm::decode(binary->left);
  if (!module) return damaged("its module does not decode: " + module.error().message);
  for (const wasm::Import& import : module->imports)
    if (import.kind != wasm::ExternKind::kFunc) return damaged("its module imports more than functions");
  auto compiled = CompiledModule::compile(std::move(*module), {}, tier);
  if (!compiled) return damaged("its module is not valid: " + compiled.error().message);
  s.module_ = std::move(*compiled);
  MEMBRANE_TRY(reader.read(s));
  return s;
}

// -- thawing -------------------------------------------------------------------------------------------------------

std::expected<Instance*, LinkError> Snapshot::instantiate(Store& store, const Resolver& resolver,
                                                          const InstanceLimits& limits) const {
  auto made = store.instantiate(module_, resolver, limits);
  if (!made) return made;
  Instance& instance = **made;
  const auto of_limit = [](std::string what) {
    return std::unexpected(LinkError{
        LinkError::Kind::kLimit,
        {ErrorCode::kExhausted, std::move(what), "Raise the limit to what it was when it was frozen."},
        UINT32_MAX,
        {}});
  };
  const auto function_of = [&](uint64_t number) {
    return number == 0 ? 0 : reinterpret_cast<uint64_t>(instance.function(static_cast<uint32_t>(number - 1)));
  };
  for (uint32_t i = 0; i < globals_.size(); ++i) {
    GlobalInstance& global = *Machine::global(instance, i);
    global.bits = global.type.type == ValType::kFuncRef ? function_of(globals_[i].bits) : globals_[i].bits;
    global.high_bits = globals_[i].high_bits;
  }
  for (uint32_t i = 0; i < memories_.size(); ++i) {
    Memory& memory = Machine::memory(instance, i);
    const MemoryState& frozen = memories_[i];
    if (memory.grow(frozen.pages - memory.pages()) < 0)
      return of_limit("the snapshot's memory of " + std::to_string(frozen.pages) +
                      " pages is beyond the memory limit");
    memory.clear();
    for (const auto& [offset, bytes] : frozen.parts)
      std::memcpy(memory.base() + offset, bytes.data(), bytes.size());
  }
  for (uint32_t i = 0; i < tables_.size(); ++i) {
    Table& table = *Machine::table(instance, i);
    if (table.grow(tables_[i].size() - table.elements.size(), 0) < 0)
      return of_limit("a table of the snapshot is beyond the table limit");
    const bool functions = table.element == ValType::kFuncRef;
    for (size_t n = 0; n < tables_[i].size(); ++n)
      table.elements[n] = functions ? function_of(tables_[i][n]) : tables_[i][n];
  }
  auto& segments = Machine::segments(instance);
  for (size_t i = 0; i < segments.size(); ++i)
    if (dropped_elements_[i]) segments[i] = {};
  Machine::dropped_datas(instance) = dropped_datas_;
  return made;
}

namespace {

// The header of the segment that begins at the offset; of several, the one that a run can pause at.
const Word* header_at(CompiledModule& module, uint32_t function, uint32_t code_offset, bool in_call) {
  module.translate_function(function);
  const FunctionCode& code = module.functions()[function];
  Recorder recorder;
  recorder.wanted_code_offset = code_offset;
  std::vector<Word> again;
  translate(module.module(), function, module.functions(), again, {&recorder, 1});
  const Word* const words = code.code.load(std::memory_order_acquire);
  for (const uint32_t header : recorder.headers)
    if (in_call || words[header].header.cost != 0) return words + header;
  return recorder.headers.empty() ? nullptr : words + recorder.headers.front();
}

}  // namespace

Status Snapshot::resume_in(Execution& run, Instance& instance) const {
  FunctionInstance* const entry = instance.function(entry_);
  std::vector<Value> arguments;
  for (const ValType type : entry->type->params) arguments.push_back(Value::null(type));
  MEMBRANE_TRY(run.start(entry, arguments));
  MachineState& m = Machine::state(run);
  const auto too_deep = [] {
    return fail(ErrorCode::kExhausted, "the snapshot's stack is beyond the stack limits",
                "Raise the stack limits to what they were when it was frozen.");
  };
  if (m.state != RunState::kReady) return too_deep();
  FrameRecord* const records = Machine::frames(run);
  uint64_t* fp = Machine::slots(run);
  uint64_t* caller_fp = fp;
  const Word* at = kExitStub;  // where the frame below goes on
  for (size_t i = 0; i < frames_.size(); ++i) {
    const Frame& frame = frames_[i];
    const FunctionCode& code = module_->functions()[frame.function];
    if (fp + code.frame_slots > m.stack_end || records + i >= m.frames_end) return too_deep();
    records[i] = {at, i == 0 ? fp : caller_fp, &code, nullptr};
    const bool in_call = i + 1 < frames_.size() || host_call_ != UINT32_MAX;
    at = header_at(*module_, frame.function, frame.code_offset, in_call);
    if (at == nullptr) return damaged("a frame stands at no safepoint");
    MEMBRANE_TRY(place_slots(frame, instance, i + 1 == frames_.size(), fp, m.stack_end));
    caller_fp = fp;
    if (i + 1 < frames_.size()) fp += frame.slots.size();
  }
  m.top = records + frames_.size() - 1;
  m.fp = fp;
  m.ip = at;
  m.where = Where::kInterpreter;
  if (host_call_ != UINT32_MAX) {
    constexpr uint32_t kWordsOfCall = 3;
    m.ip = at - kWordsOfCall;
    m.callee = instance.function(host_call_);
    m.at_call = true;
  }
  m.state = RunState::kOutOfFuel;
  return {};
}

// References become addresses again; the types were looked at when the snapshot was read.
Status Snapshot::place_slots(const Frame& frame, Instance& instance, bool is_innermost, uint64_t* fp,
                             const uint64_t* end) const {
  if (fp + frame.slots.size() > end)
    return fail(ErrorCode::kExhausted, "the snapshot's stack is beyond the stack limits",
                "Raise the stack limits to what they were when it was frozen.");
  wasm::Standing standing;
  const wasm::Module& module = module_->module();
  const bool host = is_innermost && host_call_ != UINT32_MAX;
  auto types = *types_at(module, frame.function, frame.code_offset, !is_innermost || host, standing);
  if (host) {
    const auto& params = module.type_of_function(host_call_).params;
    types.insert(types.end(), params.begin(), params.end());
  }
  size_t slot = 0;
  for (const ValType type : types) {
    for (uint32_t i = 0; i < wasm::slots_of(type); ++i, ++slot) fp[slot] = frame.slots[slot];
    if (type == ValType::kFuncRef && fp[slot - 1] != 0)
      fp[slot - 1] = reinterpret_cast<uint64_t>(instance.function(static_cast<uint32_t>(fp[slot - 1] - 1)));
  }
  return {};
}

}  // namespace membrane::engine
