// The limits of a patch: its memory, which is counted before it is allocated, and the work on it.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"

namespace membrane::computers {

constexpr size_t kMostPatchBytes = 256u << 20;

// Accounts for the memory of a patch in addition to its own limits. Both or neither are set.
struct PatchMemory {
  std::function<Status(uint64_t bytes)> take =
      {};  // called before allocation; an error ends the work on the patch
  std::function<void(uint64_t bytes)> give = {};
};

struct PatchLimits {
  size_t text_bytes = kMostPatchBytes;
  size_t files = 100'000;  // that an applied patch may name
  // The limit for all files that differ, before and after the patch, and for everything that is made on the
  // way.
  uint64_t file_bytes = 1ull << 30;
  uint64_t work = 100'000'000;  // steps of some 10 ns: compared lines, looked-up files
  PatchMemory memory = {};
};

class PatchBudget {
 public:
  explicit PatchBudget(const PatchLimits& limits)
      : bytes_left_(limits.file_bytes), work_left_(limits.work), memory_(limits.memory) {}
  ~PatchBudget() {
    if (memory_.give) memory_.give(taken_bytes_);
  }
  PatchBudget(const PatchBudget&) = delete;
  PatchBudget& operator=(const PatchBudget&) = delete;

  // Errors: kTooLong; those of PatchMemory.
  Status take_bytes(uint64_t bytes) {
    if (bytes > bytes_left_)
      return fail(ErrorCode::kTooLong, "the files of the patch are too long",
                  "Nothing was changed in the sandbox. Use smaller patches: of one directory, or of some "
                  "files each.");
    MEMBRANE_TRY(take_memory(bytes));
    bytes_left_ -= bytes;
    return {};
  }
  void give_bytes(uint64_t bytes) {
    bytes_left_ += bytes;
    give_memory(bytes);
  }

  // Memory that has a limit of its own.
  Status take_memory(uint64_t bytes) {
    if (memory_.take) MEMBRANE_TRY(memory_.take(bytes));
    taken_bytes_ += bytes;
    return {};
  }
  void give_memory(uint64_t bytes) {
    taken_bytes_ -= bytes;
    if (memory_.give) memory_.give(bytes);
  }

  // False, permanently, once none is left.
  bool take_work(uint64_t steps) {
    work_left_ -= steps <= work_left_ ? steps : work_left_;
    return work_left_ > 0;
  }
  [[nodiscard]] bool has_work() const { return work_left_ > 0; }

 private:
  uint64_t bytes_left_, work_left_;
  const PatchMemory memory_;
  uint64_t taken_bytes_ = 0;
};

// The steps that it takes to scan that many bytes.
constexpr uint64_t work_of(uint64_t bytes) { return 1 + bytes / 64; }

}  // namespace membrane::computers
