// How a function body uses its locals, in loops and outside: a compiler needs this before it begins.
//
// It takes the instructions in their order, from the validator while that reads them, or from look_at().
//
// Threads: belongs to one thread. Its memory is kept from one function to the next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "wasm/body.h"

namespace membrane::wasm {

class LocalUses {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Loop {
    uint32_t parent = kNone;
    uint32_t weight = 1;    // of a use inside it
    bool has_call = false;  // in it, but not in a loop inside it
    friend bool operator==(const Loop&, const Loop&) = default;
  };
  // A local that is read or assigned in a loop, and not only in an inner one. It may be reported more than
  // once.
  struct Use {
    uint32_t loop, local;
    bool assigned;
    friend bool operator==(const Use&, const Use&) = default;
  };

  // The locals that are used at all, as they come.
  [[nodiscard]] const std::vector<uint32_t>& used() const { return used_; }
  // Uses of a local, eightfold for each loop around them, up to kMostWeight.
  [[nodiscard]] uint32_t weight(uint32_t local) const { return locals_[local].weight; }
  // In the order of the code; an inner loop comes after the outer one.
  [[nodiscard]] const std::vector<Loop>& loops() const { return loops_; }
  [[nodiscard]] const std::vector<Use>& uses() const { return uses_; }

  // -- for the caller that walks the body
  void begin(uint32_t local_count) {
    for (const uint32_t local : used_) locals_[local] = {};
    if (locals_.size() < local_count) locals_.resize(local_count);
    used_.clear();
    loops_.clear();
    uses_.clear();
    blocks_.assign(1, kNone);  // the function's own, which is no loop
    innermost_ = kNone;
    weight_ = 1;
  }
  void read(uint32_t local) { use(local, false); }
  void assign(uint32_t local) { use(local, true); }
  void call() {
    if (innermost_ != kNone) loops_[innermost_].has_call = true;
  }
  void open_block() { blocks_.push_back(kNone); }
  void open_loop() {
    loops_.push_back({.parent = innermost_, .weight = weight_ < kMostWeight ? weight_ * 8 : weight_});
    innermost_ = static_cast<uint32_t>(loops_.size()) - 1;
    weight_ = loops_[innermost_].weight;
    blocks_.push_back(innermost_);
  }
  void close() {
    const uint32_t closed = blocks_.back();
    blocks_.pop_back();
    if (closed == kNone) return;
    innermost_ = loops_[closed].parent;
    weight_ = innermost_ == kNone ? 1 : loops_[innermost_].weight;
  }

  // Walks a whole body, which is valid.
  void look_at(std::span<const uint8_t> code, uint32_t local_count);

 private:
  static constexpr uint32_t kMostWeight = 8 * 8 * 8 * 8 * 8;
  struct Local {
    uint32_t weight = 0;
    uint32_t last_loop = kNone;  // where its last use was
  };

  [[gnu::always_inline]] void use(uint32_t local, bool assigned) {
    Local& at = locals_[local];
    if (at.weight == 0) [[unlikely]]
      note_first(local);
    at.weight += weight_;
    if (at.weight < weight_) [[unlikely]]
      at.weight = UINT32_MAX;
    if (innermost_ == kNone || (at.last_loop == innermost_ && !assigned)) return;
    at.last_loop = innermost_;
    note_in_loop(local, assigned);
  }
  [[gnu::noinline]] void note_first(uint32_t local) { used_.push_back(local); }
  [[gnu::noinline]] void note_in_loop(uint32_t local, bool assigned) {
    uses_.push_back({innermost_, local, assigned});
  }

  std::vector<Local> locals_;
  std::vector<uint32_t> used_, blocks_;
  std::vector<Loop> loops_;
  std::vector<Use> uses_;
  uint32_t innermost_ = kNone, weight_ = 1;
};

}  // namespace membrane::wasm
