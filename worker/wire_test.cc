#include "worker/wire.h"

#include <gtest/gtest.h>

#include <random>

#include "worker/messages.h"

namespace membrane::worker {
namespace {

// A value survives a round trip, in all its bytes, and nothing is left over.
template <typename T>
T there_and_back(const T& value) {
  const std::string bytes = bytes_of(value);
  Reader in(bytes);
  T back = in.get<T>();
  EXPECT_TRUE(in.is_done());
  EXPECT_EQ(bytes_of(back), bytes);
  return back;
}

policy::Policy every_grant() {
  policy::Policy policy;
  policy.limits.fuel = 7;
  policy.limits.module_bytes = 8;
  policy.http.push_back({{"GET", "POST"},
                         "https://example.org/*",
                         {{"accept", {"text/plain", ""}}},
                         {"10.0.0.0/8"},
                         1,
                         2,
                         3,
                         4});
  policy.fs.push_back({"/data", "./data", policy::FsMode::kWrite, true, 5, 6, 7});
  policy.kv = policy::KvGrant{.path = "store.db", .writable = false, .prefix = "a/"};
  policy.sql.push_back({"papers", "papers.db", 1, 2, 3});
  policy.ai = policy::AiGrant{.embed = true};
  policy.time = {.real = true, .start_ms = -1};
  policy.random.seed = UINT64_MAX;
  policy.ask = true;
  policy.packages.python = {"rich"};
  return policy;
}

TEST(Wire, APolicyIsTheSameOnTheOtherSide) {
  EXPECT_EQ(there_and_back(every_grant()), every_grant());
  EXPECT_EQ(there_and_back(policy::Policy()), policy::Policy());
}

TEST(Wire, AReportIsTheSameOnTheOtherSide) {
  sandbox::Report report;
  report.outcome = sandbox::Outcome::kRaised;
  report.errors.push_back(
      {"code", "message", {"f", 1, 2, 3, "a.py"}, "hint", {{"g", 4, 5, 6, "b.py"}}, "traceback"});
  report.results.push_back({"i32", "4", 4});
  report.value = {{"text/plain", "4", false}};
  report.displays = {{{"image/png", "AAAA", true}}};
  report.files = {{"/a", 1}};
  report.exit_code = -1;
  report.stdout_text = std::string("a\0b", 3);
  report.host_calls.push_back({"kv.get", false, "EACCES", "no", "--allow kv", "k", 1, 2, 3});
  report.waits_for = {{"shop.price", "[7]", "{}", "", {{"i32", "7", 7}}, "job 7"}};
  report.snapshot = {1, 2, 3};
  report.snapshot_bytes = 3;
  const sandbox::Report back = there_and_back(report);
  EXPECT_EQ(render_json(back, true), render_json(report, true));
  EXPECT_EQ(back.snapshot, report.snapshot);
}

TEST(Wire, AnErrorComesAsAnError) {
  using Answer = host::HostResult<std::string>;
  const Answer refused = host::refuse(host::Errno::kAccess, "no", "--allow kv");
  const Answer back = there_and_back(refused);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, host::Errno::kAccess);
  EXPECT_EQ(back.error().grant, "--allow kv");
  EXPECT_EQ(there_and_back(Answer("yes")), "yes");
}

TEST(Wire, WhatIsCutOffIsNoMessage) {
  const std::string bytes = bytes_of(every_grant());
  for (size_t length = 0; length < bytes.size(); ++length) {
    Reader in(std::string_view(bytes).substr(0, length));
    static_cast<void>(in.get<policy::Policy>());
    EXPECT_FALSE(in.is_done()) << length;
  }
}

TEST(Wire, AValueThatNoEnumerationHasIsRefused) {
  const std::string bytes(1, static_cast<char>(200));
  Reader outcome(bytes);
  EXPECT_EQ(outcome.get<sandbox::Outcome>(), sandbox::Outcome::kOk);
  EXPECT_FALSE(outcome.ok());
  Reader flag(bytes);
  EXPECT_FALSE(flag.get<bool>());
  EXPECT_FALSE(flag.ok());
}

TEST(Wire, ACountThatTheBytesDoNotHaveTakesNoMemory) {
  const std::string bytes = bytes_of(uint64_t{1} << 60);
  Reader list(bytes);
  EXPECT_TRUE(list.get<std::vector<std::string>>().empty());
  EXPECT_FALSE(list.ok());
  Reader text(bytes);
  EXPECT_TRUE(text.get<std::string>().empty());
  EXPECT_FALSE(text.ok());
}

// Whatever the bytes are, reading ends, and what was read can be written again.
TEST(Wire, RandomBytesAreReadToAnEnd) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = bytes_of(every_grant());
    for (int i = 0; i < 8; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    Reader in(bytes);
    const auto policy = in.get<policy::Policy>();
    if (in.is_done()) there_and_back(policy);
  }
}

}  // namespace
}  // namespace membrane::worker
