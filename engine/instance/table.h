// Tables: references by number. Instances of one image share the tables that they do not change.
//
// Ownership: of a Store. Threads: those of the Store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "wasm/types.h"

namespace membrane::engine {

// The references in a table, 0 for null. Instances of one image share them until they are written.
class TableElements {
 public:
  [[nodiscard]] size_t size() const { return static_cast<size_t>(end_ - begin_); }
  uint64_t operator[](size_t index) const { return begin_[index]; }
  [[nodiscard]] const uint64_t* data() const { return begin_; }
  [[nodiscard]] const uint64_t* begin() const { return begin_; }
  [[nodiscard]] const uint64_t* end() const { return end_; }
  [[nodiscard]] std::span<uint64_t> writable();
  void resize(size_t size, uint64_t value = 0);
  void assign(std::vector<uint64_t> elements) { own(std::make_shared<Owned>(std::move(elements))); }

  // Compiled code reads the beginning here, and then the end.
  static constexpr size_t begin_at() { return offsetof(TableElements, begin_); }

 private:
  using Owned = std::vector<uint64_t>;
  void own(std::shared_ptr<Owned> elements);

  const uint64_t* begin_ = nullptr;
  const uint64_t* end_ = nullptr;
  std::shared_ptr<Owned> owned_;
};

struct Table {
  wasm::ValType element = wasm::ValType::kFuncRef;
  const wasm::FuncType* defined = nullptr;  // what `element` refers to, when it is a defined type
  TableElements elements;
  uint64_t max = UINT32_MAX;  // of its type
  bool has_max = false;
  bool is_64 = false;                   // its indices are i64
  std::shared_ptr<uint32_t> allowance;  // how many more elements all tables that share it may have
  [[nodiscard]] wasm::TableType type() const;
  [[nodiscard]] bool can_grow(uint64_t delta) const {
    return delta <= *allowance && elements.size() + delta <= max;
  }
  int64_t grow(uint64_t delta, uint64_t value);  // the size before, or -1
  // Takes from the allowance what the table needs to have as many elements as when it was frozen. False when that is
  // too little.
  [[nodiscard]] bool allow(uint64_t size);
};

}  // namespace membrane::engine
