#include "host/journal_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace membrane::host {
namespace {

template <typename Write>
std::string written(Write write) {
  std::string json;
  {
    JsonWriter out([&](std::string_view piece) { json += piece; });
    write(out);
  }
  return json;
}

// Each byte alone and between others; long texts; texts that are hard to encode.
std::vector<std::string> texts() {
  std::vector<std::string> all = {"", "é", "\xF0\x9F\x98\x80", "a\xFF", std::string("\0", 1)};
  for (int c = 0; c < 256; ++c) {
    all.emplace_back(1, static_cast<char>(c));
    all.push_back("before" + all.back() + "after");
  }
  for (const char* const piece : {"x", "\"", "\x01", "\xFE", "é"})
    for (const size_t count : {size_t{65'535}, size_t{200'001}}) {
      all.emplace_back();
      for (size_t i = 0; i < count; ++i) all.back() += piece;
    }
  return all;
}

TEST(JournalJson, BytesComeBackWhateverTheyAre) {
  for (const std::string& bytes : texts()) {
    const std::string json = written([&](JsonWriter& out) { out.bytes(bytes); });
    EXPECT_LE(json.size(), bytes.size() / 3 * 4 + 20) << "no longer than in base64";
    JsonReader in(json);
    std::string again;
    ASSERT_TRUE(in.bytes(again) && in.is_at_end()) << json.substr(0, 60);
    EXPECT_TRUE(again == bytes);
  }
}

TEST(JournalJson, TextsAreAsTheLibraryWritesThem) {
  for (const std::string& text : texts()) {
    if (!is_utf8(text)) continue;
    const std::string json = written([&](JsonWriter& out) { out.text(text); });
    EXPECT_EQ(json, nlohmann::json(text).dump());
    JsonReader in(json);
    std::string again;
    EXPECT_TRUE(in.text(again) && in.is_at_end() && again == text);
  }
}

TEST(JournalJson, IsGivenAwayInPieces) {
  size_t most = 0, all = 0;
  {
    JsonWriter out([&](std::string_view piece) {
      most = std::max(most, piece.size());
      all += piece.size();
    });
    out.bytes(std::string(10u << 20, '\xFF'));
    out.text(std::string(1u << 20, '\x01'));
  }
  EXPECT_GT(all, 13u << 20);
  EXPECT_LE(most, 512u << 10);
}

TEST(JournalJson, WhatIsNotCanonicalIsNoText) {
  for (const std::string_view bad :
       {R"(")", R"("a)", R"("\)", R"("\u0041")", R"("\u000a")", R"("\u001F")", R"("\u00ff")", R"("\u00")",
        R"("\/")", R"("\x")", "\"\n\"", "\"\xFF\"", "x", "", R"({"base64":"A"})", R"({"base64":"AA==")",
        R"({"base64":"AA==})"}) {
    JsonReader in(bad);
    std::string text;
    EXPECT_FALSE(in.bytes(text)) << bad;
  }
  for (const std::string_view bad : {"01", "-0", "+1", "1e3", "-", "", "9223372036854775808", "x"}) {
    JsonReader in(bad);
    int64_t number = 0;
    EXPECT_FALSE(in.number(number) && in.is_at_end()) << bad;
  }
}

}  // namespace
}  // namespace membrane::host
