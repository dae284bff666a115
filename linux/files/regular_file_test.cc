#include "linux/files/regular_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "linux/files/caller_testing.h"

namespace membrane::linux {
namespace {

class TextNode final : public Node {
 public:
  std::string text;
  uint32_t links = 1;
  [[nodiscard]] Attributes attributes() override {
    return {.mode = S_IFREG | 0644, .links = links, .size = text.size()};
  }
  Try<size_t> read(uint64_t offset, std::span<std::byte> to) override {
    if (offset >= text.size()) return 0;
    const size_t count = std::min<size_t>(to.size(), text.size() - offset);
    std::memcpy(to.data(), text.data() + offset, count);
    return count;
  }
  Try<size_t> write(uint64_t offset, std::span<const std::byte> from) override {
    if (offset + from.size() > text.size()) text.resize(offset + from.size());
    std::memcpy(text.data() + offset, from.data(), from.size());
    return from.size();
  }
  Done resize(uint64_t size) override {
    text.resize(size);
    return {};
  }
  Try<Backing> mapping(uint64_t, uint64_t, bool) override { return Backing{}; }
};

class NamesNode final : public Node {
 public:
  [[nodiscard]] Attributes attributes() override { return {.number = 7, .mode = S_IFDIR | 0755}; }
  Done list(int64_t position, const std::function<bool(const DirectoryEntry&)>& add) override {
    for (int64_t i = position; i < 3; ++i) {
      if (!add({.name = std::string_view("abc").substr(static_cast<size_t>(i), 1), .next = i + 1})) break;
    }
    return {};
  }
};

TEST(RegularFile, ReadsAndWritesAtItsPosition) {
  FakeCaller caller;
  auto node = std::make_shared<TextNode>();
  RegularFile file(node, O_RDWR);
  EXPECT_EQ(write_text(file, caller, "hello world").value(), 11u);
  EXPECT_EQ(file.seek(6, SEEK_SET).value(), 6u);
  EXPECT_EQ(read_text(file, caller, 3), "wor");
  int left = 0;
  EXPECT_TRUE(caller.ioctl(file, FIONREAD, left));
  EXPECT_EQ(left, 2);
  EXPECT_EQ(read_text(file, caller), "ld");
  EXPECT_EQ(read_text(file, caller), "");
  EXPECT_EQ(file.seek(-20, SEEK_CUR).error(), EINVAL);
  EXPECT_EQ(file.seek(0, 99).error(), EINVAL);
  EXPECT_EQ(file.seek(INT64_MAX, SEEK_CUR).error(), EINVAL);
  EXPECT_EQ(file.seek(5, SEEK_END).value(), 16u);
}

TEST(RegularFile, AppendsAtTheEnd) {
  FakeCaller caller;
  auto node = std::make_shared<TextNode>();
  node->text = "abc";
  RegularFile file(node, O_WRONLY | O_APPEND);
  EXPECT_TRUE(write_text(file, caller, "d"));
  MemorySource source("e");
  EXPECT_TRUE(file.write_at(caller, source, 0));
  EXPECT_EQ(node->text, "abcde");
}

TEST(RegularFile, EndsAtTheSizeThatTheProcessMayWrite) {
  struct Limited : FakeCaller {
    uint64_t file_size_limit() override { return 4; }
  } caller;
  auto node = std::make_shared<TextNode>();
  RegularFile file(node, O_WRONLY);
  EXPECT_EQ(write_text(file, caller, "abcdef").value(), 4u);
  EXPECT_EQ(write_text(file, caller, "ef").error(), EFBIG);
  EXPECT_EQ(caller.own_signals, std::vector<int>{SIGXFSZ});
}

TEST(RegularFile, MapsWhatItsFlagsAllow) {
  auto node = std::make_shared<TextNode>();
  EXPECT_EQ(RegularFile(node, O_WRONLY).mapping(0, 4096, false, PROT_READ).error(), EACCES);
  EXPECT_EQ(RegularFile(node, O_RDONLY).mapping(0, 4096, true, PROT_READ | PROT_WRITE).error(), EACCES);
  EXPECT_TRUE(RegularFile(node, O_RDONLY).mapping(0, 4096, false, PROT_READ | PROT_WRITE));
  EXPECT_TRUE(RegularFile(node, O_RDWR).mapping(0, 4096, true, PROT_READ | PROT_WRITE));
}

TEST(RegularFile, IsDescribedByItsPath) {
  auto node = std::make_shared<TextNode>();
  auto root = std::make_shared<Location>();
  auto usr = std::make_shared<Location>(Location{.node = nullptr, .parent = root, .name = "usr"});
  RegularFile file(node, O_RDONLY);
  EXPECT_EQ(file.description(), "");
  file.location = std::make_shared<Location>(Location{.node = node, .parent = usr, .name = "x"});
  EXPECT_EQ(file.description(), "/usr/x");
  node->links = 0;
  EXPECT_EQ(file.description(), "/usr/x (deleted)");
  file.location = root;
  node->links = 1;
  EXPECT_EQ(file.description(), "/");
}

TEST(RegularFile, DoesAsAFileOfTheHost) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    FakeCaller caller;
    auto node = std::make_shared<TextNode>();
    const int flags = seed % 2 == 0 ? O_RDWR : O_RDWR | O_APPEND;
    RegularFile ours(node, flags);
    const int host = memfd_create("test", 0);
    ASSERT_GE(host, 0);
    fcntl(host, F_SETFL, flags);
    for (int step = 0; step < 200; ++step) {
      const size_t size = random() % 200000;
      switch (random() % 4) {
        case 0: {
          const std::string text(size, static_cast<char>('a' + random() % 26));
          ASSERT_EQ(static_cast<ssize_t>(write_text(ours, caller, text).value()),
                    ::write(host, text.data(), size));
          break;
        }
        case 1: {
          std::string theirs(size, '\0');
          theirs.resize(static_cast<size_t>(::read(host, theirs.data(), size)));
          ASSERT_EQ(read_text(ours, caller, size), theirs);
          break;
        }
        case 2: {
          const auto offset = static_cast<int64_t>(random() % 400000) - 200000;
          const int whence = static_cast<int>(random() % 3);
          auto at = ours.seek(offset, whence);
          ASSERT_EQ(at ? static_cast<off_t>(*at) : -1, lseek(host, offset, whence));
          break;
        }
        default: ASSERT_EQ(ours.truncate(size).has_value(), ftruncate(host, static_cast<off_t>(size)) == 0);
      }
    }
    close(host);
  }
}

TEST(DirectoryFile, ListsFromItsPosition) {
  DirectoryFile file(std::make_shared<NamesNode>(), O_RDONLY | O_DIRECTORY);
  const auto take = [&](size_t most) {
    std::string names;
    size_t count = 0;
    EXPECT_TRUE(file.list([&](const DirectoryEntry& entry) {
      if (count++ == most) return false;
      names += std::string(entry.name) + " ";
      return true;
    }));
    return names;
  };
  EXPECT_EQ(take(1), ". ");
  EXPECT_EQ(take(2), ".. a ");
  EXPECT_EQ(file.seek(0, SEEK_CUR).value(), 3u);
  EXPECT_EQ(take(9), "b c ");
  EXPECT_EQ(take(9), "");
  EXPECT_EQ(file.seek(1, SEEK_SET).value(), 1u);
  EXPECT_EQ(take(9), ".. a b c ");
  EXPECT_EQ(file.seek(0, SEEK_END).error(), EINVAL);
  FakeCaller caller;
  EXPECT_EQ(read_text(file, caller), "error 21");
}

}  // namespace
}  // namespace membrane::linux
