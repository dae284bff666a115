#include "engine/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace membrane::engine {
namespace {

constexpr uint64_t kReservedBytes = Memory::kRegionBytes + Memory::kGuardBytes;

struct Region {
  uint8_t* base = nullptr;
  uint64_t accessible_bytes = 0;  // from the base; all of it reads as zero
};

// Idle regions keep their address space and page protections, so that the next guest
// of about the same size costs no system call. Kept small: each is 8 GiB of addresses.
class RegionPool {
 public:
  static RegionPool& instance() {
    static RegionPool* const pool = new RegionPool;  // outlives every Memory, also static ones
    return *pool;
  }

  Region acquire() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        const Region region = idle_.back();
        idle_.pop_back();
        ++in_use_;
        return region;
      }
    }
    void* const base =
        mmap(nullptr, kReservedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return {};
    const std::lock_guard lock(mutex_);
    ++in_use_;
    return {static_cast<uint8_t*>(base), 0};
  }

  void release(Region region) {
    const bool clean =
        region.accessible_bytes == 0 || madvise(region.base, region.accessible_bytes, MADV_DONTNEED) == 0;
    {
      const std::lock_guard lock(mutex_);
      --in_use_;
      if (clean && idle_.size() < kMaxIdle) {
        idle_.push_back(region);
        return;
      }
    }
    munmap(region.base, kReservedBytes);
  }

  RegionCount count() {
    const std::lock_guard lock(mutex_);
    return {in_use_, idle_.size()};
  }

 private:
  static constexpr size_t kMaxIdle = 64;
  std::mutex mutex_;
  std::vector<Region> idle_;
  size_t in_use_ = 0;
};

bool protect(uint8_t* base, uint64_t from, uint64_t to, int protection) {
  return from >= to || mprotect(base + from, to - from, protection) == 0;
}

}  // namespace

Result<std::unique_ptr<Memory>> Memory::create(const wasm::MemoryType& type, uint64_t limit_bytes,
                                               MemoryBudget* shared) {
  std::unique_ptr<Memory> memory(new Memory);
  memory->has_max_ = type.limits.max.has_value();
  memory->is_64_ = type.limits.is_64;
  memory->max_pages_ = type.limits.max.value_or(type.limits.is_64 ? wasm::kMaxPages64 : wasm::kMaxPages);
  memory->limit_pages_ =
      static_cast<uint32_t>(std::min<uint64_t>(limit_bytes / wasm::kPageBytes, wasm::kMaxPages));
  const uint64_t most =
      shared == nullptr ? memory->limit_pages_ : std::min<uint64_t>(memory->limit_pages_, shared->left_pages);
  if (type.limits.min > most)
    return fail(ErrorCode::kExhausted,
                "the program's memory starts with " + std::to_string(type.limits.min) +
                    " pages of 64 KiB, and the limit is " + std::to_string(most),
                "Declare a smaller memory, or raise the memory limit.");
  const Region region = RegionPool::instance().acquire();
  if (region.base == nullptr)
    return fail(ErrorCode::kExhausted, "no address space is left for another linear memory",
                "Run fewer sandboxes at once, or raise the process's address-space limit.");
  memory->base_ = region.base;
  memory->accessible_bytes_ = region.accessible_bytes;
  const uint64_t wanted = type.limits.min * wasm::kPageBytes;
  const bool done = region.accessible_bytes > wanted
                        ? protect(region.base, wanted, region.accessible_bytes, PROT_NONE)
                        : protect(region.base, region.accessible_bytes, wanted, PROT_READ | PROT_WRITE);
  if (!done)
    return fail(ErrorCode::kExhausted, "the system has no memory left for the program",
                "Run fewer sandboxes at once, or declare a smaller memory.");
  memory->accessible_bytes_ = wanted;
  memory->pages_ = static_cast<uint32_t>(type.limits.min);
  memory->shared_ = shared;
  if (shared != nullptr) shared->left_pages -= type.limits.min;
  return memory;
}

Memory::~Memory() {
  if (base_ != nullptr) RegionPool::instance().release({base_, accessible_bytes_});
}

wasm::MemoryType Memory::type() const {
  wasm::MemoryType type{{pages_, std::nullopt, is_64_}};
  if (has_max_) type.limits.max = max_pages_;
  return type;
}

int64_t Memory::grow(uint64_t delta_pages) {
  const uint64_t before = pages_;
  const uint64_t after = before + delta_pages;
  if (delta_pages > wasm::kMaxPages || after > max_pages_) return -1;
  if (after > limit_pages_ || (shared_ != nullptr && delta_pages > shared_->left_pages) ||
      !protect(base_, accessible_bytes_, after * wasm::kPageBytes, PROT_READ | PROT_WRITE)) {
    limit_was_hit_ = true;
    return -1;
  }
  accessible_bytes_ = std::max(accessible_bytes_, after * wasm::kPageBytes);
  pages_ = static_cast<uint32_t>(after);
  if (shared_ != nullptr) shared_->left_pages -= delta_pages;
  return static_cast<int64_t>(before);
}

void Memory::clear() {
  if (accessible_bytes_ == 0 || madvise(base_, accessible_bytes_, MADV_DONTNEED) == 0) return;
  std::fill_n(base_, size_bytes(), uint8_t{0});
}

RegionCount region_count() { return RegionPool::instance().count(); }

}  // namespace membrane::engine
