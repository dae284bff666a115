#include "base/findings.h"

#include <gtest/gtest.h>

#include <string>

namespace membrane {
namespace {

TEST(Findings, TextsAreCutAfterAWholeCharacter) {
  Diagnostic finding;
  finding.message = std::string(kMaxFindingTextBytes, 'm');
  std::string euros;
  while (euros.size() <= kMaxFindingTextBytes) euros += "\xE2\x82\xAC";
  finding.found = euros;
  bound_text(finding);
  EXPECT_EQ(finding.message.size(), kMaxFindingTextBytes);
  EXPECT_LE(finding.found.size(), kMaxFindingTextBytes);
  EXPECT_TRUE(finding.found.ends_with("\xE2\x82\xAC…")) << finding.found.substr(finding.found.size() - 8);
}

TEST(Findings, OnlyTheFirstAreGiven) {
  std::vector<Diagnostic> many(1000);
  many[3].hint = std::string(1 << 20, 'h');
  const std::vector<Diagnostic> given = bounded(many);
  EXPECT_EQ(given.size(), kMaxFindings);
  EXPECT_LE(given[3].hint.size(), kMaxFindingTextBytes);
}

TEST(Findings, ASuggestionComparesNoMoreThanItsShare) {
  const std::string word(60, 'a');
  std::vector<std::string> names(5000, std::string(59, 'b') + 'c');
  names.push_back(std::string(59, 'a') + 'b');  // longer than what is compared
  std::vector<std::string_view> candidates(names.begin(), names.end());
  EXPECT_EQ(nearest(word, candidates), "");
  std::swap(candidates.front(), candidates.back());
  EXPECT_EQ(nearest(word, candidates), candidates.front());
}

}  // namespace
}  // namespace membrane
