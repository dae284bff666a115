// Sandboxes that are kept in a file, and go on from it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/live_testing.h"

namespace membrane::linux {
namespace {

using Keep = LiveComputer::Keep;

class KeepingTest : public LiveTest {
 protected:
  using Made = std::unique_ptr<LiveComputer>;
  static Made make(const LiveSpec& from) {
    auto made = start_computer(from);
    EXPECT_TRUE(made) << made.error().to_string();
    return made ? std::move(*made) : nullptr;
  }
  static HostFile kept(LiveComputer& computer, Keep what) {
    HostFile file(memfd_create("kept", MFD_CLOEXEC));
    const Status done = computer.keep(file.number(), what);
    EXPECT_TRUE(done) << done.error().to_string();
    return file;
  }
  [[nodiscard]] static Made restore(const HostFile& file) {
    LiveSpec from;
    from.kept = file.number();
    return make(from);
  }
};

TEST_F(KeepingTest, FilesGoOn) {
  const Made first = make(spec());
  EXPECT_EQ(run(*first, "echo before > /tmp/a; mkdir /tmp/d; echo x > /etc/y"), "");
  const HostFile file = kept(*first, Keep::kFiles);
  EXPECT_EQ(run(*first, "echo after > /tmp/a"), "");
  const Made one = restore(file), other = restore(file);
  ASSERT_TRUE(one && other);
  EXPECT_EQ(run(*one, "cat /tmp/a /etc/y; echo changed > /tmp/a"), "before\nx\n");
  EXPECT_EQ(run(*other, "cat /tmp/a"), "before\n");
  EXPECT_EQ(run(*first, "cat /tmp/a"), "after\n");
}

TEST_F(KeepingTest, AKeptOneIsKeptAgain) {
  const Made first = make(spec());
  EXPECT_EQ(run(*first, "echo 1 > /tmp/a; echo 2 > /tmp/b"), "");
  const Made second = restore(kept(*first, Keep::kFiles));
  ASSERT_TRUE(second);
  EXPECT_EQ(run(*second, "echo 3 > /tmp/b"), "");
  const Made third = restore(kept(*second, Keep::kFiles));
  ASSERT_TRUE(third);
  EXPECT_EQ(run(*third, "cat /tmp/a /tmp/b"), "1\n3\n");
}

TEST_F(KeepingTest, WhatIsDamagedIsRefused) {
  const Made first = make(spec());
  const HostFile file = kept(*first, Keep::kFiles);
  char byte = 'x';
  ASSERT_EQ(pwrite(file.number(), &byte, 1, 8), 1);
  LiveSpec from;
  from.kept = file.number();
  const auto made = start_computer(from);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidInput);
}

TEST_F(KeepingTest, AnotherImageIsRefused) {
  const Made first = make(spec());
  const HostFile file = kept(*first, Keep::kFiles);
  LayerTree tree;
  ASSERT_TRUE(tree.put("etc/other", ImageTest::file("other")));
  ASSERT_TRUE(tree.write(in("other.image")));
  LiveSpec from;
  from.kept = file.number();
  from.image = in("other.image");
  const auto made = start_computer(from);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidInput);
}

// Guests may map what was kept; a hostile one must not change it.
TEST_F(KeepingTest, TheKeptFileIsNotWritten) {
  const Made first = make(spec());
  EXPECT_EQ(run(*first, "echo before > /tmp/a"), "");
  const HostFile file = kept(*first, Keep::kFiles);
  const auto bytes = [&file] {
    std::string all(static_cast<size_t>(lseek(file.number(), 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(file.number(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    return all;
  };
  const std::string before = bytes();
  const Made second = restore(file);
  ASSERT_TRUE(second);
  EXPECT_EQ(run(*second, "echo after >> /tmp/a; echo x > /tmp/b; cat /tmp/a"), "before\nafter\n");
  EXPECT_EQ(bytes(), before);
}

}  // namespace
}  // namespace membrane::linux
