#include "engine/native/code_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

namespace membrane::engine::native {
namespace {

constexpr size_t kArenaBytes = 1ull << 30;  // of addresses; pages are taken as they are written
constexpr size_t kGranule = 64;             // a cache line: functions begin at its start
constexpr size_t kReturnedBytes = 1 << 20;  // free ranges of at least so much go back to the system

std::atomic<const uint8_t*> arena_begin{nullptr};  // of the executable view

class Arena {
 public:
  static Arena& instance() {
    static Arena* const arena = new Arena;  // outlives every module, also static ones
    return *arena;
  }

  const uint8_t* publish(std::span<const uint8_t> code) {
    if (executable_ == nullptr || code.empty()) return nullptr;
    const size_t bytes = rounded(code.size());
    const std::lock_guard lock(mutex_);
    // The first range that is large enough: low addresses are used again first, and stay warm.
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      if (range->second < bytes) continue;
      const size_t at = range->first;
      const size_t left = range->second - bytes;
      free_.erase(range);
      if (left != 0) free_.emplace(at + bytes, left);
      std::memcpy(writable_ + at, code.data(), code.size());
      std::memset(writable_ + at + code.size(), 0xCC, bytes - code.size());
      return executable_ + at;
    }
    return nullptr;
  }

  void release(const uint8_t* code, size_t size) {
    const std::lock_guard lock(mutex_);
    size_t at = static_cast<size_t>(code - executable_), bytes = rounded(size);
    std::memset(writable_ + at, 0xCC, bytes);  // int3: what still jumped here would stop
    auto next = free_.lower_bound(at);
    if (next != free_.end() && at + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == at) {
        at = before->first;
        bytes += before->second;
        free_.erase(before);
      }
    }
    free_.emplace(at, bytes);
    give_back(at, bytes, rounded(size));
  }

  uint8_t* writable(const uint8_t* code) { return writable_ + (code - executable_); }

 private:
  Arena() {
    const int file = memfd_create("membrane-code", MFD_CLOEXEC);
    if (file < 0) return;
    if (ftruncate(file, kArenaBytes) == 0) {
      void* const write =
          mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
      void* const run =
          mmap(nullptr, kArenaBytes, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_NORESERVE, file, 0);
      if (write != MAP_FAILED && run != MAP_FAILED) {
        writable_ = static_cast<uint8_t*>(write);
        executable_ = static_cast<const uint8_t*>(run);
        free_.emplace(0, kArenaBytes);
        arena_begin.store(executable_, std::memory_order_release);
      } else {
        if (write != MAP_FAILED) munmap(write, kArenaBytes);
        if (run != MAP_FAILED) munmap(run, kArenaBytes);
      }
    }
    close(file);
  }

  static size_t rounded(size_t bytes) { return (bytes + kGranule - 1) & ~(kGranule - 1); }

  // Whole pages of a large block that was freed; small ones are kept for the next module.
  void give_back(size_t at, size_t bytes, size_t freed) {
    if (freed < kReturnedBytes) return;
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t first = (at + page - 1) & ~(page - 1), last = (at + bytes) & ~(page - 1);
    if (first < last) madvise(writable_ + first, last - first, MADV_REMOVE);
  }

  std::mutex mutex_;
  uint8_t* writable_ = nullptr;
  const uint8_t* executable_ = nullptr;
  std::map<size_t, size_t> free_;  // offset, bytes
};

}  // namespace

CodeBlock::~CodeBlock() {
  if (code_ != nullptr) Arena::instance().release(code_, bytes_);
}

CodeBlock publish(std::span<const uint8_t> code) { return {Arena::instance().publish(code), code.size()}; }

bool in_arena(const void* pc) {
  const uint8_t* const begin = arena_begin.load(std::memory_order_acquire);
  const auto* const at = static_cast<const uint8_t*>(pc);
  return begin != nullptr && at >= begin && at < begin + kArenaBytes;
}

uint8_t* writable(const uint8_t* code) { return Arena::instance().writable(code); }

}  // namespace membrane::engine::native
