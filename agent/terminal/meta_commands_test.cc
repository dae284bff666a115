#include "agent/terminal/meta_commands.h"

#include <gtest/gtest.h>

namespace membrane::agent {
namespace {

TEST(MetaCommands, ACommandOfASessionCanBeginWithEither) {
  for (const char* line : {":fork", "/fork", "  :fork  "}) {
    const auto found = meta_line(MetaPlace::kSession, line);
    ASSERT_TRUE(found && found->command) << line;
    EXPECT_EQ(found->command->meta, Meta::kFork);
  }
  const auto save = meta_line(MetaPlace::kSession, "/save /out.csv  out.csv");
  ASSERT_TRUE(save && save->command);
  EXPECT_EQ(save->argument, "/out.csv  out.csv");
  EXPECT_EQ(meta_line(MetaPlace::kSession, ":q")->command->meta, Meta::kQuit);
}

TEST(MetaCommands, WhatLooksLikeCodeIsAnEntry) {
  for (const char* line : {"/fork/.test(x)", "/back to/.test(x)", "/a/.exec(b)", "/nosuch",
                           "/pause a b/.test(x)", "//", ":", ": x", "fork", "/fork\n1", ""})
    EXPECT_FALSE(meta_line(MetaPlace::kSession, line)) << line;
}

TEST(MetaCommands, AnUnknownOneSaysWhichThereAre) {
  const auto found = meta_line(MetaPlace::kSession, ":frk 3");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->command, nullptr);
  const std::string message = unknown_meta(MetaPlace::kSession, found->word);
  EXPECT_TRUE(message.starts_with("There is no command :frk. Did you mean :fork? There are :help, :fork, "))
      << message;
  EXPECT_TRUE(message.ends_with(" and :quit.")) << message;
}

TEST(MetaCommands, AreCompletedWithTheirPrefix) {
  EXPECT_EQ(metas_for(MetaPlace::kSession, ":f"), (std::vector<std::string>{":files", ":fork"}));
  EXPECT_EQ(metas_for(MetaPlace::kConversation, "/b"), std::vector<std::string>{"/budget"});
  EXPECT_TRUE(metas_for(MetaPlace::kSession, "f").empty());
}

}  // namespace
}  // namespace membrane::agent
