// The memory of a process: which addresses are mapped, and what backs them. The platform's Space carries out
// what is decided here.
//
//   lowest    program (PIE at 0x5555_5555_4000), heap (brk) ──►      ◄── mappings, from the top down     stack   highest
//
// Threads: the kernel's thread. Callers round all lengths up to whole pages.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "linux/abi/answer.h"
#include "linux/files/file.h"
#include "linux/platform/platform.h"

namespace membrane::linux {

constexpr uint64_t kPage = 4096;
constexpr uint64_t page_up(uint64_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }
constexpr uint64_t page_down(uint64_t bytes) { return bytes & ~(kPage - 1); }

constexpr int kAllProtections = PROT_READ | PROT_WRITE | PROT_EXEC;

struct Area {
  uint64_t end = 0;
  int protection = 0;
  bool is_shared = false;
  FileRef file;         // nullptr: zeros, or shared memory of its own
  uint64_t offset = 0;  // of the area's first byte in the file
  int most_protection = kAllProtections;
  std::string_view name = {};                  // "[heap]", "[stack]"
  std::shared_ptr<const void> held = nullptr;  // Backing::held
};

class Memory {
 public:
  static constexpr size_t kMostAreas = 65530;

  // For a restored sandbox (linux/kept/): pages of its file overlay what backs an area, as a mapping of their
  // own.
  struct KeptPages {
    uint64_t end = 0;
    int file = -1;        // -1: discarded, but still a separate mapping
    uint64_t offset = 0;  // in the file
  };

  Memory(std::shared_ptr<Space> space, uint64_t lowest, uint64_t highest);

  struct Wish {
    uint64_t address = 0, length = 0;
    int protection = 0;
    bool is_shared = false, is_fixed = false, replaces = true;
    FileRef file;
    uint64_t offset = 0;
    Backing backing;
    int most_protection = kAllProtections;
    std::string_view name = {};
  };
  // Returns the address. Errors: ENOMEM, EINVAL, EEXIST (is_fixed without replaces).
  Try<uint64_t> map(const Wish& wish);
  Done unmap(uint64_t address, uint64_t length);
  Done protect(uint64_t address, uint64_t length, int protection);
  Try<uint64_t> remap(uint64_t from, uint64_t length, uint64_t new_length, int flags, uint64_t to);
  // Like MADV_DONTNEED. Errors: ENOMEM where nothing is mapped.
  Done discard(uint64_t address, uint64_t length);
  // Whether every page is mapped.
  [[nodiscard]] bool is_mapped(uint64_t address, uint64_t length) const;
  uint64_t set_break(uint64_t wanted, uint64_t most_bytes);
  void set_heap(uint64_t start) { heap_ = break_ = start; }
  // Removes all mappings, for a new program in the same space.
  void clear();
  // A copy for a fork, in the copied space.
  [[nodiscard]] std::shared_ptr<Memory> copy(std::shared_ptr<Space> space) const;

  [[nodiscard]] const std::map<uint64_t, Area>& areas() const { return areas_; }
  [[nodiscard]] uint64_t mapped_bytes() const { return mapped_bytes_; }
  [[nodiscard]] uint64_t lowest() const { return lowest_; }
  [[nodiscard]] uint64_t highest() const { return highest_; }
  [[nodiscard]] uint64_t heap_start() const { return heap_; }
  [[nodiscard]] uint64_t heap_end() const { return break_; }
  Space& space() { return *space_; }
  [[nodiscard]] std::shared_ptr<Space> shared_space() const { return space_; }

  uint64_t start_code = 0, end_code = 0, start_stack = 0, arguments_start = 0, arguments_end = 0,
           environment_start = 0, environment_end = 0;

 private:
  friend class MemoryState;  // linux/kept/memory_state.h
  [[nodiscard]] bool fits(uint64_t address, uint64_t length) const;
  [[nodiscard]] bool is_free(uint64_t address, uint64_t length) const;
  uint64_t find_free(uint64_t length);  // 0: none
  void note_free(uint64_t address);
  void split_at(uint64_t address);
  void forget(uint64_t address, uint64_t length);
  // For a range within one area.
  [[nodiscard]] bool has_kept_pages(uint64_t address, uint64_t length) const;
  void split_kept_at(uint64_t address);
  void forget_kept_pages(uint64_t address, uint64_t length);
  Done map_base(uint64_t address, uint64_t length, Area& area, uint64_t offset);
  Done move_pieces(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length);

  std::shared_ptr<Space> space_;
  uint64_t lowest_, highest_;
  std::map<uint64_t, Area> areas_;            // by start; none overlap
  std::map<uint64_t, KeptPages> kept_pages_;  // by start; each within one area
  std::shared_ptr<const void> kept_file_;     // keeps their file open
  uint64_t heap_ = 0, break_ = 0, mapped_bytes_ = 0;
  // Where find_free() searches from: no gap above it, below the stack, is longer than largest_gap_above_.
  uint64_t search_from_, largest_gap_above_ = 0;
};

}  // namespace membrane::linux
