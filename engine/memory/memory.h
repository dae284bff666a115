// Linear memory: a reserved region of address space in which only the guest's pages
// can be touched (WebAssembly 2.0, chapter 4.2.8).
//
//   base                base+size                                     base+8 GiB
//   │ read and write     │ PROT_NONE ……………………………………………………………… guard │
//
// A wasm32 address plus offset is below 2^33, so that every access that misses the
// memory lands in the region and faults; the fault becomes a trap (fault.h). The base never moves, also when the memory grows.
//
// An access with a 64-bit address can be anywhere, so its bounds are compared (handler_memory.h). Also then
// a memory has at most 4 GiB.
//
// Regions come from a process-wide pool (region_pool.h): what one guest leaves is cleared before another sees the
// region. A memory begins with zeros, or with an image (memory_image.h).
//
// Ownership: a Memory owns its region until it is destroyed. Threads: a Memory
// belongs to one thread at a time; the pool and the ceiling are shared.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "engine/memory/memory_image.h"
#include "engine/memory/region_pool.h"
#include "wasm/types.h"

namespace membrane::engine {

// Pages that several memories may grow by together. Outlives them.
struct MemoryBudget {
  uint64_t left_pages = 0;
};

// How a memory begins.
struct MemoryStart {
  uint64_t pages = 0;                             // at least; the type's minimum when that is more
  std::shared_ptr<const MemoryImage> image = {};  // its first bytes; not more than it has
};

// The most that all linear memories of the process may have together; what exceeds it is refused like what exceeds a limit.
// UINT64_MAX, the default: no ceiling. What is in use already stays.
void set_memory_ceiling(uint64_t bytes);
uint64_t memory_in_use_bytes();

class Memory {
 public:
  static constexpr uint64_t kRegionBytes = 8ull << 30;
  static constexpr uint64_t kGuardBytes = 1ull << 16;  // after the region: an access is up to 16 bytes wide

  // `limit_bytes` bounds growth on top of the type's own maximum, and so does `shared`, when it is given.
  // Errors: kExhausted when the initial size exceeds a limit or the ceiling, or there is no region.
  static Result<std::unique_ptr<Memory>> create(const wasm::MemoryType& type, uint64_t limit_bytes,
                                                MemoryBudget* shared = nullptr, MemoryStart start = {});
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] uint8_t* base() const { return base_; }
  // Whether an address is in the region or in the guard after it, where no other memory and no data of the host
  // is.
  [[nodiscard]] bool reserves(const void* address) const {
    const auto* const at = static_cast<const uint8_t*>(address);
    return at >= base_ && at < base_ + kRegionBytes + kGuardBytes;
  }
  [[nodiscard]] uint64_t size_bytes() const { return uint64_t{pages_} * wasm::kPageBytes; }
  [[nodiscard]] uint32_t pages() const { return pages_; }
  [[nodiscard]] bool is_64() const { return is_64_; }  // its addresses are i64; it has the same maximum
  [[nodiscard]] std::span<uint8_t> bytes() { return {base_, size_bytes()}; }
  // The type with the present size as its minimum, as imports are matched against.
  [[nodiscard]] wasm::MemoryType type() const;
  // The image that its unchanged pages are mapped from; null when there is none.
  [[nodiscard]] const std::shared_ptr<const MemoryImage>& image() const { return image_; }

  [[nodiscard]] bool can_grow(uint64_t delta_pages) const {
    return delta_pages <= wasm::kMaxPages &&
           pages_ + delta_pages <= std::min<uint64_t>(max_pages_, limit_pages_) &&
           (shared_ == nullptr || delta_pages <= shared_->left_pages);
  }
  // Call this before code that may change it runs. The first call makes pages ready; an instance that never runs
  // saves that.
  void begin_run();
  // The size before in pages, or -1 (as memory.grow answers) when it does not fit.
  int64_t grow(uint64_t delta_pages);
  // Whether a grow was refused by `limit_bytes` (and not by the program's own maximum).
  [[nodiscard]] bool limit_was_hit() const { return limit_was_hit_; }
  void note_limit_was_hit() { limit_was_hit_ = true; }

  // Where compiled code reads the base and the size in pages, of 32 bits.
  static constexpr size_t base_at() { return offsetof(Memory, base_); }
  static constexpr size_t pages_at() { return offsetof(Memory, pages_); }

 private:
  Memory() = default;
  bool prepare(uint64_t bytes);
  bool grow_to(uint64_t pages);

  uint8_t* base_ = nullptr;
  uint32_t pages_ = 0;
  uint64_t max_pages_ = 0;    // of the type
  uint32_t limit_pages_ = 0;  // of the owner
  MemoryBudget* shared_ = nullptr;
  bool has_max_ = false;
  bool is_64_ = false;
  bool limit_was_hit_ = false;
  bool will_change_ = false;  // it began with an image, and nothing has run yet
  Region region_;
  std::shared_ptr<const MemoryImage> image_;
};

}  // namespace membrane::engine
