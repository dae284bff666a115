// Queries about places of a function's code, answered while it is compiled again.
//
// Threads: belongs to one compiler. The watches are the caller's.
#pragma once

#include <cstdint>
#include <span>

#include "engine/code/code_query.h"
#include "engine/native/compiler.h"

namespace membrane::engine::native {

class Watches {
 public:
  void look_for(std::span<Watch> watches) {
    all_ = watches;
    by_pc_.look_for(watches, &Watch::wanted_pc);
    by_offset_.look_for(watches, &Watch::wanted_code_offset);
  }
  [[nodiscard]] bool empty() const { return all_.empty(); }
  [[nodiscard]] std::span<Watch> all() const { return all_; }
  // Calls take(watch) for each watch of a byte of the code, or of a byte in [first, end).
  void each_at(uint32_t pc, auto take) const { by_pc_.each_at(pc, take); }
  void each_between(uint32_t first, uint32_t end, auto take) const { by_pc_.each_between(first, end, take); }
  // The same for the charge of the segment that begins there in the body.
  void each_at_offset(uint32_t offset, auto take) const { by_offset_.each_at(offset, take); }

 private:
  std::span<Watch> all_;
  CodeQuery<Watch> by_pc_, by_offset_;
};

}  // namespace membrane::engine::native
