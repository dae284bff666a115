#include "linux/kernel/user_buffer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace membrane::linux {
namespace {

// Memory from `kBase` on; what is outside faults.
class FakeCaller final : public Caller {
 public:
  static constexpr uint64_t kBase = 0x10000;
  std::string memory = std::string(4096 * 20, '.');

  const Credentials& credentials() const override { return credentials_; }
  int process_id() const override { return 1; }
  int process_group() const override { return 1; }
  int session() const override { return 1; }
  Done read_memory(uint64_t address, std::span<std::byte> bytes) override {
    if (!is_inside(address, bytes.size())) return err(EFAULT);
    if (!bytes.empty()) std::memcpy(bytes.data(), memory.data() + (address - kBase), bytes.size());
    return {};
  }
  Done write_memory(uint64_t address, std::span<const std::byte> bytes) override {
    if (!is_inside(address, bytes.size())) return err(EFAULT);
    if (!bytes.empty()) std::memcpy(memory.data() + (address - kBase), bytes.data(), bytes.size());
    return {};
  }
  void signal_group(int, int) override {}
  void signal_self(int) override {}
  bool ignores(int) override { return false; }
  bool is_orphaned() override { return false; }

 private:
  bool is_inside(uint64_t address, size_t size) const {
    return size == 0 ||
           (address >= kBase && size <= memory.size() && address - kBase <= memory.size() - size);
  }
  Credentials credentials_;
};

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string taken(Buffer& buffer, size_t most) {
  std::string text(most, '\0');
  const auto got = buffer.take(std::as_writable_bytes(std::span(text)));
  text.resize(got.value_or(0));
  return text;
}

TEST(UserBuffer, GoesThroughItsVectors) {
  FakeCaller caller;
  caller.memory.replace(0, 10, "abcdefghij");
  const UserRange ranges[] = {{FakeCaller::kBase, 3}, {0, 0}, {FakeCaller::kBase + 5, 4}};
  std::memcpy(caller.memory.data() + 100, ranges, sizeof ranges);
  auto buffer = UserBuffer::from_vectors(caller, FakeCaller::kBase + 100, 3);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(buffer->size(), 7u);
  EXPECT_EQ(taken(*buffer, 2), "ab");
  EXPECT_EQ(taken(*buffer, 100), "cfghi");
  EXPECT_EQ(buffer->size(), 0u);
  EXPECT_EQ(taken(*buffer, 1), "");
}

TEST(UserBuffer, RefusesBadVectors) {
  FakeCaller caller;
  EXPECT_EQ(UserBuffer::from_vectors(caller, FakeCaller::kBase, kMostVectors + 1).error(), EINVAL);
  EXPECT_EQ(UserBuffer::from_vectors(caller, 8, 1).error(), EFAULT);
  const UserRange negative = {FakeCaller::kBase, ~uint64_t{0}};
  std::memcpy(caller.memory.data(), &negative, sizeof negative);
  EXPECT_EQ(UserBuffer::from_vectors(caller, FakeCaller::kBase, 1).error(), EINVAL);
}

TEST(UserBuffer, IsBoundedInAll) {
  FakeCaller caller;
  UserBuffer buffer(caller, {{0, uint64_t{1} << 40}, {0, uint64_t{1} << 40}});
  EXPECT_EQ(buffer.size(), kMostTransferBytes);
}

TEST(UserBuffer, MovesWhatIsBeforeAFault) {
  FakeCaller caller;
  const uint64_t end = FakeCaller::kBase + caller.memory.size();
  UserBuffer buffer(caller, end - 5000, 100000);
  EXPECT_EQ(buffer.put(bytes_of(std::string(100000, 'x'))), 5000u);
  EXPECT_EQ(caller.memory.back(), 'x');
  EXPECT_EQ(buffer.put(bytes_of("y")).error(), EFAULT);
}

TEST(UserBuffer, DoesNotWrapAround) {
  FakeCaller caller;
  UserBuffer buffer(caller, ~uint64_t{0} - 10, 100);
  EXPECT_EQ(buffer.put(bytes_of(std::string(100, 'x'))).error(), EFAULT);
}

TEST(UserBuffer, Skips) {
  FakeCaller caller;
  caller.memory.replace(0, 10, "abcdefghij");
  UserBuffer buffer(caller, {{FakeCaller::kBase, 3}, {FakeCaller::kBase + 3, 3}});
  buffer.skip(4);
  EXPECT_EQ(taken(buffer, 100), "ef");
  buffer.skip(100);
  EXPECT_EQ(buffer.size(), 0u);
}

}  // namespace
}  // namespace membrane::linux
