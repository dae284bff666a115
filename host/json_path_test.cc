#include "host/json_path.h"

#include <gtest/gtest.h>

namespace membrane::host {
namespace {

// "a|[0]|b": names unchanged, indices in brackets.
std::string shown(std::string_view path) {
  const auto steps = parse_json_path(path);
  if (!steps) return std::string(name_of(steps.error().code));
  std::string text;
  for (const PathStep& step : *steps)
    text += (text.empty() ? "" : "|") + (step.is_index ? "[" + std::to_string(step.index) + "]" : step.name);
  return text;
}

TEST(JsonPath, ReadsNamesAndIndices) {
  EXPECT_EQ(shown(""), "");
  EXPECT_EQ(shown("$"), "");
  EXPECT_EQ(shown("a"), "a");
  EXPECT_EQ(shown(".a"), "a");
  EXPECT_EQ(shown("$.a.b[0].c"), "a|b|[0]|c");
  EXPECT_EQ(shown("[0][-1]"), "[0]|[-1]");
  EXPECT_EQ(shown("$[2]"), "[2]");
  EXPECT_EQ(shown(R"(["a.b"].c["x]\"y"])"), "a.b|c|x]\"y");
  EXPECT_EQ(shown("$a"), "$a");
  EXPECT_EQ(shown("a b.é-1"), "a b|é-1");
}

TEST(JsonPath, RefusesTheRest) {
  for (const char* bad : {".", "a.", "a..b", "a[", "a[]", "a[x]", "a]", "[0]b", "[1.5]", "[\"a\"", "[\"a]",
                          "[\"a\"x]", "[\"\\x\"]", "[99999999999999999999]", "a[0", "[\"a\\", "[\"", "["})
    EXPECT_EQ(shown(bad), "EINVAL") << bad;
  std::string deep;
  for (int i = 0; i < 300; ++i) deep += "[0]";
  EXPECT_EQ(shown(deep), "EINVAL");
}

}  // namespace
}  // namespace membrane::host
