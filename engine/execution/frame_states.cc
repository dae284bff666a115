#include "engine/execution/frame_states.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "engine/code/numeric.h"
#include "engine/instance/machine.h"
#include "engine/interpreter/interpreter.h"
#include "engine/native/runtime.h"

namespace membrane::engine {

using wasm::ValType;

std::vector<ValType> locals_of(const wasm::Module& module, uint32_t index) {
  const wasm::Function& f = module.functions[index];
  std::vector<ValType> types = module.types[f.type].params;
  for (uint32_t i = 0; i < f.local_run_count; ++i) {
    const wasm::LocalRun& run = module.local_runs[f.first_local_run + i];
    types.insert(types.end(), run.count, run.type);
  }
  return types;
}

// The types of a frame's slots: locals, then operands.
std::vector<ValType> types_of(const wasm::Module& module, uint32_t function, const wasm::StackTypes& stack) {
  std::vector<ValType> types = locals_of(module, function);
  types.insert(types.end(), stack.operands.begin(), stack.operands.end());
  return types;
}

const wasm::FuncType* callee_type(const wasm::Module& module, const wasm::StackTypes& stack) {
  if (stack.before == wasm::Opcode::kCall) return &module.type_of_function(stack.before_index);
  if (stack.before == wasm::Opcode::kCallIndirect || stack.before == wasm::Opcode::kCallRef)
    return &module.types[stack.before_index];
  return nullptr;
}

void FramePlaces::find(uint64_t most_operands) {
  left_ = most_operands;
  for (auto at = places_.begin(); at != places_.end();) {
    const uint32_t function = std::get<0>(at->first);
    std::vector<uint32_t> offsets;
    std::vector<decltype(at)> wanted;
    for (; at != places_.end() && std::get<0>(at->first) == function; ++at) {
      if (std::exchange(at->second.looked_for, true)) continue;
      offsets.push_back(std::get<1>(at->first));
      wanted.push_back(at);
    }
    if (wanted.empty()) continue;
    wasm::stack_types_at(module_, function, offsets, [&](size_t i, const wasm::StackTypes& s) {
      return note(wanted[i]->second, std::get<2>(wanted[i]->first), s);
    });
  }
}

const wasm::StackTypes* FramePlaces::at(uint32_t function, uint32_t code_offset, bool waits) const {
  const Place& place = places_.at({function, code_offset, waits});
  return place.found ? &place.stack : nullptr;
}

bool FramePlaces::note(Place& place, bool waits, const wasm::StackTypes& stack) {
  size_t count = stack.operands.size();
  if (waits) {
    const wasm::FuncType* const callee = callee_type(module_, stack);
    if (callee == nullptr || callee->results.size() > count) return true;
    count -= callee->results.size();
  }
  if (count > left_) return false;
  left_ -= count;
  const auto end = stack.operands.begin() + static_cast<ptrdiff_t>(count);
  // Below a block in code that cannot be reached, a value may be of any type.
  const auto is_any = [](ValType type) { return type == ValType::kBottom || type == ValType::kBottomRef; };
  if (std::find_if(stack.operands.begin(), end, is_any) != end) return true;
  place.stack = {{stack.operands.begin(), end}, stack.before, stack.before_index};
  place.found = true;
  return true;
}

void remake(const FunctionCode& function, std::span<Recorder> recorders) {
  std::vector<Word> again;
  translate(*function.module, function.index, again, recorders);
}

std::vector<uint64_t> FrameState::slots(uint32_t count) const {
  std::vector<uint64_t> values(fp, fp + count);
  for (const auto& [slot, bits] : in_registers)
    if (slot < count) values[slot] = bits;
  for (const PendingSlot& p : pending)
    if (p.slot < count) values[p.slot] = p.is_constant ? p.value : values[p.value];
  return values;
}

namespace {

uint64_t canonical_bits(uint64_t bits, bool is_f32) {
  if (is_f32) {  // and what may be above it in a vector
    const auto lane = [](auto narrow) {
      return (narrow & 0x7FFFFFFFu) > 0x7F800000u ? numeric::kCanonicalNan32 : static_cast<uint32_t>(narrow);
    };
    return lane(static_cast<uint32_t>(bits)) | uint64_t{lane(static_cast<uint32_t>(bits >> 32))} << 32;
  }
  return (bits & 0x7FFFFFFFFFFFFFFFull) > 0x7FF0000000000000ull ? numeric::kCanonicalNan64 : bits;
}

// False for a frame at a stub, after which there is no place in its function.
bool is_begun(const FrameStop& stop) {
  return stop.function->code.load(std::memory_order_acquire) != nullptr && stop.at != kTranslateStub &&
         stop.at != kNativeStub && stop.at != kTailHostStub;
}

}  // namespace

struct KnownFrames::Parts {
  // Beyond this many places, or values in their frames, all are forgotten.
  static constexpr size_t kMostPlaces = 1 << 15, kMostValues = 1 << 21;

  std::map<Remade<Recorder>::Key, Recorder> interpreted;
  std::map<Remade<native::Watch>::Key, native::Watch> compiled;
  // Function, offset in its code, whether the frame waits; nothing where there can be no frame.
  using Place = std::tuple<const FunctionCode*, uint32_t, bool>;
  std::map<Place, std::optional<std::vector<ValType>>> types;
  size_t values = 0;

  void forget_too_many() {
    if (interpreted.size() + compiled.size() + types.size() <= kMostPlaces && values <= kMostValues) return;
    interpreted.clear();
    compiled.clear();
    types.clear();
    values = 0;
  }
};

KnownFrames::KnownFrames() : parts_(std::make_unique<Parts>()) {}
KnownFrames::~KnownFrames() = default;

// What is needed about stops, innermost first, to find where the values of their frames are.
struct RemadeStops {
  static constexpr uint32_t kLeft = UINT32_MAX;  // before a tail call: no place comes after it

  KnownFrames::Parts& known;
  std::vector<uint32_t> places;  // of each stop: the word or byte that it was looked for by; or kLeft
  bool at_call;                  // the innermost frame is before a call of the host

  RemadeStops(std::span<const FrameStop> stops, bool before_call, KnownFrames& frames)
      : known(*frames.parts_), at_call(before_call) {
    Remade<Recorder> interpreted;
    Remade<native::Watch> compiled;
    std::unordered_map<const FunctionCode*, native::CodeAddress> codes;
    for (const FrameStop& stop : stops) {
      places.push_back(0);
      if (stop.native_at != nullptr) {
        const auto code = native::find_code(stop.native_at);
        codes.emplace(stop.function, *code);
        places.back() = code->pc;
        if (!known.compiled.contains({stop.function, code->pc})) compiled.add(stop.function, code->pc);
      } else if (is_begun(stop)) {
        const Word* const code = stop.function->code.load(std::memory_order_acquire);
        const bool in_front = at_call && places.size() == 1;
        if (in_front && is_tail_call(stop.at->handler)) {
          places.back() = kLeft;
          continue;
        }
        places.back() = static_cast<uint32_t>(stop.at - code) + (in_front ? kWordsOfCall : 0);
        if (!known.interpreted.contains({stop.function, places.back()}))
          interpreted.add(stop.function, places.back());
      }
    }
    interpreted.find([](Recorder& recorder, uint32_t word) { recorder.wanted = word; }, remake);
    compiled.find([](native::Watch& watch, uint32_t pc) { watch.wanted_pc = pc; },
                  [&](const FunctionCode& function, std::span<native::Watch> watches) {
                    native::watch(codes.at(&function), watches);
                  });
    interpreted.each([this](const auto& key, Recorder& recorder) {
      known.values += recorder.pending.size();
      known.interpreted.emplace(key, std::move(recorder));
    });
    compiled.each([this](const auto& key, native::Watch& watch) {
      known.values += watch.locations.size();
      known.compiled.emplace(key, std::move(watch));
    });
  }
};

namespace {

FrameState interpreted_state(const FrameStop& stop, const RemadeStops& known, uint32_t word) {
  FrameState s;
  s.function = stop.function;
  s.fp = stop.fp;
  s.is_left = stop.at == kTailHostStub || word == RemadeStops::kLeft;
  if (s.is_left || !is_begun(stop)) return s;
  s.code_offset = stop.function->code.load(std::memory_order_acquire)[word].header.code_offset;
  s.pending = known.known.interpreted.at({stop.function, word}).pending;
  return s;
}

// `callee_fp`: where the frame above it begins. A frame that waits for a call, or has just returned from one, ends there.
FrameState compiled_state(const FrameStop& stop, const RemadeStops& known, uint32_t pc,
                          const uint64_t* callee_fp, const native::NativeState& n) {
  FrameState s;
  s.function = stop.function;
  const native::Watch& watch = known.known.compiled.at({stop.function, pc});
  s.is_left = watch.pc == 0;  // at no charge, and after no call
  s.code_offset = watch.behind_call ? watch.behind_offset : watch.code_offset;
  s.fp = watch.behind_call ? callee_fp - watch.frame_advance : callee_fp;
  for (const native::Location& l : watch.locations) {
    using Kind = native::Location::Kind;
    switch (l.kind) {
      case Kind::kRegister: s.in_registers.emplace_back(l.slot, n.registers[l.register_number]); break;
      case Kind::kReal: {
        const uint64_t bits = n.reals[l.register_number][l.half];
        s.in_registers.emplace_back(l.slot, l.maybe_nan ? canonical_bits(bits, l.is_f32) : bits);
        break;
      }
      case Kind::kConstant: s.pending.push_back({l.slot, true, l.value}); break;
      case Kind::kSlot: s.pending.push_back({l.slot, false, l.value}); break;
    }
  }
  return s;
}

}  // namespace

std::vector<FrameState> frame_states(Run& run, KnownFrames& frames) {
  frames.parts_->forget_too_many();
  const MachineState& m = Machine::state(run);
  const std::vector<FrameStop> stops = frame_stops(run, SIZE_MAX);
  const RemadeStops known(stops, m.at_call, frames);
  std::vector<FrameState> states;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].native_at == nullptr) {
      states.push_back(interpreted_state(stops[i], known, known.places[i]));
      continue;
    }
    const uint64_t* const above =
        i != 0 ? states.back().fp
               : reinterpret_cast<const uint64_t*>(m.native->registers[native::kFrameRegister]);
    states.push_back(compiled_state(stops[i], known, known.places[i], above, *m.native));
  }
  return states;
}

std::vector<FrameState> frame_states(Run& run) {
  KnownFrames frames;
  return frame_states(run, frames);
}

const FunctionInstance* awaited_host(Run& run) {
  const MachineState& m = Machine::state(run);
  if (m.at_call) return m.callee;
  if (m.tail_host != nullptr) return m.tail_host;
  if (m.where != Where::kNative || m.native->pc != m.native->exit_instance) return nullptr;
  return reinterpret_cast<const FunctionInstance*>(m.native->registers[native::kResultRegister]);
}

bool awaits_tail_call(Run& run) {
  const MachineState& m = Machine::state(run);
  return (m.at_call && is_tail_call(m.ip->handler)) || m.tail_host != nullptr;
}

const uint64_t* tail_call_arguments(Run& run) {
  const MachineState& m = Machine::state(run);
  return m.tail_host != nullptr ? m.tail_arguments : m.fp + m.ip[1].slots.a;
}

namespace {

// The types at those places of frames that are not known yet; each function's body is walked once.
void find_types(auto& known, const std::vector<FrameState>& states, const auto& place_of) {
  std::unordered_map<const CompiledModule*, FramePlaces> places;
  const auto is_new = [&](size_t i) { return !states[i].is_left && !known.types.contains(place_of(i)); };
  for (size_t i = 0; i < states.size(); ++i) {
    if (!is_new(i)) continue;
    const CompiledModule* const module = states[i].function->module;
    const auto& [function, offset, waits] = place_of(i);
    places.try_emplace(module, module->module()).first->second.add(function->index, offset, waits);
  }
  for (auto& [module, found] : places) found.find(UINT64_MAX);
  for (size_t i = 0; i < states.size(); ++i) {
    if (!is_new(i)) continue;
    const CompiledModule* const module = states[i].function->module;
    const auto place = place_of(i);
    const auto& [function, offset, waits] = place;
    const wasm::StackTypes* const stack = places.at(module).at(function->index, offset, waits);
    auto& types = known.types[place];
    if (stack == nullptr) continue;
    types = types_of(module->module(), function->index, *stack);
    known.values += types->size();
  }
}

}  // namespace

void each_frame_value(Run& run, KnownFrames& frames,
                      const std::function<void(const CompiledModule&, ValType, uint64_t)>& visit) {
  KnownFrames::Parts& known = *frames.parts_;
  const std::vector<FrameState> states = frame_states(run, frames);
  const FunctionInstance* const host = awaited_host(run);
  const auto place_of = [&](size_t i) -> KnownFrames::Parts::Place {
    return {states[i].function, states[i].code_offset, i != 0 || host != nullptr};
  };
  find_types(known, states, place_of);
  const auto show = [&](const CompiledModule& module, const std::vector<ValType>& types,
                        const uint64_t* slot) {
    for (const ValType type : types) {
      visit(module, type, *slot);
      slot += wasm::slots_of(type);
    }
  };
  for (size_t i = 0; i < states.size(); ++i) {
    // A frame that ends in a tail call has no place any more, and nothing that it uses again.
    if (states[i].is_left) continue;
    if (const auto& types = known.types.at(place_of(i)))
      show(*states[i].function->module, *types, states[i].slots(wasm::slots_of(*types)).data());
  }
  // The arguments of the host's function are above the operands; its types name no defined ones.
  const MachineState& m = Machine::state(run);
  if (m.tail_host != nullptr)
    return show(*states[0].function->module, m.tail_host->type->params, m.tail_arguments);
  if (host == nullptr || states.empty()) return;
  const CompiledModule& module = *states[0].function->module;
  if (m.at_call) return show(module, host->type->params, m.fp + m.ip[1].slots.a);
  if (const auto& types = known.types.at(place_of(0)))
    show(module, host->type->params, states[0].fp + wasm::slots_of(*types));
}

}  // namespace membrane::engine
