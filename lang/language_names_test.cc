#include "lang/language_names.h"

#include <gtest/gtest.h>

namespace membrane::lang {
namespace {

TEST(LanguageNames, NamePackages) {
  for (const char* word : {"py", "Python3", "python"}) EXPECT_EQ(language_named(word), "python") << word;
  for (const char* word : {"js", "JavaScript", "node", "ts", "typescript"})
    EXPECT_EQ(language_named(word), "js") << word;
  EXPECT_EQ(language_named("wasm"), "wat");
  EXPECT_EQ(language_named("ruby"), "ruby");
  EXPECT_EQ(language_named(""), "");
}

TEST(LanguageNames, AProgramInTypeScriptIsCalledSo) {
  EXPECT_EQ(program_name("-e", "ts"), "-e.ts");
  EXPECT_EQ(program_name("a.mts", "typescript"), "a.mts");
  EXPECT_EQ(program_name("a.js", "ts"), "a.js.ts");
  EXPECT_EQ(program_name("a.py", "py"), "a.py");
}

}  // namespace
}  // namespace membrane::lang
