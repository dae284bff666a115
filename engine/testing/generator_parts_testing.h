// What the generator of modules (module_generator_testing.h) is made of: choices, the types of a module, the plain instructions.
//
// Threads: belongs to the call of generate_module(); the lists of instructions may be read by any.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/testing/module_generator_testing.h"
#include "wasm/assemble_testing.h"
#include "wasm/opcode.h"
#include "wasm/type_coding.h"

namespace membrane::engine::generator {

using wasm::Immediate;
using wasm::Opcode;
using wasm::ValType;
using wasm::testing::Bytes;
using Types = std::vector<ValType>;
using enum wasm::ValType;

inline constexpr std::array<ValType, 5> kTypes{kI32, kI64, kF32, kF64, kV128};  // global i has type i
inline constexpr uint32_t kFunctionCount = 4;
inline constexpr uint32_t kTableSize = 8;
inline constexpr uint32_t kDataBytes = 24;
inline constexpr uint32_t kCounters = 3;  // locals that only loops count with
inline constexpr uint32_t kExceptionGlobal = kTypes.size();

// The types of a module with references, which come before its function types: a pair of a number and a pair, one
// with more fields, an array of i16, and an array of pairs.
inline constexpr uint32_t kPairType = 0, kLargeType = 1, kShortsType = 2, kPairsType = 3;
inline constexpr ValType kPair = wasm::ref_null_to(kPairType), kShorts = wasm::ref_null_to(kShortsType),
                         kPairs = wasm::ref_null_to(kPairsType);

// Reads the choices from the bytes, one after the other.
class Choices {
 public:
  // Half of the modules have no vectors, so that a compiler without vectors sees enough of the rest.
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
  uint64_t number();                                     // an edge of some type, a small one, or any
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

double double_of(Choices& choices);

// The types of a module, each once.
class TypeSection {
 public:
  explicit TypeSection(bool has_references);
  uint32_t index_of(const Types& params, const Types& results);
  Bytes bytes() const;

 private:
  std::vector<Bytes> first_;
  std::vector<wasm::FuncType> all_;
};

// An instruction whose types are in the table, and that has no more than a memory address and lanes.
struct Plain {
  Opcode op;
  Types operands, results;
};
const std::vector<Plain>& plain_instructions();
const std::vector<Plain>& vector_instructions();
const Plain& plain(Opcode op);
// Those that the translator fuses, and their neighbours: chosen more often.
const Plain& favourite(Choices& choices);
// Of a shape: 8 of "i16x8.extract_lane_s".
uint32_t lanes_of(std::string_view mnemonic);
// Whether it computes with floats, so that the bits of a NaN result are not determined.
bool makes_nans(std::string_view text);
void append_opcode(Bytes& out, Opcode op);

}  // namespace membrane::engine::generator
