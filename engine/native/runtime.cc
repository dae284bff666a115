#include "engine/native/runtime.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <shared_mutex>

#include "engine/code/fuel.h"
#include "engine/code/numeric.h"
#include "engine/code/translate.h"
#include "engine/instance/machine.h"
#include "engine/interpreter/bulk.h"
#include "engine/interpreter/interpreter.h"
#include "engine/memory/fault.h"
#include "engine/native/assembler.h"
#include "wasm/body.h"
#include "wasm/opcode.h"

namespace membrane::engine::native {
namespace {

#define STATE(member) (Mem{r14, static_cast<int32_t>(offsetof(NativeState, member))})

// -- stubs ---------------------------------------------------------------------------------------

// The ways in and out of compiled code: made once for the process.
struct Stubs {
  CodeBlock block;
  void (*enter)(NativeState*) = nullptr;
  const void* exit_fuel = nullptr;
  const void* exit_call = nullptr;
  const void* exit_instance = nullptr;
  const void* exit_helper = nullptr;
  const void* exit_overflow = nullptr;
  const void* exit_fault = nullptr;
  const void* returned = nullptr;
  const void* exit_trap[kTrapKinds] = {};

  static const Stubs& instance() {
    static const Stubs* const stubs = new Stubs;
    return *stubs;
  }

  Stubs() {
    std::vector<uint8_t> code;
    Assembler a(code);
    const uint32_t save = write_save(a);
    const uint32_t enter_at = write_enter(a);
    const auto leave = [&](Exit exit, bool has_pc, uint32_t more = 0) {
      a.ensure(Assembler::kRoom);
      const uint32_t at = a.here();
      if (has_pc) a.pop(STATE(pc));
      a.mov_imm(Width::k64, STATE(exit), static_cast<int32_t>(static_cast<uint32_t>(exit) + more));
      a.jmp(save);
      return at;
    };
    const uint32_t fuel = leave(Exit::kFuel, true), call = leave(Exit::kCall, false);
    const uint32_t other = leave(Exit::kInstance, false), helper = leave(Exit::kHelper, true);
    const uint32_t overflow = leave(Exit::kOverflow, true), fault = leave(Exit::kFault, false);
    const uint32_t back = leave(Exit::kReturned, false);
    uint32_t traps[kTrapKinds];
    for (uint32_t i = 0; i < kTrapKinds; ++i) traps[i] = leave(Exit::kTrap, true, i);

    block.~CodeBlock();
    new (&block) CodeBlock(publish({a.data(), a.here()}));
    const uint8_t* const base = block.code();
    if (base == nullptr) return;
    enter = reinterpret_cast<void (*)(NativeState*)>(reinterpret_cast<uintptr_t>(base + enter_at));
    exit_fuel = base + fuel;
    exit_call = base + call;
    exit_instance = base + other;
    exit_helper = base + helper;
    exit_overflow = base + overflow;
    exit_fault = base + fault;
    returned = base + back;
    for (uint32_t i = 0; i < kTrapKinds; ++i) exit_trap[i] = base + traps[i];
  }

  static Mem saved(Reg r) {
    return {r14, static_cast<int32_t>(offsetof(NativeState, registers) + size_t{8} * r)};
  }
  static Mem saved_real(Xmm x) {
    return {r14, static_cast<int32_t>(offsetof(NativeState, reals) + size_t{16} * x)};
  }
  static constexpr Reg kCalleeSaved[] = {rbp, rbx, r12, r13, r14, r15};

  // Saves all registers, and returns to whoever called enter().
  static uint32_t write_save(Assembler& a) {
    a.ensure(1024);
    const uint32_t at = a.here();
    for (uint8_t r = 0; r < 16; ++r)
      if (r != rsp && r != r14) a.mov(Width::k64, saved(static_cast<Reg>(r)), static_cast<Reg>(r));
    for (Xmm x = 0; x < 16; ++x) a.vstore16(saved_real(x), x);
    a.mov(Width::k64, STATE(rsp), rsp);
    a.mov(Width::k64, rsp, STATE(host_rsp));
    for (size_t i = std::size(kCalleeSaved); i-- > 0;) a.pop(kCalleeSaved[i]);
    a.ret();
    return at;
  }
  static uint32_t write_enter(Assembler& a) {
    a.ensure(1024);
    const uint32_t at = a.here();
    for (const Reg r : kCalleeSaved) a.push(r);
    a.mov(Width::k64, r14, rdi);
    a.mov(Width::k64, STATE(host_rsp), rsp);
    a.mov(Width::k64, rsp, STATE(rsp));
    for (Xmm x = 0; x < 16; ++x) a.vload16(x, saved_real(x));
    for (uint8_t r = 0; r < 16; ++r)
      if (r != rsp && r != r14) a.mov(Width::k64, static_cast<Reg>(r), saved(static_cast<Reg>(r)));
    a.jmp(STATE(pc));
    return at;
  }
};

// -- whose code is it ----------------------------------------------------------------------------------

struct Registry {
  std::shared_mutex mutex;
  std::map<const uint8_t*, const ModuleCode::Blob*> blobs;  // by their first byte
  static Registry& instance() {
    static Registry* const registry = new Registry;
    return *registry;
  }
};

}  // namespace

std::optional<CodeAddress> find_code(const void* pc) {
  Registry& registry = Registry::instance();
  const std::shared_lock lock(registry.mutex);
  const auto* const at = static_cast<const uint8_t*>(pc);
  auto next = registry.blobs.upper_bound(at);
  if (next == registry.blobs.begin()) return std::nullopt;
  const ModuleCode::Blob& blob = *std::prev(next)->second;
  const ModuleImage& image = blob.image;
  const auto offset = static_cast<size_t>(at - image.block.code());
  if (offset >= image.block.size()) return std::nullopt;
  const auto start = std::prev(std::upper_bound(image.starts.begin(), image.starts.end(), offset));
  const uint32_t function = image.indices[static_cast<size_t>(start - image.starts.begin())];
  return CodeAddress{&blob.module->function(function), static_cast<uint32_t>(offset - *start), blob.batch};
}

void watch(const CodeAddress& at, std::span<Watch> watches) {
  const FunctionCode& function = *at.function;
  Compiler compiler(*function.module);
  std::vector<BatchCall> calls;
  static_cast<void>(compiler.compile(function.index, at.batch ? &calls : nullptr, watches));
}

// Whether there is a try_table with clauses in the function's body.
static bool may_catch(const wasm::Module& module, uint32_t index) {
  wasm::BodyReader body(module.view(module.functions[index].code));
  while (body.next())
    if (body.instruction().op == wasm::Opcode::kTryTable && body.instruction().count != 0) return true;
  return false;
}

const CatchTable* ModuleCode::catches(const CodeAddress& at) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = catches_.try_emplace(at.function->index);
  if (is_new && may_catch(module_.module(), at.function->index)) {
    found->second = std::make_unique<CatchTable>();
    Compiler compiler(module_);
    std::vector<BatchCall> calls;
    static_cast<void>(
        compiler.compile(at.function->index, at.batch ? &calls : nullptr, {}, found->second.get()));
  }
  return found->second.get();
}

// -- the code of a module ----------------------------------------------------------------------------------

ModuleCode::ModuleCode(CompiledModule& module) : module_(module) {}

ModuleCode::~ModuleCode() {
  Registry& registry = Registry::instance();
  const std::unique_lock lock(registry.mutex);
  for (const auto& blob : blobs_) registry.blobs.erase(blob->image.block.code());
}

size_t ModuleCode::function_count() const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& blob : blobs_) count += blob->image.indices.size();
  return count;
}

size_t ModuleCode::code_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& blob : blobs_) bytes += blob->image.block.size();
  return bytes;
}

namespace {

bool code_can_run() { return machine_is_supported() && Stubs::instance().enter != nullptr; }

void set_code(FunctionCode& function, const uint8_t* code) {
  function.native_code.store(code, std::memory_order_release);
  function.native_entry.store(code, std::memory_order_release);
}

}  // namespace

// From now on compiled code may call any function of the module. False where no code can run.
bool ModuleCode::connect() {
  if (!code_can_run()) return false;
  if (connected_) return true;
  connected_ = true;
  for (size_t i = 0; i < module_.module().functions.size(); ++i)
    module_.function(static_cast<uint32_t>(i))
        .native_entry.store(Stubs::instance().exit_call, std::memory_order_release);
  return true;
}

const ModuleCode::Blob& ModuleCode::keep(ModuleImage image, bool batch) {
  blobs_.push_back(std::unique_ptr<Blob>(new Blob{std::move(image), &module_, batch}));
  const Blob& blob = *blobs_.back();
  Registry& registry = Registry::instance();
  const std::unique_lock lock(registry.mutex);
  registry.blobs.emplace(blob.image.block.code(), &blob);
  return blob;
}

void ModuleCode::add(ModuleImage image, bool batch) {
  const ModuleImage& made = keep(std::move(image), batch).image;
  for (size_t i = 0; i < made.starts.size(); ++i) {
    FunctionCode& function = module_.functions()[made.indices[i]];
    set_code(function, made.block.code() + made.starts[i]);
    function.entry.store(kNativeStub, std::memory_order_release);
  }
}

constexpr size_t kAlignment = 16;
constexpr size_t kUsualExpansion = 4;          // bytes of code for a byte of a body
constexpr size_t kMostCodeBytes = 256u << 20;  // of one module; what is beyond is interpreted

constexpr uint32_t kNoCode = UINT32_MAX;

std::optional<std::vector<FrameSlots>> ModuleCode::find(const CodeCache& cache) {
  const std::lock_guard lock(mutex_);
  if (!connect()) return std::nullopt;
  auto kept = cache.find(module_.module());
  if (!kept) return std::nullopt;
  auto frames = std::move(kept->frames);
  add(std::move(*kept), true);
  return frames;
}

bool ModuleCode::use(ModuleImage image) {
  const std::lock_guard lock(mutex_);
  if (!code_can_run()) return false;
  connected_ = true;
  used_ = &keep(std::move(image), true);
  return true;
}

bool ModuleCode::connect(FunctionCode& function) const {
  const auto& [block, starts, indices, frames] = used_->image;
  const uint32_t* const found = std::lower_bound(indices.begin(), indices.end(), function.index);
  const bool has_code = found != indices.end() && *found == function.index;
  if (has_code) set_code(function, block.code() + starts[static_cast<size_t>(found - indices.begin())]);
  else function.native_entry.store(Stubs::instance().exit_call, std::memory_order_release);
  return has_code;
}

void ModuleCode::each_without_code(const std::function<void(uint32_t)>& give) const {
  uint32_t next = module_.module().imported_function_count();
  for (const uint32_t index : used_->image.indices) {
    while (next < index) give(next++);
    next = index + 1;
  }
  while (next < module_.module().functions.size()) give(next++);
}

const ModuleImage* ModuleCode::whole() const {
  const std::lock_guard lock(mutex_);
  return blobs_.empty() || !blobs_.front()->batch ? nullptr : &blobs_.front()->image;
}

namespace {

size_t usual_code_bytes(const wasm::Module& module) {
  size_t bytes = 0;
  for (const wasm::Function& function : module.functions) bytes += function.code.size;
  return std::min(kMostCodeBytes, bytes * kUsualExpansion);
}

}  // namespace

ModuleCode::Batch::Batch(ModuleCode& code)
    : code_(code),
      compiler_(code.module_),
      writer_(usual_code_bytes(code.module_.module())),
      starts_(code.module_.module().functions.size(), kNoCode) {}

void ModuleCode::Batch::add(uint32_t function, const wasm::BodyNotes& notes) {
  const size_t known_calls = calls_.size();
  if (writer_.size() < kMostCodeBytes && writer_.align(kAlignment)) {
    const auto start = static_cast<uint32_t>(writer_.size());
    const std::span<const uint8_t> made = compiler_.compile(function, &calls_, {}, nullptr, &notes);
    if (!made.empty() && writer_.append(made)) {
      for (size_t k = known_calls; k < calls_.size(); ++k) calls_[k].displacement_end += start;
      starts_[function] = start;
      image_starts_.push_back(start);
      indices_.push_back(function);
      return;
    }
    calls_.resize(known_calls);
  }
  left_.push_back(function);
}

bool ModuleCode::Batch::finish(const CodeCache* cache) {
  const std::lock_guard lock(code_.mutex_);
  if (!code_.connect() || !write_ways_out()) return false;
  for (const BatchCall& call : calls_) {
    const size_t value = call.wanted == BatchCall::Wanted::kCode
                             ? starts_[call.function] - call.displacement_end
                             : code_.module_.function(call.function).frame_slots * sizeof(uint64_t);
    writer_.put32(call.displacement_end - 4, static_cast<uint32_t>(value));
  }
  ModuleImage image{writer_.finish(), std::move(image_starts_), std::move(indices_), {}};
  if (image.block.code() == nullptr) return true;  // there is no function
  // A cache that cannot be written to is none.
  if (cache != nullptr && image.block.size() >= CodeCache::kLeastCodeBytes) {
    image.frames = code_.module_.frames();
    static_cast<void>(cache->keep(code_.module_.module(), image));
  }
  code_.add(std::move(image), true);
  return true;
}

// Direct calls of functions without code go to a piece of code that leaves. False when there is no room.
bool ModuleCode::Batch::write_ways_out() {
  for (const uint32_t function : left_) {
    std::vector<uint8_t> bytes;
    Assembler a(bytes);
    a.mov(Width::k64, rax, STATE(functions));
    a.op(Alu::kAdd, Width::k64, rax, static_cast<int32_t>(function * sizeof(FunctionCode)));
    a.jmp(Mem{rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
    starts_[function] = static_cast<uint32_t>(writer_.size());
    if (!writer_.append({a.data(), a.here()})) return false;
  }
  return true;
}

bool ModuleCode::compile_function(uint32_t index) {
  const std::lock_guard lock(mutex_);
  FunctionCode& function = module_.function(index);
  if (function.native_code.load(std::memory_order_acquire) != nullptr) return true;
  if (refused_.contains(index) || !connect()) return false;
  if (!compiler_) compiler_ = std::make_unique<Compiler>(module_);
  const std::span<const uint8_t> made = compiler_->compile(index, nullptr);
  CodeWriter code(made.size());
  if (made.empty() || !code.append(made)) {
    refused_.insert(index);
    return false;
  }
  add({code.finish(), std::vector<uint32_t>{0}, std::vector<uint32_t>{index}, {}}, false);
  return true;
}

// -- stacks ----------------------------------------------------------------------------------------------------

namespace {
constexpr size_t kSignalBytes = 256u << 10;  // below the return addresses: a signal's handler runs there
constexpr size_t kPageBytes = 4096;
}  // namespace

NativeStack::NativeStack(uint32_t call_depth) {
  const size_t words = (uint64_t{call_depth} + 8) * sizeof(uint64_t);
  bytes = (kSignalBytes + words + kPageBytes - 1) & ~(kPageBytes - 1);
  void* const got =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return;
  memory = got;
  const Stubs& stubs = Stubs::instance();
  state.exit_fuel = stubs.exit_fuel;
  state.exit_instance = stubs.exit_instance;
  state.exit_helper = stubs.exit_helper;
  state.exit_overflow = stubs.exit_overflow;
  std::copy(std::begin(stubs.exit_trap), std::end(stubs.exit_trap), std::begin(state.exit_trap));
  const auto of = [](Real r, uint64_t f32, uint64_t f64) { return Constant{r == Real::kF32 ? f32 : f64}; };
  for (const Real r : {Real::kF32, Real::kF64}) {
    const auto i = static_cast<size_t>(r);
    state.canonical_nan[i] = of(r, numeric::kCanonicalNan32, numeric::kCanonicalNan64);
    state.sign_bit[i] = of(r, 0x80000000u, 0x8000000000000000u);
    state.magnitude[i] = of(r, 0x7FFFFFFFu, 0x7FFFFFFFFFFFFFFFu);
  }
  std::copy(std::begin(kVectorConstants), std::end(kVectorConstants), std::begin(state.vector_constants));
  state.top = reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(memory) + bytes) - 2;
  state.depth_end = state.top - call_depth;
}

NativeStack::~NativeStack() {
  if (memory != nullptr) munmap(memory, bytes);
}

void NativeStack::give_back(size_t kept) {
  if (kept < bytes) madvise(memory, (bytes - kept) & ~(kPageBytes - 1), MADV_DONTNEED);
}

const void* return_to_interpreter() { return Stubs::instance().returned; }

namespace {

class RunningCode final : public GuestCode {
 public:
  explicit RunningCode(Run& run) : run_(run) {}

  // Makes the thread leave compiled code, by registers that it goes on with.
  bool take_fault([[maybe_unused]] const void* address, [[maybe_unused]] void* context) override {
#if MEMBRANE_GUARD_PAGES && defined(__x86_64__)
    greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const auto* const pc = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
    MachineState& m = Machine::state(run_);
    if (!in_arena(pc) || !Machine::reserves(m.instance, address)) return false;
    m.native->pc = pc;
    registers[REG_RIP] = reinterpret_cast<greg_t>(Stubs::instance().exit_fault);
    return true;
#else
    return false;  // no compiled code runs here, or none that faults
#endif
  }

 private:
  [[maybe_unused]] Run& run_;
};

}  // namespace

// -- running ------------------------------------------------------------------------------------------------------

namespace {

// -- what is worth compiling --
//
// The interpreter samples who uses its fuel (kSampleFuel). That finds loops, and too late functions that are short
// and many; but around each of them that is compiled, a run crosses between compiled code and the interpreter, and
// a crossing costs as much as a hundred instructions. A function is compiled when its crossings have cost about as
// much as compiling it will: so neither is ever much more than the least that it could be.
constexpr uint32_t kLeastCrossings = 16;
constexpr uint32_t kBytesForCrossing = 8;  // of a body, which are compiled in the time of a crossing

uint32_t worthwhile_crossings(const FunctionCode& f) {
  return kLeastCrossings + f.module->module().functions[f.index].code.size / kBytesForCrossing;
}

// Counts a crossing into the interpreted code of `f`: whether those since the last such answer have added up.
bool adds_up(const FunctionCode& f) {
  if (f.module->tier() != Tier::kAuto) return false;
  const uint32_t count = f.crossings.load(std::memory_order_relaxed) + 1;
  f.crossings.store(count, std::memory_order_relaxed);
  return count % worthwhile_crossings(f) == 0;
}

bool compile(const FunctionCode& f) { return f.module->native_code().compile_function(f.index); }

// Whether a function that compiled code calls need not be interpreted.
bool has_code(const FunctionCode& f) {
  return f.native_code.load(std::memory_order_acquire) != nullptr || (adds_up(f) && compile(f));
}

// One visit to compiled code.
class Visit {
 public:
  explicit Visit(Run& ex) : ex_(ex), m_(Machine::state(ex)), n_(*m_.native), frames_(Machine::frames(ex)) {}

  void run();

 private:
  [[nodiscard]] uint64_t* frame() const { return reinterpret_cast<uint64_t*>(n_.registers[rbp]); }
  void set_frame(uint64_t* fp) { n_.registers[rbp] = reinterpret_cast<uint64_t>(fp); }
  // Of the frame whose return address rsp stands at; -1 behind the return of the outermost.
  [[nodiscard]] ptrdiff_t depth() const { return n_.top - n_.rsp; }
  // Whether the frame's caller is the interpreter, whose record it then has.
  [[nodiscard]] bool has_record() const {
    return *n_.rsp == reinterpret_cast<uint64_t>(return_to_interpreter());
  }
  void bind();
  void enter_callee();
  bool go_on();  // false: whatever comes next is not for compiled code
  void after_fuel();
  bool cover(uint64_t price, Charge charge);
  void take_return_address();
  void enter_interpreter(FrameRecord* record);
  void lend_slice();
  void withhold_slice();
  void call_interpreter(const FunctionCode& callee);
  void call_instance(FunctionInstance& target);
  void tail_call(FunctionInstance& target, uint64_t* arguments);
  void tail_call_host(FunctionInstance& target, uint64_t* arguments);
  void call_host(FunctionInstance& target);
  void return_to_caller(uint64_t* results);
  void returned();
  void helper();
  void trap(TrapKind kind);
  void overflow_in_caller();
  void stop(RunState state) { m_.state = state; }

  // -- helpers' work
  static constexpr uint32_t kNoTable = UINT32_MAX;
  [[nodiscard]] bool is_wide(uint32_t table) const { return Machine::table(*m_.instance, table)->is_64; }
  // An index of a table as 32 bits that are in bounds if and only if it was.
  [[nodiscard]] uint64_t clamped(uint64_t slot, uint32_t table) const {
    return table != kNoTable && is_wide(table) ? std::min<uint64_t>(slot, UINT32_MAX) : slot;
  }
  bool pay(const HelperCall& call, uint64_t price);
  void convert(wasm::Opcode op, uint64_t& slot);
  void access_table(const HelperCall& call, uint64_t* slots);
  void grow(const HelperCall& call, uint64_t* slots);
  void throw_tag(const HelperCall& call, const uint64_t* slots);
  void throw_reference(const HelperCall& call, uint64_t reference);
  void raise(const HelperCall& call);
  void bulk(const HelperCall& call, const BulkWork& work, TrapKind out_of_bounds);

  Run& ex_;
  MachineState& m_;
  NativeState& n_;
  FrameRecord* const frames_;
};

void Visit::bind() {
  Instance& instance = *m_.instance;
  n_.home = Machine::home(instance);
  n_.functions = instance.compiled().functions();
  n_.globals = Machine::globals(instance);
  n_.memories = Machine::memories(instance).data();
  n_.tables = Machine::tables(instance).data();
  n_.types = Machine::types(instance);
  n_.imports = Machine::imports(instance).data();
  n_.own_functions = Machine::own_functions(instance);
  n_.stack_end = m_.stack_end;
  n_.registers[rbx] = reinterpret_cast<uint64_t>(Machine::memory_base(instance));
}

// The interpreter has made the record of a compiled function's frame.
void Visit::enter_callee() {
  const size_t depth = static_cast<size_t>(m_.top - frames_);
  n_.rsp = n_.top - depth;
  // Behind a tail call from a frame that compiled code has called, its return address stands there already.
  if (m_.top->return_ip != kReturnToNativeStub) *n_.rsp = reinterpret_cast<uint64_t>(return_to_interpreter());
  set_frame(m_.fp);
  n_.pc = m_.top->function->native_code.load(std::memory_order_acquire);
}

void Visit::run() {
  bind();
  if (m_.where == Where::kNativeCall) enter_callee();
  if (m_.where == Where::kNativeReturn) {
    n_.rsp = n_.top - (m_.top - frames_ + 1);  // the record of the frame that returned is gone already
    return_to_caller(m_.fp);
    set_frame(m_.fp);
  }
  m_.where = Where::kNative;
  m_.state = RunState::kReady;
  lend_slice();
  const RunningCode scope(ex_);
  do {
    n_.registers[r15] = static_cast<uint64_t>(m_.fuel);
    Stubs::instance().enter(&n_);
    m_.fuel = static_cast<int64_t>(n_.registers[r15]);
  } while (go_on());
  withhold_slice();
}

// Compiled code runs up to the next poll: notes what the interpreter has left of its sample, and adds the slices to
// come.
void Visit::lend_slice() {
  if (m_.sample_fuel != 0) m_.sample_fuel = std::max<uint64_t>(1, static_cast<uint64_t>(m_.fuel));
  const uint64_t more = std::min(m_.fuel_until_poll, m_.fuel_reserve);
  m_.fuel += static_cast<int64_t>(more);
  m_.fuel_reserve -= more;
  m_.fuel_until_poll -= more;
}

// The interpreter goes on with its sample: otherwise functions that compiled code calls, each for a short while,
// would never be seen.
void Visit::withhold_slice() {
  if (m_.sample_fuel == 0) m_.sample_fuel = kSampleFuel;
  const uint64_t fuel = static_cast<uint64_t>(m_.fuel), kept = std::min(fuel, m_.sample_fuel);
  m_.fuel = static_cast<int64_t>(kept);
  m_.fuel_reserve += fuel - kept;
  m_.fuel_until_poll += fuel - kept;
}

bool Visit::go_on() {
  switch (static_cast<Exit>(n_.exit)) {
    case Exit::kFuel: after_fuel(); break;
    case Exit::kCall: call_interpreter(*reinterpret_cast<const FunctionCode*>(n_.registers[rax])); break;
    case Exit::kInstance: call_instance(*Machine::target(*m_.instance, n_.registers[rax])); break;
    case Exit::kReturned: returned(); break;
    case Exit::kHelper: helper(); break;
    case Exit::kOverflow: overflow_in_caller(); break;
    case Exit::kFault: trap(TrapKind::kMemoryOutOfBounds); break;
    default: trap(static_cast<TrapKind>(n_.exit - static_cast<uint64_t>(Exit::kTrap))); break;
  }
  return m_.state == RunState::kReady && m_.where == Where::kNative;
}

void Visit::trap(TrapKind kind) {
  m_.trap_kind = kind;
  stop(RunState::kTrapped);
}

void Visit::after_fuel() {
  const Charge charge = Charge::of_stub(n_.pc);
  m_.fuel += charge.cost();
  if (!cover(charge.cost(), charge)) return;
  m_.fuel -= charge.cost();
  n_.pc = charge.behind();
}

// Sees to it that the slice covers `price`; else pauses at the charge, whose cost is given back already.
bool Visit::cover(uint64_t price, Charge charge) {
  const bool interrupted = refill_slice(ex_, m_.fuel, price, Machine::limits(ex_).poll_interval_fuel);
  if (!interrupted && m_.fuel >= static_cast<int64_t>(price)) return true;
  n_.pc = charge.at;
  stop(interrupted ? RunState::kInterrupted : RunState::kOutOfFuel);
  return false;
}

// Goes on behind the call whose return address rsp stands at.
void Visit::take_return_address() {
  n_.pc = reinterpret_cast<const uint8_t*>(*n_.rsp);
  ++n_.rsp;
}

// rsp stands at the return address of a frame that cannot be made: the call is where it traps.
void Visit::overflow_in_caller() {
  take_return_address();
  trap(TrapKind::kStackOverflow);
}

void Visit::call_interpreter(const FunctionCode& callee) {
  if (has_code(callee)) {
    n_.pc = callee.native_code.load(std::memory_order_acquire);
    return;
  }
  FrameRecord* const record = frames_ + depth();
  if (frame() + callee.frame_slots > m_.stack_end || record >= m_.frames_end) return overflow_in_caller();
  if (has_record()) record->function = &callee;  // by a tail call
  else *record = {kReturnToNativeStub, frame(), &callee, nullptr};
  enter_interpreter(record);
}

// The record of the frame at rbp is made: the interpreter runs its function.
void Visit::enter_interpreter(FrameRecord* record) {
  const FunctionCode& callee = *record->function;
  m_.top = record;
  std::fill_n(frame() + callee.param_slots, callee.zero_slots, 0);
  m_.fp = frame();
  m_.ip = callee.entry.load(std::memory_order_acquire);
  m_.where = Where::kInterpreter;
}

// A call is over: goes on behind it, with the first result where compiled code looks for it.
void Visit::return_to_caller(uint64_t* results) {
  take_return_address();
  n_.registers[rax] = results[0];
  n_.reals[0][0] = results[0];
  n_.reals[0][1] = results + 1 < m_.stack_end ? results[1] : 0;  // of a vector
}

void Visit::call_host(FunctionInstance& target) {
  uint64_t* const slots = frame();
  if (slots + std::max(target.param_slots, target.result_slots) > m_.stack_end) return overflow_in_caller();
  HostCall call{ex_, m_.instance, {slots, target.param_slots}, {slots, target.result_slots}, {}};
  const HostAction action = (*target.host)(call);
  switch (action) {
    case HostAction::kTrap:
      m_.trap_message = std::move(call.trap_message);
      take_return_address();
      return trap(TrapKind::kHost);
    case HostAction::kOutOfFuel:  // the call is made again: registers and return address are as they were
      n_.pc = static_cast<const uint8_t*>(n_.exit_instance);
      return stop(RunState::kOutOfFuel);
    case HostAction::kExit: return stop(RunState::kExited);
    case HostAction::kContinue: return return_to_caller(slots);
    case HostAction::kInterrupt: return_to_caller(slots); return stop(RunState::kInterrupted);
  }
}

void Visit::call_instance(FunctionInstance& target) {
  if (target.code == nullptr) return call_host(target);
  if (target.instance == Machine::home(*m_.instance)) return call_interpreter(*target.code);
  FrameRecord* const crossing = frames_ + depth();
  const FunctionCode& callee = *target.code;
  static_cast<void>(has_code(callee));
  if (crossing + 1 >= m_.frames_end || frame() + callee.frame_slots > m_.stack_end)
    return overflow_in_caller();
  *crossing = {kReturnToNativeStub, frame(), nullptr, m_.instance};
  crossing[1] = {kCrossReturnStub, frame(), &callee, nullptr};
  m_.instance = target.instance;
  enter_interpreter(crossing + 1);
}

// The frame becomes that of a function that compiled code cannot jump to. pc is behind the call that left.
void Visit::tail_call(FunctionInstance& target, uint64_t* arguments) {
  if (target.code == nullptr) return tail_call_host(target, arguments);
  const FunctionCode& callee = *target.code;
  static_cast<void>(has_code(callee));
  FrameRecord* record = frames_ + depth();
  if (frame() + callee.frame_slots > m_.stack_end) return trap(TrapKind::kStackOverflow);
  if (!has_record()) *record = {kReturnToNativeStub, frame(), nullptr, nullptr};
  const bool crosses = target.instance != Machine::home(*m_.instance);
  if (crosses && record->return_ip != kCrossReturnStub) {  // as make_crossing() does
    if (record + 1 >= m_.frames_end) return trap(TrapKind::kStackOverflow);
    record[1] = {kCrossReturnStub, record->fp, nullptr, nullptr};
    record->function = nullptr;
    record->instance = m_.instance;
    ++record;
  }
  record->function = &callee;
  if (crosses) m_.instance = target.instance;
  std::memmove(frame(), arguments, callee.param_slots * sizeof(uint64_t));
  enter_interpreter(record);
}

// The host's results become those of the frame.
void Visit::tail_call_host(FunctionInstance& target, uint64_t* arguments) {
  if (arguments + std::max(target.param_slots, target.result_slots) > m_.stack_end)
    return trap(TrapKind::kStackOverflow);
  HostCall call{ex_, m_.instance, {arguments, target.param_slots}, {arguments, target.result_slots}, {}};
  m_.tail_host = &target;
  m_.tail_arguments = arguments;
  const HostAction action = (*target.host)(call);
  if (action != HostAction::kOutOfFuel) m_.tail_host = nullptr;
  switch (action) {
    case HostAction::kTrap: m_.trap_message = std::move(call.trap_message); return trap(TrapKind::kHost);
    case HostAction::kOutOfFuel:  // the call is made again
      n_.pc -= kExitCallBytes;
      return stop(RunState::kOutOfFuel);
    case HostAction::kExit: return stop(RunState::kExited);
    case HostAction::kContinue:
    case HostAction::kInterrupt: break;
  }
  std::memmove(frame(), arguments, target.result_slots * sizeof(uint64_t));
  const bool to_interpreter = has_record();
  return_to_caller(frame());
  if (action == HostAction::kContinue) return;
  if (to_interpreter) returned();
  stop(RunState::kInterrupted);
}

// The frame that returned was called by the interpreter, whose record it has.
void Visit::returned() {
  const FrameRecord* const record = frames_ + depth() + 1;
  m_.ip = record->return_ip;
  m_.fp = record->fp;
  m_.top = frames_ + depth();
  m_.where = Where::kInterpreter;
  if (m_.ip->header.cost == 0) return;  // no function's code, and there may be no frame
  const FunctionCode* const function = m_.top->function;
  if (!adds_up(*function)) return;
  // The first time the function is compiled for its next calls. A frame that still returns to the interpreter so
  // often is in a loop, and goes on in compiled code itself.
  if (function->native_code.load(std::memory_order_acquire) != nullptr) m_.where = Where::kTierUp;
  else static_cast<void>(compile(*function));
}

// -- helpers --------------------------------------------------------------------------------------------------------

// Takes the price of a bulk operation, or pauses at the charge before it.
bool Visit::pay(const HelperCall& call, uint64_t price) {
  const Charge charge{n_.pc - call.distance};
  if (m_.fuel < static_cast<int64_t>(price) && !cover(price, charge)) {
    m_.fuel += charge.cost();
    return false;
  }
  m_.fuel -= static_cast<int64_t>(price);
  return true;
}

void Visit::helper() {
  using enum wasm::Opcode;
  HelperCall call;
  std::memcpy(&call, n_.pc, sizeof call);
  uint64_t* const slots = frame() + call.slot;
  const auto op = static_cast<wasm::Opcode>(call.helper);
  const uint8_t* const pc = n_.pc;
  const uint64_t indices = uint64_t{call.index} | uint64_t{call.index2} << 32;
  const auto in_memory = [&](const BulkWork& work) { bulk(call, work, TrapKind::kMemoryOutOfBounds); };
  const auto in_table = [&](const BulkWork& work) { bulk(call, work, TrapKind::kTableOutOfBounds); };
  switch (op) {
    case kMemorySize: slots[0] = Machine::memory(*m_.instance, call.index).pages(); break;
    case kMemoryGrow:
    case kTableGrow: grow(call, slots); break;
    case kMemoryFill: in_memory(memory_fill(*m_.instance, slots[0], slots[1], slots[2], indices)); break;
    case kMemoryCopy: in_memory(memory_copy(*m_.instance, slots[0], slots[1], slots[2], indices)); break;
    case kMemoryInit: in_memory(memory_init(*m_.instance, slots[0], slots[1], slots[2], indices)); break;
    case kTableFill:
      in_table(table_fill(*m_.instance, clamped(slots[0], call.index), clamped(slots[1], kNoTable),
                          clamped(slots[2], call.index), indices));
      break;
    case kTableCopy:
      in_table(table_copy(*m_.instance, clamped(slots[0], call.index), clamped(slots[1], call.index2),
                          clamped(slots[2], is_wide(call.index) ? call.index2 : call.index), indices));
      break;
    case kTableInit:
      in_table(table_init(*m_.instance, clamped(slots[0], call.index2), clamped(slots[1], kNoTable),
                          clamped(slots[2], kNoTable), indices));
      break;
    case kDataDrop: Machine::drop_data(*m_.instance, call.index); break;
    case kElemDrop: Machine::elements(*m_.instance, call.index) = {}; break;
    case kTableGet:
    case kTableSet:
    case kTableSize: access_table(call, slots); break;
    case kThrow: throw_tag(call, slots); break;
    case kThrowRef: throw_reference(call, slots[0]); break;
    case kReturnCall: tail_call(*Machine::function(*m_.instance, call.index), slots); break;
    case kReturnCallIndirect: tail_call(*Machine::target(*m_.instance, slots[call.index]), slots); break;
    case kCallIndirect: {
      const FunctionInstance* const target = Machine::target(*m_.instance, slots[0]);
      if (!is_subtype(target->type, Machine::type(*m_.instance, call.index)))
        trap(TrapKind::kIndirectCallTypeMismatch);
      break;
    }
    default: convert(op, slots[0]); break;
  }
  if (m_.state == RunState::kReady && n_.pc == pc) n_.pc += sizeof call;
}

void Visit::throw_tag(const HelperCall& call, const uint64_t* slots) {
  m_.throwing = {Machine::tag(*m_.instance, call.index), slots, 0, m_.throwing.looked_at};
  raise(call);
}

void Visit::throw_reference(const HelperCall& call, uint64_t reference) {
  const ExceptionArena::Exception* const exception = Machine::exceptions(*m_.instance).find(reference);
  if (exception == nullptr) return trap(TrapKind::kNullException);
  m_.throwing = {exception->tag, exception->payload(), reference, m_.throwing.looked_at};
  raise(call);
}

void Visit::raise(const HelperCall& call) {
  const CatchSearch found = ex_.find_catch(static_cast<uint64_t>(m_.fuel) + m_.fuel_reserve);
  if (found.interrupted) {
    const Charge charge{n_.pc - call.distance};
    m_.fuel += charge.cost();
    n_.pc = charge.at;
    return stop(RunState::kInterrupted);
  }
  if (!pay(call, found.price)) return;
  if (found.clause == nullptr) {
    m_.trap_message = describe(m_.throwing);
    return trap(TrapKind::kUncaughtException);
  }
  if (ex_.enter_catch(found) == Caught::kNoRoom) return trap(TrapKind::kTooManyExceptions);
  bind();
}

void Visit::grow(const HelperCall& call, uint64_t* slots) {
  Instance& instance = *m_.instance;
  if (static_cast<wasm::Opcode>(call.helper) == wasm::Opcode::kMemoryGrow) {
    Memory& memory = Machine::memory(instance, call.index);
    const uint64_t pages = number(slots[0], memory.is_64());
    if (memory.can_grow(pages) && !pay(call, memory_grow_cost(pages))) return;
    slots[0] = number(static_cast<uint64_t>(memory.grow(pages)), memory.is_64());
    return;
  }
  Table& table = *Machine::table(instance, call.index);
  const auto count = static_cast<uint32_t>(clamped(slots[1], call.index));
  if (table.can_grow(count) && !pay(call, bulk_table_cost(count))) return;
  slots[0] = number(static_cast<uint64_t>(table.grow(count, slots[0])), table.is_64);
}

void Visit::bulk(const HelperCall& call, const BulkWork& work, TrapKind out_of_bounds) {
  if (!work.in_bounds) return trap(out_of_bounds);
  if (pay(call, work.price)) work.perform();
}

void Visit::access_table(const HelperCall& call, uint64_t* slots) {
  using enum wasm::Opcode;
  TableElements& elements = Machine::table(*m_.instance, call.index)->elements;
  const auto op = static_cast<wasm::Opcode>(call.helper);
  if (op == kTableSize) {
    slots[0] = elements.size();
    return;
  }
  const auto index = static_cast<uint32_t>(clamped(slots[0], call.index));
  if (index >= elements.size()) return trap(TrapKind::kTableOutOfBounds);
  if (op == kTableGet) slots[0] = elements[index];
  else elements.writable()[index] = slots[1];
}

float f32_of(uint64_t slot) { return std::bit_cast<float>(static_cast<uint32_t>(slot)); }
double f64_of(uint64_t slot) { return std::bit_cast<double>(slot); }

void Visit::convert(wasm::Opcode op, uint64_t& slot) {
  using enum wasm::Opcode;
  using numeric::trunc_sat;
  const auto checked = [&]<typename I>(I, auto x) {
    if (x != x) return trap(TrapKind::kInvalidConversion);
    if (!numeric::truncation_fits<I>(x)) return trap(TrapKind::kIntegerOverflow);
    slot = static_cast<uint64_t>(static_cast<I>(x));
  };
  const float f32 = f32_of(slot);
  const double f64 = f64_of(slot);
  switch (op) {
    case kF32ConvertI64U: slot = std::bit_cast<uint32_t>(static_cast<float>(slot)); break;
    case kF64ConvertI64U: slot = std::bit_cast<uint64_t>(static_cast<double>(slot)); break;
    case kI32TruncSatF32S: slot = static_cast<uint32_t>(trunc_sat<int32_t>(f32)); break;
    case kI32TruncSatF32U: slot = trunc_sat<uint32_t>(f32); break;
    case kI32TruncSatF64S: slot = static_cast<uint32_t>(trunc_sat<int32_t>(f64)); break;
    case kI32TruncSatF64U: slot = trunc_sat<uint32_t>(f64); break;
    case kI64TruncSatF32S: slot = static_cast<uint64_t>(trunc_sat<int64_t>(f32)); break;
    case kI64TruncSatF32U: slot = trunc_sat<uint64_t>(f32); break;
    case kI64TruncSatF64S: slot = static_cast<uint64_t>(trunc_sat<int64_t>(f64)); break;
    case kI64TruncSatF64U: slot = trunc_sat<uint64_t>(f64); break;
    case kI64TruncF32S: checked(int64_t{}, f32); break;
    case kI64TruncF32U: checked(uint64_t{}, f32); break;
    case kI64TruncF64S: checked(int64_t{}, f64); break;
    case kI64TruncF64U: checked(uint64_t{}, f64); break;
    default: trap(TrapKind::kUnreachable); break;
  }
}

}  // namespace

void run(Run& ex) { Visit(ex).run(); }

void resume_at(Run& ex, const FunctionCode& function, uint32_t pc, uint64_t* frame, size_t depth) {
  MachineState& m = Machine::state(ex);
  NativeState& n = *m.native;
  n.rsp = n.top - depth;
  n.registers[rbp] = reinterpret_cast<uint64_t>(frame);
  n.pc = function.native_code.load(std::memory_order_acquire) + pc;
  m.where = Where::kNative;
}

// -- from the interpreter to compiled code, in the middle of a function --------------------------------------

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

void tier_up(Run& ex) {
  MachineState& m = Machine::state(ex);
  m.where = Where::kInterpreter;
  const FunctionCode& function = *m.top->function;
  ModuleCode& code = function.module->native_code();
  if (!code.compile_function(function.index)) return;
  const auto entry = code.osr_entry(function, m.ip);
  if (!entry->charge) return;
  NativeState& n = *m.native;
  write_pending_slots(entry->pending, m.fp);
  load_registers(n, *entry->charge, m.fp);
  n.rsp = n.top - (m.top - Machine::frames(ex));
  // A caller in compiled code has left its return address there.
  if (m.top->return_ip != kReturnToNativeStub) *n.rsp = reinterpret_cast<uint64_t>(return_to_interpreter());
  n.registers[rbp] = reinterpret_cast<uint64_t>(m.fp);
  n.pc = entry->code + entry->charge->pc;
  m.where = Where::kNative;
}

}  // namespace membrane::engine::native
