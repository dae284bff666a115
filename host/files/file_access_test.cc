// Files under grants, on the real file system: granted operations work, and attempts to escape fail.
#include "host/files/file_access.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace membrane::host {
namespace {

namespace fs = std::filesystem;
using policy::Budget;
using policy::FsGrant;
using policy::FsMode;
using policy::Resource;

// A separate directory for each test: inside/ is granted, outside/ is not. Each test runs with both ways to open.
class Files : public testing::TestWithParam<PathResolution> {
 public:
  ~Files() override { fs::remove_all(root); }

 protected:
  Files() {
    // A file system in memory is enough, and faster for tests that create thousands of files.
    std::string name =
        (fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp") + std::string("/membrane_files_XXXXXX");
    root = mkdtemp(name.data());
    fs::create_directory(root / "inside");
    fs::create_directory(root / "outside");
    put("outside/secret", "the secret");
    put("inside/a.txt", "hello");
  }
  void SetUp() override {
    if (GetParam() == PathResolution::kOpenat2 && !has_openat2()) GTEST_SKIP() << "there is no openat2 here";
  }

  void put(const std::string& name, const std::string& text) { std::ofstream(root / name) << text; }
  [[nodiscard]] std::string got(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(root / name).rdbuf();
    return out.str();
  }
  void link(const std::string& target, const std::string& name) { fs::create_symlink(target, root / name); }

  FsGrant& allow(const std::string& guest, const std::string& host, FsMode mode) {
    FsGrant grant;
    grant.guest = guest;
    grant.host = host.starts_with('/') ? host : (root / host).string();
    grant.mode = mode;
    return grants.emplace_back(grant);
  }
  FileAccess& files() {
    if (!access) {
      auto opened = FileAccess::open(grants, budget);
      if (!opened) ADD_FAILURE() << opened.error().reason;
      access = std::move(*opened);
    }
    return *access;
  }
  std::vector<std::string> names(const std::string& path) {
    const auto list = files().list(path);
    EXPECT_TRUE(list) << list.error().reason;
    std::vector<std::string> out;
    if (list)
      for (const FileInfo& info : *list) out.push_back(info.name + (info.is_directory ? "/" : ""));
    return out;
  }
  // Only `expected` was created outside.
  void expect_nothing_outside() {
    EXPECT_EQ(got("outside/secret"), "the secret");
    EXPECT_EQ(std::distance(fs::directory_iterator(root / "outside"), fs::directory_iterator()), 1);
  }

  const PathResolutionForTesting resolution{GetParam()};
  fs::path root;
  std::vector<FsGrant> grants;
  Budget budget;
  std::unique_ptr<FileAccess> access;
};

INSTANTIATE_TEST_SUITE_P(By, Files, testing::Values(PathResolution::kOpenat2, PathResolution::kWalk),
                         [](const auto& way) { return std::string(name_of(way.param)); });

template <typename T>
void expect_refused(const HostResult<T>& result, Errno code, std::string_view reason) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code) << name_of(result.error().code) << ": " << result.error().reason;
  EXPECT_NE(result.error().reason.find(reason), std::string::npos) << result.error().reason;
}

using Names = std::vector<std::string>;
constexpr auto kReplace = FileMode::kCreateOrReplace;
constexpr auto kAppend = FileMode::kAppend;

// -- granted operations ---------------------------------------------------------------

TEST_P(Files, ReadsWhatIsGranted) {
  allow("/data", "inside", FsMode::kRead);
  EXPECT_EQ(files().read("/data/a.txt"), "hello");
  EXPECT_EQ(files().read("//data/./a.txt/"), "hello");
  put("inside/empty", "");
  EXPECT_EQ(files().read("/data/empty"), "");
  put("inside/big", std::string(200'000, 'x'));
  EXPECT_EQ(files().read("/data/big"), std::string(200'000, 'x'));
}

TEST_P(Files, WritesReplacesAppendsAndRemoves) {
  allow("/out", "inside", FsMode::kWrite);
  EXPECT_TRUE(files().write("/out/new", "one", kReplace));
  EXPECT_TRUE(files().write("/out/new", "two", kReplace));
  EXPECT_EQ(got("inside/new"), "two");
  EXPECT_TRUE(files().write("/out/new", "+three", kAppend));
  EXPECT_EQ(got("inside/new"), "two+three");
  EXPECT_TRUE(files().write("/out/log", "first", kAppend));
  EXPECT_EQ(files().read("/out/log"), "first");
  EXPECT_TRUE(files().remove("/out/new"));
  expect_refused(files().read("/out/new"), Errno::kNotFound, "/out/new does not exist");
  EXPECT_EQ(names("/out"), (Names{"a.txt", "log"}));
}

TEST_P(Files, MakesMissingDirectoriesAndRemovesEmptyOnes) {
  allow("/out", "inside", FsMode::kWrite);
  EXPECT_TRUE(files().write("/out/a/b/c.txt", "deep", kReplace));
  EXPECT_EQ(got("inside/a/b/c.txt"), "deep");
  expect_refused(files().remove("/out/a/b"), Errno::kInvalid, "not empty");
  EXPECT_TRUE(files().remove("/out/a/b/c.txt"));
  EXPECT_TRUE(files().remove("/out/a/b"));
}

TEST_P(Files, KeepsTheModeOfAReplacedFile) {
  allow("/out", "inside", FsMode::kWrite);
  fs::permissions(root / "inside/a.txt", fs::perms::owner_all);
  EXPECT_TRUE(files().write("/out/a.txt", "x", kReplace));
  EXPECT_EQ(fs::status(root / "inside/a.txt").permissions(), fs::perms::owner_all);
}

TEST_P(Files, ListsSortedAndTellsSizes) {
  allow("/data", "inside", FsMode::kRead);
  fs::create_directory(root / "inside/z");
  put("inside/B", "12");
  EXPECT_EQ(names("/data"), (Names{"B", "a.txt", "z/"}));
  EXPECT_EQ(files().list("/data")->at(0).size_bytes, 2u);
  EXPECT_EQ(files().stat("/data/a.txt")->size_bytes, 5u);
  EXPECT_TRUE(files().stat("/data")->is_directory);
  EXPECT_EQ(files().stat("/data/a.txt")->name, "a.txt");
}

TEST_P(Files, ShowsTheGuestDirectoriesAboveGrants) {
  allow("/deep/er/data", "inside", FsMode::kRead);
  allow("/out", "outside", FsMode::kWrite);
  EXPECT_EQ(names("/"), (Names{"deep/", "out/"}));
  EXPECT_EQ(names("/deep"), (Names{"er/"}));
  EXPECT_TRUE(files().stat("/deep")->is_directory);
  expect_refused(files().read("/deep"), Errno::kIsDir, "is a directory");
  expect_refused(files().list("/etc"), Errno::kAccess, "No grant");
}

TEST_P(Files, TheLongestGrantRules) {
  fs::create_directory(root / "inside/ro");
  put("inside/ro/x", "kept");
  allow("/w", "inside", FsMode::kWrite);
  allow("/w/ro", "inside/ro", FsMode::kRead);
  EXPECT_TRUE(files().write("/w/x", "y", kReplace));
  expect_refused(files().write("/w/ro/x", "y", kReplace), Errno::kAccess, "reading only");
  expect_refused(files().remove("/w/ro/x"), Errno::kAccess, "reading only");
  expect_refused(files().remove("/w/ro"), Errno::kAccess, "reading only");
  EXPECT_EQ(got("inside/ro/x"), "kept");
}

TEST_P(Files, AGrantedNameIsNotAPrefixOfOthers) {
  allow("/data", "inside", FsMode::kRead);
  expect_refused(files().read("/data2/a.txt"), Errno::kAccess, "No grant");
  expect_refused(files().read("/dat"), Errno::kAccess, "No grant");
}

TEST_P(Files, GrantsASingleFile) {
  put("inside/b.txt", "other");
  allow("/notes.txt", "inside/a.txt", FsMode::kWrite);
  EXPECT_EQ(files().read("/notes.txt"), "hello");
  EXPECT_TRUE(files().write("/notes.txt", "new", kReplace));
  EXPECT_EQ(got("inside/a.txt"), "new");
  EXPECT_EQ(names("/"), (Names{"notes.txt"}));
  expect_refused(files().read("/b.txt"), Errno::kAccess, "No grant");
  expect_refused(files().read("/notes.txt/b.txt"), Errno::kNotDir, "is a file");
  expect_refused(files().remove("/notes.txt"), Errno::kAccess, "is itself granted");
  fs::remove(root / "inside/a.txt");
  link("../outside/secret", "inside/a.txt");
  expect_refused(files().read("/notes.txt"), Errno::kAccess, "");
  expect_refused(files().write("/notes.txt", "x", kReplace), Errno::kAccess, "");
  expect_nothing_outside();
}

TEST_P(Files, ReadingFollowsLinksThatStayBeneath) {
  fs::create_directory(root / "inside/sub");
  link("sub", "inside/dirlink");
  link("../a.txt", "inside/sub/filelink");
  allow("/data", "inside", FsMode::kRead);
  EXPECT_EQ(files().read("/data/dirlink/filelink"), "hello");
  EXPECT_EQ(names("/data"), (Names{"a.txt", "dirlink/", "sub/"}));
}

TEST_P(Files, SaysWhichFlagWouldAllowIt) {
  allow("/data", "inside", FsMode::kRead);
  EXPECT_EQ(files().read("/etc/passwd").error().grant, "--allow fs:read:HOST_DIRECTORY:/etc");
  EXPECT_EQ(files().write("/data/x", "", kReplace).error().grant,
            "--allow fs:write:" + (root / "inside").string() + ":/data");
}

TEST_P(Files, SaysWhenAGrantedPathDoesNotExist) {
  allow("/data", "nowhere", FsMode::kRead);
  const auto opened = FileAccess::open(grants, budget);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errno::kNotFound);
}

// -- paths that try to climb out ------------------------------------------------------

TEST_P(Files, RefusesDotDot) {
  allow("/data", "inside", FsMode::kWrite);
  for (const char* path : {"/data/../outside/secret", "/data/..", "/..", "/data/x/../../outside/secret",
                           "/data/./../outside/secret", "/data//..//outside/secret", "/../data/a.txt"}) {
    expect_refused(files().read(path), Errno::kInvalid, "\"..\"");
    expect_refused(files().write(path, "x", kReplace), Errno::kInvalid, "\"..\"");
    expect_refused(files().list(path), Errno::kInvalid, "\"..\"");
    expect_refused(files().stat(path), Errno::kInvalid, "\"..\"");
    expect_refused(files().remove(path), Errno::kInvalid, "\"..\"");
  }
  expect_nothing_outside();
}

TEST_P(Files, NothingElseMeansDotDot) {
  allow("/data", "inside", FsMode::kWrite);
  for (const char* path :
       {"/data/%2e%2e/outside/secret", "/data/..\\outside\\secret", "/data/.../outside/secret",
        "/data/.. /outside/secret", "/data/\xef\xbc\x8e\xef\xbc\x8e/outside/secret", "/data/~/secret"})
    expect_refused(files().read(path), Errno::kNotFound, "does not exist");
}

TEST_P(Files, RefusesMalformedPaths) {
  allow("/data", "inside", FsMode::kRead);
  for (const std::string& path : {std::string(""), std::string("data/a.txt"), std::string("a.txt"),
                                  std::string("/data/a.txt\0.png", 16), std::string("/data/\xff"),
                                  "/data/" + std::string(256, 'a'), "/data/" + std::string(5000, 'a')})
    EXPECT_FALSE(files().read(path)) << path;
  std::string deep = "/data";
  for (int i = 0; i < 100; ++i) deep += "/a";
  expect_refused(files().read(deep), Errno::kInvalid, "too many parts");
  expect_refused(files().read(std::string_view("/data/a.txt\0x", 13)), Errno::kInvalid, "NUL");
}

TEST_P(Files, RefusesWhatIsNotGranted) {
  allow("/data", "inside", FsMode::kRead);
  for (const char* path : {"/etc/passwd", "/proc/self/environ", "/dev/mem", "/secret", "/"}) {
    const auto result = files().read(path);
    ASSERT_FALSE(result) << path;
    EXPECT_TRUE(result.error().code == Errno::kAccess || result.error().code == Errno::kIsDir);
  }
  expect_refused(files().write("/data/a.txt", "x", kReplace), Errno::kAccess, "reading only");
  expect_refused(files().write("/data/new", "x", kAppend), Errno::kAccess, "reading only");
  expect_refused(files().remove("/data/a.txt"), Errno::kAccess, "reading only");
  EXPECT_EQ(got("inside/a.txt"), "hello");
}

TEST_P(Files, WithoutGrantsThereIsNothing) {
  for (const char* path : {"/", "/etc", "/tmp"}) {
    expect_refused(files().list(path), Errno::kAccess, "No grant");
    expect_refused(files().stat(path), Errno::kAccess, "No grant");
    expect_refused(files().write(path, "", kReplace), Errno::kAccess, "No grant");
  }
}

// -- symbolic links ----------------------------------------------------------------------

TEST_P(Files, RefusesAbsoluteLinks) {
  link((root / "outside/secret").string(), "inside/abs");
  link((root / "inside/a.txt").string(), "inside/abs_inside");  // even one that would lead back in
  link("/etc", "inside/etc");
  allow("/data", "inside", FsMode::kRead);
  for (const char* path : {"/data/abs", "/data/abs_inside", "/data/etc/passwd"})
    expect_refused(files().read(path), Errno::kAccess, "leads out of the granted directory");
  EXPECT_EQ(names("/data"), Names{"a.txt"});
}

TEST_P(Files, RefusesRelativeLinksThatClimbOut) {
  link("../outside/secret", "inside/rel");
  link("..", "inside/up");
  fs::create_directory(root / "inside/sub");
  link("../../outside", "inside/sub/out");
  allow("/data", "inside", FsMode::kRead);
  for (const char* path : {"/data/rel", "/data/up/outside/secret", "/data/sub/out/secret"})
    expect_refused(files().read(path), Errno::kAccess, "leads out of the granted directory");
  for (const char* path : {"/data/up", "/data/sub/out"})
    expect_refused(files().list(path), Errno::kAccess, "leads out");
  expect_refused(files().stat("/data/rel"), Errno::kAccess, "leads out");
}

TEST_P(Files, RefusesLoopsOfLinks) {
  link("b", "inside/a");
  link("a", "inside/b");
  allow("/data", "inside", FsMode::kRead);
  expect_refused(files().read("/data/a"), Errno::kAccess, "symbolic link");
}

TEST_P(Files, WritingFollowsNoLinkAndReplacesNone) {
  link("../outside/secret", "inside/out");
  link("../outside/created", "inside/dangling");
  link("a.txt", "inside/within");
  allow("/w", "inside", FsMode::kWrite);
  for (const char* path : {"/w/out", "/w/dangling", "/w/within"}) {
    expect_refused(files().write(path, "x", kReplace), Errno::kAccess, "symbolic link");
    expect_refused(files().write(path, "x", kAppend), Errno::kAccess, "symbolic link");
    expect_refused(files().remove(path), Errno::kAccess, "neither a regular file nor a directory");
  }
  expect_nothing_outside();
  EXPECT_EQ(got("inside/a.txt"), "hello");
  EXPECT_TRUE(fs::is_symlink(root / "inside/out"));
}

TEST_P(Files, WritingFollowsNoLinkInTheDirectoriesEither) {
  link("../outside", "inside/out");
  fs::create_directory(root / "inside/real");
  link("real", "inside/alias");
  allow("/w", "inside", FsMode::kWrite);
  for (const char* path : {"/w/out/new", "/w/out/secret", "/w/alias/new", "/w/out/sub/new"}) {
    expect_refused(files().write(path, "x", kReplace), Errno::kAccess, "symbolic link");
    expect_refused(files().write(path, "x", kAppend), Errno::kAccess, "symbolic link");
  }
  expect_refused(files().remove("/w/out/secret"), Errno::kAccess, "symbolic link");
  expect_nothing_outside();
}

TEST_P(Files, WritingFollowsLinksWhereTheGrantHasThem) {
  put("inside/file", "old");
  fs::create_directories(root / "inside/d/e");
  link("file", "inside/l");
  link("d/e", "inside/dir");
  link("../l/../file", "inside/d/odd");
  link("new", "inside/dangling");
  link("../outside/secret", "inside/out");
  link((root / "inside/file").string(), "inside/absolute");
  link("again", "inside/again");
  allow("/w", "inside", FsMode::kWrite).links = true;
  EXPECT_TRUE(files().write("/w/l", "one", FileMode::kCreateOrReplace));
  EXPECT_EQ(got("inside/file"), "one");
  EXPECT_TRUE(files().write("/w/l", "+", FileMode::kAppend));
  EXPECT_EQ(got("inside/file"), "one+");
  EXPECT_TRUE(fs::is_symlink(root / "inside/l"));
  EXPECT_TRUE(files().write("/w/dir/x", "x", FileMode::kCreateOrReplace));
  EXPECT_EQ(got("inside/d/e/x"), "x");
  EXPECT_TRUE(files().write("/w/dangling", "made", FileMode::kCreateOrReplace));
  EXPECT_EQ(got("inside/new"), "made");
  for (const char* path : {"/w/out", "/w/absolute", "/w/again", "/w/again/x"})
    EXPECT_EQ(files().write(path, "x", FileMode::kCreateOrReplace).error().code, Errno::kAccess) << path;
  EXPECT_TRUE(files().remove("/w/l"));
  EXPECT_EQ(got("inside/file"), "one+");
  EXPECT_TRUE(files().remove("/w/dir/x"));
  EXPECT_EQ(got("outside/secret"), "the secret");
}

TEST_P(Files, ALinkIsWrittenUnderTheRulesOfTheGrantThatItLeadsTo) {
  fs::create_directory(root / "inside/ro");
  put("inside/ro/x", "kept");
  link("ro/x", "inside/l");
  allow("/w", "inside", FsMode::kWrite).links = true;
  allow("/w/ro", "inside/ro", FsMode::kRead);
  EXPECT_EQ(files().write("/w/l", "x", FileMode::kCreateOrReplace).error().code, Errno::kAccess);
  EXPECT_EQ(got("inside/ro/x"), "kept");
}

TEST_P(Files, ALinkDoesNotReachANestedReadGrant) {
  fs::create_directory(root / "inside/ro");
  put("inside/ro/x", "kept");
  link("ro", "inside/alias");
  allow("/w", "inside", FsMode::kWrite);
  allow("/w/ro", "inside/ro", FsMode::kRead);
  expect_refused(files().write("/w/alias/x", "changed", kReplace), Errno::kAccess, "symbolic link");
  expect_refused(files().write("/w/alias/x", "changed", kAppend), Errno::kAccess, "symbolic link");
  EXPECT_EQ(got("inside/ro/x"), "kept");
}

constexpr int kRounds = 1'000;  // for a race: enough that each step of a call meets a swap many times

// Swaps two names atomically and repeatedly, while the test runs.
class Swapper {
 public:
  Swapper(const fs::path& a, const fs::path& b)
      : thread_([this, a, b] {
          while (!stop_) {
            syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
            ++swaps_;
          }
        }) {}
  ~Swapper() {
    stop_ = true;
    thread_.join();
  }
  [[nodiscard]] int swaps() const { return swaps_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> swaps_{0};
  std::thread thread_;
};

TEST_P(Files, ADirectorySwappedForALinkDuringAReadNeverLeadsOut) {
  fs::create_directory(root / "inside/sub");
  put("inside/sub/secret", "harmless");
  link("../outside", "inside/sub2");
  allow("/data", "inside", FsMode::kRead);
  files();
  const Swapper swapper(root / "inside/sub", root / "inside/sub2");
  for (int i = 0; i < kRounds || swapper.swaps() < kRounds; ++i) {
    const auto bytes = files().read("/data/sub/secret");
    ASSERT_EQ(bytes.value_or("harmless"), "harmless");
  }
}

TEST_P(Files, AFileSwappedForALinkDuringAReadNeverLeadsOut) {
  put("inside/f", "harmless");
  link("../outside/secret", "inside/f2");
  allow("/data", "inside", FsMode::kRead);
  files();
  const Swapper swapper(root / "inside/f", root / "inside/f2");
  for (int i = 0; i < kRounds || swapper.swaps() < kRounds; ++i) {
    const auto bytes = files().read("/data/f");
    ASSERT_EQ(bytes.value_or("harmless"), "harmless");
  }
}

TEST_P(Files, ADirectorySwappedForALinkDuringAWriteNeverLeadsOut) {
  fs::create_directory(root / "inside/sub");
  link("../outside", "inside/sub2");
  allow("/w", "inside", FsMode::kWrite).max_files = 1'000'000;
  files();
  const Swapper swapper(root / "inside/sub", root / "inside/sub2");
  for (int i = 0; i < kRounds || swapper.swaps() < kRounds; ++i) {
    (void)files().write("/w/sub/secret", "overwritten", kReplace);
    (void)files().write("/w/sub/secret", "overwritten", kAppend);
    (void)files().write("/w/sub/deeper/new", "overwritten", kReplace);
    (void)files().remove("/w/sub/secret");
  }
  expect_nothing_outside();
}

TEST_P(Files, AFileSwappedForALinkDuringAWriteNeverLeadsOut) {
  put("inside/f", "harmless");
  link("../outside/secret", "inside/f2");
  allow("/w", "inside", FsMode::kWrite).max_files = 1'000'000;
  files();
  const Swapper swapper(root / "inside/f", root / "inside/f2");
  for (int i = 0; i < kRounds || swapper.swaps() < kRounds; ++i) {
    (void)files().write("/w/f", "overwritten", kAppend);
    (void)files().write("/w/f", "overwritten", kReplace);
  }
  expect_nothing_outside();
}

TEST_P(Files, ADirectorySwappedForALinkDuringAListNeverLeadsOut) {
  fs::create_directory(root / "inside/sub");
  put("inside/sub/harmless", "");
  link("../outside", "inside/sub2");
  allow("/data", "inside", FsMode::kRead);
  files();
  const Swapper swapper(root / "inside/sub", root / "inside/sub2");
  for (int i = 0; i < kRounds || swapper.swaps() < kRounds; ++i) {
    const auto list = files().list("/data/sub");
    for (const FileInfo& info : list.value_or(std::vector<FileInfo>{})) ASSERT_EQ(info.name, "harmless");
  }
}

// -- special files -----------------------------------------------------------------------

TEST_P(Files, RefusesMagicLinks) {
  allow("/p", "/proc/self", FsMode::kRead);
  for (const char* path : {"/p/root/etc/passwd", "/p/cwd", "/p/exe", "/p/fd/0", "/p/ns/net"}) {
    const auto result = files().read(path);
    ASSERT_FALSE(result) << path;
    EXPECT_EQ(result.error().code, Errno::kAccess) << path << result.error().reason;
  }
}

TEST_P(Files, LinksIntoProcAreNotFollowed) {
  link("/proc/self/fd/0", "inside/fd");
  link("/proc/self/root", "inside/root");
  allow("/data", "inside", FsMode::kRead);
  expect_refused(files().read("/data/fd"), Errno::kAccess, "leads out");
  expect_refused(files().read("/data/root/etc/passwd"), Errno::kAccess, "leads out");
}

TEST_P(Files, MountsAreNotPartOfAGrant) {
  allow("/all", "/", FsMode::kRead);
  for (const char* path : {"/all/proc/self/environ", "/all/proc/version", "/all/proc/sys/kernel/hostname"})
    expect_refused(files().read(path), Errno::kAccess, "leads out of the granted directory");
}

TEST_P(Files, RefusesFifosWithoutWaiting) {
  ASSERT_EQ(mkfifo((root / "inside/fifo").c_str(), 0600), 0);
  allow("/w", "inside", FsMode::kWrite);
  expect_refused(files().read("/w/fifo"), Errno::kAccess, "neither a regular file nor a directory");
  expect_refused(files().write("/w/fifo", "x", kReplace), Errno::kAccess, "neither");
  expect_refused(files().write("/w/fifo", "x", kAppend), Errno::kAccess, "neither");
  expect_refused(files().stat("/w/fifo"), Errno::kAccess, "neither");
  expect_refused(files().remove("/w/fifo"), Errno::kAccess, "neither");
  EXPECT_EQ(names("/w"), Names{"a.txt"});
}

TEST_P(Files, RefusesSockets) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_GE(fd, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = (root / "inside/sock").string();
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  allow("/w", "inside", FsMode::kWrite);
  expect_refused(files().read("/w/sock"), Errno::kAccess, "neither");
  expect_refused(files().write("/w/sock", "x", kReplace), Errno::kAccess, "neither");
  close(fd);
}

TEST_P(Files, RefusesDevices) {
  allow("/dev", "/dev", FsMode::kWrite);
  for (const char* path : {"/dev/zero", "/dev/null", "/dev/random"}) {
    expect_refused(files().read(path), Errno::kAccess, "");
    expect_refused(files().write(path, "x", kAppend), Errno::kAccess, "");
  }
}

TEST_P(Files, ADeviceCannotBeGrantedItself) {
  allow("/zero", "/dev/zero", FsMode::kRead);
  EXPECT_EQ(FileAccess::open(grants, budget).error().code, Errno::kAccess);
}

TEST_P(Files, AHardLinkKeepsItsContent) {
  fs::create_hard_link(root / "outside/secret", root / "inside/hard");
  allow("/w", "inside", FsMode::kWrite);
  expect_refused(files().write("/w/hard", "+more", kAppend), Errno::kAccess, "another hard link");
  EXPECT_EQ(got("outside/secret"), "the secret");
  EXPECT_TRUE(files().write("/w/hard", "mine", kReplace));
  EXPECT_EQ(got("inside/hard"), "mine");
  expect_nothing_outside();
}

TEST_P(Files, DirectoriesAreNotFiles) {
  fs::create_directory(root / "inside/d");
  allow("/w", "inside", FsMode::kWrite);
  expect_refused(files().read("/w/d"), Errno::kIsDir, "is a directory");
  expect_refused(files().read("/w"), Errno::kIsDir, "is a directory");
  expect_refused(files().write("/w/d", "x", kReplace), Errno::kIsDir, "is a directory");
  expect_refused(files().write("/w/d", "x", kAppend), Errno::kIsDir, "is a directory");
  expect_refused(files().write("/w", "x", kReplace), Errno::kIsDir, "is a directory");
  expect_refused(files().remove("/w"), Errno::kAccess, "is itself granted");
  expect_refused(files().list("/w/a.txt"), Errno::kNotDir, "");
  expect_refused(files().write("/w/a.txt/x", "x", kReplace), Errno::kNotDir, "");
  expect_refused(files().read("/w/a.txt/x"), Errno::kNotDir, "");
}

TEST_P(Files, NamesThatAreNotUtf8AreLeftOut) {
  put("inside/\xff\xfe", "");
  allow("/data", "inside", FsMode::kRead);
  EXPECT_EQ(names("/data"), Names{"a.txt"});
}

// -- quotas ------------------------------------------------------------------------------

TEST_P(Files, RefusesToReadWhatIsTooLarge) {
  put("inside/big", std::string(101, 'x'));
  put("inside/fits", std::string(100, 'x'));
  allow("/data", "inside", FsMode::kRead).max_file_bytes = 100;
  EXPECT_TRUE(files().read("/data/fits"));
  expect_refused(files().read("/data/big"), Errno::kTooBig, "max_file");
}

TEST_P(Files, FileSizesAreBoundedExactly) {
  allow("/w", "inside", FsMode::kWrite).max_file_bytes = 10;
  EXPECT_TRUE(files().write("/w/f", "0123456789", kReplace));
  expect_refused(files().write("/w/f", "0123456789X", kReplace), Errno::kTooBig, "max_file");
  expect_refused(files().write("/w/f", "X", kAppend), Errno::kTooBig, "max_file");
  EXPECT_TRUE(files().write("/w/f", "", kAppend));
  EXPECT_EQ(got("inside/f"), "0123456789");
}

TEST_P(Files, TheBytesOfARunAreBoundedExactly) {
  allow("/w", "inside", FsMode::kWrite).max_total_bytes = 10;
  EXPECT_TRUE(files().write("/w/f", "01234", kReplace));
  EXPECT_TRUE(files().write("/w/f", "5678", kAppend));
  expect_refused(files().write("/w/g", "XX", kReplace), Errno::kQuota, "max_total");
  EXPECT_TRUE(files().remove("/w/f"));
  expect_refused(files().write("/w/g", "XX", kReplace), Errno::kQuota, "max_total");
  EXPECT_TRUE(files().write("/w/g", "9", kReplace));
  expect_refused(files().write("/w/g", "X", kAppend), Errno::kQuota, "max_total");
}

TEST_P(Files, TheFilesOfARunAreBoundedExactlyAndDirectoriesCount) {
  allow("/w", "inside", FsMode::kWrite).max_files = 3;
  expect_refused(files().write("/w/a/b/c/f", "x", kReplace), Errno::kQuota, "max_files");
  EXPECT_FALSE(fs::exists(root / "inside/a"));  // nothing was started
  EXPECT_TRUE(files().write("/w/a/b/f", "x", kReplace));
  EXPECT_TRUE(files().write("/w/a/b/f", "y", kReplace));
  EXPECT_TRUE(files().write("/w/a.txt", "y", kReplace));
  expect_refused(files().write("/w/g", "x", kReplace), Errno::kQuota, "max_files");
  EXPECT_TRUE(files().remove("/w/a/b/f"));
  expect_refused(files().write("/w/a/b/f", "x", kAppend), Errno::kQuota, "max_files");
}

TEST_P(Files, TheBudgetIsTakenExactlyAndGivenBackOnFailure) {
  allow("/w", "inside", FsMode::kWrite);
  budget.set(Resource::kBytesIn, 9);
  budget.set(Resource::kBytesOut, 4);
  EXPECT_TRUE(files().read("/w/a.txt"));
  EXPECT_EQ(budget.left(Resource::kBytesIn), 4u);
  expect_refused(files().read("/w/a.txt"), Errno::kBudget, "bytes from the world");
  EXPECT_EQ(budget.left(Resource::kBytesIn), 4u);
  expect_refused(files().write("/w/f", "12345", kReplace), Errno::kBudget, "bytes to the world");
  expect_refused(files().write("/w/a.txt/f", "1234", kReplace), Errno::kNotDir, "");
  EXPECT_EQ(budget.left(Resource::kBytesOut), 4u);
  EXPECT_TRUE(files().write("/w/f", "1234", kReplace));
  EXPECT_EQ(budget.left(Resource::kBytesOut), 0u);
}

TEST_P(Files, ListsAreBounded) {
  for (size_t i = 0; i <= FileAccess::kMaxListEntries; ++i)
    close(open((root / "inside" / std::to_string(i)).c_str(), O_CREAT | O_WRONLY, 0600));
  allow("/data", "inside", FsMode::kRead);
  expect_refused(files().list("/data"), Errno::kTooBig, "entries");
}

TEST_P(Files, NoTemporaryFileIsLeftBehind) {
  allow("/w", "inside", FsMode::kWrite);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(files().write("/w/f", "x", kReplace));
  EXPECT_EQ(names("/w"), (Names{"a.txt", "f"}));
}

TEST_P(Files, NoDescriptorIsLeftOpen) {
  allow("/w", "inside", FsMode::kWrite);
  files();
  const auto count = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = count();
  for (int i = 0; i < 50; ++i) {
    (void)files().read("/w/a.txt");
    (void)files().read("/w/none");
    (void)files().write("/w/x/y", "z", kReplace);
    (void)files().write("/w/x/y", "z", kAppend);
    (void)files().list("/w");
    (void)files().stat("/w/x");
    (void)files().remove("/w/x/y");
  }
  EXPECT_EQ(count(), before);
}

// Refuses system calls like a container's seccomp profile: all that this process makes from now on.
bool refuse_calls(std::initializer_list<unsigned> numbers, unsigned error) {
  std::vector<sock_filter> code = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const unsigned number : numbers) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// In a separate process: opening uses the walk, which reads what is granted and nothing else.
bool walks_where_calls_are_refused(std::initializer_list<unsigned> numbers, unsigned error) {
  std::string name = "/tmp/membrane_files_XXXXXX";
  const fs::path root = mkdtemp(name.data());
  std::ofstream(root / "a") << "hello";
  fs::create_symlink("/etc/passwd", root / "out");
  FsGrant grant;
  grant.guest = "/data";
  grant.host = root.string();
  Budget budget;
  bool walks = refuse_calls(numbers, error) && path_resolution() == PathResolution::kWalk;
  const auto opened = FileAccess::open({grant}, budget);
  walks = walks && opened && (*opened)->read("/data/a") == "hello";
  walks = walks && (*opened)->read("/data/out").error().code == Errno::kAccess;
  fs::remove_all(root);
  return walks;
}

TEST(FilesDeathTest, WhereThereIsNoOpenat2AWalkDoesTheSame) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto code = [](std::initializer_list<unsigned> numbers, unsigned error) {
    return walks_where_calls_are_refused(numbers, error) ? 0 : 1;
  };
  EXPECT_EXIT(_exit(code({SYS_openat2}, ENOSYS)), testing::ExitedWithCode(0), "") << "an old kernel";
  EXPECT_EXIT(_exit(code({SYS_openat2}, EPERM)), testing::ExitedWithCode(0), "") << "an old seccomp profile";
  EXPECT_EXIT(_exit(code({SYS_openat2, SYS_statx}, ENOSYS)), testing::ExitedWithCode(0), "")
      << "no statx either";
  EXPECT_EXIT(_exit(code({SYS_openat2, SYS_statx}, EPERM)), testing::ExitedWithCode(0), "")
      << "no statx either";
}

}  // namespace
}  // namespace membrane::host
