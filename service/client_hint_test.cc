#include "service/client_hint.h"

#include <gtest/gtest.h>

namespace membrane::service {
namespace {

TEST(ClientHint, NamesTheFieldOfThePolicyThatGrants) {
  EXPECT_EQ(client_hint("It would be allowed by --allow kv"),
            "It would be allowed by \"kv\": {} in the sandbox's policy.");
  EXPECT_EQ(client_hint("No. It would be allowed by --allow 'http:GET,POST:https://example.org/*'"),
            "No. It would be allowed by \"http\": [{\"methods\": [\"GET\",\"POST\"], \"url\": "
            "\"https://example.org/*\"}] in the sandbox's policy.");
}

TEST(ClientHint, SaysWhatToDoInsteadOfGrantingAFile) {
  for (const char* const hint : {"It would be allowed by --allow fs:read:/data",
                                 "Grant the directory at a place, and open the file there: --allow "
                                 "fs:read:../data:/data, and /data/x.csv."})
    EXPECT_EQ(client_hint(hint),
              "Over HTTP nobody is granted files of the machine: copy them into the sandbox (PUT …/files).");
}

TEST(ClientHint, SaysWhatToDoInsteadOfGrantingWhatAServiceLacks) {
  EXPECT_EQ(client_hint("It would be allowed by --allow ai"),
            "A service has no model: a program reaches one by \"http\", with a secret in its headers.");
  EXPECT_EQ(client_hint("It would be allowed by --allow ask"),
            "A service has nobody to ask: pass the program what it needs with its code, its input or its "
            "files.");
}

TEST(ClientHint, AsksForNoDirectoryOfTheMachineToWriteTo) {
  EXPECT_EQ(
      client_hint("There is no directory /out in the sandbox: os.makedirs makes it. It would be allowed by "
                  "--allow fs:write:HOST_DIRECTORY:/out"),
      "There is no directory /out in the sandbox: os.makedirs makes it.");
}

TEST(ClientHint, NamesTheLimitOfThePolicy) {
  EXPECT_EQ(client_hint("Make it do less, or raise limits.fuel (--fuel 400). The rest goes on."),
            "Make it do less, or raise limits.fuel of the sandbox's policy (\"limits\": {\"fuel\": 400}, "
            "beside what it "
            "grants). The rest goes on.");
  EXPECT_EQ(client_hint("Print less, or raise limits.output (--output 4MiB)."),
            "Print less, or raise limits.output of the sandbox's policy (\"limits\": {\"output\": \"4MiB\"}, "
            "beside what it grants).");
  EXPECT_EQ(client_hint("Make it do less, or raise limits.wall (--wall)."),
            "Make it do less, or raise limits.wall of the sandbox's policy.");
  EXPECT_EQ(client_hint("Give it less, or raise limits.bytes_in (--bytes-in)."),
            "Give it less, or raise limits.bytes_in of the sandbox's policy.");
  EXPECT_EQ(client_hint("The memory limit is 9 bytes (limits.memory, --memory)."),
            "The memory limit is 9 bytes (limits.memory of the sandbox's policy).");
}

TEST(ClientHint, NamesThePackagesOfTheSandbox) {
  EXPECT_EQ(
      client_hint("the person who runs it can write python = [\"rich\", \"httpx\"] under [packages] of the "
                  "policy. Until then, continue without it."),
      "the person who runs it can make the sandbox with \"packages\": [\"rich\", \"httpx\"]. Until then, "
      "continue without it.");
}

TEST(ClientHint, LeavesOthersAsTheyAre) {
  for (const char* const hint :
       {"", "Did you mean json?", "raise limits.module_bytes.", "raise limits.", "limits.x (--",
        "limits.x (--y", "It would be allowed by --allow nothing:known"})
    EXPECT_EQ(client_hint(hint), hint);
}

}  // namespace
}  // namespace membrane::service
