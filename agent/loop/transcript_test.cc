#include "agent/loop/transcript.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace membrane::agent {
namespace {

using nlohmann::json;
using sandbox::Report;

// One task with a program, a repair and an answer, through the real loop.
class TranscriptTest : public ::testing::Test {
 protected:
  static Report execute(const Program& program, const StepContext&) {
    Report report;
    report.fuel_used = program.source.size();
    report.stdout_text = "ran \xFF " + program.source;
    report.run_us = static_cast<double>(++g_clock);
    report.host_calls = {{"http.get", true, "", "", "", "http://x/", 5, 0, ++g_clock}};
    return report;
  }
  std::string record(ChatModel& model) {
    std::string text;
    TranscriptWriter writer([&](std::string_view line) { text += line; }, "tiny", R"({"limits":{"fuel":7}})",
                            std::vector{wat()});
    std::atomic<bool> cancel{false};
    Loop loop(model, execute, std::make_shared<policy::Budget>(), catalog_, "SYSTEM");
    loop.add_observer(writer);
    result_ = loop.run("the \"task\"", cancel);
    return text;
  }
  std::string record() {
    auto answers = Recording::parse(
        "{\"content\": \"```wat\\n(module)\\n```\"}\n"
        "{\"tool_calls\": [{\"name\": \"submit\", \"arguments\": {\"answer\": \"42\"}}]}\n",
        "answers.jsonl");
    EXPECT_TRUE(answers) << answers.error().message;
    EXPECT_TRUE(answers->plain);
    RecordedModel model(std::move(*answers));
    return record(model);
  }

  static inline uint64_t g_clock = 0;
  Catalog catalog_;
  TaskResult result_;
};

TEST_F(TranscriptTest, EachLineIsAnObjectWithAType) {
  const std::string text = record();
  EXPECT_EQ(result_.answer, "42");
  std::vector<std::string> types;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    types.push_back(json::parse(text.substr(at, end - at))["type"]);
    at = end + 1;
  }
  EXPECT_EQ(types, (std::vector<std::string>{"header", "task", "reply", "program", "report", "observation",
                                             "reply", "observation", "end"}));
}

TEST_F(TranscriptTest, ReadsWhatItWrote) {
  const auto recording = Recording::parse(record(), "t.jsonl");
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_FALSE(recording->plain);
  EXPECT_EQ(recording->model, "tiny");
  EXPECT_EQ(recording->policy_json, R"({"limits":{"fuel":7}})");
  EXPECT_EQ(recording->tasks, std::vector<std::string>{"the \"task\""});
  EXPECT_EQ(recording->answers, std::vector<std::string>{"42"});
  ASSERT_EQ(recording->replies.size(), 2u);
  EXPECT_EQ(recording->replies[1].tool_calls[0].name, "submit");
  ASSERT_EQ(recording->runs.size(), 1u);
  EXPECT_EQ(recording->runs[0].program.source, "(module)\n");
}

TEST_F(TranscriptTest, AReplayRunsAgainAndAgrees) {
  const auto recording = Recording::parse(record(), "t.jsonl");
  RecordedModel model(*recording);
  ReplayCheck check(*recording);
  std::atomic<bool> cancel{false};
  int executed = 0;
  Loop loop(
      model,
      [&](const Program& p, const StepContext& c) {
        ++executed;
        return execute(p, c);
      },
      std::make_shared<policy::Budget>(), catalog_, "SYSTEM");
  loop.add_observer(check);
  EXPECT_EQ(loop.run(recording->tasks[0], cancel).answer, "42");
  EXPECT_EQ(executed, 1) << "programs really run";
  EXPECT_TRUE(check.divergences().empty()) << check.divergences()[0] << " (times may differ, nothing else)";
}

TEST_F(TranscriptTest, AReplayThatDiffersSaysWhere) {
  const auto recording = Recording::parse(record(), "t.jsonl");
  RecordedModel model(*recording);
  ReplayCheck check(*recording);
  std::atomic<bool> cancel{false};
  Loop loop(
      model,
      [](const Program& p, const StepContext& c) {
        Report r = execute(p, c);
        r.fuel_used += 1;
        r.host_calls[0].error = "EACCES";
        return r;
      },
      std::make_shared<policy::Budget>(), catalog_, "SYSTEM");
  loop.add_observer(check);
  loop.run(recording->tasks[0], cancel);
  ASSERT_EQ(check.divergences().size(), 2u);
  EXPECT_EQ(check.divergences()[0], "program 1: fuel_used was 9, is 10");
  EXPECT_TRUE(check.divergences()[1].starts_with("program 1: host_calls was "));
  Program other;
  other.source = "(other)";
  check.on_program(other);
  EXPECT_EQ(check.divergences().back(), "program 2: the recording has no such program");
}

TEST_F(TranscriptTest, ARecordingThatIsOverSaysSo) {
  auto answers = Recording::parse(R"({"content":"```wat\n(module)\n```"})", "a.jsonl");
  RecordedModel model(*answers);
  record(model);
  EXPECT_EQ(result_.stop, Stop::kModelFailed);
  EXPECT_NE(result_.error->message.find("another way"), std::string::npos);
}

TEST_F(TranscriptTest, AnyPrefixOfWholeLinesIsARecording) {
  const std::string text = record();
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 1))
    EXPECT_TRUE(Recording::parse(text.substr(0, end + 1), "t")) << "a task that was killed is still readable";
}

TEST(Recording, TheFirstVersionHadNoLanguagesButWat) {
  const auto recording = Recording::parse(
      R"({"type":"header","format":"membrane-transcript","version":1,"model":"m","policy":{}})"
      "\n"
      R"x({"type":"program","name":"p","source":"(module)"})x",
      "t");
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ(recording->languages, std::vector<std::string>{"wat"});
  EXPECT_EQ(recording->runs.at(0).program.written_in, "wat");
}

TEST(Recording, MalformedLinesAreRefusedWithTheirPlace) {
  const std::string header =
      R"({"type":"header","format":"membrane-transcript","version":1,"model":"m","policy":{}})"
      "\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", "holds no line"},
      {"\n \n", "holds no line"},
      {"nonsense", "t:1: the line is not a JSON object"},
      {"[]", "t:1: the line is not a JSON object"},
      {"{\"content\":\"x\"}\n{\"content\":", "t:2: the line is not a JSON object"},
      {R"({"contents":"x"})", "an answer has no \"contents\""},
      {R"({"content":1})", "\"content\" is not a string"},
      {R"({})", "\"content\" is missing"},
      {R"({"tool_calls":[{"name":"f"}]})", "a tool call is not"},
      {R"({"tool_calls":{}})", "a list of at most"},
      {R"({"content":"x","finish":"whenever"})", "\"finish\" is whenever"},
      {R"({"content":"x","usage":{"tokens_in":-1}})", "\"tokens_in\" is not a whole number"},
      {R"({"type":"task","text":"x"})", "a transcript begins with its header"},
      {R"({"type":7})", "\"type\" is not a string"},
      {R"({"type":"header","format":"other","version":1,"model":"m","policy":{}})", "no Membrane transcript"},
      {R"({"type":"header","format":"membrane-transcript","version":3,"model":"m","policy":{}})",
       "version is 3"},
      {header + header, "t:2: a second header"},
      {R"({"type":"header","format":"membrane-transcript","version":2,"model":"m","policy":{},"languages":"js"})",
       "\"languages\" is not a list"},
      {header + R"({"type":"program","name":"p","source":"s","language":7})", "\"language\" is not a string"},
      {header + R"({"type":"dance"})", "t:2: a line of the type \"dance\" is unknown"},
      {header + R"({"type":"report","report":{}})", "a report without a program"},
      {header + R"({"type":"program","name":"p"})", "\"source\" is missing"},
      {header + R"({"type":"program","name":"p","source":"s","arguments":[1]})",
       "holds what is not a string"},
      {header + R"({"type":"reply","content":"x"})", "\"usage\" is missing"},
  };
  for (const auto& [text, message] : cases) {
    const auto recording = Recording::parse(text, "t");
    ASSERT_FALSE(recording) << text;
    EXPECT_NE(recording.error().message.find(message), std::string::npos) << text << "\n"
                                                                          << recording.error().message;
  }
  EXPECT_EQ(Recording::load("/nonexistent/t.jsonl").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace membrane::agent
