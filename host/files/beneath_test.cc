// Opening beneath a directory: the walk behaves like openat2 for every path in a tree of directories and links, and
// no race leads either of them out. The effects for programs are tested by file_access_test.cc.
#include "host/files/beneath.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "host/files/path_walk.h"

namespace membrane::host {
namespace {

namespace fs = std::filesystem;

class Tree {
 public:
  Tree() {
    std::string name =
        (fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp") + std::string("/membrane_beneath_XXXXXX");
    root = mkdtemp(name.data());
    fs::create_directories(root / "in/d/e");
    fs::create_directories(root / "out/e");
    put("in/f", "inside");
    put("in/d/f", "inside");
    put("in/d/e/f", "inside");
    put("out/f", "outside");
    put("out/e/f", "outside");
    inside = Fd(open((root / "in").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() { fs::remove_all(root); }

  void put(const std::string& name, const std::string& text) const { std::ofstream(root / name) << text; }
  void link(const std::string& target, const std::string& name) const {
    fs::create_symlink(target, root / name);
  }

  fs::path root;
  Fd inside;
};

std::string text_of(const Fd& fd) {
  std::array<char, 64> buffer{};
  const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
  return got < 0 ? "" : std::string(buffer.data(), static_cast<size_t>(got));
}

// The result of opening: the file's inode, or the error number.
std::string outcome(PathResolution resolution, int directory, const std::string& path, int flags,
                    Symlinks links) {
  const PathResolutionForTesting as(resolution);
  const auto fd = open_beneath(directory, path, flags, links);
  if (!fd) return std::string(name_of(fd.error().code));
  struct stat info{};
  EXPECT_EQ(fstat(fd->get(), &info), 0);
  return "inode " + std::to_string(info.st_ino) + " mode " + std::to_string(info.st_mode);
}

TEST(OpenBeneath, TheWalkAnswersAsOpenat2DoesForEveryPath) {
  if (!has_openat2()) GTEST_SKIP() << "there is no openat2 here";
  const Tree tree;
  tree.link("d", "in/to_d");
  tree.link("../f", "in/d/up");
  tree.link("../../out", "in/d/leave");
  tree.link("e/../../d/e/./f", "in/d/long");
  tree.link("/etc", "in/absolute");
  tree.link("loop", "in/loop");
  tree.link("nowhere", "in/dangling");
  tree.link("d/e/", "in/slash");
  tree.link("f/", "in/slash_file");
  const std::vector<std::string> components = {"d",    "e",        "f",    "to_d",     "up",    "leave",
                                               "long", "absolute", "loop", "dangling", "slash", "slash_file",
                                               ".",    "..",       "",     "none"};
  std::vector<std::string> paths = {"", "/", "/etc", "d/e/f", "d/../../in/f"};
  for (const auto& a : components) {
    paths.push_back(a);
    for (const auto& b : components) {
      paths.push_back(a + "/" + b);
      for (const auto& c : components) paths.push_back(a + "/" + b + "/" + c);
    }
  }
  for (const std::string& path : paths) {
    if (path.starts_with("/") || path.find('\0') != std::string::npos) continue;
    for (const Symlinks links : {Symlinks::kBeneath, Symlinks::kNone})
      for (const int flags : {O_PATH, O_RDONLY, O_PATH | O_DIRECTORY, O_PATH | O_NOFOLLOW,
                              O_RDONLY | O_NOFOLLOW, O_RDONLY | O_DIRECTORY, O_RDWR}) {
        const int at = tree.inside.get();
        ASSERT_EQ(outcome(PathResolution::kWalk, at, path, flags, links),
                  outcome(PathResolution::kOpenat2, at, path, flags, links))
            << "\"" << path << "\", flags " << flags << ", links " << static_cast<int>(links);
      }
  }
}

class Beneath : public testing::TestWithParam<PathResolution> {
 protected:
  void SetUp() override {
    if (GetParam() == PathResolution::kOpenat2 && !has_openat2()) GTEST_SKIP() << "there is no openat2 here";
  }
  HostResult<Fd> open(const std::string& path, int flags = O_RDONLY, Symlinks links = Symlinks::kBeneath) {
    return open_beneath(tree.inside.get(), path, flags, links, (flags & O_CREAT) != 0 ? 0600 : 0);
  }
  Errno error(const std::string& path, int flags = O_RDONLY, Symlinks links = Symlinks::kBeneath) {
    const auto fd = open(path, flags, links);
    return fd ? Errno{} : fd.error().code;
  }

  const PathResolutionForTesting resolution{GetParam()};
  Tree tree;
};

INSTANTIATE_TEST_SUITE_P(By, Beneath, testing::Values(PathResolution::kOpenat2, PathResolution::kWalk),
                         [](const auto& way) { return std::string(name_of(way.param)); });

TEST_P(Beneath, MakesFilesButNotThroughLinksThatLeadOut) {
  tree.link("made", "in/to_made");
  tree.link("../out/made", "in/leave");
  EXPECT_TRUE(open("new", O_RDWR | O_CREAT | O_EXCL));
  EXPECT_EQ(error("new", O_RDWR | O_CREAT | O_EXCL), Errno::kExists);
  EXPECT_TRUE(open("new", O_RDWR | O_CREAT));
  EXPECT_TRUE(open("to_made", O_RDWR | O_CREAT));
  EXPECT_TRUE(fs::exists(tree.root / "in/made"));
  EXPECT_EQ(error("to_made", O_RDWR | O_CREAT | O_EXCL), Errno::kExists);
  EXPECT_EQ(error("to_made", O_RDWR | O_CREAT, Symlinks::kNone), Errno::kAccess);
  EXPECT_EQ(error("leave", O_RDWR | O_CREAT), Errno::kAccess);
  EXPECT_FALSE(fs::exists(tree.root / "out/made"));
  struct stat info{};
  EXPECT_EQ(stat((tree.root / "in/new").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_P(Beneath, LinksAreCounted) {
  tree.link("f", "in/l0");
  for (int i = 1; i <= kMaxLinksFollowed; ++i)
    tree.link("l" + std::to_string(i - 1), "in/l" + std::to_string(i));
  EXPECT_TRUE(open("l" + std::to_string(kMaxLinksFollowed - 1)));  // this many, from l39 to l0
  EXPECT_EQ(error("l" + std::to_string(kMaxLinksFollowed)), Errno::kAccess);
  EXPECT_EQ(error("l0", O_RDONLY, Symlinks::kNone), Errno::kAccess);
}

// Tries all mounts of this machine, from the directory that contains each. (An emulator may show another directory
// as "/".)
TEST_P(Beneath, NothingOpensAMount) {
  std::ifstream mounts("/proc/self/mounts");
  int tried = 0;
  for (std::string device, point, rest; mounts >> device >> point && std::getline(mounts, rest);) {
    const fs::path path(point);
    const Fd above(::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat outer{}, inner{};
    const std::string name = path.filename().string();
    if (!above.valid() || name.empty() || fstat(above.get(), &outer) != 0 ||
        fstatat(above.get(), name.c_str(), &inner, AT_SYMLINK_NOFOLLOW) != 0 || outer.st_dev == inner.st_dev)
      continue;
    ++tried;
    for (const std::string& way : {name, name + "/.", "./" + name + "/../" + name}) {
      const auto fd = open_beneath(above.get(), way, O_PATH, Symlinks::kBeneath);
      ASSERT_FALSE(fd) << point;
      EXPECT_EQ(fd.error().code, Errno::kAccess) << point << ": " << fd.error().reason;
    }
  }
  if (tried == 0) GTEST_SKIP() << "nothing is mounted here";
}

TEST_P(Beneath, NoDescriptorIsLeftOpen) {
  tree.link("../d/e/f", "in/d/again");
  const auto count = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = count();
  for (const char* path : {"d/again", "d/e/../../none", "d/../../out/f", "d/e/f/x", "d/e", ""})
    (void)open(path);
  EXPECT_EQ(count(), before);
}

TEST(OpenByWalk, IsBoundedInDepthAndSteps) {
  const Tree tree;
  // Nested directories deeper than the walk keeps open, created without a path of that length.
  Fd at(open((tree.root / "in").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::string path;
  for (size_t i = 0; i <= kMaxWalkDepth + 1; ++i) {
    ASSERT_EQ(mkdirat(at.get(), "x", 0700), 0);
    at = Fd(openat(at.get(), "x", O_PATH | O_DIRECTORY | O_CLOEXEC));
    path += "x/";
    const auto opened = open_by_walk(tree.inside.get(), path, O_PATH, Symlinks::kNone, 0);
    ASSERT_EQ(opened.has_value(), i < kMaxWalkDepth) << i;
    if (!opened) {
      EXPECT_EQ(opened.error(), ENAMETOOLONG);
    }
  }
  // Links that multiply: each contains the previous one many times.
  std::string many;
  for (int i = 0; i < 500; ++i) many += "d/../";
  tree.link(many, "in/m0");
  tree.link("m0/" + many, "in/m1");
  for (int i = 2; i < 8; ++i) tree.link("m" + std::to_string(i - 1) + "/" + many, "in/m" + std::to_string(i));
  const auto opened = open_by_walk(tree.inside.get(), "m7", O_PATH, Symlinks::kBeneath, 0);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), ENAMETOOLONG);
}

// -- races -------------------------------------------------------------------------------

// Repeats an action in a separate thread, and counts.
class Meanwhile {
 public:
  explicit Meanwhile(std::function<void()> act)
      : thread_([this, act = std::move(act)] {
          while (!stop_) {
            act();
            ++times_;
          }
        }) {}
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;
  ~Meanwhile() {
    stop_ = true;
    thread_.join();
  }
  [[nodiscard]] int times() const { return times_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> times_{0};
  std::thread thread_;
};

// Rounds of a race, and of its competitor. A race also continues until both a success and a failure have occurred,
// so that it is meaningful on any machine.
constexpr int kRounds = 2'000;

class Race {
 public:
  explicit Race(std::function<void()> act) : meanwhile_(std::move(act)) {}
  [[nodiscard]] bool goes_on() {
    return ++rounds_ <= kRounds || meanwhile_.times() < kRounds || opened_ == 0 || refused_ == 0;
  }
  // The opened file must be inside.
  void expect_inside(const HostResult<Fd>& fd, std::string_view path) {
    ++(fd ? opened_ : refused_);
    if (fd) {
      ASSERT_EQ(text_of(*fd), "inside") << path;
    }
  }
  // The created files must be empty.
  void expect_nothing_in(const HostResult<Fd>& fd) {
    ++(fd ? opened_ : refused_);
    if (fd) {
      ASSERT_EQ(text_of(*fd), "");
    }
  }

 private:
  int rounds_ = 0, opened_ = 0, refused_ = 0;
  Meanwhile meanwhile_;
};

void exchange(const fs::path& a, const fs::path& b) {
  syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
}

// A directory with a link upwards is moved out and back during the walk: ".." leads back to where the walk came
// from, never to the directory's current parent.
TEST_P(Beneath, ADirectoryThatIsMovedOutDuringTheWalkTakesNoOneAlongConcurrently) {
  tree.link("../../f", "in/d/e/up");
  tree.link("e/../../f", "in/d/up");
  Race race([&] {
    rename((tree.root / "in/d/e").c_str(), (tree.root / "out/moved").c_str());
    rename((tree.root / "out/moved").c_str(), (tree.root / "in/d/e").c_str());
  });
  while (race.goes_on())
    for (const char* path : {"d/e/up", "d/up", "d/e/../../f", "d/e/f", "d/e/../../../out/f"})
      race.expect_inside(open(path), path);
}

TEST_P(Beneath, ADirectoryThatBecomesALinkDuringTheWalkLeadsNowhereConcurrently) {
  tree.link("../../out", "in/d/out");
  Race race([&] { exchange(tree.root / "in/d/e", tree.root / "in/d/out"); });
  while (race.goes_on())
    for (const Symlinks links : {Symlinks::kBeneath, Symlinks::kNone})
      race.expect_inside(open("d/e/f", O_RDONLY, links), "d/e/f");
}

TEST_P(Beneath, AFileThatBecomesALinkDuringTheWalkLeadsNowhereConcurrently) {
  tree.link("../../out/f", "in/d/out");
  tree.link("/etc/passwd", "in/d/absolute");
  Race race([&] {
    exchange(tree.root / "in/d/f", tree.root / "in/d/out");
    exchange(tree.root / "in/d/f", tree.root / "in/d/absolute");
  });
  while (race.goes_on())
    for (const int flags : {O_RDONLY, O_RDWR, O_RDWR | O_CREAT, O_RDONLY | O_NOFOLLOW})
      race.expect_inside(open("d/f", flags), "d/f");
}

TEST_P(Beneath, ALinkWhoseTargetChangesDuringTheWalkLeadsNowhereConcurrently) {
  tree.link("d/e/f", "in/l");
  tree.link("../out/f", "in/m");
  Race race([&] { exchange(tree.root / "in/l", tree.root / "in/m"); });
  while (race.goes_on())
    for (const char* path : {"l", "m"}) race.expect_inside(open(path), path);
}

TEST_P(Beneath, WhatIsMadeDuringARaceIsMadeInsideConcurrently) {
  tree.link("../../out", "in/d/out");
  Race race([&] { exchange(tree.root / "in/d/e", tree.root / "in/d/out"); });
  for (int i = 0; race.goes_on(); ++i)
    race.expect_nothing_in(open("d/e/made" + std::to_string(i), O_RDWR | O_CREAT | O_EXCL));
  EXPECT_EQ(std::distance(fs::directory_iterator(tree.root / "out"), fs::directory_iterator()), 2);
}

}  // namespace
}  // namespace membrane::host
