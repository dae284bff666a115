#include "agent/action.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace membrane::agent {

using nlohmann::json;

namespace {

constexpr std::string_view kAnswerMark = "ANSWER:";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

Action unclear(std::string problem) {
  Action action;
  action.problem = std::move(problem);
  return action;
}

Action submit(std::string_view answer) {
  if (trimmed(answer).empty()) return unclear("The answer is empty. Write the answer itself.");
  Action action;
  action.kind = Action::Kind::kSubmit;
  action.answer = trimmed(answer);
  return action;
}

Action run_catalog(const Catalog& catalog, std::string_view name, std::vector<std::string> arguments,
                   std::string input) {
  const auto entry = catalog.find(name);
  if (!entry) return unclear(entry.error().to_string());
  Action action;
  action.kind = Action::Kind::kRun;
  action.program.source = (*entry)->source;
  action.program.name = (*entry)->file_name;
  action.program.entry = (*entry)->entry;
  action.program.arguments = std::move(arguments);
  action.program.input = std::move(input);
  return action;
}

// A program in a fence; what the model did not say by other means may stand in the leading comments.
Action run_source(std::string source, std::string entry, std::vector<std::string> arguments,
                  std::string input) {
  if (trimmed(source).empty()) return unclear("The program is empty. Write a whole WAT program.");
  Action action;
  action.kind = Action::Kind::kRun;
  if (arguments.empty()) {
    auto words = split_arguments(front_matter(source, "arguments"));
    if (!words) return unclear(words.error().to_string());
    arguments = std::move(*words);
  }
  action.program.entry = entry.empty() ? front_matter(source, "entry") : std::move(entry);
  action.program.input = input.empty() ? front_matter(source, "input") : std::move(input);
  action.program.arguments = std::move(arguments);
  action.program.source = std::move(source);
  action.program.language = sandbox::Language::kWat;
  return action;
}

// -- fenced code ----------------------------------------------------------------------

struct Fence {
  size_t start = 0;  // of the opening line
  size_t end = 0;    // behind the closing line
  std::string info;  // lower case, its first word
  std::string text;
  bool closed = false;
};

size_t fence_width(std::string_view line) {
  size_t spaces = line.find_first_not_of(' ');
  if (spaces == std::string_view::npos || spaces > 3) return 0;
  size_t width = 0;
  while (spaces + width < line.size() && line[spaces + width] == '`') ++width;
  return width >= 3 ? width : 0;
}

// The fence that begins at or behind `from`; nothing when there is none.
std::optional<Fence> next_fence(std::string_view text, size_t from) {
  std::optional<Fence> fence;
  size_t width = 0;
  for (size_t at = from; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const size_t here = fence_width(line);
    const size_t next = std::min(end + 1, text.size());
    if (!fence && here != 0) {
      fence.emplace();
      fence->start = at;
      width = here;
      const std::string info = lower(trimmed(trimmed(line).substr(here)));
      fence->info = info.substr(0, info.find_first_of(" \t"));
    } else if (fence && here >= width && trimmed(line).size() == here) {
      fence->closed = true;
      fence->end = next;
      return fence;
    } else if (fence) {
      fence->text.append(text.substr(at, next - at));
    }
    at = next;
  }
  if (fence) fence->end = text.size();
  return fence;
}

bool is_wat(const Fence& fence) {
  for (const std::string_view name : {"wat", "wast", "wasm", "webassembly"})
    if (fence.info == name) return true;
  const std::string_view text = trimmed(fence.text);  // many models name no language, or a wrong one
  return text.starts_with("(module") || text.starts_with("(func") || text.starts_with("(import");
}

Action run_fence(const Fence& fence, const Catalog& catalog) {
  if (fence.info != "run") return run_source(fence.text, "", {}, "");
  const std::string_view text = trimmed(fence.text);
  const size_t line_end = std::min(text.find('\n'), text.size());
  auto words = split_arguments(text.substr(0, line_end));
  if (!words) return unclear(words.error().to_string());
  if (words->empty())
    return unclear("A ```run block names no program. Write: NAME ARGUMENTS on its first line.");
  const std::string name = words->front();
  words->erase(words->begin());
  return run_catalog(catalog, name, std::move(*words),
                     std::string(text.substr(std::min(line_end + 1, text.size()))));
}

// Where a line begins with ANSWER:, outside of what precedes `from`; npos when none does.
size_t find_answer(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trimmed(text.substr(at, end - at));
    const size_t stars = line.find_first_not_of("*# ");  // "**ANSWER:** …"
    if (stars != std::string_view::npos && line.substr(stars).starts_with(kAnswerMark)) return at;
    at = end + 1;
  }
  return std::string_view::npos;
}

Action submit_text(std::string_view text) {
  text.remove_prefix(text.find(kAnswerMark) + kAnswerMark.size());
  if (text.starts_with("**")) text.remove_prefix(2);
  return submit(text);
}

Reply read_text(const Completion& completion, const Catalog& catalog) {
  const std::string_view text = completion.content;
  const bool cut = completion.finish == Finish::kLength || completion.finish == Finish::kCut;
  const size_t answer = find_answer(text);
  Reply reply;
  size_t from = 0;
  while (const auto fence = next_fence(text, from)) {
    if (fence->start > answer) break;  // code inside of the answer
    from = fence->end;
    if (fence->info != "run" && !is_wat(*fence)) continue;
    if (!fence->closed && cut) {
      reply.actions.push_back(
          unclear("Your reply was cut off in the middle of the program. Write a shorter one, and less text "
                  "before it."));
      return reply;
    }
    reply.actions.push_back(run_fence(*fence, catalog));
    const auto second = next_fence(text, from);
    if (answer != std::string_view::npos || (second && (second->info == "run" || is_wat(*second))))
      reply.note = "Only the first program of the reply was run; what stood behind it was passed over.";
    return reply;
  }
  if (answer != std::string_view::npos) reply.actions.push_back(submit_text(text.substr(answer)));
  return reply;
}

// -- tool calls ---------------------------------------------------------------------------

std::string text_of(const json& arguments, const char* name) {
  const auto at = arguments.find(name);
  if (at == arguments.end() || at->is_null()) return {};
  return at->is_string() ? at->get<std::string>() : at->dump(-1, ' ', false, json::error_handler_t::replace);
}

// "arguments": a list of anything, or one text as a shell would split it.
Result<std::vector<std::string>> words_of(const json& arguments) {
  const auto at = arguments.find("arguments");
  std::vector<std::string> words;
  if (at == arguments.end() || at->is_null()) return words;
  if (at->is_string()) return split_arguments(at->get<std::string>());
  if (!at->is_array()) return std::vector{at->dump(-1, ' ', false, json::error_handler_t::replace)};
  for (const json& word : *at)
    words.push_back(word.is_string() ? word.get<std::string>()
                                     : word.dump(-1, ' ', false, json::error_handler_t::replace));
  return words;
}

// A source that came inside a fence all the same.
std::string unfenced(std::string source) {
  if (const auto fence = next_fence(source, 0); fence && trimmed(source).starts_with("```"))
    return fence->text;
  return source;
}

Action read_call(const ToolCall& call, const Catalog& catalog) {
  const json arguments = json::parse(call.arguments.empty() ? "{}" : call.arguments, nullptr, false);
  if (!arguments.is_object())
    return unclear("The arguments of " + call.name +
                   " are not a JSON object. Call it again with valid JSON.");
  auto words = words_of(arguments);
  if (!words) return unclear(words.error().to_string());
  if (call.name == "submit") return submit(text_of(arguments, "answer"));
  if (call.name == "run_catalog")
    return run_catalog(catalog, text_of(arguments, "name"), std::move(*words), text_of(arguments, "input"));
  if (call.name != "run_program")
    return unclear("There is no tool " + call.name + ". Tools: run_program, " +
                   (catalog.entries().empty() ? "" : "run_catalog, ") + "submit.");
  const std::string language = lower(text_of(arguments, "language"));
  if (!language.empty() && language != "wat")
    return unclear("Programs in " + language + " cannot be run here. Write WAT.");
  return run_source(unfenced(text_of(arguments, "source")), text_of(arguments, "entry"), std::move(*words),
                    text_of(arguments, "input"));
}

}  // namespace

Reply read_reply(const Completion& completion, const Catalog& catalog) {
  if (completion.tool_calls.empty()) return read_text(completion, catalog);
  Reply reply;
  for (const ToolCall& call : completion.tool_calls) {
    reply.actions.push_back(read_call(call, catalog));
    reply.actions.back().call_id = call.id;
  }
  return reply;
}

std::vector<ToolSpec> tools_for(const Catalog& catalog) {
  const json text{{"type", "string"}};
  const json words{{"type", "array"}, {"items", text}};
  const auto schema = [](const json& properties, const std::vector<std::string>& required) {
    return json{{"type", "object"}, {"properties", properties}, {"required", required}}.dump();
  };
  std::vector<ToolSpec> tools{
      {"run_program", "Compiles and runs a WAT program in the sandbox; answers what it did.",
       schema({{"language", {{"type", "string"}, {"enum", {"wat"}}}},
               {"source", text},
               {"entry", text},
               {"arguments", words},
               {"input", text}},
              {"source"})},
      {"submit", "Gives the final answer to the task and ends it.", schema({{"answer", text}}, {"answer"})}};
  if (!catalog.entries().empty())
    tools.insert(tools.begin() + 1,
                 {"run_catalog", "Runs a ready program of the catalog by its name.",
                  schema({{"name", text}, {"arguments", words}, {"input", text}}, {"name"})});
  return tools;
}

}  // namespace membrane::agent
