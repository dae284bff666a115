#include "engine/native/code_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/kept_descriptors.h"
#include "base/write_at.h"
#include "engine/memory/region_pool.h"

namespace membrane::engine::native {
namespace {

constexpr size_t kArenaBytes = 1ull << 30;  // of addresses; pages are taken as they are written
constexpr size_t kGranule = 64;             // a cache line: functions begin at its start
constexpr size_t kReturnedBytes = 1 << 20;  // free ranges of at least this size go back to the system,
constexpr size_t kWarmBytes = 16 << 20;     // but for the first pages: the next module finds them there
constexpr size_t kHugePageBytes = 2 << 20;  // for code that takes several
constexpr size_t kAheadBytes = 128 << 10;   // pages are requested in such steps, where much will be written
constexpr uint8_t kTrap = 0xCC;             // int3: what still jumped to free code would stop

std::atomic<const uint8_t*> arena_begin{nullptr};  // of the executable view

size_t rounded(size_t bytes) { return (bytes + kGranule - 1) & ~(kGranule - 1); }

class Arena {
 public:
  static Arena& instance() {
    static Arena* const arena = new Arena;  // outlives every module, also static ones
    return *arena;
  }

  // The first range that is large enough: low addresses are used again first, and stay warm.
  std::optional<size_t> reserve(size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      if (range->second < bytes) continue;
      const size_t at = range->first;
      take(range, bytes);
      advise(at, bytes);
      return at;
    }
    return std::nullopt;
  }
  // Makes a reserved range longer where it is.
  bool extend(size_t at, size_t bytes, size_t to) {
    const std::lock_guard lock(mutex_);
    const auto next = free_.find(at + bytes);
    if (next == free_.end() || next->second < to - bytes) return false;
    take(next, to - bytes);
    advise(at, to);
    return true;
  }
  // A range in which nothing was written.
  void give(size_t at, size_t bytes) {
    const std::lock_guard lock(mutex_);
    merge(at, bytes);
  }
  void release(size_t at, size_t bytes) {
    const std::lock_guard lock(mutex_);
    clear(at, bytes);
    merge(at, bytes);
  }

  // Maps a part of a file into a range of whole pages.
  std::optional<size_t> map(int file, uint64_t offset, size_t bytes) {
    const size_t page = system_page_bytes(), size = (bytes + page - 1) & ~(page - 1);
    const std::optional<size_t> reserved = reserve(size + page);
    if (!reserved) return std::nullopt;
    const size_t at = (*reserved + page - 1) & ~(page - 1);
    if (at != *reserved) give(*reserved, at - *reserved);
    if (const size_t end = *reserved + size + page; at + size != end) give(at + size, end - at - size);
    auto* const place = const_cast<uint8_t*>(executable_) + at;
    if (mmap(place, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, static_cast<off_t>(offset)) !=
        MAP_FAILED) {
      const std::lock_guard lock(mutex_);
      of_files_.emplace(at, size);
      return at;
    }
    unmap(at, bytes);
    return std::nullopt;
  }
  // Maps the arena's own pages into the range again. If that fails, the range is never used again.
  void unmap(size_t at, size_t bytes) {
    const size_t page = system_page_bytes(), size = (bytes + page - 1) & ~(page - 1);
    {
      const std::lock_guard lock(mutex_);
      of_files_.erase(at);
    }
    if (map_own(executable_, PROT_EXEC, file_, at, size)) give(at, size);
  }

  // Copies all that was written to pages of this process's own, which take the place of the others.
  bool separate() {
    if (executable_ == nullptr) return true;
    const std::lock_guard lock(mutex_);
    const int file = new_file();
    if (file < 0) return false;
    Ranges not_written = free_;
    not_written.insert(of_files_.begin(), of_files_.end());
    bool done = true;
    for (const auto& [at, bytes] : between(not_written))
      done = done && write_at(file, at, {writable_ + at, bytes});
    done = done && map_own(writable_, PROT_WRITE, file, 0, kArenaBytes);
    for (const auto& [at, bytes] : between(of_files_))
      done = done && map_own(executable_, PROT_EXEC, file, at, bytes);
    if (!done) {
      close(file);
      return false;
    }
    KeptDescriptors::instance().remove(file_);
    close(std::exchange(file_, file));
    KeptDescriptors::instance().add(file_);
    return true;
  }

  // Makes the pages at once, since each first touch would be a page fault. With a kernel that does not support
  // this, touches them one by one.
  void touch(size_t at, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
    const size_t page = system_page_bytes();
    const size_t first = at & ~(page - 1), last = (at + bytes) & ~(page - 1);
    madvise(writable_ + first, last - first, MADV_POPULATE_WRITE);
#endif
  }
  uint8_t* writable(size_t at) { return writable_ + at; }
  const uint8_t* executable(size_t at) { return executable_ + at; }
  size_t offset_of(const uint8_t* code) { return static_cast<size_t>(code - executable_); }

 private:
  using Ranges = std::map<size_t, size_t>;  // offset, bytes

  static int new_file() {
    const int file = memfd_create("membrane-code", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, kArenaBytes) == 0) return file;
    close(file);
    return -1;
  }
  static bool map_own(const uint8_t* view, int protection, int file, size_t at, size_t bytes) {
    return mmap(const_cast<uint8_t*>(view) + at, bytes, PROT_READ | protection,
                MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, static_cast<off_t>(at)) != MAP_FAILED;
  }
  // What is between the ranges.
  static Ranges between(const Ranges& ranges) {
    Ranges gaps;
    size_t end = 0;
    for (const auto& [at, bytes] : ranges) {
      if (at > end) gaps.emplace(end, at - end);
      end = at + bytes;
    }
    if (end < kArenaBytes) gaps.emplace(end, kArenaBytes - end);
    return gaps;
  }

  Arena() : file_(new_file()) {
    if (file_ < 0) return;
    KeptDescriptors::instance().add(file_);
    auto* const write = view(file_, PROT_READ | PROT_WRITE);
    auto* const run = view(file_, PROT_READ | PROT_EXEC);
    if (write != nullptr && run != nullptr) {
      writable_ = write;
      executable_ = run;
      free_.emplace(0, kArenaBytes);
      arena_begin.store(executable_, std::memory_order_release);
    } else {
      if (write != nullptr) munmap(write, kArenaBytes);
      if (run != nullptr) munmap(run, kArenaBytes);
    }
  }
  // The whole file, at a multiple of huge pages. Null when there is no room.
  static uint8_t* view(int file, int protection) {
    constexpr size_t kReserved = kArenaBytes + kHugePageBytes;
    void* const got = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<uint8_t*>(got);
    const size_t before = -reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
    munmap(begin + before + kArenaBytes, kHugePageBytes - before);
    if (before != 0) munmap(begin, before);
    void* const mapped =
        mmap(begin + before, kArenaBytes, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, 0);
    if (mapped != MAP_FAILED) return begin + before;
    munmap(begin + before, kArenaBytes);
    return nullptr;
  }

  void take(Ranges::iterator range, size_t bytes) {
    const auto [at, had] = *range;
    free_.erase(range);
    if (had != bytes) free_.emplace(at + bytes, had - bytes);
  }

  void merge(size_t at, size_t bytes) {
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
  }

  // The pages of a large range go back to the system; a small one is kept for the next module, as are the first pages.
  void clear(size_t at, size_t bytes) {
    if (at < kWarmBytes) {
      const size_t warm = std::min(bytes, kWarmBytes - at);
      std::memset(writable_ + at, kTrap, warm);
      at += warm;
      bytes -= warm;
    }
    if (bytes >= kReturnedBytes) {
      const size_t page = system_page_bytes();
      const size_t first = (at + page - 1) & ~(page - 1), last = (at + bytes) & ~(page - 1);
      if (madvise(writable_ + first, last - first, MADV_REMOVE) == 0) {
        std::memset(writable_ + at, kTrap, first - at);
        std::memset(writable_ + last, kTrap, at + bytes - last);
        return;
      }
    }
    std::memset(writable_ + at, kTrap, bytes);
  }

  // First touches are the largest cost of writing much code, and huge pages need few.
  void advise(size_t at, size_t bytes) {
    if (bytes < kHugePageBytes) return;
    const size_t first = at & ~(kHugePageBytes - 1);
    const size_t last = (at + bytes + kHugePageBytes - 1) & ~(kHugePageBytes - 1);
    madvise(writable_ + first, last - first, MADV_HUGEPAGE);
    madvise(const_cast<uint8_t*>(executable_) + first, last - first, MADV_HUGEPAGE);
  }

  std::mutex mutex_;
  int file_;
  uint8_t* writable_ = nullptr;
  const uint8_t* executable_ = nullptr;
  Ranges free_;
  Ranges of_files_;  // of the executable view: pages of other files
};

}  // namespace

CodeBlock::~CodeBlock() {
  if (code_ == nullptr) return;
  Arena& arena = Arena::instance();
  if (is_of_file_) arena.unmap(arena.offset_of(code_), bytes_);
  else arena.release(arena.offset_of(code_), rounded(bytes_));
}

CodeWriter::CodeWriter(size_t expected_bytes) {
  if (expected_bytes != 0) static_cast<void>(grow(expected_bytes));
}

CodeWriter::~CodeWriter() { drop(); }

void CodeWriter::drop() {
  const size_t written = rounded(used_);
  if (written != 0) Arena::instance().release(at_, written);
  if (written != room_) Arena::instance().give(at_ + written, room_ - written);
  room_ = 0;
}

bool CodeWriter::grow(size_t least) {
  Arena& arena = Arena::instance();
  size_t room = rounded(std::max(least, 2 * room_));
  if (room_ != 0 && arena.extend(at_, room_, room)) {
    room_ = room;
    return true;
  }
  std::optional<size_t> at = arena.reserve(room);
  if (!at) at = arena.reserve(room = rounded(least));
  if (!at) return false;
  if (room_ != 0) {
    std::memcpy(arena.writable(*at), arena.writable(at_), used_);
    drop();
  }
  at_ = *at;
  room_ = room;
  return true;
}

bool CodeWriter::append(std::span<const uint8_t> code) {
  if (code.empty()) return true;
  if (code.size() > room_ - used_ && !grow(used_ + code.size())) return false;
  if (used_ + code.size() > touched_) touch_ahead();
  std::memcpy(Arena::instance().writable(at_ + used_), code.data(), code.size());
  used_ += code.size();
  return true;
}

void CodeWriter::touch_ahead() {
  touched_ = std::max(touched_, used_);
  if (room_ - touched_ >= kAheadBytes) Arena::instance().touch(at_ + touched_, kAheadBytes);
  touched_ += kAheadBytes;
}

bool CodeWriter::align(size_t bytes) {
  const size_t gap = -used_ & (bytes - 1);
  if (gap == 0) return true;
  if (gap > room_ - used_ && !grow(used_ + gap)) return false;
  std::memset(Arena::instance().writable(at_ + used_), kTrap, gap);
  used_ += gap;
  return true;
}

void CodeWriter::put32(size_t at, uint32_t value) {
  std::memcpy(Arena::instance().writable(at_ + at), &value, sizeof value);
}

CodeBlock CodeWriter::finish() {
  if (used_ == 0) return {};
  Arena& arena = Arena::instance();
  const size_t kept = rounded(used_);
  std::memset(arena.writable(at_ + used_), kTrap, kept - used_);
  if (kept != room_) arena.give(at_ + kept, room_ - kept);
  room_ = 0;
  return {arena.executable(at_), std::exchange(used_, 0)};
}

CodeBlock publish(std::span<const uint8_t> code) {
  CodeWriter writer(code.size());
  return writer.append(code) ? writer.finish() : CodeBlock();
}

CodeBlock map_code(int file, uint64_t offset, size_t bytes) {
  Arena& arena = Arena::instance();
  const std::optional<size_t> at = bytes == 0 ? std::nullopt : arena.map(file, offset, bytes);
  return at ? CodeBlock(arena.executable(*at), bytes, true) : CodeBlock();
}

void prepare_arena() { static_cast<void>(Arena::instance()); }
bool separate_arena() { return Arena::instance().separate(); }

bool in_arena(const void* pc) {
  const uint8_t* const begin = arena_begin.load(std::memory_order_acquire);
  const auto* const at = static_cast<const uint8_t*>(pc);
  return begin != nullptr && at >= begin && at < begin + kArenaBytes;
}

}  // namespace membrane::engine::native
