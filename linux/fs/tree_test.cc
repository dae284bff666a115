#include "linux/fs/tree.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/xattr.h>

#include <functional>
#include <random>

#include "base/heap_bytes.h"
#include "linux/files/caller_testing.h"
#include "linux/files/devices.h"
#include "linux/image/image_testing.h"

namespace membrane::linux {
namespace {

const NewNode kFile = {.mode = S_IFREG | 0644}, kDirectory = {.mode = S_IFDIR | 0755};

class TreeTest : public ImageTest {
 protected:
  NodeRef root = make_tree({});

  static NodeRef make(const NodeRef& in, std::string_view name, const NewNode& what = kFile) {
    const auto made = in->create(name, what);
    EXPECT_TRUE(made) << name << ": " << made.error();
    return made.value_or(nullptr);
  }
  static std::string text_of(const NodeRef& node) {
    std::string text(node->attributes().size + 10, '?');
    text.resize(node->read(0, std::as_writable_bytes(std::span(text))).value());
    return text;
  }
  static Done put_text(const NodeRef& node, std::string_view text, uint64_t offset = 0) {
    const auto wrote = node->write(offset, std::as_bytes(std::span(text)));
    if (!wrote) return err(wrote.error());
    return {};
  }
  static std::string names_of(const NodeRef& directory, int64_t position = 0) {
    std::string names;
    EXPECT_TRUE(directory->list(position, [&](const DirectoryEntry& entry) {
      names += std::string(entry.name) + " ";
      return true;
    }));
    return names;
  }
  static int error_of(const Done& done) { return done ? 0 : done.error(); }
  template <typename T>
  static int error_of(const Try<T>& tried) {
    return tried ? 0 : tried.error();
  }
  static uint32_t links_of(const NodeRef& node) { return node->attributes().links; }

  // bin/{a,b}, with b also called c; etc/long, of 3 pages and a half; link.
  [[nodiscard]] std::shared_ptr<const Layer> some_image() const {
    LayerTree tree;
    EXPECT_TRUE(tree.put("bin/a", file("program a", 0755)));
    LayerItem b = file("program b");
    b.attributes = {{"user.color", "red"}};
    EXPECT_TRUE(tree.put("bin/b", b));
    EXPECT_TRUE(tree.put_link("c", "bin/b"));
    EXPECT_TRUE(tree.put("etc/long", file(std::string(14336, 'x'))));
    EXPECT_TRUE(tree.put("link", link("bin/a")));
    return image_of(tree);
  }
};

TEST_F(TreeTest, FilesAreMadeReadAndWritten) {
  const NodeRef a = make(root, "a");
  ASSERT_TRUE(put_text(a, "hello"));
  ASSERT_TRUE(put_text(a, "J"));
  EXPECT_EQ(text_of(a), "Jello");
  EXPECT_EQ(root->look_up("a").value(), a);
  EXPECT_EQ(error_of(root->look_up("b")), ENOENT);
  EXPECT_EQ(error_of(root->create("a", kFile)), EEXIST);
  EXPECT_EQ(error_of(root->create("..", kFile)), EEXIST);
  EXPECT_EQ(error_of(root->create(std::string(256, 'n'), kFile)), ENAMETOOLONG);
  EXPECT_EQ(error_of(a->create("x", kFile)), ENOTDIR);
  EXPECT_EQ(error_of(root->read(0, {})), EISDIR);
}

TEST_F(TreeTest, NodesStayWhenNobodyHoldsThem) {
  const uint64_t number = make(root, "a")->attributes().number;
  ASSERT_TRUE(put_text(root->look_up("a").value(), "kept"));
  EXPECT_EQ(root->look_up("a").value()->attributes().number, number);
  EXPECT_EQ(text_of(root->look_up("a").value()), "kept");
}

TEST_F(TreeTest, HardLinksAreOneFile) {
  const NodeRef a = make(root, "a"), d = make(root, "d", kDirectory);
  ASSERT_TRUE(d->link("b", a));
  EXPECT_EQ(links_of(a), 2u);
  ASSERT_TRUE(put_text(d->look_up("b").value(), "x"));
  EXPECT_EQ(text_of(a), "x");
  EXPECT_EQ(error_of(d->link("b", a)), EEXIST);
  EXPECT_EQ(error_of(root->link("e", d)), EPERM);
  EXPECT_EQ(error_of(root->link("e", make_tree({})->create("f", kFile).value())), EXDEV);
  ASSERT_TRUE(root->unlink("a"));
  EXPECT_EQ(links_of(a), 1u);
  ASSERT_TRUE(d->unlink("b"));
  EXPECT_EQ(links_of(a), 0u);
  EXPECT_EQ(text_of(a), "x");  // as long as it is held
  EXPECT_EQ(error_of(root->link("again", a)), ENOENT);
}

TEST_F(TreeTest, DirectoriesCountTheirLinksAndKnowTheirParents) {
  const NodeRef d = make(root, "d", kDirectory), e = make(d, "e", kDirectory);
  EXPECT_EQ(links_of(root), 3u);
  EXPECT_EQ(links_of(d), 3u);
  EXPECT_EQ(e->parent(), d);
  EXPECT_EQ(root->parent(), root);
  EXPECT_EQ(error_of(root->unlink("d")), EISDIR);
  EXPECT_EQ(error_of(root->remove_directory("d")), ENOTEMPTY);
  ASSERT_TRUE(d->remove_directory("e"));
  EXPECT_EQ(links_of(e), 0u);
  EXPECT_EQ(error_of(e->create("x", kFile)), ENOENT);
  EXPECT_EQ(e->parent(), nullptr);
  make(d, "f");
  EXPECT_EQ(error_of(d->remove_directory("f")), ENOTDIR);
}

TEST_F(TreeTest, RenamingReplacesAndKeepsLinksRight) {
  const NodeRef a = make(root, "a"), b = make(root, "b"), d = make(root, "d", kDirectory),
                e = make(root, "e", kDirectory), f = make(d, "f", kDirectory);
  ASSERT_TRUE(root->rename("a", *root, "b", 0));
  EXPECT_EQ(root->look_up("b").value(), a);
  EXPECT_EQ(links_of(b), 0u);
  EXPECT_EQ(error_of(root->rename("b", *root, "d", 0)), EISDIR);
  EXPECT_EQ(error_of(root->rename("e", *root, "b", 0)), ENOTDIR);
  EXPECT_EQ(error_of(root->rename("e", *root, "d", 0)), ENOTEMPTY);
  EXPECT_EQ(error_of(root->rename("d", *f, "x", 0)), EINVAL);
  EXPECT_EQ(error_of(root->rename("d", *d, "x", 0)), EINVAL);
  EXPECT_EQ(error_of(root->rename("none", *d, "x", 0)), ENOENT);
  EXPECT_EQ(error_of(root->rename("b", *root, "e", RENAME_NOREPLACE)), EEXIST);
  ASSERT_TRUE(d->rename("f", *root, "e", 0));
  EXPECT_EQ(f->parent(), root);
  EXPECT_EQ(links_of(d), 2u);
  EXPECT_EQ(links_of(e), 0u);
  EXPECT_EQ(links_of(root), 4u);  // d and e
  EXPECT_EQ(names_of(root), "d b e ");
}

TEST_F(TreeTest, RenamingToAnotherNameOfTheSameFileDoesNothing) {
  const NodeRef a = make(root, "a");
  ASSERT_TRUE(root->link("b", a));
  ASSERT_TRUE(root->rename("a", *root, "b", 0));
  EXPECT_EQ(names_of(root), "a b ");
  ASSERT_TRUE(root->rename("a", *root, "a", 0));
}

TEST_F(TreeTest, RenamingExchanges) {
  const NodeRef a = make(root, "a"), d = make(root, "d", kDirectory), f = make(d, "f", kDirectory);
  ASSERT_TRUE(root->rename("a", *d, "f", RENAME_EXCHANGE));
  EXPECT_EQ(root->look_up("a").value(), f);
  EXPECT_EQ(d->look_up("f").value(), a);
  EXPECT_EQ(f->parent(), root);
  EXPECT_EQ(links_of(root), 4u);
  EXPECT_EQ(links_of(d), 2u);
  EXPECT_EQ(error_of(root->rename("a", *root, "none", RENAME_EXCHANGE)), ENOENT);
  EXPECT_EQ(error_of(d->rename("f", *root, "d", RENAME_EXCHANGE)), EINVAL);
  EXPECT_EQ(error_of(root->rename("a", *root, "b", RENAME_EXCHANGE | RENAME_NOREPLACE)), EINVAL);
}

TEST_F(TreeTest, NamelessFilesCanBeGivenAName) {
  const NodeRef file = root->create_nameless(kFile).value();
  EXPECT_EQ(links_of(file), 0u);
  ASSERT_TRUE(put_text(file, "x"));
  ASSERT_TRUE(root->link("a", file));
  EXPECT_EQ(links_of(file), 1u);
  ASSERT_TRUE(root->unlink("a"));
  EXPECT_EQ(error_of(root->link("a", file)), ENOENT);
  EXPECT_EQ(error_of(file->create_nameless(kFile)), ENOTDIR);
}

TEST_F(TreeTest, ListsFromAnyPlaceWhileItChanges) {
  for (const std::string name : {"a", "b", "c", "d"}) make(root, name);
  int64_t position = 0;
  ASSERT_TRUE(root->list(0, [&](const DirectoryEntry& entry) {
    position = entry.next;
    return entry.name != "b";
  }));
  ASSERT_TRUE(root->unlink("a") && root->unlink("b") && root->unlink("c"));
  make(root, "e");
  EXPECT_EQ(names_of(root, position), "d e ");
}

TEST_F(TreeTest, SetGroupDirectoriesGiveTheirGroup) {
  const NodeRef d = make(root, "d", {.mode = S_IFDIR | S_ISGID | 0777, .gid = 7});
  EXPECT_EQ(make(d, "f")->attributes().gid, 7u);
  EXPECT_NE(make(d, "e", kDirectory)->attributes().mode & S_ISGID, 0u);
}

// The kernel counts its heap against the memory limit, except what a tree has charged.
TEST_F(TreeTest, ChargesWhatNodesTakeOfTheHeap) {
  constexpr int kNodes = 20'000;
  const auto grows_by_less_than_charged = [this](const char* kind,
                                                 const std::function<Done(const std::string&)>& add) {
    const uint64_t heap = heap_bytes(), charged = usage_of(*root)->heap_bytes;
    for (int i = 0; i < kNodes; ++i) ASSERT_TRUE(add(std::string(kind) + std::to_string(i)));
    EXPECT_LE(heap_bytes() - heap, usage_of(*root)->heap_bytes - charged) << kind;
  };
  const auto creates = [this](const NewNode& what) {
    return [this, what](const std::string& name) -> Done {
      return root->create(name, what) ? Done() : err(ENOSPC);
    };
  };
  grows_by_less_than_charged("file", creates(kFile));
  grows_by_less_than_charged("directory", creates(kDirectory));
  grows_by_less_than_charged("fifo", creates({.mode = S_IFIFO | 0644}));
  grows_by_less_than_charged("symbolic_link",
                             creates({.mode = S_IFLNK | 0777, .target = std::string(60, 't')}));
  grows_by_less_than_charged(
      "a rather long name of a link, which is in the heap too ",
      [this, target = make(root, "target")](const std::string& name) { return root->link(name, target); });
  const NodeRef holder = make(root, "holder");
  grows_by_less_than_charged("attribute", [&](const std::string& name) {
    return make(root, name)->set_attribute("user.a", "value", 0);
  });
}

TEST_F(TreeTest, AttributesOfNodesChange) {
  const NodeRef a = make(root, "a");
  ASSERT_TRUE(a->change({.mode = 0600, .uid = 5, .gid = 6, .accessed = {}, .modified = timespec{1, 2}}));
  const Attributes now = a->attributes();
  EXPECT_EQ(now.mode, uint32_t{S_IFREG | 0600});
  EXPECT_EQ(now.uid, 5u);
  EXPECT_EQ(now.gid, 6u);
  EXPECT_EQ(now.modified.tv_sec, 1);
  EXPECT_GT(now.changed.tv_sec, 1);
}

TEST_F(TreeTest, ExtendedAttributes) {
  const NodeRef a = make(root, "a"), l = make(root, "l", {.mode = S_IFLNK | 0777, .target = "a"});
  ASSERT_TRUE(a->set_attribute("user.x", "1", 0));
  EXPECT_EQ(error_of(a->set_attribute("user.x", "2", XATTR_CREATE)), EEXIST);
  EXPECT_EQ(error_of(a->set_attribute("user.y", "2", XATTR_REPLACE)), ENODATA);
  ASSERT_TRUE(a->set_attribute("user.x", std::string("\0z", 2), XATTR_REPLACE));
  EXPECT_EQ(a->attribute("user.x").value(), std::string("\0z", 2));
  EXPECT_EQ(a->attribute_names().value(), std::vector<std::string>{"user.x"});
  EXPECT_EQ(error_of(a->set_attribute("system.x", "", 0)), EOPNOTSUPP);
  EXPECT_EQ(error_of(l->set_attribute("user.x", "", 0)), EPERM);
  EXPECT_EQ(error_of(a->set_attribute("user.z", std::string(65537, 'v'), 0)), E2BIG);
  ASSERT_TRUE(a->remove_attribute("user.x"));
  EXPECT_EQ(error_of(a->attribute("user.x")), ENODATA);
  EXPECT_EQ(error_of(a->remove_attribute("user.x")), ENODATA);
}

TEST_F(TreeTest, NothingIsMadeBeyondTheQuotas) {
  root = make_tree({.most_bytes = 65536, .most_nodes = 2});
  const NodeRef a = make(root, "a");
  const std::string text(100000, 'x');
  EXPECT_EQ(a->write(0, std::as_bytes(std::span(text))).value(), 61440u);
  EXPECT_EQ(error_of(put_text(a, "x", 61440)), ENOSPC);
  EXPECT_EQ(a->attributes().size, 61440u);
  make(root, "b");
  EXPECT_EQ(error_of(root->create("c", kFile)), ENOSPC);
  EXPECT_EQ(error_of(root->create_nameless(kFile)), ENOSPC);
  ASSERT_TRUE(root->unlink("b"));
  EXPECT_EQ(error_of(a->set_attribute("user.x", std::string(5000, 'v'), 0)), ENOSPC);
  EXPECT_EQ(error_of(root->create("l", {.mode = S_IFLNK, .target = std::string(4095, 't')})), ENOSPC);
  EXPECT_EQ(error_of(a->allocate(0, 0, 1 << 20)), ENOSPC);
  EXPECT_GE(usage_of(*root)->refusals, 6u);
  EXPECT_EQ(a->attributes().size, 61440u);
  ASSERT_TRUE(a->resize(0));
  ASSERT_TRUE(put_text(a, "x", 60000));
}

TEST_F(TreeTest, WhatIsRemovedIsGivenBack) {
  const TreeUsage before = usage_of(*root).value();
  {
    const NodeRef d = make(root, "d", kDirectory), a = make(d, "a");
    ASSERT_TRUE(put_text(a, std::string(10000, 'x')));
    ASSERT_TRUE(a->set_attribute("user.x", "value", 0));
    ASSERT_TRUE(d->rename("a", *root, "a longer name", 0));
    ASSERT_TRUE(a->mapping(0, 4096, true));
    EXPECT_GT(usage_of(*root)->used_bytes, 12000u);
    EXPECT_EQ(usage_of(*root)->used_nodes, before.used_nodes + 2);
    ASSERT_TRUE(root->unlink("a longer name"));
    ASSERT_TRUE(root->remove_directory("d"));
  }
  EXPECT_EQ(usage_of(*root)->used_bytes, before.used_bytes);
  EXPECT_EQ(usage_of(*root)->used_nodes, before.used_nodes);
}

// What was mapped is in a file of the host and not part of the kernel's own memory.
TEST_F(TreeTest, ContentsInTheHeapAreTold) {
  const NodeRef written = make(root, "written"), mapped = make(root, "mapped");
  const uint64_t names = usage_of(*root)->used_bytes;
  EXPECT_GT(names, 0u);
  const auto heap = [this, names] { return usage_of(*root)->heap_bytes - names; };
  const std::string three_pages(3 * kPageBytes, 'x');
  EXPECT_TRUE(put_text(written, three_pages));
  EXPECT_TRUE(put_text(mapped, three_pages));
  EXPECT_EQ(heap(), 6 * kPageBytes);
  EXPECT_TRUE(mapped->mapping(0, kPageBytes, true));
  EXPECT_EQ(heap(), 3 * kPageBytes);
  EXPECT_EQ(usage_of(*root)->used_bytes / kPageBytes, 6u);
  EXPECT_TRUE(written->resize(1));
  EXPECT_EQ(heap(), kPageBytes);
  EXPECT_TRUE(written->allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPageBytes));
  EXPECT_TRUE(root->unlink("written"));
}

TEST_F(TreeTest, SparseFilesCostWhatIsInThem) {
  root = make_tree({.most_bytes = 1 << 20});
  const NodeRef a = make(root, "a");
  ASSERT_TRUE(put_text(a, "end", uint64_t{1} << 40));
  EXPECT_EQ(a->attributes().size, (uint64_t{1} << 40) + 3);
  EXPECT_EQ(a->attributes().blocks, 8u);
  EXPECT_EQ(a->seek_data(0, false).value(), uint64_t{1} << 40);
  EXPECT_EQ(a->seek_data(0, true).value(), 0u);
  EXPECT_EQ(a->seek_data(uint64_t{1} << 40, true).value(), (uint64_t{1} << 40) + 3);
  EXPECT_EQ(error_of(a->seek_data(uint64_t{1} << 41, false)), ENXIO);
  EXPECT_EQ(error_of(put_text(a, "x", uint64_t{1} << 62)), EFBIG);
  EXPECT_EQ(error_of(a->resize(UINT64_MAX)), EFBIG);
  EXPECT_EQ(error_of(a->mapping(0, 4096, true)), ENOSPC);
}

TEST_F(TreeTest, AnImageIsReadInPlace) {
  const auto image = some_image();
  root = make_tree({.image = image});
  EXPECT_EQ(names_of(root), "bin c etc link ");
  const NodeRef bin = root->look_up("bin").value(), a = bin->look_up("a").value();
  EXPECT_EQ(text_of(a), "program a");
  EXPECT_EQ(a->attributes().mode, uint32_t{S_IFREG | 0755});
  EXPECT_EQ(root->look_up("link").value()->target().value(), "bin/a");
  EXPECT_EQ(root->look_up("c").value(), bin->look_up("b").value());
  EXPECT_EQ(links_of(root->look_up("c").value()), 2u);
  EXPECT_EQ(root->look_up("c").value()->attribute("user.color").value(), "red");
  EXPECT_EQ(bin->parent(), root);
  const Backing backing = a->mapping(0, 4096, false).value();
  EXPECT_EQ(backing.fd, image->fd());
  EXPECT_EQ(backing.length, 4096u);
  EXPECT_EQ(usage_of(*root)->used_bytes, 0u);
}

TEST_F(TreeTest, TimesAreClampedOfWhatHasChanged) {
  root = make_tree({.image = some_image(), .now = [] { return timespec{5000, 7}; }});
  const NodeRef made = make(root, "made"), old = make(root, "old"), exact = make(root, "exact");
  ASSERT_TRUE(old->change({.mode = {}, .uid = {}, .gid = {}, .accessed = {}, .modified = timespec{3, 9}}));
  ASSERT_TRUE(
      exact->change({.mode = {}, .uid = {}, .gid = {}, .accessed = {}, .modified = timespec{4000, 5}}));
  const timespec before = root->look_up("c").value()->attributes().modified;
  clamp_times(*root, {4000, 4});
  const auto modified = [](const NodeRef& node) {
    const timespec time = node->attributes().modified;
    return std::pair(time.tv_sec, time.tv_nsec);
  };
  EXPECT_EQ(modified(made), std::pair(4000L, 4L));
  EXPECT_EQ(made->attributes().created.tv_sec, 4000);
  EXPECT_EQ(modified(old), std::pair(3L, 9L));
  EXPECT_EQ(modified(exact), std::pair(4000L, 4L));
  EXPECT_EQ(modified(root), std::pair(4000L, 4L));
  EXPECT_EQ(modified(root->look_up("c").value()), std::pair(before.tv_sec, before.tv_nsec));
}

TEST_F(TreeTest, WhatIsChangedOverAnImageStays) {
  root = make_tree({.image = some_image()});
  ASSERT_TRUE(put_text(root->look_up("c").value(), "P"));
  ASSERT_TRUE(root->look_up("bin").value()->unlink("a"));
  make(root->look_up("bin").value(), "new");
  EXPECT_EQ(text_of(root->look_up("bin").value()->look_up("b").value()), "Program b");
  EXPECT_EQ(names_of(root->look_up("bin").value()), "b new ");
  ASSERT_TRUE(root->rename("bin", *root->look_up("etc").value(), "moved", 0));
  EXPECT_EQ(names_of(root), "c etc link ");
  const NodeRef moved = root->look_up("etc").value()->look_up("moved").value();
  EXPECT_EQ(names_of(moved), "b new ");
  EXPECT_EQ(moved->parent(), root->look_up("etc").value());
  ASSERT_TRUE(moved->unlink("b"));
  EXPECT_EQ(links_of(root->look_up("c").value()), 1u);
  ASSERT_TRUE(moved->unlink("new"));
  ASSERT_TRUE(root->look_up("etc").value()->remove_directory("moved"));
  EXPECT_EQ(names_of(root->look_up("etc").value()), "long ");
}

TEST_F(TreeTest, APlaceInAListStaysWhenADirectoryOfAnImageIsChanged) {
  root = make_tree({.image = some_image()});
  int64_t position = 0;
  ASSERT_TRUE(root->list(0, [&](const DirectoryEntry& entry) {
    position = entry.next;
    return entry.name != "c";
  }));
  ASSERT_TRUE(root->unlink("c"));
  make(root, "new");
  EXPECT_EQ(names_of(root, position), "etc link new ");
}

TEST_F(TreeTest, FilesOfAnImageAreMappedByAnImagesDescriptorUntilTheyAreWritten) {
  const auto image = some_image();
  root = make_tree({.image = image});
  const NodeRef file = root->look_up("etc").value()->look_up("long").value();
  EXPECT_EQ(file->mapping(4096, 4096, false)->length, 12288u);
  EXPECT_EQ(file->mapping(16384, 4096, false)->length, 0u);
  const Backing shared = file->mapping(0, 4096, true).value();
  EXPECT_NE(shared.fd, image->fd());
  ASSERT_EQ(pwrite(shared.fd, "y", 1, 5000), 1);  // as a guest does by its mapping
  EXPECT_EQ(text_of(file).substr(4998, 5), "xxyxx");
  ASSERT_TRUE(put_text(file, "z", 5001));
  char byte = 0;
  ASSERT_EQ(pread(shared.fd, &byte, 1, 5001), 1);
  EXPECT_EQ(byte, 'z');
  EXPECT_EQ(root->mapping(0, 4096, false).error(), ENODEV);
}

// Compares content with a string that undergoes the same operations: over an image, and before and after it
// is mapped.
class ContentTest : public TreeTest, public ::testing::WithParamInterface<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Seeds, ContentTest, ::testing::Range(0u, 12u));

TEST_P(ContentTest, DoesWhatAStringDoes) {
  root = make_tree({.image = some_image()});
  const bool has_image = GetParam() % 2 == 0, is_mapped = GetParam() % 3 == 0;
  const NodeRef file = has_image ? root->look_up("etc").value()->look_up("long").value() : make(root, "f");
  std::string model = has_image ? std::string(14336, 'x') : "";
  std::mt19937 random(GetParam());
  const auto below = [&](uint64_t end) {
    return std::uniform_int_distribution<uint64_t>(0, end - 1)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const uint64_t offset = below(30000), length = 1 + below(below(2) == 0 ? 100 : 12000);
    const uint64_t end = std::min<uint64_t>(offset + length, model.size());
    switch (below(is_mapped && round == 100 ? 1 : 5)) {
      case 0:
        if (is_mapped && round >= 100) {
          ASSERT_TRUE(file->mapping(0, 4096, true));
          break;
        }
        [[fallthrough]];
      case 1: {
        const std::string text(length, static_cast<char>('a' + below(26)));
        ASSERT_TRUE(put_text(file, text, offset));
        if (model.size() < offset + length) model.resize(offset + length);
        model.replace(offset, length, text);
        break;
      }
      case 2:
        ASSERT_TRUE(file->resize(offset));
        model.resize(offset);
        break;
      case 3:
        ASSERT_TRUE(file->allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length));
        if (offset < end)
          std::fill(model.begin() + static_cast<long>(offset), model.begin() + static_cast<long>(end), '\0');
        break;
      case 4:
        ASSERT_TRUE(file->allocate(0, offset, length));
        if (model.size() < offset + length) model.resize(offset + length);
        break;
    }
    ASSERT_EQ(file->attributes().size, model.size());
    ASSERT_TRUE(text_of(file) == model) << "in round " << round;
    // Everything outside the holes contains all bytes that are not zero.
    for (uint64_t at = 0; at < model.size();) {
      const auto data = file->seek_data(at, false);
      const uint64_t begin = data ? *data : model.size();
      ASSERT_EQ(model.find_first_not_of('\0', at) < begin, false);
      if (!data) break;
      const uint64_t hole = file->seek_data(begin, true).value();
      ASSERT_GT(hole, begin);
      at = hole;
    }
  }
}

TEST_F(TreeTest, DevicesAndPipesOpenByThemselves) {
  FakeCaller caller;
  root = make_tree({.devices = std::make_shared<Devices>()});
  const NodeRef null = make(root, "null", {.mode = S_IFCHR | 0666, .special = kNullDevice});
  EXPECT_EQ(null->attributes().special, kNullDevice);
  EXPECT_EQ(write_text(*null->open(caller, O_RDWR).value(), caller, "x").value(), 1u);
  EXPECT_EQ(error_of(make(root, "odd", {.mode = S_IFCHR, .special = 0x9999})->open(caller, O_RDWR)), ENXIO);
  EXPECT_EQ(error_of(make(root, "block", {.mode = S_IFBLK, .special = 1})->open(caller, O_RDWR)), ENXIO);
  EXPECT_EQ(error_of(make(root, "socket", {.mode = S_IFSOCK})->open(caller, O_RDWR)), ENXIO);
  const NodeRef fifo = make(root, "fifo", {.mode = S_IFIFO | 0600});
  const FileRef reader = fifo->open(caller, O_RDONLY | O_NONBLOCK).value(),
                writer = fifo->open(caller, O_WRONLY).value();
  EXPECT_EQ(write_text(*writer, caller, "abc").value(), 3u);
  EXPECT_EQ(read_text(*reader, caller), "abc");
  EXPECT_EQ(make(root, "file")->open(caller, O_RDWR).value(), nullptr);
}

TEST_F(TreeTest, OpenFilesOutliveTheTree) {
  const NodeRef a = make(root, "a");
  ASSERT_TRUE(put_text(a, "x"));
  root = nullptr;
  EXPECT_EQ(text_of(a), "x");
}

TEST_F(TreeTest, VeryDeepDirectoriesGo) {
  NodeRef at = root;
  for (int i = 0; i < 100'000; ++i) at = make(at, "d", kDirectory);
  EXPECT_EQ(error_of(root->rename("d", *at, "x", 0)), EINVAL);
  at = nullptr;
  root = nullptr;
}

}  // namespace
}  // namespace membrane::linux
