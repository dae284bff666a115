#include "linux/image/tar.h"

#include "linux/image/image_testing.h"
#include "linux/image/tar_testing.h"

namespace membrane::linux {
namespace {

class TarTest : public ImageTest {
 protected:
  Status apply(const std::string& archive, const LayerLimits& limits = {}) {
    return apply_tar_bytes(tree, archive, spool_, limits);
  }
  Status apply(const TarText& archive, const LayerLimits& limits = {}) {
    return apply(archive.bytes(), limits);
  }
  LayerTree tree;
};

TEST_F(TarTest, TakesEveryKindOfEntry) {
  ASSERT_TRUE(apply(TarText()
                        .directory("./", 0711)
                        .directory("./d/", 0700)
                        .file("./d/f", "text", 04755)
                        .link("./l", "d/f")
                        .hard_link("./h", "./d/f")
                        .add("./null", '3', "", "", 0666)
                        .add("./fifo", '6', "", "", 0600)));
  EXPECT_EQ(tree.find("")->mode, uint32_t{S_IFDIR | 0711});
  EXPECT_EQ(look(tree, "d/f"), "text");
  EXPECT_EQ(tree.find("d/f")->mode, uint32_t{S_IFREG | 04755});
  EXPECT_EQ(tree.find("d/f")->uid, 3u);
  EXPECT_EQ(tree.find("d/f")->gid, 4u);
  EXPECT_EQ(tree.find("d/f")->modified.tv_sec, 1234567);
  EXPECT_EQ(look(tree, "l"), "-> d/f");
  EXPECT_EQ(tree.find("h"), tree.find("d/f"));
  EXPECT_EQ(tree.find("null")->special, 0x103u);
  EXPECT_EQ(tree.find("fifo")->mode & S_IFMT, uint32_t{S_IFIFO});
}

TEST_F(TarTest, WhiteoutsTakeAwayWhatLayersBeforePut) {
  ASSERT_TRUE(apply(TarText().file("a", "1").file("d/old", "1").file("e/old", "1").file("e/sub/old", "1")));
  ASSERT_TRUE(apply(TarText()
                        .file(".wh.a", "")
                        .file("d/.wh.old", "")
                        .file("d/new", "2")
                        .file("e/new", "2")
                        .file("e/.wh..wh..opq", "")
                        .file("f/.wh..wh.plnk", "")
                        .file("g/.wh.none", "")));
  EXPECT_EQ(look(tree, "a"), "none");
  EXPECT_EQ(look(tree, "d/old"), "none");
  EXPECT_EQ(look(tree, "d/new"), "2");
  EXPECT_EQ(look(tree, "e/old"), "none");
  EXPECT_EQ(look(tree, "e/sub"), "none");
  EXPECT_EQ(look(tree, "e/new"), "2");
  EXPECT_EQ(look(tree, "f/.wh..wh.plnk"), "none");
}

TEST_F(TarTest, NothingComesFromOutsideOrGoesThere) {
  ASSERT_TRUE(apply(TarText().file("/etc/name", "x").link("out", "../../../etc").file("out/other", "y")));
  EXPECT_EQ(look(tree, "etc/name"), "x");
  EXPECT_EQ(look(tree, "etc/other"), "y");
  EXPECT_EQ(apply(TarText().file("../x", "x")).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(apply(TarText().file("a/../../x", "x")).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(apply(TarText().hard_link("h", "/none")).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(apply(TarText().hard_link("h", "../../none")).error().code, ErrorCode::kInvalidInput);
}

TEST_F(TarTest, RefusesWhatIsNotAnArchive) {
  EXPECT_EQ(apply("this is text, and long enough to be looked at").error().code, ErrorCode::kInvalidInput);
  const std::string whole = TarText().file("a", std::string(5000, 'x')).bytes();
  EXPECT_EQ(apply(whole.substr(0, 2000)).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(import_tar(in("none"), in("x.image")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(import_tar(directory_, in("x.image")).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(TarTest, TakesNoMoreThanItsLimits) {
  const TarText archive = TarText().file("a", std::string(5000, 'x')).file("b", std::string(5000, 'x'));
  EXPECT_TRUE(apply(archive, {.most_bytes = 10000}));
  EXPECT_EQ(apply(archive, {.most_bytes = 9999}).error().code, ErrorCode::kTooLong);
  EXPECT_EQ(apply(archive, {.most_entries = 1}).error().code, ErrorCode::kTooLong);
}

TEST_F(TarTest, AttributesCountLikeContents) {
  const std::string record = " SCHILY.xattr.user.x=" + std::string(4000, 'y') + "\n";
  const TarText archive =
      TarText().add("h", 'x', std::to_string(record.size() + 4) + record, "", 0644).file("a", "text");
  ASSERT_TRUE(apply(archive, {.most_bytes = 5000}));
  EXPECT_EQ(tree.find("a")->attributes.at("user.x").size(), 4000u);
  EXPECT_EQ(apply(archive, {.most_bytes = 4000}).error().code, ErrorCode::kTooLong);
}

TEST_F(TarTest, AnImageComesFromLayersOneOverTheOther) {
  const std::string lower = write_file("lower.tar", TarText().file("a", "1").file("b", "1").bytes());
  const std::string upper = write_file("upper.tar", TarText().file("b", "2").file(".wh.a", "").bytes());
  ASSERT_TRUE(import_tar(lower, in("lower.image")));
  ASSERT_TRUE(import_tar(upper, in("both.image"), in("lower.image")));
  ASSERT_TRUE(tree.load(Layer::open(in("both.image")).value()));
  EXPECT_EQ(look(tree, "a"), "none");
  EXPECT_EQ(look(tree, "b"), "2");
}

TEST_F(TarTest, WhatIsExportedIsImportedAsItWas) {
  LayerItem named = file("text", 04755);
  named.uid = 12345678;
  named.modified = {-5, 123456789};
  named.attributes = {{"user.x", std::string("\0y", 2)}};
  const std::string deep = "deep/" + std::string(200, 'n') + "/" + std::string(200, 'm');
  ASSERT_TRUE(tree.put("d/named", named));
  ASSERT_TRUE(tree.put_link("again", "d/named"));
  ASSERT_TRUE(tree.put(deep, file("deep")));
  ASSERT_TRUE(tree.put("\xc3\xbc", file("umlaut")));
  ASSERT_TRUE(tree.put("bytes\xff", file("no UTF-8")));
  ASSERT_TRUE(tree.put("l", link(std::string(300, 't'))));
  ASSERT_TRUE(tree.put("null", {.mode = S_IFCHR | 0666, .special = 0x103}));
  ASSERT_TRUE(tree.put("empty", directory(01777)));
  const std::string digest = tree.write(in("first.image")).value();
  ASSERT_TRUE(export_tar(tree, in("first.tar")));
  EXPECT_EQ(import_tar(in("first.tar"), in("second.image")).value(), digest);
}

}  // namespace
}  // namespace membrane::linux
