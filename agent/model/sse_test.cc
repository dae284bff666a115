#include "agent/model/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace membrane::agent {
namespace {

std::vector<SseEvent> parse(std::string_view bytes, size_t piece = std::string_view::npos) {
  std::vector<SseEvent> events;
  SseParser parser([&](const SseEvent& event) { events.push_back(event); });
  while (!bytes.empty()) {
    EXPECT_TRUE(parser.feed(bytes.substr(0, piece)));
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  return events;
}

SseEvent data(std::string text) { return {"message", std::move(text), ""}; }

TEST(Sse, ReadsEventsOfTheStandardsExamples) {
  EXPECT_EQ(parse("data: YHOO\ndata: +2\ndata: 10\n\n"), std::vector{data("YHOO\n+2\n10")});
  EXPECT_EQ(
      parse(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n"),
      (std::vector<SseEvent>{{"message", "first event", "1"}, data("second event")}));
  EXPECT_EQ(parse("data\n\ndata\ndata\n\ndata:\n"), (std::vector{data(""), data("\n")}));
  EXPECT_EQ(parse("data:test\n\ndata: test\n\n"), (std::vector{data("test"), data("test")}));
}

TEST(Sse, EveryLineEndEndsALine) {
  const std::vector expected{data("a\nb"), data("c")};
  EXPECT_EQ(parse("data: a\ndata: b\n\ndata: c\n\n"), expected);
  EXPECT_EQ(parse("data: a\rdata: b\r\rdata: c\r\r"), expected);
  EXPECT_EQ(parse("data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n"), expected);
  EXPECT_EQ(parse("data: a\r\ndata: b\n\rdata: c\r\r\n"), expected);
}

TEST(Sse, TheByteOrderMarkIsDroppedOnceAtTheStart) {
  EXPECT_EQ(parse("\xEF\xBB\xBF"
                  "data: a\n\n"),
            std::vector{data("a")});
  EXPECT_EQ(parse("\xEF\xBB\xBF"
                  "data: a\n\n",
                  1),
            std::vector{data("a")});
  EXPECT_TRUE(parse("\n\xEF\xBB\xBF"
                    "data: a\n\n")
                  .empty());
}

TEST(Sse, TypeAndIdAndRetry) {
  EXPECT_EQ(parse("event: ping\ndata: {}\nid: 7\n\ndata: x\n\n"),
            (std::vector<SseEvent>{{"ping", "{}", "7"}, {"message", "x", "7"}}));
  EXPECT_EQ(parse(std::string_view("id: a\0b\ndata: x\n\n", 17)), std::vector{data("x")});
  EXPECT_TRUE(parse("event: only\n\n").empty()) << "no data, no event";
  SseParser parser([](const SseEvent&) {});
  ASSERT_TRUE(parser.feed("retry: 2500\nretry: 12x\nretry: \nretry: -1\n"));
  EXPECT_EQ(parser.retry_ms(), 2500u);
}

TEST(Sse, UnknownFieldsAreIgnored) {
  EXPECT_EQ(parse("foo: bar\n data: spaced\ndata: x\ndatax: y\n\n"), std::vector{data("x")});
}

TEST(Sse, EverySplitGivesTheSameEvents) {
  const std::string stream =
      "\xEF\xBB\xBF: hi\r\nevent: e\rdata: one\r\ndata:two\n\r\nid: 3\ndata: \xF0\x9F\x90\xA2\r\r\r\ndata: "
      "[DONE]\n\n";
  const auto whole = parse(stream);
  ASSERT_EQ(whole.size(), 3u);
  for (size_t piece = 1; piece < stream.size(); ++piece) EXPECT_EQ(parse(stream, piece), whole) << piece;
}

TEST(Sse, AnIncompleteLastEventIsShown) {
  SseParser parser([](const SseEvent&) { FAIL(); });
  EXPECT_FALSE(parser.unfinished());
  ASSERT_TRUE(parser.feed("data: [DO"));
  EXPECT_EQ(parser.unfinished()->data, "[DO");
  ASSERT_TRUE(parser.feed("NE]\n"));
  EXPECT_EQ(parser.unfinished()->data, "[DONE]");
}

TEST(Sse, LongLinesAndLongEventsAreRefused) {
  const SseLimits limits{.line_bytes = 16, .data_bytes = 20};
  SseParser lines([](const SseEvent&) { FAIL(); }, limits);
  ASSERT_TRUE(lines.feed("data: 0123456789"));
  const Status line = lines.feed("x");
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, ErrorCode::kExhausted);
  EXPECT_FALSE(lines.feed("\n\n")) << "a refused stream stays refused";

  SseParser events([](const SseEvent&) { FAIL(); }, limits);
  EXPECT_FALSE(events.feed("data:0123456789\ndata:0123456789\n\n"));
}

}  // namespace
}  // namespace membrane::agent
