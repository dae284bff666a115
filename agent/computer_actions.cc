#include "agent/computer_actions.h"

#include <algorithm>
#include <charconv>

#include "agent/catalog.h"
#include "base/json.h"
#include "base/text.h"

namespace membrane::agent {

using nlohmann::json;

namespace {

constexpr std::string_view kOld = "<<<<<<< OLD\n", kMiddle = "=======\n", kNew = ">>>>>>> NEW";
constexpr std::string_view kShellTags[] = {"bash", "sh", "shell"};

struct Parameter {
  std::string_view name;
  bool is_required = false, is_count = false;
};
struct Tool {
  std::string_view name, entry, does;
  std::vector<Parameter> parameters;
};
const std::vector<Tool>& tools() {
  static const std::vector<Tool> kTools = {
      {"run_command",
       kRunEntry,
       "Runs a shell command (bash) in the sandbox; answers output, exit code and time.",
       {{"command", true}, {"input"}, {"timeout_s", false, true}}},
      {"write_file",
       kWriteEntry,
       "Writes a whole file, with the directories above it.",
       {{"path", true}, {"content", true}}},
      {"edit_file",
       kEditEntry,
       "Replaces a text that stands exactly once in a file.",
       {{"path", true}, {"old", true}, {"new", true}}},
      {"read_file",
       kReadEntry,
       "Reads lines of a file, from the line FROM on.",
       {{"path", true}, {"from", false, true}, {"lines", false, true}}},
      {"search",
       kSearchEntry,
       "Searches files below a path for a regular expression; answers PATH:LINE:TEXT.",
       {{"pattern", true}, {"path"}}},
      {"show_diff", kDiffEntry, "Shows what has changed since the beginning, as a git patch.", {}},
      {"undo",
       kUndoEntry,
       "Sets all files back to where they stood before the last steps that changed something; running "
       "processes end.",
       {{"steps", false, true}}},
  };
  return kTools;
}

bool is_offered(const Tool& tool, const std::vector<std::string>& without) {
  return std::ranges::find(without, tool.entry) == without.end();
}

Action unclear(std::string problem) {
  Action action;
  action.problem = std::move(problem);
  return action;
}

Action act(std::string_view entry, Program program) {
  program.written_in = kShell;
  program.entry = entry;
  program.name = entry;
  Action action;
  action.kind = Action::Kind::kRun;
  action.program = std::move(program);
  return action;
}

bool is_count(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0;
}

Action act_on_path(std::string_view entry, const std::string& path, Program program) {
  if (path.empty()) return unclear("Name the file: " + std::string(entry) + " needs a path.");
  program.arguments.insert(program.arguments.begin(), path);
  return act(entry, std::move(program));
}

Action edit(const std::string& path, std::string old_text, std::string new_text) {
  if (old_text.empty()) return unclear("The old text is empty: copy the lines to be replaced from the file.");
  if (old_text == new_text) return unclear("The old and the new text are the same.");
  Program program;
  program.input = std::move(old_text);
  program.source = std::move(new_text);
  return act_on_path(kEditEntry, path, std::move(program));
}

// The counts after a path; an invalid one is unclear.
Action with_counts(std::string_view entry, Program program, const std::vector<std::string>& counts) {
  for (const std::string& count : counts)
    if (!is_count(count)) return unclear("\"" + count.substr(0, 32) + "\" is no count of 1 and more.");
  program.arguments.insert(program.arguments.end(), counts.begin(), counts.end());
  return act(entry, std::move(program));
}

// A text, or a number as text; "" when it is missing.
std::string text_of(const json& arguments, const char* name) {
  const auto at = arguments.find(name);
  if (at == arguments.end() || at->is_null()) return {};
  return at->is_string() ? at->get<std::string>() : at->dump(-1, ' ', false, json::error_handler_t::replace);
}

Action run(std::string command, std::string input, const std::string& timeout_s) {
  if (trimmed(command).empty()) return unclear("The command is empty. Write what the shell is to run.");
  Program program;
  program.source = std::move(command);
  program.input = std::move(input);
  std::vector<std::string> counts;
  if (!timeout_s.empty()) counts.push_back(timeout_s);
  return with_counts(kRunEntry, std::move(program), counts);
}

Action read(const std::string& path, const std::vector<std::string>& counts) {
  if (path.empty()) return unclear("Name the file that is to be read.");
  Program program;
  program.arguments.push_back(path);
  return with_counts(kReadEntry, std::move(program), counts);
}

Action search(std::string pattern, const std::string& path) {
  if (pattern.empty()) return unclear("The pattern is empty.");
  Program program;
  program.source = std::move(pattern);
  program.arguments.push_back(path.empty() ? "." : path);
  return act(kSearchEntry, std::move(program));
}

Action read_edit_fence(const std::string& path, const std::string& text) {
  const size_t old_at = text.find(kOld);
  const size_t middle = old_at == text.npos ? old_at : text.find(kMiddle, old_at + kOld.size());
  const size_t end = middle == text.npos ? middle : text.find(kNew, middle + kMiddle.size());
  if (end == text.npos)
    return unclear("An edit has the lines <<<<<<< OLD, the old text, =======, the new text, >>>>>>> NEW.");
  const size_t old_begin = old_at + kOld.size(), new_begin = middle + kMiddle.size();
  return edit(path, text.substr(old_begin, middle - old_begin), text.substr(new_begin, end - new_begin));
}

// The error in the names of a call's arguments; "" for none.
std::string problem_of(const Tool& tool, const json& arguments) {
  std::string has;
  for (const Parameter& each : tool.parameters) has += (has.empty() ? "" : ", ") + std::string(each.name);
  for (const auto& [name, value] : arguments.items())
    if (std::ranges::find(tool.parameters, name, &Parameter::name) == tool.parameters.end())
      return std::string(tool.name) + " has no argument \"" + name.substr(0, 64) + "\". It has " +
             (has.empty() ? "none" : has) + ".";
  for (const Parameter& each : tool.parameters)
    if (each.is_required && !arguments.contains(std::string(each.name)))
      return std::string(tool.name) + " needs the argument \"" + std::string(each.name) + "\".";
  return "";
}

}  // namespace

bool acts_in_computer(std::span<const Language> languages) {
  return std::ranges::any_of(languages, [](const Language& each) { return each.name == kShell; });
}

Action read_computer_call(std::string_view tool, const json& arguments,
                          const std::vector<std::string>& without) {
  const auto found = std::ranges::find(tools(), tool, &Tool::name);
  if (found == tools().end() || !is_offered(*found, without)) {
    std::string names;
    for (const Tool& each : tools())
      if (is_offered(each, without)) names += std::string(each.name) + ", ";
    return unclear("There is no tool " + std::string(tool.substr(0, 64)) + ". Tools: " + names + "submit.");
  }
  if (std::string problem = problem_of(*found, arguments); !problem.empty())
    return unclear(std::move(problem));
  const auto text = [&](const char* name) { return text_of(arguments, name); };
  const auto counts = [&](std::initializer_list<const char*> names) {
    std::vector<std::string> all;
    for (const char* const name : names)
      if (std::string count = text_of(arguments, name); !count.empty()) all.push_back(std::move(count));
      else break;
    return all;
  };
  if (found->entry == kRunEntry) return run(text("command"), text("input"), text("timeout_s"));
  if (found->entry == kEditEntry) return edit(text("path"), text("old"), text("new"));
  if (found->entry == kReadEntry) return read(text("path"), counts({"from", "lines"}));
  if (found->entry == kSearchEntry) return search(text("pattern"), text("path"));
  if (found->entry == kUndoEntry) return with_counts(kUndoEntry, {}, counts({"steps"}));
  if (found->entry == kDiffEntry) return act(kDiffEntry, {});
  Program program;
  program.source = text("content");
  return act_on_path(kWriteEntry, text("path"), std::move(program));
}

bool is_computer_fence(std::string_view word) {
  return std::ranges::find(kShellTags, word) != std::end(kShellTags) ||
         std::ranges::any_of(tools(),
                             [&](const Tool& tool) { return tool.entry == word && word != kRunEntry; });
}

Action read_computer_fence(std::string_view word, std::string_view rest, std::string text) {
  if (std::ranges::find(kShellTags, word) != std::end(kShellTags)) return run(std::move(text), "", "");
  auto words = split_arguments(rest);
  if (!words) return unclear(words.error().to_string());
  const std::string first = words->empty() ? "" : words->front();
  const std::vector<std::string> others(words->begin() + (words->empty() ? 0 : 1), words->end());
  if (word == kReadEntry) return read(first, others);
  if (word == kDiffEntry) return act(kDiffEntry, {});
  if (word == kUndoEntry) return with_counts(kUndoEntry, {}, *words);
  if (word == kSearchEntry) return search(std::string(text.substr(0, text.find('\n'))), first);
  if (word == kEditEntry) return read_edit_fence(first, text);
  Program program;
  program.source = std::move(text);
  return act_on_path(kWriteEntry, first, std::move(program));
}

std::vector<ToolSpec> computer_tools(const std::vector<std::string>& without) {
  const json text{{"type", "string"}}, count{{"type", "integer"}, {"minimum", 1}};
  std::vector<ToolSpec> specs;
  for (const Tool& tool : tools()) {
    if (!is_offered(tool, without)) continue;
    json properties = json::object(), required = json::array();
    for (const Parameter& each : tool.parameters) {
      properties[std::string(each.name)] = each.is_count ? count : text;
      if (each.is_required) required.push_back(std::string(each.name));
    }
    specs.push_back({std::string(tool.name), std::string(tool.does),
                     json{{"type", "object"}, {"properties", properties}, {"required", required}}.dump()});
  }
  return specs;
}

}  // namespace membrane::agent
