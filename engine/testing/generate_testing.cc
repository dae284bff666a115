#include "engine/testing/generate_testing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string_view>

#include "wasm/assemble_testing.h"
#include "wasm/body.h"
#include "wasm/opcode.h"
#include "wasm/type_coding.h"

namespace membrane::engine {
namespace {

using wasm::Immediate;
using wasm::Opcode;
using wasm::ValType;
using wasm::testing::Bytes;
using Types = std::vector<ValType>;
using enum wasm::ValType;

constexpr std::array<ValType, 5> kTypes{kI32, kI64, kF32, kF64, kV128};  // global i has type i
constexpr uint32_t kFunctionCount = 4;
constexpr uint32_t kTableSize = 8;
constexpr uint32_t kDataBytes = 24;
constexpr uint32_t kCounters = 3;  // locals that only loops count with
constexpr uint32_t kExceptionGlobal = kTypes.size();

// The types of a module with references, which come before its function types: a pair of a number and a pair, one
// with more fields, an array of i16, and an array of pairs.
constexpr uint32_t kPairType = 0, kLargeType = 1, kShortsType = 2, kPairsType = 3;
constexpr ValType kPair = wasm::ref_null_to(kPairType), kShorts = wasm::ref_null_to(kShortsType),
                  kPairs = wasm::ref_null_to(kPairsType);

class Choices {
 public:
  // Half of the modules have no vectors, so that a compiler that knows none of them sees enough of the rest.
  Choices(std::span<const uint8_t> bytes, Dialect dialect)
      : bytes_(bytes), is_shared_(dialect == Dialect::kShared), has_vectors_(one_in(2)) {}
  bool is_shared() const { return is_shared_; }
  bool has_vectors() const { return has_vectors_; }
  // Half have exceptions, by a bit that takes no choice from the others.
  bool has_exceptions() const { return !is_shared_ && !bytes_.empty() && bytes_.back() % 2 == 0; }
  // And half references to functions, structs and arrays, by another.
  bool has_references() const { return !is_shared_ && !bytes_.empty() && bytes_.back() / 2 % 2 == 0; }
  bool at_end() const { return at_ >= bytes_.size(); }
  uint8_t byte() { return at_end() ? 0 : bytes_[at_++]; }
  uint32_t below(uint32_t n) { return byte() % n; }
  bool one_in(uint32_t n) { return below(n) == n - 1; }  // false at the end of the bytes
  uint64_t number() {
    static constexpr uint64_t kEdges[] = {0,
                                          1,
                                          2,
                                          7,
                                          31,
                                          32,
                                          63,
                                          64,
                                          255,
                                          0x7FFF,
                                          0x8000,
                                          0xFFFF,
                                          0x7FFFFFFF,
                                          0x80000000,
                                          0xFFFFFFFF,
                                          0xFFFFFFFE,
                                          0x100000000,
                                          0x7FFFFFFFFFFFFFFF,
                                          0x8000000000000000,
                                          0xFFFFFFFFFFFFFFFF,
                                          0xFFFFFFFF80000000,
                                          0xFFFFFFFF7FFFFFFF};
    if (const uint32_t kind = below(4); kind < 2) return below(40);
    else if (kind == 2) return kEdges[below(std::size(kEdges))];
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  ValType type() { return kTypes[below(has_vectors_ ? 5 : 4)]; }
  Types types(uint32_t most) {
    Types list(below(most + 1));
    for (ValType& t : list) t = type();
    return list;
  }
  // Of the first function, which is called from outside.
  Types outer_types(uint32_t most) {
    Types list = types(most);
    if (is_shared_) std::erase(list, kV128);
    return list;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  bool is_shared_;
  bool has_vectors_;
};

double double_of(Choices& choices) {
  static constexpr double kEdges[] = {0.0,
                                      -0.0,
                                      1.0,
                                      -1.0,
                                      0.5,
                                      1.5,
                                      2.5,
                                      -2.5,
                                      3e9,
                                      -3e9,
                                      1e19,
                                      1e-310,
                                      1e300,
                                      16777217.0,
                                      std::numeric_limits<double>::infinity(),
                                      -std::numeric_limits<double>::infinity()};
  return choices.one_in(4) ? static_cast<double>(static_cast<int64_t>(choices.number())) / 8.0
                           : kEdges[choices.below(std::size(kEdges))];
}

ValType type_of_letter(char letter) {
  switch (letter) {
    case 'i': return kI32;
    case 'I': return kI64;
    case 'f': return kF32;
    case 'F': return kF64;
    default: return kV128;
  }
}

// An instruction whose types are in the table, and that has no more than a memory address and lanes.
struct Plain {
  Opcode op;
  Types operands, results;
};

bool is_plain(const wasm::OpcodeInfo& row) {
  switch (row.immediate) {
    case Immediate::kNone:
    case Immediate::kMem:
    case Immediate::kMemLane:
    case Immediate::kLane:
    case Immediate::kShuffle: return row.signature != ":" && row.signature != "*";
    default: return false;
  }
}

std::vector<Plain> instructions_of(bool vectors) {
  std::vector<Plain> list;
  for (size_t i = 0; i < wasm::kOpcodeCount; ++i) {
    const auto op = static_cast<Opcode>(i);
    const wasm::OpcodeInfo& row = wasm::info(op);
    if (!is_plain(row) || (row.prefix == 0xFD) != vectors) continue;
    const size_t colon = row.signature.find(':');
    Plain entry{op, {}, {}};
    for (const char c : row.signature.substr(0, colon)) entry.operands.push_back(type_of_letter(c));
    for (const char c : row.signature.substr(colon + 1)) entry.results.push_back(type_of_letter(c));
    list.push_back(std::move(entry));
  }
  return list;
}

const std::vector<Plain>& plain_instructions() {
  static const std::vector<Plain> all = instructions_of(false);
  return all;
}

const std::vector<Plain>& vector_instructions() {
  static const std::vector<Plain> all = instructions_of(true);
  return all;
}

// Of a shape: 8 of "i16x8.extract_lane_s".
uint32_t lanes_of(std::string_view mnemonic) {
  uint32_t lanes = 0;
  for (size_t i = mnemonic.find('x') + 1; mnemonic[i] != '.'; ++i)
    lanes = 10 * lanes + static_cast<uint32_t>(mnemonic[i] - '0');
  return lanes;
}

// Those that the translator fuses, and their neighbours: chosen more often.
constexpr Opcode kFavourites[] = {Opcode::kI32Add,
                                  Opcode::kI32Add,
                                  Opcode::kI32Sub,
                                  Opcode::kI32Xor,
                                  Opcode::kI32Rotl,
                                  Opcode::kI32And,
                                  Opcode::kI32Shl,
                                  Opcode::kI32Eqz,
                                  Opcode::kI64Eqz,
                                  Opcode::kI32LtS,
                                  Opcode::kI32GeU,
                                  Opcode::kI64LtU,
                                  Opcode::kI64Eq,
                                  Opcode::kI64Add,
                                  Opcode::kI64Mul,
                                  Opcode::kF64Mul,
                                  Opcode::kF64Mul,
                                  Opcode::kF64Add,
                                  Opcode::kF64Sub,
                                  Opcode::kF32Mul,
                                  Opcode::kF32Add,
                                  Opcode::kI32Load,
                                  Opcode::kI32Load8U,
                                  Opcode::kF64Load,
                                  Opcode::kI64Load,
                                  Opcode::kI32Store,
                                  Opcode::kF64Store,
                                  Opcode::kI32WrapI64,
                                  Opcode::kI64ExtendI32S,
                                  Opcode::kI32ReinterpretF32,
                                  Opcode::kF64ReinterpretI64,
                                  Opcode::kF64Lt};

// Whether it computes with floats, and a NaN among its results could be any.
bool makes_nans(std::string_view text) {
  const bool has_floats = text.starts_with("f32") || text.starts_with("f64");
  const std::string_view name = text.substr(text.find('.') + 1);
  static constexpr std::string_view kComputing[] = {"add", "sub",  "mul",   "div",     "sqrt", "min",
                                                    "max", "ceil", "floor", "nearest", "trunc"};
  return has_floats && (std::ranges::find(kComputing, name) != std::end(kComputing) ||
                        name.starts_with("demote") || name.starts_with("promote"));
}

const Plain& plain(Opcode op) { return *std::ranges::find(plain_instructions(), op, &Plain::op); }

void append_opcode(Bytes& out, Opcode op) {
  const wasm::OpcodeInfo& row = wasm::info(op);
  if (row.prefix == 0) return out.push_back(static_cast<uint8_t>(row.code));
  out.push_back(row.prefix);
  write_leb128(out, uint32_t{row.code});
}

// The types of a module, each once.
class TypeSection {
 public:
  explicit TypeSection(bool has_references) {
    if (!has_references) return;
    const Bytes pair = {0x7F, 1, 0x63, kPairType, 1};
    const auto with = [](Bytes head, const Bytes& fields) {
      head.insert(head.end(), fields.begin(), fields.end());
      return head;
    };
    Bytes large = with({0x50, 1, kPairType, 0x5F, 4}, pair);
    large.insert(large.end(), {0x78, 1, 0x7C, 1});
    first_ = {with({0x50, 0, 0x5F, 2}, pair), large, {0x5E, 0x77, 1}, {0x5E, 0x63, kPairType, 1}};
  }
  uint32_t index_of(const Types& params, const Types& results) {
    const wasm::FuncType wanted{params, results};
    const auto found = std::ranges::find(all_, wanted);
    const auto first = static_cast<uint32_t>(first_.size());
    if (found != all_.end()) return first + static_cast<uint32_t>(found - all_.begin());
    all_.push_back(wanted);
    return first + static_cast<uint32_t>(all_.size() - 1);
  }
  Bytes bytes() const {
    std::vector<Bytes> list = first_;
    for (const wasm::FuncType& t : all_) list.push_back(wasm::testing::func_type(t.params, t.results));
    return wasm::testing::section(1, wasm::testing::vec(list));
  }

 private:
  std::vector<Bytes> first_;
  std::vector<wasm::FuncType> all_;
};

// -- one function ------------------------------------------------------------------------------

class BodyGenerator {
 public:
  BodyGenerator(Choices& choices, TypeSection& types, const std::vector<wasm::FuncType>& functions,
                const std::vector<Types>& tags, uint32_t self)
      : choices_(choices),
        types_(types),
        functions_(functions),
        tags_(tags),
        self_(self),
        locals_(functions[self].params) {}

  Bytes generate() {
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

 private:
  struct Label {
    Types branch;  // what a branch to it carries
    size_t floor;  // of the stack in the block
  };

  // -- writing
  void put(Opcode op) { append_opcode(out_, op); }
  void put(Opcode op, uint32_t index) {
    put(op);
    write_leb128(out_, index);
  }
  void constant_i32(uint32_t value) {
    put(Opcode::kI32Const);
    write_leb128(out_, static_cast<int32_t>(value));
    push(kI32);
  }
  void little_endian(uint64_t bits, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  }
  void constant(ValType type) {
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
  // Numbers that are the edges of some lanes, or any bytes.
  void vector_bytes() {
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

  // -- the stack
  void push(ValType type) { stack_.push_back(type); }
  void push(const Types& list) { stack_.insert(stack_.end(), list.begin(), list.end()); }
  void drop_types(size_t count) { stack_.resize(stack_.size() - count); }
  size_t height() const { return stack_.size() - labels_.back().floor; }
  bool top_is(const Types& list, size_t count) const {
    return height() >= count && std::equal(list.begin(), list.begin() + static_cast<ptrdiff_t>(count),
                                           stack_.end() - static_cast<ptrdiff_t>(count));
  }
  // Makes `wanted` the top of the stack: the longest part of its beginning that is there is used.
  void demand(const Types& wanted) {
    size_t have = choices_.one_in(5) ? 0 : wanted.size();
    while (!top_is(wanted, have)) --have;
    for (size_t i = have; i < wanted.size(); ++i) leaf(wanted[i]);
  }
  void leaf(ValType type) {
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
  static bool has_global(ValType type) { return type != kShorts && type != kPairs && type != kAnyRef; }
  uint32_t global_of(ValType type) const {
    if (type == kExnRef) return kExceptionGlobal;
    if (type == kPair) return kExceptionGlobal + (tags_.empty() ? 0 : 1);
    return static_cast<uint32_t>(std::ranges::find(kTypes, type) - kTypes.begin());
  }
  bool find_local(ValType type, size_t most, uint32_t& found) {
    if (most == 0) return false;
    const uint32_t first = choices_.below(static_cast<uint32_t>(most));
    for (uint32_t i = 0; i < most; ++i) {
      found = (first + i) % static_cast<uint32_t>(most);
      if (locals_[found] == type) return true;
    }
    return false;
  }
  bool local_get(ValType type) {
    uint32_t index = 0;
    if (!find_local(type, locals_.size(), index)) return false;
    put(Opcode::kLocalGet, index);
    push(type);
    return true;
  }
  void drop() {
    put(Opcode::kDrop);
    stack_.pop_back();
  }
  // Consumes the top by one way or another.
  void consume() {
    const ValType type = stack_.back();
    uint32_t index = 0;
    const uint32_t kind = choices_.below(4);
    if (kind < 2 && find_local(type, settable_, index)) put(Opcode::kLocalSet, index);
    else if (kind == 2 && has_global(type)) put(Opcode::kGlobalSet, global_of(type));
    else put(Opcode::kDrop);
    stack_.pop_back();
  }
  // Makes the block's stack exactly `results`.
  void finish(const Types& results) {
    const size_t floor = labels_.back().floor;
    size_t keep = std::min(results.size(), height());
    while (!std::equal(results.begin(), results.begin() + static_cast<ptrdiff_t>(keep),
                       stack_.begin() + static_cast<ptrdiff_t>(floor)))
      --keep;
    while (height() > keep) consume();
    for (size_t i = keep; i < results.size(); ++i) leaf(results[i]);
  }

  // -- instructions
  void instructions(uint32_t count) {
    for (uint32_t i = 0; i < count && !choices_.at_end() && out_.size() < 6000; ++i) {
      while (height() > 10) consume();
      instruction();
    }
  }

  void instruction() {
    if (!tags_.empty() && choices_.one_in(6)) return exception_instruction();
    if (choices_.has_references() && choices_.one_in(4)) return reference_instruction();
    switch (choices_.below(choices_.has_vectors() ? 38 : 32)) {
      case 0:
      case 1: return chain();
      case 2:
      case 3: return plain_instruction(plain(kFavourites[choices_.below(std::size(kFavourites))]));
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

  // Behind arithmetic on floats, whose NaNs differ between machines: makes them all one.
  void settle_nans(Opcode op) {
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

  void vector_instruction(const Plain& entry) {
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

  void plain_instruction(const Plain& entry) {
    const wasm::OpcodeInfo& row = wasm::info(entry.op);
    if (row.immediate == Immediate::kMem) return memory_access(entry);
    demand(entry.operands);
    // Traps end a program: most divisors are made odd, and of the conversions that trap, few are kept.
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

  // A value that is computed (and so has a slot of its own), is a local, or is a constant.
  void operand(ValType type) {
    if (choices_.one_in(2)) return leaf(type);
    leaf(type);
    put(type == kI32 ? Opcode::kI32Popcnt : Opcode::kF64Neg);
  }

  // An operation on the result of another, which the translator may make one: operands of every kind
  // on every side.
  void chain() {
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

  // Memory 0, and seldom memory 1.
  uint32_t memory() { return choices_.one_in(6) && !choices_.is_shared() ? 1 : 0; }

  // Makes an i32 on the stack an address that is mostly in bounds.
  void address() {
    demand({kI32});
    if (!choices_.one_in(24)) {
      constant_i32(choices_.one_in(3) ? 0xFF : 0xFFFF);
      put(Opcode::kI32And);
      stack_.pop_back();
    }
    if (choices_.one_in(2)) {
      constant_i32(choices_.one_in(8) ? static_cast<uint32_t>(choices_.number()) : choices_.below(256));
      put(Opcode::kI32Add);
      stack_.pop_back();
    }
  }

  void memory_access(const Plain& entry) {
    address();
    const uint32_t index = choices_.one_in(8) && !choices_.is_shared() ? 2 : memory();
    if (index == 2) {  // its addresses have 64 bits
      put(choices_.one_in(8) ? Opcode::kI64ExtendI32S : Opcode::kI64ExtendI32U);
      stack_.back() = kI64;
    }
    if (entry.operands.size() == 2) demand({stack_.back(), entry.operands[1]});
    put(entry.op);
    write_leb128(out_, choices_.below(uint32_t{wasm::info(entry.op).align} + 1) +
                           (index == 0 ? 0 : wasm::kMemArgHasMemory));
    if (index != 0) write_leb128(out_, index);
    const uint32_t kind = choices_.below(32);
    write_leb128(out_, kind < 20    ? choices_.below(64)
                       : kind == 31 ? static_cast<uint32_t>(choices_.number())
                                    : 0u);
    if (wasm::info(entry.op).immediate == Immediate::kMemLane)
      out_.push_back(static_cast<uint8_t>(choices_.below(16u >> wasm::info(entry.op).align)));
    drop_types(entry.operands.size());
    push(entry.results);
  }

  void local_set(Opcode op) {
    const ValType type = height() > 0 ? stack_.back() : choices_.type();
    uint32_t index = 0;
    if (!find_local(type, settable_, index)) return leaf(type);
    demand({type});
    put(op, index);
    if (op == Opcode::kLocalSet) stack_.pop_back();
  }

  void select() {
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

  // -- control
  void open(Opcode op, const Types& params, const Types& results) {
    put(op);
    if (params.empty() && results.empty()) out_.push_back(0x40);
    else if (params.empty() && results.size() == 1) wasm::append_val_type(out_, results[0]);
    else write_leb128(out_, static_cast<int64_t>(types_.index_of(params, results)));
    labels_.push_back({op == Opcode::kLoop ? params : results, stack_.size() - params.size()});
  }
  // Ends the block; its results replace what is in it.
  void close(const Types& results) {
    finish(results);
    put(Opcode::kEnd);
    labels_.pop_back();
  }
  bool is_deep() const { return labels_.size() > 6; }

  void block() {
    if (is_deep()) return leaf(choices_.type());
    const Types params = choices_.types(2), results = choices_.types(choices_.one_in(8) ? 6 : 2);
    demand(params);
    open(Opcode::kBlock, params, results);
    instructions(1 + choices_.below(10));
    close(results);
  }

  void if_else() {
    if (is_deep()) return leaf(choices_.type());
    const bool has_else = choices_.one_in(2);
    const Types params = choices_.types(2), results = has_else ? choices_.types(2) : params;
    Types wanted = params;
    wanted.push_back(kI32);
    demand(wanted);
    stack_.pop_back();
    open(Opcode::kIf, params, results);
    instructions(1 + choices_.below(6));
    finish(results);
    if (has_else) {
      put(Opcode::kElse);
      stack_.resize(labels_.back().floor);
      push(params);
      instructions(1 + choices_.below(6));
      finish(results);
    }
    put(Opcode::kEnd);
    labels_.pop_back();
  }

  void loop() {
    if (is_deep() || loops_ == kCounters) return leaf(choices_.type());
    const auto counter = static_cast<uint32_t>(locals_.size() - 1 - loops_++);
    if (choices_.one_in(2)) {
      constant_i32(0);
      put(Opcode::kLocalSet, counter);
      stack_.pop_back();
    }
    const Types params = choices_.types(2), results = choices_.types(2);
    demand(params);
    open(Opcode::kLoop, params, results);
    instructions(1 + choices_.below(10));
    demand(params);
    put(Opcode::kLocalGet, counter);
    push(kI32);
    constant_i32(1);
    put(Opcode::kI32Add);
    drop_types(2);
    if (choices_.one_in(2)) {
      put(Opcode::kLocalTee, counter);
    } else {
      put(Opcode::kLocalSet, counter);
      put(Opcode::kLocalGet, counter);
    }
    push(kI32);
    constant_i32(2 + choices_.below(9));
    static constexpr Opcode kTests[] = {Opcode::kI32LtS, Opcode::kI32LtU, Opcode::kI32LeU, Opcode::kI32Ne};
    put(kTests[choices_.below(std::size(kTests))]);
    drop_types(2);
    put(Opcode::kBrIf, 0);
    close(results);
    --loops_;
  }

  uint32_t some_label() { return choices_.below(static_cast<uint32_t>(labels_.size())); }
  const Label& label(uint32_t depth) const { return labels_[labels_.size() - 1 - depth]; }

  void branch_if() {
    const uint32_t depth = some_label();
    Types wanted = label(depth).branch;
    wanted.push_back(kI32);
    demand(wanted);
    put(Opcode::kBrIf, depth);
    stack_.pop_back();
  }

  void compare_and_branch() {
    const uint32_t depth = some_label();
    const Types wanted = label(depth).branch;
    demand(wanted);
    static constexpr Opcode kTests[] = {Opcode::kI32Eqz, Opcode::kI64Eqz, Opcode::kI32GtS, Opcode::kI64LeU,
                                        Opcode::kI64GeS, Opcode::kI32Ne,  Opcode::kF64Le,  Opcode::kF32Gt};
    const Plain& test = plain(kTests[choices_.below(std::size(kTests))]);
    for (const ValType t : test.operands) leaf(t);
    put(test.op);
    drop_types(test.operands.size());
    put(Opcode::kBrIf, depth);
  }

  // Leaves for good: br, br_table, return, a tail call or unreachable. The rest of the block is dead code.
  void leave() {
    const uint32_t depth = some_label();
    const Types wanted = label(depth).branch;
    switch (choices_.below(9)) {
      case 0:
      case 1:
      case 2:
        demand(wanted);
        put(Opcode::kBr, depth);
        break;
      case 8: tail_call(); break;
      case 3:
      case 4:
      case 5: branch_table(depth); break;
      case 6:
        demand(labels_.front().branch);
        put(Opcode::kReturn);
        break;
      default: put(Opcode::kUnreachable);
    }
    stack_.resize(labels_.back().floor);
  }

  void branch_table(uint32_t depth) {
    Types wanted = label(depth).branch;
    std::vector<uint32_t> alike;
    for (uint32_t d = 0; d < labels_.size(); ++d)
      if (label(d).branch == wanted) alike.push_back(d);
    wanted.push_back(kI32);
    demand(wanted);
    const uint32_t count = choices_.below(5);
    put(Opcode::kBrTable, count);
    for (uint32_t i = 0; i <= count; ++i)
      write_leb128(out_, alike[choices_.below(static_cast<uint32_t>(alike.size()))]);
  }

  void call() {
    // Mostly to a later function: recursion is bounded by the depth of calls alone.
    const uint32_t later = kFunctionCount - self_ - 1;
    const bool recursive = later == 0 || choices_.one_in(8);
    if (recursive && !choices_.one_in(8)) return leaf(choices_.type());
    const uint32_t callee = recursive ? choices_.below(kFunctionCount) : self_ + 1 + choices_.below(later);
    demand(functions_[callee].params);
    put(Opcode::kCall, callee);
    drop_types(functions_[callee].params.size());
    push(functions_[callee].results);
  }

  // Of a function with the results of this one, mostly a later one; without another, of itself.
  void tail_call() {
    uint32_t callee = self_ + choices_.below(kFunctionCount - self_);
    if (functions_[callee].results != functions_[self_].results) callee = self_;
    demand(functions_[callee].params);
    if (choices_.one_in(2)) return put(Opcode::kReturnCall, callee);
    constant_i32(choices_.one_in(10) ? choices_.below(kTableSize + 4) : callee);
    put(Opcode::kReturnCallIndirect, types_.index_of(functions_[callee].params, functions_[callee].results));
    out_.push_back(0);
  }

  void call_indirect() {
    const uint32_t callee = choices_.below(kFunctionCount);
    Types wanted = functions_[callee].params;
    demand(wanted);
    constant_i32(choices_.one_in(10) ? choices_.below(kTableSize + 4) : callee);
    put(Opcode::kCallIndirect, types_.index_of(functions_[callee].params, functions_[callee].results));
    out_.push_back(0);
    drop_types(wanted.size() + 1);
    push(functions_[callee].results);
  }

  // -- exceptions
  void exception_instruction() {
    switch (choices_.below(8)) {
      case 0: return throw_tag();
      case 1: return choices_.one_in(3) ? throw_ref() : leaf(kExnRef);
      case 2:
        demand({kExnRef});
        put(Opcode::kRefIsNull);
        stack_.back() = kI32;
        return;
      default: return try_table();
    }
  }

  // Half of them under a condition: what stands behind is not reached else.
  void throw_tag() {
    const uint32_t tag = choices_.below(static_cast<uint32_t>(tags_.size()));
    const bool always = choices_.one_in(2);
    if (!always) open_condition();
    demand(tags_[tag]);
    put(Opcode::kThrow, tag);
    close_condition(always);
  }
  void throw_ref() {
    const bool always = choices_.one_in(2);
    if (!always) open_condition();
    demand({kExnRef});
    put(Opcode::kThrowRef);
    close_condition(always);
  }
  void open_condition() {
    leaf(kI32);
    stack_.pop_back();
    open(Opcode::kIf, {}, {});
  }
  void close_condition(bool always) {
    stack_.resize(labels_.back().floor);
    if (always) return;
    put(Opcode::kEnd);
    labels_.pop_back();
  }

  struct Clause {
    uint8_t kind;
    uint32_t tag, label;
  };
  Types caught_by(const Clause& clause) const {
    Types types;
    if ((clause.kind & wasm::CatchClause::kAll) == 0) types = tags_[clause.tag];
    if ((clause.kind & wasm::CatchClause::kRef) != 0) types.push_back(kExnRef);
    return types;
  }
  Clause some_clause(uint32_t label) {
    return {static_cast<uint8_t>(choices_.below(4)), choices_.below(static_cast<uint32_t>(tags_.size())),
            label};
  }

  // A block that takes what its first clause catches; others go to wherever what they catch fits.
  void try_table() {
    if (is_deep()) return leaf(choices_.type());
    std::vector<Clause> clauses{some_clause(0)};
    const Types caught = caught_by(clauses[0]);
    open(Opcode::kBlock, {}, caught);
    for (uint32_t i = choices_.below(3); i > 0; --i) {
      const Clause clause = some_clause(choices_.below(static_cast<uint32_t>(labels_.size())));
      if (label(clause.label).branch == caught_by(clause)) clauses.push_back(clause);
    }
    if (choices_.one_in(3)) std::ranges::rotate(clauses, clauses.begin() + 1);
    const Types params = choices_.types(2), results = choices_.types(2);
    demand(params);
    open(Opcode::kTryTable, params, results);
    write_leb128(out_, static_cast<uint32_t>(clauses.size()));
    for (const Clause& clause : clauses) {
      out_.push_back(clause.kind);
      if ((clause.kind & wasm::CatchClause::kAll) == 0) write_leb128(out_, clause.tag);
      write_leb128(out_, clause.label);
    }
    instructions(1 + choices_.below(10));
    close(results);
    instructions(choices_.below(3));
    close(caught);
  }

  // -- references
  void put(Opcode op, uint32_t index, uint32_t index2) {
    put(op, index);
    write_leb128(out_, index2);
  }
  void null(ValType type) {
    put(Opcode::kRefNull);
    wasm::append_heap_type(out_, type);
  }
  void number(uint32_t value) {
    put(Opcode::kI32Const);
    write_leb128(out_, static_cast<int32_t>(value));
  }
  void open_plain(const Types& params, const Types& results) {
    put(Opcode::kBlock);
    write_leb128(out_, static_cast<int64_t>(types_.index_of(params, results)));
  }
  void new_pair() {
    number(5);
    null(kPair);
    put(Opcode::kStructNew, kPairType);
  }
  // Puts another in the place of null, which would end the program; but not always.
  void non_null(ValType type) {
    demand({type});
    if (choices_.one_in(24)) return;
    open_plain({type}, {wasm::non_null(type)});
    put(Opcode::kBrOnNonNull, 0);
    if (type == kPair) {
      new_pair();
    } else if (type == kShorts) {
      number(77777);
      number(4);
      put(Opcode::kArrayNew, kShortsType);
    } else {
      null(kPair);
      new_pair();
      put(Opcode::kArrayNewFixed, kPairsType, 2);
    }
    put(Opcode::kEnd);
  }
  uint32_t short_index() { return choices_.below(choices_.one_in(8) ? 9 : 4); }

  void reference_instruction() {
    switch (choices_.below(12)) {
      case 0: return make_object();
      case 1: return make_object();
      case 2: return pair_instruction();
      case 3: return pair_instruction();
      case 4: return shorts_instruction();
      case 5: return pairs_instruction();
      case 6: return any_instruction();
      case 7: return test();
      case 8: return cast();
      case 9: return call_reference();
      case 10:
        demand({kPair, kPair});
        put(Opcode::kRefEq);
        drop_types(1);
        stack_.back() = kI32;
        return;
      default: return branch_on_null();
    }
  }

  void make_object() {
    Types operands;
    ValType made = kPair;
    switch (choices_.below(6)) {
      case 0:
      case 1: operands = {kI32, kPair}; break;
      case 2: operands = {kI32, kPair, kI32, kF64}; break;
      case 3:
        put(Opcode::kStructNewDefault, choices_.below(2) == 0 ? kPairType : kLargeType);
        return push(kPair);
      case 4:
        made = kShorts;
        operands = {kI32};
        break;
      default: made = kPairs; operands = {kPair};
    }
    demand(operands);
    if (made == kPair) {
      put(Opcode::kStructNew, operands.size() == 2 ? kPairType : kLargeType);
    } else {
      number(4 + choices_.below(8));
      put(Opcode::kArrayNew, wasm::type_index_of(made));
    }
    drop_types(operands.size());
    push(made);
  }

  void pair_instruction() {
    non_null(kPair);
    switch (choices_.below(4)) {
      case 0:
        put(Opcode::kStructGet, kPairType, 0);
        stack_.back() = kI32;
        return;
      case 1: return put(Opcode::kStructGet, kPairType, 1);
      case 2:
        leaf(kI32);
        put(Opcode::kStructSet, kPairType, 0);
        break;
      default: leaf(kPair); put(Opcode::kStructSet, kPairType, 1);
    }
    drop_types(2);
  }

  void shorts_instruction() {
    if (choices_.one_in(6)) {
      number(choices_.below(12));
      number(choices_.below(8));
      put(Opcode::kArrayNewData, kShortsType, 0);
      return push(kShorts);
    }
    non_null(kShorts);
    stack_.back() = kI32;
    switch (choices_.below(7)) {
      case 0: return put(Opcode::kArrayLen);
      case 1:
      case 2:
        number(short_index());
        return put(choices_.one_in(2) ? Opcode::kArrayGetS : Opcode::kArrayGetU, kShortsType);
      case 3:
      case 4:
        number(short_index());
        leaf(kI32);
        put(Opcode::kArraySet, kShortsType);
        return drop_types(2);
      case 5:
        number(short_index());
        leaf(kI32);
        number(choices_.below(3));
        put(Opcode::kArrayFill, kShortsType);
        return drop_types(2);
      default:
        number(short_index());
        leaf(kShorts);
        number(short_index());
        number(choices_.below(3));
        put(Opcode::kArrayCopy, kShortsType, kShortsType);
        return drop_types(2);
    }
  }

  void pairs_instruction() {
    non_null(kPairs);
    number(choices_.below(choices_.one_in(8) ? 9 : 2));
    if (choices_.one_in(2)) {
      put(Opcode::kArrayGet, kPairsType);
      stack_.back() = kPair;
      return;
    }
    leaf(kPair);
    put(Opcode::kArraySet, kPairsType);
    drop_types(2);
  }

  void any_instruction() {
    const uint32_t kind = choices_.below(4);
    if (kind == 0) {
      demand({kI32});
      put(Opcode::kRefI31);
    } else if (kind == 1) {
      demand({kPair});
    } else if (kind == 2) {
      demand({kShorts});
    } else {
      demand({kAnyRef});
      put(Opcode::kExternConvertAny);
      put(Opcode::kAnyConvertExtern);
    }
    stack_.back() = kAnyRef;
  }

  void test() {
    static constexpr ValType kTargets[] = {
        kPair, wasm::ref_null_to(kLargeType), kShorts, kI31Ref, kEqRef, kStructRef, kNullRef, kAnyRef};
    demand({kAnyRef});
    put(choices_.one_in(2) ? Opcode::kRefTest : Opcode::kRefTestNull);
    wasm::append_heap_type(out_, kTargets[choices_.below(std::size(kTargets))]);
    stack_.back() = kI32;
  }

  // By a branch, or where it may end the program.
  void cast() {
    demand({kAnyRef});
    const bool to_i31 = choices_.one_in(3);
    const ValType target = to_i31 ? wasm::non_null(kI31Ref) : kPair;
    if (choices_.one_in(8)) {
      put(to_i31 ? Opcode::kRefCast : Opcode::kRefCastNull);
      wasm::append_heap_type(out_, target);
    } else {
      open_plain({kAnyRef}, {target});
      put(Opcode::kBrOnCast);
      out_.push_back(to_i31 ? 1 : 3);
      out_.push_back(0);
      wasm::append_heap_type(out_, kAnyRef);
      wasm::append_heap_type(out_, target);
      put(Opcode::kDrop);
      if (to_i31) number(9), put(Opcode::kRefI31);
      else null(kPair);
      put(Opcode::kEnd);
    }
    stack_.back() = kPair;
    if (!to_i31) return;
    put(choices_.one_in(2) ? Opcode::kI31GetS : Opcode::kI31GetU);
    stack_.back() = kI32;
  }

  void call_reference() {
    const uint32_t later = kFunctionCount - self_ - 1;
    if (later == 0) return leaf(kI32);
    const uint32_t callee = self_ + 1 + choices_.below(later);
    const wasm::FuncType& type = functions_[callee];
    demand(type.params);
    if (choices_.one_in(16)) null(wasm::ref_null_to(types_.index_of(type.params, type.results)));
    else put(Opcode::kRefFunc, callee);
    if (choices_.one_in(4)) put(Opcode::kRefAsNonNull);
    put(Opcode::kCallRef, types_.index_of(type.params, type.results));
    drop_types(type.params.size());
    push(type.results);
  }

  void branch_on_null() {
    const uint32_t depth = some_label();
    Types wanted = label(depth).branch;
    wanted.push_back(kPair);
    demand(wanted);
    put(Opcode::kBrOnNull, depth);
  }

  // -- memory and tables
  void small_length() {
    constant_i32(choices_.one_in(16) ? static_cast<uint32_t>(choices_.number()) : choices_.below(80));
  }

  void memory_bulk() {
    const uint32_t kind = choices_.below(6);
    if (kind == 0) {
      constant_i32(choices_.one_in(6) ? static_cast<uint32_t>(choices_.number()) : choices_.below(2));
      put(Opcode::kMemoryGrow, memory());
      return;
    }
    if (kind == 5) return put(Opcode::kDataDrop, 0);
    address();
    if (kind == 1) {
      leaf(kI32);
      small_length();
      put(Opcode::kMemoryFill, memory());
    } else if (kind == 4) {
      constant_i32(choices_.below(kDataBytes / 2));
      constant_i32(choices_.below(kDataBytes / 2 + 2));
      put(Opcode::kMemoryInit, 0);
      write_leb128(out_, memory());
    } else {
      constant_i32(choices_.below(255) * 7);
      small_length();
      put(Opcode::kMemoryCopy, memory());
      write_leb128(out_, memory());
    }
    drop_types(3);
  }

  void table_index() {
    if (choices_.one_in(12)) return leaf(kI32);
    constant_i32(choices_.below(kTableSize));
  }
  void reference() {
    if (choices_.one_in(4)) {
      put(Opcode::kRefNull);
      out_.push_back(static_cast<uint8_t>(kFuncRef));
    } else {
      put(Opcode::kRefFunc, choices_.below(kFunctionCount));
    }
  }

  void table_instruction() {
    switch (choices_.below(8)) {
      case 0: put(Opcode::kTableSize, 0); return push(kI32);
      case 1:
      case 2:
        table_index();
        put(Opcode::kTableGet, 0);
        put(Opcode::kRefIsNull);
        return;  // an i32 for an i32
      case 3:
        table_index();
        reference();
        put(Opcode::kTableSet, 0);
        return stack_.pop_back();
      case 4:
        reference();
        constant_i32(choices_.below(3));
        put(Opcode::kTableGrow, 0);
        return;
      case 5:
        table_index();
        reference();
        constant_i32(choices_.below(3));
        put(Opcode::kTableFill, 0);
        return drop_types(2);
      case 6:
        table_index();
        table_index();
        constant_i32(choices_.below(4));
        put(Opcode::kTableCopy, 0);
        out_.push_back(0);
        return drop_types(3);
      default:
        if (choices_.one_in(8)) return put(Opcode::kElemDrop, 1);
        table_index();
        constant_i32(choices_.below(2));
        constant_i32(choices_.below(3));
        put(Opcode::kTableInit, 1);
        out_.push_back(0);
        return drop_types(3);
    }
  }

  Choices& choices_;
  TypeSection& types_;
  const std::vector<wasm::FuncType>& functions_;
  const std::vector<Types>& tags_;  // none where there are no exceptions
  const uint32_t self_;
  Types locals_;
  size_t settable_ = 0;      // locals that may be set: not the counters
  uint32_t first_kept_ = 0;  // the locals of settle_nans(), an f32, an f64 and a v128
  uint32_t loops_ = 0;       // that are open
  Types stack_;
  std::vector<Label> labels_;
  Bytes out_;
};

}  // namespace

GeneratedModule generate_module(std::span<const uint8_t> bytes, Dialect dialect) {
  using namespace wasm::testing;
  Choices choices(bytes, dialect);
  TypeSection types(choices.has_references());
  GeneratedModule made;
  std::vector<wasm::FuncType> functions(kFunctionCount);
  std::vector<Types> tags;
  std::vector<Bytes> declared, bodies, indices;
  for (wasm::FuncType& f : functions) {
    if (&f == functions.data()) f = {choices.outer_types(4), choices.outer_types(choices.one_in(6) ? 6 : 2)};
    else f = {choices.types(4), choices.types(choices.one_in(6) ? 6 : 2)};
    if (choices.has_exceptions() && &f != functions.data()) {  // the first is called from outside
      if (choices.one_in(4)) f.params.push_back(kExnRef);
      if (choices.one_in(6)) f.results.push_back(kExnRef);
    }
    if (choices.has_references() && &f != functions.data()) {
      if (choices.one_in(3)) f.params.push_back(kPair);
      if (choices.one_in(4)) f.params.push_back(kAnyRef);
      if (choices.one_in(4)) f.results.push_back(kPair);
    }
    declared.push_back(u32(types.index_of(f.params, f.results)));
  }
  std::vector<Bytes> declared_tags;
  for (uint32_t i = 0; choices.has_exceptions() && i < 3; ++i) {
    tags.push_back(choices.types(i == 0 ? 1 : 3));
    if (i == 2 && choices.one_in(3)) tags[i].push_back(kExnRef);
    if (i == 1 && choices.has_references()) tags[i].push_back(kPair);
    declared_tags.push_back(cat({{0x00}, u32(types.index_of(tags[i], {}))}));
  }
  for (size_t i = 0; i < functions[0].params.size(); ++i) made.arguments.push_back(choices.number());
  for (uint32_t i = 0; i < kFunctionCount; ++i) {
    bodies.push_back(BodyGenerator(choices, types, functions, tags, i).generate());
    indices.push_back(u32(i));
  }
  const Bytes zero_offset = code("i32.const 0; end");
  const Bytes elements = vec({cat({{0x00}, zero_offset, vec(indices)}),
                              cat({{0x01, 0x00}, vec({u32(3), u32(1), u32(0)})})});  // active, and passive
  std::vector<Bytes> globals = {
      cat({{0x7F, 1},
           code(choices.is_shared() ? "i32.const 5; end" : "i32.const 7; i32.const 2; i32.sub; end")}),
      cat({{0x7E, 1}, code("i64.const -5; end")}), cat({{0x7D, 1}, code("f32.const; end")}),
      cat({{0x7C, 1}, code("f64.const; end")}), cat({{0x7B, 1}, code("v128.const; end")})};
  if (choices.has_exceptions()) globals.push_back(cat({{0x69, 1}, code("ref.null exnref; end")}));
  if (choices.has_references()) globals.push_back({0x63, kPairType, 1, 0xD0, kPairType, 0x0B});
  Bytes data(kDataBytes);
  for (uint32_t i = 0; i < kDataBytes; ++i) data[i] = static_cast<uint8_t>(i * 37 + 1);
  std::vector<Bytes> exports = {cat({name("run"), {0x00}, u32(0)}),   cat({name("memory"), {0x02}, u32(0)}),
                                cat({name("table"), {0x01}, u32(0)}), cat({name("g0"), {0x03}, u32(0)}),
                                cat({name("g1"), {0x03}, u32(1)}),    cat({name("g2"), {0x03}, u32(2)}),
                                cat({name("g3"), {0x03}, u32(3)}),    cat({name("g4"), {0x03}, u32(4)})};
  if (!choices.is_shared()) {
    exports.push_back(cat({name("memory1"), {0x02}, u32(1)}));
    exports.push_back(cat({name("memory2"), {0x02}, u32(2)}));
  }
  if (choices.has_exceptions()) exports.push_back(cat({name("g5"), {0x03}, u32(kExceptionGlobal)}));
  made.binary = binary(
      {types.bytes(), section(3, vec(declared)), section(4, vec({{0x70, 0x01, kTableSize, kTableSize + 6}})),
       section(5,
               choices.is_shared() ? vec({{0x01, 1, 3}}) : vec({{0x01, 1, 3}, {0x01, 1, 2}, {0x05, 1, 2}})),
       declared_tags.empty() ? Bytes{} : section(13, vec(declared_tags)), section(6, vec(globals)),
       section(7, vec(exports)), section(9, elements), section(12, u32(1)), section(10, vec(bodies)),
       section(11, vec({cat({{0x01}, sized(data)})}))});
  return made;
}

std::vector<uint8_t> choices_of_seed(uint64_t seed, size_t count) {
  std::vector<uint8_t> bytes(count);
  uint64_t state = seed;
  for (uint8_t& b : bytes) {  // SplitMix64
    uint64_t z = state += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    b = static_cast<uint8_t>((z ^ (z >> 31)) >> 24);
  }
  return bytes;
}

}  // namespace membrane::engine
