#include "linux/files/descriptors.h"

#include <gtest/gtest.h>

namespace membrane::linux {
namespace {

class NoNode final : public Node {
 public:
  Attributes attributes() override { return {}; }
};

class NoFile final : public File {
 public:
  explicit NoFile(NodeRef node = nullptr) : node_(std::move(node)) {}
  const NodeRef& node() const override { return node_; }
  std::string description() const override { return "none"; }

 private:
  NodeRef node_;
};

FileRef some_file() { return std::make_shared<NoFile>(); }

TEST(Descriptors, GivesTheLowestFreeNumber) {
  Descriptors table;
  EXPECT_EQ(table.add(some_file(), false, 16), 0);
  EXPECT_EQ(table.add(some_file(), false, 16), 1);
  EXPECT_EQ(table.add(some_file(), false, 16), 2);
  ASSERT_TRUE(table.remove(1));
  EXPECT_EQ(table.add(some_file(), false, 16), 1);
  EXPECT_EQ(table.add(some_file(), false, 16, 10), 10);
  EXPECT_EQ(table.numbers(), (std::vector<int>{0, 1, 2, 10}));
}

TEST(Descriptors, KeepsToTheLimit) {
  Descriptors table;
  EXPECT_EQ(table.add(some_file(), false, 1), 0);
  EXPECT_EQ(table.add(some_file(), false, 1).error(), EMFILE);
  EXPECT_EQ(table.add(some_file(), false, 16, 16).error(), EMFILE);
  EXPECT_EQ(table.add(some_file(), false, 16, -1).error(), EINVAL);
  EXPECT_EQ(table.set(16, some_file(), false, 16).error(), EBADF);
  EXPECT_EQ(table.set(-1, some_file(), false, 16).error(), EBADF);
  EXPECT_TRUE(table.set(15, some_file(), false, 16));
}

TEST(Descriptors, RefusesNumbersThatAreNotOpen) {
  Descriptors table;
  EXPECT_EQ(table.get(-1).error(), EBADF);
  EXPECT_EQ(table.get(0).error(), EBADF);
  EXPECT_EQ(table.remove(7).error(), EBADF);
  EXPECT_EQ(table.closes_on_exec(0).error(), EBADF);
  EXPECT_EQ(table.set_closes_on_exec(0, true).error(), EBADF);
}

TEST(Descriptors, SetGivesBackWhatWasThere) {
  Descriptors table;
  const FileRef first = some_file(), second = some_file();
  EXPECT_EQ(table.set(3, first, false, 16), nullptr);
  EXPECT_EQ(table.set(3, second, true, 16), first);
  EXPECT_EQ(table.get(3), second);
  EXPECT_EQ(table.closes_on_exec(3), true);
}

TEST(Descriptors, ExecClosesThoseThatAreMarked) {
  Descriptors table;
  const FileRef kept = some_file(), closed = some_file();
  ASSERT_TRUE(table.add(kept, false, 16));
  ASSERT_TRUE(table.add(closed, true, 16));
  EXPECT_EQ(table.remove_for_exec(), std::vector<FileRef>{closed});
  EXPECT_EQ(table.numbers(), std::vector<int>{0});
}

TEST(Descriptors, ACopyIsItsOwn) {
  Descriptors table;
  ASSERT_TRUE(table.add(some_file(), true, 16));
  const auto copy = table.copy();
  ASSERT_TRUE(copy->remove(0));
  EXPECT_TRUE(table.get(0));
  EXPECT_EQ(table.closes_on_exec(0), true);
}

TEST(Descriptors, ClosingAnyOfAFileFreesItsLocks) {
  Descriptors table;
  auto node = std::make_shared<NoNode>();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(table.add(std::make_shared<NoFile>(node), false, 16));
  auto locks = std::make_shared<int>();
  table.keep_locks(*node, locks);
  EXPECT_EQ(table.copy()->has_locks(*node), false);
  ASSERT_TRUE(table.remove(0));
  EXPECT_EQ(table.has_locks(*node), false);
  EXPECT_EQ(locks.use_count(), 1);
}

TEST(Descriptors, RemovesRanges) {
  Descriptors table;
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(table.add(some_file(), false, 16));
  EXPECT_EQ(table.remove_range(2, 3).size(), 2u);
  EXPECT_EQ(table.numbers(), (std::vector<int>{0, 1, 4, 5}));
  EXPECT_EQ(table.remove_range(5, ~0u).size(), 1u);
  EXPECT_EQ(table.remove_range(100, ~0u).size(), 0u);
  EXPECT_EQ(table.remove_all().size(), 3u);
  EXPECT_TRUE(table.numbers().empty());
}

}  // namespace
}  // namespace membrane::linux
