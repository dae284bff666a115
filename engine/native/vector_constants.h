// The vectors that a function has as constants: numbered as they come, written after its code, and loaded from there.
//
// Invariants: a number means the same vector until the next function begins. A vector that has a number but is
// never loaded from memory costs no code unless another one is loaded.
//
// Threads: belongs to one compiler. Memory is kept from one function to the next.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/native/assembler.h"
#include "engine/native/state.h"

namespace membrane::engine::native {

class VectorConstants {
 public:
  void start() {
    constants_.clear();
    loads_.clear();
  }
  // Its number; that of an equal one, where this is among the last.
  uint32_t number_of(const Constant& wanted);
  uint32_t number_of_bytes(const uint8_t* bytes);  // 16 of them
  [[nodiscard]] const Constant& operator[](uint64_t number) const { return constants_[number]; }

  // Writes the code that loads it.
  void load(Assembler& a, Xmm to, uint64_t number);
  // Writes the constants, after all code that loads them.
  void write(Assembler& a);

 private:
  struct Load {
    Patch at;
    uint32_t number;
  };
  std::vector<Constant> constants_;
  std::vector<Load> loads_;
};

}  // namespace membrane::engine::native
