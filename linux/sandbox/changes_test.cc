// The changes in a live computer, and images that are made of one.
#include "linux/sandbox/changes.h"

#include <fcntl.h>

#include <algorithm>

#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/live_testing.h"

namespace membrane::linux {
namespace {

class ChangesTest : public LiveTest {
 protected:
  ChangesTest() {
    if (kIsThreadSanitized) return;  // skipped
    LayerTree tree;
    EXPECT_TRUE(tree.load(Layer::open(in("programs.image")).value()));
    EXPECT_TRUE(tree.put("data/keep", file("keep")));
    EXPECT_TRUE(tree.put("data/text", file("one\ntwo\n")));
    EXPECT_TRUE(tree.put("data/sub/deep", file("deep")));
    EXPECT_TRUE(tree.put("data/link", link("text")));
    EXPECT_TRUE(tree.put("data/first", file("both")));
    EXPECT_TRUE(tree.put_link("data/second", "data/first"));
    for (const char* const name : {"mv", "rm", "chmod", "ln", "mkdir", "mkfifo", "touch", "cp", "truncate"})
      add_program(tree, std::string("/bin/") + name);
    EXPECT_TRUE(tree.write(in("base.image"), R"({"Env":["A=1"]})"));
    LiveSpec spec = this->spec();
    spec.image = in("base.image");
    auto made = start_computer(spec);
    EXPECT_TRUE(made) << made.error().to_string();
    if (made) computer_ = std::move(*made);
  }
  // "+/a */b -/c", with types for anything but files.
  std::string changes() { return told(*computer_); }
  static std::string told(LiveComputer& computer) {
    const auto all = computer.changes();
    if (!all) return all.error().to_string();
    std::string text;
    for (const ChangedPath& each : *all) {
      text += text.empty() ? "" : " ";
      text += "+*-"[static_cast<size_t>(each.change)];
      text += each.path;
      if (S_ISDIR(each.mode)) text += "/";
      if (S_ISLNK(each.mode)) text += "@";
    }
    return text;
  }
  std::string after(const std::string& script) {
    run(*computer_, script);
    return changes();
  }
  // Saves it; returns the digest.
  std::string save(const std::string& name, const std::string& config = "{}") {
    const HostFile file(open(in(name).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    const Status saved = computer_->save_image(file.number(), config);
    EXPECT_TRUE(saved) << saved.error().to_string();
    const auto image = Layer::open(in(name));
    if (!image) return image.error().to_string();
    EXPECT_TRUE((*image)->verify());
    return std::string((*image)->digest());
  }
  std::unique_ptr<LiveComputer> computer_;
};

TEST_F(ChangesTest, AFreshOneHasNone) { EXPECT_EQ(after("cat /data/keep /data/link /data/sub/deep"), ""); }

TEST_F(ChangesTest, AddedModifiedAndRemoved) {
  EXPECT_EQ(after("echo x > /data/new; echo 3 >> /data/text; rm /data/keep"),
            "-/data/keep +/data/new */data/text");
}

TEST_F(ChangesTest, OnlyBytesCountAndNotTimes) {
  EXPECT_EQ(after("touch /data/keep; printf keep > /data/keep; cp /data/text /data/t; mv /data/t /data/text"),
            "");
}

TEST_F(ChangesTest, ModesAndOwners) {
  EXPECT_EQ(after("chmod 600 /data/keep; chmod 700 /data/sub"), "*/data/keep */data/sub/");
  EXPECT_TRUE(computer_->set_owner("/data/text", 5, 6));
  EXPECT_EQ(changes(), "*/data/keep */data/sub/ */data/text");
  EXPECT_EQ(after("chmod 644 /data/keep; chmod 755 /data/sub"), "*/data/text");
}

TEST_F(ChangesTest, BelowARemovedDirectoryNothingIsNamed) { EXPECT_EQ(after("rm -r /data"), "-/data/"); }

TEST_F(ChangesTest, ARenamedDirectoryIsAddedWithAllThatIsInIt) {
  EXPECT_EQ(after("mv /data/sub /data/other"), "+/data/other/ +/data/other/deep -/data/sub/");
  EXPECT_EQ(after("mv /data/other /data/sub"), "");
}

TEST_F(ChangesTest, AnotherType) {
  EXPECT_EQ(after("rm /data/keep; mkdir /data/keep; echo x > /data/keep/in"), "*/data/keep/ +/data/keep/in");
  EXPECT_EQ(after("rm -r /data/sub; ln -s text /data/sub"), "*/data/keep/ +/data/keep/in */data/sub@");
}

TEST_F(ChangesTest, HardLinks) {
  EXPECT_EQ(after("ln /data/keep /data/twin"), "+/data/twin");
  EXPECT_EQ(after("echo more >> /data/twin; echo more >> /data/second"),
            "*/data/first */data/keep */data/second +/data/twin");
}

TEST_F(ChangesTest, LinksThatLeadElsewhere) {
  EXPECT_EQ(after("ln -sf keep /data/link; mkfifo /data/pipe"), "*/data/link@ +/data/pipe");
}

TEST_F(ChangesTest, WhatIsMadeAndRemovedIsNot) {
  EXPECT_EQ(after("mkdir -p /a/b/c; echo x > /a/b/c/d; rm -r /a"), "");
}

TEST_F(ChangesTest, AnEmptyBeginningHasAllAdded) {
  LiveSpec spec = this->spec();
  spec.image.clear();
  const auto made = start_computer(spec);
  ASSERT_TRUE(made);
  EXPECT_EQ(told(**made), "");  // not even what is mounted
  EXPECT_TRUE((*made)->write_file("/a/b", "x", 0644));
  EXPECT_EQ(told(**made), "+/a/ +/a/b");
}

TEST_F(ChangesTest, AnImageHasABoundThatHolesCountFor) {
  const HostFile file(open(in("large.image").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  run(*computer_, "echo > /data/large; truncate -s 60T /data/large");
  const Status saved = computer_->save_image(file.number(), "{}");
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kTooLong);
}

TEST_F(ChangesTest, ASavedOneBeginsAsTheOtherWas) {
  run(*computer_,
      "echo new > /data/new; rm -r /data/sub; ln /data/new /data/newer; ln -s new /data/to; chmod 751 /data;"
      "echo 3 >> /data/text; mkdir /data/empty; mkfifo /data/pipe");
  save("saved.image", R"({"Env":["B=2"]})");
  LiveSpec spec = this->spec();
  spec.image = in("saved.image");
  const auto again = start_computer(spec);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(run(**again, "cat /data/new /data/newer /data/to /data/text /data/keep"),
            "new\nnew\nnew\none\ntwo\n3\nkeep");
  EXPECT_FALSE((*again)->stat("/data/sub", false));
  EXPECT_EQ((*again)->stat("/data", false)->mode, S_IFDIR | 0751u);
  EXPECT_EQ((*again)->stat("/data/new", false)->links, 2u);
  EXPECT_EQ((*again)->stat("/data/pipe", false)->mode, S_IFIFO | 0644u);
  EXPECT_EQ(told(**again), "");
  EXPECT_EQ(Layer::open(in("saved.image")).value()->config(), R"({"Env":["B=2"]})");
}

TEST_F(ChangesTest, TheSameTreeIsTheSameImage) {
  EXPECT_EQ(save("same.image", R"({"Env":["A=1"]})"), Layer::open(in("base.image")).value()->digest());
  run(*computer_, "echo 1 > /data/a; echo 2 > /data/b");
  const std::string first = save("first.image");
  EXPECT_EQ(save("second.image"), first);
  LiveSpec spec = this->spec();
  spec.image = in("first.image");
  auto again = start_computer(spec);
  ASSERT_TRUE(again);
  computer_ = std::move(*again);
  EXPECT_EQ(save("third.image"), first);
}

TEST_F(ChangesTest, AConfigurationThatIsNoneIsRefused) {
  const HostFile file(open(in("x.image").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_FALSE(computer_->save_image(file.number(), "[1]"));
}

TEST_F(ChangesTest, OnlyWhatIsAnImageIsSealed) {
  const std::string path = write_file("junk", std::string(10'000, 'x'));
  const HostFile junk(open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(seal_image(junk.number()));
  const HostFile empty(open(write_file("empty", "").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(seal_image(empty.number()));
}

}  // namespace
}  // namespace membrane::linux
