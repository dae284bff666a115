#include "base/json_grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace membrane {
namespace {

bool agrees(const std::string& text) { return is_json(text) == nlohmann::json::accept(text); }

TEST(JsonGrammar, SaysWhatTheLibrarySays) {
  for (const char* text : {"",
                           " ",
                           "1",
                           "-1",
                           "+1",
                           "01",
                           "-",
                           "-0",
                           "0.",
                           ".5",
                           "0.5",
                           "1e5",
                           "1E+5",
                           "1e-",
                           "1e5.",
                           "--1",
                           "1 ",
                           " 1",
                           "1 1",
                           "null",
                           "nul",
                           "nulll",
                           "true",
                           "false",
                           "True",
                           "[",
                           "]",
                           "[]",
                           "[ ]",
                           "[,]",
                           "[1,]",
                           "[1 2]",
                           "[1,2]",
                           "[[]]",
                           "[[]",
                           "[}",
                           "{",
                           "{}",
                           "{]",
                           "{1:2}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1}",
                           "{\"a\":1,}",
                           "{\"a\" : 1 , \"a\" : [ ] }",
                           "{,}",
                           "\"",
                           "\"a",
                           "\"a\"",
                           "\"\\\"\"",
                           "\"\\q\"",
                           "\"\\u00e9\"",
                           "\"\\u00g0\"",
                           "\"\\u00e\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud83d\\ude00\"",
                           "\"\\ud83d\\u0041\"",
                           "\"\\ud83dx\"",
                           "\"\t\"",
                           "\"\x7f\"",
                           "\"\xff\"",
                           "\"\xc3\xa9\"",
                           "\"\xed\xa0\x80\"",
                           "\xEF\xBB\xBF[1]",
                           "\xEF\xBB",
                           "// a\n1",
                           "'a'",
                           "[1]x",
                           "{\"a\":1}}",
                           "\"a\":1",
                           ":",
                           ",",
                           "[\"a\" \"b\"]",
                           "nan",
                           "Infinity",
                           "0x1",
                           "1\v",
                           "\f1"})
    EXPECT_TRUE(agrees(text)) << text;
  EXPECT_TRUE(agrees(std::string("[1\0]", 4)));
  EXPECT_TRUE(agrees(std::string("\0", 1)));
}

TEST(JsonGrammar, IsBoundedInDepthAndInTheLengthOfNumbers) {
  EXPECT_TRUE(is_json(std::string(200, '[') + std::string(200, ']')));
  EXPECT_FALSE(is_json(std::string(202, '[') + std::string(202, ']')));
  EXPECT_FALSE(is_json(std::string(5'000'000, '[')));
  EXPECT_TRUE(is_json("0." + std::string(kMaxJsonNumberBytes - 2, '1')));
  EXPECT_FALSE(is_json("0." + std::string(kMaxJsonNumberBytes - 1, '1')));
}

// Texts that are JSON except for a few bytes.
TEST(JsonGrammar, SaysWhatTheLibrarySaysOfDamagedTexts) {
  const std::string whole = R"({"a":[1,-2.5e+3,"\u00e9\n\"",true,null,{"b":{}},[]],"c" : false})";
  constexpr std::string_view kBytes = "{}[]:,\"\\ue01.-+ tfn\x01\xc3\xa9";
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) text[at] = kBytes[random() % kBytes.size()];
      else text.erase(at, 1 + random() % 3);
    }
    ASSERT_TRUE(agrees(text)) << text;
  }
}

}  // namespace
}  // namespace membrane
