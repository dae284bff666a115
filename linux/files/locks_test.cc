#include "linux/files/locks.h"

#include <gtest/gtest.h>

namespace membrane::linux {
namespace {

const int kOne = 1, kTwo = 2, kThree = 3;  // owners

RecordLock record(uint64_t first, uint64_t last, bool is_exclusive, const void* owner) {
  return {first, last, is_exclusive, owner, 0};
}

TEST(FileLocks, ManyMayShareAWhole) {
  FileLocks locks;
  EXPECT_TRUE(locks.lock_whole(&kOne, false));
  EXPECT_TRUE(locks.lock_whole(&kTwo, false));
  EXPECT_EQ(locks.lock_whole(&kThree, true).error(), EAGAIN);
  EXPECT_EQ(locks.lock_whole(&kOne, true).error(), EAGAIN);
  locks.unlock_whole(&kTwo);
  EXPECT_TRUE(locks.lock_whole(&kOne, true));
  EXPECT_EQ(locks.lock_whole(&kTwo, false).error(), EAGAIN);
}

TEST(FileLocks, RangesConflictOnlyWhereTheyOverlap) {
  FileLocks locks;
  EXPECT_TRUE(locks.lock(record(0, 9, true, &kOne)));
  EXPECT_TRUE(locks.lock(record(10, 19, true, &kTwo)));
  EXPECT_EQ(locks.lock(record(9, 9, false, &kTwo)).error(), EAGAIN);
  EXPECT_TRUE(locks.lock(record(5, 9, false, &kOne)));
  EXPECT_TRUE(locks.lock(record(5, 9, false, &kTwo)));
  EXPECT_EQ(locks.lock(record(4, 4, false, &kTwo)).error(), EAGAIN);
}

TEST(FileLocks, UnlockingTheMiddleLeavesTheEnds) {
  FileLocks locks;
  EXPECT_TRUE(locks.lock(record(0, UINT64_MAX, true, &kOne)));
  EXPECT_TRUE(locks.unlock(&kOne, 10, 19));
  EXPECT_EQ(locks.conflict_with(record(10, 19, true, &kTwo)), nullptr);
  const RecordLock* const before = locks.conflict_with(record(0, 10, true, &kTwo));
  ASSERT_NE(before, nullptr);
  EXPECT_EQ(before->last, 9u);
  const RecordLock* const after = locks.conflict_with(record(19, 20, true, &kTwo));
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->first, 20u);
}

TEST(FileLocks, NeighboursAreJoined) {
  FileLocks locks;
  for (uint64_t at = 0; at < FileLocks::kMostRecords * 2; ++at)
    ASSERT_TRUE(locks.lock(record(at, at, true, &kOne)));
  EXPECT_EQ(locks.conflict_with(record(5, 5, true, &kTwo))->first, 0u);
}

TEST(FileLocks, AreBounded) {
  FileLocks locks;
  Done last;
  for (uint64_t at = 0; at < FileLocks::kMostRecords * 2 && last; ++at)
    last = locks.lock(record(at * 2, at * 2, true, &kOne));
  EXPECT_EQ(last.error(), ENOLCK);
}

TEST(FileLocks, GoWithTheirHold) {
  auto locks = std::make_shared<FileLocks>();
  ASSERT_TRUE(locks->lock(record(0, 9, true, &kOne)));
  ASSERT_TRUE(locks->lock_whole(&kOne, true));
  auto hold = hold_locks(locks, &kOne, LockKind::kRecords);
  hold.reset();
  EXPECT_TRUE(locks->lock(record(0, 9, true, &kTwo)));
  EXPECT_FALSE(locks->lock_whole(&kTwo, true));
  hold = hold_locks(locks, &kOne, LockKind::kWhole);
  hold.reset();
  EXPECT_TRUE(locks->lock_whole(&kTwo, true));
}

}  // namespace
}  // namespace membrane::linux
