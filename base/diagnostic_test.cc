#include "base/diagnostic.h"

#include <gtest/gtest.h>

#include <set>

namespace membrane {
namespace {

TEST(Diagnostic, NearestCountsATranspositionAsOne) {
  EXPECT_EQ(nearest("i32.ad", {"i32.sub", "i32.add", "i32.and"}), "i32.add");
  EXPECT_EQ(nearest("$pritn", {"$point", "$print"}), "$print");
  EXPECT_EQ(nearest("lcoal.get", {"global.get", "local.get"}), "local.get");
}

TEST(Diagnostic, NearestSaysNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest("frobnicate", {"i32.add", "local.get"}), "");
  EXPECT_EQ(nearest("abc", {}), "");
  EXPECT_EQ(nearest("abcdef", {"badcfe"}), "");  // three transpositions: half of the word
  EXPECT_EQ(nearest(std::string(65, 'a'), {std::string_view("a")}), "");
}

TEST(Diagnostic, NearestFindsWordsOfTheGreatestLength) {
  const std::string word(63, 'a');
  const std::string longer = word + "b", too_long = word + "bb";
  EXPECT_EQ(nearest(word, {too_long, longer}), longer);
}

TEST(Diagnostic, LocateCountsLinesAndColumnsFromOne) {
  EXPECT_EQ(locate("ab\ncd\n", 0), (Place{0, 0, 1, 1}));
  EXPECT_EQ(locate("ab\ncd\n", 4, 5), (Place{4, 5, 2, 2}));
  EXPECT_EQ(locate("ab\ncd\n", 99, 99), (Place{6, 6, 3, 1}));
}

TEST(Diagnostic, RenderShowsTheLineAndUnderlinesThePlace) {
  constexpr std::string_view kText = "(func\n\t(call $pritn))";
  Diagnostic d;
  d.code = DiagnosticCode::kUnknownFunction;
  d.place = locate(kText, 13, 19);
  d.message = "no function is called $pritn";
  d.found = "$pritn";
  d.hint = "Did you mean $print?";
  d.function = "0";
  EXPECT_EQ(render(d, kText, "a.wat"),
            "a.wat:2:8: error[unknown-function]: no function is called $pritn (in function 0)\n"
            "  2 | \t(call $pritn))\n"
            "    | \t      ^^^^^^\n"
            "  found: $pritn\n"
            "  hint: Did you mean $print?\n");
}

TEST(Diagnostic, EveryCodeHasItsOwnNameATitleAndAHint) {
  std::set<std::string_view> names;
  for (uint16_t i = 0; i < static_cast<uint16_t>(DiagnosticCode::kCount); ++i) {
    const auto code = static_cast<DiagnosticCode>(i);
    EXPECT_TRUE(names.insert(name_of(code)).second) << name_of(code);
    EXPECT_TRUE(title_of(code).ends_with('.')) << name_of(code);
    EXPECT_FALSE(default_hint_of(code).empty()) << name_of(code);
  }
}

}  // namespace
}  // namespace membrane
