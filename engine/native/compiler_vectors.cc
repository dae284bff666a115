// Vectors: from a row of vector_code.def and its operands to registers.
#include "engine/native/compiler_parts.h"

namespace membrane::engine::native {

// -- vectors --------------------------------------------------------------------------------------------

// The number of a constant, which is one of the last ones when it equals it.
uint32_t Compiler::Parts::constant_of(const Constant& wanted) {
  constexpr size_t kLookedAt = 16;
  const size_t first = constants.size() < kLookedAt ? 0 : constants.size() - kLookedAt;
  for (size_t i = first; i < constants.size(); ++i)
    if (constants[i].low == wanted.low && constants[i].high == wanted.high) return static_cast<uint32_t>(i);
  constants.push_back(wanted);
  return static_cast<uint32_t>(constants.size() - 1);
}

uint32_t Compiler::Parts::constant_of_bytes(const uint8_t* bytes) {
  Constant c{};
  std::memcpy(&c, bytes, sizeof c);
  return constant_of(c);
}

void Compiler::Parts::load_constant(Xmm to, uint64_t number) {
  const Constant& c = constants[number];
  if (c.low == 0 && c.high == 0) return a.fbits(Bits::kXor, to, to, to);
  if (c.low == UINT64_MAX && c.high == UINT64_MAX) return a.avx(Avx::kVpcmpeqd, to, to, to);
  constant_uses.push_back({a.vload16_rip(to), static_cast<uint32_t>(number)});
}

void Compiler::Parts::write_constants() {
  if (constant_uses.empty()) return;
  const uint32_t first = a.here();
  for (const Constant& c : constants) a.bytes(reinterpret_cast<const uint8_t*>(&c), sizeof c);
  for (const ConstantUse& use : constant_uses)
    a.patch(use.at, first + use.constant * static_cast<uint32_t>(sizeof(Constant)));
}

// A register with the vector, whose NaNs are canonical but for those of lanes that are read as such.
Xmm Compiler::Parts::vector_of(Value& v, Lanes reads) {
  const Xmm x = real_of(v);
  const bool is_read = reads == (v.is_f32 ? Lanes::kF32 : Lanes::kF64);
  if (v.maybe_nan && !is_read) settle_nan(v);
  return x;
}

Xmm Compiler::Parts::vector_destination() {
  const Pin* const pin = next_pin(Bank::kVector);
  return pin != nullptr ? pin->number : alloc_real();
}

// What has a row whose operands and result are vectors.
void Compiler::Parts::vector_operation(const VectorCode& row) {
  using Form = VectorCode::Form;
  if (row.form == Form::kSequence) return vector_sequence(row);
  if (row.operands == 1) return vector_unary(row);
  Value y = pop(), x = pop();
  if (row.form == Form::kSwapped) std::swap(x, y);
  const bool better = memory_of(x) ? !memory_of(y) : !is_operand_register(x) && is_operand_register(y);
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

void Compiler::Parts::vector_unary(const VectorCode& row) {
  Value x = pop();
  const Mem memory = memory_of(x);
  if (!memory) vector_of(x, row.reads);
  const Xmm to = destination_real(x, Bank::kVector);
  if (memory) write_avx(row, to, 0, memory);
  else write_avx(row, to, 0, Xmm{real_of(x)});
  release_unless(x, to);
  push_vector(to, row.makes);
}

void Compiler::Parts::vector_sequence(const VectorCode& row) {
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
Xmm Compiler::Parts::sequence_destination(const std::array<Xmm, 3>& operands, size_t count) {
  const Pin* const pin = next_pin(Bank::kVector);
  if (pin == nullptr) return alloc_real();
  for (size_t i = 0; i < count; ++i)
    if (operands[i] == pin->number) return alloc_real();
  return pin->number;
}

void Compiler::Parts::vector_shift(const VectorCode& row) {
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

void Compiler::Parts::shuffle(const uint8_t* indices) {
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
Xmm Compiler::Parts::shuffle_bytes(const uint8_t (&indices)[16], Xmm x, Xmm y) {
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

void Compiler::Parts::splat(const VectorCode& row) {
  Value v = pop();
  const Mem memory = memory_of(v);
  Xmm x = kScratch;
  if (!memory && v.real()) {
    x = real_of(v);
    settle_nan(v);
  }
  const Xmm to = vector_destination();  // what gives way to it may need the scratch register
  if (!memory && !v.real()) a.fmov_from(row.log2_bytes == 3 ? Width::k64 : Width::k32, x, register_of(v));
  if (memory) a.avx(row.avx, to, 0, memory);
  else a.avx(row.avx, to, 0, x);
  release(v);
  push_vector(to, Lanes::kNone);
}

void Compiler::Parts::extract_lane(const VectorCode& row, uint8_t lane) {
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
void Compiler::Parts::extract_float(const VectorCode& row, uint8_t lane) {
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

void Compiler::Parts::replace_lane(const VectorCode& row, uint8_t lane) {
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

void Compiler::Parts::replace_float(const VectorCode& row, uint8_t lane) {
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

void Compiler::Parts::any_true() {
  Value v = pop();
  const Xmm x = vector_of(v);
  a.avx(Avx::kVptest, x, 0, x);
  release(v);
  push_flags(Cond::kNE);
}

void Compiler::Parts::all_true(const VectorCode& row) {
  Value v = pop();
  const Xmm x = vector_of(v);
  a.avx(Avx::kVpxor, kScratch, kScratch, kScratch);
  a.avx(row.avx, kScratch, kScratch, x);
  a.avx(Avx::kVptest, kScratch, 0, kScratch);
  release(v);
  push_flags(Cond::kE);
}

void Compiler::Parts::bitmask(const VectorCode& row) {
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

void Compiler::Parts::load_vector(const Instruction& in, const VectorCode& row) {
  Value v = pop();
  const Mem m = address_of(v, in);
  const Xmm to = vector_destination();
  if (row.form == VectorCode::Form::kLoadZero) a.fload(kind_of(row.log2_bytes == 2), to, m);
  else a.avx(row.avx, to, 0, m);
  release(v);
  push_vector(to, Lanes::kNone);
}

void Compiler::Parts::store_vector(const Instruction& in) {
  Value value = pop(), v = pop();
  const Xmm x = vector_of(value);
  const Mem m = address_of(v, in);
  a.vstore16(m, x);
  release(value);
  release(v);
}

void Compiler::Parts::load_lane(const Instruction& in, const VectorCode& row) {
  Value value = pop(), v = pop();
  const Xmm x = vector_of(value);
  const Mem m = address_of(v, in);
  const Xmm to = destination_real(value, Bank::kVector);
  a.avx(row.avx, to, x, m, in.lane);
  release(v);
  release_unless(value, to);
  push_vector(to, Lanes::kNone);
}

void Compiler::Parts::store_lane(const Instruction& in, const VectorCode& row) {
  Value value = pop(), v = pop();
  const Xmm x = vector_of(value);
  const Mem m = address_of(v, in);
  a.avx_extract(row.avx, m, x, in.lane);
  release(value);
  release(v);
}

void Compiler::Parts::vector(const Instruction& in) {
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
    case kNone: fail();
  }
}

}  // namespace membrane::engine::native
