#include "linux/image/layer.h"

#include <cstring>

#include "linux/image/image_testing.h"

namespace membrane::linux {
namespace {

class LayerTest : public ImageTest {
 protected:
  // A tree with one node of each kind.
  [[nodiscard]] LayerTree some_tree() const {
    LayerTree tree;
    LayerItem program = file("#!/bin/sh\n", 0755);
    program.attributes = {{"user.note", "hello"}, {"security.capability", std::string("\1\0\2", 3)}};
    EXPECT_TRUE(tree.put("bin/program", program));
    EXPECT_TRUE(tree.put_link("bin/other", "bin/program"));
    EXPECT_TRUE(tree.put("etc/name", link("../bin/program")));
    EXPECT_TRUE(tree.put("dev/null", {.mode = S_IFCHR | 0666, .special = 0x103}));
    EXPECT_TRUE(tree.put("empty", file("")));
    EXPECT_TRUE(tree.put("big", file(std::string(10000, 'x'))));
    return tree;
  }
  static std::optional<LayerInode> at(const Layer& image, std::initializer_list<std::string_view> names) {
    auto inode = image.inode(0);
    for (const std::string_view name : names) {
      const auto number = inode ? image.find(*inode, name) : std::nullopt;
      inode = number ? image.inode(*number) : std::nullopt;
    }
    return inode;
  }
  // An image's bytes, with a header that matches them after `change`.
  std::string altered(const std::string& bytes,
                      const std::function<void(LayerHeader&, std::string&)>& change) const {
    LayerHeader header;
    std::string with = bytes;
    std::memcpy(&header, with.data(), sizeof header);
    change(header, with);
    header.check = check_of(header);
    std::memcpy(with.data(), &header, sizeof header);
    return write_file("altered", with);
  }
};

TEST_F(LayerTest, HasWhatWasWritten) {
  const auto image = image_of(some_tree());
  const auto program = at(*image, {"bin", "program"}).value();
  EXPECT_EQ(program.mode, uint32_t{S_IFREG | 0755});
  EXPECT_EQ(program.links, 2u);
  const auto bytes = image->content(program).value();
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "#!/bin/sh\n");
  EXPECT_EQ(image->attributes(program).size(), 2u);
  EXPECT_EQ(at(*image, {"bin", "other"})->at, program.at);
  EXPECT_EQ(image->target(at(*image, {"etc", "name"}).value()), "../bin/program");
  EXPECT_EQ(at(*image, {"dev", "null"})->at, 0x103u);
  EXPECT_EQ(at(*image, {"big"})->size, 10000u);
  EXPECT_EQ(image->content(at(*image, {"empty"}).value())->size(), 0u);
  EXPECT_FALSE(at(*image, {"nothing"}));
  EXPECT_EQ(image->inode(0)->links, 5u);
  EXPECT_TRUE(image->verify());
}

TEST_F(LayerTest, SameTreesMakeTheSameBytes) {
  LayerTree one, other;
  ASSERT_TRUE(one.put("a", file("1")) && one.put("b/c", file("2")));
  ASSERT_TRUE(other.put("b/c", file("2")) && other.put("a", file("1")));
  EXPECT_EQ(one.write(in("one")).value(), other.write(in("other")).value());
  EXPECT_EQ(read_file(in("one")), read_file(in("other")));
}

TEST_F(LayerTest, ATreeThatIsLoadedMakesTheSameBytes) {
  const auto image = image_of(some_tree());
  LayerTree again;
  ASSERT_TRUE(again.load(image));
  EXPECT_EQ(again.write(in("again")).value(), image->digest());
}

TEST_F(LayerTest, VerifyingFindsWhatWasChanged) {
  const auto image = image_of(some_tree());
  std::string bytes = read_file(in("an.image"));
  bytes[5000] ^= 1;
  const auto other = Layer::open(write_file("changed", bytes));
  ASSERT_TRUE(other);
  EXPECT_EQ((*other)->verify().error().code, ErrorCode::kInvalidInput);
}

TEST_F(LayerTest, KeepsAConfiguration) {
  ASSERT_TRUE(some_tree().write(in("with"), R"({"User":"x"})"));
  EXPECT_EQ(Layer::open(in("with")).value()->config(), R"({"User":"x"})");
  EXPECT_EQ(image_of(some_tree())->config(), "");
}

TEST_F(LayerTest, RefusesWhatIsNoImage) {
  EXPECT_EQ(Layer::open(in("none")).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(Layer::open(directory_).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(Layer::open(write_file("text", "hello")).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(Layer::open(write_file("zeros", std::string(8192, '\0'))).error().code, ErrorCode::kInvalidInput);
}

TEST_F(LayerTest, RefusesHeadersThatPointElsewhere) {
  image_of(some_tree());
  const std::string bytes = read_file(in("an.image"));
  const auto refused = [&](const std::function<void(LayerHeader&)>& change) {
    return !Layer::open(altered(bytes, [&](LayerHeader& header, std::string&) { change(header); }));
  };
  EXPECT_FALSE(refused([](LayerHeader&) {}));
  EXPECT_TRUE(refused([](LayerHeader& h) { h.inodes_at = UINT64_MAX - 7; }));
  EXPECT_TRUE(refused([](LayerHeader& h) { h.inode_count = UINT32_MAX; }));
  EXPECT_TRUE(refused([](LayerHeader& h) { h.inode_count = 0; }));
  EXPECT_TRUE(refused([](LayerHeader& h) { h.entry_count = UINT64_MAX / 16 + 1; }));
  EXPECT_TRUE(refused([](LayerHeader& h) { h.strings_at = h.file_bytes; }));
  EXPECT_TRUE(refused([](LayerHeader& h) { h.string_bytes = UINT64_MAX; }));
  EXPECT_TRUE(refused([](LayerHeader& h) { h.file_bytes += 4096; }));
  EXPECT_TRUE(refused([](LayerHeader& h) { h.version = 99; }));
}

TEST_F(LayerTest, WhatPointsElsewhereIsNotThere) {
  LayerTree tree;
  ASSERT_TRUE(tree.put("file", file("text")));
  const auto first = image_of(tree);
  const std::string bytes = read_file(in("an.image"));
  const auto with_inode = [&](uint32_t number, const std::function<void(LayerInode&)>& change) {
    const std::string path = altered(bytes, [&](LayerHeader& header, std::string& with) {
      LayerInode inode;
      char* const place = with.data() + header.inodes_at + number * sizeof inode;
      std::memcpy(&inode, place, sizeof inode);
      change(inode);
      std::memcpy(place, &inode, sizeof inode);
    });
    return Layer::open(path).value();
  };
  const auto long_file = with_inode(1, [](LayerInode& inode) { inode.size = UINT64_MAX; });
  EXPECT_FALSE(long_file->content(*long_file->inode(1)));
  const auto odd_file = with_inode(1, [](LayerInode& inode) { inode.at += 1; });
  EXPECT_FALSE(odd_file->content(*odd_file->inode(1)));
  const auto far_directory = with_inode(0, [](LayerInode& inode) { inode.at = UINT64_MAX; });
  EXPECT_FALSE(far_directory->child(*far_directory->inode(0), 0));
  const auto large_directory = with_inode(0, [](LayerInode& inode) { inode.size = UINT64_MAX; });
  EXPECT_FALSE(large_directory->find(*large_directory->inode(0), "file"));
  const auto attributes =
      with_inode(1, [](LayerInode& inode) { inode.attributes_at = 1, inode.attribute_bytes = 3; });
  EXPECT_TRUE(attributes->attributes(*attributes->inode(1)).empty());
  const auto link = with_inode(1, [](LayerInode& inode) { inode.mode = S_IFLNK, inode.at = UINT64_MAX; });
  EXPECT_FALSE(link->target(*link->inode(1)));
  EXPECT_FALSE(first->inode(2));
}

}  // namespace
}  // namespace membrane::linux
