#include "engine/memory/page_map.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/memory/region_pool.h"

namespace membrane::engine {
namespace {

// Sixteen pages of a file, mapped privately, and after them sixteen of none. Of each, page 2 was read, 3 and 4 were
// written, and 9 was both.
class PageRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = memfd_create("pages", 0);
    ASSERT_GE(file_, 0);
    ASSERT_EQ(ftruncate(file_, static_cast<off_t>(kEach * page_)), 0);
    void* const all =
        mmap(nullptr, 2 * kEach * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(all, MAP_FAILED);
    base_ = static_cast<uint8_t*>(all);
    madvise(all, 2 * kEach * page_, MADV_NOHUGEPAGE);
    ASSERT_NE(mmap(base_, kEach * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file_, 0),
              MAP_FAILED);
    madvise(base_, kEach * page_, MADV_RANDOM);  // no page is there for having a neighbour
    for (const size_t part : {size_t{0}, kEach}) {
      for (const size_t read : {size_t{2}, size_t{9}})
        sum_ += *static_cast<volatile uint8_t*>(base_ + (part + read) * page_);
      for (const size_t written : {size_t{3}, size_t{4}, size_t{9}}) base_[(part + written) * page_] = 1;
    }
  }
  void TearDown() override {
    munmap(base_, 2 * kEach * page_);
    close(file_);
  }
  [[nodiscard]] PageRun run(size_t first, size_t count) const {
    return {first * page_, count * page_, false};
  }

  static constexpr size_t kEach = 16;
  uint64_t page_ = system_page_bytes();
  int file_ = -1;
  uint8_t* base_ = nullptr;
  int sum_ = 0;
};

TEST_F(PageRuns, ThoseThatAreNoFilesAreTold) {
  const auto runs = page_runs(base_, 2 * kEach * page_, Pages::kOwn);
  if (!runs) GTEST_SKIP() << "the system does not say";
  EXPECT_EQ(*runs, (std::vector{run(3, 2), run(9, 1), run(kEach + 2, 3), run(kEach + 9, 1)}));
}

TEST_F(PageRuns, BothWaysToAskGiveTheSame) {
  for (const Pages wanted : {Pages::kOwn, Pages::kTouched}) {
    const auto entries = page_runs_by_entries(base_, 2 * kEach * page_, wanted);
    const auto scanned = page_runs_by_scan(base_, 2 * kEach * page_, wanted);
    if (!entries || !scanned) GTEST_SKIP() << "the system knows but one way";
    EXPECT_EQ(*entries, *scanned);
  }
}

TEST_F(PageRuns, OfManyNoneIsLost) {  // more than are asked for at once
  constexpr size_t kMany = 3'000;
  void* const all = mmap(nullptr, kMany * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(all, MAP_FAILED);
  madvise(all, kMany * page_, MADV_NOHUGEPAGE);
  auto* const base = static_cast<uint8_t*>(all);
  for (size_t i = 0; i < kMany; i += 2) base[i * page_] = 1;
  const auto runs = page_runs(base, kMany * page_, Pages::kOwn);
  if (runs) {
    EXPECT_EQ(runs->size(), kMany / 2);
    EXPECT_EQ(runs->back(), run(kMany - 2, 1));
  }
  munmap(all, kMany * page_);
}

}  // namespace
}  // namespace membrane::engine
