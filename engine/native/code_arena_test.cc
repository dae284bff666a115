// The memory that holds machine code.

#include "engine/native/code_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>
#include <vector>

namespace membrane::engine::native {
namespace {

constexpr uint8_t kTrapped = 0xCC;  // int3
constexpr size_t kLarge = 4u << 20;

// A file without a name.
class File {
 public:
  explicit File(std::span<const uint8_t> bytes) : file_(memfd_create("test", MFD_CLOEXEC)) {
    EXPECT_EQ(write(file_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  ~File() { close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int number() const { return file_; }

 private:
  int file_;
};

// mov eax, value; ret
std::vector<uint8_t> answer(uint32_t value) {
  return {0xB8,
          static_cast<uint8_t>(value),
          static_cast<uint8_t>(value >> 8),
          static_cast<uint8_t>(value >> 16),
          static_cast<uint8_t>(value >> 24),
          0xC3};
}
uint32_t run(const CodeBlock& block) {
  return reinterpret_cast<uint32_t (*)()>(reinterpret_cast<uintptr_t>(block.code()))();
}
bool is_trapped(const uint8_t* code, size_t bytes) {
  return std::all_of(code, code + bytes, [](uint8_t byte) { return byte == kTrapped; });
}
CodeBlock filled(size_t bytes, uint8_t with = 0x90) { return publish(std::vector<uint8_t>(bytes, with)); }

// What is run here is machine code of x86-64.
class MachineCode : public testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "the compiler, and so the arena, is for x86-64";
#endif
  }
};
class CodeArena : public MachineCode {};
class WritingCode : public MachineCode {};

TEST_F(CodeArena, RunsWhatWasPublished) {
  const CodeBlock block = publish(answer(42));
  ASSERT_NE(block.code(), nullptr);
  EXPECT_EQ(block.size(), 6u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block.code()) % 64, 0u);
  EXPECT_EQ(run(block), 42u);
  EXPECT_TRUE(is_trapped(block.code() + 6, 58));
}

// How many pages are there of so many bytes from the page of `at` on.
size_t resident_pages(const uint8_t* at, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  at -= reinterpret_cast<uintptr_t>(at) % page;
  std::vector<unsigned char> are_there(bytes / page);
  EXPECT_EQ(mincore(const_cast<uint8_t*>(at), bytes, are_there.data()), 0);
  return static_cast<size_t>(
      std::ranges::count_if(are_there, [](unsigned char it) { return (it & 1) != 0; }));
}

TEST_F(CodeArena, KeepsItsFirstPagesForTheNextModule) {
  constexpr size_t kMegabyte = 1u << 20, kCode = 32 * kMegabyte, kWarm = 16 * kMegabyte;
  const uint8_t* begin = nullptr;
  {
    const CodeBlock block = filled(kCode);
    begin = block.code();
    ASSERT_NE(begin, nullptr);
  }
  size_t before = 0;  // in the arena, give or take a megabyte
  while (in_arena(begin - before - kMegabyte)) before += kMegabyte;
  const size_t warm = kWarm - std::min(kWarm, before + kMegabyte), cold = kCode - kWarm - 2 * kMegabyte;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(resident_pages(begin, warm), warm / page);
  EXPECT_EQ(resident_pages(begin + kCode - cold - kMegabyte, cold), 0u);
  EXPECT_TRUE(is_trapped(begin, warm));
}

TEST_F(CodeArena, KnowsItsOwnAddresses) {
  const CodeBlock block = publish(answer(1));
  ASSERT_NE(block.code(), nullptr);
  EXPECT_TRUE(in_arena(block.code()));
  EXPECT_FALSE(in_arena(&block));
  EXPECT_FALSE(in_arena(nullptr));
}

TEST_F(CodeArena, NothingIsPublishedAsNothing) { EXPECT_EQ(publish({}).code(), nullptr); }

TEST_F(CodeArena, RunsAFileAndThenItsOwnPagesAgain) {
  const uint8_t* first = nullptr;
  for (uint32_t i = 0; i < 3; ++i) {
    std::vector<uint8_t> bytes(8192);
    std::ranges::copy(answer(100 + i), bytes.begin() + 4096);
    std::optional<CodeBlock> mapped(map_code(File(bytes).number(), 4096, 6));
    ASSERT_NE(mapped->code(), nullptr);
    EXPECT_TRUE(in_arena(mapped->code()));
    EXPECT_EQ(run(*mapped), 100 + i);
    if (first == nullptr) first = mapped->code();
    EXPECT_EQ(mapped->code(), first);
    const CodeBlock beside = publish(answer(7));
    EXPECT_EQ(run(beside), 7u);
    mapped.reset();
    const CodeBlock large = filled(8192, 0x90);  // the pages of the file are in it
    EXPECT_TRUE(
        std::all_of(large.code(), large.code() + large.size(), [](uint8_t byte) { return byte == 0x90; }));
  }
  EXPECT_EQ(map_code(-1, 0, 4096).code(), nullptr);
  EXPECT_EQ(run(publish(answer(8))), 8u);
}

TEST_F(WritingCode, WritesInPartsWithGapsAndPatches) {
  CodeWriter writer(1);
  const std::vector<uint8_t> gap(5, 0x90), code = answer(1);
  ASSERT_TRUE(writer.append(gap));
  ASSERT_TRUE(writer.align(16));
  EXPECT_EQ(writer.size(), 16u);
  ASSERT_TRUE(writer.append(code));
  writer.put32(17, 99);
  const CodeBlock block = writer.finish();
  ASSERT_NE(block.code(), nullptr);
  EXPECT_EQ(block.size(), 22u);
  EXPECT_TRUE(is_trapped(block.code() + 5, 11));
  EXPECT_EQ(reinterpret_cast<uint32_t (*)()>(reinterpret_cast<uintptr_t>(block.code() + 16))(), 99u);
  EXPECT_TRUE(is_trapped(block.code() + 22, 42));
}

TEST_F(WritingCode, GrowsWhereItIsAndElsewhere) {
  const std::vector<uint8_t> code = answer(5), rest(100'000, 0x90);
  for (const bool is_hemmed_in : {false, true}) {
    CodeWriter writer(code.size());
    ASSERT_TRUE(writer.append(code));
    const CodeBlock neighbour = is_hemmed_in ? publish(code) : CodeBlock();
    ASSERT_TRUE(writer.append(rest));
    const CodeBlock block = writer.finish();
    ASSERT_NE(block.code(), nullptr);
    EXPECT_EQ(block.size(), code.size() + rest.size());
    EXPECT_EQ(run(block), 5u);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), block.code() + code.size()));
  }
}

// Where a writer that expects this many bytes begins to write. The range is given back at once.
const uint8_t* place_for(size_t expected_bytes) {
  CodeWriter writer(expected_bytes);
  EXPECT_TRUE(writer.append(answer(1)));
  return writer.finish().code();
}

TEST_F(WritingCode, GivesBackWhatItDidNotUseOrDidNotFinish) {
  // Cases before this one in the same process may have left holes; those that could hold just one writer are filled.
  std::vector<CodeBlock> fillings;
  while (place_for(kLarge) != place_for(2 * kLarge)) fillings.push_back(filled(kLarge));
  const uint8_t* const first = place_for(kLarge);
  {
    CodeWriter unfinished(kLarge);
    ASSERT_TRUE(unfinished.append(answer(2)));
  }
  CodeWriter writer(kLarge);
  ASSERT_TRUE(writer.append(answer(3)));
  const CodeBlock block = writer.finish();
  EXPECT_EQ(block.code(), first);
  EXPECT_EQ(place_for(kLarge), first + 64);
  EXPECT_EQ(run(block), 3u);
}

TEST_F(WritingCode, RefusesWhatTheArenaCannotHold) {
  CodeWriter writer(2ull << 30);
  const std::vector<uint8_t> code = answer(6);
  EXPECT_TRUE(writer.append(code));  // with less room than was expected
  EXPECT_EQ(run(writer.finish()), 6u);
  EXPECT_EQ(writer.finish().code(), nullptr);
}

TEST_F(CodeArena, UsesABlockAgain) {
  const uint8_t* first = nullptr;
  for (uint32_t i = 0; i < 100; ++i) {
    const CodeBlock block = publish(answer(i));
    ASSERT_NE(block.code(), nullptr);
    if (first == nullptr) first = block.code();
    EXPECT_EQ(block.code(), first);
    EXPECT_EQ(run(block), i);
  }
}

TEST_F(CodeArena, AFreedBlockIsTrappedCode) {
  std::optional<CodeBlock> block(filled(1000));
  const uint8_t* const code = block->code();
  ASSERT_NE(code, nullptr);
  EXPECT_FALSE(is_trapped(code, 1));
  block.reset();
  EXPECT_TRUE(is_trapped(code, 1024));
}

TEST_F(CodeArena, AMovedBlockIsFreedOnce) {
  CodeBlock block = publish(answer(7));
  const uint8_t* const code = block.code();
  {
    const CodeBlock taken(std::move(block));
    EXPECT_EQ(taken.code(), code);
    EXPECT_EQ(run(taken), 7u);
  }
  const CodeBlock other = publish(answer(8));
  EXPECT_EQ(other.code(), code);
  EXPECT_EQ(run(other), 8u);
}

// Three neighbours, freed in every order: together they are one range again.
TEST_F(CodeArena, NeighboursThatAreFreeAreOneRange) {
  std::array<size_t, 3> order = {0, 1, 2};
  do {
    std::array<std::optional<CodeBlock>, 3> blocks;
    for (auto& block : blocks) block.emplace(filled(kLarge));
    const uint8_t* const begin = blocks[0]->code();
    ASSERT_NE(begin, nullptr);
    ASSERT_EQ(blocks[1]->code(), begin + kLarge);
    ASSERT_EQ(blocks[2]->code(), begin + 2 * kLarge);
    for (const size_t i : order) blocks[i].reset();
    EXPECT_EQ(filled(3 * kLarge).code(), begin) << order[0] << order[1] << order[2];
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(CodeArena, AHoleIsFilledAndItsRestIsFilledToo) {
  std::vector<CodeBlock> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(filled(kLarge));
  const uint8_t* const hole = blocks[1].code();
  ASSERT_EQ(hole, blocks[0].code() + kLarge);
  blocks[1].~CodeBlock();
  new (&blocks[1]) CodeBlock(filled(kLarge / 4));
  const CodeBlock rest = filled(kLarge - kLarge / 4);
  EXPECT_EQ(blocks[1].code(), hole);
  EXPECT_EQ(rest.code(), hole + kLarge / 4);
  EXPECT_FALSE(is_trapped(blocks[2].code(), 1));
}

TEST_F(CodeArena, HasNoRoomForMoreThanItself) {
  const size_t bytes = (size_t{1} << 30) + 1;
  void* const source = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(source, MAP_FAILED);
  EXPECT_EQ(publish({static_cast<const uint8_t*>(source), bytes}).code(), nullptr);
  munmap(source, bytes);
  const CodeBlock after = publish(answer(9));
  ASSERT_NE(after.code(), nullptr);
  EXPECT_EQ(run(after), 9u);
}

TEST_F(CodeArena, IsSharedByThreads) {
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (uint32_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([t, &wrong] {
      std::vector<CodeBlock> kept;
      for (uint32_t i = 0; i < 2'000; ++i) {
        std::vector<uint8_t> code = answer(t << 16 | i);
        code.resize(code.size() + i % 7 * 50, 0x90);
        kept.push_back(publish(code));
        if (kept.size() < 20) continue;
        for (size_t k = 0; k < kept.size(); ++k)
          if (run(kept[k]) != (t << 16 | (i + 1 - static_cast<uint32_t>(kept.size() - k)))) ++wrong[t];
        kept.clear();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

}  // namespace
}  // namespace membrane::engine::native
