#include "linux/platform/kvm/tables.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace membrane::linux {
namespace {

using Answer = GuestTables::Answer;

constexpr uint64_t kRead = 4, kWrite = 6, kFetch = 0x14;  // of error codes
constexpr uint64_t kAt = 0x555555554000, kPageBytes = 4096;

class GuestTablesTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(tables_, nullptr);
    void* const memory = mmap(nullptr, KVM_MACHINE_BYTES, PROT_READ, MAP_SHARED, tables_->file(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    memory_ = static_cast<const std::byte*>(memory);
  }
  void TearDown() override { munmap(const_cast<std::byte*>(memory_), KVM_MACHINE_BYTES); }

  // The entry of the page, as a processor finds it; 0: none.
  uint64_t walk(uint64_t address) {
    uint64_t table = tables_->root();
    for (int level = 3;; --level) {
      const uint64_t entry =
          reinterpret_cast<const uint64_t*>(memory_ + table)[address >> (12 + 9 * level) & 511];
      if ((entry & 1) == 0) return 0;
      if (level == 0 || (entry & 0x80) != 0) return entry;
      table = entry & 0x000ffffffffff000;
    }
  }
  void fill(uint64_t address, bool is_alone = false) {
    tables_->needs_slot(address);
    ASSERT_EQ(tables_->fill(address, is_alone), Answer::kPresent);
  }
  static bool may_write(uint64_t entry) { return (entry & 2) != 0; }
  static bool may_execute(uint64_t entry) { return entry >> 63 == 0; }

  std::unique_ptr<GuestTables> tables_ = GuestTables::make();
  const std::byte* memory_ = nullptr;
};

TEST_F(GuestTablesTest, JudgesByProtection) {
  tables_->map(kAt, 4 * kPageBytes, PROT_READ | PROT_WRITE);
  tables_->protect(kAt + kPageBytes, kPageBytes, PROT_READ);
  tables_->protect(kAt + 2 * kPageBytes, kPageBytes, PROT_NONE);
  tables_->unmap(kAt + 3 * kPageBytes, kPageBytes);
  EXPECT_EQ(tables_->judge(kAt, kWrite), Answer::kPresent);
  EXPECT_EQ(tables_->judge(kAt, kFetch), Answer::kForbidden);
  EXPECT_EQ(tables_->judge(kAt + kPageBytes, kRead), Answer::kPresent);
  EXPECT_EQ(tables_->judge(kAt + kPageBytes, kWrite), Answer::kForbidden);
  EXPECT_EQ(tables_->judge(kAt + 2 * kPageBytes, kRead), Answer::kForbidden);
  EXPECT_EQ(tables_->judge(kAt + 3 * kPageBytes, kRead), Answer::kNoMapping);
  EXPECT_EQ(tables_->judge(kAt - 1, kRead), Answer::kNoMapping);
}

TEST_F(GuestTablesTest, MovesGrowsAndShrinks) {
  tables_->map(kAt, 2 * kPageBytes, PROT_READ);
  tables_->move(kAt, 2 * kPageBytes, 0x10000000, 3 * kPageBytes);
  EXPECT_EQ(tables_->judge(kAt, kRead), Answer::kNoMapping);
  EXPECT_EQ(tables_->judge(0x10000000 + 2 * kPageBytes, kRead), Answer::kPresent);
  tables_->move(0x10000000, 3 * kPageBytes, 0x10000000, kPageBytes);
  EXPECT_EQ(tables_->judge(0x10000000, kRead), Answer::kPresent);
  EXPECT_EQ(tables_->judge(0x10000000 + kPageBytes, kRead), Answer::kNoMapping);
}

TEST_F(GuestTablesTest, FillsWhatIsAround) {
  tables_->map(kAt, kPageBytes, PROT_READ | PROT_EXEC);
  tables_->map(kAt + kPageBytes, kPageBytes, PROT_READ | PROT_WRITE);
  tables_->map(kAt + 2 * kPageBytes, kPageBytes, PROT_NONE);
  EXPECT_EQ(walk(kAt), 0u);
  fill(kAt);
  EXPECT_TRUE(may_execute(walk(kAt)));
  EXPECT_FALSE(may_write(walk(kAt)));
  EXPECT_TRUE(may_write(walk(kAt + kPageBytes)));
  EXPECT_FALSE(may_execute(walk(kAt + kPageBytes)));
  EXPECT_EQ(walk(kAt + 2 * kPageBytes), 0u);
  EXPECT_EQ(walk(kAt + 3 * kPageBytes), 0u);
  tables_->discard();
  fill(kAt, true);
  EXPECT_NE(walk(kAt), 0u);
  EXPECT_EQ(walk(kAt + kPageBytes), 0u);
}

TEST_F(GuestTablesTest, RightsToExecuteGoAtOnce) {
  tables_->map(kAt, kPageBytes, PROT_READ | PROT_WRITE | PROT_EXEC);
  fill(kAt);
  const uint64_t before = tables_->root();
  tables_->protect(kAt, kPageBytes, PROT_READ);
  EXPECT_NE(tables_->root(), before);
  EXPECT_EQ(walk(kAt), 0u);
  fill(kAt);
  EXPECT_FALSE(may_execute(walk(kAt)));
  EXPECT_FALSE(may_write(walk(kAt)));
}

TEST_F(GuestTablesTest, LargePagesBecomeSmallOnes) {
  constexpr uint64_t kBig = 0x40000000, kLength = 64 << 20;
  tables_->map(kBig, kLength, PROT_READ | PROT_WRITE);
  fill(kBig + 5 * kPageBytes);
  EXPECT_NE(walk(kBig + kLength - 1) & 0x80, 0u);
  tables_->protect(kBig + kPageBytes, kPageBytes, PROT_READ);
  fill(kBig);
  EXPECT_EQ(walk(kBig) & 0x80, 0u);
  EXPECT_TRUE(may_write(walk(kBig)));
  EXPECT_FALSE(may_write(walk(kBig + kPageBytes)));
}

TEST_F(GuestTablesTest, AskForEachSlotOnce) {
  tables_->map(kAt, kPageBytes, PROT_READ);
  const auto slot = tables_->needs_slot(kAt);
  ASSERT_TRUE(slot);
  EXPECT_EQ(slot->address, kAt / slot->length * slot->length);
  EXPECT_FALSE(tables_->needs_slot(kAt + kPageBytes));
  EXPECT_TRUE(tables_->needs_slot(kAt + slot->length));
  EXPECT_EQ(tables_->slots().size(), 2u);
  const auto copy = tables_->copy();
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->slots().size(), 2u);
  EXPECT_EQ(copy->judge(kAt, kRead), Answer::kPresent);
}

TEST_F(GuestTablesTest, TellWhenTheyAreFullAndBeginAnew) {
  constexpr uint64_t kFar = uint64_t{1} << 30;
  Answer answer = Answer::kPresent;
  tables_->map(kFar, kPageBytes, PROT_READ);
  tables_->needs_slot(kFar);
  for (uint64_t round = 0; answer == Answer::kPresent && round < KVM_MACHINE_BYTES / kPageBytes; ++round) {
    tables_->discard();
    answer = tables_->fill(kFar, true);
  }
  EXPECT_EQ(answer, Answer::kFull);
  tables_->renew();
  EXPECT_EQ(tables_->fill(kFar, true), Answer::kPresent);
  EXPECT_NE(walk(kFar), 0u);
}

// None of the machine's own memory is accessible to a guest.
TEST_F(GuestTablesTest, TheSystemsPagesAreTheSupervisors) {
  for (uint64_t page = 0; page < KVM_SYSTEM_PAGES; ++page) {
    const uint64_t entry = walk(KVM_SYSTEM + page * kPageBytes);
    ASSERT_NE(entry, 0u) << page;
    EXPECT_EQ(entry & 4, 0u) << page;
    EXPECT_FALSE(may_execute(entry)) << page;
  }
  EXPECT_EQ(walk(KVM_SYSTEM + KVM_SYSTEM_PAGES * kPageBytes), 0u);
  EXPECT_EQ(walk(KVM_GATES) & 0x000ffffffffff000, KVM_HOLE);
}

}  // namespace
}  // namespace membrane::linux
