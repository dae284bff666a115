#include "engine/native/compiler.h"

#include <array>

#include "base/stop_scope.h"
#include "engine/native/function_compiler.h"

namespace membrane::engine::native {

// -- one instruction ---------------------------------------------------------------------------------------------------

// What each instruction becomes. One jump leads there: which instruction comes next cannot be predicted, and a
// mispredicted jump costs as much as all else that is done for an instruction.
struct FunctionCompiler::Emitters {
  using Emit = void (*)(FunctionCompiler&, const Instruction&);
  struct Emission {
    Opcode op;
    Emit emit;
  };
  // The same by opcode, with what else is asked of each instruction.
  struct Emitter {
    Emit emit = [](FunctionCompiler& p, const Instruction&) { p.fail(); };
    bool takes_flags = false;
  };
  using Table = std::array<Emitter, wasm::kOpcodeCount>;

  static const Emission kEmissions[];
  static consteval Table by_opcode();
  static const Table kAll;
  static const Emitter& of(const Instruction& in) { return kAll[static_cast<size_t>(in.op)]; }
};

// clang-format off
#define EMIT(op, statement)                                                                \
  Emission{Opcode::op, [](FunctionCompiler& p, [[maybe_unused]] const Instruction& in) { p.statement; }},
#define BOTH(name, statement32, statement64) EMIT(kI32##name, statement32) EMIT(kI64##name, statement64)
#define REALS(name, statement32, statement64) EMIT(kF32##name, statement32) EMIT(kF64##name, statement64)
#define ALU(name, operation) BOTH(name, alu(Alu::operation, Width::k32), alu(Alu::operation, Width::k64))
#define SHIFT(name, operation) \
  BOTH(name, shift(Shift::operation, Width::k32), shift(Shift::operation, Width::k64))
#define COMPARE(name, condition) \
  BOTH(name, compare(Width::k32, Cond::condition), compare(Width::k64, Cond::condition))
#define UNARY(op, call) EMIT(op, unary([&p](Reg to, Reg from) { p.a_.call; }))
#define COUNT(name, instruction) \
  UNARY(kI32##name, instruction(Width::k32, to, from)) UNARY(kI64##name, instruction(Width::k64, to, from))
#define FLOAT(name, operation) \
  REALS(name, float_binary(Float::operation, true), float_binary(Float::operation, false))
#define FLOAT_COMPARE(name) REALS(name, float_compare(in.op, true), float_compare(in.op, false))
#define SIGN(name, bits, mask)                                                                           \
  REALS(name, float_sign(Bits::bits, constant_at(offsetof(NativeState, mask), true), true),            \
        float_sign(Bits::bits, constant_at(offsetof(NativeState, mask), false), false))
#define FLOAT_UNARY(name, call32, call64)                                             \
  REALS(name, float_unary(true, true, [&p](Xmm to, Xmm from) { p.a_.call32; }),        \
        float_unary(false, true, [&p](Xmm to, Xmm from) { p.a_.call64; }))
#define ROUND(name, mode) FLOAT_UNARY(name, fround(Real::kF32, to, from, mode), fround(Real::kF64, to, from, mode))
#define HELPER(op, operands, type) EMIT(op, simple_helper(in, operands, type))
#define BULK(op, type) EMIT(op, bulk(in, type))

constexpr FunctionCompiler::Emitters::Emission FunctionCompiler::Emitters::kEmissions[] = {
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
  EMIT(kDrop, release(p.stack_.pop()))
  EMIT(kSelect, select())
  EMIT(kSelectTyped, select())
  EMIT(kLocalGet, local_get(in.index))
  EMIT(kLocalSet, local_set(in.index, false))
  EMIT(kLocalTee, local_set(in.index, true))
  EMIT(kGlobalGet, global_get(in.index))
  EMIT(kGlobalSet, global_set(in.index))
  EMIT(kI32Const, stack_.push_constant(static_cast<uint32_t>(in.value)))
  EMIT(kI64Const, stack_.push_constant(in.value))
  EMIT(kF32Const, stack_.push_constant(in.value, Bank::kReal, true))
  EMIT(kF64Const, stack_.push_constant(in.value, Bank::kReal, false))
  EMIT(kRefNull, stack_.push_constant(0))
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
  EMIT(kF64PromoteF32, float_unary(false, true, [&p](Xmm to, Xmm from) { p.a_.float_to_float(Real::kF32, to, from); }))
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

consteval FunctionCompiler::Emitters::Table FunctionCompiler::Emitters::by_opcode() {
  constexpr uint8_t kVectorPrefix = wasm::info(Opcode::kV128Const).prefix;
  Table emitters;
  for (const Emission& row : kEmissions) emitters[static_cast<size_t>(row.op)].emit = row.emit;
  for (const Opcode op : {Opcode::kBrIf, Opcode::kIf, Opcode::kSelect, Opcode::kI32Eqz, Opcode::kLocalSet})
    emitters[static_cast<size_t>(op)].takes_flags = true;
  for (size_t i = 0; i < emitters.size(); ++i) {
    if (wasm::info(static_cast<Opcode>(i)).prefix != kVectorPrefix) continue;
    emitters[i].emit = [](FunctionCompiler& p, const Instruction& in) { p.vector(in); };
  }
  return emitters;
}
constexpr FunctionCompiler::Emitters::Table FunctionCompiler::Emitters::kAll = by_opcode();

MEMBRANE_INLINE void FunctionCompiler::before(const Instruction& /*in*/) {
  if (!a_.has_room(Assembler::kRoom)) [[unlikely]]
    make_room();
}

// Once the code is too long, or the owner wants it to stop, no more is made than a window holds.
void FunctionCompiler::make_room() {
  constexpr uint64_t kStepsOfWindow = Assembler::kWindow / 8;
  if (a_.here() > most_bytes_ || StopScope::stop_wanted(kStepsOfWindow)) fail();
  a_.ensure(Assembler::kRoom);
}

// Flags hold a value only until the next instruction, which may be one that uses them.
MEMBRANE_INLINE void FunctionCompiler::prepare(const Instruction& in) {
  if (stack_.has_flags()) {
    if (!Emitters::of(in).takes_flags) settle_flags();
  } else if (stack_.unsettled_count() > kMaxUnsettled) [[unlikely]] {
    settle_from(0);
  }
}

MEMBRANE_INLINE void FunctionCompiler::instruction(const Instruction& in) {
  Emitters::of(in).emit(*this, in);
}

MEMBRANE_INLINE bool FunctionCompiler::after(const Instruction& /*in*/) {
  if (attention_ == 0) [[likely]]
    return true;
  return look_after();
}

// The code from instruction_code_ on is that of the instruction at hand.
bool FunctionCompiler::look_after() {
  if (failed()) return false;
  watches_.each_between(instruction_code_ - entry_, a_.here() - entry_, [this](Watch& w) {
    if (!w.found) note_place(w, place());
  });
  instruction_code_ = a_.here();
  return true;
}

// -- the function ------------------------------------------------------------------------------------------------------

bool FunctionCompiler::prepare_function(uint32_t index, const wasm::LocalUses* uses) {
  index_ = index;
  function_ = &module_.functions[index];
  type_ = &module_.types[function_->type];
  code_ = &compiled_.function(index);
  if (!locals_.start(module_, *function_)) return false;
  if (uses == nullptr) {
    own_uses_.look_at(module_.view(function_->code), locals_.size());
    uses = &own_uses_;
  }
  locals_.choose(*uses, code_->uses_vectors);
  registers_.start(locals_.registers(), code_->uses_vectors);
  stack_.start(locals_.slots());
  segments_.start(/*keeps_costs=*/!watches_.empty());
  stubs_.start();
  constants_.start();
  landings_.start();
  attention_ = watches_.empty() ? 0 : kIsWatched;
  return true;
}

bool FunctionCompiler::write_function(const wasm::BodyNotes* notes) {
  entry_ = a_.here();
  most_bytes_ = kMaxCodeBytes + uint64_t{kMaxExpansion} * function_->code.size;
  a_.ensure(Assembler::kRoom);
  prologue();
  instruction_code_ = a_.here();
  const uint32_t entry_cost = zeroing_cost(code_->zero_slots);
  const bool is_decoded = notes != nullptr && notes->body.is_whole();
  const bool ended = is_decoded ? walk_.run(module_, *function_, locals_.slots(), entry_cost, notes->body)
                                : walk_.run(module_, *function_, locals_.slots(), entry_cost);
  if (!ended || failed()) return false;
  write_landings();
  if (failed() || a_.here() > most_bytes_) return false;
  write_stubs();
  constants_.write(a_);
  a_.ensure(Assembler::kRoom);
  a_.int3();  // the return address of a last call is inside the function, too
  for (Watch& w : watches_.all())
    if (w.found) w.cost = segments_.cost_of(w.segment);
  return true;
}

std::span<const uint8_t> FunctionCompiler::compile(uint32_t index, std::vector<BatchCall>* calls,
                                                   std::span<Watch> watches, CatchTable* catches,
                                                   const wasm::BodyNotes* notes) {
  batch_ = calls;
  watches_.look_for(watches);
  const size_t calls_before = calls == nullptr ? 0 : calls->size();
  a_.start_over();
  if (prepare_function(index, notes == nullptr ? nullptr : &notes->uses) && write_function(notes)) {
    if (catches != nullptr) *catches = landings_.table();
    return {a_.data(), a_.here()};
  }
  if (calls != nullptr) calls->resize(calls_before);
  return {};
}

// -- the interface ----------------------------------------------------------------------------------------------------------

Compiler::Compiler(CompiledModule& module) : function_(std::make_unique<FunctionCompiler>(module)) {}
Compiler::~Compiler() = default;

std::span<const uint8_t> Compiler::compile(uint32_t index, std::vector<BatchCall>* calls,
                                           std::span<Watch> watches, CatchTable* catches,
                                           const wasm::BodyNotes* notes) {
  return function_->compile(index, calls, watches, catches, notes);
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
