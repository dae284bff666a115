#include "engine/native/compiler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "base/stop_scope.h"
#include "engine/fuel.h"
#include "engine/native/assembler.h"
#include "engine/native/state.h"
#include "engine/native/value_stack.h"
#include "engine/native/vector_code.h"
#include "engine/wanted.h"
#include "wasm/body_walk.h"

namespace membrane::engine::native {
namespace {

using wasm::Instruction;
using wasm::Opcode;
using wasm::ValType;
using Float = Assembler::Float;
using Bits = Assembler::Bits;

constexpr uint32_t kNone = UINT32_MAX;
constexpr uint8_t kVectorPrefix = 0xFD;  // of vector instructions

// Bounds that keep compilation linear on hostile code. What is beyond them is the interpreter's.
constexpr size_t kMaxLocals = 4'000;
constexpr size_t kMaxUnsettled = 64;        // entries of the stack that are looked through
constexpr uint32_t kMaxPendingLocals = 32;  // of these, that name locals
constexpr uint32_t kFewValues =
    16;  // more are copied by a loop: code does not grow with what a branch carries
constexpr uint32_t kMaxCodeBytes = 1u << 20,
                   kMaxExpansion = 40;  // of a function, and for each byte of its body

// -- registers ---------------------------------------------------------------------------

constexpr Reg kFrame = rbp, kMemory = rbx, kFuelLeft = r15, kState = r14;
// Locals are pinned to these in order of their weight; what is left over serves operands.
constexpr std::array<Reg, 7> kPinnable = {rdi, r8, r9, r10, r11, r12, r13};
constexpr uint32_t kOperandRegisters = 1u << rax | 1u << rcx | 1u << rdx | 1u << rsi;
constexpr uint32_t kFirstPinnableReal = 6, kPinnableReals = 10;
constexpr Xmm kScratch =
    15;  // of functions that use vectors: never holds a value from one instruction to the next
constexpr uint32_t kMaxPins = kPinnable.size() + kPinnableReals;
constexpr uint8_t kUnpinned = 0xFF;

#define STATE(member) (Mem{kState, static_cast<int32_t>(offsetof(NativeState, member))})

// Of the pinned locals, a bit each.
struct Pins {
  uint32_t valid = 0;  // the register holds the value
  uint32_t dirty = 0;  // and the slot does not
  uint32_t nan = 0;    // and its NaN is not canonical
  uint32_t f32 = 0;    // of vectors: and has 32 bits
};

struct Local {
  uint16_t slot;
  uint8_t pin;  // index, or kUnpinned
  Bank bank;
  bool is_f32;
  [[nodiscard]] bool real() const { return bank != Bank::kInteger; }
};

struct Pin {
  uint16_t slot;
  uint8_t number;  // of the register
  Bank bank;
  bool is_f32;
  [[nodiscard]] bool real() const { return bank != Bank::kInteger; }
};

// What the compiler knows of an open block besides.
struct Label : wasm::BlockLabel {
  bool has_pins = false;
  Pins pins;                // as every way that arrives must have them
  uint32_t target = kNone;  // kLoop: where branches go
  Patch fixups = kNone;     // chain of displacements that wait for the end
  Patch else_fixup = kNone;
  Pins else_pins;            // kIf: at the test
  uint32_t catches = kNone;  // chain of the clauses that wait for this label's end
};

// Code off the hot path, written behind the function's end.
struct Stub {
  enum class Kind : uint8_t { kFuel, kTrap, kOverflow, kCanonical, kCanonicalLanes } kind{};
  TrapKind trap{};
  bool is_f32 = false;
  uint8_t number = 0;
  Patch from = 0;
  uint32_t back = 0;
  uint32_t offset = 0;        // of the instruction it belongs to
  uint32_t cost_to_here = 0;  // of the segment
  uint32_t segment = 0;
};

// What a loop and those inside it do, of pins a bit each.
struct LoopUse {
  bool has_call = false;
  uint32_t used = 0, assigned = 0;
};

Bank bank_of(ValType t) {
  if (t == ValType::kV128) return Bank::kVector;
  return t == ValType::kF32 || t == ValType::kF64 ? Bank::kReal : Bank::kInteger;
}

// What the instruction has; what else stands in an Instruction is left from one before it.
uint32_t index_of(const Instruction& in) {
  return wasm::info(in.op).immediate == wasm::Immediate::kNone ? 0 : in.index;
}
uint32_t index2_of(const Instruction& in) {
  switch (wasm::info(in.op).immediate) {
    case wasm::Immediate::kMemoryCopy:
    case wasm::Immediate::kMemoryInit:
    case wasm::Immediate::kTableCopy:
    case wasm::Immediate::kTableInit: return in.index2;
    default: return 0;
  }
}

}  // namespace

// =============================================================================================

struct Compiler::Parts {
  explicit Parts(CompiledModule& m) : compiled(m), module(m.module()) {
    has_far_memories =
        module.memories.size() > 1 || (module.memories.size() == 1 && module.memories[0].type.limits.is_64);
  }

  CompiledModule& compiled;
  const wasm::Module& module;
  bool has_far_memories = false;  // see is_far()

  std::vector<uint8_t> buffer;
  Assembler a{buffer};
  uint32_t index = 0;
  const wasm::Function* function = nullptr;
  const wasm::FuncType* type = nullptr;
  const FunctionCode* code = nullptr;
  const uint8_t* body = nullptr;  // its bytes
  std::vector<BatchCall>* batch = nullptr;
  std::span<Watch> watches;
  Wanted<Watch> by_pc, by_offset;  // the same
  bool is_watched = false;         // there are some
  bool failed = false;

  std::vector<Local> locals;
  uint32_t locals_end = 0;
  std::array<Pin, kMaxPins> pins{};
  uint32_t pin_count = 0;
  std::vector<uint64_t> candidates;  // locals that may be pinned: weight, and how late they are used
  wasm::LocalUses own_uses;          // of functions that nobody has looked at
  std::vector<LoopUse> loops;

  ValueStack stack;
  size_t settled = 0;  // so many entries from the bottom are in their slots, or constants
  std::vector<Label> labels;
  wasm::BodyWalk<Parts, Label> walk{*this, labels};
  struct Way {
    uint64_t stamp = 0;
    uint32_t at = 0;
  };
  std::vector<Way> ways;  // of the br_table at hand, by depth: those with its stamp
  uint64_t way_stamp = 0;
  CatchTable catches;
  // Where a clause leads, and what is in registers there; by clause.
  struct Landing {
    bool returns = false;
    uint32_t target = 0;
    uint32_t pins = 0;
    friend bool operator==(const Landing&, const Landing&) = default;
  };
  std::vector<Landing> landings;
  std::vector<Stub> stubs;
  std::vector<Constant> constants;  // vectors that stand behind the code
  struct ConstantUse {
    Patch at;
    uint32_t constant;
  };
  std::vector<ConstantUse> constant_uses;
  uint32_t segment_count = 0;           // that have ended
  std::vector<uint32_t> segment_costs;  // theirs, for those who watch
  Pins now;
  uint32_t free_registers = 0, free_reals = 0;
  uint32_t pending_locals = 0;
  bool flags_on_top = false;  // whether the last entry is kFlags
  Patch charge = kNone;       // of the open segment: of its constant, once it is written
  uint32_t entry = 0;
  uint32_t instruction_code = 0;  // where the code of the instruction at hand begins
  uint64_t most_bytes = 0;        // of code

  // -- preparing -----------------------------------------------------------------------------

  bool prepare(uint32_t function_index, const wasm::LocalUses* uses) {
    index = function_index;
    function = &module.functions[index];
    type = &module.types[function->type];
    code = &compiled.function(index);
    body = module.view(function->code).data();
    locals.clear();
    locals_end = 0;
    const auto add = [this](ValType t, uint32_t count) {
      if (locals.size() + count > kMaxLocals) return false;
      for (uint32_t i = 0; i < count; ++i, locals_end += wasm::slots_of(t))
        locals.push_back({static_cast<uint16_t>(locals_end), kUnpinned, bank_of(t), t == ValType::kF32});
      return true;
    };
    for (const ValType t : type->params)
      if (!add(t, 1)) return false;
    for (uint32_t i = 0; i < function->local_run_count; ++i) {
      const wasm::LocalRun& run = module.local_runs[function->first_local_run + i];
      if (!add(run.type, run.count)) return false;
    }
    stubs.clear();
    constants.clear();
    constant_uses.clear();
    catches.boundaries.clear();
    catches.regions.clear();
    catches.clauses.clear();
    landings.clear();
    stack.start(locals_end);
    segment_count = 0;
    segment_costs.clear();
    settled = 0;
    now = {};
    pending_locals = 0;
    flags_on_top = failed = false;
    charge = kNone;
    if (uses == nullptr) {
      own_uses.look_at(module.view(function->code), static_cast<uint32_t>(locals.size()));
      uses = &own_uses;
    }
    choose_pins(*uses);
    return true;
  }

  // The locals that are used most, as many as there are registers; of these, what each loop does.
  void choose_pins(const wasm::LocalUses& uses) {
    free_registers = kOperandRegisters;
    free_reals = (1u << kFirstPinnableReal) - 1;
    pin_count = 0;
    uint32_t integers = 0, reals = 0;
    const uint32_t pinnable_reals = code->uses_vectors ? kPinnableReals - 1 : kPinnableReals;
    // Of locals that are used as much, the one that is used first.
    candidates.clear();
    for (uint32_t i = 0; i < uses.used().size(); ++i)
      if (const uint32_t weight = uses.weight(uses.used()[i]);
          weight > 1)  // a single use is not worth a register
        candidates.push_back(uint64_t{weight} << 32 | (UINT32_MAX - i));
    std::ranges::sort(candidates, std::greater());
    for (const uint64_t candidate : candidates) {
      Local& local = locals[uses.used()[UINT32_MAX - static_cast<uint32_t>(candidate)]];
      if (local.real() ? reals == pinnable_reals : integers == kPinnable.size()) continue;
      local.pin = static_cast<uint8_t>(pin_count);
      const auto number = local.real() ? static_cast<uint8_t>(kFirstPinnableReal + reals++)
                                       : static_cast<uint8_t>(kPinnable[integers++]);
      pins[pin_count++] = {local.slot, number, local.bank, local.is_f32};
    }
    for (uint32_t i = integers; i < kPinnable.size(); ++i) free_registers |= 1u << kPinnable[i];
    for (uint32_t i = reals; i < pinnable_reals; ++i) free_reals |= 1u << (kFirstPinnableReal + i);
    note_loops(uses);
  }
  void note_loops(const wasm::LocalUses& uses) {
    loops.clear();
    for (const wasm::LocalUses::Loop& loop : uses.loops()) loops.push_back({.has_call = loop.has_call});
    for (const wasm::LocalUses::Use& use : uses.uses()) {
      const uint8_t pin = locals[use.local].pin;
      if (pin == kUnpinned) continue;
      loops[use.loop].used |= 1u << pin;
      if (use.assigned) loops[use.loop].assigned |= 1u << pin;
    }
    for (size_t i = loops.size(); i-- > 0;) {  // inner loops come behind outer ones
      const uint32_t parent = uses.loops()[i].parent;
      if (parent == kNone) continue;
      LoopUse& outer = loops[parent];
      outer.used |= loops[i].used;
      outer.assigned |= loops[i].assigned;
      outer.has_call |= loops[i].has_call;
    }
  }

  // -- registers -------------------------------------------------------------------------------

  static uint32_t at_slot(uint32_t s) { return s * 8; }
  static Mem slot(uint32_t s) { return {kFrame, static_cast<int32_t>(s * 8)}; }
  uint32_t operand_registers = 0, operand_reals = 0;  // what alloc() may give

  void release(const Value& v) {
    if (v.kind != Value::Kind::kRegister) return;
    if (v.real()) free_reals |= (1u << v.number) & operand_reals;
    else free_registers |= (1u << v.number) & operand_registers;
  }

  // A free operand register, but none of `except`. An entry of the stack gives way when there is none.
  Reg alloc(uint32_t except = 0) {
    if ((free_registers & ~except) == 0) evict(false, except);
    const auto r = static_cast<Reg>(std::countr_zero(free_registers & ~except));
    free_registers &= ~(1u << r);
    return r;
  }
  Xmm alloc_real(uint32_t except = 0) {
    if ((free_reals & ~except) == 0) evict(true, except);
    const auto x = static_cast<Xmm>(std::countr_zero(free_reals & ~except));
    free_reals &= ~(1u << x);
    return x;
  }
  // The entry that is deepest is needed last.
  void evict(bool real, uint32_t except) {
    for (Value& v : unsettled())
      if (v.kind == Value::Kind::kRegister && v.real() == real && !((except >> v.number) & 1))
        return store_entry(v);
    failed = true;  // cannot happen: operands in hand are fewer than registers
    (real ? free_reals : free_registers) |= real ? operand_reals : operand_registers;
  }
  // Makes a particular register free for the caller, who then owns it.
  void take(Reg r) {
    if (!((free_registers >> r) & 1)) {
      for (Value& v : unsettled())
        if (v.kind == Value::Kind::kRegister && !v.real() && v.number == r) {
          store_entry(v);
          break;
        }
    }
    free_registers &= ~(1u << r);
  }

  // -- values ------------------------------------------------------------------------------------

  std::span<Value> unsettled() { return std::span(stack).subspan(settled); }
  uint32_t top_slot() const { return stack.next_slot(); }
  // A value of which the slot and the number are not yet known.
  static constexpr uint64_t head_of(Value v) { return std::bit_cast<std::array<uint64_t, 2>>(v)[0]; }
  MEMBRANE_INLINE void push(uint64_t head, uint64_t number, uint64_t constant) {
    constexpr unsigned kNumberAt = 8 * offsetof(Value, number), kSlotAt = 8 * offsetof(Value, slot);
    const ValueBytes bytes = {head | number << kNumberAt | uint64_t{top_slot()} << kSlotAt, constant};
    stack.push_back(std::bit_cast<Value>(bytes));
  }
  // The same value in another slot.
  void push(Value v) {
    v.slot = 0;
    if (v.kind == Value::Kind::kLocal) ++pending_locals;
    push(head_of(v), 0, v.constant);
  }
  void push_register(Reg r) {
    constexpr uint64_t kHead = head_of({.kind = Value::Kind::kRegister});
    push(kHead, r, 0);
  }
  void push_real(Xmm x, bool is_f32, bool maybe_nan, Bank bank = Bank::kReal) {
    constexpr uint64_t kHead = head_of({.kind = Value::Kind::kRegister});
    constexpr uint64_t kMaybeNan = head_of({.maybe_nan = true});
    push(kHead | type_bits(bank, is_f32) | (maybe_nan ? kMaybeNan : 0), x, 0);
  }
  void push_vector(Xmm x, Lanes nans) {
    push_real(x, nans == Lanes::kF32, nans != Lanes::kNone, Bank::kVector);
  }
  void push_flags(Cond c) {
    constexpr uint64_t kHead = head_of({.kind = Value::Kind::kFlags});
    push(kHead, static_cast<uint8_t>(c), 0);
    flags_on_top = true;
  }
  void push_constant(uint64_t constant, Bank bank = Bank::kInteger, bool is_f32 = false) {
    constexpr uint64_t kHead = head_of({.kind = Value::Kind::kConstant});
    push(kHead | type_bits(bank, is_f32), 0, constant);
  }
  void push_local(uint32_t local_index, const Local& local) {
    constexpr uint64_t kHead = head_of({.kind = Value::Kind::kLocal});
    ++pending_locals;
    push(kHead | type_bits(local.bank, local.is_f32), 0, local_index);
  }
  void push_slot(ValType t) { push(head_of({}) | type_bits(bank_of(t), t == ValType::kF32), 0, 0); }
  static uint64_t type_bits(Bank bank, bool is_f32) {
    constexpr uint64_t kF32 = head_of({.is_f32 = true});
    return uint64_t{static_cast<uint8_t>(bank)} << 8 * offsetof(Value, bank) | (is_f32 ? kF32 : 0);
  }
  void push_slots(std::span<const ValType> types) {
    for (const ValType t : types) push_slot(t);
  }
  Value pop() {
    const Value v = stack.back();
    stack.pop_back();
    settled = std::min(settled, stack.size());
    flags_on_top = false;  // only the last entry is kFlags
    if (v.kind == Value::Kind::kLocal) --pending_locals;
    return v;
  }
  void cut_stack(size_t height) {
    while (stack.size() > height) release(pop());
  }

  bool has_flags() const { return flags_on_top; }
  void settle_flags() {
    if (!has_flags()) return;
    Value v = pop();
    push_register(register_of(v));
  }

  void load_slots(Xmm to, uint32_t from, Bank bank) {
    if (bank == Bank::kVector) a.vload16(to, slot(from));
    else a.fload(Real::kF64, to, slot(from));
  }
  void store_slots(uint32_t to, Xmm from, Bank bank) {
    if (bank == Bank::kVector) a.vstore16(slot(to), from);
    else a.fstore(Real::kF64, slot(to), from);
  }

  // The register of a pinned local, loaded if need be.
  MEMBRANE_INLINE uint8_t pinned(uint8_t pin) {
    if (!((now.valid >> pin) & 1)) load_pin(pin);
    return pins[pin].number;
  }
  [[gnu::noinline]] void load_pin(uint8_t pin) {
    const Pin& p = pins[pin];
    a.ensure(Assembler::kRoom);
    if (p.real()) load_slots(p.number, p.slot, p.bank);
    else a.mov_from_slot(static_cast<Reg>(p.number), at_slot(p.slot));
    now.valid |= 1u << pin;
    now.dirty &= ~(1u << pin);
    now.nan &= ~(1u << pin);
  }

  // A register that holds the value, to be read. The caller releases `v`, which becomes kRegister unless a
  // pinned register is lent.
  MEMBRANE_INLINE Reg register_of(Value& v, uint32_t except = 0) {
    if (v.kind == Value::Kind::kRegister) return static_cast<Reg>(v.number);
    if (v.kind == Value::Kind::kLocal)
      if (const uint8_t pin = locals[v.local()].pin; pin != kUnpinned) return static_cast<Reg>(pinned(pin));
    return load_into_register(v, except);
  }
  [[gnu::noinline]] Reg load_into_register(Value& v, uint32_t except) {
    switch (v.kind) {
      case Value::Kind::kRegister: break;  // it is there
      case Value::Kind::kLocal: return load_from(v, locals[v.local()].slot, except);
      case Value::Kind::kSlot: return load_from(v, v.slot, except);
      case Value::Kind::kConstant: {
        const Reg r = alloc(except);
        a.mov_imm_keeping_flags(r, v.constant);
        v.kind = Value::Kind::kRegister;
        v.number = r;
        return r;
      }
      case Value::Kind::kFlags: {
        const Reg r = alloc(except);
        a.setcc(static_cast<Cond>(v.number), r);
        a.movzx8(r, r);
        v.kind = Value::Kind::kRegister;
        v.number = r;
        return r;
      }
    }
    return rax;
  }
  Reg load_from(Value& v, uint32_t from, uint32_t except) {
    const Reg r = alloc(except);
    a.mov_from_slot(r, at_slot(from));
    v.kind = Value::Kind::kRegister;
    v.number = r;
    return r;
  }
  Xmm real_of(Value& v, uint32_t except = 0) {
    switch (v.kind) {
      case Value::Kind::kRegister: return v.number;
      case Value::Kind::kLocal: {
        const Local& local = locals[v.local()];
        if (local.pin != kUnpinned) {
          const Xmm x = pinned(local.pin);
          v.maybe_nan = (now.nan >> local.pin) & 1;
          v.is_f32 = nan_is_f32(local.pin);
          return x;
        }
        return load_real_from(v, local.slot, except);
      }
      case Value::Kind::kSlot: return load_real_from(v, v.slot, except);
      default: break;
    }
    const Xmm x = alloc_real(except);
    if (v.bank == Bank::kVector) {
      load_constant(x, v.constant);
    } else if (v.constant == 0) {
      a.fbits(Bits::kXor, x, x, x);
    } else {
      const Reg r = alloc();
      a.mov_imm_keeping_flags(r, v.constant);
      a.fmov_from(Width::k64, x, r);
      free_registers |= 1u << r;
    }
    v.kind = Value::Kind::kRegister;
    v.number = x;
    v.maybe_nan = false;
    return x;
  }
  Xmm load_real_from(Value& v, uint32_t from, uint32_t except) {
    const Xmm x = alloc_real(except);
    load_slots(x, from, v.bank);
    v.kind = Value::Kind::kRegister;
    v.number = x;
    v.maybe_nan = false;
    return x;
  }
  // A register that may be overwritten with a result: the value's own when it is an operand register.
  bool is_operand_register(const Value& v) const {
    return v.kind == Value::Kind::kRegister &&
           (((v.real() ? operand_reals : operand_registers) >> v.number) & 1) != 0;
  }

  static Real kind_of(bool is_f32) { return is_f32 ? Real::kF32 : Real::kF64; }

  // Replaces a NaN in the register by the canonical one.
  void make_canonical(Xmm x, bool is_f32, Bank bank) {
    a.ensure(Assembler::kRoom);
    const bool is_vector = bank == Bank::kVector;
    if (is_vector) {
      a.avx(is_f32 ? Avx::kVcmpps : Avx::kVcmppd, kScratch, x, x, kUnordered);
      a.avx(Avx::kVptest, kScratch, 0, kScratch);
    } else {
      a.fcompare(kind_of(is_f32), x, x);
    }
    Stub stub = stub_here(is_vector ? Stub::Kind::kCanonicalLanes : Stub::Kind::kCanonical);
    stub.from = a.jcc(is_vector ? Cond::kNE : Cond::kP);
    stub.back = a.here();
    stub.number = x;
    stub.is_f32 = is_f32;
    stubs.push_back(stub);
  }
  static constexpr uint8_t kUnordered = 3;  // the predicate of a comparison
  bool nan_is_f32(uint32_t pin) const {
    return pins[pin].bank == Bank::kVector ? ((now.f32 >> pin) & 1) != 0 : pins[pin].is_f32;
  }
  void make_pin_canonical(uint32_t pin) {
    make_canonical(pins[pin].number, nan_is_f32(pin), pins[pin].bank);
    now.nan &= ~(1u << pin);
  }
  void settle_nan(Value& v) {  // v is in a register
    if (!v.real()) return;
    if (v.kind == Value::Kind::kLocal) {
      const uint8_t pin = locals[v.local()].pin;
      if (pin == kUnpinned || !((now.nan >> pin) & 1)) return;
      make_pin_canonical(pin);
    } else if (v.maybe_nan) {
      make_canonical(v.number, v.is_f32, v.bank);
    }
    v.maybe_nan = false;
  }

  // Writes the value to a slot.
  void store(Value& v, uint32_t to) {
    if (v.kind == Value::Kind::kConstant && v.bank == Bank::kVector) {
      load_constant(kScratch, v.constant);
      return a.vstore16(slot(to), kScratch);
    }
    switch (v.kind) {
      case Value::Kind::kConstant:
        if (static_cast<int64_t>(v.constant) == static_cast<int32_t>(v.constant))
          return a.mov_imm(Width::k64, slot(to), static_cast<int32_t>(v.constant));
        break;
      case Value::Kind::kSlot:
        if (v.slot == to) return;
        break;
      case Value::Kind::kRegister:
        if (v.in_slot && v.slot == to) return;
        break;
      default: break;
    }
    if (v.real() && v.kind != Value::Kind::kConstant) {
      const Xmm x = real_of(v);
      settle_nan(v);
      return store_slots(to, x, v.bank);
    }
    if (v.kind == Value::Kind::kConstant) {  // also of a float: it stays a constant for whoever has it
      const Reg r = alloc();
      a.mov_imm_keeping_flags(r, v.constant);
      a.mov_to_slot(at_slot(to), r);
      free_registers |= 1u << r;
      return;
    }
    a.mov_to_slot(at_slot(to), register_of(v));
  }
  // Writes an entry of the stack to its own slot, and gives its register back.
  void store_entry(Value& v) {
    if (v.kind == Value::Kind::kSlot) return;
    a.ensure(Assembler::kRoom);
    const bool was_local = v.kind == Value::Kind::kLocal;
    store(v, v.slot);
    release(v);
    if (was_local) --pending_locals;
    v.kind = Value::Kind::kSlot;
    v.in_slot = v.maybe_nan = false;
  }
  void settle_from(size_t first) {
    for (size_t i = std::max(first, settled); i < stack.size(); ++i) store_entry(stack[i]);
    if (first <= settled) settled = stack.size();
  }

  // Before a call: entries keep no registers. Names of locals and constants may stay.
  void settle_for_call(size_t first_argument) {
    for (size_t i = settled; i < stack.size(); ++i) {
      Value& v = stack[i];
      if (i >= first_argument || v.kind == Value::Kind::kRegister || v.kind == Value::Kind::kFlags)
        store_entry(v);
    }
    settle_pins();
  }
  void store_pin(uint32_t pin) {
    a.ensure(Assembler::kRoom);
    const Pin& p = pins[pin];
    if (p.real()) {
      if ((now.nan >> pin) & 1) make_pin_canonical(pin);
      store_slots(p.slot, p.number, p.bank);
    } else {
      a.mov_to_slot(at_slot(p.slot), static_cast<Reg>(p.number));
    }
    now.dirty &= ~(1u << pin);
    now.nan &= ~(1u << pin);
  }
  void settle_pins() {
    for (uint32_t left = now.dirty; left != 0; left &= left - 1)
      store_pin(static_cast<uint32_t>(std::countr_zero(left)));
    now = {};
  }

  // -- segments ------------------------------------------------------------------------------------

  void end_segment(uint32_t cost) {
    if (charge != kNone) a.put32(charge - 4, cost);
    if (is_watched) segment_costs.push_back(cost);
    ++segment_count;
    charge = kNone;
  }
  void begin_segment(uint32_t /*offset*/) {}  // see begin_cost()
  // The charge is written before the first instruction that costs something; those before do nothing.
  void begin_cost() {
    if (!kMetered) return;
    charge = a.sub_imm32(kFuelLeft);
    Stub stub = stub_here(Stub::Kind::kFuel);
    stub.from = a.jcc(Cond::kL);
    stub.back = a.here();
    stub.offset = walk.segment_offset();
    stubs.push_back(stub);
    if (!is_watched) return;
    const uint32_t pc = charge - Charge::kSubtractBytes - entry;
    const auto note = [&](Watch& w) {
      if (w.found) return;
      note_place(w, walk.segment_offset(), 0);
      w.pc = pc;
      note_locations(w);
    };
    by_offset.each_at(walk.segment_offset(), note);
    by_pc.each_at(pc, note);
  }
  Stub stub_here(Stub::Kind kind) const {
    Stub stub;
    stub.kind = kind;
    stub.offset = walk.offset();
    stub.cost_to_here = walk.cost();
    stub.segment = segment_count;
    return stub;
  }
  void note_place(Watch& w, uint32_t code_offset, uint32_t cost_to_here) const {
    w.found = true;
    w.code_offset = code_offset;
    w.cost_to_here = cost_to_here;
    w.segment = segment_count;
  }
  // A place that an exit's return address stands for.
  void note_exit() {
    by_pc.each_at(a.here() - entry, [this](Watch& w) { note_place(w, walk.offset(), walk.cost()); });
  }
  void note_locations(Watch& w) const {
    w.locations.clear();
    for (uint32_t pin = 0; pin < pin_count; ++pin)
      if ((now.valid >> pin) & 1) {
        Location l;
        l.kind = pins[pin].real() ? Location::Kind::kReal : Location::Kind::kRegister;
        l.maybe_nan = (now.nan >> pin) & 1;
        l.is_f32 = nan_is_f32(pin);
        l.register_number = pins[pin].number;
        l.slot = pins[pin].slot;
        note_location(w, l, pins[pin].bank, 0);
      }
    for (const Value& v : stack) {
      Location l;
      uint64_t high = 0;
      l.slot = v.slot;
      switch (v.kind) {
        case Value::Kind::kSlot:
        case Value::Kind::kFlags: continue;  // flags are never pending across a charge
        case Value::Kind::kRegister:
          l.kind = v.real() ? Location::Kind::kReal : Location::Kind::kRegister;
          l.maybe_nan = v.maybe_nan;
          l.is_f32 = v.is_f32;
          l.register_number = v.number;
          break;
        case Value::Kind::kConstant:
          l.kind = Location::Kind::kConstant;
          l.value = v.bank == Bank::kVector ? constants[v.constant].low : v.constant;
          if (v.bank == Bank::kVector) high = constants[v.constant].high;
          break;
        case Value::Kind::kLocal:
          l.kind = Location::Kind::kSlot;  // behind the pins: those are in their slots by then
          l.value = locals[v.local()].slot;
          high = l.value + 1;
          break;
      }
      note_location(w, l, v.bank, high);
    }
  }
  // A vector's slots one by one.
  static void note_location(Watch& w, Location l, Bank bank, uint64_t value_of_high) {
    w.locations.push_back(l);
    if (bank != Bank::kVector) return;
    ++l.slot;
    l.half = 1;
    l.value = value_of_high;
    w.locations.push_back(l);
  }

  void trap_if(Cond c, TrapKind kind) {
    Stub stub = stub_here(Stub::Kind::kTrap);
    stub.trap = kind;
    stub.from = a.jcc(c);
    stubs.push_back(stub);
  }
  static Mem trap_exit(TrapKind kind) {
    return {kState, static_cast<int32_t>(offsetof(NativeState, exit_trap) + 8 * static_cast<size_t>(kind))};
  }
  void trap(TrapKind kind) {
    a.call(trap_exit(kind));
    note_exit();
    a.int3();  // what follows is not taken for the place of the trap
  }

  void write_stubs() {
    for (const Stub& s : stubs) {
      a.ensure(Assembler::kRoom);
      a.patch_here(s.from);
      switch (s.kind) {
        case Stub::Kind::kFuel:
          a.call(STATE(exit_fuel));
          a.jmp(s.back);
          break;
        case Stub::Kind::kOverflow: a.call(STATE(exit_overflow)); break;
        case Stub::Kind::kCanonical:
          a.fload(kind_of(s.is_f32), s.number,
                  {kState, static_cast<int32_t>(offsetof(NativeState, canonical_nan) +
                                                sizeof(Constant) * static_cast<size_t>(kind_of(s.is_f32)))});
          a.jmp(s.back);
          break;
        case Stub::Kind::kCanonicalLanes:
          a.avx_blend(
              s.is_f32 ? Avx::kVblendvps : Avx::kVblendvpd, s.number, s.number,
              vector_constant(s.is_f32 ? VectorConstant::kCanonicalNans32 : VectorConstant::kCanonicalNans64),
              kScratch);
          a.jmp(s.back);
          break;
        case Stub::Kind::kTrap:
          a.call(trap_exit(s.trap));
          by_pc.each_at(a.here() - entry, [&](Watch& w) {
            note_place(w, s.offset, s.cost_to_here);
            w.segment = s.segment;
          });
          break;
      }
    }
  }

  // -- lookahead for destinations -------------------------------------------------------------------

  // The pinned local that the next instruction sets, when its register may be written already.
  const Pin* next_pin(Bank bank) const {
    // The body ends with `end`, which is none of these: where one stands, a byte follows.
    const uint8_t* const next = body + walk.next_offset();
    if ((next[0] != 0x21 && next[0] != 0x22) || next[1] >= 0x80) return nullptr;
    const uint8_t local = next[1];
    const uint8_t pin = locals[local].pin;
    if (pin == kUnpinned || pins[pin].bank != bank) return nullptr;
    if (pending_locals != 0)
      for (size_t i = settled; i < stack.size(); ++i)
        if (stack[i].kind == Value::Kind::kLocal && stack[i].local() == local) return nullptr;
    return &pins[pin];
  }
  static bool in_register(const Value* v, uint8_t number, const Parts& p) {
    if (v == nullptr) return false;
    if (v->kind == Value::Kind::kRegister) return v->number == number;
    if (v->kind != Value::Kind::kLocal) return false;
    const uint8_t pin = p.locals[v->local()].pin;
    return pin != kUnpinned && p.pins[pin].number == number;
  }
  // Where a result goes: the register of the local that takes it, else that of `a`, else a free one.
  // Never the register of `b`, which is read after the result is begun.
  Reg destination(const Value& first, const Value* second) {
    if (const Pin* const pin = next_pin(Bank::kInteger);
        pin != nullptr && !in_register(second, pin->number, *this))
      return static_cast<Reg>(pin->number);
    if (is_operand_register(first) && !first.real() && !in_register(second, first.number, *this))
      return static_cast<Reg>(first.number);
    return alloc();
  }
  Xmm destination_real(const Value& first, Bank bank = Bank::kReal) {
    if (const Pin* const pin = next_pin(bank)) return pin->number;  // three operands: no conflict
    if (is_operand_register(first) && first.real()) return first.number;
    return alloc_real();
  }
  void release_unless(const Value& v, uint8_t number) {
    if (v.kind == Value::Kind::kRegister && v.number == number) return;
    release(v);
  }

  // -- integers ----------------------------------------------------------------------------------------

  static bool fits(const Value& v, Width w, int32_t& out) {
    if (v.kind != Value::Kind::kConstant) return false;
    const auto value = w == Width::k32 ? static_cast<int64_t>(static_cast<int32_t>(v.constant))
                                       : static_cast<int64_t>(v.constant);
    out = static_cast<int32_t>(value);
    return value == out;
  }
  std::optional<Mem> memory_of(const Value& v) const {
    if (v.kind == Value::Kind::kSlot) return slot(v.slot);
    if (v.kind == Value::Kind::kLocal && locals[v.local()].pin == kUnpinned)
      return slot(locals[v.local()].slot);
    return std::nullopt;
  }

  // The operands of an operation whose second one may be a constant or in memory, and where its result goes.
  struct Operands {
    Value first, second;
    bool is_constant = false;
    int32_t constant = 0;
    std::optional<Mem> memory;
    Reg from = rax, other = rax;  // the registers of the first, and of a second that is neither
    Reg to = rax;
  };
  Operands take_operands(Width w, bool commutes) {
    Operands o;
    o.second = pop();
    o.first = pop();
    if (commutes) order(o.first, o.second);
    o.is_constant = fits(o.second, w, o.constant);
    if (!o.is_constant) o.memory = memory_of(o.second);
    const bool in_register = !o.is_constant && !o.memory;
    if (in_register) o.other = register_of(o.second);
    o.from = register_of(o.first);
    o.to = destination(o.first, in_register ? &o.second : nullptr);
    return o;
  }
  // A constant comes second; a register that may be overwritten comes first; and what is in the register of the
  // result, too.
  void order(Value& first, Value& second) const {
    if (first.kind == Value::Kind::kConstant) std::swap(first, second);
    if (!is_operand_register(first) && is_operand_register(second)) std::swap(first, second);
    if (const Pin* const pin = next_pin(Bank::kInteger);
        pin != nullptr && in_register(&second, pin->number, *this))
      std::swap(first, second);
  }
  void give_result(const Operands& o) {
    release(o.second);
    release_unless(o.first, o.to);
    push_register(o.to);
  }

  void alu(Alu op, Width w) {
    const Operands o = take_operands(w, op != Alu::kSub);
    if (op == Alu::kAdd && o.to != o.from && !o.memory) {
      if (o.is_constant) a.lea(w, o.to, {o.from, o.constant});
      else a.lea(w, o.to, {o.from, 0, o.other, 0});
    } else {
      if (o.to != o.from) a.mov(w, o.to, o.from);
      if (o.is_constant) a.op(op, w, o.to, o.constant);
      else if (o.memory) a.op(op, w, o.to, *o.memory);
      else a.op(op, w, o.to, o.other);
    }
    give_result(o);
  }

  void multiply(Width w) {
    const Operands o = take_operands(w, true);
    if (o.is_constant) {
      a.imul(w, o.to, o.from, o.constant);
    } else {
      if (o.to != o.from) a.mov(w, o.to, o.from);
      if (o.memory) a.imul(w, o.to, *o.memory);
      else a.imul(w, o.to, o.other);
    }
    give_result(o);
  }

  void shift(Shift s, Width w) {
    Value second = pop(), first = pop();
    const uint8_t mask = w == Width::k64 ? 63 : 31;
    if (second.kind == Value::Kind::kConstant) {
      const auto count = static_cast<uint8_t>(second.constant & mask);
      const Reg from = register_of(first);
      const Reg to = destination(first, nullptr);
      if (to != from && (s == Shift::kRol || s == Shift::kRor)) {
        a.rorx(w, to, from, s == Shift::kRor ? count : static_cast<uint8_t>((mask + 1 - count) & mask));
      } else {
        if (to != from) a.mov(w, to, from);
        a.shift(s, w, to, count);
      }
      release_unless(first, to);
      return push_register(to);
    }
    if (s == Shift::kRol || s == Shift::kRor) return rotate(s, w, first, second);
    const Reg count = register_of(second);
    const Reg from = register_of(first);
    const Pin* const pin = next_pin(Bank::kInteger);  // no flags and three operands: any register will do
    const Reg to = pin != nullptr               ? static_cast<Reg>(pin->number)
                   : is_operand_register(first) ? static_cast<Reg>(first.number)
                                                : alloc();
    a.shiftx(s, w, to, from, count);
    release(second);
    release_unless(first, to);
    push_register(to);
  }
  // The count of a rotation by a variable is in cl.
  void rotate(Shift s, Width w, Value first, Value second) {
    Reg from = register_of(first, 1u << rcx);
    if (from == rcx) {  // it was there already
      const Reg other = alloc(1u << rcx);
      a.mov(Width::k64, other, rcx);
      free_registers |= 1u << rcx;
      first.number = other;
      from = other;
    }
    const Reg count = register_of(second);
    if (count != rcx) {
      take(rcx);
      a.mov(Width::k32, rcx, count);
    }
    const bool own = is_operand_register(first);
    const Reg to = own ? from : alloc();
    if (to != from) a.mov(w, to, from);
    a.shift_cl(s, w, to);
    release(second);
    free_registers |= 1u << rcx;
    push_register(to);
  }

  void divide(Width w, bool is_signed, bool remainder) {
    Value second = pop(), first = pop();
    const bool known = second.kind == Value::Kind::kConstant && second.constant != 0 &&
                       (w == Width::k32 ? static_cast<uint32_t>(second.constant) != UINT32_MAX
                                        : second.constant != UINT64_MAX);
    constexpr uint32_t kFixed = 1u << rax | 1u << rdx;
    Reg by = register_of(second, kFixed);
    if (by == rax || by == rdx) {
      const Reg other = alloc(kFixed);
      a.mov(Width::k64, other, by);
      free_registers |= 1u << by;
      second.number = other;
      by = other;
    }
    const Reg from = register_of(first, kFixed & ~(1u << rax));
    if (from != rax) {
      take(rax);
      a.mov(Width::k64, rax, from);
      release(first);
    }
    take(rdx);
    if (!known) {
      a.test(w, by, by);
      trap_if(Cond::kE, TrapKind::kIntegerDivideByZero);
    }
    if (!is_signed) {
      a.mov_imm(rdx, 0);
      a.div(w, by);
    } else if (known) {
      a.sign_extend_rax(w);
      a.idiv(w, by);
    } else {
      a.op(Alu::kCmp, w, by, -1);
      const Patch minus_one = a.jcc(Cond::kE);
      a.sign_extend_rax(w);
      a.idiv(w, by);
      const Patch done = a.jmp();
      a.patch_here(minus_one);
      if (remainder) {
        a.mov_imm(rdx, 0);
      } else {
        a.neg(w, rax);
        trap_if(Cond::kO, TrapKind::kIntegerOverflow);
      }
      a.patch_here(done);
    }
    release(second);
    free_registers |= 1u << (remainder ? rax : rdx);
    push_register(remainder ? rdx : rax);
  }

  void compare(Width w, Cond c) {
    Value second = pop(), first = pop();
    if (first.kind == Value::Kind::kConstant && second.kind != Value::Kind::kConstant) {
      std::swap(first, second);
      c = swapped(c);
    }
    int32_t constant = 0;
    if (fits(second, w, constant)) {
      const Reg r = register_of(first);
      if (constant == 0 && (c == Cond::kE || c == Cond::kNE || c == Cond::kL || c == Cond::kGE))
        a.test(w, r, r);
      else a.op(Alu::kCmp, w, r, constant);
    } else if (const std::optional<Mem> memory = memory_of(second)) {
      a.op(Alu::kCmp, w, register_of(first), *memory);
    } else {
      const Reg r = register_of(second);
      a.op(Alu::kCmp, w, register_of(first), r);
    }
    release(first);
    release(second);
    push_flags(c);
  }
  void is_zero(Width w) {
    if (has_flags()) {
      stack.back().number ^= 1;
      return;
    }
    Value v = pop();
    const Reg r = register_of(v);
    a.test(w, r, r);
    release(v);
    push_flags(Cond::kE);
  }

  template <typename F>
  void unary(const F& emit) {
    Value v = pop();
    const Reg from = register_of(v);
    const Pin* const pin = next_pin(Bank::kInteger);
    const Reg to = pin != nullptr ? static_cast<Reg>(pin->number) : is_operand_register(v) ? from : alloc();
    emit(to, from);
    release_unless(v, to);
    push_register(to);
  }

  // -- floats -------------------------------------------------------------------------------------------

  void float_binary(Float o, bool is_f32) {
    Value second = pop(), first = pop();
    const bool commutes = o == Float::kAdd || o == Float::kMul;
    if (commutes && !is_operand_register(first) && is_operand_register(second)) std::swap(first, second);
    if (commutes && memory_of(first) && !memory_of(second)) std::swap(first, second);
    const std::optional<Mem> memory = memory_of(second);
    if (!memory) real_of(second);
    const Xmm from = real_of(first);
    const Xmm to = destination_real(first);
    if (memory) a.fop(o, kind_of(is_f32), to, from, *memory);
    else a.fop(o, kind_of(is_f32), to, from, real_of(second));
    release_unless(second, to);
    release_unless(first, to);
    push_real(to, is_f32, true);
  }
  // min gives the second operand when one is NaN or both are zero: done both ways, the bits combine to what
  // WebAssembly asks for, but for the NaN's payload.
  void float_extreme(bool is_max, bool is_f32) {
    Value second = pop(), first = pop();
    const Real r = kind_of(is_f32);
    const Xmm y = real_of(second), x = real_of(first);
    const Xmm other = alloc_real(), to = alloc_real();
    const Float o = is_max ? Float::kMax : Float::kMin;
    a.fop(o, r, other, x, y);
    a.fop(o, r, to, y, x);
    if (is_max) {
      a.fbits(Bits::kXor, other, other, to);
      a.fbits(Bits::kOr, to, to, other);
      a.fop(Float::kSub, r, to, to, other);
    } else {
      a.fbits(Bits::kOr, to, to, other);
    }
    free_reals |= 1u << other;
    release(second);
    release(first);
    push_real(to, is_f32, true);
  }
  template <typename F>
  void float_unary(bool to_f32, bool maybe_nan, const F& emit) {
    Value v = pop();
    const Xmm from = real_of(v);
    const Xmm to = destination_real(v);
    emit(to, from);
    release_unless(v, to);
    push_real(to, to_f32, maybe_nan);
  }
  void float_sign(Bits o, const Mem& mask, bool is_f32) {
    Value v = pop();
    const Xmm from = real_of(v);
    settle_nan(v);
    const Xmm to = destination_real(v);
    a.fbits(o, to, from, mask);
    release_unless(v, to);
    push_real(to, is_f32, false);
  }
  static Mem constant_at(size_t base, bool is_f32) {
    return {kState, static_cast<int32_t>(base + sizeof(Constant) * static_cast<size_t>(kind_of(is_f32)))};
  }
  void copysign(bool is_f32) {
    Value second = pop(), first = pop();
    const Xmm sign = real_of(second);
    settle_nan(second);
    const Xmm x = real_of(first);
    settle_nan(first);
    const Xmm other = alloc_real(), to = alloc_real();
    a.fbits(Bits::kAnd, other, sign, constant_at(offsetof(NativeState, sign_bit), is_f32));
    a.fbits(Bits::kAnd, to, x, constant_at(offsetof(NativeState, magnitude), is_f32));
    a.fbits(Bits::kOr, to, to, other);
    free_reals |= 1u << other;
    release(second);
    release(first);
    push_real(to, is_f32, false);
  }
  // Conditions that are true for NaN are never asked for: the operands are swapped instead.
  void float_compare(Opcode op, bool is_f32) {
    Value second = pop(), first = pop();
    const auto is = [&](Opcode f32, Opcode f64) { return op == f32 || op == f64; };
    if (is(Opcode::kF32Eq, Opcode::kF64Eq) || is(Opcode::kF32Ne, Opcode::kF64Ne)) {
      const Xmm y = real_of(second), x = real_of(first);
      const Xmm mask = alloc_real();
      a.fcompare_mask(kind_of(is_f32), mask, x, y, is(Opcode::kF32Eq, Opcode::kF64Eq) ? 0 : 4);
      const Reg r = alloc();
      a.fmov_to(Width::k32, r, mask);
      a.op(Alu::kAnd, Width::k32, r, 1);
      free_reals |= 1u << mask;
      release(second);
      release(first);
      return push_register(r);
    }
    const bool less = is(Opcode::kF32Lt, Opcode::kF64Lt) || is(Opcode::kF32Le, Opcode::kF64Le);
    if (less) std::swap(first, second);
    const bool or_equal = is(Opcode::kF32Le, Opcode::kF64Le) || is(Opcode::kF32Ge, Opcode::kF64Ge);
    if (const std::optional<Mem> memory = memory_of(second)) {
      a.fcompare(kind_of(is_f32), real_of(first), *memory);
    } else {
      const Xmm y = real_of(second);
      a.fcompare(kind_of(is_f32), real_of(first), y);
    }
    release(second);
    release(first);
    push_flags(or_equal ? Cond::kAE : Cond::kA);
  }

  void int_to_float(Width w, bool is_f32) {
    Value v = pop();
    const Reg r = register_of(v);
    const Pin* const pin = next_pin(Bank::kReal);
    const Xmm to = pin != nullptr ? pin->number : alloc_real();
    a.int_to_float(kind_of(is_f32), w, to, r);
    release(v);
    push_real(to, is_f32, false);
  }
  // Truncation to a signed integer by the processor, which marks what does not fit by the smallest number;
  // a helper then tells those apart that are right.
  void truncate_checked(bool from_f32, bool is_signed) {
    Value v = pop();
    const Xmm x = real_of(v);
    const Reg r = alloc();
    a.float_to_int(kind_of(from_f32), Width::k64, r, x);
    const Reg check = alloc();
    if (is_signed) a.movsxd(check, r);
    else a.mov(Width::k32, check, r);
    a.op(Alu::kCmp, Width::k64, check, r);
    // NaN is told from what is too large by comparing it with itself, off the hot path.
    const Patch fine = a.jcc(Cond::kE);
    a.fcompare(kind_of(from_f32), x, x);
    trap_if(Cond::kP, TrapKind::kInvalidConversion);
    trap(TrapKind::kIntegerOverflow);
    a.patch_here(fine);
    if (is_signed) a.mov(Width::k32, r, r);
    free_registers |= 1u << check;
    release(v);
    push_register(r);
  }

  // -- memory ---------------------------------------------------------------------------------------------

  // Only the first memory's base is in a register, and only 32-bit addresses need no bounds.
  [[nodiscard]] bool is_far(uint32_t memory) const {
    return has_far_memories && (memory != 0 || module.memories[0].type.limits.is_64);
  }
  // The operand of an access. `v` holds the registers until the caller releases it.
  Mem address_of(Value& v, const Instruction& in) {
    return is_far(in.index) ? far_address_of(v, in) : address_of(v, in.mem_offset);
  }
  // The same in any memory: finds it in the instance, and compares the bounds.
  Mem far_address_of(Value& v, const Instruction& in) {
    const bool is_64 = module.memories[in.index].type.limits.is_64;
    const Reg from = register_of(v);
    const Reg sum = is_operand_register(v) ? from : alloc();
    const Reg memory = alloc(), end = alloc();
    if (in.mem_offset <= INT32_MAX && (!is_64 || in.mem_offset == 0)) {
      a.lea(Width::k64, sum, {from, static_cast<int32_t>(in.mem_offset)});
    } else {
      a.mov_imm(end, in.mem_offset);
      if (sum != from) a.mov(Width::k64, sum, from);
      a.op(Alu::kAdd, Width::k64, sum, end);
      if (is_64) trap_if(Cond::kB, TrapKind::kMemoryOutOfBounds);
    }
    a.mov(Width::k64, memory, STATE(memories));
    a.mov(Width::k64, memory, {memory, static_cast<int32_t>(in.index * 8)});
    a.mov(Width::k32, end, {memory, static_cast<int32_t>(Memory::pages_at())});
    a.shift(Shift::kShl, Width::k64, end, std::countr_zero(wasm::kPageBytes));
    a.op(Alu::kSub, Width::k64, end, 1 << wasm::info(in.op).align);
    trap_if(Cond::kB, TrapKind::kMemoryOutOfBounds);
    a.op(Alu::kCmp, Width::k64, sum, end);
    trap_if(Cond::kA, TrapKind::kMemoryOutOfBounds);
    a.op(Alu::kAdd, Width::k64, sum, {memory, static_cast<int32_t>(Memory::base_at())});
    free_registers |= 1u << memory | 1u << end;
    v.kind = Value::Kind::kRegister;
    v.bank = Bank::kInteger;
    v.number = sum;
    return {sum, 0};
  }
  Mem address_of(Value& v, uint64_t displacement) {
    if (v.kind == Value::Kind::kConstant && v.constant + displacement <= INT32_MAX)
      return {kMemory, static_cast<int32_t>(v.constant + displacement)};
    const Reg r = register_of(v);
    if (displacement <= INT32_MAX) return {kMemory, static_cast<int32_t>(displacement), r, 0};
    const Reg sum = alloc();
    a.mov_imm(sum, displacement);
    a.op(Alu::kAdd, Width::k64, sum, r);
    release(v);
    v.kind = Value::Kind::kRegister;
    v.bank = Bank::kInteger;
    v.number = sum;
    return {kMemory, 0, sum, 0};
  }

  void load(const Instruction& in, bool real, bool is_f32) {
    Value v = pop();
    const Mem m = address_of(v, in);
    if (real) {
      const Pin* const pin = next_pin(Bank::kReal);
      const Xmm to = pin != nullptr ? pin->number : alloc_real();
      a.fload(kind_of(is_f32), to, m);
      release(v);
      return push_real(to, is_f32, false);
    }
    const Pin* const pin = next_pin(Bank::kInteger);
    const Reg to = pin != nullptr           ? static_cast<Reg>(pin->number)
                   : is_operand_register(v) ? static_cast<Reg>(v.number)
                                            : alloc();
    switch (in.op) {
      case Opcode::kI32Load:
      case Opcode::kI64Load32U: a.mov(Width::k32, to, m); break;
      case Opcode::kI64Load: a.mov(Width::k64, to, m); break;
      case Opcode::kI32Load8U:
      case Opcode::kI64Load8U: a.movzx8(to, m); break;
      case Opcode::kI32Load16U:
      case Opcode::kI64Load16U: a.movzx16(to, m); break;
      case Opcode::kI32Load8S: a.movsx8(Width::k32, to, m); break;
      case Opcode::kI32Load16S: a.movsx16(Width::k32, to, m); break;
      case Opcode::kI64Load8S: a.movsx8(Width::k64, to, m); break;
      case Opcode::kI64Load16S: a.movsx16(Width::k64, to, m); break;
      case Opcode::kI64Load32S: a.movsxd(to, m); break;
      default: failed = true;
    }
    release_unless(v, to);
    push_register(to);
  }

  void store_memory(const Instruction& in, bool real, bool is_f32) {
    Value value = pop(), v = pop();
    if (real && value.kind != Value::Kind::kConstant) {
      const Xmm x = real_of(value);
      settle_nan(value);
      const Mem m = address_of(v, in);
      a.fstore(kind_of(is_f32), m, x);
      release(value);
      return release(v);
    }
    const bool wide = in.op == Opcode::kI64Store || in.op == Opcode::kF64Store;
    int32_t constant = 0;
    if (fits(value, wide ? Width::k64 : Width::k32, constant)) {
      const Mem m = address_of(v, in);
      switch (in.op) {
        case Opcode::kI32Store8:
        case Opcode::kI64Store8: a.store_imm8(m, static_cast<uint8_t>(constant)); break;
        case Opcode::kI32Store16:
        case Opcode::kI64Store16: a.store_imm16(m, static_cast<uint16_t>(constant)); break;
        default: a.mov_imm(wide ? Width::k64 : Width::k32, m, constant);
      }
      return release(v);
    }
    value.bank = Bank::kInteger;  // a constant
    const Reg r = register_of(value);
    const Mem m = address_of(v, in);
    switch (in.op) {
      case Opcode::kI32Store8:
      case Opcode::kI64Store8: a.store8(m, r); break;
      case Opcode::kI32Store16:
      case Opcode::kI64Store16: a.store16(m, r); break;
      default: a.mov(wide ? Width::k64 : Width::k32, m, r);
    }
    release(value);
    release(v);
  }

  // -- vectors --------------------------------------------------------------------------------------------

  // The number of a constant, which is one of the last ones when it equals it.
  uint32_t constant_of(const Constant& wanted) {
    constexpr size_t kLookedAt = 16;
    const size_t first = constants.size() < kLookedAt ? 0 : constants.size() - kLookedAt;
    for (size_t i = first; i < constants.size(); ++i)
      if (constants[i].low == wanted.low && constants[i].high == wanted.high) return static_cast<uint32_t>(i);
    constants.push_back(wanted);
    return static_cast<uint32_t>(constants.size() - 1);
  }
  uint32_t constant_of_bytes(const uint8_t* bytes) {
    Constant c{};
    std::memcpy(&c, bytes, sizeof c);
    return constant_of(c);
  }
  void load_constant(Xmm to, uint64_t number) {
    const Constant& c = constants[number];
    if (c.low == 0 && c.high == 0) return a.fbits(Bits::kXor, to, to, to);
    if (c.low == UINT64_MAX && c.high == UINT64_MAX) return a.avx(Avx::kVpcmpeqd, to, to, to);
    constant_uses.push_back({a.vload16_rip(to), static_cast<uint32_t>(number)});
  }
  void write_constants() {
    if (constant_uses.empty()) return;
    const uint32_t first = a.here();
    for (const Constant& c : constants) a.bytes(reinterpret_cast<const uint8_t*>(&c), sizeof c);
    for (const ConstantUse& use : constant_uses)
      a.patch(use.at, first + use.constant * static_cast<uint32_t>(sizeof(Constant)));
  }

  // A register with the vector, whose NaNs are canonical but for those of lanes that are read as such.
  Xmm vector_of(Value& v, Lanes reads = Lanes::kNone) {
    const Xmm x = real_of(v);
    const bool is_read = reads == (v.is_f32 ? Lanes::kF32 : Lanes::kF64);
    if (v.maybe_nan && !is_read) settle_nan(v);
    return x;
  }
  Xmm vector_destination() {
    const Pin* const pin = next_pin(Bank::kVector);
    return pin != nullptr ? pin->number : alloc_real();
  }

  // What has a row whose operands and result are vectors.
  void vector_operation(const VectorCode& row) {
    using Form = VectorCode::Form;
    if (row.form == Form::kSequence) return vector_sequence(row);
    if (row.operands == 1) return vector_unary(row);
    Value y = pop(), x = pop();
    if (row.form == Form::kSwapped) std::swap(x, y);
    const bool better = memory_of(x) ? !memory_of(y) : !is_operand_register(x) && is_operand_register(y);
    if (row.form == Form::kCommutes && better) std::swap(x, y);
    const std::optional<Mem> memory = memory_of(y);
    if (!memory) vector_of(y, row.reads);
    const Xmm from = vector_of(x, row.reads);
    const Xmm to = destination_real(x, Bank::kVector);
    if (memory) write_avx(row, to, from, *memory);
    else write_avx(row, to, from, Xmm{real_of(y)});
    release_unless(y, to);
    release_unless(x, to);
    push_vector(to, row.makes);
  }
  void vector_unary(const VectorCode& row) {
    Value x = pop();
    const std::optional<Mem> memory = memory_of(x);
    if (!memory) vector_of(x, row.reads);
    const Xmm to = destination_real(x, Bank::kVector);
    if (memory) write_avx(row, to, 0, *memory);
    else write_avx(row, to, 0, Xmm{real_of(x)});
    release_unless(x, to);
    push_vector(to, row.makes);
  }
  template <typename Operand>
  void write_avx(const VectorCode& row, Xmm to, Xmm x, Operand y) {
    if (row.constant < 0) a.avx(row.avx, to, x, y);
    else a.avx(row.avx, to, x, y, static_cast<uint8_t>(row.constant));
  }
  void vector_sequence(const VectorCode& row) {
    std::array<Value, 3> v;
    std::array<Xmm, 3> x{};
    for (size_t i = row.operands; i-- > 0;) v[i] = pop();
    for (size_t i = 0; i < row.operands; ++i) x[i] = vector_of(v[i], row.reads);
    const Xmm to = sequence_destination(x, row.operands);
    const Xmm u = alloc_real();
    row.sequence(a, {to, x[0], x[1], x[2], kScratch, u});
    free_reals |= 1u << u;
    for (size_t i = 0; i < row.operands; ++i) release(v[i]);
    push_vector(to, row.makes);
  }
  // None of the operands.
  Xmm sequence_destination(const std::array<Xmm, 3>& operands, size_t count) {
    const Pin* const pin = next_pin(Bank::kVector);
    if (pin == nullptr) return alloc_real();
    for (size_t i = 0; i < count; ++i)
      if (operands[i] == pin->number) return alloc_real();
    return pin->number;
  }

  void vector_shift(const VectorCode& row) {
    Value count = pop(), v = pop();
    const Xmm x = vector_of(v);
    const uint8_t mask = static_cast<uint8_t>(row.bits - 1);
    if (count.kind == Value::Kind::kConstant) {
      const Xmm to = sequence_destination({x}, 1);
      const auto constant = static_cast<uint8_t>(count.constant & mask);
      write_shift(a, row, {to, x, 0, 0, kScratch, kScratch}, constant);
      if (const uint8_t stays = stays_of_bytes(row, constant); stays != 0xFF) {
        const uint64_t eight = uint64_t{0x0101010101010101} * stays;
        load_constant(kScratch, constant_of({eight, eight}));
        a.avx(Avx::kVpand, to, to, kScratch);
      }
      release(v);
      return push_vector(to, Lanes::kNone);
    }
    const Reg r = register_of(count);
    const Reg masked = alloc();
    a.mov(Width::k32, masked, r);
    a.op(Alu::kAnd, Width::k32, masked, mask);
    if (more_of_count(row) != 0) a.op(Alu::kAdd, Width::k32, masked, more_of_count(row));
    const Xmm y = alloc_real();
    a.fmov_from(Width::k32, y, masked);
    free_registers |= 1u << masked;
    const Xmm to = sequence_destination({x}, 1);
    write_variable_shift(a, row, {to, x, y, 0, kScratch, kScratch});
    free_reals |= 1u << y;
    release(count);
    release(v);
    push_vector(to, Lanes::kNone);
  }

  void shuffle(const uint8_t* indices) {
    Value second = pop(), first = pop();
    const Xmm y = vector_of(second), x = vector_of(first);
    uint8_t bytes[16];
    std::copy_n(indices, std::size(bytes), bytes);
    ShuffleCode row;
    Xmm to = 0;
    if (find_shuffle(bytes, row)) {
      to = destination_real(first, Bank::kVector);
      const Xmm one = row.first_is_y ? y : x, other = row.second_is_y ? y : x;
      if (row.takes_one) a.avx(row.avx, to, 0, one, row.constant);
      else if (row.has_constant) a.avx(row.avx, to, one, other, row.constant);
      else a.avx(row.avx, to, one, other);
    } else {
      to = shuffle_bytes(bytes, x, y);
    }
    release_unless(second, to);
    release_unless(first, to);
    push_vector(to, Lanes::kNone);
  }
  // By tables of bytes, which give 0 where the highest bit is set: of one operand, or of both.
  Xmm shuffle_bytes(const uint8_t (&indices)[16], Xmm x, Xmm y) {
    constexpr uint8_t kNoByte = 0x80;
    uint8_t of_x[16], of_y[16];
    bool has_x = false, has_y = false;
    for (int i = 0; i < 16; ++i) {
      const bool is_x = indices[i] < 16;
      (is_x ? has_x : has_y) = true;
      of_x[i] = is_x ? indices[i] : kNoByte;
      of_y[i] = is_x ? kNoByte : static_cast<uint8_t>(indices[i] - 16);
    }
    const Xmm to = sequence_destination({x, y}, 2);
    load_constant(kScratch, constant_of_bytes(has_x ? of_x : of_y));
    a.avx(Avx::kVpshufb, to, has_x ? x : y, kScratch);
    if (!has_x || !has_y) return to;
    load_constant(kScratch, constant_of_bytes(of_y));
    a.avx(Avx::kVpshufb, kScratch, y, kScratch);
    a.avx(Avx::kVpor, to, to, kScratch);
    return to;
  }

  void splat(const VectorCode& row) {
    Value v = pop();
    const std::optional<Mem> memory = memory_of(v);
    Xmm x = kScratch;
    if (!memory && v.real()) {
      x = real_of(v);
      settle_nan(v);
    }
    const Xmm to = vector_destination();  // what gives way to it may need the scratch register
    if (!memory && !v.real()) a.fmov_from(row.log2_bytes == 3 ? Width::k64 : Width::k32, x, register_of(v));
    if (memory) a.avx(row.avx, to, 0, *memory);
    else a.avx(row.avx, to, 0, x);
    release(v);
    push_vector(to, Lanes::kNone);
  }

  void extract_lane(const VectorCode& row, uint8_t lane) {
    Value v = pop();
    const Xmm x = vector_of(v);
    const Pin* const pin = next_pin(Bank::kInteger);
    const Reg to = pin != nullptr ? static_cast<Reg>(pin->number) : alloc();
    const Width w = row.log2_bytes == 3 ? Width::k64 : Width::k32;
    if (lane == 0 && row.log2_bytes >= 2) a.fmov_to(w, to, x);
    else a.avx_extract(row.avx, to, x, lane);
    if (row.form == VectorCode::Form::kExtractSigned) {
      if (row.log2_bytes == 0) a.movsx8(Width::k32, to, to);
      else a.movsx16(Width::k32, to, to);
    }
    release(v);
    push_register(to);
  }
  // An f32 has nothing above it (vinsertps clears the lanes whose bits are set).
  void extract_float(const VectorCode& row, uint8_t lane) {
    Value v = pop();
    const Xmm x = vector_of(v);
    const Pin* const pin = next_pin(Bank::kReal);
    const Xmm to = pin != nullptr ? pin->number : is_operand_register(v) ? Xmm{v.number} : alloc_real();
    const bool is_f32 = row.log2_bytes == 2;
    if (is_f32) a.avx(Avx::kVinsertps, to, x, x, static_cast<uint8_t>(lane << 6 | 0x0E));
    else if (lane == 1) a.avx(Avx::kVpunpckhqdq, to, x, x);
    else if (to != x) a.fmov(to, x);
    release_unless(v, to);
    push_real(to, is_f32, false);
  }
  void replace_lane(const VectorCode& row, uint8_t lane) {
    Value value = pop(), v = pop();
    if (value.kind == Value::Kind::kConstant) value.bank = Bank::kInteger;
    const Reg r = register_of(value);
    const Xmm x = vector_of(v);
    const Xmm to = destination_real(v, Bank::kVector);
    a.avx(row.avx, to, x, uint8_t{r}, lane);
    release(value);
    release_unless(v, to);
    push_vector(to, Lanes::kNone);
  }
  void replace_float(const VectorCode& row, uint8_t lane) {
    Value value = pop(), v = pop();
    const Xmm y = real_of(value);
    settle_nan(value);
    const Xmm x = vector_of(v);
    const Xmm to = destination_real(v, Bank::kVector);
    if (row.log2_bytes == 2) a.avx(Avx::kVinsertps, to, x, y, static_cast<uint8_t>(lane << 4));
    else if (lane == 0) a.fmove_low(to, x, y);
    else a.avx(Avx::kVpunpcklqdq, to, x, y);
    release_unless(value, to);
    release_unless(v, to);
    push_vector(to, Lanes::kNone);
  }

  void any_true() {
    Value v = pop();
    const Xmm x = vector_of(v);
    a.avx(Avx::kVptest, x, 0, x);
    release(v);
    push_flags(Cond::kNE);
  }
  void all_true(const VectorCode& row) {
    Value v = pop();
    const Xmm x = vector_of(v);
    a.avx(Avx::kVpxor, kScratch, kScratch, kScratch);
    a.avx(row.avx, kScratch, kScratch, x);
    a.avx(Avx::kVptest, kScratch, 0, kScratch);
    release(v);
    push_flags(Cond::kE);
  }
  void bitmask(const VectorCode& row) {
    Value v = pop();
    Xmm x = vector_of(v);
    if (row.log2_bytes == 1) {  // the signs of words as those of bytes
      a.avx(Avx::kVpxor, kScratch, kScratch, kScratch);
      a.avx(Avx::kVpacksswb, kScratch, x, kScratch);
      x = kScratch;
    }
    const Pin* const pin = next_pin(Bank::kInteger);
    const Reg to = pin != nullptr ? static_cast<Reg>(pin->number) : alloc();
    a.avx_mask(row.avx, to, x);
    release(v);
    push_register(to);
  }

  void load_vector(const Instruction& in, const VectorCode& row) {
    Value v = pop();
    const Mem m = address_of(v, in);
    const Xmm to = vector_destination();
    if (row.form == VectorCode::Form::kLoadZero) a.fload(kind_of(row.log2_bytes == 2), to, m);
    else a.avx(row.avx, to, 0, m);
    release(v);
    push_vector(to, Lanes::kNone);
  }
  void store_vector(const Instruction& in) {
    Value value = pop(), v = pop();
    const Xmm x = vector_of(value);
    const Mem m = address_of(v, in);
    a.vstore16(m, x);
    release(value);
    release(v);
  }
  void load_lane(const Instruction& in, const VectorCode& row) {
    Value value = pop(), v = pop();
    const Xmm x = vector_of(value);
    const Mem m = address_of(v, in);
    const Xmm to = destination_real(value, Bank::kVector);
    a.avx(row.avx, to, x, m, in.lane);
    release(v);
    release_unless(value, to);
    push_vector(to, Lanes::kNone);
  }
  void store_lane(const Instruction& in, const VectorCode& row) {
    Value value = pop(), v = pop();
    const Xmm x = vector_of(value);
    const Mem m = address_of(v, in);
    a.avx_extract(row.avx, m, x, in.lane);
    release(value);
    release(v);
  }

  void vector(const Instruction& in) {
    using enum VectorCode::Form;
    if (in.op == Opcode::kV128Const) return push_constant(constant_of_bytes(in.raw), Bank::kVector);
    if (in.op == Opcode::kV128AnyTrue) return any_true();
    if (in.op == Opcode::kV128Store) return store_vector(in);
    if (in.op == Opcode::kI8x16Shuffle) return shuffle(in.raw);
    const VectorCode& row = vector_code(in.op);
    switch (row.form) {
      case kOne:
      case kTwo:
      case kCommutes:
      case kSwapped:
      case kSequence: return vector_operation(row);
      case kShift: return vector_shift(row);
      case kSplat:
      case kSplatFloat: return splat(row);
      case kExtract:
      case kExtractSigned: return extract_lane(row, in.lane);
      case kExtractFloat: return extract_float(row, in.lane);
      case kReplace: return replace_lane(row, in.lane);
      case kReplaceFloat: return replace_float(row, in.lane);
      case kLoad:
      case kLoadZero: return load_vector(in, row);
      case kLoadLane: return load_lane(in, row);
      case kStoreLane: return store_lane(in, row);
      case kAllTrue: return all_true(row);
      case kBitmask: return bitmask(row);
      case kNone: failed = true;
    }
  }

  // -- variables -------------------------------------------------------------------------------------------

  // Entries that name the local take its value before it changes.
  void settle_local(uint32_t local) {
    if (pending_locals == 0) return;
    for (size_t i = settled; i < stack.size(); ++i) {
      Value& v = stack[i];
      if (v.kind != Value::Kind::kLocal || v.local() != local) continue;
      a.ensure(Assembler::kRoom);
      const Local& l = locals[local];
      --pending_locals;
      Value copy;
      copy.kind = Value::Kind::kRegister;
      copy.slot = v.slot;
      copy.bank = l.bank;
      copy.is_f32 = l.is_f32;
      v.kind = Value::Kind::kSlot;  // as long as a register is sought for it
      if (l.real()) {
        const Xmm x = alloc_real();
        if (l.pin == kUnpinned) {
          load_slots(x, l.slot, l.bank);
        } else {
          a.fmov(x, pinned(l.pin));
          copy.maybe_nan = (now.nan >> l.pin) & 1;
          copy.is_f32 = nan_is_f32(l.pin);
        }
        copy.number = x;
      } else {
        const Reg r = alloc();
        if (l.pin == kUnpinned) a.mov_from_slot(r, at_slot(l.slot));
        else a.mov(Width::k64, r, static_cast<Reg>(pinned(l.pin)));
        copy.number = r;
      }
      stack[i] = copy;
    }
  }

  void local_set(uint32_t index_of_local, bool keep) {
    const Local& local = locals[index_of_local];
    Value v = pop();
    if (v.kind == Value::Kind::kFlags && pending_locals != 0) register_of(v);
    settle_local(index_of_local);
    if (v.kind == Value::Kind::kLocal && v.local() == index_of_local) {
      if (keep) push(v);
      return;
    }
    if (local.pin == kUnpinned) {
      if (!keep || v.kind == Value::Kind::kConstant) {
        store(v, local.slot);
        if (keep) return push(v);
        return release(v);
      }
      if (v.kind == Value::Kind::kSlot)
        local.real() ? static_cast<void>(real_of(v)) : static_cast<void>(register_of(v));
      store(v, local.slot);
      return push(v);
    }
    const Pin& pin = pins[local.pin];
    const uint32_t bit = 1u << local.pin;
    bool nan = false;
    if (local.real()) {
      if (v.kind == Value::Kind::kSlot) {
        load_slots(pin.number, v.slot, v.bank);
      } else if (v.kind == Value::Kind::kLocal && locals[v.local()].pin == kUnpinned) {
        load_slots(pin.number, locals[v.local()].slot, v.bank);
      } else if (v.kind == Value::Kind::kConstant && v.bank == Bank::kVector) {
        load_constant(pin.number, v.constant);
      } else {
        const Xmm x = real_of(v);
        nan = v.maybe_nan;
        if (x != pin.number) a.fmov(pin.number, x);
      }
    } else {
      const auto to = static_cast<Reg>(pin.number);
      if (const auto memory = memory_of(v)) {
        a.mov(Width::k64, to, *memory);
      } else if (v.kind == Value::Kind::kConstant) {
        a.mov_imm(to, v.constant);
      } else if (v.kind == Value::Kind::kFlags) {
        a.setcc(static_cast<Cond>(v.number), to);
        a.movzx8(to, to);
      } else {
        const Reg r = register_of(v);
        if (r != to) a.mov(Width::k64, to, r);
      }
    }
    release_unless(v, pin.number);
    now.valid |= bit;
    now.dirty |= bit;
    now.nan = nan ? now.nan | bit : now.nan & ~bit;
    now.f32 = v.is_f32 ? now.f32 | bit : now.f32 & ~bit;
    if (keep) push_local(index_of_local, local);
  }

  Reg global_cell(uint32_t global) {
    const Reg r = alloc();
    a.mov(Width::k64, r, STATE(globals));
    a.mov(Width::k64, r, {r, static_cast<int32_t>(global * 8)});
    return r;
  }
  static constexpr int32_t kGlobalBits = offsetof(GlobalInstance, bits);
  static_assert(offsetof(GlobalInstance, high_bits) == kGlobalBits + 8);
  void global_get(uint32_t global) {
    const ValType t = module.globals[global].type.type;
    const Reg cell = global_cell(global);
    if (bank_of(t) != Bank::kInteger) {
      const Xmm x = alloc_real();
      if (t == ValType::kV128) a.vload16(x, {cell, kGlobalBits});
      else a.fload(Real::kF64, x, {cell, kGlobalBits});
      free_registers |= 1u << cell;
      return push_real(x, t == ValType::kF32, false, bank_of(t));
    }
    const Pin* const pin = next_pin(Bank::kInteger);
    const Reg to = pin != nullptr ? static_cast<Reg>(pin->number) : cell;
    a.mov(Width::k64, to, {cell, kGlobalBits});
    if (to != cell) free_registers |= 1u << cell;
    push_register(to);
  }
  void global_set(uint32_t global) {
    Value v = pop();
    if (v.bank == Bank::kVector || (v.real() && v.kind != Value::Kind::kConstant)) {
      const Xmm x = real_of(v);
      settle_nan(v);
      const Reg cell = global_cell(global);
      if (v.bank == Bank::kVector) a.vstore16({cell, kGlobalBits}, x);
      else a.fstore(Real::kF64, {cell, kGlobalBits}, x);
      free_registers |= 1u << cell;
      return release(v);
    }
    v.bank = Bank::kInteger;
    const Reg r = register_of(v);
    const Reg cell = global_cell(global);
    a.mov(Width::k64, {cell, kGlobalBits}, r);
    free_registers |= 1u << cell;
    release(v);
  }

  void select() {
    const bool real = stack[stack.size() - 2].real();
    if (real) settle_flags();  // making room for floats may change the flags
    Value condition = pop(), no = pop(), yes = pop();
    if (real) return select_real(condition, no, yes);
    const bool flags = condition.kind == Value::Kind::kFlags;
    const Reg y = register_of(yes), n = register_of(no);
    const Reg to = is_operand_register(yes) ? y : alloc();
    if (to != y) a.mov(Width::k64, to, y);
    const Cond c = flags ? static_cast<Cond>(condition.number) : test_nonzero(condition);
    a.cmov(inverse(c), Width::k64, to, n);
    release(no);
    release_unless(yes, to);
    push_register(to);
  }
  void select_real(Value& condition, Value& no, Value& yes) {
    const Xmm y = real_of(yes), n = real_of(no);
    const bool is_f32 = yes.is_f32;
    const bool nan = yes.maybe_nan && no.maybe_nan && yes.is_f32 == no.is_f32;
    if (!nan) {  // what was computed is made canonical; what was loaded keeps its bits
      settle_nan(yes);
      settle_nan(no);
    }
    const Xmm to = is_operand_register(yes) ? y : alloc_real();
    if (to != y) a.fmov(to, y);
    const Patch keep = a.jcc(test_nonzero(condition));
    a.fmov(to, n);
    a.patch_here(keep);
    release(no);
    release_unless(yes, to);
    push_real(to, is_f32, nan, yes.bank);
  }
  Cond test_nonzero(Value& v) {
    const Reg r = register_of(v);
    a.test(Width::k32, r, r);
    release(v);
    return Cond::kNE;
  }

  // -- helpers: what is seldom or long ---------------------------------------------------------------------

  void helper(Opcode op, uint32_t first_slot, uint32_t index1, uint32_t index2) {
    const uint32_t start = charge == kNone ? a.here() : charge - Charge::kSubtractBytes;
    a.call(STATE(exit_helper));
    note_exit();
    HelperCall call{static_cast<uint16_t>(op), static_cast<uint16_t>(first_slot), index1, index2,
                    a.here() - start};
    std::array<uint8_t, sizeof call> bytes{};
    std::memcpy(bytes.data(), &call, sizeof call);
    a.bytes(bytes.data(), bytes.size());
  }
  // Operands go to their slots; the result comes in the first one's.
  void simple_helper(const Instruction& in, size_t operands, std::optional<ValType> result) {
    for (size_t i = stack.size() - operands; i < stack.size(); ++i) store_entry(stack[i]);
    cut_stack(stack.size() - operands);
    helper(in.op, top_slot(), index_of(in), index2_of(in));
    if (result) push_slot(*result);
  }
  // What has a segment of its own leaves nothing in registers that a pause at its beginning would have to save.
  void prepare_own(const Instruction& in) {
    if (wasm::info(in.op).flow == wasm::Flow::kThrows) {
      settle_from(0);
      settle_pins();
      return;
    }
    for (size_t i = stack.size() - bulk_operands(in.op); i < stack.size(); ++i) store_entry(stack[i]);
  }
  void enter_segment() {}
  static size_t bulk_operands(Opcode op) {
    switch (op) {
      case Opcode::kMemoryGrow: return 1;
      case Opcode::kTableGrow: return 2;
      case Opcode::kMemoryFill:
      case Opcode::kMemoryCopy:
      case Opcode::kMemoryInit:
      case Opcode::kTableFill:
      case Opcode::kTableCopy:
      case Opcode::kTableInit: return 3;
      default: return 0;  // beyond this compiler
    }
  }
  void bulk(const Instruction& in, std::optional<ValType> result) {
    cut_stack(stack.size() - bulk_operands(in.op));
    helper(in.op, top_slot(), index_of(in), index2_of(in));
    if (result) push_slot(*result);
  }

  // -- joins -------------------------------------------------------------------------------------------------

  // At a join no pin may have a NaN to be made canonical: on another way it may be one that was loaded, whose
  // bits stay.
  static bool conforms(const Pins& from, const Pins& to) {
    return (to.valid & ~from.valid) == 0 && (from.dirty & ~to.valid) == 0 && from.nan == 0;
  }
  // Makes `now` what the label expects.
  void conform(const Pins& to) {
    for (uint32_t left = now.nan; left != 0; left &= left - 1)
      make_pin_canonical(static_cast<uint32_t>(std::countr_zero(left)));
    for (uint32_t left = now.dirty & ~to.valid; left != 0; left &= left - 1)
      store_pin(static_cast<uint32_t>(std::countr_zero(left)));
    for (uint32_t left = to.valid & ~now.valid; left != 0; left &= left - 1)
      pinned(static_cast<uint8_t>(std::countr_zero(left)));
  }
  // A way to the label begins here: the first one says what the others must have.
  void note_way(Label& label) {
    if (label.kind == Label::Kind::kLoop) return;
    if (!label.has_pins) {
      label.has_pins = true;
      label.pins = now;
      return;
    }
    label.pins.dirty |= now.dirty & label.pins.valid;
  }

  void link(Label& label, Patch at) {
    if (label.kind == Label::Kind::kLoop) return a.patch(at, label.target);
    a.put32(at - 4, label.fixups);
    label.fixups = at;
  }
  void bind(Label& label) {
    for (Patch at = label.fixups; at != kNone;) {
      const Patch next = a.get32(at - 4);
      a.patch_here(at);
      at = next;
    }
    label.fixups = kNone;
  }

  bool values_in_place(const Label& label) const {
    uint32_t to = label.slot_height;
    for (size_t i = stack.size() - label.branch_values; i < stack.size(); to += slots_of(stack[i++].bank))
      if (stack[i].kind != Value::Kind::kSlot || stack[i].slot != to) return false;
    return true;
  }
  // Before a branch that carries several values, and before its condition is tested: what moves them needs registers, and
  // an entry that gave way to one meanwhile would be written to its own slot, where a value may have been moved to.
  void settle_for_branch(const Label& label) {
    if (label.branch_values <= 1) return;
    settle_flags();
    settle_from(0);
  }
  // Copies, so that the way that does not branch keeps its picture.
  void move_values(const Label& label) {
    uint32_t to = label.slot_height;
    if (label.branch_values > kFewValues) {
      const uint32_t from = stack[stack.size() - label.branch_values].slot;
      return copy_slots(to, from, top_slot() - from);
    }
    for (size_t i = stack.size() - label.branch_values; i < stack.size(); to += slots_of(stack[i++].bank)) {
      a.ensure(Assembler::kRoom);
      Value v = stack[i];
      const bool lent = v.kind == Value::Kind::kRegister;
      store(v, to);
      if (!lent) release(v);
    }
  }
  // The frame's slots [from, from + count) to [to, to + count), upwards; `to` is not above `from`. After
  // settle_for_branch.
  void copy_slots(uint32_t to, uint32_t from, uint32_t count) {
    if (to == from) return;
    a.ensure(Assembler::kRoom);
    const Reg at = alloc(), value = alloc();
    a.mov_imm(at, uint64_t{0} - count);
    const uint32_t again = a.here();
    a.mov(Width::k64, value, Mem{kFrame, static_cast<int32_t>((from + count) * 8), at, 3});
    a.mov(Width::k64, Mem{kFrame, static_cast<int32_t>((to + count) * 8), at, 3}, value);
    a.op(Alu::kAdd, Width::k64, at, 1);
    a.patch(a.jcc(Cond::kNE), again);
    free_registers |= 1u << at | 1u << value;
  }

  void jump_to(Label& label) {  // with the values moved
    conform_to(label);
    link(label, a.jmp());
  }
  void conform_to(Label& label) {
    conform(label.kind == Label::Kind::kLoop || label.has_pins ? label.pins : now);
    note_way(label);
  }

  void branch_to(uint32_t depth) {
    Label& target = walk.target(depth);
    if (target.kind == Label::Kind::kFunction) return write_return();
    settle_for_branch(target);
    move_values(target);
    jump_to(target);
  }

  // The condition on top of the stack as flags.
  Cond condition() {
    Value v = pop();
    if (v.kind == Value::Kind::kFlags) return static_cast<Cond>(v.number);
    return test_nonzero(v);
  }
  // So that the way that branches need not move entries that the other way still has.
  void ensure_spare() {
    if (free_registers == 0) evict(false, 0);
    if (free_reals == 0) {
      settle_flags();
      evict(true, 0);
    }
    if (free_registers == 0) evict(false, 0);
  }

  void branch_if(uint32_t depth) {
    Label& target = walk.target(depth);
    settle_for_branch(target);
    ensure_spare();
    const Cond c = condition();
    const bool plain =
        target.kind != Label::Kind::kFunction && values_in_place(target) &&
        conforms(now, target.kind == Label::Kind::kLoop || target.has_pins ? target.pins : now);
    if (plain) {
      note_way(target);
      return link(target, a.jcc(c));
    }
    const Patch skip = a.jcc(inverse(c));
    const Pins before = now;
    const uint32_t free_before = free_registers, reals_before = free_reals;
    if (target.kind == Label::Kind::kFunction) {
      write_return();
    } else {
      move_values(target);
      jump_to(target);
    }
    now = before;
    free_registers = free_before;
    free_reals = reals_before;
    a.patch_here(skip);
  }

  void branch_table(const Instruction& in) {
    Value v = pop();
    // Values that some of the ways move are in their slots for all.
    settle_from(0);
    if (in.count == 0) {
      release(v);
      wasm::LabelReader labels_of(in);
      return branch_to(labels_of.next());
    }
    Reg r = register_of(v);
    const Reg last = alloc();
    a.mov_imm(last, in.count);
    a.op(Alu::kCmp, Width::k32, r, last);
    a.cmov(Cond::kB, Width::k32, last, r);
    const Reg base = alloc();
    const Patch table_at = a.lea_rip(base);
    a.movsxd(last, Mem{base, 0, last, 2});
    a.op(Alu::kAdd, Width::k64, base, last);
    a.jmp(base);
    free_registers |= 1u << last | 1u << base;
    release(v);
    a.patch_here(table_at);
    const uint32_t table = a.here();
    for (uint32_t i = 0; i <= in.count; ++i) {
      a.ensure(Assembler::kRoom);
      a.word(0);
    }
    // One way for each label, however often it stands in the table.
    ++way_stamp;
    if (ways.size() < walk.label_count()) ways.resize(walk.label_count());
    const Pins before = now;
    wasm::LabelReader labels_of(in);
    for (uint32_t i = 0; i <= in.count; ++i) {
      a.ensure(Assembler::kRoom);
      const uint32_t depth = labels_of.next();
      if (ways[depth].stamp != way_stamp) {
        ways[depth] = {way_stamp, a.here()};
        const uint32_t free_before = free_registers, reals_before = free_reals;
        branch_to(depth);
        now = before;
        free_registers = free_before;
        free_reals = reals_before;
      }
      a.put32(table + 4 * i, ways[depth].at - table);
    }
  }

  void write_return() {
    const auto& results = type->results;
    if (results.size() == 1) {
      Value v = stack.back();  // a copy: the way behind a br_if still has it
      const bool lent = v.kind == Value::Kind::kRegister;
      if (v.real()) {
        const Xmm x = real_of(v);
        settle_nan(v);
        if (x != 0) a.fmov(0, x);
        store_slots(0, 0, v.bank);
      } else {
        if (v.kind == Value::Kind::kConstant) {
          a.mov_imm(rax, v.constant);
        } else if (const auto memory = memory_of(v)) {
          a.mov(Width::k64, rax, *memory);
        } else {
          const Reg r = register_of(v);
          if (r != rax) a.mov(Width::k64, rax, r);
        }
        a.mov_to_slot(at_slot(0), rax);
      }
      if (!lent) release(v);
    } else if (results.size() > kFewValues) {
      settle_for_branch(walk.function_label());
      const uint32_t from = stack[stack.size() - results.size()].slot;
      copy_slots(0, from, top_slot() - from);
    } else if (results.size() > 1) {
      // First all to their own slots: a parameter's slot may be both source and destination.
      for (size_t i = stack.size() - results.size(); i < stack.size(); ++i) {
        a.ensure(Assembler::kRoom);
        Value v = stack[i];
        const bool lent = v.kind == Value::Kind::kRegister;
        store(v, v.slot);
        if (!lent) release(v);
      }
      const uint32_t from = stack[stack.size() - results.size()].slot;
      for (uint32_t i = 0; i < top_slot() - from; ++i) {
        a.ensure(Assembler::kRoom);
        a.mov_from_slot(rax, at_slot(from + i));
        a.mov_to_slot(at_slot(i), rax);
      }
    }
    a.ret();
  }

  // -- exceptions: as in the translator, nothing is done when a try_table is entered or left -------------------

  void add_clause(const wasm::CatchClause& clause, Label& target) {
    const bool returns = target.kind == Label::Kind::kFunction;
    const bool is_loop = target.kind == Label::Kind::kLoop;
    const auto number = static_cast<uint32_t>(catches.clauses.size());
    catches.clauses.push_back({clause, target.catches, returns ? 0 : target.slot_height});
    landings.push_back({returns, is_loop ? target.target : 0, is_loop ? target.pins.valid : 0});
    if (!returns && !is_loop) target.catches = number;
  }
  void add_region(uint32_t outer, uint32_t first, uint32_t count) {
    catches.regions.push_back({outer, first, count});
  }
  void begin_region(uint32_t begun) { catches.boundaries.push_back({a.here() - entry, begun}); }
  // At the end of a label: what is caught for it goes on here, too.
  void land_here(Label& label) {
    for (uint32_t at = label.catches; at != kNone; at = catches.clauses[at].landing)
      landings[at] = {false, a.here(), label.pins.valid};
    label.catches = kNone;
  }
  // Behind the function: from slots to what each label expects.
  void write_landings() {
    for (size_t i = 0; i < landings.size(); ++i) {
      a.ensure(Assembler::kRoom);
      const Landing& l = landings[i];
      if (i > 0 && l == landings[i - 1]) {
        catches.clauses[i].landing = catches.clauses[i - 1].landing;
        continue;
      }
      catches.clauses[i].landing = a.here() - entry;
      if (l.returns) {
        write_landed_return();
        continue;
      }
      now = {};
      for (uint32_t left = l.pins; left != 0; left &= left - 1)
        pinned(static_cast<uint8_t>(std::countr_zero(left)));
      a.jmp(l.target);
    }
  }
  void write_landed_return() {  // the results are in their slots already
    if (type->results.size() == 1) {
      const Bank bank = bank_of(type->results[0]);
      if (bank == Bank::kInteger) a.mov(Width::k64, rax, slot(0));
      else load_slots(0, 0, bank);
    }
    a.ret();
  }
  void throw_exception(const Instruction& in, size_t operands) {  // all is in slots
    const size_t first = stack.size() - operands;
    helper(in.op, slot_at(first), in.op == Opcode::kThrow ? in.index : 0, 0);
    a.int3();
  }

  // -- blocks --------------------------------------------------------------------------------------------------

  size_t height() const { return stack.size(); }
  // The slot of an entry, or of the next one.
  uint32_t slot_at(size_t entry_of_stack) const {
    return entry_of_stack == stack.size() ? top_slot() : stack[entry_of_stack].slot;
  }
  void settle() { settle_from(0); }
  void cut(size_t to) { cut_stack(to); }
  void push_types(std::span<const ValType> types) { push_slots(types); }

  // What the loop uses is in registers at its head, and stays there around it.
  void begin_loop(Label& l) {
    const LoopUse& use = loops[l.loop];
    Pins head;
    head.valid = use.used | (use.has_call ? 0 : now.valid);
    conform(head);
    head.dirty = now.dirty | use.assigned;
    now = head;
    l.pins = head;
    l.has_pins = true;
    l.target = a.here();
  }

  Patch test() {
    const Cond c = settled_condition();
    return a.jcc(inverse(c));
  }
  void begin_then(Label& l, Patch skip) {
    l.else_fixup = skip;
    l.else_pins = now;
  }
  // The same as condition(), with all other entries settled before the flags are needed. Stores do not touch
  // flags, but making a NaN canonical does.
  Cond settled_condition() {
    if (has_flags() && std::any_of(stack.begin() + static_cast<ptrdiff_t>(settled), stack.end() - 1,
                                   [](const Value& v) { return v.real() && v.kind != Value::Kind::kSlot; }))
      settle_flags();
    if (has_flags()) {
      const Value flags = pop();
      settle_from(0);
      return static_cast<Cond>(flags.number);
    }
    Value v = pop();
    settle_from(0);
    return test_nonzero(v);
  }

  void end_arm(Label& l) {
    settle_from(l.height);
    jump_to(l);
  }
  void begin_else(Label& l) {
    a.patch_here(l.else_fixup);
    now = l.else_pins;
  }
  void finish() { write_return(); }

  void join(Label& l, bool falls_in) {
    const bool has_else_way = l.kind == Label::Kind::kIf;
    if (has_else_way && !l.has_pins) {  // the way around is the one without code of its own
      l.has_pins = true;
      l.pins = l.else_pins;
      l.pins.nan = 0;
    }
    if (falls_in) {
      settle_from(l.height);
      conform_to(l);
    }
    if (has_else_way) {
      now = l.else_pins;
      if (conforms(now, l.pins)) {
        note_way(l);
        a.patch_here(l.else_fixup);
      } else {
        Patch over = kNone;
        if (falls_in) over = a.jmp();
        a.patch_here(l.else_fixup);
        conform_to(l);
        if (over != kNone) a.patch_here(over);
      }
    }
    bind(l);
    land_here(l);
    now = l.pins;
  }

  // -- calls ------------------------------------------------------------------------------------------------------

  // Arguments are settled and `base` is their first slot. `write` writes the call itself.
  template <typename F>
  void write_call(const wasm::FuncType& callee, const F& write) {
    cut_stack(stack.size() - callee.params.size());
    const uint32_t base = top_slot();
    if (base != 0) a.op(Alu::kAdd, Width::k64, kFrame, static_cast<int32_t>(base * 8));
    write();
    by_pc.each_at(a.here() - entry, [&](Watch& w) {
      note_place(w, walk.offset(), walk.cost());
      w.pc = w.wanted_pc;
      w.behind_call = true;
      w.behind_offset = walk.next_offset();
      w.frame_advance = base;
      note_locations(w);
    });
    if (base != 0) a.op(Alu::kSub, Width::k64, kFrame, static_cast<int32_t>(base * 8));
    if (callee.results.size() == 1) {
      const ValType t = callee.results[0];
      Value v;
      v.kind = Value::Kind::kRegister;
      v.bank = bank_of(t);
      v.is_f32 = t == ValType::kF32;
      v.in_slot = true;
      v.number = 0;  // rax or xmm0
      if (v.real()) free_reals &= ~1u;
      else free_registers &= ~1u;
      push(v);
    } else {
      push_slots(callee.results);
    }
  }

  void call(uint32_t callee) {
    const wasm::FuncType& t = module.type_of_function(callee);
    settle_for_call(stack.size() - t.params.size());
    const bool imported = module.functions[callee].import != wasm::kNotImported;
    write_call(t, [&] {
      if (imported) {
        a.mov(Width::k64, rax, STATE(imports));
        a.mov(Width::k64, rax, {rax, static_cast<int32_t>(callee * 8)});
        a.call(STATE(exit_instance));
      } else if (callee == index) {
        a.patch(a.call(), entry);
      } else if (batch != nullptr) {
        batch->push_back({a.call(), callee});
      } else {
        a.mov(Width::k64, rax, STATE(functions));
        a.op(Alu::kAdd, Width::k64, rax, static_cast<int32_t>(callee * sizeof(FunctionCode)));
        a.call(Mem{rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
      }
    });
  }

  // The function that a call through a table reaches, in a register; another register is the caller's, too.
  struct Target {
    Reg function, spare;
  };
  // `element` is the index; with the arguments in their slots.
  Target find_target(const Instruction& in, Value& element) {
    const Reg i = register_of(element);
    const Reg table = alloc(), other = alloc();
    a.mov(Width::k64, table, STATE(tables));
    a.mov(Width::k64, table, {table, static_cast<int32_t>(in.index2 * 8)});
    a.mov(Width::k64, other, {table, kElementsEnd});
    a.mov(Width::k64, table, {table, kElementsBegin});
    a.op(Alu::kSub, Width::k64, other, table);
    a.shift(Shift::kShr, Width::k64, other, 3);
    a.op(Alu::kCmp, Width::k64, i, other);
    trap_if(Cond::kAE, TrapKind::kUndefinedElement);
    a.mov(Width::k64, table, {table, 0, i, 3});
    a.test(Width::k64, table, table);
    trap_if(Cond::kE, TrapKind::kUninitializedElement);
    // The same type has the same pointer inside a module; others are compared by a helper.
    a.mov(Width::k64, other, STATE(types));
    a.mov(Width::k64, other, {other, static_cast<int32_t>(in.index * 8)});
    a.op(Alu::kCmp, Width::k64, other, {table, static_cast<int32_t>(offsetof(FunctionHandle, type))});
    const Patch same = a.jcc(Cond::kE);
    a.mov(Width::k64, slot(element.slot), table);
    helper(Opcode::kCallIndirect, element.slot, in.index, 0);
    a.patch_here(same);
    release(element);
    return {table, other};
  }
  // The index of a call through a table, where what is settled for the call leaves it alone.
  Value pop_element() {
    Value element = pop();
    if (element.kind == Value::Kind::kLocal) {  // of which the register is about to be given up
      const Reg from = register_of(element);
      if (element.kind == Value::Kind::kRegister) return element;  // it was loaded into one of its own
      const Reg r = alloc();
      a.mov(Width::k64, r, from);
      element.kind = Value::Kind::kRegister;
      element.number = r;
    }
    return element;
  }

  void call_indirect(const Instruction& in) {
    const wasm::FuncType& t = module.types[in.index];
    Value element = pop_element();
    settle_for_call(stack.size() - t.params.size());
    const auto [target, spare] = find_target(in, element);
    free_registers |= 1u << target | 1u << spare;
    write_call(t, [&, callee = target] {
      if (callee != rax) a.mov(Width::k64, rax, callee);
      a.mov(Width::k64, rcx, STATE(home));
      a.op(Alu::kCmp, Width::k64, rcx, {rax, static_cast<int32_t>(offsetof(FunctionHandle, instance))});
      const Patch foreign = a.jcc(Cond::kNE);
      a.mov(Width::k64, rax, {rax, static_cast<int32_t>(offsetof(FunctionHandle, code))});
      a.mov(Width::k64, rcx, {rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
      const Patch go = a.jmp();
      a.patch_here(foreign);
      a.mov(Width::k64, rcx, STATE(exit_instance));
      a.patch_here(go);
      a.call_register(rcx);
    });
  }

  // -- tail calls: the frame becomes the callee's, and its return address stays ---------------------------------

  void return_call(uint32_t callee) {
    const wasm::FuncType& t = module.type_of_function(callee);
    const size_t first = stack.size() - t.params.size();
    if (module.functions[callee].import != wasm::kNotImported) {
      settle_arguments(first);
      return leave_by_tail(Opcode::kReturnCall, first, callee);
    }
    check_frame_of(callee);
    if (!move_arguments_at_once(first)) {
      settle_arguments(first);
      move_arguments(first, rax);
    }
    if (callee == index) {
      a.jmp(entry);
    } else if (batch != nullptr) {
      batch->push_back({a.jmp(), callee});
    } else {
      a.mov(Width::k64, rax, STATE(functions));
      a.op(Alu::kAdd, Width::k64, rax, static_cast<int32_t>(callee * sizeof(FunctionCode)));
      a.jmp(Mem{rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
    }
  }

  // The frame of a later function is not known when a batch comes here, but may be when this code is made again: it is
  // checked either way, and filled in.
  void check_frame_of(uint32_t callee) {
    const bool is_later = callee > index;
    const uint32_t slots = compiled.function(callee).frame_slots;
    if (!is_later && slots <= code->frame_slots) return;  // it fits as this one does
    const Reg end = alloc();
    if (is_later) {
      a.lea(Width::k64, end, {kFrame, INT32_MAX});
      if (batch != nullptr) batch->push_back({a.here(), callee, BatchCall::Wanted::kFrameBytes});
      else a.put32(a.here() - 4, static_cast<uint32_t>(slots * sizeof(uint64_t)));
    } else {
      a.lea(Width::k64, end, slot(slots));
    }
    a.op(Alu::kCmp, Width::k64, end, STATE(stack_end));
    trap_if(Cond::kA, TrapKind::kStackOverflow);
    free_registers |= 1u << end;
  }

  void return_call_indirect(const Instruction& in) {
    const wasm::FuncType& t = module.types[in.index];
    Value element = pop_element();
    const size_t first = stack.size() - t.params.size();
    settle_arguments(first);
    const auto [target, spare] = find_target(in, element);
    a.mov(Width::k64, spare, STATE(home));
    a.op(Alu::kCmp, Width::k64, spare, {target, static_cast<int32_t>(offsetof(FunctionHandle, instance))});
    const Patch own = a.jcc(Cond::kE);
    a.mov(Width::k64, slot(element.slot), target);
    leave_by_tail(Opcode::kReturnCallIndirect, first, wasm::slots_of(t.params));
    a.patch_here(own);
    a.mov(Width::k64, target, {target, static_cast<int32_t>(offsetof(FunctionHandle, code))});
    a.mov(Width::k32, spare, {target, static_cast<int32_t>(offsetof(FunctionCode, frame_slots))});
    a.lea(Width::k64, spare, {kFrame, 0, spare, 3});
    a.op(Alu::kCmp, Width::k64, spare, STATE(stack_end));
    trap_if(Cond::kA, TrapKind::kStackOverflow);
    move_arguments(first, spare);
    if (target != rax) a.mov(Width::k64, rax, target);
    a.jmp(Mem{rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
    free_registers |= 1u << target | 1u << spare;
  }

  // Into another instance, or to the host: the runtime does it all.
  void leave_by_tail(Opcode op, size_t first, uint32_t what) {
    helper(op, slot_at(first), what, 0);
    a.int3();
  }
  void settle_arguments(size_t first) {
    settle_flags();
    for (size_t i = first; i < stack.size(); ++i) store_entry(stack[i]);
  }
  // Down from their slots to the frame's first ones. Nothing else is in a register any more.
  void move_arguments(size_t first, Reg spare) {
    const uint32_t from = slot_at(first), count = top_slot() - from;
    uint32_t i = 0;
    for (; from != 0 && i + 2 <= count; i += 2) {
      a.ensure(Assembler::kRoom);
      a.vload16(0, slot(from + i));
      a.vstore16(slot(i), 0);
    }
    if (from == 0 || i == count) return;
    a.mov(Width::k64, spare, slot(from + i));
    a.mov(Width::k64, slot(i), spare);
  }
  // The same from registers and constants, when there is nothing else: false when an argument is in a slot that
  // another one goes to, or may be.
  bool move_arguments_at_once(size_t first) {
    settle_flags();
    ensure_spare();  // nothing may give way later, to a slot that is written already
    uint32_t to = 0;
    const auto in_slot = [&](const Value& v) {
      if (v.kind == Value::Kind::kSlot) return true;
      if (v.kind != Value::Kind::kLocal) return false;
      const Local& l = locals[v.local()];
      return (l.pin == kUnpinned || !((now.valid >> l.pin) & 1)) && l.slot != to;
    };
    for (size_t i = first; i < stack.size(); to += slots_of(stack[i++].bank))
      if (in_slot(stack[i])) return false;
    to = 0;
    for (size_t i = first; i < stack.size(); to += slots_of(stack[i++].bank)) {
      a.ensure(Assembler::kRoom);
      Value v = stack[i];
      const bool stays = v.kind == Value::Kind::kLocal && locals[v.local()].slot == to &&
                         (locals[v.local()].pin == kUnpinned || !((now.dirty >> locals[v.local()].pin) & 1));
      if (stays) continue;
      const bool lent = v.kind == Value::Kind::kRegister;
      store(v, to);
      if (!lent) release(v);
    }
    return true;
  }
  static constexpr int32_t kElementsBegin = offsetof(Table, elements) + TableElements::begin_at();
  static constexpr int32_t kElementsEnd = kElementsBegin + 8;

  // -- the function --------------------------------------------------------------------------------------------------

  void prologue() {
    a.lea(Width::k64, rcx, {kFrame, static_cast<int32_t>(code->frame_slots * 8)});
    a.op(Alu::kCmp, Width::k64, rcx, STATE(stack_end));
    Stub stub;
    stub.kind = Stub::Kind::kOverflow;
    stub.from = a.jcc(Cond::kA);
    stubs.push_back(stub);
    a.op(Alu::kCmp, Width::k64, rsp, STATE(depth_end));
    stub.from = a.jcc(Cond::kB);
    stubs.push_back(stub);
    clear_locals();
  }
  void clear_locals() {
    uint32_t at = code->param_slots, left = code->zero_slots;
    if (left == 0) return;
    constexpr uint32_t kUnrolled = 16;
    a.fbits(Bits::kXor, 0, 0, 0);
    if (left > kUnrolled) {
      a.lea(Width::k64, rcx, slot(at));
      a.lea(Width::k64, rdx, slot(at + (left & ~1u)));
      const uint32_t again = a.here();
      a.vstore16({rcx, 0}, 0);
      a.op(Alu::kAdd, Width::k64, rcx, 16);
      a.op(Alu::kCmp, Width::k64, rcx, rdx);
      a.patch(a.jcc(Cond::kNE), again);
      at += left & ~1u;
      left &= 1;
    }
    for (; left >= 2; left -= 2, at += 2) a.vstore16(slot(at), 0);
    if (left != 0) a.fstore(Real::kF64, slot(at), 0);
  }

  bool compile(const wasm::BodyNotes* notes);

  bool before(const Instruction& in);
  void make_room();
  void prepare(const Instruction& in);
  void instruction(const Instruction& in);
  void after(const Instruction& in);

  // -- small instructions --------------------------------------------------------------------------

  void nop() {}  // also i64.extend_i32_u: the high half is zero already
  void throw_here(const Instruction& in) {
    throw_exception(in, in.op == Opcode::kThrow ? module.type_of_tag(in.index).params.size() : 1);
  }
  void local_get(uint32_t index_of_local) {
    push_local(index_of_local, locals[index_of_local]);
    if (pending_locals > kMaxPendingLocals) settle_from(0);
  }
  void ref_func(uint32_t function_index) {
    const Reg r = alloc();
    if (module.functions[function_index].import != wasm::kNotImported) {
      a.mov(Width::k64, r, STATE(imports));
      a.mov(Width::k64, r, {r, static_cast<int32_t>(function_index * 8)});
    } else {
      const uint32_t own = function_index - module.imported_function_count();
      a.mov(Width::k64, r, STATE(own_functions));
      a.op(Alu::kAdd, Width::k64, r, static_cast<int32_t>(own * sizeof(FunctionInstance)));
    }
    push_register(r);
  }
  void demote() {
    float_unary(true, true, [this](Xmm to, Xmm from) {
      const Xmm zero = alloc_real();
      a.fbits(Bits::kXor, zero, zero, zero);
      a.convert_real(Real::kF64, to, zero, from);  // the upper part comes from the middle operand
      free_reals |= 1u << zero;
    });
  }
  void real_to_bits(Width w) {
    Value v = pop();
    if (v.kind == Value::Kind::kConstant) return push_constant(v.constant);
    const Xmm x = real_of(v);
    settle_nan(v);
    const Reg r = alloc();
    a.fmov_to(w, r, x);
    release(v);
    push_register(r);
  }
  void bits_to_real(Width w) {
    Value v = pop();
    if (v.kind == Value::Kind::kConstant) return push_constant(v.constant, Bank::kReal, w == Width::k32);
    const Reg r = register_of(v);
    const Xmm x = alloc_real();
    a.fmov_from(w, x, r);
    release(v);
    push_real(x, w == Width::k32, false);
  }
};

// -- one instruction ---------------------------------------------------------------------------------------------------

namespace {

// What each instruction becomes. One jump leads there: which instruction comes next cannot be foretold, and a
// jump that goes where it was not expected costs as much as all else that is done for an instruction.
struct Emission {
  using Emit = void (*)(Compiler::Parts&, const Instruction&);
  Opcode op;
  Emit emit;
};

// clang-format off
#define EMIT(op, statement)                                                                \
  Emission{Opcode::op, [](Compiler::Parts& p, [[maybe_unused]] const Instruction& in) { p.statement; }},
#define BOTH(name, statement32, statement64) EMIT(kI32##name, statement32) EMIT(kI64##name, statement64)
#define REALS(name, statement32, statement64) EMIT(kF32##name, statement32) EMIT(kF64##name, statement64)
#define ALU(name, operation) BOTH(name, alu(Alu::operation, Width::k32), alu(Alu::operation, Width::k64))
#define SHIFT(name, operation) \
  BOTH(name, shift(Shift::operation, Width::k32), shift(Shift::operation, Width::k64))
#define COMPARE(name, condition) \
  BOTH(name, compare(Width::k32, Cond::condition), compare(Width::k64, Cond::condition))
#define UNARY(op, call) EMIT(op, unary([&p](Reg to, Reg from) { p.a.call; }))
#define COUNT(name, instruction) \
  UNARY(kI32##name, instruction(Width::k32, to, from)) UNARY(kI64##name, instruction(Width::k64, to, from))
#define FLOAT(name, operation) \
  REALS(name, float_binary(Float::operation, true), float_binary(Float::operation, false))
#define FLOAT_COMPARE(name) REALS(name, float_compare(in.op, true), float_compare(in.op, false))
#define SIGN(name, bits, mask)                                                                           \
  REALS(name, float_sign(Bits::bits, p.constant_at(offsetof(NativeState, mask), true), true),            \
        float_sign(Bits::bits, p.constant_at(offsetof(NativeState, mask), false), false))
#define FLOAT_UNARY(name, call32, call64)                                             \
  REALS(name, float_unary(true, true, [&p](Xmm to, Xmm from) { p.a.call32; }),        \
        float_unary(false, true, [&p](Xmm to, Xmm from) { p.a.call64; }))
#define ROUND(name, mode) FLOAT_UNARY(name, fround(Real::kF32, to, from, mode), fround(Real::kF64, to, from, mode))
#define HELPER(op, operands, type) EMIT(op, simple_helper(in, operands, type))
#define BULK(op, type) EMIT(op, bulk(in, type))

constexpr Emission kEmissions[] = {
  EMIT(kNop, nop())
  EMIT(kUnreachable, trap(TrapKind::kUnreachable))
  EMIT(kThrow, throw_here(in))
  EMIT(kThrowRef, throw_here(in))
  EMIT(kBr, branch_to(in.index))
  EMIT(kBrIf, branch_if(in.index))
  EMIT(kBrTable, branch_table(in))
  EMIT(kReturn, write_return())
  EMIT(kCall, call(in.index))
  EMIT(kCallIndirect, call_indirect(in))
  EMIT(kReturnCall, return_call(in.index))
  EMIT(kReturnCallIndirect, return_call_indirect(in))
  EMIT(kDrop, release(p.pop()))
  EMIT(kSelect, select())
  EMIT(kSelectTyped, select())
  EMIT(kLocalGet, local_get(in.index))
  EMIT(kLocalSet, local_set(in.index, false))
  EMIT(kLocalTee, local_set(in.index, true))
  EMIT(kGlobalGet, global_get(in.index))
  EMIT(kGlobalSet, global_set(in.index))
  EMIT(kI32Const, push_constant(static_cast<uint32_t>(in.value)))
  EMIT(kI64Const, push_constant(in.value))
  EMIT(kF32Const, push_constant(in.value, Bank::kReal, true))
  EMIT(kF64Const, push_constant(in.value, Bank::kReal, false))
  EMIT(kRefNull, push_constant(0))
  EMIT(kRefIsNull, is_zero(Width::k64))
  EMIT(kRefFunc, ref_func(in.index))
  HELPER(kTableGet, 1, ValType::kFuncRef)
  HELPER(kTableSet, 2, std::nullopt)
  HELPER(kTableSize, 0, ValType::kI32)
  HELPER(kMemorySize, 0, ValType::kI32)
  HELPER(kDataDrop, 0, std::nullopt)
  HELPER(kElemDrop, 0, std::nullopt)
  BULK(kMemoryGrow, ValType::kI32)
  BULK(kMemoryFill, std::nullopt)
  BULK(kMemoryCopy, std::nullopt)
  BULK(kMemoryInit, std::nullopt)
  BULK(kTableGrow, ValType::kI32)
  BULK(kTableFill, std::nullopt)
  BULK(kTableCopy, std::nullopt)
  BULK(kTableInit, std::nullopt)
  ALU(Add, kAdd) ALU(Sub, kSub) ALU(And, kAnd) ALU(Or, kOr) ALU(Xor, kXor)
  BOTH(Mul, multiply(Width::k32), multiply(Width::k64))
  SHIFT(Shl, kShl) SHIFT(ShrS, kSar) SHIFT(ShrU, kShr) SHIFT(Rotl, kRol) SHIFT(Rotr, kRor)
  BOTH(DivS, divide(Width::k32, true, false), divide(Width::k64, true, false))
  BOTH(DivU, divide(Width::k32, false, false), divide(Width::k64, false, false))
  BOTH(RemS, divide(Width::k32, true, true), divide(Width::k64, true, true))
  BOTH(RemU, divide(Width::k32, false, true), divide(Width::k64, false, true))
  COMPARE(Eq, kE) COMPARE(Ne, kNE) COMPARE(LtS, kL) COMPARE(LtU, kB) COMPARE(GtS, kG)
  COMPARE(GtU, kA) COMPARE(LeS, kLE) COMPARE(LeU, kBE) COMPARE(GeS, kGE) COMPARE(GeU, kAE)
  BOTH(Eqz, is_zero(Width::k32), is_zero(Width::k64))
  COUNT(Clz, lzcnt) COUNT(Ctz, tzcnt) COUNT(Popcnt, popcnt)
  FLOAT(Add, kAdd) FLOAT(Sub, kSub) FLOAT(Mul, kMul) FLOAT(Div, kDiv)
  REALS(Min, float_extreme(false, true), float_extreme(false, false))
  REALS(Max, float_extreme(true, true), float_extreme(true, false))
  REALS(Copysign, copysign(true), copysign(false))
  FLOAT_COMPARE(Eq) FLOAT_COMPARE(Ne) FLOAT_COMPARE(Lt) FLOAT_COMPARE(Gt) FLOAT_COMPARE(Le) FLOAT_COMPARE(Ge)
  SIGN(Abs, kAnd, magnitude) SIGN(Neg, kXor, sign_bit)
  ROUND(Nearest, 8) ROUND(Floor, 9) ROUND(Ceil, 10) ROUND(Trunc, 11)
  FLOAT_UNARY(Sqrt, fop(Float::kSqrt, Real::kF32, to, from, from), fop(Float::kSqrt, Real::kF64, to, from, from))
  EMIT(kI32Load, load(in, false, false))
  EMIT(kI64Load, load(in, false, false))
  EMIT(kI32Load8S, load(in, false, false))
  EMIT(kI32Load8U, load(in, false, false))
  EMIT(kI32Load16S, load(in, false, false))
  EMIT(kI32Load16U, load(in, false, false))
  EMIT(kI64Load8S, load(in, false, false))
  EMIT(kI64Load8U, load(in, false, false))
  EMIT(kI64Load16S, load(in, false, false))
  EMIT(kI64Load16U, load(in, false, false))
  EMIT(kI64Load32S, load(in, false, false))
  EMIT(kI64Load32U, load(in, false, false))
  EMIT(kF32Load, load(in, true, true))
  EMIT(kF64Load, load(in, true, false))
  EMIT(kI32Store, store_memory(in, false, false))
  EMIT(kI64Store, store_memory(in, false, false))
  EMIT(kI32Store8, store_memory(in, false, false))
  EMIT(kI32Store16, store_memory(in, false, false))
  EMIT(kI64Store8, store_memory(in, false, false))
  EMIT(kI64Store16, store_memory(in, false, false))
  EMIT(kI64Store32, store_memory(in, false, false))
  EMIT(kF32Store, store_memory(in, true, true))
  EMIT(kF64Store, store_memory(in, true, false))
  UNARY(kI32WrapI64, mov(Width::k32, to, from))
  EMIT(kI64ExtendI32U, nop())
  UNARY(kI64ExtendI32S, movsxd(to, from)) UNARY(kI64Extend32S, movsxd(to, from))
  UNARY(kI32Extend8S, movsx8(Width::k32, to, from)) UNARY(kI32Extend16S, movsx16(Width::k32, to, from))
  UNARY(kI64Extend8S, movsx8(Width::k64, to, from)) UNARY(kI64Extend16S, movsx16(Width::k64, to, from))
  EMIT(kF32ConvertI32S, int_to_float(Width::k32, true)) EMIT(kF64ConvertI32S, int_to_float(Width::k32, false))
  EMIT(kF32ConvertI32U, int_to_float(Width::k64, true)) EMIT(kF64ConvertI32U, int_to_float(Width::k64, false))
  EMIT(kF32ConvertI64S, int_to_float(Width::k64, true)) EMIT(kF64ConvertI64S, int_to_float(Width::k64, false))
  EMIT(kF32DemoteF64, demote())
  EMIT(kF64PromoteF32, float_unary(false, true, [&p](Xmm to, Xmm from) { p.a.float_to_float(Real::kF32, to, from); }))
  EMIT(kI32ReinterpretF32, real_to_bits(Width::k32)) EMIT(kI64ReinterpretF64, real_to_bits(Width::k64))
  EMIT(kF32ReinterpretI32, bits_to_real(Width::k32)) EMIT(kF64ReinterpretI64, bits_to_real(Width::k64))
  EMIT(kI32TruncF32S, truncate_checked(true, true)) EMIT(kI32TruncF32U, truncate_checked(true, false))
  EMIT(kI32TruncF64S, truncate_checked(false, true)) EMIT(kI32TruncF64U, truncate_checked(false, false))
  HELPER(kF32ConvertI64U, 1, ValType::kF32) HELPER(kF64ConvertI64U, 1, ValType::kF64)
  HELPER(kI32TruncSatF32S, 1, ValType::kI32) HELPER(kI32TruncSatF32U, 1, ValType::kI32)
  HELPER(kI32TruncSatF64S, 1, ValType::kI32) HELPER(kI32TruncSatF64U, 1, ValType::kI32)
  HELPER(kI64TruncF32S, 1, ValType::kI64) HELPER(kI64TruncF32U, 1, ValType::kI64)
  HELPER(kI64TruncF64S, 1, ValType::kI64) HELPER(kI64TruncF64U, 1, ValType::kI64)
  HELPER(kI64TruncSatF32S, 1, ValType::kI64) HELPER(kI64TruncSatF32U, 1, ValType::kI64)
  HELPER(kI64TruncSatF64S, 1, ValType::kI64) HELPER(kI64TruncSatF64U, 1, ValType::kI64)
};
// clang-format on
#undef EMIT

// The same by opcode, with what else is asked of each instruction.
struct Emitter {
  Emission::Emit emit = [](Compiler::Parts& p, const Instruction&) { p.failed = true; };
  bool takes_flags = false;
};
constexpr auto kEmitters = [] consteval {
  std::array<Emitter, wasm::kOpcodeCount> emitters;
  for (const Emission& row : kEmissions) emitters[static_cast<size_t>(row.op)].emit = row.emit;
  for (const Opcode op : {Opcode::kBrIf, Opcode::kIf, Opcode::kSelect, Opcode::kI32Eqz, Opcode::kLocalSet})
    emitters[static_cast<size_t>(op)].takes_flags = true;
  for (size_t i = 0; i < emitters.size(); ++i) {
    if (wasm::info(static_cast<Opcode>(i)).prefix != kVectorPrefix) continue;
    emitters[i].emit = [](Compiler::Parts& p, const Instruction& in) { p.vector(in); };
  }
  return emitters;
}();

}  // namespace

MEMBRANE_INLINE bool Compiler::Parts::before(const Instruction& /*in*/) {
  if (!a.has_room(Assembler::kRoom)) [[unlikely]]
    make_room();
  if (is_watched) [[unlikely]]
    instruction_code = a.here();
  return !failed && !StopScope::stop_wanted();
}

// Of code that is too long no more is made than the buffer holds.
void Compiler::Parts::make_room() {
  failed = failed || a.here() > most_bytes;
  a.ensure(Assembler::kRoom);
}

// Flags hold a value only until the next instruction, which may be one that uses them.
MEMBRANE_INLINE void Compiler::Parts::prepare(const Instruction& in) {
  if (has_flags()) {
    if (!kEmitters[static_cast<size_t>(in.op)].takes_flags) settle_flags();
  } else if (stack.size() - settled > kMaxUnsettled) [[unlikely]] {
    settle_from(0);
  }
}

MEMBRANE_INLINE void Compiler::Parts::instruction(const Instruction& in) {
  kEmitters[static_cast<size_t>(in.op)].emit(*this, in);
}

// What stands from instruction_code on is this instruction's.
MEMBRANE_INLINE void Compiler::Parts::after(const Instruction& /*in*/) {
  if (!is_watched) [[likely]]
    return;
  by_pc.each_between(instruction_code - entry, a.here() - entry, [this](Watch& w) {
    if (!w.found) note_place(w, walk.offset(), walk.cost());
  });
}

bool Compiler::Parts::compile(const wasm::BodyNotes* notes) {
  operand_registers = free_registers;
  operand_reals = free_reals;
  entry = a.here();
  most_bytes = kMaxCodeBytes + uint64_t{kMaxExpansion} * function->code.size;
  a.ensure(Assembler::kRoom);
  prologue();
  const uint32_t entry_cost = zeroing_cost(code->zero_slots);
  const bool is_decoded = notes != nullptr && notes->body.is_whole();
  const bool ended = is_decoded ? walk.run(module, *function, locals_end, entry_cost, notes->body)
                                : walk.run(module, *function, locals_end, entry_cost);
  if (!ended || failed) return false;
  write_landings();
  if (a.here() > most_bytes) return false;
  write_stubs();
  write_constants();
  a.ensure(Assembler::kRoom);
  a.int3();  // the return address of a last call is inside the function, too
  for (Watch& w : watches)
    if (w.found) w.cost = segment_costs[w.segment];
  return true;
}

// -- the face ----------------------------------------------------------------------------------------------------------

Compiler::Compiler(CompiledModule& module) : parts_(std::make_unique<Parts>(module)) {}
Compiler::~Compiler() = default;

std::span<const uint8_t> Compiler::compile(uint32_t index, std::vector<BatchCall>* calls,
                                           std::span<Watch> watches, CatchTable* catches,
                                           const wasm::BodyNotes* notes) {
  Parts& p = *parts_;
  p.batch = calls;
  p.watches = watches;
  p.is_watched = !watches.empty();
  p.by_pc.look_for(watches, &Watch::wanted_pc);
  p.by_offset.look_for(watches, &Watch::wanted_code_offset);
  const size_t calls_before = calls == nullptr ? 0 : calls->size();
  p.a.start_over();
  if (p.prepare(index, notes == nullptr ? nullptr : &notes->uses) && p.compile(notes)) {
    if (catches != nullptr) *catches = p.catches;
    return {p.a.data(), p.a.here()};
  }
  if (calls != nullptr) calls->resize(calls_before);
  return {};
}

bool machine_is_supported() {
#if MEMBRANE_GUARD_PAGES && defined(__x86_64__)
  static const bool supported = [] {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt") &&
           __builtin_cpu_supports("popcnt");
  }();
  return supported;
#else
  return false;
#endif
}

}  // namespace membrane::engine::native
