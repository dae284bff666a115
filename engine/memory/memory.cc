#include "engine/memory/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace membrane::engine {
namespace {

std::atomic<uint64_t> ceiling_bytes{UINT64_MAX}, in_use_bytes{0};

// Takes from the ceiling of all memories together.
bool take_from_ceiling(uint64_t bytes) {
  uint64_t before = in_use_bytes.load(std::memory_order_relaxed);
  do {
    const uint64_t ceiling = ceiling_bytes.load(std::memory_order_relaxed);
    if (before > ceiling || bytes > ceiling - before) return false;
  } while (!in_use_bytes.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return true;
}
void give_to_ceiling(uint64_t bytes) { in_use_bytes.fetch_sub(bytes, std::memory_order_relaxed); }

bool protect(uint8_t* base, uint64_t from, uint64_t to, int protection) {
  return from >= to || mprotect(base + from, to - from, protection) == 0;
}

}  // namespace

void set_memory_ceiling(uint64_t bytes) { ceiling_bytes.store(bytes, std::memory_order_relaxed); }
uint64_t memory_in_use_bytes() { return in_use_bytes.load(std::memory_order_relaxed); }

Result<std::unique_ptr<Memory>> Memory::create(const wasm::MemoryType& type, uint64_t limit_bytes,
                                               MemoryBudget* shared, MemoryStart start) {
  std::unique_ptr<Memory> memory(new Memory);
  memory->has_max_ = type.limits.max.has_value();
  memory->is_64_ = type.limits.is_64;
  memory->max_pages_ = type.limits.max.value_or(type.limits.is_64 ? wasm::kMaxPages64 : wasm::kMaxPages);
  memory->limit_pages_ =
      static_cast<uint32_t>(std::min<uint64_t>(limit_bytes / wasm::kPageBytes, wasm::kMaxPages));
  const uint64_t most =
      shared == nullptr ? memory->limit_pages_ : std::min<uint64_t>(memory->limit_pages_, shared->left_pages);
  const uint64_t pages = std::max(start.pages, type.limits.min);
  if (pages > most)
    return fail(ErrorCode::kExhausted,
                "the program's memory starts with " + count_of(pages, "page") +
                    " of 64 KiB, and the limit is " + std::to_string(most),
                "Declare a smaller memory, or raise the memory limit.");
  if (!take_from_ceiling(pages * wasm::kPageBytes))
    return fail(ErrorCode::kExhausted,
                "the memories of all programs in this process are at their ceiling of " +
                    count_of(ceiling_bytes.load(std::memory_order_relaxed), "byte"),
                "Wait until another program has ended, or raise the ceiling of the process.");
  memory->pages_ = static_cast<uint32_t>(pages);  // from here on they are given back
  memory->image_ = std::move(start.image);
  memory->region_ = RegionPool::instance().acquire(memory->image_ == nullptr ? 0 : memory->image_->number());
  memory->base_ = memory->region_.base;
  if (memory->base_ == nullptr)
    return fail(ErrorCode::kExhausted, "no address space is left for another linear memory",
                "Run fewer sandboxes at once, or raise the process's address-space limit.");
  if (!memory->prepare(pages * wasm::kPageBytes))
    return fail(ErrorCode::kExhausted, "the system has no memory left for the program",
                "Run fewer sandboxes at once, or declare a smaller memory.");
  memory->shared_ = shared;
  if (shared != nullptr) shared->left_pages -= pages;
  return memory;
}

// Makes this much of the region accessible, with the image at its beginning.
bool Memory::prepare(uint64_t bytes) {
  const bool done = region_.accessible_bytes > bytes
                        ? protect(base_, bytes, region_.accessible_bytes, PROT_NONE)
                        : protect(base_, region_.accessible_bytes, bytes, PROT_READ | PROT_WRITE);
  region_.used_bytes = std::max(region_.used_bytes, region_.accessible_bytes);
  if (!done) return false;
  region_.accessible_bytes = bytes;
  if (image_ == nullptr) return true;
  if (region_.image != 0) {
    if (std::exchange(region_.was_cleared, false)) image_->populate(base_);  // at once, not one by one
    return true;
  }
  if (image_->bytes() > bytes) return false;
  if (!image_->map_at(base_)) {  // a copy will do
    std::memcpy(base_, image_->content().data(), image_->bytes());
    image_ = nullptr;
    return true;
  }
  region_.image = image_->number();
  region_.image_bytes = image_->bytes();
  will_change_ = true;
  return true;
}

void Memory::begin_run() {
  if (!std::exchange(will_change_, false) || image_ == nullptr) return;
  image_->populate(base_);
}

Memory::~Memory() {
  give_to_ceiling(size_bytes());
  if (base_ != nullptr) RegionPool::instance().release(region_, region_.image == 0 ? nullptr : image_);
}

wasm::MemoryType Memory::type() const {
  wasm::MemoryType type{{pages_, std::nullopt, is_64_}};
  if (has_max_) type.limits.max = max_pages_;
  return type;
}

int64_t Memory::grow(uint64_t delta_pages) {
  const uint64_t before = pages_;
  const uint64_t after = before + delta_pages;
  if (delta_pages > wasm::kMaxPages || after > max_pages_) {
    // Reaching the largest size of any memory counts as reaching the owner's limit; the module's own maximum
    // does not.
    limit_was_hit_ = limit_was_hit_ || max_pages_ == wasm::kMaxPages;
    return -1;
  }
  if (!grow_to(after)) {
    limit_was_hit_ = true;
    return -1;
  }
  return static_cast<int64_t>(before);
}

bool Memory::grow_to(uint64_t pages) {
  const uint64_t more = pages - pages_, bytes = pages * wasm::kPageBytes;
  if (pages > limit_pages_ || (shared_ != nullptr && more > shared_->left_pages)) return false;
  if (!take_from_ceiling(more * wasm::kPageBytes)) return false;
  if (!protect(base_, region_.accessible_bytes, bytes, PROT_READ | PROT_WRITE)) {
    give_to_ceiling(more * wasm::kPageBytes);
    return false;
  }
  region_.accessible_bytes = std::max(region_.accessible_bytes, bytes);
  pages_ = static_cast<uint32_t>(pages);
  if (shared_ != nullptr) shared_->left_pages -= more;
  return true;
}

}  // namespace membrane::engine
