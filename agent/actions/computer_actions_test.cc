#include "agent/actions/computer_actions.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace membrane::agent {
namespace {

using nlohmann::json;

const std::vector<ActionLanguage> kLanguages = {shell()};

Action of_text(const std::string& text) {
  Completion completion;
  completion.content = text;
  const Reply reply = read_reply(completion, Catalog(), kLanguages);
  return reply.actions.empty() ? Action() : reply.actions.front();
}
Action of_call(const std::string& tool, const json& arguments) {
  Completion completion;
  completion.tool_calls = {{"call", tool, arguments.dump()}};
  return read_reply(completion, Catalog(), kLanguages).actions.at(0);
}

TEST(ComputerActions, ACommandIsForTheShell) {
  for (const Action& action : {of_text("Look.\n```bash\nls -l\n```\n"), of_text("```sh\nls -l\n```"),
                               of_call("run_command", {{"command", "ls -l\n"}})}) {
    ASSERT_EQ(action.kind, Action::Kind::kRun);
    EXPECT_EQ(action.program.written_in, kShell);
    EXPECT_EQ(action.program.entry, kRunEntry);
    EXPECT_EQ(action.program.source, "ls -l\n");
  }
  EXPECT_EQ(of_call("run_command", {{"command", "ls"}, {"timeout_s", 5}}).program.arguments.at(0), "5");
  EXPECT_EQ(of_call("run_command", {{"command", " "}}).kind, Action::Kind::kUnclear);
  EXPECT_EQ(of_call("run_command", {{"command", "ls"}, {"timeout_s", -5}}).kind, Action::Kind::kUnclear);
}

TEST(ComputerActions, ACallSaysWhatIsWrongWithItsNames) {
  EXPECT_EQ(of_call("run_command", {{"cmd", "ls"}}).problem,
            "run_command has no argument \"cmd\". It has command, input, timeout_s.");
  EXPECT_EQ(of_call("run_command", json::object()).problem, "run_command needs the argument \"command\".");
  EXPECT_EQ(of_call("show_diff", {{"path", "a"}}).problem,
            "show_diff has no argument \"path\". It has none.");
  Completion completion;
  completion.tool_calls = {{"call", "show_diff", "{}"}};
  std::vector<ActionLanguage> without = {shell()};
  without.front().without = {std::string(kDiffEntry)};
  const Reply reply = read_reply(completion, Catalog(), without);
  EXPECT_EQ(reply.actions.at(0).problem,
            "There is no tool show_diff. Tools: run_command, write_file, edit_file, read_file, search, undo, "
            "submit.");
}

TEST(ComputerActions, FilesAreWrittenEditedAndRead) {
  for (const Action& action : {of_text("```write src/a.c\nint a;\n```"),
                               of_call("write_file", {{"path", "src/a.c"}, {"content", "int a;\n"}})}) {
    EXPECT_EQ(action.program.entry, kWriteEntry);
    EXPECT_EQ(action.program.arguments, std::vector<std::string>{"src/a.c"});
    EXPECT_EQ(action.program.source, "int a;\n");
  }
  for (const Action& action :
       {of_text("```edit 'a b.c'\n<<<<<<< OLD\nint a;\n=======\nint b;\n>>>>>>> NEW\n```"),
        of_call("edit_file", {{"path", "a b.c"}, {"old", "int a;\n"}, {"new", "int b;\n"}})}) {
    EXPECT_EQ(action.program.entry, kEditEntry);
    EXPECT_EQ(action.program.arguments, std::vector<std::string>{"a b.c"});
    EXPECT_EQ(action.program.input, "int a;\n");
    EXPECT_EQ(action.program.source, "int b;\n");
  }
  for (const Action& action : {of_text("```read a.c 10 20\n```"),
                               of_call("read_file", {{"path", "a.c"}, {"from", 10}, {"lines", 20}})})
    EXPECT_EQ(action.program.arguments, (std::vector<std::string>{"a.c", "10", "20"}));
}

TEST(ComputerActions, SearchesDiffsAndUndoes) {
  for (const Action& action : {of_text("```search src\nint .*;\n```"),
                               of_call("search", {{"path", "src"}, {"pattern", "int .*;"}})}) {
    EXPECT_EQ(action.program.entry, kSearchEntry);
    EXPECT_EQ(action.program.source, "int .*;");
    EXPECT_EQ(action.program.arguments, std::vector<std::string>{"src"});
  }
  EXPECT_EQ(of_text("```diff\n```").program.entry, kDiffEntry);
  EXPECT_EQ(of_text("```undo 3\n```").program.arguments, std::vector<std::string>{"3"});
  EXPECT_EQ(of_call("undo", json::object()).program.entry, kUndoEntry);
}

TEST(ComputerActions, ReportsWhatIsMissing) {
  EXPECT_TRUE(of_call("write_file", {{"content", "x"}}).problem.contains("path"));
  EXPECT_TRUE(of_call("edit_file", {{"path", "a"}, {"old", ""}, {"new", "x"}}).problem.contains("empty"));
  EXPECT_TRUE(of_call("edit_file", {{"path", "a"}, {"old", "x"}, {"new", "x"}}).problem.contains("same"));
  EXPECT_TRUE(of_text("```edit a\nint a;\n```").problem.contains("<<<<<<< OLD"));
  EXPECT_TRUE(of_text("```read a many\n```").problem.contains("count"));
  EXPECT_TRUE(of_call("run_program", {{"source", "1"}}).problem.contains("run_command"));
  EXPECT_EQ(of_text("```python\nprint(1)\n```").kind, Action::Kind::kUnclear);  // shown, not run
}

TEST(ComputerActions, AnswersAreAsEver) {
  EXPECT_EQ(of_text("ANSWER: done\n```bash\nls\n```").kind, Action::Kind::kSubmit);
  EXPECT_EQ(of_call("submit", {{"answer", "done"}}).answer, "done");
}

TEST(ComputerActions, ToolsAreThoseThatThereAre) {
  ActionLanguage without_diff = shell();
  without_diff.without = {std::string(kDiffEntry)};
  const auto names_of = [](const ActionLanguage& language) {
    std::string names;
    for (const ToolSpec& tool : tools_for(Catalog(), std::vector{language})) names += tool.name + " ";
    return names;
  };
  EXPECT_EQ(names_of(shell()), "run_command write_file edit_file read_file search show_diff undo submit ");
  EXPECT_EQ(names_of(without_diff), "run_command write_file edit_file read_file search undo submit ");
}

}  // namespace
}  // namespace membrane::agent
