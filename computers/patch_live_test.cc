// Patches of running sandboxes: applying a patch of changes to a fresh one, and applying it with git.
#include <sys/stat.h>

#include <cstdlib>
#include <random>

#include "computers/patch.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/live_testing.h"

namespace membrane::computers {
namespace {

namespace fs = std::filesystem;
using linux::LiveComputer;

class PatchLiveTest : public linux::LiveTest {
 protected:
  // A tree for patches, with everything that git can express.
  PatchLiveTest() {
    if (kIsThreadSanitized) return;
    linux::LayerTree tree;
    EXPECT_TRUE(tree.put("tmp", directory()));
    std::string long_text;
    for (int i = 0; i < 200; ++i) long_text += "line " + std::to_string(i) + "\n";
    EXPECT_TRUE(tree.put("w/long", file(long_text)));
    EXPECT_TRUE(tree.put("w/no-end", file("one\ntwo")));
    EXPECT_TRUE(tree.put("w/empty", file("")));
    EXPECT_TRUE(tree.put("w/program", file("#!/bin/sh\n", 0755)));
    EXPECT_TRUE(tree.put("w/binary", file(std::string("a\0b\1c", 5) + std::string(5000, '\x80'))));
    EXPECT_TRUE(tree.put("w/link", link("long")));
    EXPECT_TRUE(tree.put("w/sub/a", file("a\n")));
    EXPECT_TRUE(tree.put("w/sub/deep/b c", file("b\n")));
    EXPECT_TRUE(tree.put("w/\xc3\xa4\"\n", file("name\n")));
    EXPECT_TRUE(tree.write(in("base.image")));
    image_ = linux::Layer::open(in("base.image")).value();
  }
  std::unique_ptr<LiveComputer> fresh() {
    linux::LiveSpec of = spec();
    of.image = in("base.image");
    auto made = linux::start_computer(of);
    EXPECT_TRUE(made) << made.error().to_string();
    return made ? std::move(*made) : nullptr;
  }

  static linux::HostFile kept(LiveComputer& computer) {
    auto file = linux::memory_to_keep_in();
    EXPECT_TRUE(file && computer.keep(file->number(), LiveComputer::Keep::kFiles));
    return file ? *std::move(file) : linux::HostFile();
  }
  std::unique_ptr<LiveComputer> as_kept(const linux::HostFile& file) {
    linux::LiveSpec of = spec();
    of.image = in("base.image");
    of.kept = file.number();
    of.kept_files_only = true;
    auto made = linux::start_computer(of);
    EXPECT_TRUE(made) << made.error().to_string();
    return made ? std::move(*made) : nullptr;
  }

  // Files and links with their bytes; no directories.
  static std::map<std::string, std::string> tree_of(LiveComputer& computer) {
    std::map<std::string, std::string> all;
    std::vector<std::string> left = {"/w", "/tmp"};
    while (!left.empty()) {
      const std::string path = left.back();
      left.pop_back();
      const auto listed = computer.list(path);
      if (!listed) continue;
      for (const auto& each : *listed) {
        if (S_ISDIR(each.mode)) left.push_back(each.path);
        else if (S_ISLNK(each.mode)) all[each.path] = "-> " + each.target;
        else
          all[each.path] = ((each.mode & 0100) != 0 ? "x " : "- ") +
                           computer.read_file(each.path, 0, UINT64_MAX).value_or("?");
      }
    }
    return all;
  }

  std::string a_path(bool is_new) {
    static const std::vector<std::string> kThere = {"long",   "no-end",      "empty", "program",
                                                    "binary", "link",        "sub/a", "sub/deep/b c",
                                                    "sub",    "\xc3\xa4\"\n"};
    if (!is_new || random_() % 3 == 0) return "/w/" + kThere[random_() % kThere.size()];
    return "/w/" + std::string(random_() % 2 == 0 ? "n/" : "") + "new" + std::to_string(random_() % 4);
  }
  std::string some_bytes(const std::string& before) {
    switch (random_() % 5) {
      case 0: return "";
      case 1: return std::string(random_() % 50, '\0') + "binary";
      case 2: return before + "more\n";
      case 3: {
        std::string bytes = before;
        for (size_t times = 1 + random_() % 4; times > 0 && !bytes.empty(); --times)
          bytes.insert(random_() % bytes.size(), "\ninserted\n");
        return bytes;
      }
      default: return before.substr(std::min<size_t>(before.size(), random_() % 100));
    }
  }
  void change(LiveComputer& computer) {
    const std::string path = a_path(true);
    switch (random_() % 7) {
      case 0:
      case 1:
      case 2:
        (void)computer.write_file(path, some_bytes(computer.read_file(path, 0, 1u << 20).value_or("")),
                                  random_() % 2 == 0 ? 0644 : 0755);
        break;
      case 3: (void)computer.remove(path, true); break;
      case 4: (void)computer.set_mode(a_path(false), random_() % 2 == 0 ? 0644 : 0755); break;
      case 5: (void)computer.move(a_path(false), path); break;
      default:
        (void)computer.remove(path, true);
        (void)computer.make_link(path, "to " + std::to_string(random_() % 9));
    }
  }

  // The image's files on this machine, for git.
  void unpack(const std::string& directory) const {
    linux::LayerTree tree;
    EXPECT_TRUE(tree.load(image_));
    EXPECT_TRUE(
        tree.visit_all([&](const std::string& path, const linux::LayerItem& item, const std::string&) {
          const std::string to = directory + "/" + path;
          if (S_ISDIR(item.mode)) fs::create_directories(to);
          else if (S_ISLNK(item.mode)) fs::create_symlink(item.target, to);
          else {
            std::ofstream(to, std::ios::binary) << look(tree, path);
            fs::permissions(to, fs::perms(item.mode & 0777));
          }
          return Status();
        }));
  }

  std::shared_ptr<const linux::Layer> image_;
  std::mt19937 random_{7};
};

TEST_F(PatchLiveTest, APatchOfChangesMakesThemAgain) {
  const bool has_git = std::system("git --version > /dev/null 2>&1") == 0;
  for (int round = 0; round < 25; ++round) {
    const auto changed = fresh();
    ASSERT_NE(changed, nullptr);
    for (size_t left = 1 + random_() % 8; left > 0; --left) change(*changed);
    const auto patch = make_patch(*changed, image_.get());
    ASSERT_TRUE(patch) << patch.error().to_string();
    if (patch->text.empty()) continue;
    const auto other = fresh();
    ASSERT_NE(other, nullptr);
    const auto applied = apply_patch(*other, patch->text);
    ASSERT_TRUE(applied) << applied.error().to_string() << "\n" << patch->text;
    EXPECT_EQ(tree_of(*other), tree_of(*changed)) << patch->text;
    if (!has_git) continue;
    const std::string directory = in("git" + std::to_string(round));
    unpack(directory);
    write_file("patch" + std::to_string(round), patch->text);
    const std::string check = "cd " + directory + " && GIT_CEILING_DIRECTORIES=" + directory_ +
                              " git apply --check ../patch" + std::to_string(round);
    EXPECT_EQ(std::system(check.c_str()), 0) << patch->text;
  }
}

TEST_F(PatchLiveTest, APatchSinceAnotherMomentMakesItsChangesAgain) {
  for (int round = 0; round < 25; ++round) {
    const auto changed = fresh();
    ASSERT_NE(changed, nullptr);
    for (size_t left = 1 + random_() % 8; left > 0; --left) change(*changed);
    const linux::HostFile then = kept(*changed);
    for (size_t left = 1 + random_() % 8; left > 0; --left) change(*changed);
    const auto base = as_kept(then), other = as_kept(then);
    ASSERT_TRUE(base && other);
    const auto patch = make_patch_since(*base, *changed, image_.get());
    ASSERT_TRUE(patch) << patch.error().to_string();
    if (!patch->text.empty()) {
      const auto applied = apply_patch(*other, patch->text);
      ASSERT_TRUE(applied) << applied.error().to_string() << "\n" << patch->text;
    }
    EXPECT_EQ(tree_of(*other), tree_of(*changed)) << patch->text;
    const auto none = make_patch_since(*changed, *changed, image_.get());
    EXPECT_EQ(none->text, "");
    EXPECT_EQ(none->left_out, 0u);
  }
}

TEST_F(PatchLiveTest, ExistingFilesAreNotAChange) {
  const auto computer = fresh();
  EXPECT_TRUE(computer->write_file("/w/copied", "copied\n", 0644));
  EXPECT_TRUE(computer->remove("/w/sub", true));
  EXPECT_TRUE(computer->make_link("/w/sub", "/tmp"));  // what is below it was somewhere else
  const auto base = as_kept(kept(*computer));
  EXPECT_TRUE(computer->write_file("/tmp/a", "a\n", 0644));
  EXPECT_TRUE(computer->make_directory("/w/hollow", 0755));
  const auto patch = make_patch_since(*base, *computer, image_.get(), "/w");
  ASSERT_TRUE(patch);
  EXPECT_EQ(patch->text, "");
  EXPECT_EQ(patch->left_out, 1u);
  EXPECT_FALSE(make_patch_since(*base, *computer, image_.get(), "w"));
  for (const char* const path : {"/none", "/w/sub", "/w/long"})
    EXPECT_EQ(make_patch_since(*base, *computer, image_.get(), path).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(make_patch(*computer, image_.get(), "/none").error().code, ErrorCode::kNotFound);
}

// Git accepts no patch of these, and a repository to which one is applied has its own.
TEST_F(PatchLiveTest, ARepositorysOwnFilesAreLeftOut) {
  const auto computer = fresh();
  for (const char* const path : {"/w/.git/config", "/w/sub/.GIT/hooks/pre-commit", "/w/sub/a"})
    EXPECT_TRUE(computer->write_file(path, "new\n", 0644));
  const auto base = fresh();
  for (const auto& patch :
       {make_patch(*computer, image_.get()), make_patch_since(*base, *computer, image_.get())}) {
    ASSERT_TRUE(patch);
    EXPECT_TRUE(patch->text.starts_with("diff --git a/w/sub/a b/w/sub/a\n")) << patch->text;
    EXPECT_EQ(patch->text.find("config"), std::string::npos);
    EXPECT_EQ(patch->text.find("hooks"), std::string::npos);
    EXPECT_EQ(patch->left_out, 0u);
  }
}

TEST_F(PatchLiveTest, ReportsWhatGitCannotExpress) {
  const auto computer = fresh();
  EXPECT_TRUE(computer->set_owner("/w/long", 5, 5));
  EXPECT_TRUE(computer->make_directory("/w/hollow", 0755));
  EXPECT_TRUE(computer->write_file("/w/x/y", "text\n", 0644));
  const auto patch = make_patch(*computer, image_.get());
  ASSERT_TRUE(patch);
  EXPECT_EQ(patch->left_out, 2u);
  EXPECT_EQ(patch->text,
            "diff --git a/w/x/y b/w/x/y\nnew file mode 100644\n"
            "index 0000000000000000000000000000000000000000..8e27be7d6154a1f68ea9160ef0e18691d20560dc\n"
            "--- /dev/null\n+++ b/w/x/y\n@@ -0,0 +1 @@\n+text\n");
}

TEST_F(PatchLiveTest, LeavesGitsOwnFilesOut) {
  const auto computer = fresh();
  EXPECT_TRUE(computer->write_file("/w/.git/HEAD", "head\n", 0644));
  EXPECT_TRUE(computer->write_file("/w/deep/.git", "gitdir: ../x\n", 0644));
  EXPECT_TRUE(computer->write_file("/w/.gitignore", "*.o\n", 0644));
  const auto patch = make_patch(*computer, image_.get(), "/w");
  ASSERT_TRUE(patch);
  EXPECT_TRUE(patch->text.starts_with("diff --git a/.gitignore b/.gitignore\n")) << patch->text;
  EXPECT_EQ(patch->text.find("/.git/"), std::string::npos);
  EXPECT_EQ(patch->text.find("gitdir"), std::string::npos);
}

TEST_F(PatchLiveTest, OfADirectoryAlone) {
  const auto computer = fresh();
  EXPECT_TRUE(computer->write_file("/tmp/other", "other\n", 0644));
  EXPECT_TRUE(computer->remove("/w/sub/a", false));
  const auto patch = make_patch(*computer, image_.get(), "/w/sub/");
  ASSERT_TRUE(patch);
  EXPECT_TRUE(patch->text.starts_with("diff --git a/a b/a\ndeleted file mode 100644\n")) << patch->text;
  EXPECT_EQ(patch->text.find("other"), std::string::npos);
  const auto again = fresh();
  EXPECT_TRUE(apply_patch(*again, patch->text, "/w/sub"));
  EXPECT_FALSE(again->stat("/w/sub/a", false));
  EXPECT_TRUE(computer->remove("/w", true));
  const auto all = make_patch(*computer, image_.get(), "/w/sub");
  ASSERT_TRUE(all);
  EXPECT_NE(all->text.find("a/deep/b c"), std::string::npos);
  EXPECT_EQ(all->text.find("program"), std::string::npos);
  EXPECT_EQ(make_patch(*computer, image_.get(), "/nosuch").error().code, ErrorCode::kNotFound);
}

TEST_F(PatchLiveTest, TypesChangeBothWays) {
  const auto computer = fresh();
  EXPECT_TRUE(computer->remove("/w/sub", true));
  EXPECT_TRUE(computer->write_file("/w/sub", "a file\n", 0644));
  EXPECT_TRUE(computer->remove("/w/long", false));
  EXPECT_TRUE(computer->write_file("/w/long/in", "below\n", 0644));
  EXPECT_TRUE(computer->remove("/w/link", false));
  EXPECT_TRUE(computer->write_file("/w/link", "no link\n", 0644));
  const auto patch = make_patch(*computer, image_.get());
  ASSERT_TRUE(patch);
  const auto other = fresh();
  const auto applied = apply_patch(*other, patch->text);
  ASSERT_TRUE(applied) << applied.error().to_string();
  EXPECT_EQ(tree_of(*other), tree_of(*computer));
}

// Git also refuses it: a path beyond a link is somewhere else.
TEST_F(PatchLiveTest, NothingIsBeyondALink) {
  const auto computer = fresh();
  EXPECT_TRUE(computer->make_link("/w/out", "/tmp"));
  EXPECT_TRUE(computer->write_file("/tmp/there", "there\n", 0644));
  const std::string add = "--- /dev/null\n+++ b/NAME\n@@ -0,0 +1 @@\n+x\n";
  const auto of = [](std::string text, const std::string& name) {
    for (size_t at = text.find("NAME"); at != text.npos; at = text.find("NAME")) text.replace(at, 4, name);
    return text;
  };
  const std::string links =
      "diff --git a/NAME b/NAME\nnew file mode 120000\n--- /dev/null\n+++ b/NAME\n"
      "@@ -0,0 +1 @@\n+/tmp\n\\ No newline at end of file\n";
  const std::string unlinks =
      "diff --git a/out b/out\ndeleted file mode 120000\n--- a/out\n+++ /dev/null\n"
      "@@ -1 +0,0 @@\n-/tmp\n\\ No newline at end of file\n";
  const auto result_of = [&](const std::string& patch) {
    const auto applied = apply_patch(*computer, patch, "/w");
    return applied ? "applied" : applied.error().message;
  };
  EXPECT_EQ(result_of(of(add, "out/x")), "out/x, line 1 of the patch: it is beyond a symbolic link, /w/out");
  EXPECT_EQ(result_of("--- a/out/there\n+++ b/out/there\n@@ -1 +1 @@\n-there\n+x\n"),
            "out/there, line 1 of the patch: it is beyond a symbolic link, /w/out");
  EXPECT_EQ(result_of("--- a/out/there\n+++ /dev/null\n@@ -1 +0,0 @@\n-there\n"),
            "out/there, line 1 of the patch: it is beyond a symbolic link, /w/out");
  EXPECT_EQ(result_of("diff --git a/long b/out/deep/x\nrename from long\nrename to out/deep/x\n"),
            "out/deep/x, line 1 of the patch: it is beyond a symbolic link, /w/out");
  EXPECT_EQ(result_of(of(links, "made") + of(add, "made/x")),
            "made/x, line 8 of the patch: it is beyond a symbolic link, /w/made");
  EXPECT_EQ(result_of(of(add, "made/x") + of(links, "made")),
            "made/x, line 1 of the patch: it is beyond a symbolic link, /w/made");
  EXPECT_FALSE(computer->stat("/tmp/x", false));
  EXPECT_EQ(computer->read_file("/tmp/there", 0, 100).value_or(""), "there\n");
  EXPECT_EQ(result_of(of(add, "out/x") + unlinks), "applied");
  EXPECT_EQ(computer->read_file("/w/out/x", 0, 100).value_or(""), "x\n");
  EXPECT_FALSE(computer->stat("/tmp/x", false));
}

}  // namespace
}  // namespace membrane::computers
