#include "linux/files/sealed_node.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "linux/files/caller_testing.h"

namespace membrane::linux {
namespace {

// A file in the kernel's memory.
class Content final : public Node {
 public:
  explicit Content(uint32_t mode) : mode_(S_IFREG | mode) {}
  Attributes attributes() override { return {.mode = mode_, .size = bytes_.size()}; }
  Done change(const AttributeChange& change) override {
    if (change.mode) mode_ = S_IFREG | *change.mode;
    return {};
  }
  Try<size_t> read(uint64_t offset, std::span<std::byte> to) override {
    if (offset >= bytes_.size()) return 0;
    const size_t count = std::min<size_t>(to.size(), bytes_.size() - offset);
    std::memcpy(to.data(), bytes_.data() + offset, count);
    return count;
  }
  Try<size_t> write(uint64_t offset, std::span<const std::byte> from) override {
    if (offset + from.size() > bytes_.size()) bytes_.resize(offset + from.size());
    std::memcpy(bytes_.data() + offset, from.data(), from.size());
    return from.size();
  }
  Done resize(uint64_t size) override {
    bytes_.resize(size);
    return {};
  }
  Try<Backing> mapping(uint64_t offset, uint64_t, bool is_shared) override {
    return Backing{.fd = 9, .offset = offset, .is_shared = is_shared};
  }

 private:
  uint32_t mode_;
  std::vector<std::byte> bytes_;
};

Try<FileRef> make(uint32_t flags, std::string_view name = "x") {
  return make_memory_file(name, flags,
                          [](uint32_t mode) -> Try<NodeRef> { return std::make_shared<Content>(mode); });
}
SealedNode& node_of(File& file) { return dynamic_cast<SealedNode&>(*file.node()); }

TEST(MemoryFile, IsAFileWithoutAName) {
  FakeCaller caller;
  auto file = make(MFD_CLOEXEC, "shared data").value();
  EXPECT_EQ(file->description(), "/memfd:shared data (deleted)");
  EXPECT_TRUE(write_text(*file, caller, "hello"));
  EXPECT_EQ(file->seek(0, SEEK_SET).value(), 0u);
  EXPECT_EQ(read_text(*file, caller), "hello");
  EXPECT_TRUE(file->mapping(0, 4096, true, PROT_READ | PROT_WRITE));
  EXPECT_EQ(node_of(*file).seals(), static_cast<uint32_t>(F_SEAL_SEAL));
  EXPECT_EQ(node_of(*file).add_seals(F_SEAL_GROW, false).error(), EPERM);
}

TEST(MemoryFile, IsSealed) {
  FakeCaller caller;
  auto file = make(MFD_ALLOW_SEALING).value();
  SealedNode& node = node_of(*file);
  EXPECT_TRUE(write_text(*file, caller, "hello"));
  EXPECT_EQ(node.seals(), 0u);
  EXPECT_TRUE(node.add_seals(F_SEAL_GROW, true));
  EXPECT_EQ(write_text(*file, caller, "more").error(), EPERM);
  EXPECT_EQ(file->truncate(6).error(), EPERM);
  EXPECT_TRUE(file->truncate(4));
  EXPECT_TRUE(node.add_seals(F_SEAL_SHRINK, true));
  EXPECT_EQ(file->truncate(3).error(), EPERM);
  EXPECT_EQ(file->seek(0, SEEK_SET).value(), 0u);
  EXPECT_TRUE(write_text(*file, caller, "H"));
  EXPECT_EQ(node.add_seals(F_SEAL_WRITE, true).error(), EBUSY);
  EXPECT_TRUE(node.add_seals(F_SEAL_WRITE, false));
  EXPECT_EQ(write_text(*file, caller, "E").error(), EPERM);
  EXPECT_EQ(file->mapping(0, 4096, true, PROT_READ | PROT_WRITE).error(), EPERM);
  EXPECT_TRUE(file->mapping(0, 4096, true, PROT_READ));
  EXPECT_TRUE(file->mapping(0, 4096, false, PROT_READ | PROT_WRITE));
  EXPECT_EQ(node.allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1).error(), EPERM);
  EXPECT_EQ(node.add_seals(1 << 20, false).error(), EINVAL);
  EXPECT_TRUE(node.add_seals(F_SEAL_SEAL, false));
  EXPECT_EQ(node.add_seals(F_SEAL_GROW, false).error(), EPERM);
}

TEST(MemoryFile, IsSealedAgainstBeingExecutable) {
  auto file = make(8).value();  // MFD_NOEXEC_SEAL
  AttributeChange change;
  change.mode = 0777;
  EXPECT_EQ(file->node()->change(change).error(), EPERM);
  change.mode = 0600;
  EXPECT_TRUE(file->node()->change(change));
}

TEST(MemoryFile, RefusesForeignArguments) {
  EXPECT_EQ(make(1u << 20).error(), EINVAL);
  EXPECT_EQ(make(0, std::string(250, 'x')).error(), EINVAL);
  EXPECT_EQ(make(8 | 0x10).error(), EINVAL);
}

}  // namespace
}  // namespace membrane::linux
