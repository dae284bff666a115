#include "linux/files/locks.h"

#include <algorithm>
#include <utility>

namespace membrane::linux {
namespace {

bool overlap(const RecordLock& lock, uint64_t first, uint64_t last) {
  return lock.first <= last && first <= lock.last;
}

class LockHold {
 public:
  LockHold(std::shared_ptr<FileLocks> locks, const void* owner, LockKind kind)
      : locks_(std::move(locks)), owner_(owner), kind_(kind) {}
  LockHold(const LockHold&) = delete;
  LockHold& operator=(const LockHold&) = delete;
  ~LockHold() {
    if (kind_ == LockKind::kWhole) locks_->unlock_whole(owner_);
    else locks_->unlock_all(owner_);
  }

 private:
  const std::shared_ptr<FileLocks> locks_;
  const void* const owner_;
  const LockKind kind_;
};

}  // namespace

Done FileLocks::lock_whole(const void* owner, bool is_exclusive) {
  Whole* own = nullptr;
  for (Whole& lock : wholes_) {
    if (lock.owner == owner) own = &lock;
    else if (is_exclusive || lock.is_exclusive) return err(EAGAIN);
  }
  if (own == nullptr) {
    wholes_.push_back({owner, is_exclusive});
    return {};
  }
  const bool was_exclusive = std::exchange(own->is_exclusive, is_exclusive);
  if (was_exclusive && !is_exclusive) changed.wake();
  return {};
}

void FileLocks::unlock_whole(const void* owner) {
  if (std::erase_if(wholes_, [owner](const Whole& lock) { return lock.owner == owner; }) != 0) changed.wake();
}

const RecordLock* FileLocks::conflict_with(const RecordLock& wanted) const {
  for (const RecordLock& lock : records_)
    if (lock.owner != wanted.owner && (lock.is_exclusive || wanted.is_exclusive) &&
        overlap(lock, wanted.first, wanted.last))
      return &lock;
  return nullptr;
}

Done FileLocks::lock(const RecordLock& wanted) {
  if (conflict_with(wanted) != nullptr) return err(EAGAIN);
  if (records_.size() + 2 > kMostRecords) return err(ENOLCK);
  MEMBRANE_TRY(cut(wanted.owner, wanted.first, wanted.last));
  RecordLock whole = wanted;
  // Merges neighbours of the same kind.
  std::erase_if(records_, [&whole](const RecordLock& lock) {
    const bool touches = (lock.last != UINT64_MAX && lock.last + 1 == whole.first) ||
                         (whole.last != UINT64_MAX && whole.last + 1 == lock.first);
    if (lock.owner != whole.owner || lock.is_exclusive != whole.is_exclusive || !touches) return false;
    whole.first = std::min(whole.first, lock.first);
    whole.last = std::max(whole.last, lock.last);
    return true;
  });
  records_.push_back(whole);
  if (!wanted.is_exclusive) changed.wake();
  return {};
}

Done FileLocks::unlock(const void* owner, uint64_t first, uint64_t last) {
  MEMBRANE_TRY(cut(owner, first, last));
  changed.wake();
  return {};
}

void FileLocks::unlock_all(const void* owner) {
  if (std::erase_if(records_, [owner](const RecordLock& lock) { return lock.owner == owner; }) != 0)
    changed.wake();
}

// Removes a range from the owner's locks. A lock that extends beyond both ends is split in two.
Done FileLocks::cut(const void* owner, uint64_t first, uint64_t last) {
  std::vector<RecordLock> rest;
  for (const RecordLock& lock : records_) {
    if (lock.owner != owner || !overlap(lock, first, last)) continue;
    RecordLock part = lock;
    if (lock.first < first) {
      part.last = first - 1;
      rest.push_back(part);
    }
    part = lock;
    if (lock.last > last) {
      part.first = last + 1;
      rest.push_back(part);
    }
  }
  if (records_.size() + rest.size() > kMostRecords) return err(ENOLCK);
  std::erase_if(records_,
                [&](const RecordLock& lock) { return lock.owner == owner && overlap(lock, first, last); });
  records_.insert(records_.end(), rest.begin(), rest.end());
  return {};
}

const std::shared_ptr<FileLocks>& locks_of(Node& node) {
  if (node.locks == nullptr) node.locks = std::make_shared<FileLocks>();
  return node.locks;
}

std::shared_ptr<void> hold_locks(std::shared_ptr<FileLocks> locks, const void* owner, LockKind kind) {
  return std::make_shared<LockHold>(std::move(locks), owner, kind);
}

}  // namespace membrane::linux
