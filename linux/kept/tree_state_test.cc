#include "linux/kept/tree_state.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>

#include <random>

#include "linux/image/image_testing.h"
#include "linux/kept/kept.h"

namespace membrane::linux {
namespace {

const NewNode kFile = {.mode = S_IFREG | 0644}, kDirectory = {.mode = S_IFDIR | 0755};

class KeptTree : public ImageTest {
 protected:
  ~KeptTree() override { close(file); }
  const int file = memfd_create("kept", MFD_CLOEXEC);

  static std::string text_of(const NodeRef& node) {
    std::string text(node->attributes().size, '?');
    text.resize(node->read(0, std::as_writable_bytes(std::span(text))).value());
    return text;
  }
  static void put(const NodeRef& node, std::string_view text, uint64_t offset = 0) {
    EXPECT_EQ(node->write(offset, std::as_bytes(std::span(text))).value_or(0), text.size());
  }
  static NodeRef at(NodeRef node, std::initializer_list<std::string_view> names) {
    for (const auto name : names) {
      auto next = node->look_up(name);
      if (!next) return nullptr;
      node = *next;
    }
    return node;
  }
  static std::string names_of(const NodeRef& directory) {
    std::string names;
    EXPECT_TRUE(directory->list(0, [&](const DirectoryEntry& entry) {
      names += std::string(entry.name) + " ";
      return true;
    }));
    return names;
  }
  // bin/{a,b}, with b also called c; etc/long, of 3 pages and a half; link.
  [[nodiscard]] std::shared_ptr<const Layer> some_image() const {
    LayerTree tree;
    EXPECT_TRUE(tree.put("bin/a", ImageTest::file("program a", 0755)));
    LayerItem b = ImageTest::file("program b");
    b.attributes = {{"user.color", "red"}};
    EXPECT_TRUE(tree.put("bin/b", b));
    EXPECT_TRUE(tree.put_link("c", "bin/b"));
    EXPECT_TRUE(tree.put("etc/long", ImageTest::file(std::string(14336, 'x'))));
    EXPECT_TRUE(tree.put("link", link("bin/a")));
    return image_of(tree);
  }
  // The whole tree: stat() values, contents and attributes.
  static std::string tell(const NodeRef& root) {
    std::string all;
    std::vector<std::pair<std::string, NodeRef>> left = {{"", root}};
    while (!left.empty()) {
      const auto [path, node] = left.back();
      left.pop_back();
      const Attributes facts = node->attributes();
      all += path + " " + std::to_string(facts.number) + " " + std::to_string(facts.mode) + " " +
             std::to_string(facts.links) + " " + std::to_string(facts.uid) + " " + std::to_string(facts.gid) +
             " " + std::to_string(facts.size) + " " + std::to_string(facts.special) + " " +
             std::to_string(facts.modified.tv_sec) + "." + std::to_string(facts.modified.tv_nsec);
      const auto names = node->attribute_names();
      for (const auto& name : names.value()) all += " " + name + "=" + node->attribute(name).value();
      if (node->type() == S_IFREG) all += " \"" + text_of(node) + "\"";
      if (node->type() == S_IFLNK) all += " -> " + node->target().value();
      all += "\n";
      if (node->type() != S_IFDIR) continue;
      EXPECT_TRUE(node->list(0, [&](const DirectoryEntry& entry) {
        auto child = node->look_up(entry.name);
        EXPECT_TRUE(child) << path << "/" << entry.name;
        if (child) left.emplace_back(path + "/" + std::string(entry.name), *child);
        return true;
      }));
    }
    return all;
  }
  NodeRef restored(const std::shared_ptr<const Layer>& image, uint64_t most_bytes = 1u << 30) {
    auto kept = KeptFile::open(file);
    EXPECT_TRUE(kept) << kept.error().to_string();
    if (!kept) return nullptr;
    auto tree = restore_tree(*kept, {.image = image, .most_bytes = most_bytes});
    EXPECT_TRUE(tree) << tree.error().to_string();
    return tree ? tree->root : nullptr;
  }
  NodeRef through_file(const NodeRef& root, const std::shared_ptr<const Layer>& image) {
    const Status kept = keep_files(root, "", file);
    EXPECT_TRUE(kept) << kept.error().to_string();
    return restored(image);
  }
};

TEST_F(KeptTree, IsAsItWas) {
  const auto image = some_image();
  const NodeRef root = make_tree({.image = image});
  put(at(root, {"etc", "long"}), "changed", 5000);
  ASSERT_TRUE(root->unlink("link"));
  const NodeRef made = root->create("made", kDirectory).value();
  put(made->create("file", {.mode = S_IFREG | 0640, .uid = 7, .gid = 8}).value(), "text");
  ASSERT_TRUE(made->create("to", {.mode = S_IFLNK | 0777, .target = "../c"}));
  ASSERT_TRUE(made->create("null", {.mode = S_IFCHR | 0666, .special = 0x103}));
  ASSERT_TRUE(made->link("a", at(root, {"bin", "a"})));
  ASSERT_TRUE(at(root, {"bin"})->rename("b", *made, "moved", 0));
  ASSERT_TRUE(at(root, {"c"})->set_attribute("user.size", "large", 0));
  const std::string before = tell(root);
  const NodeRef again = through_file(root, image);
  EXPECT_EQ(tell(again), before);
  EXPECT_EQ(usage_of(*again)->used_nodes, usage_of(*root)->used_nodes);
  EXPECT_EQ(usage_of(*again)->used_bytes, usage_of(*root)->used_bytes);
  // Once more, for what is in the first file.
  put(at(again, {"made", "file"}), "TE");
  const int second = memfd_create("second", MFD_CLOEXEC);
  ASSERT_TRUE(keep_files(again, "", second));
  const auto kept = KeptFile::open(second);
  ASSERT_TRUE(kept);
  EXPECT_EQ(tell(restore_tree(*kept, {.image = image}).value().root), tell(again));
  close(second);
}

TEST_F(KeptTree, KeepsOnlyPagesThatDiffer) {
  LayerTree files;
  ASSERT_TRUE(files.put("large", ImageTest::file(std::string(10 << 20, 'x'))));
  const auto image = image_of(files);
  const NodeRef root = make_tree({.image = image});
  const NodeRef large = at(root, {"large"});
  put(large, "y", 1 << 20);
  ASSERT_TRUE(large->mapping(0, 4096, true));  // all of it is in memory of its own now
  put(large, "z", 2 << 20);
  const NodeRef again = through_file(root, image);
  EXPECT_EQ(text_of(at(again, {"large"})), text_of(large));
  EXPECT_LT(lseek(file, 0, SEEK_END), 5 * 4096);
}

TEST_F(KeptTree, HolesStayHoles) {
  const NodeRef root = make_tree({});
  const NodeRef sparse = root->create("sparse", kFile).value();
  put(sparse, "end", 1ull << 40);
  const NodeRef mapped = root->create("mapped", kFile).value();
  put(mapped, "end", 1 << 24);
  ASSERT_TRUE(mapped->mapping(0, 4096, true));
  const NodeRef again = through_file(root, nullptr);
  EXPECT_EQ(at(again, {"sparse"})->attributes().size, (1ull << 40) + 3);
  EXPECT_EQ(at(again, {"sparse"})->seek_data(0, false).value(), 1ull << 40);
  EXPECT_EQ(at(again, {"mapped"})->seek_data(0, false).value(), 1u << 24);
  EXPECT_LT(lseek(file, 0, SEEK_END), 5 * 4096);
}

TEST_F(KeptTree, HolesOverAnImageStay) {
  const auto image = some_image();
  const NodeRef root = make_tree({.image = image});
  const NodeRef node = at(root, {"etc", "long"});
  ASSERT_TRUE(node->allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096));
  const NodeRef again = through_file(root, image);
  EXPECT_EQ(text_of(at(again, {"etc", "long"})), text_of(node));
  EXPECT_EQ(at(again, {"etc", "long"})->seek_data(0, true).value(), 4096u);
}

TEST_F(KeptTree, WritesOfOneAreNotSeenByAnother) {
  const NodeRef root = make_tree({});
  put(root->create("a", kFile).value(), std::string(8192, 'a'));
  const NodeRef one = through_file(root, nullptr), other = restored(nullptr);
  put(at(one, {"a"}), "one", 4096);
  EXPECT_EQ(text_of(at(other, {"a"})), std::string(8192, 'a'));
  EXPECT_EQ(text_of(at(one, {"a"})).substr(4096, 4), "onea");
}

TEST_F(KeptTree, ContentsGoOnAsFilesDo) {
  // The same steps on a tree and on a saved and restored copy give the same bytes and the same charge.
  std::mt19937 random(42);
  for (int round = 0; round < 40; ++round) {
    const NodeRef root = make_tree({});
    NodeRef one = root, other;
    std::string model;
    ASSERT_TRUE(root->create("f", kFile));
    for (int step = 0; step < 60; ++step) {
      const NodeRef node = at(one, {"f"});
      const uint64_t where = random() % 40000;
      const std::string piece(random() % 9000, static_cast<char>('a' + random() % 26));
      switch (random() % 6) {
        case 0:
        case 1:
        case 2:
          put(node, piece, where);
          if (piece.empty()) break;
          if (model.size() < where + piece.size()) model.resize(where + piece.size());
          model.replace(where, piece.size(), piece);
          break;
        case 3:
          ASSERT_TRUE(node->resize(where));
          model.resize(where);
          break;
        case 4: {
          ASSERT_TRUE(node->allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, where, piece.size() + 1));
          const size_t end = std::min<size_t>(model.size(), where + piece.size() + 1);
          if (where < end)
            std::fill(model.begin() + static_cast<ptrdiff_t>(where),
                      model.begin() + static_cast<ptrdiff_t>(end), '\0');
          break;
        }
        default:
          other = through_file(one, nullptr);
          ASSERT_NE(other, nullptr);
          one = other;
      }
      ASSERT_EQ(text_of(at(one, {"f"})), model) << "round " << round << ", step " << step;
    }
    ASSERT_TRUE(at(one, {"f"})->resize(0));
    const NodeRef with_an_empty_file = make_tree({});
    ASSERT_TRUE(with_an_empty_file->create("f", kFile));
    EXPECT_EQ(usage_of(*one)->used_bytes, usage_of(*with_an_empty_file)->used_bytes);
  }
}

TEST_F(KeptTree, PrivateMappingsAreOfTheKeptFile) {
  const NodeRef root = make_tree({});
  put(root->create("a", kFile).value(), std::string(9000, 'a'));
  const NodeRef again = through_file(root, nullptr);
  const auto backing = at(again, {"a"})->mapping(4096, 8192, false);
  ASSERT_TRUE(backing);
  char byte = 0;
  ASSERT_EQ(pread(backing->fd, &byte, 1, static_cast<off_t>(backing->offset)), 1);
  EXPECT_EQ(byte, 'a');
  EXPECT_EQ(backing->length, 8192u);
  EXPECT_EQ(usage_of(*again)->used_bytes, usage_of(*root)->used_bytes);
}

TEST_F(KeptTree, NeedsItsImageAndRoom) {
  const auto image = some_image();
  const NodeRef root = make_tree({.image = image});
  put(root->create("a", kFile).value(), std::string(100000, 'a'));
  ASSERT_TRUE(keep_files(root, in("an.image"), file));
  const auto kept = KeptFile::open(file);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->facts().image_name, in("an.image"));
  EXPECT_EQ(kept->facts().image_digest, image->digest());
  const auto over_none = restore_tree(*kept, TreeOptions{});
  ASSERT_FALSE(over_none);
  EXPECT_EQ(over_none.error().code, ErrorCode::kInvalidInput);
  const auto small = restore_tree(*kept, {.image = image, .most_bytes = 50000});
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code, ErrorCode::kExhausted);
}

// Arbitrary bytes are refused, or are a tree that can be walked.
TEST_F(KeptTree, DamagedBytesAreRefused) {
  const auto image = some_image();
  const NodeRef root = make_tree({.image = image});
  put(at(root, {"etc", "long"}), "changed", 5000);
  const NodeRef made = root->create("made", kDirectory).value();
  put(made->create("file", kFile).value(), "text");
  ASSERT_TRUE(at(root, {"c"})->set_attribute("user.size", "large", 0));
  ASSERT_TRUE(keep_files(root, "", file));
  const auto whole = KeptFile::open(file);
  ASSERT_TRUE(whole);
  std::vector<std::byte> bytes(whole->pages()->bytes().begin(), whole->pages()->bytes().end());
  const auto state_at = static_cast<size_t>(offsetof(KeptHeader, state_at));
  uint64_t begin = 0;
  std::memcpy(&begin, bytes.data() + state_at, sizeof begin);
  for (size_t i = 0; i < sizeof(KeptHeader); ++i) {
    auto damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    const int other = memfd_create("damaged", MFD_CLOEXEC);
    ASSERT_EQ(pwrite(other, damaged.data(), damaged.size(), 0), static_cast<ssize_t>(damaged.size()));
    EXPECT_FALSE(KeptFile::open(other)) << i;
    close(other);
  }
  // The state's checksum is no protection: its contents are checked separately.
  std::mt19937 random(7);
  const auto state = std::span(bytes).subspan(begin);
  int refusals = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> damaged(state.begin(), state.end());
    for (int i = 0; i < 1 + round % 3; ++i)
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    if (round % 10 == 0) damaged.resize(random() % damaged.size());
    StateReader reader(damaged);
    const NodeRef tree = make_tree({.image = image});
    std::vector<NodeRef> held;
    if (!TreeState::read(*TreeState::tree_of(tree.get()), reader, whole->pages(), held)) {
      ++refusals;
      continue;
    }
    std::vector<NodeRef> left = {tree};
    for (size_t steps = 0; !left.empty() && steps < 1000; ++steps) {
      const NodeRef node = left.back();
      left.pop_back();
      std::array<std::byte, 100> some;
      static_cast<void>(node->read(4090, some));
      static_cast<void>(node->list(0, [&](const DirectoryEntry& entry) {
        if (auto child = node->look_up(entry.name)) left.push_back(*child);
        return true;
      }));
    }
  }
  EXPECT_GT(refusals, 100);
}

}  // namespace
}  // namespace membrane::linux
