#include "linux/image/store.h"

#include "base/sha256.h"
#include "linux/image/image_testing.h"
#include "linux/image/tar_testing.h"

namespace membrane::linux {
namespace {

class StoreTest : public ImageTest {
 protected:
  StoreTest() { setenv("MEMBRANE_IMAGES", in("images").c_str(), 1); }
  ~StoreTest() override { unsetenv("MEMBRANE_IMAGES"); }

  static std::string look_at(const Result<StoredImage>& stored, std::string_view path) {
    if (!stored) return stored.error().to_string();
    LayerTree tree;
    EXPECT_TRUE(tree.load(Layer::open(stored->path).value()));
    return look(tree, path);
  }
  static std::string names() {
    std::string all;
    const auto images = list_images().value();
    for (const StoredImage& image : images) all += image.name + " ";
    return all;
  }
  const std::string archive = TarText().file("etc/name", "text").bytes();
};

TEST_F(StoreTest, KeepsImagesByName) {
  EXPECT_EQ(names(), "");
  const auto stored = import_image(write_file("a.tar", archive), "debian:12");
  EXPECT_EQ(look_at(stored, "etc/name"), "text");
  EXPECT_EQ(find_image("debian:12")->path, stored->path);
  EXPECT_EQ(find_image(stored->path)->name, "debian:12");
  EXPECT_EQ(find_image("debian:12")->size_bytes, std::filesystem::file_size(stored->path));
  ASSERT_TRUE(import_image(in("a.tar"), "another"));
  EXPECT_EQ(names(), "another debian:12 ");
  ASSERT_TRUE(remove_image("another"));
  EXPECT_EQ(names(), "debian:12 ");
  EXPECT_EQ(remove_image("another").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(find_image("another").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(find_image(in("none")).error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, AMissingImageIsAnsweredWithTheNearest) {
  EXPECT_NE(find_image("mine").error().hint.find("membrane image import FILE.tar --tag NAME"),
            std::string::npos);
  ASSERT_TRUE(import_image(write_file("a.tar", archive), "mine"));
  EXPECT_EQ(find_image("mien").error().hint, "Did you mean mine? `membrane image ls` lists the images.");
  EXPECT_EQ(remove_image("debian").error().hint, "`membrane image ls` lists the images.");
}

TEST_F(StoreTest, NamesAreNotPaths) {
  const std::vector<std::string> names = {"",        ".",  "..",  "../x", "a/b",
                                          ".hidden", "-x", "a b", "a\n",  std::string("a\0", 2)};
  for (const std::string& name : names) EXPECT_FALSE(is_image_name(name)) << name;
  EXPECT_TRUE(is_image_name("a"));
  EXPECT_EQ(import_image(write_file("a.tar", archive), "../x").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(remove_image("../a").error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(is_image_name(std::string(129, 'a')));
}

TEST_F(StoreTest, AFailedImportLeavesWhatWasThere) {
  ASSERT_TRUE(import_image(write_file("a.tar", archive), "x"));
  EXPECT_EQ(import_image(write_file("b.tar", "no archive at all, but some text"), "x").error().code,
            ErrorCode::kInvalidInput);
  EXPECT_EQ(import_image(in("none"), "x").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(look_at(find_image("x"), "etc/name"), "text");
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(in("images"))) ++files;
  EXPECT_EQ(files, 1u);
}

TEST_F(StoreTest, RemovedAndReplacedOnesStayUntilTheyArePruned) {
  const auto first = import_image(write_file("a.tar", archive), "x");
  const auto second = import_image(write_file("b.tar", TarText().file("b", "two").bytes()), "x");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(path_of_image(second->path, second->digest), second->path);
  EXPECT_EQ(look_at(find_image(path_of_image(first->path, first->digest)), "etc/name"), "text");
  ASSERT_TRUE(remove_image("x"));
  EXPECT_EQ(look_at(find_image(path_of_image(second->path, second->digest)), "b"), "two");
  EXPECT_EQ(names(), "");
  EXPECT_EQ(path_of_image(second->path, std::string(64, '0')), second->path);
  EXPECT_EQ(path_of_image(second->path, "../x"), second->path);
  const auto pruned = prune_images();
  ASSERT_TRUE(pruned);
  EXPECT_EQ(pruned->files, 2u);
  EXPECT_GT(pruned->bytes, 0u);
  EXPECT_EQ(path_of_image(first->path, first->digest), first->path);
}

TEST_F(StoreTest, TakesADirectory) {
  write_file("tree/etc/name", "text");
  std::filesystem::create_symlink("etc/name", in("tree/link"));
  std::filesystem::create_hard_link(in("tree/etc/name"), in("tree/other"));
  std::filesystem::permissions(in("tree/etc/name"), std::filesystem::perms(0750));
  const auto stored = import_image(in("tree"), "tree");
  EXPECT_EQ(look_at(stored, "etc/name"), "text");
  EXPECT_EQ(look_at(stored, "link"), "-> etc/name");
  LayerTree tree;
  ASSERT_TRUE(tree.load(Layer::open(stored->path).value()));
  EXPECT_EQ(tree.find("other"), tree.find("etc/name"));
  EXPECT_EQ(tree.find("etc/name")->mode & 07777, 0750u);
  EXPECT_EQ(tree.find("etc/name")->uid, 0u);
}

TEST_F(StoreTest, TakesAnImagesFileWithItsConfiguration) {
  const std::string layer = TarText().file("a", "one").bytes();
  const std::string config =
      R"({"config":{"Env":["A=1"],"Cmd":["sh","-c","x"]},"rootfs":{"diff_ids":["sha256:)" +
      sha256_hex(layer).value() + R"("]}})";
  write_file("saved.tar",
             TarText()
                 .file("blobs/sha256/l", layer)
                 .file("blobs/sha256/c", config)
                 .file("manifest.json", R"([{"Config":"blobs/sha256/c","Layers":["blobs/sha256/l"]}])")
                 .bytes());
  const auto stored = import_image(in("saved.tar"), "saved");
  EXPECT_EQ(look_at(stored, "a"), "one");
  EXPECT_EQ(stored->config, (ImageConfig{{"A=1"}, {}, {"sh", "-c", "x"}, "", ""}));
  const auto again = import_image(stored->path, "again");
  EXPECT_EQ(look_at(again, "a"), "one");
  EXPECT_EQ(again->config, stored->config);
}

TEST_F(StoreTest, ExportsWhatItImported) {
  const auto stored = import_image(write_file("a.tar", archive), "x");
  ASSERT_TRUE(export_image("x", in("out.tar")));
  EXPECT_EQ(read_file(import_image(in("out.tar"), "y")->path), read_file(stored->path));
  EXPECT_EQ(export_image("none", in("out.tar")).error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, TakesNothingFromADirectoryThatEverybodyMayWriteTo) {
  ASSERT_TRUE(import_image(write_file("a.tar", archive), "x"));
  std::filesystem::permissions(in("images"), std::filesystem::perms::all);
  EXPECT_EQ(find_image("x").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(names(), "");
  EXPECT_EQ(import_image(in("a.tar"), "y").error().code, ErrorCode::kInvalidArgument);
}

TEST_F(StoreTest, WhatIsNotAnImageIsNotListed) {
  ASSERT_TRUE(import_image(write_file("a.tar", archive), "x"));
  write_file("images/bad.image", "hello");
  write_file("images/notes.txt", "hello");
  EXPECT_EQ(names(), "x ");
  EXPECT_EQ(find_image("bad").error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace membrane::linux
