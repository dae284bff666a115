// The vector instructions for the reference interpreter: lane by lane, in integers that are wide
// enough for any result. Which lanes and what is done to them is read from the mnemonic. It shares the
// float functions of numeric.h with the engine, and nothing of numeric_simd.h.
//
// Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "wasm/body.h"

namespace membrane::engine {

// A value of any type: little endian, from byte 0; what its type does not fill is zero.
struct Cell {
  std::array<uint8_t, 16> bytes{};

  Cell() = default;
  explicit Cell(uint64_t low, uint64_t high = 0) {
    set(0, low);
    set(1, high);
  }
  template <typename T>
  [[nodiscard]] T get(size_t lane) const {
    T value;
    std::memcpy(&value, &bytes[lane * sizeof(T)], sizeof(T));
    return value;
  }
  template <typename T>
  void set(size_t lane, T value) {
    std::memcpy(&bytes[lane * sizeof(T)], &value, sizeof(T));
  }
  friend bool operator==(const Cell&, const Cell&) = default;
};

// The result of a vector instruction that is no memory access, from its operands in order.
Cell compute_vector(const wasm::Instruction& in, std::span<const Cell> operands);

// v128.load and its kin: how many bytes are read, and what becomes of them. `kept` is the operand of a load
// into one lane.
size_t bytes_of_vector_access(wasm::Opcode op);
Cell loaded_vector(const wasm::Instruction& in, std::span<const uint8_t> read, const Cell& kept);

}  // namespace membrane::engine
