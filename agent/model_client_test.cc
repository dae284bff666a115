// The client with the scripted server, over real HTTP.
#include "agent/model_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "agent/model_server_testing.h"

namespace membrane::agent {
namespace {

using nlohmann::json;

// Does not wait, and records the requested times.
class FakeClock final : public RetryClock {
 public:
  int64_t now = 1'790'000'000;  // Mon, 21 Sep 2026 14:13:20 GMT
  std::vector<uint64_t> waits;
  std::function<void()> on_wait;

  int64_t unix_s() override { return now; }
  bool wait_ms(uint64_t ms, const std::atomic<bool>* cancel) override {
    waits.push_back(ms);
    if (on_wait) on_wait();
    return cancel == nullptr || !cancel->load();
  }
};

constexpr const char* kKey = "sk-very-secret-0123";

class ModelClientTest : public ::testing::Test {
 protected:
  void serve(std::initializer_list<json> answers) { serve(std::vector<json>(answers)); }
  void serve(const std::vector<json>& answers) {
    server_ = std::make_unique<ModelServer>(answers);
    config_.base_url = server_->base_url();
  }
  ModelClient& client() {
    if (!client_) {
      config_.model = "tiny";
      config_.api_key = kKey;
      config_.jitter_seed = 42;
      auto made = ModelClient::create(config_, clock_);
      EXPECT_TRUE(made) << made.error().to_string();
      client_ = std::move(*made);
    }
    return *client_;
  }
  Result<Completion> ask() {
    control_.on_text = [this](std::string_view text) {
      seen_ += text;
      if (on_text_) on_text_();
    };
    control_.on_retry = [this](std::string_view why, uint64_t) {
      retries_.emplace_back(why);
      seen_.clear();
    };
    return client().complete(query_, control_);
  }
  // For answers that must come.
  Completion answer() {
    auto completion = ask();
    EXPECT_TRUE(completion) << completion.error().to_string();
    return completion.value_or(Completion{});
  }
  Error failure() {
    auto completion = ask();
    EXPECT_FALSE(completion) << completion->content;
    return completion ? Error{} : completion.error();
  }

  ModelConfig config_;
  FakeClock clock_;
  std::unique_ptr<ModelServer> server_;
  std::unique_ptr<ModelClient> client_;
  ChatQuery query_{.messages = {{Role::kSystem, "Be brief.", {}, {}}, {Role::kUser, "Say hello.", {}, {}}},
                   .tools = {{"submit", "Gives the answer.", R"({"type":"object"})"}},
                   .max_tokens = 99};
  ChatControl control_;
  std::string seen_;
  std::vector<std::string> retries_;
  std::function<void()> on_text_;
};

json api_error(int status, const std::string& message, const json& code = nullptr) {
  return {{"status", status}, {"json", {{"error", {{"message", message}, {"code", code}}}}}};
}

// -- answers ---------------------------------------------------------------------------

TEST_F(ModelClientTest, StreamsTheAnswerAsItArrives) {
  serve({streamed({"Hel", "lo", " \xF0\x9F\x90\xA2"})});
  const Completion completion = answer();
  EXPECT_EQ(completion.content, "Hello \xF0\x9F\x90\xA2");
  EXPECT_EQ(seen_, completion.content);
  EXPECT_EQ(completion.finish, Finish::kStop);
  EXPECT_EQ(completion.usage.tokens_in, 11u);
  EXPECT_EQ(completion.usage.tokens_out, 7u);
  EXPECT_FALSE(completion.usage.estimated);
  EXPECT_EQ(completion.attempts, 1u);
}

TEST_F(ModelClientTest, SendsWhatTheApiWants) {
  serve({streamed({"ok"})});
  answer();
  const json request = server_->line(0);
  EXPECT_EQ(request["method"], "POST");
  EXPECT_EQ(request["path"], "/v1/chat/completions");
  EXPECT_EQ(request["headers"]["authorization"], std::string("Bearer ") + kKey);
  EXPECT_EQ(request["headers"]["content-type"], "application/json");
  const json& body = request["body"];
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  EXPECT_EQ(body["max_tokens"], 99);
  EXPECT_EQ(body["messages"][0], (json{{"role", "system"}, {"content", "Be brief."}}));
  EXPECT_EQ(body["tools"][0]["function"]["name"], "submit");
  EXPECT_EQ(body["tools"][0]["function"]["parameters"]["type"], "object");
}

TEST_F(ModelClientTest, EveryPieceSizeGivesTheSameAnswer) {
  std::vector<json> answers;
  for (const int split : {1, 2, 3, 7, 64}) {
    answers.push_back(streamed({"one ", "\xC3\xA9\xE2\x82\xAC", "\ntwo"}));
    answers.back()["split"] = split;
  }
  serve(answers);
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answer().content, "one \xC3\xA9\xE2\x82\xAC\ntwo");
}

TEST_F(ModelClientTest, ReadsAnAnswerThatIsNotStreamed) {
  serve({{{"json",
           {{"choices",
             {{{"message", {{"role", "assistant"}, {"content", "whole"}}}, {"finish_reason", "length"}}}},
            {"usage", {{"prompt_tokens", 3}, {"completion_tokens", 4}}}}}}});
  const Completion completion = answer();
  EXPECT_EQ(completion.content, "whole");
  EXPECT_EQ(completion.finish, Finish::kLength);
  EXPECT_EQ(completion.usage.total(), 7u);
}

TEST_F(ModelClientTest, BelievesTheBytesMoreThanTheContentType) {
  json stream = streamed({"a"});
  stream["headers"]["Content-Type"] = "application/json";
  json whole{{"body", R"( {"choices":[{"message":{"content":[{"type":"text","text":"b"}]}}]})"},
             {"headers", {{"Content-Type", "text/event-stream"}}}};
  serve({stream, whole});
  EXPECT_EQ(answer().content, "a");
  EXPECT_EQ(answer().content, "b");
}

TEST_F(ModelClientTest, UnpacksGzip) {
  // printf '{"choices":[{"message":{"content":"zipped"}}]}' | gzip -n | xxd -p
  serve({{{"body_hex",
           "1f8b0800000000000003ab564acec8cf4c4e2d56b28aae56ca4d2d2e4e4c4f55b2aa564acecf2b49cd2b51b2"
           "52aaca2c28484d51aaad8dad0500976d5d182e000000"},
          {"headers", {{"Content-Encoding", "gzip"}}}}});
  EXPECT_EQ(answer().content, "zipped");
}

TEST_F(ModelClientTest, EstimatesTokensWhereTheServerDoesNotCount) {
  serve({{{"events", {event({{"content", "12345678"}}), event(json::object(), "stop"), "[DONE]"}}}});
  const Completion completion = answer();
  EXPECT_TRUE(completion.usage.estimated);
  EXPECT_EQ(completion.usage.tokens_out, 2u);
  EXPECT_EQ(completion.usage.tokens_in, estimate_tokens(query_.messages));
}

TEST_F(ModelClientTest, KeepsThoughtsApartFromTheAnswer) {
  serve({{{"events",
           {event({{"reasoning_content", "hm"}}), event({{"reasoning", "m"}}), event({{"content", "42"}}),
            event(json::object(), "stop"), "[DONE]"}}}});
  std::string thoughts;
  control_.on_thought = [&](std::string_view text) { thoughts += text; };
  const Completion completion = answer();
  EXPECT_EQ(completion.content, "42");
  EXPECT_EQ(completion.reasoning, "hmm");
  EXPECT_EQ(thoughts, "hmm");
}

TEST_F(ModelClientTest, TakesAVeryLongLine) {
  serve({streamed({std::string(2'000'000, 'x')})});
  EXPECT_EQ(answer().content.size(), 2'000'000u);
}

TEST_F(ModelClientTest, CommentsAndOtherEventsAreNoAnswer) {
  serve({{{"body",
           ": keep-alive\n\nevent: ping\ndata: {}\n\ndata: "
           "{\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]"},
          {"headers", {{"Content-Type", "text/event-stream"}}}}});
  EXPECT_EQ(answer().content, "x");
}

TEST_F(ModelClientTest, TheMarkEndsTheAnswerThoughTheServerStaysOnTheLine) {
  json stalling = streamed({"x"});
  stalling["end"] = "stall";
  serve({stalling});
  EXPECT_EQ(answer().content, "x");
  EXPECT_EQ(server_->line(1)["event"], "hang-up");
}

// -- tool calls --------------------------------------------------------------------------

TEST_F(ModelClientTest, GathersAToolCallFromItsDeltas) {
  json scripted = streamed_call("run_program", {{"source", "(module)"}}, "call_77");
  scripted["split"] = 5;
  serve({scripted});
  const Completion completion = answer();
  EXPECT_EQ(completion.finish, Finish::kToolCalls);
  EXPECT_EQ(completion.tool_calls,
            (std::vector<ToolCall>{{"call_77", "run_program", R"x({"source":"(module)"})x"}}));
}

TEST_F(ModelClientTest, GathersCallsInEveryShapeThatServersSend) {
  const auto call = [](const json& fields) { return event({{"tool_calls", {fields}}}); };
  const json end = event(json::object(), "tool_calls");
  const json interleaved{
      call({{"index", 0}, {"id", "a"}, {"function", {{"name", "f"}, {"arguments", ""}}}}),
      call({{"index", 1}, {"id", "b"}, {"function", {{"name", "g"}, {"arguments", "{\"x\""}}}}),
      call({{"index", 0}, {"function", {{"arguments", "{}"}}}}),
      call({{"index", 1}, {"function", {{"arguments", ":1}"}}}}), end};
  const json without_index{call({{"id", "a"}, {"function", {{"name", "f"}, {"arguments", "{"}}}}),
                           call({{"function", {{"arguments", "}"}}}}),
                           call({{"id", "b"}, {"function", {{"name", "g"}, {"arguments", "{\"x\":1}"}}}}),
                           end};
  const json all_at_index_0{
      call({{"index", 0}, {"id", "a"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}}),
      call({{"index", 0}, {"id", "b"}, {"function", {{"name", "g"}, {"arguments", json{{"x", 1}}}}}}), end};
  serve({{{"events", interleaved}}, {{"events", without_index}}, {{"events", all_at_index_0}}});
  const std::vector<ToolCall> expected{{"a", "f", "{}"}, {"b", "g", R"({"x":1})"}};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(answer().tool_calls, expected) << i;
}

TEST_F(ModelClientTest, MakesUpAMissingId) {
  serve({{{"json",
           {{"choices",
             {{{"message",
                {{"content", nullptr},
                 {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", {{"x", 1}}}}}}}}}}}}}}}}});
  EXPECT_EQ(answer().tool_calls, (std::vector<ToolCall>{{"call_1", "f", R"({"x":1})"}}));
}

TEST_F(ModelClientTest, BoundsTheNumberOfCalls) {
  json events = json::array();
  for (int i = 0; i < 100; ++i)
    events.push_back(event({{"tool_calls", {{{"index", i}, {"function", {{"name", "f"}}}}}}}));
  serve({{{"events", events}}});
  config_.max_retries = 0;
  EXPECT_EQ(failure().code, ErrorCode::kInvalidInput);
}

// -- what servers refuse --------------------------------------------------------------------

TEST_F(ModelClientTest, LearnsWhatTheServerDoesNotTake) {
  serve({api_error(400, "Unknown parameter: 'stream_options'."),
         api_error(400, "tiny does not support tools"),
         api_error(400, "Unsupported parameter: use 'max_completion_tokens'"),
         api_error(500, "System role not supported"), streamed({"ok"}), streamed({"again"})});
  EXPECT_EQ(answer().content, "ok");
  EXPECT_FALSE(client().offers_tools());
  EXPECT_TRUE(clock_.waits.empty()) << "an adapted query is sent at once";
  EXPECT_EQ(answer().content, "again");
  const json body = server_->line(5)["body"];
  EXPECT_FALSE(body.contains("stream_options"));
  EXPECT_FALSE(body.contains("tools"));
  EXPECT_FALSE(body.contains("max_tokens"));
  EXPECT_EQ(body["max_completion_tokens"], 99);
  EXPECT_EQ(body["messages"], (json{{{"role", "user"}, {"content", "Be brief.\n\nSay hello."}}}));
}

TEST_F(ModelClientTest, WithoutToolsTheConversationIsToldInText) {
  config_.tools = false;
  serve({streamed({"ok"})});
  query_.messages.push_back({Role::kAssistant, "", {{"c1", "run", "{}"}}, {}});
  query_.messages.push_back({Role::kTool, "it ran", {}, "c1"});
  query_.messages.push_back({Role::kUser, "go on", {}, {}});
  answer();
  const json messages = server_->line(0)["body"]["messages"];
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[2], (json{{"role", "assistant"}, {"content", "\n[run {}]"}}));
  EXPECT_EQ(messages[3], (json{{"role", "user"}, {"content", "it ran\n\ngo on"}}));
}

TEST_F(ModelClientTest, BytesThatAreNotUtf8AreSentAsReplacementCharacters) {
  serve({streamed({"ok"})});
  query_.messages.back().content = "a\xFFz";
  answer();
  EXPECT_EQ(server_->line(0)["body"]["messages"][1]["content"], "a\xEF\xBF\xBDz");
}

// -- retries -----------------------------------------------------------------------------------

TEST_F(ModelClientTest, BacksOffFromServerErrors) {
  serve({api_error(500, "oops, upstream died"),
         api_error(503, "busy"),
         {{"status", 502}, {"body", "<html>bad gateway</html>"}},
         streamed({"ok"})});
  const Completion completion = answer();
  EXPECT_EQ(completion.content, "ok");
  EXPECT_EQ(completion.attempts, 4u);
  ASSERT_EQ(clock_.waits.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_GE(clock_.waits[i], Backoff::kFirstMs << i >> 1);
    EXPECT_LE(clock_.waits[i], Backoff::kFirstMs << i);
  }
  EXPECT_EQ(retries_[0], "The model server answered 500: oops, upstream died");
  EXPECT_EQ(server_->line(3)["body"]["stream"], true) << "the word upstream says nothing about streams";
}

TEST(Backoff, IsCappedAndFollowsItsSeed) {
  Backoff a(7), b(7), c(8);
  bool differs = false;
  for (uint32_t i = 0; i < 40; ++i) {
    const uint64_t wait = a.wait_ms(i);
    EXPECT_EQ(wait, b.wait_ms(i));
    EXPECT_LE(wait, Backoff::kMaxMs);
    differs |= wait != c.wait_ms(i);
  }
  EXPECT_TRUE(differs);
}

TEST_F(ModelClientTest, GivesUpAfterTheLastRetry) {
  json error = api_error(503, "overloaded");
  error["repeat"] = 9;
  serve({error});
  config_.max_retries = 2;
  const Error failed = failure();
  EXPECT_EQ(failed.code, ErrorCode::kUnavailable);
  EXPECT_EQ(failed.message, "The model server answered 503: overloaded");
  EXPECT_EQ(server_->end(), 3u);
}

TEST_F(ModelClientTest, KeepsRetryAfter) {
  json in_seconds = api_error(429, "slow down"), at_a_date = in_seconds, unreadable = in_seconds,
       passed = in_seconds;
  in_seconds["headers"]["Retry-After"] = "7";
  at_a_date["headers"]["Retry-After"] = "Mon, 21 Sep 2026 14:13:53 GMT";
  unreadable["headers"]["Retry-After"] = "soon";
  passed["headers"]["Retry-After"] = "Mon, 21 Sep 2026 14:00:00 GMT";
  serve({in_seconds, at_a_date, unreadable, passed, streamed({"ok"})});
  EXPECT_EQ(answer().content, "ok");
  ASSERT_EQ(clock_.waits.size(), 4u);
  EXPECT_EQ(clock_.waits[0], 7'000u);
  EXPECT_EQ(clock_.waits[1], 33'000u);
  EXPECT_GE(clock_.waits[2], Backoff::kFirstMs * 2);
  EXPECT_GE(clock_.waits[3], Backoff::kFirstMs * 4);
}

TEST_F(ModelClientTest, ALongRetryAfterIsAFailureNotAWait) {
  json busy = api_error(429, "come back tomorrow");
  busy["headers"]["Retry-After"] = "86400";
  serve({busy});
  const Error failed = failure();
  EXPECT_EQ(failed.code, ErrorCode::kUnavailable);
  EXPECT_NE(failed.message.find("86400 s"), std::string::npos) << failed.message;
  EXPECT_TRUE(clock_.waits.empty());
}

TEST_F(ModelClientTest, DoesNotWaitBeyondTheDeadline) {
  json busy = api_error(429, "busy");
  busy["headers"]["Retry-After"] = "50";
  serve({busy});
  control_.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  EXPECT_EQ(failure().code, ErrorCode::kTimedOut);
  EXPECT_TRUE(clock_.waits.empty());
}

TEST_F(ModelClientTest, AQuotaThatIsGoneIsNotRetried) {
  serve({api_error(429, "You exceeded your current quota", "insufficient_quota")});
  EXPECT_EQ(failure().code, ErrorCode::kExhausted);
  EXPECT_TRUE(clock_.waits.empty());
}

TEST_F(ModelClientTest, RefusalsAreNotRetriedAndSayWhatToDo) {
  const std::map<int, ErrorCode> expected{{400, ErrorCode::kInvalidInput}, {401, ErrorCode::kDenied},
                                          {403, ErrorCode::kDenied},       {404, ErrorCode::kNotFound},
                                          {413, ErrorCode::kTooLong},      {422, ErrorCode::kInvalidInput}};
  std::vector<json> answers;
  for (const auto& [status, code] : expected) answers.push_back(api_error(status, "no"));
  serve(answers);
  for (const auto& [status, code] : expected) {
    const Error failed = failure();
    EXPECT_EQ(failed.code, code) << status;
    EXPECT_FALSE(failed.hint.empty()) << status;
  }
  EXPECT_TRUE(clock_.waits.empty());
}

TEST_F(ModelClientTest, AConversationBeyondTheModelsWindowIsToldApart) {
  serve({api_error(400, "This model's maximum context length is 4096 tokens."),
         api_error(400, "Too many tokens.", "context_length_exceeded"),
         api_error(500, "the request exceeds the available context size")});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(failure().code, ErrorCode::kTooLong);
  EXPECT_EQ(failure().code, ErrorCode::kTooLong) << "whatever the status";
  EXPECT_TRUE(clock_.waits.empty());
}

TEST_F(ModelClientTest, RedirectsAreNotFollowed) {
  serve({{{"status", 307}, {"body", ""}, {"headers", {{"Location", "/elsewhere"}}}}, streamed({"lured"})});
  EXPECT_NE(failure().hint.find("Redirects"), std::string::npos);
  EXPECT_EQ(server_->end(), 1u);
}

TEST_F(ModelClientTest, ErrorBodiesOfEveryKindAreReadable) {
  serve({{{"status", 400}, {"body", R"({"error":"model not loaded"})"}},
         {{"status", 400}, {"body", R"({"detail":"bad field"})"}},
         {{"status", 400}, {"body", R"([{"error":{"message":"in an array","status":"INVALID"}}])"}},
         {{"status", 400}, {"body", "plain\r\n text"}},
         {{"status", 400}, {"body", ""}},
         {{"status", 400}, {"body", ""}, {"fill", {200'000, "long "}}}});
  EXPECT_EQ(failure().message, "The model server answered 400: model not loaded");
  EXPECT_EQ(failure().message, "The model server answered 400: bad field");
  EXPECT_EQ(failure().message, "The model server answered 400: in an array");
  EXPECT_EQ(failure().message, "The model server answered 400: plain text");
  EXPECT_EQ(failure().message, "The model server answered 400");
  EXPECT_LT(failure().message.size(), 500u);
}

// -- faults on the way ------------------------------------------------------------------------------

json cut_stream(const std::string& end) {
  return {{"events", {event({{"content", "half an ans"}})}}, {"end", end}};
}

TEST_F(ModelClientTest, AsksAgainAfterACut) {
  serve({cut_stream("cut"), cut_stream("reset"), streamed({"whole"})});
  const Completion completion = answer();
  EXPECT_EQ(completion.content, "whole");
  EXPECT_EQ(seen_, "whole");
  EXPECT_EQ(retries_.size(), 2u);
  EXPECT_EQ(completion.finish, Finish::kStop);
  EXPECT_GT(completion.usage.total(), 18u) << "what was cut has cost, too";
  EXPECT_TRUE(completion.usage.estimated);
}

TEST_F(ModelClientTest, KeepsWhatCameWhenEveryAnswerIsCut) {
  json cut = cut_stream("cut");
  cut["repeat"] = 9;
  serve({cut});
  const Completion completion = answer();
  EXPECT_EQ(completion.content, "half an ans");
  EXPECT_EQ(completion.finish, Finish::kCut);
  EXPECT_NE(completion.problem.find("cut"), std::string::npos);
  EXPECT_EQ(server_->end(), 3u) << "cuts are dear: fewer retries than for a 503";
}

TEST_F(ModelClientTest, AStreamThatEndsWithoutItsMarkIsCut) {
  serve({cut_stream("close"), streamed({"whole"})});
  EXPECT_EQ(answer().content, "whole");
}

TEST_F(ModelClientTest, ACutBehindTheEndIsNone) {
  serve({{{"events", {event({{"content", "all"}}), event(json::object(), "stop")}}, {"end", "reset"}}});
  EXPECT_EQ(answer().content, "all");
  EXPECT_TRUE(retries_.empty());
}

TEST_F(ModelClientTest, AHalfToolCallIsNeverReturned) {
  json cut = {
      {"events",
       {event({{"content", "I will"}}),
        event({{"tool_calls",
                {{{"index", 0}, {"id", "a"}, {"function", {{"name", "f"}, {"arguments", "{\"x\":"}}}}}}})}},
      {"end", "cut"},
      {"repeat", 3}};
  serve({cut});
  EXPECT_TRUE(answer().tool_calls.empty());
}

TEST_F(ModelClientTest, AConnectionThatClosesAtOnceIsRetried) {
  serve({{{"raw", ""}},
         {{"raw", "HTTP/1.1 200 OK\r\nContent-Le"}},
         {{"raw", "nonsense\r\n\r\n"}},
         streamed({"ok"})});
  EXPECT_EQ(answer().content, "ok");
  EXPECT_EQ(retries_.size(), 3u);
}

TEST_F(ModelClientTest, AMalformedStreamIsRetriedThenReported) {
  const json bad{{"events", {event({{"content", "x"}}), "{\"choices\":[{"}}};
  serve({bad, streamed({"ok"}), bad, bad, bad});
  EXPECT_EQ(answer().content, "ok");
  config_.max_retries = 0;
  client_.reset();
  const auto completion = ask();
  ASSERT_TRUE(completion) << "text had come";
  EXPECT_EQ(completion->finish, Finish::kCut);
  EXPECT_NE(completion->problem.find("not a JSON object"), std::string::npos) << completion->problem;
}

TEST_F(ModelClientTest, AnErrorInsideAStreamIsAFailureOfTheServer) {
  serve({{{"events", {{{"error", {{"message", "out of memory"}, {"code", 500}}}}}}}, streamed({"ok"})});
  EXPECT_EQ(answer().content, "ok");
  EXPECT_NE(retries_[0].find("out of memory"), std::string::npos);
}

TEST_F(ModelClientTest, AnErrorUnderStatus200IsAFailureOfTheServer) {
  json error = api_error(200, "no provider", 502);
  error["repeat"] = 2;
  serve({error});
  config_.max_retries = 1;
  const Error failed = failure();
  EXPECT_EQ(failed.code, ErrorCode::kUnavailable);
  EXPECT_NE(failed.message.find("no provider"), std::string::npos);
}

TEST_F(ModelClientTest, WhatIsNoAnswerIsNamed) {
  serve({{{"body", "<!doctype html><p>Welcome"}, {"headers", {{"Content-Type", "text/html"}}}},
         {{"body", "OK"}, {"headers", {{"Content-Type", "text/plain"}}}},
         {{"body", ""}},
         {{"json", {{"choices", json::array()}}}},
         {{"json", json::array()}},
         {{"json", {{"object", "list"}}}}});
  config_.max_retries = 0;
  EXPECT_NE(failure().message.find("web page"), std::string::npos);
  for (int i = 0; i < 5; ++i) {
    const Error failed = failure();
    EXPECT_EQ(failed.code, ErrorCode::kInvalidInput) << i;
    EXPECT_NE(failed.hint.find("MEMBRANE_BASE_URL"), std::string::npos) << i;
  }
}

TEST_F(ModelClientTest, ASilentServerTimesOut) {
  serve({{{"raw", ""}, {"end", "stall"}}});
  config_.max_retries = 0;
  config_.timeouts.first_byte_ms = 1000;  // within which the request itself must have left
  EXPECT_EQ(failure().code, ErrorCode::kTimedOut);
  EXPECT_EQ(server_->line(1)["event"], "hang-up");
}

TEST_F(ModelClientTest, AServerThatFallsSilentTimesOut) {
  json stalled = cut_stream("stall");
  serve({stalled, streamed({"ok"})});
  config_.timeouts.idle_ms = 1000;  // "ok" comes in one piece: nothing that it waits for
  EXPECT_EQ(answer().content, "ok");
  EXPECT_EQ(server_->line(1)["event"], "hang-up");
  EXPECT_NE(retries_[0].find("in the middle"), std::string::npos) << retries_[0];
}

TEST_F(ModelClientTest, TheDeadlineEndsTheTransfer) {
  serve({cut_stream("stall")});
  control_.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
  EXPECT_EQ(failure().code, ErrorCode::kTimedOut);
}

TEST_F(ModelClientTest, ACancelEndsTheTransfer) {
  serve({cut_stream("stall")});
  std::atomic<bool> cancel{false};
  control_.cancel = &cancel;
  on_text_ = [&] { cancel = true; };
  EXPECT_EQ(failure().code, ErrorCode::kCancelled);
  EXPECT_EQ(server_->line(1)["event"], "hang-up");
}

TEST_F(ModelClientTest, ACancelEndsTheWait) {
  serve({api_error(503, "busy"), streamed({"too late"})});
  std::atomic<bool> cancel{false};
  control_.cancel = &cancel;
  clock_.on_wait = [&] { cancel = true; };
  EXPECT_EQ(failure().code, ErrorCode::kCancelled);
  EXPECT_EQ(server_->end(), 1u);
}

TEST_F(ModelClientTest, AnEndlessAnswerIsRefused) {
  serve({{{"events", {event({{"content", "x"}})}}, {"fill", {100'000, ": filler\n"}}},
         {{"body", "{"}, {"fill", {100'000, "          "}}}});
  config_.max_response_bytes = 100'000;
  EXPECT_EQ(failure().code, ErrorCode::kExhausted);
  EXPECT_EQ(failure().code, ErrorCode::kExhausted);
  EXPECT_TRUE(clock_.waits.empty());
}

TEST_F(ModelClientTest, NobodyThereIsSaidSo) {
  const int held =
      socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);  // bound, but not listening: connections are refused
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_GE(held, 0);
  ASSERT_EQ(bind(held, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(held, reinterpret_cast<sockaddr*>(&address), &size), 0);
  config_.base_url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  const Error failed = failure();
  close(held);
  EXPECT_EQ(failed.code, ErrorCode::kUnavailable);
  EXPECT_NE(failed.hint.find("MEMBRANE_BASE_URL"), std::string::npos);
  EXPECT_EQ(clock_.waits.size(), 4u) << "a server that starts is waited for";
}

// -- the key ------------------------------------------------------------------------------------------

TEST_F(ModelClientTest, TheKeyIsNeverEchoed) {
  const std::string echo = std::string("Incorrect API key provided: ") + kKey + " (" + kKey + ")";
  serve({api_error(401, echo),
         api_error(500, echo),
         {{"events", {{{"error", {{"message", echo}}}}}}},
         {{"body", echo}},
         api_error(200, echo, 1)});
  config_.max_retries = 0;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(failure().to_string().find(kKey), std::string::npos) << i;
}

TEST_F(ModelClientTest, AKeyThatWouldBreakTheHeaderIsRefused) {
  config_.model = "m";
  config_.base_url = "http://127.0.0.1:1/v1";
  for (const char* key : {"abc\r\nX-Evil: 1", "abc ", "abc\n"}) {
    config_.api_key = key;
    const auto made = ModelClient::create(config_);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().to_string().find("abc"), std::string::npos);
  }
}

// -- configuration ------------------------------------------------------------------------------------------

TEST(ModelConfig, ComesFromTheEnvironment) {
  const auto from = [](const std::map<std::string, const char*>& values) {
    return model_config_from(
        [values](const char* name) { return values.contains(name) ? values.at(name) : nullptr; });
  };
  const auto config =
      from({{"MEMBRANE_MODEL", "m"}, {"MEMBRANE_BASE_URL", "http://x/v1"}, {"MEMBRANE_API_KEY", "k"}});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->model, "m");
  EXPECT_EQ(config->base_url, "http://x/v1");
  EXPECT_EQ(config->api_key, "k");
  EXPECT_NE(from({}).error().message.find("MEMBRANE_MODEL and MEMBRANE_BASE_URL"), std::string::npos);
  EXPECT_EQ(from({{"MEMBRANE_MODEL", "m"}}).error().message,
            "No model is configured: MEMBRANE_BASE_URL is not set.");
}

TEST(Endpoint, IsBuiltByTheUrlLibrary) {
  const CurlApi& api = **curl();
  const auto endpoint = [&](const char* base) { return endpoint_of(api, base, "chat/completions"); };
  EXPECT_EQ(endpoint("https://api.example.org/v1"), "https://api.example.org/v1/chat/completions");
  EXPECT_EQ(endpoint("https://api.example.org/v1/"), "https://api.example.org/v1/chat/completions");
  EXPECT_EQ(endpoint("http://127.0.0.1:11434"), "http://127.0.0.1:11434/v1/chat/completions");
  EXPECT_EQ(endpoint("http://[::1]:8080/"), "http://[::1]:8080/v1/chat/completions");
  EXPECT_EQ(endpoint("https://h/openai/chat/completions?api-version=1"),
            "https://h/openai/chat/completions?api-version=1");
  for (const char* bad : {"", "api.example.org", "localhost:8080/v1", "ftp://h/v1", "file:///etc/passwd",
                          "https://user:pw@h/v1", "https://h/v1#x", "http://"})
    EXPECT_FALSE(endpoint(bad)) << bad;
}

// -- embeddings and ai.* ---------------------------------------------------------------------------------------

TEST_F(ModelClientTest, Embeds) {
  config_.embed_model = "tiny-embed";
  serve({api_error(500, "warming up"),
         {{"json", {{"data", {{{"embedding", {0.5, -1, 2}}}}}}}},
         {{"json", {{"data", {{{"embedding", {"x"}}}}}}}}});
  EXPECT_EQ(client().embed("text", {}), (std::vector<float>{0.5f, -1.f, 2.f}));
  EXPECT_EQ(server_->line(1)["path"], "/v1/embeddings");
  EXPECT_EQ(server_->line(1)["body"]["model"], "tiny-embed");
  EXPECT_EQ(client().embed("text", {}).error().code, ErrorCode::kInvalidInput);
}

TEST_F(ModelClientTest, ServesProgramsThroughTheHostsInterface) {
  json stalled = cut_stream("stall");
  serve({streamed({"hi"}), api_error(400, "bad"), stalled, api_error(401, "no")});
  HostModel model(client(), nullptr);
  const auto answered = model.complete({.system = "s", .prompt = "p", .max_tokens = 5}, 10'000);
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->text, "hi");
  EXPECT_EQ(answered->tokens_in, 11u);
  EXPECT_EQ(answered->tokens_out, 7u);
  EXPECT_FALSE(server_->line(0)["body"].contains("tools"));
  EXPECT_EQ(model.complete({}, 10'000).error().code, host::Errno::kProtocol);
  EXPECT_EQ(model.complete({}, 40).error().code, host::Errno::kTimedOut);
  EXPECT_EQ(model.embed("x", 10'000).error().code, host::Errno::kHost);
}

TEST_F(ModelClientTest, AnswersManyThreadsAtOnce) {
  json one = streamed({"x"});
  one["repeat"] = 40;
  serve({one});
  client();
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const auto completion = client().complete(query_, {});
        if (completion && completion->content == "x") ++right;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 40);
}

}  // namespace
}  // namespace membrane::agent
