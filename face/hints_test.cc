#include "face/hints.h"

#include <gtest/gtest.h>

#include "membrane/membrane.hpp"
#include "policy/policy.h"

namespace membrane::face {
namespace {

TEST(EmbedderHint, NamesWhatTheEmbedderCalls) {
  const auto said = [](const char* hint) { return embedder_hint(hint); };
  EXPECT_EQ(said("Resume it (:go), or work in a fork from before it."),
            "Resume it (resume_paused(), or give it up: abandon()), or work in a fork from before it.");
  EXPECT_EQ(said("It would be allowed by --allow kv"), R"(It would be allowed by Policy::allow("kv"))");
  EXPECT_EQ(said("Grant one in a file (--allow kv:PATH), which"),
            R"(Grant one in a file (Policy::allow("kv:PATH")), which)");
  EXPECT_EQ(said("At a place: --allow fs:read:../data:/data, and /data/x."),
            R"(At a place: Policy::allow("fs:read:../data:/data"), and /data/x.)");
  EXPECT_EQ(said("write --allow fs:read:."), R"(write Policy::allow("fs:read:."))");
  EXPECT_EQ(said("raise limits.fuel (--fuel 400). The"),
            R"(raise limits.fuel (Policy::limit("fuel", "400")). The)");
  EXPECT_EQ(said("raise limits.bytes_in (--bytes-in)."),
            R"(raise limits.bytes_in (Policy::limit("bytes_in", "…")).)");
  EXPECT_EQ(said("has no room (limits.memory, --memory)."), "has no room (limits.memory).");
  EXPECT_EQ(said("--allow "), "--allow ");
  EXPECT_EQ(said("--allow 'never ends"), "--allow 'never ends");
  EXPECT_EQ(said("limits.fuel (--fuel"), "limits.fuel (--fuel");
}

TEST(EmbedderHint, KeepsEachGrantAsItIs) {
  for (const char* const grant :
       {"http:GET:https://a.b/*", "fs:read:it's \"here\"\\", "kv", "fs:write:./a,b.c"})
    EXPECT_EQ(embedder_hint(policy::allow_flag(grant) + " or not").substr(0, 15), R"(Policy::allow(")")
        << grant;
  EXPECT_EQ(embedder_hint(policy::allow_flag("a'b\"c")), R"(Policy::allow("a'b\"c"))");
}

TEST(EmbedderHint, IsWhatPoliciesAndReportsSay) {
  Policy policy;
  const auto wrong = policy.allow("fs:read:");
  ASSERT_FALSE(wrong);
  EXPECT_FALSE(wrong.error().message.contains("--")) << wrong.error().message;
  EXPECT_TRUE(wrong.error().hint.contains("Policy::allow(")) << wrong.error().hint;
  EXPECT_TRUE(policy.limit("fuel", "1000"));
  const Report report = Sandbox(policy).run({.source = "(func (export \"run\") (loop $l (br $l)))"});
  EXPECT_EQ(report.outcome, Outcome::kOutOfFuel) << report.to_text();
  EXPECT_TRUE(report.failures.at(0).hint.contains(R"((Policy::limit("fuel", "4000")))"))
      << report.failures.at(0).hint;
  EXPECT_FALSE(report.to_json().contains("--fuel")) << report.to_json();
}

TEST(GrantedFiles, HaveToBeThere) {
  Policy policy;
  EXPECT_TRUE(policy.allow("fs:read:./no-such-directory:/data"));
  const Report report = Sandbox(policy).run({.source = "(func (export \"run\"))"});
  EXPECT_EQ(report.outcome, Outcome::kInvalid);
  EXPECT_EQ(report.failures.at(0).message, "./no-such-directory, granted as /data, does not exist");
  EXPECT_FALSE(report.failures.at(0).hint.contains("--")) << report.failures.at(0).hint;
}

}  // namespace
}  // namespace membrane::face
