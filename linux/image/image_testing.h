// Images for tests: a directory to hold them, and trees written in a few words.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "linux/image/layer_writer.h"

namespace membrane::linux {

class ImageTest : public ::testing::Test {
 protected:
  ImageTest() {
    directory_ = ::testing::TempDir() + "image-XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    spool_ = Spool::create(directory_).value();
  }
  ~ImageTest() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::string in(const std::string& name) const { return directory_ + "/" + name; }
  std::string write_file(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories(std::filesystem::path(in(name)).parent_path());
    std::ofstream(in(name), std::ios::binary) << text;
    return in(name);
  }
  static std::string read_file(const std::string& path) {
    std::ostringstream
        text;  // not letter by letter, which takes seconds for a program where nothing is optimised
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return std::move(text).str();
  }

  [[nodiscard]] LayerItem file(std::string_view text, uint32_t mode = 0644) const {
    const uint64_t at = spool_->end;
    EXPECT_TRUE(spool_->write(at, std::as_bytes(std::span(text))));
    spool_->end += text.size();
    return {.mode = S_IFREG | mode, .holder = spool_, .fd = spool_->fd(), .at = at, .size = text.size()};
  }
  static LayerItem directory(uint32_t mode = 0755) { return {.mode = S_IFDIR | mode}; }
  static LayerItem link(const std::string& target) { return {.mode = S_IFLNK | 0777, .target = target}; }
  std::shared_ptr<const Layer> image_of(const LayerTree& tree, const std::string& name = "an.image") const {
    EXPECT_TRUE(tree.write(in(name)));
    return Layer::open(in(name)).value();
  }
  // What a tree contains at a path: "content", "-> target", "dir"; "none".
  static std::string look(const LayerTree& tree, std::string_view path) {
    const LayerItem* const item = tree.find(path);
    if (item == nullptr) return "none";
    if (S_ISDIR(item->mode)) return "dir";
    if (S_ISLNK(item->mode)) return "-> " + item->target;
    std::string text(item->size, '\0');
    EXPECT_EQ(pread(item->fd, text.data(), text.size(), static_cast<off_t>(item->at)),
              static_cast<ssize_t>(text.size()));
    return text;
  }

  std::string directory_;
  std::shared_ptr<Spool> spool_;
};

}  // namespace membrane::linux
