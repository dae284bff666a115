// The compiler of one function: a visitor of the walk over its body (wasm/body_walk.h), which composes what the
// classes beside it know: where values are (operand_stack.h), which registers are free (registers.h), which locals have
// registers (pinned_locals.h), the open fuel segment (segments.h), and what is written after the code (stubs.h,
// vector_constants.h, catch_landings.h). Their invariants hold between two instructions.
//
// Its methods are in files by subject: compiler_values.cc (values and registers), compiler_watches.cc (what is noted of
// places that are asked about, and traps), compiler_arithmetic.cc, compiler_memory.cc (memory, variables, helpers),
// compiler_vectors.cc, compiler_control.cc (branches, merge points, blocks, exceptions) and compiler_calls.cc;
// compiler.cc has the table of instructions. What is small and done for nearly every instruction is inline here.
//
// Threads: belongs to one Compiler.
#pragma once

#include <array>
#include <bit>
#include <optional>
#include <span>
#include <vector>

#include "engine/code/compiled_module.h"
#include "engine/code/fuel.h"
#include "engine/native/assembler.h"
#include "engine/native/catch_landings.h"
#include "engine/native/compiler.h"
#include "engine/native/operand_stack.h"
#include "engine/native/pinned_locals.h"
#include "engine/native/registers.h"
#include "engine/native/segments.h"
#include "engine/native/state.h"
#include "engine/native/stubs.h"
#include "engine/native/vector_code.h"
#include "engine/native/vector_constants.h"
#include "engine/native/watches.h"
#include "wasm/body_walk.h"

namespace membrane::engine::native {

using wasm::Instruction;
using wasm::Opcode;
using wasm::ValType;
using Float = Assembler::Float;
using Bits = Assembler::Bits;

inline constexpr uint32_t kNone = UINT32_MAX;

// The compiler's part of an open block.
struct Label : wasm::BlockLabel {
  bool has_pins = false;
  Pins pins;                // as every way that arrives must have them
  uint32_t target = kNone;  // kLoop: where branches go
  Patch fixups = kNone;     // chain of displacements that wait for the end
  Patch else_fixup = kNone;
  Pins else_pins;                           // kIf: at the test
  uint32_t catches = CatchLandings::kNone;  // chain of the clauses that wait for this label's end
};

class FunctionCompiler {
 public:
  explicit FunctionCompiler(CompiledModule& m) : compiled_(m), module_(m.module()) {
    has_far_memories_ = module_.memories.size() > 1 ||
                        (module_.memories.size() == 1 && module_.memories[0].type.limits.is_64);
  }

  // See Compiler::compile().
  std::span<const uint8_t> compile(uint32_t index, std::vector<BatchCall>* calls, std::span<Watch> watches,
                                   CatchTable* catches, const wasm::BodyNotes* notes);

  // -- for the walk ------------------------------------------------------------------------------

  void before(const Instruction& in);
  void prepare(const Instruction& in);
  void instruction(const Instruction& in);
  bool after(const Instruction& in);

  void end_segment(uint32_t cost) { segments_.end(a_, cost); }
  void begin_segment(uint32_t /*offset*/) {}  // see begin_cost()
  void begin_cost() {
    if (!kMetered) return;
    segments_.write_charge(a_, stubs_);
    if (is_watched()) note_charge();
  }
  // An instruction with a segment of its own leaves nothing in registers that a pause at its beginning would
  // have to save.
  void prepare_own(const Instruction& in) {
    if (wasm::info(in.op).flow == wasm::Flow::kThrows) {
      settle_from(0);
      settle_pins();
      return;
    }
    for (size_t i = stack_.size() - bulk_operands(in.op); i < stack_.size(); ++i) store_entry(stack_[i]);
  }
  void enter_segment() {}

  [[nodiscard]] size_t height() const { return stack_.size(); }
  [[nodiscard]] uint32_t slot_at(size_t value) const {
    return value == stack_.size() ? stack_.next_slot() : stack_[value].slot;
  }
  void settle() { settle_from(0); }
  void cut(size_t to) { cut_stack(to); }
  void push_types(std::span<const ValType> types) { stack_.push_slots(types); }

  void begin_loop(Label& l);
  Patch test();
  void begin_then(Label& l, Patch skip);
  void end_arm(Label& l);
  void begin_else(Label& l);
  void join(Label& l, bool falls_in);
  void finish() { write_return(); }

  // As in the translator, nothing is done when a try_table is entered or left.
  void add_clause(const wasm::CatchClause& clause, Label& target);
  void add_region(uint32_t outer, uint32_t first, uint32_t count) {
    landings_.add_region(outer, first, count);
  }
  void begin_region(uint32_t begun) { landings_.begin_region(a_.here() - entry_, begun); }

 private:
  // Bounds that keep compilation linear on hostile code. The interpreter runs functions beyond
  // them.
  static constexpr size_t kMaxUnsettled = 64;        // values of the stack that are looked through
  static constexpr uint32_t kMaxPendingLocals = 32;  // of these, that name locals
  // More are copied by a loop, so that code does not grow with the values that a branch carries.
  static constexpr uint32_t kFewValues = 16;
  // Of code: of a function, and for each byte of its body.
  static constexpr uint32_t kMaxCodeBytes = 1u << 20, kMaxExpansion = 40;

  struct Emitters;  // what each instruction becomes

  // -- the function --------------------------------------------------------------------------------

  bool prepare_function(uint32_t index, const wasm::LocalUses* uses);
  bool write_function(const wasm::BodyNotes* notes);
  void prologue();
  void clear_locals();
  void make_room();
  bool look_after();

  // The checks after each instruction, in one.
  static constexpr uint8_t kIsWatched = 1, kFailed = 2;
  [[nodiscard]] bool is_watched() const { return (attention_ & kIsWatched) != 0; }  // there are watches
  [[nodiscard]] bool failed() const { return (attention_ & kFailed) != 0; }
  void fail() { attention_ |= kFailed; }

  // -- registers -----------------------------------------------------------------------------------

  void release(const Operand& v) { registers_.release(v); }
  void release_unless(const Operand& v, uint8_t number) {
    if (v.kind == Operand::Kind::kRegister && v.number == number) return;
    release(v);
  }
  // A free operand register, but none of `except`. When there is none, a value of the stack is
  // evicted.
  Reg alloc(RegisterSet except = 0) {
    if (!registers_.has_integer(except)) evict(false, except);
    return registers_.take_integer(except);
  }
  Xmm alloc_real(RegisterSet except = 0) {
    if (!registers_.has_real(except)) evict(true, except);
    return registers_.take_real(except);
  }
  void evict(bool real, RegisterSet except);
  void take(Reg r);

  // -- values ------------------------------------------------------------------------------------

  void push_vector(Xmm x, Lanes nans) {
    stack_.push_real(x, nans == Lanes::kF32, nans != Lanes::kNone, Bank::kVector);
  }
  void cut_stack(size_t height) {
    while (stack_.size() > height) release(stack_.pop());
  }

  void settle_flags() {
    if (!stack_.has_flags()) return;
    Operand v = stack_.pop();
    stack_.push_register(register_of(v));
  }

  void load_slots(Xmm to, uint32_t from, Bank bank) {
    if (bank == Bank::kVector) a_.vload16(to, slot(from));
    else a_.fload(Real::kF64, to, slot(from));
  }
  void store_slots(uint32_t to, Xmm from, Bank bank) {
    if (bank == Bank::kVector) a_.vstore16(slot(to), from);
    else a_.fstore(Real::kF64, slot(to), from);
  }

  // The register of a pinned local, loaded if need be.
  MEMBRANE_INLINE uint8_t pin_register(uint8_t pin) {
    if (!locals_.now().is_valid(pin)) load_pin(pin);
    return locals_.pin(pin).number;
  }
  void load_pin(uint8_t pin);

  // A register that holds the value, only to be read. The caller releases `v`, which becomes kRegister unless the
  // register is that of a pinned local.
  MEMBRANE_INLINE Reg register_of(Operand& v, RegisterSet except = 0) {
    if (v.kind == Operand::Kind::kRegister) return static_cast<Reg>(v.number);
    if (v.kind == Operand::Kind::kLocal)
      if (const uint8_t pin = locals_[v.local()].pin; pin != kUnpinned)
        return static_cast<Reg>(pin_register(pin));
    return load_into_register(v, except);
  }
  Reg load_into_register(Operand& v, RegisterSet except);
  Reg load_from(Operand& v, uint32_t from, RegisterSet except);
  Xmm real_of(Operand& v, RegisterSet except = 0);
  Xmm load_real_from(Operand& v, uint32_t from, RegisterSet except);

  void make_canonical(Xmm x, bool is_f32, Bank bank);
  static constexpr uint8_t kUnordered = 3;  // the predicate of a comparison
  void make_pin_canonical(uint32_t pin);
  void settle_nan(Operand& v);

  void store(Operand& v, uint32_t to);
  void store_copy(Operand v, uint32_t to);
  void store_entry(Operand& v);
  void settle_from(size_t first);

  void settle_for_call(size_t first_argument);
  void store_pin(uint32_t pin);
  void settle_pins();

  // -- traps, and places that are asked about ------------------------------------------------------

  [[nodiscard]] InstructionPlace place() const { return {walk_.offset(), walk_.cost(), segments_.number()}; }
  static void note_place(Watch& w, InstructionPlace place);
  // A place that an exit's return address stands for.
  void note_exit() {
    watches_.each_at(a_.here() - entry_, [this](Watch& w) { note_place(w, place()); });
  }
  void note_charge();
  void note_locations(Watch& w) const;
  static void note_location(Watch& w, Location l, Bank bank, uint64_t value_of_high);

  void trap_if(Cond c, TrapKind kind);
  void trap(TrapKind kind);
  void write_stubs();

  // -- lookahead for destinations ------------------------------------------------------------------

  // The pinned local that the next instruction sets, when its register may be written already.
  [[nodiscard]] const Pin* next_pin(Bank bank) const {
    const uint32_t local = walk_.next_local_set();
    if (local == wasm::kNoLocal) return nullptr;
    const uint8_t pin = locals_[local].pin;
    if (pin == kUnpinned || locals_.pin(pin).bank != bank || stack_.names(local)) return nullptr;
    return &locals_.pin(pin);
  }
  // Whether the value, if there is one, is in the register of this number.
  [[nodiscard]] bool is_in(const Operand* v, uint8_t number) const {
    if (v == nullptr) return false;
    if (v->kind == Operand::Kind::kRegister) return v->number == number;
    if (v->kind != Operand::Kind::kLocal) return false;
    const uint8_t pin = locals_[v->local()].pin;
    return pin != kUnpinned && locals_.pin(pin).number == number;
  }
  // Where a result goes: the register of the local that takes it, else that of `first`, else a free one.
  // Never the register of `second`, which is read after the result is begun.
  Reg destination(const Operand& first, const Operand* second) {
    if (const Pin* const pin = next_pin(Bank::kInteger); pin != nullptr && !is_in(second, pin->number))
      return static_cast<Reg>(pin->number);
    if (registers_.is_operand(first) && !first.real() && !is_in(second, first.number))
      return static_cast<Reg>(first.number);
    return alloc();
  }
  Xmm destination_real(const Operand& first, Bank bank = Bank::kReal) {
    if (const Pin* const pin = next_pin(bank)) return pin->number;  // three operands: no conflict
    if (registers_.is_operand(first) && first.real()) return first.number;
    return alloc_real();
  }

  // -- integers ----------------------------------------------------------------------------------------

  static bool fits(const Operand& v, Width w, int32_t& out) {
    if (v.kind != Operand::Kind::kConstant) return false;
    const auto value = w == Width::k32 ? static_cast<int64_t>(static_cast<int32_t>(v.constant))
                                       : static_cast<int64_t>(v.constant);
    out = static_cast<int32_t>(value);
    return value == out;
  }
  Mem memory_of(const Operand& v) const;

  // The operands of an operation whose second one may be a constant or in memory, and where its result goes.
  struct Operands {
    Operand first, second;
    bool is_constant = false;
    int32_t constant = 0;
    Mem memory;
    Reg from = rax, other = rax;  // the registers of the first, and of a second that is neither
    Reg to = rax;
  };
  Operands take_operands(Width w, bool commutes);
  void order(Operand& first, Operand& second) const;
  void give_result(const Operands& o);

  void alu(Alu op, Width w);

  void multiply(Width w);

  void shift(Shift s, Width w);
  void rotate(Shift s, Width w, Operand first, Operand second);

  void divide(Width w, bool is_signed, bool remainder);
  void divide_signed_by_any(Width w, Reg by, bool remainder);

  void compare(Width w, Cond c);
  void is_zero(Width w);

  template <typename F>
  void unary(const F& emit) {
    Operand v = stack_.pop();
    const Reg from = register_of(v);
    const Pin* const pin = next_pin(Bank::kInteger);
    const Reg to = pin != nullptr ? static_cast<Reg>(pin->number) : registers_.is_operand(v) ? from : alloc();
    emit(to, from);
    release_unless(v, to);
    stack_.push_register(to);
  }

  // -- floats -------------------------------------------------------------------------------------------

  void float_binary(Float o, bool is_f32);
  void float_extreme(bool is_max, bool is_f32);
  template <typename F>
  void float_unary(bool to_f32, bool maybe_nan, const F& emit) {
    Operand v = stack_.pop();
    const Xmm from = real_of(v);
    const Xmm to = destination_real(v);
    emit(to, from);
    release_unless(v, to);
    stack_.push_real(to, to_f32, maybe_nan);
  }
  void float_sign(Bits o, const Mem& mask, bool is_f32);
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
    return has_far_memories_ && (memory != 0 || module_.memories[0].type.limits.is_64);
  }
  Mem address_of(Operand& v, const Instruction& in);
  Mem far_address_of(Operand& v, const Instruction& in);
  Mem address_of(Operand& v, uint64_t displacement);

  void load(const Instruction& in, bool real, bool is_f32);

  void store_memory(const Instruction& in, bool real, bool is_f32);

  // -- vectors --------------------------------------------------------------------------------------------

  Xmm vector_of(Operand& v, Lanes reads = Lanes::kNone);
  Xmm vector_destination();

  void vector_operation(const VectorCode& row);
  void vector_unary(const VectorCode& row);
  template <typename Source>  // Xmm or Mem
  void write_avx(const VectorCode& row, Xmm to, Xmm x, Source y) {
    if (row.constant < 0) a_.avx(row.avx, to, x, y);
    else a_.avx(row.avx, to, x, y, static_cast<uint8_t>(row.constant));
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
  // Into the register of a pinned local.
  void move_integer(Reg to, Operand& v);
  bool move_real(const Pin& to, Operand& v);

  Reg global_cell(uint32_t global);
  static constexpr int32_t kGlobalBits = offsetof(GlobalInstance, bits);
  static_assert(offsetof(GlobalInstance, high_bits) == kGlobalBits + 8);
  void global_get(uint32_t global);
  void global_set(uint32_t global);
  void ref_func(uint32_t function_index);

  void select();
  void select_real(Operand& condition, Operand& no, Operand& yes);
  Cond test_nonzero(Operand& v);

  // -- helpers: rare or long instructions
  // ---------------------------------------------------------------------

  void helper(Opcode op, uint32_t first_slot, uint32_t index1, uint32_t index2);
  void simple_helper(const Instruction& in, size_t operands, std::optional<ValType> result);
  static size_t bulk_operands(Opcode op);
  void bulk(const Instruction& in, std::optional<ValType> result);

  // -- joins -------------------------------------------------------------------------------------------------

  // The pins that every way to the label must have: those of the first one.
  [[nodiscard]] const Pins& expected_at(const Label& label) const {
    return label.has_pins ? label.pins : locals_.now();
  }
  void match_pins(const Pins& to);
  void note_way(Label& label);

  void link(Label& label, Patch at);
  void bind(Label& label);

  bool values_in_place(const Label& label) const;
  void settle_for_branch(const Label& label);
  void move_values(const Label& label);
  void copy_slots(uint32_t to, uint32_t from, uint32_t count);

  void jump_to(Label& label);
  void match_label(Label& label);

  void branch_to(uint32_t depth);

  Cond condition();
  void ensure_spare();

  void branch_if(uint32_t depth);

  void branch_table(const Instruction& in);

  void write_return();

  Cond settled_condition();

  // -- exceptions ------------------------------------------------------------------------------------

  void write_landings();
  void write_landed_return();
  void throw_exception(const Instruction& in, size_t operands);

  // -- calls ------------------------------------------------------------------------------------------------------

  // Arguments are settled and `base` is their first slot. `write` writes the call itself.
  template <typename F>
  void write_call(const wasm::FuncType& callee, const F& write) {
    cut_stack(stack_.size() - callee.params.size());
    const uint32_t base = stack_.next_slot();
    if (base != 0) a_.op(Alu::kAdd, Width::k64, kFrame, static_cast<int32_t>(base * 8));
    write();
    watches_.each_at(a_.here() - entry_, [&](Watch& w) {
      note_place(w, place());
      w.pc = w.wanted_pc;
      w.behind_call = true;
      w.behind_offset = walk_.next_offset();
      w.frame_advance = base;
      note_locations(w);
    });
    if (base != 0) a_.op(Alu::kSub, Width::k64, kFrame, static_cast<int32_t>(base * 8));
    if (callee.results.size() == 1) {
      const ValType t = callee.results[0];
      Operand v;
      v.kind = Operand::Kind::kRegister;
      v.bank = bank_of(t);
      v.is_f32 = t == ValType::kF32;
      v.in_slot = true;
      v.number = 0;  // rax or xmm0
      if (v.real()) registers_.take(Xmm{0});
      else registers_.take(rax);
      stack_.push(v);
    } else {
      stack_.push_slots(callee.results);
    }
  }

  void call(uint32_t callee);

  // The function that a call through a table reaches, in a register; another register is the caller's, too.
  struct Target {
    Reg function, spare;
  };
  Target find_target(const Instruction& in, Operand& element);
  Operand pop_element();

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

  // -- small instructions --------------------------------------------------------------------------

  void nop() {}  // also i64.extend_i32_u: the high half is zero already
  void throw_here(const Instruction& in) {
    throw_exception(in, in.op == Opcode::kThrow ? module_.type_of_tag(in.index).params.size() : 1);
  }
  void local_get(uint32_t index_of_local) {
    const Local& local = locals_[index_of_local];
    stack_.push_local(index_of_local, local.bank, local.is_f32);
    if (stack_.pending_locals() > kMaxPendingLocals) settle_from(0);
  }

  // -- what it knows ---------------------------------------------------------------------------------

  CompiledModule& compiled_;
  const wasm::Module& module_;
  bool has_far_memories_ = false;  // see is_far()

  std::vector<uint8_t> buffer_;
  Assembler a_{buffer_};
  std::vector<Label> labels_;
  wasm::BodyWalk<FunctionCompiler, Label> walk_{*this, labels_};
  wasm::LocalUses own_uses_;  // of functions without the validator's notes

  // The function that is compiled.
  uint32_t index_ = 0;
  const wasm::Function* function_ = nullptr;
  const wasm::FuncType* type_ = nullptr;
  const FunctionCode* code_ = nullptr;
  std::vector<BatchCall>* batch_ = nullptr;
  Watches watches_;
  uint8_t attention_ = 0;
  uint32_t entry_ = 0;
  uint32_t instruction_code_ = 0;  // where the current instruction's code begins
  uint64_t most_bytes_ = 0;        // of code

  OperandStack stack_;
  Registers registers_;
  PinnedLocals locals_;
  Segments segments_;
  Stubs stubs_;
  VectorConstants constants_;
  CatchLandings landings_;
  struct Way {
    uint64_t stamp = 0;
    uint32_t at = 0;
  };
  std::vector<Way> ways_;  // of the current br_table, by depth: those with its stamp
  uint64_t way_stamp_ = 0;
};

}  // namespace membrane::engine::native
