#include "service/traces.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace membrane::service {
namespace {

constexpr const char* kGiven = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(Traces, ReadTheHeader) {
  const auto context = read_traceparent(kGiven);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(context->span_id, "b7ad6b7169203331");
  EXPECT_TRUE(context->is_sampled);
  EXPECT_EQ(traceparent(*context), kGiven);
  EXPECT_FALSE(read_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")->is_sampled);
  EXPECT_TRUE(read_traceparent("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"));
}

TEST(Traces, RefuseInvalidHeaders) {
  for (const char* text : {"", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
                           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                           "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                           "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more"})
    EXPECT_FALSE(read_traceparent(text)) << text;
}

TEST(Traces, ContinueThatOfTheRequestOrStart) {
  const Span of = begin_span(kGiven);
  EXPECT_EQ(of.context.trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(of.parent_id, "b7ad6b7169203331");
  EXPECT_NE(of.context.span_id, of.parent_id);
  const Span first = begin_span("nonsense");
  EXPECT_EQ(first.parent_id, "");
  EXPECT_TRUE(read_traceparent(traceparent(first.context)));
}

TEST(Traces, AreTextThatCollectorsRead) {
  Span span = begin_span(kGiven);
  span.name = "GET /v1/sandboxes";
  span.began_ms = 1'000;
  span.took_us = 5;
  span.status = 500;
  const auto json = read_json(Traces::json_of({span}));
  ASSERT_TRUE(json);
  const auto& sent = (*json)["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(sent["startTimeUnixNano"], "1000000000");
  EXPECT_EQ(sent["endTimeUnixNano"], "1000005000");
  EXPECT_EQ(sent["parentSpanId"], "b7ad6b7169203331");
  EXPECT_EQ(sent["status"]["code"], 2);
}

TEST(Traces, HaveWhatProgramsSendBelowTheirExec) {
  Span span = begin_span(kGiven);
  span.name = span.sent_method = "GET";
  span.sent_host = "*.example.org";
  const auto json = read_json(Traces::json_of({span}));
  ASSERT_TRUE(json);
  const auto& sent = (*json)["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(sent["kind"], 3);
  EXPECT_EQ(sent["status"]["code"], 2);  // nothing was answered
  EXPECT_EQ(sent["attributes"][1]["value"]["stringValue"], "*.example.org");
  EXPECT_EQ(resume_span(traceparent(span.context), kGiven).context.span_id, span.context.span_id);
}

}  // namespace
}  // namespace membrane::service
