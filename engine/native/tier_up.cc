// On-stack replacement: from the interpreter to compiled code in the middle of a function.
//
// Threads: a ModuleCode's places are guarded by its mutex; the rest belongs to one Run.
#include <algorithm>
#include <mutex>

#include "engine/code/translate.h"
#include "engine/instance/machine.h"
#include "engine/interpreter/interpreter.h"
#include "engine/native/assembler.h"
#include "engine/native/runtime.h"

namespace membrane::engine::native {

namespace {

std::shared_ptr<const OsrEntry> make_osr_entry(const FunctionCode& function, const Word* header) {
  auto made = std::make_shared<OsrEntry>();
  made->code = function.native_code.load(std::memory_order_acquire);
  const auto code = find_code(made->code);
  if (!code) return made;
  Watch charge;
  charge.wanted_code_offset = header->header.code_offset;
  watch(*code, {&charge, 1});
  if (!charge.found) return made;
  made->charge = std::move(charge);
  Recorder recorder;
  recorder.wanted = static_cast<uint32_t>(header - function.code.load(std::memory_order_acquire));
  std::vector<Word> again;
  translate(*function.module, function.index, again, {&recorder, 1});
  made->pending = std::move(recorder.pending);
  return made;
}

// The interpreter leaves constants and names of locals out of their slots; compiled code may look there.
void write_pending_slots(std::span<const PendingSlot> pending, uint64_t* fp) {
  for (const PendingSlot& p : pending) fp[p.slot] = p.is_constant ? p.value : fp[p.value];
}

void load_registers(NativeState& n, const Watch& charge, const uint64_t* fp) {
  for (const Location& l : charge.locations) {
    if (l.kind == Location::Kind::kRegister) n.registers[l.register_number] = fp[l.slot];
    if (l.kind != Location::Kind::kReal) continue;
    n.reals[l.register_number][l.half] = fp[l.slot];
  }
}

}  // namespace

std::shared_ptr<const OsrEntry> ModuleCode::osr_entry(const FunctionCode& function, const Word* header) {
  constexpr size_t kMostPlaces = 1 << 12, kMostValues = 1 << 18;  // beyond, all are forgotten
  const std::pair key{function.index,
                      static_cast<uint32_t>(header - function.code.load(std::memory_order_acquire))};
  {
    const std::lock_guard lock(osr_mutex_);
    const auto found = osr_entries_.find(key);
    if (found != osr_entries_.end()) return found->second;
  }
  auto made = make_osr_entry(function, header);
  const size_t values = made->pending.size() + (made->charge ? made->charge->locations.size() : 0);
  const std::lock_guard lock(osr_mutex_);
  if (osr_entries_.size() >= kMostPlaces || values_of_osr_entries_ + values > kMostValues) {
    osr_entries_.clear();
    values_of_osr_entries_ = 0;
  }
  if (osr_entries_.emplace(key, made).second) values_of_osr_entries_ += values;
  return made;
}

void tier_up(Run& run) {
  MachineState& m = Machine::state(run);
  m.where = Where::kInterpreter;
  const FunctionCode& function = *m.top->function;
  ModuleCode& code = function.module->native_code();
  if (!code.compile_function(function.index)) return;
  const auto entry = code.osr_entry(function, m.ip);
  if (!entry->charge) return;
  NativeState& n = *m.native;
  write_pending_slots(entry->pending, m.fp);
  load_registers(n, *entry->charge, m.fp);
  n.rsp = n.top - (m.top - Machine::frames(run));
  // A caller in compiled code has left its return address there.
  if (m.top->return_ip != kReturnToNativeStub) *n.rsp = reinterpret_cast<uint64_t>(return_to_interpreter());
  n.registers[rbp] = reinterpret_cast<uint64_t>(m.fp);
  n.pc = entry->code + entry->charge->pc;
  m.where = Where::kNative;
}

}  // namespace membrane::engine::native
