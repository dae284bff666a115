// What a build is told apart by; whole builds are in cli/image_build_test.py.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "computers/fake_computer_testing.h"
#include "computers/file_copy.h"
#include "computers/settings.h"
#include "computers/source_files.h"
#include "computers/users.h"

namespace membrane::computers {
namespace {

namespace fs = std::filesystem;

TEST(IgnoredFilesTest, PatternsMatchPathsAndAllBelowThem) {
  const IgnoredFiles ignored("# comment\n/a\n*.o\n**/deep\nd?r/[xy]\n!a/keep\r\n\n");
  for (const char* const path : {"a", "a/b/c", "x.o", "deep", "1/2/deep/3", "dir/x", "dir/y/z"})
    EXPECT_TRUE(ignored.has(path)) << path;
  for (const char* const path : {"b/a", "a/keep", "a/keep/in", "sub/x.o", "dir/z", "dr/x", "x.oo"})
    EXPECT_FALSE(ignored.has(path)) << path;
  EXPECT_TRUE(ignored.takes_back());
  EXPECT_FALSE(IgnoredFiles("").has("a"));
}

TEST(IgnoredFilesTest, ManyStarsCostLittle) {
  std::string pattern, path;
  for (int i = 0; i < 300; ++i) pattern += "**/a/", path += "a/";
  EXPECT_FALSE(IgnoredFiles(pattern + "b").has(path));
}

class DirectoryFilesTest : public ::testing::Test {
 protected:
  DirectoryFilesTest() {
    directory_ = ::testing::TempDir() + "source-XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    write("a.txt", "a");
    write("b.txt", "b");
    write("sub/deep/c.txt", "c");
    fs::create_symlink("/etc", directory_ + "/etc");
    fs::create_symlink("a.txt", directory_ + "/link");
    files_ = files_of_directory(directory_, "sub/deep/hidden\n").value();
  }
  ~DirectoryFilesTest() override { fs::remove_all(directory_); }
  void write(const std::string& name, std::string_view text) const {
    fs::create_directories(fs::path(directory_ + "/" + name).parent_path());
    std::ofstream(directory_ + "/" + name) << text;
    fs::permissions(directory_ + "/" + name, fs::perms(0644));
  }
  std::string expanded(const std::string& pattern) {
    const auto found = expand_sources(*files_, pattern);
    if (!found) return std::string(name_of(found.error().code));
    std::string text;
    for (const std::string& each : *found) text += (text.empty() ? "" : " ") + each;
    return text;
  }
  std::string digest(std::vector<std::string> sources) {
    return digest_of_copy(*files_, {.sources = std::move(sources), .to = "/", .owner = {}}).value();
  }
  std::string directory_;
  std::unique_ptr<SourceFiles> files_;
};

TEST_F(DirectoryFilesTest, PatternsStandForWhatIsThere) {
  EXPECT_EQ(expanded("*.txt"), "a.txt b.txt");
  EXPECT_EQ(expanded("./[b]*"), "b.txt");
  EXPECT_EQ(expanded("/s*/d*/c.txt"), "sub/deep/c.txt");
  EXPECT_EQ(expanded("nosuch"), "not_found");
  EXPECT_EQ(expanded("sub/../.."), "invalid_input");
}

TEST_F(DirectoryFilesTest, NothingLeadsOut) {
  EXPECT_FALSE(files_->read("etc/passwd", 0, 10));
  EXPECT_FALSE(files_->list("etc"));
  EXPECT_FALSE(files_->read("../" + directory_.substr(directory_.rfind('/') + 1) + "/a.txt", 0, 10));
  EXPECT_EQ(files_->stat("etc")->target, "/etc");
  EXPECT_FALSE(digest_of_copy(*files_, {.sources = {"etc"}, .to = "/", .owner = {}}));
}

TEST_F(DirectoryFilesTest, ADigestIsOfNamesModesAndBytes) {
  const std::string before = digest({"a.txt", "sub"});
  EXPECT_EQ(digest({"a.txt", "sub"}), before);
  EXPECT_NE(digest({"b.txt", "sub"}), before);
  write("sub/deep/hidden", "ignored");
  EXPECT_EQ(digest({"a.txt", "sub"}), before);
  fs::permissions(directory_ + "/a.txt", fs::perms(0600));
  EXPECT_NE(digest({"a.txt", "sub"}), before);
  fs::permissions(directory_ + "/a.txt", fs::perms(0644));
  write("sub/deep/c.txt", "d");
  EXPECT_NE(digest({"a.txt", "sub"}), before);
}

TEST_F(DirectoryFilesTest, FilesGoWhereDockerPutsThem) {
  FakeComputer computer(FakeComputer::Files{{"/there/", ""}});
  const auto copy = [&](std::vector<std::string> sources, const std::string& to) {
    return copy_files(*files_, {.sources = std::move(sources), .to = to, .owner = {}}, computer);
  };
  EXPECT_TRUE(copy({"a.txt"}, "/new/name"));
  EXPECT_TRUE(copy({"a.txt"}, "/there"));
  EXPECT_TRUE(copy({"link"}, "/made/"));
  EXPECT_TRUE(copy({"sub"}, "/tree"));
  for (const char* const path : {"/new/name", "/there/a.txt", "/made/link", "/tree/deep/c.txt"})
    EXPECT_TRUE(computer.stat(path, true)) << path;
}

constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/bin/sh\nann:x:1000:100:Ann:/home/ann:/bin/sh\n7:x:8:9::/:\nbroken\n:::\n";
constexpr std::string_view kGroup = "root:x:0:\nstaff:x:50:ann\n";

TEST(UsersTest, NamesAndNumbers) {
  const auto found = [](std::string_view who) {
    const auto user = find_user(who, kPasswd, kGroup);
    return user ? std::to_string(user->user) + ":" + std::to_string(user->group) + " " + user->home : "none";
  };
  EXPECT_EQ(found(""), "0:0 /root");
  EXPECT_EQ(found("ann"), "1000:100 /home/ann");
  EXPECT_EQ(found("1000"), "1000:100 /home/ann");
  EXPECT_EQ(found("ann:staff"), "1000:50 /home/ann");
  EXPECT_EQ(found("7"), "8:9 /");  // a name that is a number
  EXPECT_EQ(found("1234"), "1234:0 ");
  EXPECT_EQ(found("1234:5"), "1234:5 ");
  EXPECT_EQ(found("bob"), "none");
  EXPECT_EQ(found("ann:nosuch"), "none");
  EXPECT_EQ(found("99999999999"), "none");
}

TEST(ArgumentsTest, AnEntrypointStandsBeforeWords) {
  linux::ImageConfig config;
  EXPECT_FALSE(arguments_of(config, {}));
  EXPECT_EQ(arguments_of(config, {"a"}), (std::vector<std::string>{"a"}));
  config.command = {"c"};
  EXPECT_EQ(arguments_of(config, {}), (std::vector<std::string>{"c"}));
  config.entrypoint = {"e"};
  EXPECT_EQ(arguments_of(config, {}), (std::vector<std::string>{"e", "c"}));
  EXPECT_EQ(arguments_of(config, {"a", "b"}), (std::vector<std::string>{"e", "a", "b"}));
}

}  // namespace
}  // namespace membrane::computers
