#include "host/files/permissions.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace membrane::host {
namespace {

namespace fs = std::filesystem;
using policy::FsMode;

class Permissions : public testing::Test {
 public:
  ~Permissions() override { fs::remove_all(root); }

 protected:
  Permissions() {
    std::string name = testing::TempDir() + "membrane_permissions_XXXXXX";
    root = mkdtemp(name.data());
    std::ofstream(root / "a") << "hello";
    fs::permissions(root / "a", fs::perms(0644));
  }
  std::unique_ptr<Roots> roots(FsMode mode) const {
    policy::FsGrant grant;
    grant.guest = "/w";
    grant.host = root.string();
    grant.mode = mode;
    grant.links = true;
    return Roots::open({grant}).value();
  }
  [[nodiscard]] uint32_t there(const char* name) const {
    return static_cast<uint32_t>(fs::status(root / name).permissions());
  }

  fs::path root;
};

TEST_F(Permissions, AreSetButLetNobodyElseWrite) {
  const auto all = roots(FsMode::kWrite);
  EXPECT_EQ(permissions_of(*all, "/w/a").value(), 0644u);
  EXPECT_TRUE(set_permissions(*all, "/w/a", 07777));
  EXPECT_EQ(there("a"), 0755u);
  EXPECT_TRUE(set_permissions(*all, "/w/a", 0));
  EXPECT_EQ(permissions_of(*all, "/w/a").value(), 0u);
  fs::permissions(root / "a", fs::perms(0664));
  EXPECT_TRUE(set_permissions(*all, "/w/a", 0777));
  EXPECT_EQ(there("a"), 0775u) << "what others may write stays theirs";
  fs::create_directory(root / "below");
  EXPECT_TRUE(set_permissions(*all, "/w/below", 0700));
  EXPECT_EQ(there("below"), 0700u);
}

TEST_F(Permissions, StayWhereWritingIsRefused) {
  const auto all = roots(FsMode::kWrite);
  fs::create_symlink("a", root / "link");
  EXPECT_FALSE(set_permissions(*all, "/w/link", 0600)) << "no link is followed";
  fs::create_symlink("..", root / "up");
  EXPECT_FALSE(set_permissions(*all, "/w/up/x", 0600));
  EXPECT_FALSE(set_permissions(*all, "/w/../x", 0600));
  EXPECT_EQ(set_permissions(*all, "/w/none", 0600).error().code, Errno::kNotFound);
  EXPECT_EQ(set_permissions(*roots(FsMode::kRead), "/w/a", 0600).error().code, Errno::kAccess);
  fs::create_hard_link(root / "a", root / "second");
  EXPECT_FALSE(set_permissions(*all, "/w/a", 0600)) << "its other name may lie outside";
  EXPECT_EQ(there("a"), 0644u);
}

TEST_F(Permissions, OfADirectoryKeepItsGroupForNewFiles) {
  fs::create_directory(root / "below");
  fs::permissions(root / "below", fs::perms(02755));
  EXPECT_TRUE(set_permissions(*roots(FsMode::kWrite), "/w/below", 0700));
  EXPECT_EQ(there("below"), 02700u);
}

}  // namespace
}  // namespace membrane::host
