// Vectors: from a row of vector_code.def and its operands to registers.
#include "engine/native/function_compiler.h"

namespace membrane::engine::native {

// -- vectors --------------------------------------------------------------------------------------------

// A register with the vector, whose NaNs are canonical but for those of lanes that are read as such.
Xmm FunctionCompiler::vector_of(Operand& v, Lanes reads) {
  const Xmm x = real_of(v);
  const bool is_read = reads == (v.is_f32 ? Lanes::kF32 : Lanes::kF64);
  if (v.maybe_nan && !is_read) settle_nan(v);
  return x;
}

Xmm FunctionCompiler::vector_destination() {
  const Pin* const pin = next_pin(Bank::kVector);
  return pin != nullptr ? pin->number : alloc_real();
}

// What has a row whose operands and result are vectors.
void FunctionCompiler::vector_operation(const VectorCode& row) {
  using Form = VectorCode::Form;
  if (row.form == Form::kSequence) return vector_sequence(row);
  if (row.operands == 1) return vector_unary(row);
  Operand y = stack_.pop(), x = stack_.pop();
  if (row.form == Form::kSwapped) std::swap(x, y);
  const bool better = memory_of(x) ? !memory_of(y) : !registers_.is_operand(x) && registers_.is_operand(y);
  if (row.form == Form::kCommutes && better) std::swap(x, y);
  const Mem memory = memory_of(y);
  if (!memory) vector_of(y, row.reads);
  const Xmm from = vector_of(x, row.reads);
  const Xmm to = destination_real(x, Bank::kVector);
  if (memory) write_avx(row, to, from, memory);
  else write_avx(row, to, from, Xmm{real_of(y)});
  release_unless(y, to);
  release_unless(x, to);
  push_vector(to, row.makes);
}

void FunctionCompiler::vector_unary(const VectorCode& row) {
  Operand x = stack_.pop();
  const Mem memory = memory_of(x);
  if (!memory) vector_of(x, row.reads);
  const Xmm to = destination_real(x, Bank::kVector);
  if (memory) write_avx(row, to, 0, memory);
  else write_avx(row, to, 0, Xmm{real_of(x)});
  release_unless(x, to);
  push_vector(to, row.makes);
}

void FunctionCompiler::vector_sequence(const VectorCode& row) {
  std::array<Operand, 3> v;
  std::array<Xmm, 3> x{};
  for (size_t i = row.operands; i-- > 0;) v[i] = stack_.pop();
  for (size_t i = 0; i < row.operands; ++i) x[i] = vector_of(v[i], row.reads);
  const Xmm to = sequence_destination(x, row.operands);
  const Xmm u = alloc_real();
  row.sequence(a_, {to, x[0], x[1], x[2], kScratch, u});
  registers_.release(u);
  for (size_t i = 0; i < row.operands; ++i) release(v[i]);
  push_vector(to, row.makes);
}

// None of the operands.
Xmm FunctionCompiler::sequence_destination(const std::array<Xmm, 3>& operands, size_t count) {
  const Pin* const pin = next_pin(Bank::kVector);
  if (pin == nullptr) return alloc_real();
  for (size_t i = 0; i < count; ++i)
    if (operands[i] == pin->number) return alloc_real();
  return pin->number;
}

void FunctionCompiler::vector_shift(const VectorCode& row) {
  Operand count = stack_.pop(), v = stack_.pop();
  const Xmm x = vector_of(v);
  const uint8_t mask = static_cast<uint8_t>(row.bits - 1);
  if (count.kind == Operand::Kind::kConstant) {
    const Xmm to = sequence_destination({x}, 1);
    const auto constant = static_cast<uint8_t>(count.constant & mask);
    write_shift(a_, row, {to, x, 0, 0, kScratch, kScratch}, constant);
    if (const uint8_t stays = stays_of_bytes(row, constant); stays != 0xFF) {
      const uint64_t eight = uint64_t{0x0101010101010101} * stays;
      constants_.load(a_, kScratch, constants_.number_of({eight, eight}));
      a_.avx(Avx::kVpand, to, to, kScratch);
    }
    release(v);
    return push_vector(to, Lanes::kNone);
  }
  const Reg r = register_of(count);
  const Reg masked = alloc();
  a_.mov(Width::k32, masked, r);
  a_.op(Alu::kAnd, Width::k32, masked, mask);
  if (more_of_count(row) != 0) a_.op(Alu::kAdd, Width::k32, masked, more_of_count(row));
  const Xmm y = alloc_real();
  a_.fmov_from(Width::k32, y, masked);
  registers_.release(masked);
  const Xmm to = sequence_destination({x}, 1);
  write_variable_shift(a_, row, {to, x, y, 0, kScratch, kScratch});
  registers_.release(y);
  release(count);
  release(v);
  push_vector(to, Lanes::kNone);
}

void FunctionCompiler::shuffle(const uint8_t* indices) {
  Operand second = stack_.pop(), first = stack_.pop();
  const Xmm y = vector_of(second), x = vector_of(first);
  uint8_t bytes[16];
  std::copy_n(indices, std::size(bytes), bytes);
  ShuffleCode row;
  Xmm to = 0;
  if (find_shuffle(bytes, row)) {
    to = destination_real(first, Bank::kVector);
    const Xmm one = row.first_is_y ? y : x, other = row.second_is_y ? y : x;
    if (row.takes_one) a_.avx(row.avx, to, 0, one, row.constant);
    else if (row.has_constant) a_.avx(row.avx, to, one, other, row.constant);
    else a_.avx(row.avx, to, one, other);
  } else {
    to = shuffle_bytes(bytes, x, y);
  }
  release_unless(second, to);
  release_unless(first, to);
  push_vector(to, Lanes::kNone);
}

// By tables of bytes, which give 0 where the highest bit is set: of one operand, or of both.
Xmm FunctionCompiler::shuffle_bytes(const uint8_t (&indices)[16], Xmm x, Xmm y) {
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
  constants_.load(a_, kScratch, constants_.number_of_bytes(has_x ? of_x : of_y));
  a_.avx(Avx::kVpshufb, to, has_x ? x : y, kScratch);
  if (!has_x || !has_y) return to;
  constants_.load(a_, kScratch, constants_.number_of_bytes(of_y));
  a_.avx(Avx::kVpshufb, kScratch, y, kScratch);
  a_.avx(Avx::kVpor, to, to, kScratch);
  return to;
}

void FunctionCompiler::splat(const VectorCode& row) {
  Operand v = stack_.pop();
  const Mem memory = memory_of(v);
  Xmm x = kScratch;
  if (!memory && v.real()) {
    x = real_of(v);
    settle_nan(v);
  }
  const Xmm to = vector_destination();  // what gives way to it may need the scratch register
  if (!memory && !v.real()) a_.fmov_from(row.log2_bytes == 3 ? Width::k64 : Width::k32, x, register_of(v));
  if (memory) a_.avx(row.avx, to, 0, memory);
  else a_.avx(row.avx, to, 0, x);
  release(v);
  push_vector(to, Lanes::kNone);
}

void FunctionCompiler::extract_lane(const VectorCode& row, uint8_t lane) {
  Operand v = stack_.pop();
  const Xmm x = vector_of(v);
  const Pin* const pin = next_pin(Bank::kInteger);
  const Reg to = pin != nullptr ? static_cast<Reg>(pin->number) : alloc();
  const Width w = row.log2_bytes == 3 ? Width::k64 : Width::k32;
  if (lane == 0 && row.log2_bytes >= 2) a_.fmov_to(w, to, x);
  else a_.avx_extract(row.avx, to, x, lane);
  if (row.form == VectorCode::Form::kExtractSigned) {
    if (row.log2_bytes == 0) a_.movsx8(Width::k32, to, to);
    else a_.movsx16(Width::k32, to, to);
  }
  release(v);
  stack_.push_register(to);
}

// An f32 has nothing above it (vinsertps clears the lanes whose bits are set).
void FunctionCompiler::extract_float(const VectorCode& row, uint8_t lane) {
  Operand v = stack_.pop();
  const Xmm x = vector_of(v);
  const Pin* const pin = next_pin(Bank::kReal);
  const Xmm to = pin != nullptr ? pin->number : registers_.is_operand(v) ? Xmm{v.number} : alloc_real();
  const bool is_f32 = row.log2_bytes == 2;
  if (is_f32) a_.avx(Avx::kVinsertps, to, x, x, static_cast<uint8_t>(lane << 6 | 0x0E));
  else if (lane == 1) a_.avx(Avx::kVpunpckhqdq, to, x, x);
  else if (to != x) a_.fmov(to, x);
  release_unless(v, to);
  stack_.push_real(to, is_f32, false);
}

void FunctionCompiler::replace_lane(const VectorCode& row, uint8_t lane) {
  Operand value = stack_.pop(), v = stack_.pop();
  if (value.kind == Operand::Kind::kConstant) value.bank = Bank::kInteger;
  const Reg r = register_of(value);
  const Xmm x = vector_of(v);
  const Xmm to = destination_real(v, Bank::kVector);
  a_.avx(row.avx, to, x, uint8_t{r}, lane);
  release(value);
  release_unless(v, to);
  push_vector(to, Lanes::kNone);
}

void FunctionCompiler::replace_float(const VectorCode& row, uint8_t lane) {
  Operand value = stack_.pop(), v = stack_.pop();
  const Xmm y = real_of(value);
  settle_nan(value);
  const Xmm x = vector_of(v);
  const Xmm to = destination_real(v, Bank::kVector);
  if (row.log2_bytes == 2) a_.avx(Avx::kVinsertps, to, x, y, static_cast<uint8_t>(lane << 4));
  else if (lane == 0) a_.fmove_low(to, x, y);
  else a_.avx(Avx::kVpunpcklqdq, to, x, y);
  release_unless(value, to);
  release_unless(v, to);
  push_vector(to, Lanes::kNone);
}

void FunctionCompiler::any_true() {
  Operand v = stack_.pop();
  const Xmm x = vector_of(v);
  a_.avx(Avx::kVptest, x, 0, x);
  release(v);
  stack_.push_flags(Cond::kNE);
}

void FunctionCompiler::all_true(const VectorCode& row) {
  Operand v = stack_.pop();
  const Xmm x = vector_of(v);
  a_.avx(Avx::kVpxor, kScratch, kScratch, kScratch);
  a_.avx(row.avx, kScratch, kScratch, x);
  a_.avx(Avx::kVptest, kScratch, 0, kScratch);
  release(v);
  stack_.push_flags(Cond::kE);
}

void FunctionCompiler::bitmask(const VectorCode& row) {
  Operand v = stack_.pop();
  Xmm x = vector_of(v);
  if (row.log2_bytes == 1) {  // the signs of words as those of bytes
    a_.avx(Avx::kVpxor, kScratch, kScratch, kScratch);
    a_.avx(Avx::kVpacksswb, kScratch, x, kScratch);
    x = kScratch;
  }
  const Pin* const pin = next_pin(Bank::kInteger);
  const Reg to = pin != nullptr ? static_cast<Reg>(pin->number) : alloc();
  a_.avx_mask(row.avx, to, x);
  release(v);
  stack_.push_register(to);
}

void FunctionCompiler::load_vector(const Instruction& in, const VectorCode& row) {
  Operand v = stack_.pop();
  const Mem m = address_of(v, in);
  const Xmm to = vector_destination();
  if (row.form == VectorCode::Form::kLoadZero) a_.fload(kind_of(row.log2_bytes == 2), to, m);
  else a_.avx(row.avx, to, 0, m);
  release(v);
  push_vector(to, Lanes::kNone);
}

void FunctionCompiler::store_vector(const Instruction& in) {
  Operand value = stack_.pop(), v = stack_.pop();
  const Xmm x = vector_of(value);
  const Mem m = address_of(v, in);
  a_.vstore16(m, x);
  release(value);
  release(v);
}

void FunctionCompiler::load_lane(const Instruction& in, const VectorCode& row) {
  Operand value = stack_.pop(), v = stack_.pop();
  const Xmm x = vector_of(value);
  const Mem m = address_of(v, in);
  const Xmm to = destination_real(value, Bank::kVector);
  a_.avx(row.avx, to, x, m, in.lane);
  release(v);
  release_unless(value, to);
  push_vector(to, Lanes::kNone);
}

void FunctionCompiler::store_lane(const Instruction& in, const VectorCode& row) {
  Operand value = stack_.pop(), v = stack_.pop();
  const Xmm x = vector_of(value);
  const Mem m = address_of(v, in);
  a_.avx_extract(row.avx, m, x, in.lane);
  release(value);
  release(v);
}

void FunctionCompiler::vector(const Instruction& in) {
  using enum VectorCode::Form;
  if (in.op == Opcode::kV128Const)
    return stack_.push_constant(constants_.number_of_bytes(in.raw), Bank::kVector);
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
    case kNone: fail();
  }
}

}  // namespace membrane::engine::native
