// Locks on files: of the whole file (flock) and of ranges (fcntl). They are advisory: reads and writes do not
// check them.
//
// An owner is an open file description, or the descriptors of a process; it is a pointer that is compared and
// never followed. The owner's locks are released with its last LockHold. Threads: the kernel's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "linux/abi/answer.h"
#include "linux/files/wait_queue.h"
#include "linux/fs/node.h"

namespace membrane::linux {

struct RecordLock {
  uint64_t first = 0, last = 0;  // bytes, both included
  bool is_exclusive = false;
  const void* owner = nullptr;
  int process = 0;  // for F_GETLK; -1 for an open file description
};

class FileLocks {
 public:
  static constexpr size_t kMostRecords = 4096;

  // Woken when any lock is released or becomes shared.
  WaitQueue changed;

  // flock(). An owner's lock is converted. Errors: EAGAIN when another owner's is in the way.
  Done lock_whole(const void* owner, bool is_exclusive);
  void unlock_whole(const void* owner);

  // The first lock that conflicts with `wanted`.
  [[nodiscard]] const RecordLock* conflict_with(const RecordLock& wanted) const;
  // Replaces the owner's locks on the range. Errors: EAGAIN; ENOLCK above kMostRecords.
  Done lock(const RecordLock& wanted);
  Done unlock(const void* owner, uint64_t first, uint64_t last);
  void unlock_all(const void* owner);

  [[nodiscard]] bool is_empty() const { return wholes_.empty() && records_.empty(); }

 private:
  friend class KernelState;  // linux/kept/kernel_state.h
  struct Whole {
    const void* owner = nullptr;
    bool is_exclusive = false;
  };
  Done cut(const void* owner, uint64_t first, uint64_t last);
  std::vector<Whole> wholes_;
  std::vector<RecordLock> records_;
};

// The locks of a node, created on first use.
const std::shared_ptr<FileLocks>& locks_of(Node& node);

// Keeps the owner's locks of a kind alive while it exists.
enum class LockKind : uint8_t { kWhole, kRecords };
std::shared_ptr<void> hold_locks(std::shared_ptr<FileLocks> locks, const void* owner, LockKind kind);

}  // namespace membrane::linux
