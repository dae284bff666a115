#include "cli/remote_hints.h"

#include <gtest/gtest.h>

namespace membrane::cli {
namespace {

std::string reworded(const char* text) { return in_words_of_command(text, "sbx1"); }

TEST(RemoteHints, NameCommands) {
  EXPECT_EQ(reworded("GET /v1/snapshots lists them."), "membrane snapshots lists them.");
  EXPECT_EQ(reworded("GET …/contexts lists them."), "membrane contexts sbx1 lists them.");
  EXPECT_EQ(in_words_of_command("GET …/contexts lists them.", ""), "membrane contexts ID lists them.");
  EXPECT_EQ(reworded("GET …/policy says what it has; leave the rest out."),
            "membrane info sbx1 --policy says what it has; leave the rest out.");
  EXPECT_EQ(reworded("membrane approvals sbx1, or GET …/approvals, lists what waits."),
            "membrane approvals sbx1 lists what waits.");
  EXPECT_EQ(reworded("copy the database into the sandbox (membrane cp, PUT …/files)."),
            "copy the database into the sandbox (membrane cp FILE sbx1:/tmp/).");
}

TEST(RemoteHints, NameOptions) {
  EXPECT_EQ(reworded("\"ttl_s\" must be at most 2592000"), "--ttl must be at most 30d");
  EXPECT_EQ(reworded("\"idle_timeout_s\" must be at least 90."), "--idle-timeout must be at least 90s.");
  EXPECT_EQ(reworded("\"timeout_ms\" must be at most 5400000"), "--timeout must be at most 90m");
  EXPECT_EQ(reworded("\"timeout_ms\" must be at least 1"), "--timeout must be at least 1ms");
  EXPECT_EQ(reworded("\"ttl_s\" must be at most 9999999999999999"), "--ttl must be at most 9999999999999999");
  EXPECT_EQ(reworded("\"ttl_s\" must be at most "), "--ttl must be at most ");
  EXPECT_EQ(reworded("\"labels[2]\" is too long, and \"metadata.a\" too"),
            "--label is too long, and --metadata too");
  EXPECT_EQ(reworded("use a smaller \"policy.limits.memory\"."), "use a smaller --memory.");
  EXPECT_EQ(reworded("it has files: read it with \"context\": \"ctx1\"."),
            "it has files: read it with --context ctx1.");
  EXPECT_EQ(reworded("read it with \"context\" left out."), "read it without --context.");
  EXPECT_EQ(reworded("the sandbox was made without \"seal\""), "the sandbox was made without --seal");
  EXPECT_EQ(reworded("Create one with \"seal\": true: receipts"),
            "Create one with membrane create --seal: receipts");
  EXPECT_EQ(reworded("can make the sandbox with \"packages\": [\"rich\", \"httpx\"]. Until then"),
            "can make the sandbox with --with rich --with httpx. Until then");
  EXPECT_EQ(reworded("\"\" and \"what\" and \"count\" is \"odd"), "\"\" and \"what\" and -n is \"odd");
}

TEST(RemoteHints, NameLimits) {
  EXPECT_EQ(
      reworded("or raise limits.fuel of the sandbox's policy (\"limits\": {\"fuel\": 400}, beside what it "
               "grants). It goes on."),
      "or raise limits.fuel: membrane update sbx1 --fuel 400. It goes on.");
  EXPECT_EQ(
      reworded("or raise limits.output of the sandbox's policy (\"limits\": {\"output\": \"4MiB\"}, beside "
               "what it grants)."),
      "or raise limits.output: membrane update sbx1 --output 4MiB.");
  EXPECT_EQ(reworded("or raise limits.bytes_in of the sandbox's policy."),
            "or raise limits.bytes_in: membrane update sbx1 --bytes-in SIZE.");
  EXPECT_EQ(reworded("9 bytes (limits.memory of the sandbox's policy)."),
            "9 bytes (limits.memory: membrane update sbx1 --memory SIZE).");
}

TEST(RemoteHints, NameGrants) {
  const std::string rest = ". --allow replaces all grants of the sandbox: repeat those that it should keep.";
  EXPECT_EQ(reworded("It would be allowed by \"kv\": {} in the sandbox's policy."),
            "It would be allowed by membrane update sbx1 --allow kv" + rest);
  EXPECT_EQ(reworded("It would be allowed by \"time\": {\"real\": true} in the sandbox's policy."),
            "It would be allowed by membrane update sbx1 --allow time" + rest);
  EXPECT_EQ(reworded("No. It would be allowed by \"http\": [{\"methods\": [\"GET\",\"POST\"], \"url\": "
                     "\"https://a.b/*\"}] in the "
                     "sandbox's policy."),
            "No. It would be allowed by membrane update sbx1 --allow 'http:GET,POST:https://a.b/*'" + rest);
}

TEST(RemoteHints, ResumeByTheCommand) {
  EXPECT_EQ(reworded("Resume it: membrane resume sbx1, or POST /v1/sandboxes/sbx1/resume."),
            "Resume it: membrane resume sbx1.");
}

TEST(RemoteHints, LeaveOtherTextsAlone) {
  EXPECT_EQ(reworded("GET /openapi.json describes exec."), "");
  for (const char* const text :
       {"", "Try again later.", "Put it first: PUT /v1/secrets/A.", "\"", "limits.", "limits.fuel",
        "It would be allowed by ", "It would be allowed by [ in the sandbox's policy.",
        "It would be allowed by \"http\": [7] in the sandbox's policy."})
    EXPECT_EQ(reworded(text), text);
}

}  // namespace
}  // namespace membrane::cli
