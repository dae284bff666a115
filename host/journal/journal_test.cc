#include "host/journal/journal.h"

#include <gtest/gtest.h>

namespace membrane::host {
namespace {

JournalEntry entry(std::string function, Errno code, std::string reason, std::string result) {
  JournalEntry made;
  made.function = std::move(function);
  made.arguments_sha256 = std::string(64, 'a');
  made.code = code;
  made.reason = std::move(reason);
  made.result = std::move(result);
  made.latency_us = 12;
  return made;
}

Journal sample() {
  Journal journal;
  EXPECT_TRUE(journal.append(entry("kv.get", Errno::kOk, "", R"("blue \"é\" \n")")));
  EXPECT_TRUE(journal.append(entry("http.request", Errno::kAccess, "no grant \xFF", "null")));
  EXPECT_TRUE(journal.append(entry("time.now_ms", Errno::kOk, "", "-5")));
  return journal;
}

TEST(Journal, IsReadFromItsText) {
  const Journal journal = sample();
  const auto again = Journal::parse(journal.to_text());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->to_text(), journal.to_text());
  EXPECT_EQ(again->head(), journal.head());
  ASSERT_EQ(again->entries().size(), 3u);
  EXPECT_EQ(again->entries()[1].decision(), "denied");
  EXPECT_EQ(again->entries()[1].reason, "no grant \xEF\xBF\xBD");
  EXPECT_EQ(again->entries()[2].result, "-5");
  EXPECT_EQ(again->entries()[2].sequence, 3u);
}

TEST(Journal, WhatARequestWasRedirectedToIsInIt) {
  Journal journal;
  JournalEntry made = entry("http.request", Errno::kOk, "", R"({"status":200,"heard":[]})");
  made.heard = {{"GET", "https://a.example/"}, {"GET", "https://b.example/\""}};
  ASSERT_TRUE(journal.append(made));
  const auto again = Journal::parse(journal.to_text());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->entries()[0].heard, made.heard);
  EXPECT_EQ(again->entries()[0].result, made.result);
  made.heard.resize(kMaxHttpHops + 1, {"GET", "https://a.example/"});
  Journal more;
  ASSERT_TRUE(more.append(made));
  EXPECT_FALSE(Journal::parse(more.to_text())) << "no request has so many";
}

TEST(Journal, AnEmptyOneIsItsHeader) {
  EXPECT_EQ(Journal().to_text(), "{\"membrane_journal\":1}\n");
  const auto again = Journal::parse("{\"membrane_journal\":1}\n");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->head(), "");
}

TEST(Journal, EveryChangedByteIsFound) {
  const std::string text = sample().to_text();
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == '7' ? '8' : '7';
    EXPECT_FALSE(Journal::parse(changed)) << "at " << i;
  }
}

TEST(Journal, ACutOrReorderedOneIsFound) {
  const std::string text = sample().to_text();
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  ASSERT_EQ(lines.size(), 4u);
  for (size_t cut = 1; cut < lines[0].size(); ++cut) EXPECT_FALSE(Journal::parse(text.substr(0, cut)));
  EXPECT_FALSE(Journal::parse(""));
  EXPECT_FALSE(Journal::parse(text.substr(0, text.size() - 1)));
  EXPECT_FALSE(Journal::parse(lines[0] + lines[2] + lines[1] + lines[3]));
  EXPECT_FALSE(Journal::parse(lines[0] + lines[1] + lines[3]));
  EXPECT_FALSE(Journal::parse(lines[0] + lines[2] + lines[3]));
  EXPECT_FALSE(Journal::parse(text + lines[3]));
  EXPECT_FALSE(Journal::parse(text + "\n"));
  EXPECT_TRUE(Journal::parse(lines[0] + lines[1])) << "a beginning is a journal: the head tells them apart";
}

TEST(Journal, OtherTextsAreRefused) {
  const std::string header = "{\"membrane_journal\":1}\n";
  for (const std::string& bad :
       {std::string("{\"membrane_journal\":2}\n"), std::string("x\n"), header + "{}\n", header + "[]\n",
        header + "null\n", header + std::string(1'000'000, '[') + "\n", header + "{\"sequence\":-1}\n",
        header + "\xFF\n"})
    EXPECT_FALSE(Journal::parse(bad)) << bad.substr(0, 60);
}

}  // namespace
}  // namespace membrane::host
