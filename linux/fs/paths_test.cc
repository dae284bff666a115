#include "linux/fs/paths.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "linux/fs/tree.h"

namespace membrane::linux {
namespace {

// A link that leads to a place and not to a path.
class MagicLink final : public Node {
 public:
  explicit MagicLink(LocationRef to) : to_(std::move(to)) {}
  Attributes attributes() override { return {.mode = S_IFLNK | 0777}; }
  Try<std::string> target() override { return "nowhere"; }
  Try<LocationRef> jump() override { return to_; }

 private:
  LocationRef to_;
};

// A directory with that link.
class MagicDirectory final : public Node {
 public:
  explicit MagicDirectory(NodeRef link) : link_(std::move(link)) {}
  Attributes attributes() override { return {.number = 900, .mode = S_IFDIR | 0755}; }
  Try<NodeRef> look_up(std::string_view) override { return link_; }
  NodeRef parent() override { return shared_from_this(); }

 private:
  NodeRef link_;
};

class PathsTest : public ::testing::Test {
 protected:
  PathsTest() {
    for (const char* const path : {"/a", "/a/b", "/a/b/c", "/other", "/mnt"})
      make(path, {.mode = S_IFDIR | 0755});
    make("/a/file", {.mode = S_IFREG | 0644});
    link("/up", "a/../a");
    link("/abs", "/a/b");
    link("/loop", "loop");
    link("/slash", "a/");
    link("/bad", "none");
    link("/a/rel", "b/c");
  }

  NodeRef make(const std::string& path, const NewNode& what) {
    const auto parent = walk_to_parent(mounts, place, place.root, path, root).value();
    return parent.directory->node->create(parent.name, what).value();
  }
  void link(const std::string& path, const std::string& target) {
    make(path, {.mode = S_IFLNK | 0777, .target = target});
  }
  LocationRef at(const std::string& path) { return walk(mounts, place, place.directory, path, root).value(); }
  // The path at which a walk ends, or its error.
  std::string go(const std::string& path, const WalkOptions& options = {}) {
    return go_as(root, path, options);
  }
  std::string go_as(const Credentials& who, const std::string& path, const WalkOptions& options = {}) {
    const auto found = walk(mounts, place, place.directory, path, who, options);
    return found ? path_of(place, **found) : std::to_string(found.error());
  }
  static std::string error(int number) { return std::to_string(number); }

  NodeRef tree = make_tree({});
  LocationRef top = std::make_shared<Location>(Location{tree, nullptr, ""});
  Place place = {top, top};
  Mounts mounts;
  Credentials root,
      user = {.uid = 5, .gid = 5, .euid = 5, .egid = 5, .suid = 5, .sgid = 5, .fsuid = 5, .fsgid = 5};
};

TEST_F(PathsTest, WalksNames) {
  EXPECT_EQ(go("/"), "/");
  EXPECT_EQ(go("///a//b/./c"), "/a/b/c");
  EXPECT_EQ(go("a/b/../../../.."), "/");
  EXPECT_EQ(go("a/file"), "/a/file");
  EXPECT_EQ(go(""), error(ENOENT));
  EXPECT_EQ(go("none/x"), error(ENOENT));
  EXPECT_EQ(go("a/file/x"), error(ENOTDIR));
  EXPECT_EQ(go("a/file/"), error(ENOTDIR));
  EXPECT_EQ(go("a/file/."), error(ENOTDIR));
  EXPECT_EQ(go("a/file", {.wants_directory = true}), error(ENOTDIR));
  EXPECT_EQ(go(std::string(256, 'n')), error(ENAMETOOLONG));
  EXPECT_EQ(go(std::string(4096, '/')), error(ENAMETOOLONG));
}

TEST_F(PathsTest, FollowsLinks) {
  EXPECT_EQ(go("/up/b"), "/a/b");
  EXPECT_EQ(go("/abs/c"), "/a/b/c");
  EXPECT_EQ(go("/a/rel"), "/a/b/c");
  EXPECT_EQ(go("/a/rel/.."), "/a/b");
  EXPECT_EQ(go("/loop"), error(ELOOP));
  EXPECT_EQ(go("/bad"), error(ENOENT));
  EXPECT_EQ(go("/bad", {.follows_last = false}), "/bad");
  EXPECT_EQ(go("/slash", {.follows_last = false}), "/slash");
  EXPECT_EQ(go("/slash/", {.follows_last = false}), "/a");
  EXPECT_EQ(go("/slash"), "/a");
}

TEST_F(PathsTest, CountsAllLinksOfAWalk) {
  link("/l0", "a");
  for (int i = 1; i < 45; ++i) link("/l" + std::to_string(i), "l" + std::to_string(i - 1));
  EXPECT_EQ(go("/l39"), "/a");
  EXPECT_EQ(go("/l40"), error(ELOOP));
}

TEST_F(PathsTest, StaysInItsRoot) {
  place.root = place.directory = at("/a");
  EXPECT_EQ(go(".."), "/");
  EXPECT_EQ(go("/b/../../../b"), "/b");
  EXPECT_EQ(go("/file"), "/file");
  EXPECT_EQ(path_of(place, *at("b/c")), "/b/c");
  EXPECT_EQ(path_of(place, Location{top->node, nullptr, ""}), "(unreachable)/");
}

TEST_F(PathsTest, Openat2sRules) {
  const LocationRef a = at("/a");
  const auto from_a = [&](const std::string& path, const WalkOptions& options) {
    const auto found = walk(mounts, place, a, path, root, options);
    return found ? path_of(place, **found) : std::to_string(found.error());
  };
  link("/a/out", "../other");
  link("/a/top", "/b");
  EXPECT_EQ(from_a("b/..", {.beneath = true}), "/a");
  EXPECT_EQ(from_a("..", {.beneath = true}), error(EXDEV));
  EXPECT_EQ(from_a("out", {.beneath = true}), error(EXDEV));
  EXPECT_EQ(from_a("/b", {.beneath = true}), error(EXDEV));
  EXPECT_EQ(from_a("top", {.in_root = true}), "/a/b");
  EXPECT_EQ(from_a("../../b", {.in_root = true}), "/a/b");
  EXPECT_EQ(from_a("out", {.in_root = true}), error(ENOENT));
  EXPECT_EQ(from_a("rel", {.no_links = true}), error(ELOOP));
  EXPECT_EQ(from_a("rel/x", {.follows_last = false, .no_links = true}), error(ELOOP));
}

TEST_F(PathsTest, MagicLinksLeadToPlaces) {
  mounts.add(*at("/mnt")->node, std::make_shared<MagicDirectory>(std::make_shared<MagicLink>(at("/a/b"))));
  EXPECT_EQ(go("/mnt/x"), "/a/b");
  EXPECT_EQ(go("/mnt/x/c"), "/a/b/c");
  EXPECT_EQ(go("/mnt/x", {.follows_last = false}), "/mnt/x");
  EXPECT_EQ(go("/mnt/x", {.no_magic_links = true}), error(ELOOP));
  EXPECT_EQ(go("mnt/x", {.beneath = true}), error(EXDEV));
}

TEST_F(PathsTest, MountsStandOverDirectories) {
  const NodeRef other = make_tree({.device = 2});
  mounts.add(*at("/mnt")->node, other);
  make("/mnt/inside", {.mode = S_IFDIR | 0755});
  EXPECT_EQ(at("/mnt")->node, other);
  EXPECT_EQ(go("/mnt/inside/../.."), "/");
  EXPECT_EQ(go("/mnt/inside/.."), "/mnt");
  EXPECT_EQ(go("/mnt/inside"), "/mnt/inside");
}

TEST_F(PathsTest, PathsFollowRenamedDirectories) {
  const LocationRef c = at("/a/b/c");
  ASSERT_TRUE(at("/a")->node->rename("b", *at("/other")->node, "new", 0));
  EXPECT_EQ(path_of(place, *c), "/other/new/c");
  place.directory = c;
  EXPECT_EQ(go(".."), "/other/new");
  EXPECT_EQ(go("../.."), "/other");
  ASSERT_TRUE(tree->rename("other", *at("/mnt")->node, "deep", 0));
  EXPECT_EQ(path_of(place, *c), "/mnt/deep/new/c");
}

TEST_F(PathsTest, RemovedDirectoriesHaveNoWayBack) {
  const LocationRef c = at("/a/b/c");
  ASSERT_TRUE(at("/a/b")->node->remove_directory("c"));
  EXPECT_EQ(path_of(place, *c), "/a/b/c (deleted)");
  place.directory = c;
  EXPECT_EQ(go("x"), error(ENOENT));
  EXPECT_EQ(go("."), "/a/b/c (deleted)");
}

TEST_F(PathsTest, ParentsOfNames) {
  const auto parent = [&](const std::string& path) -> std::string {
    const auto found = walk_to_parent(mounts, place, place.directory, path, root);
    if (!found) return std::to_string(found.error());
    return path_of(place, *found->directory) + " " + found->name + (found->has_slash ? "/" : "");
  };
  EXPECT_EQ(parent("/a/new"), "/a new");
  EXPECT_EQ(parent("new/"), "/ new/");
  EXPECT_EQ(parent("/abs"), "/ abs");
  EXPECT_EQ(parent("/abs/x"), "/a/b x");
  EXPECT_EQ(parent("/"), "/ ./");
  EXPECT_EQ(parent("a/.."), "/a ..");
  EXPECT_EQ(parent("a/."), "/a .");
  EXPECT_EQ(parent("none/x"), error(ENOENT));
  EXPECT_EQ(parent("a/file/x"), error(ENOTDIR));
  EXPECT_EQ(parent(std::string(256, 'n')), error(ENAMETOOLONG));
}

TEST_F(PathsTest, PermissionsOfDirectoriesCount) {
  ASSERT_TRUE(at("/a/b")->node->change({.mode = 0700, .uid = {}, .gid = {}, .accessed = {}, .modified = {}}));
  EXPECT_EQ(go_as(user, "/a/b"), "/a/b");
  EXPECT_EQ(go_as(user, "/a/b/c"), error(EACCES));
  EXPECT_EQ(go_as(user, "/a/b/none"), error(EACCES));
  EXPECT_EQ(go_as(user, "/a/rel"), error(EACCES));
  EXPECT_EQ(go("/a/b/c"), "/a/b/c");
}

TEST_F(PathsTest, OwnersGroupsAndOthers) {
  const auto error_of = [](const Done& done) { return done ? 0 : done.error(); };
  EXPECT_EQ(error_of(may(user, {.mode = S_IFREG | 0477, .uid = 5}, W_OK)), EACCES);
  EXPECT_EQ(error_of(may(user, {.mode = S_IFREG | 0747, .uid = 1, .gid = 5}, W_OK)), EACCES);
  EXPECT_EQ(error_of(may(user, {.mode = S_IFREG | 0006, .uid = 1, .gid = 1}, R_OK | W_OK)), 0);
  EXPECT_EQ(error_of(may(root, {.mode = S_IFREG | 0000, .uid = 5}, R_OK | W_OK)), 0);
  EXPECT_EQ(error_of(may(root, {.mode = S_IFREG | 0644, .uid = 5}, X_OK)), EACCES);
  EXPECT_EQ(error_of(may(root, {.mode = S_IFDIR | 0000, .uid = 5}, X_OK)), 0);
  user.groups = {9};
  EXPECT_EQ(error_of(may(user, {.mode = S_IFREG | 0040, .uid = 1, .gid = 9}, R_OK)), 0);
  const Attributes sticky = {.mode = S_IFDIR | 01777, .uid = 1};
  EXPECT_EQ(error_of(may_remove(user, sticky, {.uid = 2})), EPERM);
  EXPECT_EQ(error_of(may_remove(user, sticky, {.uid = 5})), 0);
  EXPECT_EQ(error_of(may_remove(root, sticky, {.uid = 2})), 0);
  EXPECT_EQ(error_of(may_remove(user, {.mode = S_IFDIR | 0755, .uid = 1}, {.uid = 5})), EACCES);
}

TEST_F(PathsTest, LongChainsOfLocationsGo) {
  LocationRef at = top;
  for (int i = 0; i < 1'000'000; ++i) at = std::make_shared<Location>(Location{tree, at, "x"});
  at = nullptr;
}

}  // namespace
}  // namespace membrane::linux
