#include "engine/execution/execution.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "engine/execution/backtrace.h"
#include "engine/execution/frame_states.h"
#include "engine/execution/unwind.h"
#include "engine/instance/machine.h"
#include "engine/interpreter/interpreter.h"
#include "engine/memory/fault.h"
#include "engine/native/runtime.h"
#include "wasm/type_relations.h"

namespace membrane::engine {

// -- guest stacks ---------------------------------------------------------------------------

namespace {

uint64_t whole_pages(uint64_t bytes) { return std::max<uint64_t>(4096, (bytes + 4095) & ~uint64_t{4095}); }

}  // namespace

// The values and the frame records of one Execution. The last ones used by a thread are kept for its
// next runs: for a tiny program, fresh memory would cost more than the run.
struct GuestStack {
  // Memory from the system, whose pages exist once they are touched.
  struct Pages {
    uint8_t* begin = nullptr;  // null: there is none
    uint64_t bytes;

    explicit Pages(uint64_t wanted) : bytes(wanted) {
      void* const memory =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory != MAP_FAILED) begin = static_cast<uint8_t*>(memory);
    }
    ~Pages() {
      if (begin != nullptr) munmap(begin, bytes);
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    // Gives the pages after the first `kept` bytes back.
    void keep(uint64_t kept) const {
      if (kept < bytes) madvise(begin + kept, bytes - kept, MADV_DONTNEED);
    }
  };

  Pages slot_pages, frame_pages;
  uint64_t* slots;
  uint64_t slot_bytes;
  FrameRecord* frames;
  uint32_t frame_count;
  std::unique_ptr<native::NativeStack> native;  // null until compiled code is called

  GuestStack(uint64_t bytes, uint32_t depth)
      : slot_pages(bytes),
        frame_pages(whole_pages(depth * sizeof(FrameRecord))),
        slots(reinterpret_cast<uint64_t*>(slot_pages.begin)),
        slot_bytes(bytes),
        frames(reinterpret_cast<FrameRecord*>(frame_pages.begin)),
        frame_count(depth) {}
  [[nodiscard]] bool usable() const { return slots != nullptr && frames != nullptr; }
};

namespace {

// Two, since a host function may call the program again.
thread_local std::array<std::unique_ptr<GuestStack>, 2> kept_stacks;

std::unique_ptr<GuestStack> take_stack(const ExecutionLimits& limits) {
  const uint64_t bytes = whole_pages(limits.stack_bytes);
  const uint32_t depth = limits.call_depth + 2;  // the entry's record and one that is never used
  for (std::unique_ptr<GuestStack>& kept : kept_stacks)
    if (kept && kept->slot_bytes == bytes && kept->frame_count == depth) return std::move(kept);
  return std::make_unique<GuestStack>(bytes, depth);
}

constexpr uint64_t kLargestKeptBytes = 4ull << 20;

void leave_stack(std::unique_ptr<GuestStack> stack, const ExecutionLimits& limits) {
  if (!stack || !stack->usable() || (!limits.keeps_stack && stack->slot_bytes > kLargestKeptBytes)) return;
  if (kept_stacks[0]) kept_stacks[1] = std::move(kept_stacks[0]);
  kept_stacks[0] = std::move(stack);
}

std::string signature_of(const std::vector<wasm::ValType>& types) {
  std::string out = "[";
  for (const wasm::ValType type : types)
    out += (out.size() > 1 ? " " : "") + std::string(wasm::name_of(type));
  return out + "]";
}

// A reference may be given for a parameter of a more general type. An embedder has no reference to a
// defined type except null.
bool argument_fits(const FunctionInstance& function, const Value& given, wasm::ValType wanted) {
  if (!wasm::is_ref(given.type) || !wasm::is_ref(wanted)) return given.type == wanted;
  if (given.bits == 0) return wasm::is_nullable(wanted);
  if (wasm::is_indexed(wanted) || wasm::is_indexed(given.type)) return false;
  const wasm::ValType type = wasm::nullable(given.type), wider = wasm::nullable(wanted);
  if (!wasm::abstract_matches(type, wider)) return false;
  // It is checked: a reference may have outlived its object.
  const bool is_extern = wider == wasm::ValType::kExternRef;
  if (!is_extern && !wasm::abstract_matches(wider, wasm::ValType::kAnyRef)) return true;
  const uint64_t any = is_extern ? any_of_extern(given.bits) : given.bits;
  if (is_i31(any)) return is_extern || wasm::abstract_matches(wasm::ValType::kI31Ref, wider);
  if (!is_object(any)) return is_extern || wider == wasm::ValType::kAnyRef;
  const Object* const object = function.instance == nullptr ? nullptr : function.instance->heap().find(any);
  if (object == nullptr) return false;
  return is_extern ||
         wasm::abstract_matches(object->type->kind == wasm::TypeKind::kStruct ? wasm::ValType::kStructRef
                                                                              : wasm::ValType::kArrayRef,
                                wider);
}

}  // namespace

void trim_kept_stack() {
  constexpr uint64_t kKeptBytes = 1ull << 20;  // of each part
  for (const std::unique_ptr<GuestStack>& kept : kept_stacks) {
    if (!kept) continue;
    kept->slot_pages.keep(kKeptBytes);
    kept->frame_pages.keep(kKeptBytes);
    if (kept->native) kept->native->give_back(kKeptBytes);
  }
}

// -- Execution ----------------------------------------------------------------------------------

Execution::Execution(ExecutionLimits limits) : Run(std::move(limits)) { install_fault_handler(); }

Execution::~Execution() { leave_stack(std::move(stack_), limits_); }

Status Execution::start(FunctionInstance* function, std::span<const Value> arguments) {
  const std::vector<wasm::ValType>& params = function->type->params;
  bool fits = params.size() == arguments.size();
  for (size_t i = 0; fits && i < params.size(); ++i) fits = argument_fits(*function, arguments[i], params[i]);
  if (!fits) {
    std::vector<wasm::ValType> given;
    for (const Value& v : arguments) given.push_back(v.type);
    return fail(ErrorCode::kInvalidArgument,
                "the function takes " + signature_of(params) + ", and was given " + signature_of(given),
                "Give it as many values as it takes, of those types.");
  }
  MEMBRANE_TRY(prepare(function));
  uint64_t* slot = stack_->slots;
  for (const Value& v : arguments) {
    *slot++ = v.bits;
    if (v.type == wasm::ValType::kV128) *slot++ = v.high_bits;
  }
  return {};
}

// Prepares everything of a call except its arguments.
Status Execution::prepare(FunctionInstance* function) {
  if (!stack_) stack_ = take_stack(limits_);
  if (!stack_->usable()) {
    stack_ = nullptr;
    return fail(ErrorCode::kExhausted, "the system has no memory left for the program's stack",
                "Run fewer sandboxes at once, or lower the stack limit.");
  }
  frames_ = stack_->frames;
  slots_ = stack_->slots;
  entry_ = function;
  results_.clear();
  trap_ = {};
  const int64_t fuel = machine_.fuel;  // of an earlier call stays for this one
  const uint64_t reserve = machine_.fuel_reserve;
  machine_ = MachineState{};
  machine_.fuel = fuel;
  machine_.fuel_reserve = reserve;
  machine_.fp = stack_->slots;
  machine_.stack_end = stack_->slots + stack_->slot_bytes / sizeof(uint64_t);
  machine_.frames_end = stack_->frames + stack_->frame_count - 1;
  if (function->param_slots + function->result_slots > stack_->slot_bytes / sizeof(uint64_t) / 2)
    return fail(ErrorCode::kExhausted,
                "the stack limit is too small for the function's arguments and results",
                "Raise the stack limit.");
  machine_.state = RunState::kReady;
  if (function->code == nullptr) return {};  // a host function: resume() calls it

  const FunctionCode& code = *function->code;
  machine_.instance = function->instance;
  function->instance->heap().enter(*this);
  for (Memory* const memory : Machine::memories(*function->instance)) memory->begin_run();
  machine_.top = stack_->frames;
  *machine_.top = {kExitStub, stack_->slots, &code, nullptr};
  machine_.ip = code.entry.load(std::memory_order_acquire);
  if (code.frame_slots > stack_->slot_bytes / sizeof(uint64_t) || limits_.call_depth == 0) {
    machine_.trap_kind = TrapKind::kStackOverflow;
    machine_.state = RunState::kTrapped;
    trap_ = {TrapKind::kStackOverflow, std::string(text_of(TrapKind::kStackOverflow)), {}};
    return {};
  }
  std::fill_n(stack_->slots + code.param_slots, code.zero_slots, 0);
  return {};
}

RunState Execution::resume() {
  switch (machine_.state) {
    case RunState::kFinished:
    case RunState::kTrapped:
    case RunState::kExited: return machine_.state;
    case RunState::kReady:
    case RunState::kOutOfFuel:
    case RunState::kInterrupted: break;
  }
  if (entry_->code == nullptr) return call_host_entry();
  is_running_ = true;
  do {
    if (machine_.where == Where::kInterpreter) interpret(*this);
    else if (!prepare_native()) break;
    else if (machine_.where == Where::kTierUp) native::tier_up(*this);
    else native::run(*this);
  } while (machine_.state == RunState::kReady);
  is_running_ = false;
  if (machine_.state == RunState::kFinished) take_results();
  if (machine_.state == RunState::kTrapped) fill_trap();
  return machine_.state;
}

// The stack of return addresses is made when compiled code is first called.
bool Execution::prepare_native() {
  if (machine_.native != nullptr) return true;
  if (!stack_->native) stack_->native = std::make_unique<native::NativeStack>(limits_.call_depth);
  if (stack_->native->usable()) {
    machine_.native = &stack_->native->state;
    return true;
  }
  stack_->native = nullptr;
  machine_.where = Where::kInterpreter;
  machine_.trap_kind = TrapKind::kHost;
  machine_.trap_message = "the system has no memory left for the program's stack";
  machine_.state = RunState::kTrapped;
  return false;
}

// An exported import: the host's function is the entry itself, and there is no calling instance.
RunState Execution::call_host_entry() {
  uint64_t* const slots = stack_->slots;
  HostCall call{*this, nullptr, {slots, entry_->param_slots}, {slots, entry_->result_slots}, {}};
  switch ((*entry_->host)(call)) {
    case HostAction::kContinue:
    case HostAction::kInterrupt:
      machine_.state = RunState::kFinished;
      take_results();
      break;
    case HostAction::kExit: machine_.state = RunState::kExited; break;
    case HostAction::kOutOfFuel: machine_.state = RunState::kOutOfFuel; break;
    case HostAction::kTrap:
      machine_.state = RunState::kTrapped;
      trap_ = {TrapKind::kHost, std::move(call.trap_message), {}};
      break;
  }
  return machine_.state;
}

void Execution::take_results() {
  const uint64_t* slot = stack_->slots;
  for (const wasm::ValType type : entry_->type->results) {
    Value v{type, *slot++, 0};
    if (slots_of(type) == 2) v.high_bits = *slot++;
    results_.push_back(v);
  }
}

CatchSearch Execution::find_catch(uint64_t most_fuel) { return engine::find_catch(*this, most_fuel); }
Caught Execution::enter_catch(const CatchSearch& found) { return engine::enter_catch(*this, found); }

void Execution::show_roots(Tracer& tracer, std::unique_ptr<RootCache>& cache) {
  for (const Value& value : results_) {
    const Instance* const instance = entry_->instance;
    tracer.show(traced_of(instance == nullptr ? RuntimeValType{value.type}
                                              : instance->compiled().runtime_type(value.type)),
                value.bits);
  }
  const bool has_frames = machine_.state == RunState::kReady || machine_.state == RunState::kOutOfFuel ||
                          machine_.state == RunState::kInterrupted;
  if (!has_frames || entry_ == nullptr || entry_->code == nullptr) return;
  if (cache == nullptr) cache = std::make_unique<KnownFrames>();
  each_frame_value(*this, static_cast<KnownFrames&>(*cache),
                   [&](const CompiledModule& module, wasm::ValType type, uint64_t bits) {
                     if (wasm::is_ref(type)) tracer.show(traced_of(module.runtime_type(type)), bits);
                   });
}

// Refunds the instructions of the trap's segment that were not executed, and notes the places.
void Execution::fill_trap() {
  trap_.kind = machine_.trap_kind;
  trap_.message = machine_.trap_message.empty() ? std::string(text_of(trap_.kind)) : machine_.trap_message;
  StopPlaces stopped = places_of(frame_stops(*this, kMaxBacktrace));
  trap_.backtrace = std::move(stopped.places);
  machine_.fuel += stopped.unspent;
}

std::vector<CodePlace> Execution::backtrace() {
  if (machine_.state == RunState::kTrapped) return trap_.backtrace;
  const bool paused = machine_.state == RunState::kOutOfFuel || machine_.state == RunState::kInterrupted ||
                      machine_.state == RunState::kReady || machine_.state == RunState::kExited;
  if (!paused || entry_ == nullptr || entry_->code == nullptr) return {};
  return places_of(frame_stops(*this, kMaxBacktrace)).places;
}

}  // namespace membrane::engine
