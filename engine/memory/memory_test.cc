// What a memory begins with, and that nothing of a guest is left for the next: regions are used again in every order.
#include "engine/memory/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>

#include "base/sanitized_testing.h"
#include "engine/testing/call_testing.h"
#include "engine/testing/engine_testing.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kPage = wasm::kPageBytes;

std::unique_ptr<Memory> make(uint64_t pages, std::shared_ptr<const MemoryImage> image = nullptr) {
  auto made = Memory::create({{pages, std::nullopt, false}}, 4ull << 30, nullptr, {0, std::move(image)});
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}
bool is_zero(std::span<const uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}
std::vector<uint8_t> noise(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> out(bytes);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(random() | 1);
  return out;
}

// An image of a million bytes, with a hole.
struct Example {
  std::vector<uint8_t> first, second, whole;
  std::shared_ptr<const MemoryImage> image;
  explicit Example(uint32_t seed)
      : first(noise(600'000, seed)), second(noise(100'000, seed + 1)), whole(1'000'000) {
    std::ranges::copy(first, whole.begin());
    std::ranges::copy(second, whole.begin() + 900'000);
    const std::array<MemoryPart, 2> parts = {MemoryPart{0, first}, MemoryPart{900'000, second}};
    image = MemoryImage::create(whole.size(), parts);
  }
  [[nodiscard]] bool is_in(Memory& memory) const {
    return std::ranges::equal(memory.bytes().first(whole.size()), whole) &&
           is_zero(memory.bytes().subspan(whole.size()));
  }
};

TEST(Memory, RegionsComeBackEmptyHoweverTheyWereUsed) {
  std::mt19937 random(1);
  for (int round = 0; round < (kIsSanitized ? 12 : 60); ++round) {
    const uint64_t pages = std::array<uint64_t, 6>{1, 2, 17, 100, 400, 900}[random() % 6];
    const auto memory = make(pages);
    ASSERT_TRUE(is_zero(memory->bytes())) << "round " << round;
    switch (random() % 4) {
      case 0: std::ranges::fill(memory->bytes(), uint8_t{0xAB}); break;
      case 1:  // every other page of the system
        for (uint64_t at = 0; at < memory->size_bytes(); at += 8192) memory->base()[at] = 1;
        break;
      case 2:  // a few anywhere
        for (int i = 0; i < 20; ++i) memory->base()[random() % memory->size_bytes()] = 1;
        break;
      default: memory->bytes().back() = 1;
    }
    if (random() % 2 == 0) {
      const uint64_t before = memory->size_bytes();
      ASSERT_GE(memory->grow(3), 0);
      ASSERT_TRUE(is_zero(memory->bytes().subspan(before)));
      memory->bytes().back() = 1;
    }
  }
}

TEST(Memory, ASmallOneHidesWhatALargeOneHasLeft) {
  { std::ranges::fill(make(64)->bytes(), uint8_t{1}); }
  const auto small = make(1);
  ASSERT_TRUE(is_zero(small->bytes()));
  ASSERT_EQ(small->grow(63), 1);
  EXPECT_TRUE(is_zero(small->bytes()));
}

TEST(MemoryImage, IsWhatMemoriesBeginWith) {
  const Example a(1), b(3);
  ASSERT_NE(a.image, nullptr);
  EXPECT_NE(a.image->number(), b.image->number());
  const auto first = make(20, a.image), second = make(20, a.image), other = make(16, b.image);
  std::ranges::fill(first->bytes(), uint8_t{7});
  EXPECT_TRUE(a.is_in(*second));
  EXPECT_TRUE(b.is_in(*other));
  EXPECT_TRUE(a.is_in(*make(16, a.image)));
  EXPECT_TRUE(std::ranges::equal(a.image->content().first(a.whole.size()), a.whole));
}

TEST(MemoryImage, NothingIsLeftInARegionWhoeverComesNext) {
  std::mt19937 random(2);
  const Example a(1), b(5);
  for (int round = 0; round < 200; ++round) {
    const auto which = random() % 3;
    const Example* const example = which == 0 ? nullptr : which == 1 ? &a : &b;
    const auto memory = make(16 + random() % 3, example == nullptr ? nullptr : example->image);
    ASSERT_TRUE(example == nullptr ? is_zero(memory->bytes()) : example->is_in(*memory)) << "round " << round;
    if (random() % 8 == 0) std::ranges::fill(memory->bytes(), uint8_t{9});
    for (int i = 0; i < 40; ++i) memory->base()[random() % memory->size_bytes()] ^= 0xFF;
    if (random() % 3 == 0) {
      ASSERT_GE(memory->grow(1), 0);
      memory->bytes().back() = 1;
    }
  }
}

TEST(MemoryImage, MayGoBeforeItsMemories) {
  auto example = std::make_unique<Example>(1);
  auto memory = make(16, example->image);
  const std::vector<uint8_t> whole = example->whole;
  example.reset();
  EXPECT_TRUE(std::ranges::equal(memory->bytes().first(whole.size()), whole));
  memory.reset();
  EXPECT_TRUE(is_zero(make(16)->bytes()));
}

TEST(MemoryImage, OfWhatIsBeyondItsEndIsNone) {
  const std::vector<uint8_t> bytes(10);
  const std::array<MemoryPart, 1> beyond = {MemoryPart{5, bytes}}, wrapping = {MemoryPart{UINT64_MAX, bytes}};
  EXPECT_EQ(MemoryImage::create(10, beyond), nullptr);
  EXPECT_EQ(MemoryImage::create(10, wrapping), nullptr);
  EXPECT_EQ(MemoryImage::create(0, {}), nullptr);
}

TEST(MemoryImage, IsSharedByThreadsInParallel) {
  const Example a(1);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 50; ++i) {
        const bool has_image = random() % 2 == 0;
        const auto memory = make(16, has_image ? a.image : nullptr);
        if (has_image ? !a.is_in(*memory) : !is_zero(memory->bytes())) ++wrong;
        memory->base()[random() % memory->size_bytes()] ^= 0xFF;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// In a process of its own: it stays so.
TEST(RegionsThread, PutsRegionsBack) {
  RegionPool::instance().put_back_in_background();
  const Example a(1);
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const bool has_image = random() % 2 == 0;
    const auto memory = make(16 + random() % 3, has_image ? a.image : nullptr);
    const auto beside = make(16, a.image);
    ASSERT_TRUE(has_image ? a.is_in(*memory) : is_zero(memory->bytes())) << "round " << round;
    ASSERT_TRUE(a.is_in(*beside)) << "round " << round;
    for (int i = 0; i < 40; ++i) memory->base()[random() % memory->size_bytes()] ^= 0xFF;
    beside->base()[random() % beside->size_bytes()] ^= 0xFF;
  }
}

TEST(RegionsThread, IsMadeAnewInAChild) {
  if (kIsThreadSanitized) GTEST_SKIP() << "it does not let children of a process with threads begin any";
  RegionPool::instance().put_back_in_background();
  const Example a(1);
  for (int i = 0; i < 20; ++i) std::ranges::fill(make(16, a.image)->bytes(), uint8_t{5});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool is_right = true;
    for (int i = 0; i < 60; ++i) {
      if (i == 20) RegionPool::instance().put_back_in_background();
      const auto memory = make(16, i % 2 == 0 ? a.image : nullptr);
      is_right &= i % 2 == 0 ? a.is_in(*memory) : is_zero(memory->bytes());
      std::ranges::fill(memory->bytes(), uint8_t{6});
    }
    _exit(is_right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// -- data segments ------------------------------------------------------------------------------------------------

std::string with_data(std::string_view more) {
  std::string text = "(module (memory (export \"memory\") 8 9) (data (i32.const 100) \"";
  for (int i = 0; i < 20'000; ++i) text += "0123456789abcdefg";
  return text + "\")" + std::string(more) + ")";
}

TEST(DataImage, InstancesBeginAlike) {
  const auto module = compile(with_data(R"(
    (data (i32.const 98) "xyz") (data (i32.const 524287) "!") (data $passive "kept")
    (func (export "poke") (i32.store (i32.const 200) (i32.const -1)) (drop (memory.grow (i32.const 1)))
      (memory.init $passive (i32.const 589000) (i32.const 0) (i32.const 4)))
    (func (export "again") (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 1))))"));
  ASSERT_NE(module, nullptr);
  std::vector<uint8_t> expected;
  for (int i = 0; i < 4; ++i) {
    const auto instance = Instance::create(module, {}, {});
    ASSERT_TRUE(instance);
    const auto bytes = (*instance)->memory()->bytes();
    if (i == 0) expected.assign(bytes.begin(), bytes.end());
    EXPECT_TRUE(std::ranges::equal(bytes, expected)) << i;
    EXPECT_EQ(std::string(bytes.begin() + 98, bytes.begin() + 104), "xyz123");
    EXPECT_EQ(bytes.back(), '!');
    EXPECT_EQ(call(**instance, "poke").state, RunState::kFinished);
    EXPECT_EQ(call(**instance, "again").state, RunState::kTrapped);  // an active segment is dropped
    EXPECT_EQ(module->data_image() != nullptr, true);
  }
}

TEST(DataImage, ASegmentThatDoesNotFitIsAlwaysRefused) {
  const auto module = compile(with_data("(data (i32.const 524288) \"!\")"));
  ASSERT_NE(module, nullptr);
  for (int i = 0; i < 3; ++i) {
    const auto instance = Instance::create(module, {}, {});
    ASSERT_FALSE(instance);
    EXPECT_EQ(instance.error().kind, LinkError::Kind::kTrap);
  }
  EXPECT_EQ(module->data_image(), nullptr);
}

// -- the ceiling ----------------------------------------------------------------------------------------------------

TEST(MemoryCeiling, HoldsForAllMemoriesTogether) {
  const uint64_t before = memory_in_use_bytes();
  set_memory_ceiling(before + 10 * kPage);
  {
    const auto first = make(4), second = make(5);
    EXPECT_EQ(memory_in_use_bytes(), before + 9 * kPage);
    EXPECT_EQ(first->grow(2), -1);
    EXPECT_TRUE(first->limit_was_hit());
    EXPECT_EQ(second->grow(1), 5);
    const auto third = Memory::create({{1, std::nullopt, false}}, 4ull << 30);
    ASSERT_FALSE(third);
    EXPECT_NE(third.error().message.find("ceiling"), std::string::npos);
    EXPECT_FALSE(third.error().hint.empty());
  }
  EXPECT_EQ(memory_in_use_bytes(), before);
  EXPECT_EQ(make(10)->grow(1), -1);
  set_memory_ceiling(UINT64_MAX);
  EXPECT_EQ(make(10)->grow(1), 10);
}

TEST(MemoryCeiling, IsKeptByThreadsInParallel) {
  const uint64_t before = memory_in_use_bytes();
  set_memory_ceiling(before + 8 * kPage);
  std::atomic<int> beyond = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        auto made = Memory::create({{3, std::nullopt, false}}, 4ull << 30);
        if (made) static_cast<void>((*made)->grow(2));
        if (memory_in_use_bytes() > before + 8 * kPage) ++beyond;
      }
    });
  for (std::thread& thread : threads) thread.join();
  set_memory_ceiling(UINT64_MAX);
  EXPECT_EQ(beyond, 0);
  EXPECT_EQ(memory_in_use_bytes(), before);
}

}  // namespace
}  // namespace membrane::engine
