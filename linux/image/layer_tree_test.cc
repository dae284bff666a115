#include <algorithm>

#include "linux/image/image_testing.h"

namespace membrane::linux {
namespace {

using LayerTreeTest = ImageTest;

TEST_F(LayerTreeTest, MakesDirectoriesThatAreMissing) {
  LayerTree tree;
  ASSERT_TRUE(tree.put("/a/./b//c", file("x")));
  EXPECT_EQ(look(tree, "a/b"), "dir");
  EXPECT_EQ(look(tree, "a/b/c"), "x");
  EXPECT_EQ(look(tree, "a/b/d"), "none");
}

TEST_F(LayerTreeTest, NothingLeadsOut) {
  LayerTree tree;
  ASSERT_TRUE(tree.put("up", link("../../..")));
  ASSERT_TRUE(tree.put("root", link("/")));
  ASSERT_TRUE(tree.put("up/file", file("x")));
  EXPECT_EQ(look(tree, "file"), "x");
  EXPECT_EQ(look(tree, "root/root/file"), "x");
  EXPECT_EQ(tree.put("a/../../b", file("x")).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(tree.put("..", directory()).error().code, ErrorCode::kInvalidInput);
}

TEST_F(LayerTreeTest, RefusesLoopsOfLinksAndFilesAsDirectories) {
  LayerTree tree;
  ASSERT_TRUE(tree.put("loop", link("loop")));
  EXPECT_FALSE(tree.put("loop/x", file("x")));
  ASSERT_TRUE(tree.put("file", file("x")));
  EXPECT_FALSE(tree.put("file/x", file("x")));
  EXPECT_FALSE(tree.put("/", file("x")));
  EXPECT_FALSE(tree.put("name/" + std::string(256, 'n'), file("x")));
  EXPECT_FALSE(tree.put(std::string("zero\0byte", 9), file("x")));
}

TEST_F(LayerTreeTest, ADirectoryKeepsWhatIsInItAndAFileReplacesAll) {
  LayerTree tree;
  ASSERT_TRUE(tree.put("a/b", file("x")));
  ASSERT_TRUE(tree.put("a", directory(0700)));
  EXPECT_EQ(look(tree, "a/b"), "x");
  EXPECT_EQ(tree.find("a")->mode & 07777, 0700u);
  ASSERT_TRUE(tree.put("a", file("y")));
  EXPECT_EQ(look(tree, "a"), "y");
}

TEST_F(LayerTreeTest, HardLinksAreOneFile) {
  LayerTree tree;
  ASSERT_TRUE(tree.put("a", file("x")));
  ASSERT_TRUE(tree.put_link("b/c", "./a"));
  EXPECT_EQ(tree.find("a"), tree.find("b/c"));
  EXPECT_FALSE(tree.put_link("d", "none"));
  EXPECT_FALSE(tree.put_link("d", "b"));
  // What replaces one name leaves the other.
  ASSERT_TRUE(tree.put("a", file("y")));
  EXPECT_EQ(look(tree, "b/c"), "x");
}

TEST_F(LayerTreeTest, RemovingAffectsEarlierLayers) {
  LayerTree tree;
  ASSERT_TRUE(tree.put("old", file("x")));
  ASSERT_TRUE(tree.put("directory/old", file("x")));
  tree.begin_layer();
  ASSERT_TRUE(tree.put("new", file("y")));
  ASSERT_TRUE(tree.put("directory/new", file("y")));
  ASSERT_TRUE(tree.remove("old"));
  ASSERT_TRUE(tree.remove("new"));
  ASSERT_TRUE(tree.remove("directory"));
  ASSERT_TRUE(tree.remove("never/there"));
  EXPECT_EQ(look(tree, "old"), "none");
  EXPECT_EQ(look(tree, "new"), "y");
  EXPECT_EQ(look(tree, "directory/old"), "none");
  EXPECT_EQ(look(tree, "directory/new"), "y");
}

TEST_F(LayerTreeTest, AnOpaqueDirectoryHasOnlyWhatItsLayerPut) {
  LayerTree tree;
  ASSERT_TRUE(tree.put("d/old", file("x")));
  ASSERT_TRUE(tree.put("d/sub/old", file("x")));
  tree.begin_layer();
  ASSERT_TRUE(tree.put("d/sub/new", file("y")));
  ASSERT_TRUE(tree.make_opaque("d"));
  EXPECT_EQ(look(tree, "d/old"), "none");
  EXPECT_EQ(look(tree, "d/sub/old"), "none");
  EXPECT_EQ(look(tree, "d/sub/new"), "y");
  EXPECT_EQ(look(tree, "d"), "dir");
}

TEST_F(LayerTreeTest, HasNoMoreThanItsLimit) {
  LayerTree tree({.most_entries = 3});
  ASSERT_TRUE(tree.put("a/b", file("x")));
  EXPECT_EQ(tree.put("c", file("x")).error().code, ErrorCode::kTooLong);
}

TEST_F(LayerTreeTest, HasNoMoreAttributesThanItsLimit) {
  LayerTree tree({.most_attribute_bytes = 10});
  LayerItem item = file("x");
  item.attributes = {{"user.x", "y"}};
  ASSERT_TRUE(tree.put("a", item));
  EXPECT_EQ(tree.put("b", item).error().code, ErrorCode::kTooLong);
}

TEST_F(LayerTreeTest, VisitsDirectoriesFirstAndNamesTheTargetsOfHardLinks) {
  LayerTree tree;
  ASSERT_TRUE(tree.put("b/x", file("x")));
  ASSERT_TRUE(tree.put("a", file("y")));
  ASSERT_TRUE(tree.put_link("c", "b/x"));
  std::string seen;
  ASSERT_TRUE(tree.visit_all([&](const std::string& path, const LayerItem&, const std::string& first) {
    seen += "[" + path + (first.empty() ? "" : "=" + first) + "]";
    return Status();
  }));
  EXPECT_EQ(seen, "[][a][b][b/x][c=b/x]");
}

TEST_F(LayerTreeTest, HolesOfFilesStayHoles) {
  LayerTree tree;
  const uint64_t at = spool_->end, size = 64u << 20;
  ASSERT_TRUE(spool_->extend(at + size));
  ASSERT_TRUE(tree.put(
      "hole", {.mode = S_IFREG | 0644, .holder = spool_, .fd = spool_->fd(), .at = at, .size = size}));
  const auto image = image_of(tree);
  struct stat status = {};
  ASSERT_EQ(fstat(image->fd(), &status), 0);
  EXPECT_GT(static_cast<uint64_t>(status.st_size), size);
  EXPECT_LT(status.st_blocks, 1000);
}

}  // namespace
}  // namespace membrane::linux
