#include "policy/trifecta.h"

#include <gtest/gtest.h>

#include "policy/restrict.h"

namespace membrane::policy {
namespace {

Policy read(const std::string& text, const char* name = "policy.toml") {
  auto policy = parse_policy(text, name);
  EXPECT_TRUE(policy) << policy.error().to_string();
  return policy ? *std::move(policy) : Policy();
}

std::string problem(const std::string& text) {
  const auto policy = parse_policy(text, "policy.toml");
  return policy ? "none" : policy.error().message;
}

constexpr const char* kRule = "[trifecta]\negress = \"close\"\n";
constexpr const char* kHttp = "[[http]]\nmethods = [\"GET\"]\nurl = \"https://web.example/*\"\n";
constexpr const char* kInbox = "[[fs]]\nguest = \"/inbox\"\nhost = \"/srv/inbox\"\nmode = \"read\"\n";
constexpr const char* kOut = "[[fs]]\nguest = \"/out\"\nhost = \"/srv/out\"\nmode = \"write\"\n";
constexpr ReadMarks kNeither{}, kPrivate{.is_private = true}, kUntrusted{.is_untrusted = true},
    kBoth{.is_private = true, .is_untrusted = true};

TEST(Trifecta, IsReadInBothForms) {
  const Policy toml =
      read(std::string("[trifecta]\negress = \"ask\"\ninput_private = true\n") + kInbox + "private = true\n");
  ASSERT_TRUE(toml.trifecta);
  EXPECT_EQ(toml.trifecta->egress, Egress::kAsk);
  EXPECT_TRUE(toml.trifecta->input_is_private);
  EXPECT_EQ(toml.fs[0].marks.is_private, true);
  EXPECT_EQ(toml.fs[0].marks.is_untrusted, std::nullopt);
  EXPECT_EQ(read(to_json(toml), "policy.json"), toml);
  EXPECT_EQ(to_json(Policy()).find("trifecta"), std::string::npos)
      << "receipts of other policies stay as they are";
}

TEST(Trifecta, SaysWhatIsWrong) {
  EXPECT_TRUE(problem("[trifecta]\n").contains("the field \"egress\" is missing"));
  EXPECT_TRUE(problem("[trifecta]\negress = \"open\"\n").contains("\"open\" is not a value of egress"));
  EXPECT_TRUE(problem("[trifecta]\negress = \"ask\"\nask = true\n").contains("unknown field"));
  EXPECT_TRUE(problem(std::string(kInbox) + "private = 1\n").contains("expected true or false"));
  EXPECT_TRUE(problem("[ai]\nprivate = true\n").contains("unknown field"));
}

TEST(Trifecta, WhatIsReadOverHttpIsOfUntrustedOrigin) {
  EXPECT_EQ(marks_of(read(kHttp), read(kHttp).http[0]), kUntrusted);
  const Policy own = read(std::string(kHttp) + "untrusted = false\nprivate = true\n");
  EXPECT_EQ(marks_of(own, own.http[0]), kPrivate);
}

TEST(Trifecta, WhatRunsWriteComesBackWithTheirMarks) {
  const Policy policy =
      read(std::string(kHttp) + kInbox + "private = true\n" + kOut + "[kv]\npath = \"/srv/kv.db\"\n");
  EXPECT_EQ(marks_of(policy, policy.fs[0]), kPrivate);
  EXPECT_EQ(marks_of(policy, policy.fs[1]), kBoth);
  EXPECT_EQ(marks_of(policy, *policy.kv), kBoth);
  const Policy said =
      read(std::string(kHttp) + kInbox + "private = true\n" + kOut + "private = false\nuntrusted = false\n");
  EXPECT_EQ(marks_of(said, said.fs[1]), kNeither);
  const Policy in_memory = read(std::string(kHttp) + "[kv]\n");
  EXPECT_EQ(marks_of(in_memory, *in_memory.kv), kNeither);
}

TEST(Trifecta, AMarkHoldsForThePlaceWhicheverGrantLeadsThere) {
  const Policy policy = read(std::string(kInbox) + "private = true\n" +
                             "[[fs]]\nguest = \"/all\"\nhost = \"/srv/./\"\nmode = \"read\"\n" +
                             "[[fs]]\nguest = \"/else\"\nhost = \"/srv/inbox2\"\nmode = \"read\"\n" +
                             "[[sql]]\nname = \"mail\"\npath = \"/srv/inbox/mail.db\"\n");
  EXPECT_EQ(marks_of(policy, policy.fs[1]), kPrivate);
  EXPECT_EQ(marks_of(policy, policy.fs[2]), kNeither);
  EXPECT_EQ(marks_of(policy, policy.sql[0]), kPrivate);
}

TEST(Trifecta, DroppingTheRuleOrAMarkIsMoreThanThereWas) {
  const Policy has = read(std::string(kRule) + kHttp + "private = true\n");
  const auto is_more = [&](const std::string& text) {
    const Policy wanted = read(text);
    return restrict(wanted, has).policy != wanted;
  };
  EXPECT_FALSE(is_more(std::string(kRule) + kHttp + "private = true\n"));
  EXPECT_FALSE(is_more(std::string(kRule) + kHttp + "private = true\nuntrusted = true\n"));
  EXPECT_TRUE(is_more(std::string(kHttp) + "private = true\n")) << "without the rule";
  EXPECT_TRUE(is_more(std::string(kRule) + kHttp)) << "without the mark";
  EXPECT_TRUE(is_more(std::string(kRule) + kHttp + "private = true\nuntrusted = false\n"));
  EXPECT_TRUE(is_more(std::string("[trifecta]\negress = \"ask\"\n") + kHttp + "private = true\n"));
  const Policy loose = read(std::string(kHttp));
  EXPECT_EQ(restrict(has, loose).policy, has) << "a rule more is less";
}

constexpr const char* kUser =
    "[[http]]\nmethods = [\"GET\"]\nurl = \"https://web.example/user/*\"\nprivate = true\n";
constexpr const char* kTrusted =
    "[[http]]\nmethods = [\"GET\"]\nurl = \"https://web.example/*\"\nuntrusted = false\n";

TEST(Trifecta, ANarrowerPolicyKeepsTheMarksOfWhatItReads) {
  const auto narrowed = [](const std::string& now, const std::string& before) {
    return restrict(read(kRule + now), read(kRule + before)).policy;
  };
  // The private directory is no longer granted; what was copied from it is still there.
  const Policy out = narrowed(kOut, std::string(kOut) + kInbox + "private = true\n" + kHttp);
  EXPECT_EQ(marks_of(out, out.fs.at(0)), kBoth);
  const std::string store = "[kv]\npath = \"/srv/kv.db\"\n";
  const Policy kv = narrowed(store, store + kHttp);
  EXPECT_EQ(marks_of(kv, *kv.kv), kUntrusted);
  // The directory above had the mark.
  const std::string mail = "[[sql]]\nname = \"mail\"\npath = \"/srv/inbox/mail.db\"\n";
  const Policy sql = narrowed(mail, mail + kInbox + "private = true\n");
  EXPECT_EQ(marks_of(sql, sql.sql.at(0)), kPrivate);
  // A more exact grant decided a part of the URLs, and had a mark.
  const Policy http = narrowed(kTrusted, std::string(kTrusted) + kUser);
  EXPECT_EQ(marks_of(http, http.http.at(0)), kBoth);
  const Policy bare = narrowed("[[http]]\nmethods = [\"GET\"]\nurl = \"https://web.example/user/*\"\n",
                               std::string(kTrusted) + kUser);
  EXPECT_EQ(marks_of(bare, bare.http.at(0)), kBoth);
}

TEST(Trifecta, ANarrowerPolicyGetsNoMarksOfWhatItDoesNotRead) {
  const auto stays = [](const std::string& now, const std::string& before) {
    const Policy wanted = read(kRule + now);
    return restrict(wanted, read(kRule + before)).policy == wanted;
  };
  const std::string both = std::string(kTrusted) + kUser, all = both + kOut + kInbox + "private = true\n";
  EXPECT_TRUE(stays(all, all));
  EXPECT_TRUE(stays(both, all));
  EXPECT_TRUE(stays(kUser, all));
  EXPECT_FALSE(stays(kTrusted, all)) << "private URLs without their mark";
  const std::string pub = "[[http]]\nmethods = [\"GET\"]\nurl = \"https://web.example/pub/*\"\n";
  EXPECT_TRUE(stays(pub, pub + kHttp + "private = true\n")) << "the more exact one ruled them";
  EXPECT_TRUE(stays(kTrusted, std::string(kTrusted) + "[[http]]\nmethods = [\"GET\"]\nurl = "
                                                      "\"https://other.example/*\"\nprivate = true\n"));
  EXPECT_TRUE(stays(kTrusted, std::string(kTrusted) + "[[http]]\nmethods = [\"POST\"]\nurl = "
                                                      "\"https://web.example/user/*\"\nprivate = true\n"));
  const std::string below = "[[http]]\nmethods = [\"GET\"]\nurl = \"https://*.web.example/*\"\n";
  EXPECT_FALSE(stays(
      below, below + "[[http]]\nmethods = [\"GET\"]\nurl = \"https://a.web.example/*\"\nprivate = true\n"));
}

TEST(Trifecta, IsExplained) {
  const std::string text = explain(read(std::string(kRule) + kHttp + kInbox + "private = true\n"));
  EXPECT_TRUE(text.contains(
      "Once it has read private data and text of untrusted origin, no request over HTTP and no "
      "question to a model leaves any more. Private: the files below /inbox. Of untrusted origin: "
      "the answers of https://web.example/*."))
      << text;
  EXPECT_TRUE(explain_briefly(read(std::string("[trifecta]\negress = \"ask\"\n")))
                  .contains("without a person's approval"));
}

}  // namespace
}  // namespace membrane::policy
