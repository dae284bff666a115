#include "agent/languages.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace membrane::agent {
namespace {

namespace fs = std::filesystem;

// A directory in which packages are looked for, instead of those of this machine.
class LanguagesTest : public ::testing::Test {
 protected:
  LanguagesTest() {
    directory_ =
        fs::path(::testing::TempDir()) /
        ("languages-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    setenv("MEMBRANE_LANGUAGES", directory_.c_str(), 1);
    setenv("XDG_DATA_HOME", directory_.c_str(), 1);
  }
  ~LanguagesTest() override {
    unsetenv("MEMBRANE_LANGUAGES");
    unsetenv("XDG_DATA_HOME");
    fs::remove_all(directory_);
  }
  void install(const std::string& name, const std::string& driver, const std::string& extensions = "[]",
               const std::string& manifest = "") {
    fs::create_directories(directory_ / name);
    std::ofstream(directory_ / name / "language.json")
        << R"({"language":1,"name":")" << name << R"(","version":"1.2","driver":")" << driver
        << R"(","module":{"path":"m.wasm"},"extensions":)" << extensions << "}";
    if (!manifest.empty()) std::ofstream(directory_ / name / "MANIFEST") << manifest;
  }
  static std::string names(const Result<std::vector<Language>>& languages) {
    if (!languages) return languages.error().to_string();
    std::string out;
    for (const Language& language : *languages) out += language.name + " ";
    return out;
  }
  using Words = std::vector<std::string>;

  fs::path directory_;
};

TEST_F(LanguagesTest, WithoutANameItIsTheBestThatIsInstalled) {
  EXPECT_EQ(names(choose_languages(Words{})), "wat ");
  install("js", "quickjs");
  EXPECT_EQ(names(choose_languages(Words{})), "js ");
  install("python", "python");
  EXPECT_EQ(names(choose_languages(Words{})), "python ");
}

TEST_F(LanguagesTest, NamesAndTheirOtherFormsOnceEach) {
  install("python", "python");
  install("js", "quickjs");
  install("ruby", "stdin");
  EXPECT_EQ(names(choose_languages(Words{"wat", "py", "Python", "typescript", "ruby", "javascript"})),
            "wat python js ruby ");
}

TEST_F(LanguagesTest, WhatIsNotInstalledIsRefusedWithHowToGetIt) {
  const auto missing = choose_languages(Words{"python"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().hint.find("membrane languages add python"), std::string::npos);
}

TEST_F(LanguagesTest, ANameCannotLeadOutOfTheDirectory) {
  install("python", "python");
  for (const char* const name : {"../"
                                 "python",
                                 "", ".", "a/b", "py thon"})
    EXPECT_EQ(choose_languages(Words{name}).error().code, ErrorCode::kInvalidArgument) << name;
}

TEST_F(LanguagesTest, ThePackageTellsTagsAndModules) {
  install("python", "python", R"([".py"])",
          "python 3.15.0\npackage numpy 2.5.2\npackage zlib 1.3\npackage pillow 13.0\nsource pandas 3.0\n");
  install("js", "quickjs", R"([".js",".mjs",".ts",".mts"])");
  install("ruby", "stdin", R"([".rb"])");
  const auto languages = choose_languages(Words{"python", "js", "ruby"});
  ASSERT_TRUE(languages) << languages.error().message;
  EXPECT_EQ((*languages)[0].modules, (Words{"numpy", "PIL"}));
  EXPECT_EQ(find_language(*languages, "TS")->name, "js");
  EXPECT_EQ(find_language(*languages, "rb")->name, "ruby");
  EXPECT_EQ(find_language(*languages, "wat"), nullptr);
  install("js", "quickjs", R"([".js"])");
  EXPECT_EQ(find_language(*choose_languages(Words{"js"}), "ts"), nullptr) << "installed without TypeScript";
}

}  // namespace
}  // namespace membrane::agent
