#include "engine/testing/body_generator_testing.h"

#include <algorithm>
#include <bit>

namespace membrane::engine::generator {

Bytes BodyGenerator::generate() {
  const size_t params = locals_.size();
  for (const ValType t : choices_.one_in(6) ? Types(9 + choices_.below(12), kI64) : choices_.types(6))
    locals_.push_back(t);
  for (uint32_t i = 0; !tags_.empty() && i < 2; ++i) locals_.push_back(kExnRef);
  if (choices_.has_references()) locals_.insert(locals_.end(), {kPair, kPair, kShorts, kPairs, kAnyRef});
  settable_ = locals_.size();
  first_kept_ = static_cast<uint32_t>(settable_);
  if (choices_.is_shared()) locals_.insert(locals_.end(), {kF32, kF64, kV128});
  locals_.insert(locals_.end(), kCounters, kI32);

  labels_.push_back({functions_[self_].results, 0});
  instructions(8 + choices_.below(48));
  finish(functions_[self_].results);
  put(Opcode::kEnd);

  std::vector<Bytes> runs;
  for (size_t i = params; i < locals_.size(); ++i) {
    Bytes run = {1};
    wasm::append_val_type(run, locals_[i]);
    runs.push_back(run);
  }
  return wasm::testing::sized(wasm::testing::cat({wasm::testing::vec(runs), out_}));
}

void BodyGenerator::put(Opcode op, uint32_t index) {
  put(op);
  write_leb128(out_, index);
}

void BodyGenerator::constant_i32(uint32_t value) {
  put(Opcode::kI32Const);
  write_leb128(out_, static_cast<int32_t>(value));
  push(kI32);
}

void BodyGenerator::little_endian(uint64_t bits, int bytes) {
  for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<uint8_t>(bits >> (8 * i)));
}

void BodyGenerator::constant(ValType type) {
  switch (type) {
    case kI32: return constant_i32(static_cast<uint32_t>(choices_.number()));
    case kI64:
      put(Opcode::kI64Const);
      write_leb128(out_, static_cast<int64_t>(choices_.number()));
      break;
    case kF32:
      put(Opcode::kF32Const);
      little_endian(choices_.one_in(10) ? 0x7FA00001u
                                        : std::bit_cast<uint32_t>(static_cast<float>(double_of(choices_))),
                    4);
      break;
    case kF64:
      put(Opcode::kF64Const);
      little_endian(
          choices_.one_in(10) ? 0xFFF4000000000001ull : std::bit_cast<uint64_t>(double_of(choices_)), 8);
      break;
    case kV128:
      put(Opcode::kV128Const);
      vector_bytes();
      break;
    default: put(Opcode::kRefNull); wasm::append_heap_type(out_, type);
  }
  push(type);
}

void BodyGenerator::vector_bytes() {
  const uint32_t kind = choices_.below(5);
  for (int i = 0; i < 2; ++i) {
    if (kind == 0) little_endian(choices_.number(), 8);
    else if (kind == 1) little_endian(std::bit_cast<uint64_t>(double_of(choices_)), 8);
    for (int n = 0; n < 2 && kind == 2; ++n)
      little_endian(std::bit_cast<uint32_t>(static_cast<float>(double_of(choices_))), 4);
    for (int n = 0; n < 2 && kind == 3; ++n)
      little_endian(choices_.one_in(2) ? 0x7FA00001u : static_cast<uint32_t>(choices_.number()), 4);
    for (int n = 0; n < 8 && kind == 4; ++n) out_.push_back(choices_.byte());
  }
}

bool BodyGenerator::top_is(const Types& list, size_t count) const {
  return height() >= count && std::equal(list.begin(), list.begin() + static_cast<ptrdiff_t>(count),
                                         stack_.end() - static_cast<ptrdiff_t>(count));
}

void BodyGenerator::demand(const Types& wanted) {
  size_t have = choices_.one_in(5) ? 0 : wanted.size();
  while (!top_is(wanted, have)) --have;
  for (size_t i = have; i < wanted.size(); ++i) leaf(wanted[i]);
}

void BodyGenerator::leaf(ValType type) {
  const uint32_t kind = choices_.below(8);
  if (kind < 4 && local_get(type)) return;
  if (kind == 4 && has_global(type)) {
    put(Opcode::kGlobalGet, global_of(type));
    return push(type);
  }
  if (kind == 5 && type == kI32) {
    put(Opcode::kMemorySize, memory());
    return push(kI32);
  }
  constant(type);
}

uint32_t BodyGenerator::global_of(ValType type) const {
  if (type == kExnRef) return kExceptionGlobal;
  if (type == kPair) return kExceptionGlobal + (tags_.empty() ? 0 : 1);
  return static_cast<uint32_t>(std::ranges::find(kTypes, type) - kTypes.begin());
}

bool BodyGenerator::find_local(ValType type, size_t most, uint32_t& found) {
  if (most == 0) return false;
  const uint32_t first = choices_.below(static_cast<uint32_t>(most));
  for (uint32_t i = 0; i < most; ++i) {
    found = (first + i) % static_cast<uint32_t>(most);
    if (locals_[found] == type) return true;
  }
  return false;
}

bool BodyGenerator::local_get(ValType type) {
  uint32_t index = 0;
  if (!find_local(type, locals_.size(), index)) return false;
  put(Opcode::kLocalGet, index);
  push(type);
  return true;
}

void BodyGenerator::drop() {
  put(Opcode::kDrop);
  stack_.pop_back();
}

void BodyGenerator::consume() {
  const ValType type = stack_.back();
  uint32_t index = 0;
  const uint32_t kind = choices_.below(4);
  if (kind < 2 && find_local(type, settable_, index)) put(Opcode::kLocalSet, index);
  else if (kind == 2 && has_global(type)) put(Opcode::kGlobalSet, global_of(type));
  else put(Opcode::kDrop);
  stack_.pop_back();
}

void BodyGenerator::finish(const Types& results) {
  const size_t floor = labels_.back().floor;
  size_t keep = std::min(results.size(), height());
  while (!std::equal(results.begin(), results.begin() + static_cast<ptrdiff_t>(keep),
                     stack_.begin() + static_cast<ptrdiff_t>(floor)))
    --keep;
  while (height() > keep) consume();
  for (size_t i = keep; i < results.size(); ++i) leaf(results[i]);
}

void BodyGenerator::instructions(uint32_t count) {
  for (uint32_t i = 0; i < count && !choices_.at_end() && out_.size() < 6000; ++i) {
    while (height() > 10) consume();
    instruction();
  }
}

void BodyGenerator::instruction() {
  if (!tags_.empty() && choices_.one_in(6)) return exception_instruction();
  if (choices_.has_references() && choices_.one_in(4)) return reference_instruction();
  switch (choices_.below(choices_.has_vectors() ? 38 : 32)) {
    case 0:
    case 1: return chain();
    case 2:
    case 3: return plain_instruction(favourite(choices_));
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
      return plain_instruction(
          plain_instructions()[choices_.below(static_cast<uint32_t>(plain_instructions().size()))]);
    case 9:
    case 10:
    case 11: return leaf(choices_.type());
    case 12:
    case 13:
    case 14: return local_set(Opcode::kLocalSet);
    case 15:
    case 16: return local_set(Opcode::kLocalTee);
    case 17: return select();
    case 18:
    case 19: return block();
    case 20:
    case 21: return if_else();
    case 22:
    case 23: return loop();
    case 24:
    case 25: return branch_if();
    case 26: return compare_and_branch();
    case 27: return choices_.one_in(3) ? leave() : branch_if();
    case 28: return call();
    case 29: return choices_.one_in(2) ? call_indirect() : call();
    case 30: return memory_bulk();
    case 31: return table_instruction();
    default:
      return vector_instruction(
          vector_instructions()[choices_.below(static_cast<uint32_t>(vector_instructions().size()))]);
  }
}

void BodyGenerator::settle_nans(Opcode op) {
  if (!choices_.is_shared() || !makes_nans(wasm::info(op).text)) return;
  const ValType type = stack_.back();
  const bool is_f32 = wasm::info(op).text.starts_with("f32");
  const uint32_t kept = first_kept_ + (type == kF32 ? 0 : type == kF64 ? 1 : 2);
  constexpr uint32_t kNan32 = 0x7FC00000;
  constexpr uint64_t kNan64 = 0x7FF8000000000000, kTwoNans32 = uint64_t{kNan32} << 32 | kNan32;
  put(Opcode::kLocalTee, kept);
  put(type == kF32 ? Opcode::kF32Const : type == kF64 ? Opcode::kF64Const : Opcode::kV128Const);
  if (type == kF32) little_endian(kNan32, 4);
  else little_endian(is_f32 ? kTwoNans32 : kNan64, 8);
  if (type == kV128) little_endian(is_f32 ? kTwoNans32 : kNan64, 8);
  put(Opcode::kLocalGet, kept);
  put(Opcode::kLocalGet, kept);
  if (type == kV128) put(is_f32 ? Opcode::kF32x4Eq : Opcode::kF64x2Eq);
  else put(is_f32 ? Opcode::kF32Eq : Opcode::kF64Eq);
  put(type == kV128 ? Opcode::kV128Bitselect : Opcode::kSelect);
  put(Opcode::kLocalTee, kept);  // others may read it
}

void BodyGenerator::vector_instruction(const Plain& entry) {
  const wasm::OpcodeInfo& row = wasm::info(entry.op);
  if (choices_.is_shared() && row.text.find("relaxed") != std::string_view::npos) return leaf(kV128);
  if (row.immediate == Immediate::kMem || row.immediate == Immediate::kMemLane) return memory_access(entry);
  demand(entry.operands);
  put(entry.op);
  if (row.immediate == Immediate::kLane)
    out_.push_back(static_cast<uint8_t>(choices_.below(lanes_of(row.text))));
  for (int i = 0; i < 16 && row.immediate == Immediate::kShuffle; ++i)
    out_.push_back(static_cast<uint8_t>(choices_.below(32)));
  drop_types(entry.operands.size());
  push(entry.results);
  settle_nans(entry.op);
}

void BodyGenerator::plain_instruction(const Plain& entry) {
  const wasm::OpcodeInfo& row = wasm::info(entry.op);
  if (row.immediate == Immediate::kMem) return memory_access(entry);
  demand(entry.operands);
  // Traps end a program, so most divisors are made odd, and few trapping conversions are kept.
  const bool divides =
      row.text.find(".div_") != std::string_view::npos || row.text.find(".rem_") != std::string_view::npos;
  if (divides && stack_.back() == kI32 && !choices_.one_in(8)) {
    constant_i32(1);
    put(Opcode::kI32Or);
    stack_.pop_back();
  } else if (divides && stack_.back() == kI64 && !choices_.one_in(8)) {
    put(Opcode::kI64Const);
    out_.push_back(1);
    put(Opcode::kI64Or);
  }
  const bool truncates = row.prefix == 0 && row.text.find(".trunc_f") != std::string_view::npos;
  Opcode op = entry.op;
  if (truncates && !choices_.one_in(6))
    op = wasm::find_opcode(0xFC,
                           static_cast<uint32_t>(row.code >= 0xAE ? row.code - 0xAE + 4 : row.code - 0xA8));
  put(op);
  drop_types(entry.operands.size());
  push(entry.results);
  settle_nans(op);
}

void BodyGenerator::operand(ValType type) {
  if (choices_.one_in(2)) return leaf(type);
  leaf(type);
  put(type == kI32 ? Opcode::kI32Popcnt : Opcode::kF64Neg);
}

void BodyGenerator::chain() {
  struct Pair {
    Opcode first, second;
    ValType type;
  };
  static constexpr Pair kFused[] = {
      {Opcode::kF64Mul, Opcode::kF64Add, kF64},    {Opcode::kF64Mul, Opcode::kF64Sub, kF64},
      {Opcode::kI32Add, Opcode::kI32Add, kI32},    {Opcode::kI32Rotl, Opcode::kI32Xor, kI32},
      {Opcode::kI32Add, Opcode::kI32Load8U, kI32}, {Opcode::kI32LtS, Opcode::kI32Eqz, kI32}};
  const Pair& pair = kFused[choices_.below(std::size(kFused))];
  const bool unary = pair.second == Opcode::kI32Load8U || pair.second == Opcode::kI32Eqz;
  const bool before = !unary && choices_.one_in(2);
  if (before) operand(pair.type);
  operand(pair.type);
  operand(pair.type);
  put(pair.first);
  stack_.pop_back();
  settle_nans(pair.first);
  if (pair.second == Opcode::kI32Load8U) return memory_access(plain(pair.second));
  if (!unary && !before) operand(pair.type);
  put(pair.second);
  if (!unary) stack_.pop_back();
  settle_nans(pair.second);
}

void BodyGenerator::local_set(Opcode op) {
  const ValType type = height() > 0 ? stack_.back() : choices_.type();
  uint32_t index = 0;
  if (!find_local(type, settable_, index)) return leaf(type);
  demand({type});
  put(op, index);
  if (op == Opcode::kLocalSet) stack_.pop_back();
}

void BodyGenerator::select() {
  const ValType type = height() > 0 ? stack_.back() : choices_.type();
  demand({type, type, kI32});
  if (wasm::is_ref(type) || choices_.one_in(3)) {
    put(Opcode::kSelectTyped, 1);
    wasm::append_val_type(out_, type);
  } else {
    put(Opcode::kSelect);
  }
  drop_types(2);
}

}  // namespace membrane::engine::generator
