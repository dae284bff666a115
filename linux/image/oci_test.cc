#include "linux/image/oci.h"

#include "base/sha256.h"
#include "linux/image/image_testing.h"
#include "linux/image/tar.h"
#include "linux/image/tar_testing.h"

namespace membrane::linux {
namespace {

class OciTest : public ImageTest {
 protected:
  static std::string digest(std::string_view bytes) { return sha256_hex(bytes).value(); }
  // Stores a file of an OCI layout in its place and returns its descriptor.
  std::string blob(const std::string& bytes, const std::string& more = "") {
    files["blobs/sha256/" + digest(bytes)] = bytes;
    return R"({"digest":"sha256:)" + digest(bytes) + R"(","size":)" + std::to_string(bytes.size()) + more +
           "}";
  }
  std::string manifest(const std::string& text, const std::string& config, const std::string& more = "") {
    return blob(
        R"({"config":)" + blob(config) + R"(,"layers":[)" + blob(TarText().file("a", text).bytes()) + "]}",
        more);
  }
  void index(const std::string& manifests) {
    files["oci-layout"] = R"({"imageLayoutVersion":"1.0.0"})";
    files["index.json"] = R"({"manifests":[)" + manifests + "]}";
  }
  // As a directory and as an archive: both give the same image.
  std::unique_ptr<ImageFiles> as_directory() const {
    for (const auto& [path, bytes] : files) write_file("layout/" + path, bytes);
    return files_of_directory(in("layout"));
  }
  std::unique_ptr<ImageFiles> as_archive() const {
    return files_of_archive(open_blob(write_file("layout.tar", archived())).value(), spool_).value();
  }
  [[nodiscard]] std::string archived() const {
    TarText archive;
    for (const auto& [path, bytes] : files) archive.file(path, bytes);
    return archive.bytes();
  }
  std::string first_file(const Result<FoundImage>& found) const {
    if (!found) return found.error().message;
    LayerTree tree;
    for (const Blob& layer : found->layers) EXPECT_TRUE(apply_tar(tree, layer, spool_));
    return look(tree, "a");
  }

  static constexpr const char* kConfig =
      R"({"os":"linux","architecture":"amd64","config":{"Env":["A=1","odd"],"Entrypoint":["/e"],"Cmd":null,"WorkingDir":"/w","User":"u","Labels":{}}})";
  std::map<std::string, std::string> files;
};

TEST_F(OciTest, ReadsALayout) {
  index(manifest("one", kConfig));
  for (const auto& layout : {as_directory(), as_archive()}) {
    EXPECT_TRUE(is_oci(*layout));
    EXPECT_FALSE(is_docker(*layout));
    const auto found = read_oci(*layout, "any");
    EXPECT_EQ(first_file(found), "one");
    EXPECT_EQ(found->config, (ImageConfig{{"A=1"}, {"/e"}, {}, "/w", "u"}));
  }
}

TEST_F(OciTest, ChoosesTheMachineInAnIndexOfAnIndex) {
  const std::string amd = manifest("amd", kConfig, R"(,"platform":{"os":"linux","architecture":"amd64"})"),
                    arm = manifest("arm", "{}", R"(,"platform":{"os":"linux","architecture":"arm64"})");
  index(blob(R"({"manifests":[)" + arm + "," + amd + "]}"));
  EXPECT_EQ(first_file(read_oci(*as_archive(), "any")), "amd");
  index(blob(R"({"manifests":[)" + arm + "]}"));
  EXPECT_EQ(read_oci(*as_archive(), "any").error().code, ErrorCode::kUnsupported);
}

TEST_F(OciTest, ChoosesByName) {
  const auto named = [](const std::string& name) {
    return R"(,"annotations":{"org.opencontainers.image.ref.name":")" + name + R"("})";
  };
  index(manifest("x", kConfig, named("x:latest")) + "," +
        manifest("y", kConfig, named("docker.io/library/y:1")));
  EXPECT_EQ(first_file(read_oci(*as_archive(), "x")), "x");
  EXPECT_EQ(first_file(read_oci(*as_archive(), "y:1")), "y");
  EXPECT_EQ(read_oci(*as_archive(), "z").error().message,
            "there are several images: x:latest, docker.io/library/y:1");
}

TEST_F(OciTest, ChecksEveryDigest) {
  index(manifest("one", kConfig));
  const auto whole = files;
  for (const auto& [path, bytes] : whole) {
    if (!path.starts_with("blobs/")) continue;
    files = whole;
    files[path][bytes.size() / 2] ^= 1;
    EXPECT_EQ(read_oci(*as_archive(), "any").error().code, ErrorCode::kInvalidInput) << path;
    files.erase(path);
    EXPECT_EQ(read_oci(*as_archive(), "any").error().code, ErrorCode::kInvalidInput) << path;
  }
}

TEST_F(OciTest, RefusesWhatIsDamaged) {
  for (const std::string text :
       {R"({"manifests":[]})", R"({"manifests":[3]})", R"({"manifests":[{"digest":"sha256:../../etc"}]})",
        R"([])", "{", R"({"manifests":[{"digest":7}]})"}) {
    index("");
    files["index.json"] = text;
    EXPECT_FALSE(read_oci(*as_archive(), "any")) << text;
  }
  index(manifest("one", R"({"config":{"Env":[1]}})"));
  EXPECT_EQ(read_oci(*as_archive(), "any").error().code, ErrorCode::kInvalidInput);
  index(manifest("one", R"({"os":"windows"})"));
  EXPECT_EQ(read_oci(*as_archive(), "any").error().code, ErrorCode::kUnsupported);
}

TEST_F(OciTest, ReadsWhatDockerSaves) {
  const std::string layer = TarText().file("a", "one").bytes();
  files["aa/layer.tar"] = layer;
  files["config.json"] =
      R"({"config":{"Cmd":["sh"]},"rootfs":{"diff_ids":["sha256:)" + digest(layer) + R"("]}})";
  files["manifest.json"] = R"([{"Config":"config.json","RepoTags":["one:1"],"Layers":["aa/layer.tar"]}])";
  const auto found = read_docker(*as_archive(), "other");
  EXPECT_EQ(first_file(found), "one");
  EXPECT_EQ(found->config.command, std::vector<std::string>{"sh"});
  files["aa/layer.tar"] = TarText().file("a", "two").bytes();
  EXPECT_EQ(read_docker(*as_archive(), "other").error().code, ErrorCode::kInvalidInput);
  files["manifest.json"] = R"([{"Config":"config.json","Layers":[]}])";
  EXPECT_EQ(read_docker(*as_archive(), "other").error().code, ErrorCode::kInvalidInput);
}

TEST_F(OciTest, LinksInAnArchiveOfDockerStayInIt) {
  const std::string archive = TarText()
                                  .file("b/layer.tar", "x")
                                  .link("a/layer.tar", "../b/layer.tar")
                                  .link("c/layer.tar", "../../../etc/passwd")
                                  .link("loop", "loop")
                                  .bytes();
  const auto all = files_of_archive(open_blob(write_file("a.tar", archive)).value(), spool_).value();
  EXPECT_EQ(text_of(all->open("a/layer.tar").value(), 10).value(), "x");
  EXPECT_FALSE(all->has("c/layer.tar"));
  EXPECT_FALSE(all->has("loop"));
}

TEST_F(OciTest, LinksInADirectoryDoNotLeadOut) {
  write_file("outside", "secret");
  std::filesystem::create_directories(in("layout"));
  std::filesystem::create_symlink(in("outside"), in("layout/index.json"));
  std::filesystem::create_symlink("../outside", in("layout/oci-layout"));
  EXPECT_FALSE(is_oci(*files_of_directory(in("layout"))));
  EXPECT_FALSE(files_of_directory(in("layout"))->has("../outside"));
  EXPECT_FALSE(files_of_directory(in("layout"))->has(in("outside")));
}

TEST_F(OciTest, KnowsArchivesOfImagesByTheirNames) {
  const auto is_image = [&](const TarText& archive) {
    return is_image_archive(open_blob(write_file("x.tar", archive.bytes())).value()).value();
  };
  index(manifest("one", kConfig));
  EXPECT_TRUE(is_image_archive(open_blob(write_file("x.tar", archived())).value()).value());
  EXPECT_TRUE(is_image(TarText().file(std::string(64, 'a') + "/layer.tar", "x").file("manifest.json", "[]")));
  EXPECT_FALSE(is_image(TarText().directory("./").file("./manifest.json", "[]").directory("./etc")));
  EXPECT_FALSE(is_image(TarText()));
}

}  // namespace
}  // namespace membrane::linux
