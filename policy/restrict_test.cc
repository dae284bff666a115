#include "policy/restrict.h"

#include <gtest/gtest.h>

namespace membrane::policy {
namespace {

Policy with(std::initializer_list<const char*> grants) {
  Policy policy;
  for (const char* const grant : grants) EXPECT_TRUE(allow(policy, grant)) << grant;
  return policy;
}

TEST(Restrict, TheSamePolicyStaysAsItIs) {
  const Policy policy =
      with({"http:GET:https://example.org/*", "fs:write:/tmp:/out", "kv", "ai", "time", "ask"});
  const Restricted both = restrict(policy, policy);
  EXPECT_EQ(both.policy, policy);
  EXPECT_TRUE(both.differences.empty());
}

TEST(Restrict, GrantsThatOverlapStayAsTheyAre) {
  const Policy policy = with({"fs:read:/:/all", "fs:write:/tmp:/out", "fs:read:/tmp/a:/a",
                              "http:GET:https://example.org/*", "http:GET,POST:https://example.org/a/*"});
  const Restricted both = restrict(policy, policy);
  EXPECT_EQ(both.policy, policy);
  EXPECT_TRUE(both.differences.empty()) << both.differences[0];
}

TEST(Restrict, LinksAreFollowedWhereBothGrantThem) {
  const Policy plain = with({"fs:write:/tmp:/out"}), links = with({"fs:write,links:/tmp:/out"});
  EXPECT_FALSE(restrict(links, plain).policy.fs[0].links);
  EXPECT_FALSE(restrict(plain, links).policy.fs[0].links);
  EXPECT_TRUE(restrict(links, links).policy.fs[0].links);
  ASSERT_EQ(restrict(links, plain).differences.size(), 1u);
  EXPECT_EQ(
      restrict(links, plain).differences[0],
      "fs write,links /tmp as /out beyond fs write /tmp as /out was not granted when the run was recorded: "
      "it is not "
      "granted now");
}

TEST(Restrict, LimitsAreTheLowerOfBoth) {
  Policy given, ceiling;
  given.limits.fuel = 10;
  ceiling.limits.fuel = 20;
  given.limits.wall_ms = 40;
  ceiling.limits.wall_ms = 30;
  const Restricted both = restrict(given, ceiling);
  EXPECT_EQ(both.policy.limits.fuel, 10u);
  EXPECT_EQ(both.policy.limits.wall_ms, 30u);
}

TEST(Restrict, WhatTheCeilingDoesNotGrantIsTakenAwayAndSaid) {
  const Restricted both = restrict(
      with({"fs:write:/etc:/etc", "kv", "ai", "time", "random", "ask", "http:GET:https://example.org/*"}),
      Policy());
  EXPECT_EQ(both.policy, Policy());
  EXPECT_EQ(both.differences.size(), 7u);
}

TEST(Restrict, WhatOnlyTheCeilingGrantsIsSaidAndNotGranted) {
  const Restricted both = restrict(Policy(), with({"fs:write:/:/all", "kv", "ask"}));
  EXPECT_EQ(both.policy, Policy());
  ASSERT_EQ(both.differences.size(), 3u);
  EXPECT_NE(both.differences[0].find("is not now"), std::string::npos) << both.differences[0];
}

TEST(Restrict, PackagesAreThoseThatBothName) {
  Policy given, ceiling;
  given.packages.python = {"rich", "httpx==0.28.1"};
  ceiling.packages.python = {"httpx==0.28.1", "attrs"};
  const Restricted both = restrict(given, ceiling);
  EXPECT_EQ(both.policy.packages.python, std::vector<std::string>{"httpx==0.28.1"});
  EXPECT_EQ(both.differences.size(), 2u);
}

TEST(Restrict, AUrlIsCoveredByAPatternAboveIt) {
  const Policy wide = with({"http:GET,POST:https://example.org/a/*"});
  EXPECT_EQ(restrict(with({"http:GET:https://example.org/a/b"}), wide).policy.http.size(), 1u);
  EXPECT_TRUE(restrict(with({"http:GET:https://example.org/*"}), wide).policy.http.empty());
  EXPECT_TRUE(restrict(with({"http:GET:https://example.org.evil.net/a/*"}), wide).policy.http.empty());
  EXPECT_TRUE(restrict(with({"http:DELETE:https://example.org/a/b"}), wide).policy.http.empty());
  const Restricted some = restrict(with({"http:GET,DELETE:https://example.org/a/*"}), wide);
  ASSERT_EQ(some.policy.http.size(), 1u);
  EXPECT_EQ(some.policy.http[0].methods, std::vector<std::string>{"GET"});
  EXPECT_FALSE(some.differences.empty());
}

TEST(Restrict, ADirectoryIsCoveredByOneAboveItAndNotBesideIt) {
  const Policy wide = with({"fs:read:/tmp/data:/data"});
  const Restricted inner = restrict(with({"fs:write:/tmp/data/sub:/data"}), wide);
  ASSERT_EQ(inner.policy.fs.size(), 1u);
  EXPECT_EQ(inner.policy.fs[0].mode, FsMode::kRead);
  EXPECT_TRUE(restrict(with({"fs:read:/tmp/database:/data"}), wide).policy.fs.empty());
  EXPECT_TRUE(restrict(with({"fs:read:/tmp:/data"}), wide).policy.fs.empty());
  EXPECT_TRUE(restrict(with({"fs:read:/tmp/data/../other:/data"}), wide).policy.fs.empty());
}

TEST(Restrict, SeedAndVirtualClockAreTheCeilings) {
  Policy ceiling;
  ceiling.random.seed = 7;
  ceiling.time.start_ms = 5;
  const Restricted both = restrict(Policy(), ceiling);
  EXPECT_EQ(both.policy.random.seed, 7u);
  EXPECT_EQ(both.policy.time.start_ms, 5);
  EXPECT_TRUE(both.differences.empty());
}

TEST(Restrict, TheRecordedPlatformAndTheLowerLimitsHold) {
  Policy given, ceiling;
  ceiling.platform = "trap";
  ceiling.limits.tasks = 10;
  const Restricted restricted = restrict(given, ceiling);
  EXPECT_EQ(restricted.policy.platform, "trap");
  EXPECT_EQ(restricted.policy.limits.tasks, 10u);
  EXPECT_EQ(restricted.differences.size(), 1u);
}

}  // namespace
}  // namespace membrane::policy
