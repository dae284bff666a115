#include "agent/actions/action.h"

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

using Languages = std::vector<ActionLanguage>;

const Languages kOnlyWat{wat()};
const ActionLanguage kPython{.name = "python", .title = "Python", .tags = {"python", "py"}};
const ActionLanguage kJavaScript{
    .name = "js", .title = "JavaScript", .tags = {"javascript", "js", "typescript", "ts"}};

Reply read_in(const Languages& languages, std::string content, Finish finish = Finish::kStop) {
  Completion completion;
  completion.content = std::move(content);
  completion.finish = finish;
  return read_reply(completion, catalog(), languages);
}
Reply read(std::string content, Finish finish = Finish::kStop) {
  return read_in(kOnlyWat, std::move(content), finish);
}

Reply call_in(const Languages& languages, std::string name, std::string arguments) {
  Completion completion;
  completion.tool_calls = {{"c1", std::move(name), std::move(arguments)}};
  return read_reply(completion, catalog(), languages);
}
Reply call(std::string name, std::string arguments) {
  return call_in(kOnlyWat, std::move(name), std::move(arguments));
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
  EXPECT_TRUE(read("```\nsome output\n```").actions.empty());
}

TEST(Action, TheTagOfABlockSaysItsLanguage) {
  const Languages all{kPython, kJavaScript, wat()};
  const auto first = [&](const std::string& content) { return read_in(all, content).actions.at(0).program; };
  EXPECT_EQ(first("```python\nprint(1)\n```").written_in, "python");
  EXPECT_EQ(first("```python\nprint(1)\n```").name, "program.py");
  EXPECT_EQ(first("```Py title=x\nprint(1)\n```").source, "print(1)\n");
  EXPECT_EQ(first("```js\n1\n```").name, "program.js");
  EXPECT_EQ(first("```ts\n1\n```").name, "program.ts");
  EXPECT_EQ(first("```ts\n1\n```").written_in, "js");
  EXPECT_EQ(first("```wasm-text\n(module)\n```").written_in, "wat");
  EXPECT_EQ(first("```\n(module)\n```").written_in, "wat");
  EXPECT_EQ(first("```python\n(module)\n```").written_in, "python") << "what is said counts";
  EXPECT_EQ(first("```python\n;; entry: f\n```").entry, "") << "comments of WAT";
}

TEST(Action, ABlockWithoutATagIsAProgramWhenNothingElseIs) {
  const Languages python{kPython};
  EXPECT_EQ(read_in(python, "```\nprint(1)\n```").actions.at(0).program.written_in, "python");
  EXPECT_EQ(read_in({kPython, wat()}, "```\nprint(1)\n```").actions.at(0).program.written_in, "python");
  EXPECT_EQ(read_in(python, "It was\n```\n42\n```\nANSWER: 42").actions.at(0).answer, "42");
  EXPECT_EQ(read_in(python, "Not\n```\n41\n```\nbut\n```python\n42\n```").actions.at(0).program.source,
            "42\n");
  EXPECT_TRUE(read_in(python, "```json\n{}\n```").actions.empty());
  const Reply which = read_in({kPython, kJavaScript}, "```\nf(1)\n```");
  EXPECT_EQ(which.actions.at(0).kind, Kind::kUnclear);
  EXPECT_NE(which.actions[0].problem.find("Python (```python) or JavaScript (```javascript)"),
            std::string::npos);
  EXPECT_EQ(read_in(python, "```\nprint(", Finish::kLength).actions.at(0).kind, Kind::kUnclear)
      << "it was cut";
}

TEST(Action, ALanguageThatWasNotChosenIsAnsweredWithThoseThatWere) {
  for (const char* const tag : {"python", "bash", "ts"}) {
    const Reply reply = read("```" + std::string(tag) + "\nls\n```");
    ASSERT_EQ(reply.actions.size(), 1u);
    EXPECT_EQ(reply.actions[0].problem,
              "Programs in " + std::string(tag) + " cannot be run here. Write WAT (```wat).");
  }
  EXPECT_EQ(read_in({kPython}, "```wat\n(module)\n```").actions.at(0).kind, Kind::kUnclear);
  EXPECT_EQ(read_in({kPython}, "```\n(module)\n```").actions.at(0).kind, Kind::kUnclear);
  EXPECT_EQ(read("```bash\nls\n```\n```wat\n(module)\n```").actions.at(0).kind, Kind::kRun);
  EXPECT_EQ(read("Type\n```bash\nls\n```\nANSWER: so").actions.at(0).answer, "so");
}

TEST(Action, AToolCallNamesItsLanguage) {
  const Languages both{kPython, wat()};
  const auto run = [&](const char* arguments) {
    return call_in(both, "run_program", arguments).actions.at(0);
  };
  EXPECT_EQ(run(R"x({"language":"python","source":"print(1)"})x").program.written_in, "python");
  EXPECT_EQ(run(R"x({"language":"WAT","source":"(module)","entry":"f"})x").program.entry, "f");
  EXPECT_EQ(run(R"x({"source":"(module)"})x").program.written_in, "wat");
  EXPECT_EQ(run(R"x({"source":"```python\nprint(1)\n```"})x").program.source, "print(1)\n");
  EXPECT_NE(run(R"x({"language":"ruby","source":"1"})x").problem.find("Python (```python) or WAT (```wat)"),
            std::string::npos);
  EXPECT_NE(run(R"x({"language":"python","source":"1","entry":"f"})x").problem.find("entry"),
            std::string::npos);
  const auto schema = nlohmann::json::parse(tools_for(catalog(), both).at(0).parameters);
  EXPECT_EQ(schema["properties"]["language"]["enum"], nlohmann::json({"python", "wat"}));
  EXPECT_EQ(schema["required"], nlohmann::json({"language", "source"}));
  const auto of_python = nlohmann::json::parse(tools_for(catalog(), Languages{kPython}).at(0).parameters);
  EXPECT_FALSE(of_python["properties"].contains("entry"));
}

TEST(Action, TheFirstActionCounts) {
  const Reply reply = read("```wat\n(module)\n```\nOutcome: 42\nANSWER: 42");
  ASSERT_EQ(reply.actions.size(), 1u);
  EXPECT_EQ(reply.actions[0].kind, Kind::kRun) << "an answer after a program was made up";
  EXPECT_FALSE(reply.note.empty());
  EXPECT_FALSE(read("```wat\n(module)\n```\n```wat\n(module $b)\n```").note.empty());
  const Reply answer = read("ANSWER: use this:\n```wat\n(module)\n```");
  EXPECT_EQ(answer.actions[0].kind, Kind::kSubmit);
  EXPECT_EQ(answer.actions[0].answer, "use this:\n```wat\n(module)\n```");
}

TEST(Action, AnAnswerIsAtTheStartOfALine) {
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

TEST(Action, HostFunctionsAreDescribedByName) {
  const Reply reply = read("```run\ncapabilities fs str.slice fs\n```");
  ASSERT_EQ(reply.actions.at(0).kind, Kind::kAsk);
  const std::string& description = reply.actions[0].description;
  for (const char* part :
       {"fs.read(path) -> bytes, errno — ", "fs.size(path)", "str.slice(text, start: i32, end: i32)"})
    EXPECT_NE(description.find(part), std::string::npos) << part << description;
  EXPECT_EQ(description.find("str.trim"), std::string::npos);
  EXPECT_EQ(description.find("fs: "), description.rfind("fs: ")) << "once";
  EXPECT_EQ(call("capabilities", R"x({"names":["fs","str.slice"]})x").actions.at(0).description, description);
  EXPECT_EQ(call("capabilities", R"x({"names":"fs str.slice"})x").actions.at(0).description, description);
  EXPECT_NE(read("```run\ncapabilities st\n```").actions.at(0).problem.find("str"), std::string::npos);
  EXPECT_EQ(read("```run\ncapabilities\n```").actions.at(0).kind, Kind::kUnclear);
  EXPECT_EQ(call("capabilities", "{}").actions.at(0).kind, Kind::kUnclear);
  EXPECT_EQ(read_in({kPython}, "```run\ncapabilities fs\n```").actions.at(0).kind, Kind::kUnclear);
  EXPECT_EQ(call_in({kPython}, "capabilities", R"x({"names":["fs"]})x").actions.at(0).kind, Kind::kUnclear);
  EXPECT_EQ(read("```run\ncapabilities fs\n```\nANSWER: 42").actions.at(0).kind, Kind::kAsk);
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
  for (const ToolSpec& tool : tools_for(catalog(), kOnlyWat))
    EXPECT_EQ(nlohmann::json::parse(tool.parameters)["type"], "object");
  EXPECT_EQ(tools_for(catalog(), kOnlyWat).size(), 4u);
  EXPECT_EQ(tools_for(Catalog(), kOnlyWat).size(), 3u) << "no catalog, no tool for it";
  EXPECT_EQ(tools_for(Catalog(), Languages{kPython}).size(), 2u) << "no WAT, no questions in its terms";
}

}  // namespace
}  // namespace membrane::agent
