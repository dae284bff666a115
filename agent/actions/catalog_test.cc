#include "agent/actions/catalog.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace membrane::agent {
namespace {

TEST(Catalog, ReadsFrontMatter) {
  Catalog catalog;
  ASSERT_TRUE(
      catalog.add(";; name: fetch-it\n;; does: Fetches a page\n;;    and prints it.\r\n;; arguments: url\n"
                  ";; needs: http, kv\n;; entry: go\n;;\n;; a comment: of the program\n(module)",
                  "fetch-it.wat"));
  const CatalogEntry& entry = **catalog.find("fetch-it");
  EXPECT_EQ(entry.does, "Fetches a page and prints it.");
  EXPECT_EQ(entry.arguments, "url");
  EXPECT_EQ(entry.needs, (std::vector<std::string>{"http", "kv"}));
  EXPECT_EQ(entry.entry, "go");
  EXPECT_TRUE(entry.source.ends_with("(module)"));
  EXPECT_EQ(render_list(catalog), "- fetch-it(url): Fetches a page and prints it. Needs http, kv.\n");
}

TEST(Catalog, RefusesMalformedFrontMatterWithItsPlace) {
  struct Case {
    const char* source;
    const char* file;
    const char* message;
  };
  const Case cases[] = {
      {"(module)", "a.wat", "a.wat:1: the front matter has no name"},
      {";; name: A b\n;; does: x\n", "a.wat", "\"A b\" is not a name"},
      {";; name: a\n(module)", "a.wat", "does not say what the program does"},
      {";; name: a\n;; does: x\n", "b.wat", "its file has another"},
      {";; name: a\n;; deos: x\n", "a.wat",
       "a.wat:2: the front matter has no key \"deos\" (Did you mean \"does\"?)"},
      {";; name: a\n;; does: x\n;; does: y\n", "a.wat", "a.wat:3: \"does\" stands here a second time"},
      {";; name: a\n;; does:\n", "a.wat", "a.wat:2: \"does\" has no value"},
      {";; name: a\n;; just words\n", "a.wat", "a.wat:2: this line of the front matter is not"},
  };
  for (const Case& c : cases) {
    Catalog catalog;
    const Status added = catalog.add(c.source, c.file);
    ASSERT_FALSE(added) << c.source;
    EXPECT_NE(added.error().to_string().find(c.message), std::string::npos) << added.error().to_string();
    EXPECT_FALSE(added.error().hint.empty());
  }
}

TEST(Catalog, RefusesASecondOfTheNameAndWhatIsTooLong) {
  Catalog catalog;
  const std::string good = ";; name: a\n;; does: x\n";
  ASSERT_TRUE(catalog.add(good, "a.wat"));
  EXPECT_FALSE(catalog.add(good, "a.wat"));
  EXPECT_FALSE(
      catalog.add(";; name: b\n;; does: x\n" + std::string(Catalog::kMaxProgramBytes, ' '), "b.wat"));
}

TEST(Catalog, SuggestsTheNearestName) {
  Catalog catalog;
  ASSERT_TRUE(catalog.add(";; name: sort-lines\n;; does: x\n", "sort-lines.wat"));
  EXPECT_EQ(catalog.find("sortlines").error().hint, "Did you mean \"sort-lines\"?");
  EXPECT_EQ(catalog.find("zzz").error().code, ErrorCode::kNotFound);
}

TEST(Catalog, LoadsADirectoryAndNamesWhatItLeftOut) {
  const std::filesystem::path directory =
      std::filesystem::path(::testing::TempDir()) / "membrane_catalog_test";
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "good.wat") << ";; name: good\n;; does: x\n(module)";
  std::ofstream(directory / "bad.wat") << "(module)";
  std::ofstream(directory / "README.md") << "not a program";
  const auto catalog = Catalog::load(directory);
  std::filesystem::remove_all(directory);
  ASSERT_TRUE(catalog);
  ASSERT_EQ(catalog->entries().size(), 1u);
  ASSERT_EQ(catalog->problems().size(), 1u);
  EXPECT_TRUE(catalog->problems()[0].message.starts_with("bad.wat:1: "));
  EXPECT_EQ(Catalog::load(directory).error().code, ErrorCode::kNotFound);
}

TEST(Catalog, TheProjectsOwnIsWhole) {
  const auto catalog = Catalog::load(MEMBRANE_SOURCE_DIR "/catalog");
  ASSERT_TRUE(catalog);
  EXPECT_GE(catalog->entries().size(), 2u);
  for (const Error& problem : catalog->problems()) ADD_FAILURE() << problem.to_string();
}

TEST(SplitArguments, KnowsQuotes) {
  EXPECT_EQ(split_arguments(" 2  'two words' \"it's\" a'b'c '' "),
            (std::vector<std::string>{"2", "two words", "it's", "abc", ""}));
  EXPECT_EQ(split_arguments(""), std::vector<std::string>{});
  EXPECT_FALSE(split_arguments("'open"));
}

}  // namespace
}  // namespace membrane::agent
