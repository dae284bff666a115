#include "engine/native/compiler.h"

#include <array>

#include "engine/native/compiler_parts.h"

namespace membrane::engine::native {

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
  Emission::Emit emit = [](Compiler::Parts& p, const Instruction&) { p.fail(); };
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

MEMBRANE_INLINE void Compiler::Parts::before(const Instruction& /*in*/) {
  if (!a.has_room(Assembler::kRoom)) [[unlikely]]
    make_room();
}

// Of code that is too long no more is made than the buffer holds.
void Compiler::Parts::make_room() {
  if (a.here() > most_bytes) fail();
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

MEMBRANE_INLINE bool Compiler::Parts::after(const Instruction& /*in*/) {
  if (attention == 0) [[likely]]
    return true;
  return look_after();
}

// The code from instruction_code on is that of the instruction at hand.
bool Compiler::Parts::look_after() {
  if (failed()) return false;
  by_pc.each_between(instruction_code - entry, a.here() - entry, [this](Watch& w) {
    if (!w.found) note_place(w, walk.offset(), walk.cost());
  });
  instruction_code = a.here();
  return true;
}

bool Compiler::Parts::compile(const wasm::BodyNotes* notes) {
  operand_registers = free_registers;
  operand_reals = free_reals;
  entry = a.here();
  most_bytes = kMaxCodeBytes + uint64_t{kMaxExpansion} * function->code.size;
  a.ensure(Assembler::kRoom);
  prologue();
  instruction_code = a.here();
  const uint32_t entry_cost = zeroing_cost(code->zero_slots);
  const bool is_decoded = notes != nullptr && notes->body.is_whole();
  const bool ended = is_decoded ? walk.run(module, *function, locals_end, entry_cost, notes->body)
                                : walk.run(module, *function, locals_end, entry_cost);
  if (!ended || failed()) return false;
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

// -- the interface ----------------------------------------------------------------------------------------------------------

Compiler::Compiler(CompiledModule& module) : parts_(std::make_unique<Parts>(module)) {}
Compiler::~Compiler() = default;

std::span<const uint8_t> Compiler::compile(uint32_t index, std::vector<BatchCall>* calls,
                                           std::span<Watch> watches, CatchTable* catches,
                                           const wasm::BodyNotes* notes) {
  Parts& p = *parts_;
  p.batch = calls;
  p.watches = watches;
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
