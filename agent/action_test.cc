#include "agent/action.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace membrane::agent {
namespace {

using Kind = Action::Kind;

Catalog catalog() {
  Catalog catalog;
  EXPECT_TRUE(catalog.add(";; name: add\n;; does: Adds.\n;; entry: go\n(module)", "add.wat"));
  return catalog;
}

Reply read(std::string content, Finish finish = Finish::kStop) {
  Completion completion;
  completion.content = std::move(content);
  completion.finish = finish;
  return read_reply(completion, catalog());
}

Reply call(std::string name, std::string arguments) {
  Completion completion;
  completion.tool_calls = {{"c1", std::move(name), std::move(arguments)}};
  return read_reply(completion, catalog());
}

TEST(Action, AFencedProgramIsRun) {
  const Reply reply = read("I will add.\n\n```wat\n(module)\n```\n");
  ASSERT_EQ(reply.actions.size(), 1u);
  EXPECT_EQ(reply.actions[0].kind, Kind::kRun);
  EXPECT_EQ(reply.actions[0].program.source, "(module)\n");
  EXPECT_TRUE(reply.note.empty());
}

TEST(Action, LeadingCommentsGiveEntryArgumentsAndInput) {
  const Reply reply = read("```wat\n;; entry: f\n;; arguments: 2 'a b'\n;; input: some text\n(module)\n```");
  EXPECT_EQ(reply.actions[0].program.entry, "f");
  EXPECT_EQ(reply.actions[0].program.arguments, (std::vector<std::string>{"2", "a b"}));
  EXPECT_EQ(reply.actions[0].program.input, "some text");
}

TEST(Action, FencesOfOtherNamesCountWhenTheyHoldWat) {
  EXPECT_EQ(read("```\n(module)\n```").actions.at(0).kind, Kind::kRun);
  EXPECT_EQ(read("```lisp\n(func (export \"main\"))\n```").actions.at(0).kind, Kind::kRun);
  EXPECT_EQ(read("````WAT\n(module)\n````").actions.at(0).kind, Kind::kRun);
  EXPECT_TRUE(read("```json\n{}\n```").actions.empty());
  EXPECT_TRUE(read("```python\nprint(1)\n```").actions.empty());
}

TEST(Action, TheFirstActionCounts) {
  const Reply reply = read("```wat\n(module)\n```\nOutcome: 42\nANSWER: 42");
  ASSERT_EQ(reply.actions.size(), 1u);
  EXPECT_EQ(reply.actions[0].kind, Kind::kRun) << "an answer behind a program was made up";
  EXPECT_FALSE(reply.note.empty());
  EXPECT_FALSE(read("```wat\n(module)\n```\n```wat\n(module $b)\n```").note.empty());
  const Reply answer = read("ANSWER: use this:\n```wat\n(module)\n```");
  EXPECT_EQ(answer.actions[0].kind, Kind::kSubmit);
  EXPECT_EQ(answer.actions[0].answer, "use this:\n```wat\n(module)\n```");
}

TEST(Action, AnAnswerStandsAtTheStartOfALine) {
  EXPECT_EQ(read("So.\nANSWER: 42\nand more \n").actions.at(0).answer, "42\nand more");
  EXPECT_EQ(read("**ANSWER:** 42").actions.at(0).answer, "42");
  EXPECT_TRUE(read("I write ANSWER: when I know.").actions.empty());
  EXPECT_EQ(read("ANSWER:   \n").actions.at(0).kind, Kind::kUnclear);
  EXPECT_TRUE(read("Just words.").actions.empty());
  EXPECT_TRUE(read("").actions.empty());
}

TEST(Action, AProgramThatWasCutIsNotRun) {
  const Reply reply = read("```wat\n(module (fu", Finish::kLength);
  EXPECT_EQ(reply.actions.at(0).kind, Kind::kUnclear);
  EXPECT_NE(reply.actions[0].problem.find("shorter"), std::string::npos);
  EXPECT_EQ(read("```wat\n(module)", Finish::kStop).actions.at(0).kind, Kind::kRun)
      << "a forgotten fence is forgiven";
}

TEST(Action, CatalogProgramsRunByName) {
  const Reply reply = read("```run\nadd 2 40\nline one\nline two\n```");
  ASSERT_EQ(reply.actions.at(0).kind, Kind::kRun);
  EXPECT_EQ(reply.actions[0].program.name, "add.wat");
  EXPECT_EQ(reply.actions[0].program.entry, "go");
  EXPECT_EQ(reply.actions[0].program.arguments, (std::vector<std::string>{"2", "40"}));
  EXPECT_EQ(reply.actions[0].program.input, "line one\nline two");
  EXPECT_NE(read("```run\nadx 1\n```").actions.at(0).problem.find("Did you mean \"add\"?"),
            std::string::npos);
  EXPECT_EQ(read("```run\n\n```").actions.at(0).kind, Kind::kUnclear);
}

TEST(Action, ToolCallsSayTheSame) {
  EXPECT_EQ(call("submit", R"x({"answer":"42"})x").actions.at(0).answer, "42");
  EXPECT_EQ(call("submit", R"x({"answer":42})x").actions.at(0).answer, "42");
  const Reply run = call(
      "run_program",
      R"x({"language":"wat","source":"```wat\n(module)\n```","entry":"f","arguments":[1,"b"],"input":"i"})x");
  EXPECT_EQ(run.actions.at(0).call_id, "c1");
  EXPECT_EQ(run.actions[0].program.source, "(module)\n");
  EXPECT_EQ(run.actions[0].program.entry, "f");
  EXPECT_EQ(run.actions[0].program.arguments, (std::vector<std::string>{"1", "b"}));
  EXPECT_EQ(run.actions[0].program.input, "i");
  EXPECT_EQ(
      call("run_catalog", R"x({"name":"add","arguments":"2 40"})x").actions.at(0).program.arguments.size(),
      2u);
}

TEST(Action, UnclearToolCallsSayWhatToMend) {
  for (const auto& [name, arguments] : std::vector<std::pair<std::string, std::string>>{
           {"run_program", "{\"source\":"},
           {"run_program", "[]"},
           {"run_program", "{}"},
           {"run_program", R"x({"source":"print(1)","language":"python"})x"},
           {"submit", "{}"},
           {"run_catalog", "{}"},
           {"delete_all", "{}"},
           {"run_program", R"x({"source":"(module)","arguments":"'"})x"}}) {
    const Reply reply = call(name, arguments);
    EXPECT_EQ(reply.actions.at(0).kind, Kind::kUnclear) << name << arguments;
    EXPECT_FALSE(reply.actions[0].problem.empty());
  }
}

TEST(Action, ToolsAreValidSchemas) {
  for (const ToolSpec& tool : tools_for(catalog()))
    EXPECT_EQ(nlohmann::json::parse(tool.parameters)["type"], "object");
  EXPECT_EQ(tools_for(catalog()).size(), 3u);
  EXPECT_EQ(tools_for(Catalog()).size(), 2u) << "no catalog, no tool for it";
}

}  // namespace
}  // namespace membrane::agent
