// The compiler of one function: what it knows while it walks the body, and what each of its parts does.
//
// Compiler::Parts is the visitor of the walk (wasm/body_walk.h). Its methods are in files by subject:
// compiler_pins.cc (which locals have registers), compiler_values.cc (values and registers), compiler_segments.cc
// (charges, stubs, watches), compiler_arithmetic.cc, compiler_memory.cc (memory, variables, helpers),
// compiler_vectors.cc, compiler_control.cc (branches, merge points, blocks, exceptions) and compiler_calls.cc;
// compiler.cc has the table of instructions. What is small and done for nearly every instruction is inline here.
//
// Invariants, between two instructions:
//  1. An operand register is either in free_registers (free_reals) or held by exactly one value of the stack. A value
//     that was popped belongs to the method that popped it, which releases it.
//  2. Of a pinned local, `now` says where it is: in its register (valid), there and not in its slot (dirty), or in its
//     slot only. A value of kind kLocal means the local as it is now; settle_local() comes before each change of it.
//  3. So many values from the bottom as `settled` says are in their slots, or constants.
//  4. pending_locals is the number of values of kind kLocal, flags_on_top whether the last one is kFlags.
//  5. At a merge point, all ways have the pinned locals where the label says (Label::pins), and no NaN that is not canonical.
//  6. The charge of the open segment is written once it costs something, before any code that does something.
//
// Threads: belongs to one Compiler.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "base/stop_scope.h"
#include "engine/code/code_query.h"
#include "engine/code/compiled_module.h"
#include "engine/code/fuel.h"
#include "engine/native/assembler.h"
#include "engine/native/compiler.h"
#include "engine/native/state.h"
#include "engine/native/value_stack.h"
#include "engine/native/vector_code.h"
#include "wasm/body_walk.h"

namespace membrane::engine::native {

using wasm::Instruction;
using wasm::Opcode;
using wasm::ValType;
using Float = Assembler::Float;
using Bits = Assembler::Bits;

inline constexpr uint32_t kNone = UINT32_MAX;
inline constexpr uint8_t kVectorPrefix = 0xFD;  // of vector instructions

// Bounds that keep compilation linear on hostile code. What is beyond them is the interpreter's.
inline constexpr size_t kMaxLocals = 4'000;
inline constexpr size_t kMaxUnsettled = 64;        // entries of the stack that are looked through
inline constexpr uint32_t kMaxPendingLocals = 32;  // of these, that name locals
inline constexpr uint32_t kFewValues =
    16;  // more are copied by a loop: code does not grow with what a branch carries
inline constexpr uint32_t kMaxCodeBytes = 1u << 20,
                          kMaxExpansion = 40;  // of a function, and for each byte of its body

// -- registers ---------------------------------------------------------------------------

inline constexpr Reg kFrame = rbp, kMemory = rbx, kFuelLeft = r15, kState = r14;
// Locals are pinned to these in order of their weight; what is left over serves operands.
inline constexpr std::array<Reg, 7> kPinnable = {rdi, r8, r9, r10, r11, r12, r13};
inline constexpr uint32_t kOperandRegisters = 1u << rax | 1u << rcx | 1u << rdx | 1u << rsi;
inline constexpr uint32_t kFirstPinnableReal = 6, kPinnableReals = 10;
inline constexpr Xmm kScratch =
    15;  // of functions that use vectors: never holds a value from one instruction to the next
inline constexpr uint32_t kMaxPins = kPinnable.size() + kPinnableReals;
inline constexpr uint8_t kUnpinned = 0xFF;

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

// What else the compiler knows of an open block.
struct Label : wasm::BlockLabel {
  bool has_pins = false;
  Pins pins;                // as every way that arrives must have them
  uint32_t target = kNone;  // kLoop: where branches go
  Patch fixups = kNone;     // chain of displacements that wait for the end
  Patch else_fixup = kNone;
  Pins else_pins;            // kIf: at the test
  uint32_t catches = kNone;  // chain of the clauses that wait for this label's end
};

// Code off the hot path, written after the function's end.
struct Stub {
  enum class Kind : uint8_t { kTrap, kOverflow, kCanonical, kCanonicalLanes } kind{};
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

inline Bank bank_of(ValType t) {
  if (t == ValType::kV128) return Bank::kVector;
  return t == ValType::kF32 || t == ValType::kF64 ? Bank::kReal : Bank::kInteger;
}

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
  CodeQuery<Watch> by_pc, by_offset;  // the same
  // What is asked after each instruction, together.
  static constexpr uint8_t kIsWatched = 1, kFailed = 2;
  uint8_t attention = 0;
  [[nodiscard]] bool is_watched() const { return (attention & kIsWatched) != 0; }  // there are watches
  [[nodiscard]] bool failed() const { return (attention & kFailed) != 0; }
  void fail() { attention |= kFailed; }

  std::vector<Local> locals;
  uint32_t locals_end = 0;
  std::array<Pin, kMaxPins> pins{};
  uint32_t pin_count = 0;
  std::vector<uint64_t> candidates;  // locals that may be pinned: weight, and how late they are used
  wasm::LocalUses own_uses;          // of functions without the validator's notes
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
  std::vector<Patch> fuel_stubs;    // of each charge: its branch to a stub
  std::vector<Constant> constants;  // vectors that are written after the code
  struct ConstantUse {
    Patch at;
    uint32_t constant;
  };
  std::vector<ConstantUse> constant_uses;
  uint32_t segment_count = 0;           // that have ended
  std::vector<uint32_t> segment_costs;  // theirs, for watches
  Pins now;
  uint32_t free_registers = 0, free_reals = 0;
  uint32_t pending_locals = 0;
  bool flags_on_top = false;  // whether the last entry is kFlags
  Patch charge = kNone;       // of the open segment: of its constant, once it is written
  uint32_t entry = 0;
  uint32_t instruction_code = 0;  // where the code of the instruction at hand begins
  uint64_t most_bytes = 0;        // of code

  // -- preparing -----------------------------------------------------------------------------

  bool prepare(uint32_t function_index, const wasm::LocalUses* uses);

  void choose_pins(const wasm::LocalUses& uses);
  void note_loops(const wasm::LocalUses& uses);

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
  void evict(bool real, uint32_t except);
  void take(Reg r);

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
  void load_pin(uint8_t pin);

  // A register that holds the value, to be read. The caller releases `v`, which becomes kRegister unless a
  // pinned register is lent.
  MEMBRANE_INLINE Reg register_of(Value& v, uint32_t except = 0) {
    if (v.kind == Value::Kind::kRegister) return static_cast<Reg>(v.number);
    if (v.kind == Value::Kind::kLocal)
      if (const uint8_t pin = locals[v.local()].pin; pin != kUnpinned) return static_cast<Reg>(pinned(pin));
    return load_into_register(v, except);
  }
  Reg load_into_register(Value& v, uint32_t except);
  Reg load_from(Value& v, uint32_t from, uint32_t except);
  Xmm real_of(Value& v, uint32_t except = 0);
  Xmm load_real_from(Value& v, uint32_t from, uint32_t except);
  // A register that may be overwritten with a result: the value's own when it is an operand register.
  bool is_operand_register(const Value& v) const {
    return v.kind == Value::Kind::kRegister &&
           (((v.real() ? operand_reals : operand_registers) >> v.number) & 1) != 0;
  }

  static Real kind_of(bool is_f32) { return is_f32 ? Real::kF32 : Real::kF64; }

  void make_canonical(Xmm x, bool is_f32, Bank bank);
  static constexpr uint8_t kUnordered = 3;  // the predicate of a comparison
  bool nan_is_f32(uint32_t pin) const {
    return pins[pin].bank == Bank::kVector ? ((now.f32 >> pin) & 1) != 0 : pins[pin].is_f32;
  }
  void make_pin_canonical(uint32_t pin);
  void settle_nan(Value& v);

  void store(Value& v, uint32_t to);
  void store_entry(Value& v);
  void settle_from(size_t first);

  void settle_for_call(size_t first_argument);
  void store_pin(uint32_t pin);
  void settle_pins();

  // -- segments ------------------------------------------------------------------------------------

  void end_segment(uint32_t cost) {
    if (charge != kNone) a.put32(charge - 4, cost);
    if (is_watched()) segment_costs.push_back(cost);
    ++segment_count;
    charge = kNone;
    if (StopScope::stop_wanted()) [[unlikely]]
      fail();
  }
  void begin_segment(uint32_t /*offset*/) {}  // see begin_cost()
  // The charge is written before the first instruction that costs something; those before do nothing.
  void begin_cost() {
    if (!kMetered) return;
    const Assembler::ChargePatches written = a.charge(kFuelLeft);
    charge = written.constant;
    fuel_stubs.push_back(written.branch);
    if (!is_watched()) return;
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
  // Of the instruction at hand; filled in its place.
  Stub& add_stub(Stub::Kind kind) {
    Stub& stub = stubs.emplace_back();
    stub.kind = kind;
    stub.offset = walk.offset();
    stub.cost_to_here = walk.cost();
    stub.segment = segment_count;
    return stub;
  }
  void note_place(Watch& w, uint32_t code_offset, uint32_t cost_to_here) const;
  // A place that an exit's return address stands for.
  void note_exit() {
    by_pc.each_at(a.here() - entry, [this](Watch& w) { note_place(w, walk.offset(), walk.cost()); });
  }
  void note_locations(Watch& w) const;
  static void note_location(Watch& w, Location l, Bank bank, uint64_t value_of_high);

  void trap_if(Cond c, TrapKind kind);
  static Mem trap_exit(TrapKind kind) {
    return {kState, static_cast<int32_t>(offsetof(NativeState, exit_trap) + 8 * static_cast<size_t>(kind))};
  }
  void trap(TrapKind kind);

  void write_stubs();

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
  Mem memory_of(const Value& v) const;

  // The operands of an operation whose second one may be a constant or in memory, and where its result goes.
  struct Operands {
    Value first, second;
    bool is_constant = false;
    int32_t constant = 0;
    Mem memory;
    Reg from = rax, other = rax;  // the registers of the first, and of a second that is neither
    Reg to = rax;
  };
  Operands take_operands(Width w, bool commutes);
  void order(Value& first, Value& second) const;
  void give_result(const Operands& o);

  void alu(Alu op, Width w);

  void multiply(Width w);

  void shift(Shift s, Width w);
  void rotate(Shift s, Width w, Value first, Value second);

  void divide(Width w, bool is_signed, bool remainder);

  void compare(Width w, Cond c);
  void is_zero(Width w);

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

  void float_binary(Float o, bool is_f32);
  void float_extreme(bool is_max, bool is_f32);
  template <typename F>
  void float_unary(bool to_f32, bool maybe_nan, const F& emit) {
    Value v = pop();
    const Xmm from = real_of(v);
    const Xmm to = destination_real(v);
    emit(to, from);
    release_unless(v, to);
    push_real(to, to_f32, maybe_nan);
  }
  void float_sign(Bits o, const Mem& mask, bool is_f32);
  static Mem constant_at(size_t base, bool is_f32) {
    return {kState, static_cast<int32_t>(base + sizeof(Constant) * static_cast<size_t>(kind_of(is_f32)))};
  }
  void copysign(bool is_f32);
  void float_compare(Opcode op, bool is_f32);

  void int_to_float(Width w, bool is_f32);
  void truncate_checked(bool from_f32, bool is_signed);
  void demote();
  void real_to_bits(Width w);
  void bits_to_real(Width w);

  // -- memory ---------------------------------------------------------------------------------------------

  // Only the first memory's base is in a register, and only 32-bit addresses need no bounds.
  [[nodiscard]] bool is_far(uint32_t memory) const {
    return has_far_memories && (memory != 0 || module.memories[0].type.limits.is_64);
  }
  Mem address_of(Value& v, const Instruction& in);
  Mem far_address_of(Value& v, const Instruction& in);
  Mem address_of(Value& v, uint64_t displacement);

  void load(const Instruction& in, bool real, bool is_f32);

  void store_memory(const Instruction& in, bool real, bool is_f32);

  // -- vectors --------------------------------------------------------------------------------------------

  uint32_t constant_of(const Constant& wanted);
  uint32_t constant_of_bytes(const uint8_t* bytes);
  void load_constant(Xmm to, uint64_t number);
  void write_constants();

  Xmm vector_of(Value& v, Lanes reads = Lanes::kNone);
  Xmm vector_destination();

  void vector_operation(const VectorCode& row);
  void vector_unary(const VectorCode& row);
  template <typename Operand>
  void write_avx(const VectorCode& row, Xmm to, Xmm x, Operand y) {
    if (row.constant < 0) a.avx(row.avx, to, x, y);
    else a.avx(row.avx, to, x, y, static_cast<uint8_t>(row.constant));
  }
  void vector_sequence(const VectorCode& row);
  Xmm sequence_destination(const std::array<Xmm, 3>& operands, size_t count);

  void vector_shift(const VectorCode& row);

  void shuffle(const uint8_t* indices);
  Xmm shuffle_bytes(const uint8_t (&indices)[16], Xmm x, Xmm y);

  void splat(const VectorCode& row);

  void extract_lane(const VectorCode& row, uint8_t lane);
  void extract_float(const VectorCode& row, uint8_t lane);
  void replace_lane(const VectorCode& row, uint8_t lane);
  void replace_float(const VectorCode& row, uint8_t lane);

  void any_true();
  void all_true(const VectorCode& row);
  void bitmask(const VectorCode& row);

  void load_vector(const Instruction& in, const VectorCode& row);
  void store_vector(const Instruction& in);
  void load_lane(const Instruction& in, const VectorCode& row);
  void store_lane(const Instruction& in, const VectorCode& row);

  void vector(const Instruction& in);

  // -- variables -------------------------------------------------------------------------------------------

  void settle_local(uint32_t local);

  void local_set(uint32_t index_of_local, bool keep);

  Reg global_cell(uint32_t global);
  static constexpr int32_t kGlobalBits = offsetof(GlobalInstance, bits);
  static_assert(offsetof(GlobalInstance, high_bits) == kGlobalBits + 8);
  void global_get(uint32_t global);
  void global_set(uint32_t global);
  void ref_func(uint32_t function_index);

  void select();
  void select_real(Value& condition, Value& no, Value& yes);
  Cond test_nonzero(Value& v);

  // -- helpers: what is seldom or long ---------------------------------------------------------------------

  void helper(Opcode op, uint32_t first_slot, uint32_t index1, uint32_t index2);
  void simple_helper(const Instruction& in, size_t operands, std::optional<ValType> result);
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
  static size_t bulk_operands(Opcode op);
  void bulk(const Instruction& in, std::optional<ValType> result);

  // -- joins -------------------------------------------------------------------------------------------------

  // At a join no pin may have a NaN to be made canonical: on another way it may be one that was loaded, whose
  // bits stay.
  static bool conforms(const Pins& from, const Pins& to) {
    return (to.valid & ~from.valid) == 0 && (from.dirty & ~to.valid) == 0 && from.nan == 0;
  }
  void conform(const Pins& to);
  void note_way(Label& label);

  void link(Label& label, Patch at);
  void bind(Label& label);

  bool values_in_place(const Label& label) const;
  void settle_for_branch(const Label& label);
  void move_values(const Label& label);
  void copy_slots(uint32_t to, uint32_t from, uint32_t count);

  void jump_to(Label& label);
  void conform_to(Label& label);

  void branch_to(uint32_t depth);

  Cond condition();
  void ensure_spare();

  void branch_if(uint32_t depth);

  void branch_table(const Instruction& in);

  void write_return();

  // -- exceptions: as in the translator, nothing is done when a try_table is entered or left -------------------

  void add_clause(const wasm::CatchClause& clause, Label& target);
  void add_region(uint32_t outer, uint32_t first, uint32_t count) {
    catches.regions.push_back({outer, first, count});
  }
  void begin_region(uint32_t begun) { catches.boundaries.push_back({a.here() - entry, begun}); }
  void land_here(Label& label);
  void write_landings();
  void write_landed_return();
  void throw_exception(const Instruction& in, size_t operands);

  // -- blocks --------------------------------------------------------------------------------------------------

  size_t height() const { return stack.size(); }
  // The slot of an entry, or of the next one.
  uint32_t slot_at(size_t entry_of_stack) const {
    return entry_of_stack == stack.size() ? top_slot() : stack[entry_of_stack].slot;
  }
  void settle() { settle_from(0); }
  void cut(size_t to) { cut_stack(to); }
  void push_types(std::span<const ValType> types) { push_slots(types); }

  void begin_loop(Label& l);

  Patch test();
  void begin_then(Label& l, Patch skip);
  Cond settled_condition();

  void end_arm(Label& l);
  void begin_else(Label& l);
  void finish() { write_return(); }

  void join(Label& l, bool falls_in);

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

  void call(uint32_t callee);

  // The function that a call through a table reaches, in a register; another register is the caller's, too.
  struct Target {
    Reg function, spare;
  };
  Target find_target(const Instruction& in, Value& element);
  Value pop_element();

  void call_indirect(const Instruction& in);

  // -- tail calls: the frame becomes the callee's, and its return address stays ---------------------------------

  void return_call(uint32_t callee);

  void check_frame_of(uint32_t callee);

  void return_call_indirect(const Instruction& in);

  void leave_by_tail(Opcode op, size_t first, uint32_t what);
  void settle_arguments(size_t first);
  void move_arguments(size_t first, Reg spare);
  bool move_arguments_at_once(size_t first);
  static constexpr int32_t kElementsBegin = offsetof(Table, elements) + TableElements::begin_at();
  static constexpr int32_t kElementsEnd = kElementsBegin + 8;

  // -- the function --------------------------------------------------------------------------------------------------

  void prologue();
  void clear_locals();

  bool compile(const wasm::BodyNotes* notes);

  void before(const Instruction& in);
  void make_room();
  void prepare(const Instruction& in);
  void instruction(const Instruction& in);
  bool after(const Instruction& in);
  bool look_after();

  // -- small instructions --------------------------------------------------------------------------

  void nop() {}  // also i64.extend_i32_u: the high half is zero already
  void throw_here(const Instruction& in) {
    throw_exception(in, in.op == Opcode::kThrow ? module.type_of_tag(in.index).params.size() : 1);
  }
  void local_get(uint32_t index_of_local) {
    push_local(index_of_local, locals[index_of_local]);
    if (pending_locals > kMaxPendingLocals) settle_from(0);
  }
};

}  // namespace membrane::engine::native
