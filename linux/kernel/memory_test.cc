#include "linux/kernel/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <random>
#include <vector>

namespace membrane::linux {
namespace {

constexpr uint64_t kLowest = 0x10000, kHighest = 0x7ff000000000;

// Remembers which pages are mapped, as a host would.
class PagesOnly final : public Space {
 public:
  void map(uint64_t address, uint64_t length, int protection, const Backing&) override {
    for (uint64_t at = address; at < address + length; at += kPage) pages[at] = protection;
  }
  void unmap(uint64_t address, uint64_t length) override {
    for (uint64_t at = address; at < address + length; at += kPage) pages.erase(at);
  }
  void protect(uint64_t address, uint64_t length, int protection) override {
    for (uint64_t at = address; at < address + length; at += kPage) {
      EXPECT_TRUE(pages.contains(at));
      pages[at] = protection;
    }
  }
  void move(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length) override {
    const int protection = pages.at(from);
    unmap(from, length);
    map(to, new_length, protection, {});
  }
  void discard(uint64_t, uint64_t) override {}
  void clear() override { pages.clear(); }
  size_t read(uint64_t, std::span<std::byte>) override { return 0; }
  size_t write(uint64_t, std::span<const std::byte>) override { return 0; }
  size_t poke(uint64_t, std::span<const std::byte>) override { return 0; }
  uint64_t resident_bytes() override { return 0; }

  std::map<uint64_t, int> pages;
};

class MemoryTest : public ::testing::Test {
 protected:
  Try<uint64_t> map(uint64_t address, uint64_t pages, bool is_fixed = false,
                    int protection = PROT_READ | PROT_WRITE) {
    return memory_.map({.address = address,
                        .length = pages * kPage,
                        .protection = protection,
                        .is_fixed = is_fixed,
                        .file = nullptr,
                        .backing = {}});
  }
  // The areas agree with the space.
  void check() {
    std::map<uint64_t, int> pages;
    uint64_t bytes = 0, last = 0;
    for (const auto& [start, area] : memory_.areas()) {
      EXPECT_GE(start, last);
      last = area.end;
      bytes += area.end - start;
      for (uint64_t at = start; at < area.end; at += kPage) pages[at] = area.protection;
    }
    EXPECT_EQ(pages, space_->pages);
    EXPECT_EQ(bytes, memory_.mapped_bytes());
  }

  std::shared_ptr<PagesOnly> space_ = std::make_shared<PagesOnly>();
  Memory memory_{space_, kLowest, kHighest};
};

TEST_F(MemoryTest, MapsFromTheTopDown) {
  const uint64_t first = *map(0, 4), second = *map(0, 2);
  EXPECT_EQ(second, first - 2 * kPage);
  EXPECT_TRUE(memory_.unmap(first, 4 * kPage));
  EXPECT_EQ(*map(0, 3), first + kPage);
  check();
}

TEST_F(MemoryTest, AlwaysTakesTheHighestGap) {
  constexpr uint64_t kBelowStack = kHighest - (256u << 20);
  const auto highest_gap = [&](uint64_t length) {
    uint64_t top = kBelowStack;
    for (auto at = memory_.areas().rbegin(); at != memory_.areas().rend(); ++at) {
      if (at->second.end <= top && top - at->second.end >= length) break;
      top = std::min(top, at->first);
    }
    return top - length;
  };
  std::mt19937 random(1);
  std::vector<uint64_t> places = {kBelowStack - kPage};
  for (int i = 0; i < 5000; ++i) {
    const uint64_t pages = 1 + random() % 5, place = places[random() % places.size()];
    switch (random() % 4) {
      case 0: static_cast<void>(memory_.unmap(place, pages * kPage)); break;
      case 1: static_cast<void>(memory_.remap(place, kPage, pages * kPage, MREMAP_MAYMOVE, 0)); break;
      case 2: static_cast<void>(map(place, pages, random() % 2 == 0)); break;
      default:
        const uint64_t wanted = highest_gap(pages * kPage);
        ASSERT_EQ(*map(0, pages), wanted) << i;
        places.push_back(wanted);
    }
  }
  check();
}

TEST_F(MemoryTest, TakesAHintThatIsFree) {
  EXPECT_EQ(*map(0x200000, 1), 0x200000u);
  EXPECT_NE(*map(0x200000, 1), 0x200000u);
  EXPECT_EQ(*map(0x200000, 1, true), 0x200000u);
  check();
}

TEST_F(MemoryTest, RefusesWhatIsOutside) {
  EXPECT_EQ(map(0, 1, true).error(), EPERM);
  EXPECT_EQ(map(kHighest, 1, true).error(), ENOMEM);
  EXPECT_EQ(map(kHighest - kPage, 2, true).error(), ENOMEM);
  EXPECT_EQ(map(0, kHighest / kPage).error(), ENOMEM);
  EXPECT_EQ(memory_.unmap(kHighest, kPage).error(), EINVAL);
  EXPECT_EQ(memory_.unmap(0x200001, kPage).error(), EINVAL);
  EXPECT_EQ(memory_.protect(0x200000, kPage, PROT_READ).error(), ENOMEM);
}

TEST_F(MemoryTest, TheHeapGrowsAndShrinks) {
  memory_.set_heap(0x600123);
  EXPECT_EQ(memory_.set_break(0, UINT64_MAX), 0x600123u);
  EXPECT_EQ(memory_.set_break(0x605000, UINT64_MAX), 0x605000u);
  EXPECT_TRUE(memory_.is_mapped(0x601000, 0x4000));
  EXPECT_EQ(memory_.set_break(0x609000, UINT64_MAX), 0x609000u);
  EXPECT_EQ(memory_.areas().size(), 1u);
  EXPECT_EQ(memory_.set_break(0x602000, UINT64_MAX), 0x602000u);
  EXPECT_FALSE(memory_.is_mapped(0x602000, kPage));
  EXPECT_EQ(memory_.set_break(0x702000, 4096), 0x602000u);
  check();
}

TEST_F(MemoryTest, MovesWhatCannotGrow) {
  const uint64_t high = *map(0, 1), low = *map(high - kPage, 1, true, PROT_READ);
  EXPECT_EQ(memory_.remap(low, kPage, 2 * kPage, 0, 0).error(), ENOMEM);
  const uint64_t moved = *memory_.remap(low, kPage, 2 * kPage, MREMAP_MAYMOVE, 0);
  EXPECT_NE(moved, low);
  EXPECT_FALSE(memory_.is_mapped(low, kPage));
  EXPECT_EQ(*memory_.remap(moved, 2 * kPage, kPage, 0, 0), moved);
  check();
}

// Lengths that would wrap around the address space, instead of a program's.
TEST_F(MemoryTest, RefusesLengthsThatWrap) {
  const uint64_t upper = *map(0x200000, 1, true), lower = *map(0x1ff000, 1, true);
  for (uint64_t pages = 1; pages <= 64; ++pages) {
    const uint64_t wraps = -(pages * kPage);
    EXPECT_EQ(memory_.remap(lower, kPage, wraps, MREMAP_MAYMOVE, 0).error(), ENOMEM) << pages;
    EXPECT_FALSE(memory_.remap(lower, kPage, wraps, MREMAP_MAYMOVE | MREMAP_FIXED, 0x300000)) << pages;
    EXPECT_EQ(map(0, -pages & (UINT64_MAX / kPage)).error(), ENOMEM) << pages;
    EXPECT_FALSE(memory_.unmap(lower, wraps)) << pages;
    EXPECT_FALSE(memory_.protect(lower, wraps, PROT_READ)) << pages;
    EXPECT_FALSE(memory_.discard(lower, wraps)) << pages;
    EXPECT_FALSE(memory_.is_mapped(lower, wraps)) << pages;
  }
  EXPECT_EQ(memory_.unmap(lower, UINT64_MAX).error(), EINVAL);
  EXPECT_TRUE(memory_.is_mapped(upper, kPage) && memory_.is_mapped(lower, kPage));
  check();
}

// The areas and the mapped pages agree, whatever a guest does.
TEST_F(MemoryTest, AreasAndPagesAgree) {
  std::mt19937_64 random(1);
  const auto some = [&](uint64_t most) { return random() % most; };
  for (int i = 0; i < 3000; ++i) {
    const uint64_t address = 0x100000 + some(64) * kPage, length = (1 + some(8)) * kPage;
    switch (some(4)) {
      case 0: static_cast<void>(map(address, length / kPage, true, static_cast<int>(some(8)))); break;
      case 1: static_cast<void>(memory_.unmap(address, length)); break;
      case 2: static_cast<void>(memory_.protect(address, length, static_cast<int>(some(8)))); break;
      default:
        static_cast<void>(memory_.remap(address, length, (1 + some(8)) * kPage,
                                        MREMAP_MAYMOVE | (some(2) ? MREMAP_FIXED : 0),
                                        0x100000 + some(64) * kPage));
    }
    check();
    if (HasFailure()) FAIL() << "at step " << i;
  }
}

}  // namespace
}  // namespace membrane::linux
