#include "agent/actions/action.h"

#include <algorithm>
#include <optional>

#include "agent/actions/computer_actions.h"
#include "base/json.h"
#include "base/text.h"
#include "host/calls/registry.h"
#include "lang/language_names.h"

namespace membrane::agent {

using nlohmann::json;

namespace {

using Languages = std::span<const ActionLanguage>;

constexpr std::string_view kAnswerMark = "ANSWER:";
constexpr std::string_view kCapabilities = Catalog::kReservedName;

// Tags of programs, not of data: a block with one of them was meant to run.
constexpr std::string_view kProgramTags[] = {
    "bash", "sh",     "shell", "zsh",        "powershell", "c",          "cpp", "c++",   "rust",
    "go",   "java",   "ruby",  "perl",       "php",        "lua",        "r",   "julia", "wat",
    "wasm", "python", "py",    "javascript", "js",         "typescript", "ts",
};

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

// Answers what the prompt has no room for. In WAT's terms, so only models that may write WAT can ask.
Action describe_capabilities(std::span<const std::string> names) {
  if (names.empty())
    return unclear("Say which host functions: capabilities str, or capabilities str.slice fs.read.");
  Action action;
  action.kind = Action::Kind::kAsk;
  std::vector<std::string_view> seen;
  for (const std::string& name : names) {
    if (std::ranges::find(seen, name) != seen.end()) continue;
    const auto selection = host::select(name);
    if (!selection) return unclear(selection.error().to_string());
    seen.push_back(name);
    action.description += host::capabilities_prompt(*selection);
  }
  return action;
}

// The name of a program, in messages and for the executor.
std::string name_of_program(const ActionLanguage& language, std::string_view tag) {
  if (language.name == "python") return "program.py";
  if (language.name == "js") return lang::is_typescript(tag) ? "program.ts" : "program.js";
  return "program." + language.name;
}

bool looks_like_wat(std::string_view source) {
  const std::string_view text = trimmed(source);
  return text.starts_with("(module") || text.starts_with("(func") || text.starts_with("(import") ||
         text.starts_with(";;");
}

// The language of a program that names none; null when that is ambiguous, or was not chosen.
const ActionLanguage* guess(Languages languages, std::string_view source) {
  if (looks_like_wat(source)) return find_language(languages, kWat);
  const ActionLanguage* found = nullptr;
  for (const ActionLanguage& language : languages) {
    if (language.name == kWat && languages.size() > 1) continue;
    if (found != nullptr) return nullptr;
    found = &language;
  }
  return found;
}

Action not_chosen(std::string_view tag, Languages languages) {
  const std::string what =
      tag.empty() ? "The language of the program is not clear. Name it: write "
                  : "Programs in " + std::string(tag.substr(0, 32)) + " cannot be run here. Write ";
  return unclear(what + list_of(languages) + ".");
}

// Leading comments may contain what the model did not pass otherwise.
Action run_wat(Program program) {
  Action action;
  action.kind = Action::Kind::kRun;
  if (program.arguments.empty()) {
    auto words = split_arguments(front_matter(program.source, "arguments"));
    if (!words) return unclear(words.error().to_string());
    program.arguments = std::move(*words);
  }
  if (program.entry.empty()) program.entry = front_matter(program.source, "entry");
  if (program.input.empty()) program.input = front_matter(program.source, "input");
  program.format = lang::SourceFormat::kWat;
  action.program = std::move(program);
  return action;
}

// `tag`: the language as the model called it, or "".
Action run_source(Program program, std::string_view tag, Languages languages) {
  const ActionLanguage* const language =
      tag.empty() ? guess(languages, program.source) : find_language(languages, tag);
  if (trimmed(program.source).empty())
    return unclear("The program is empty. Write a whole program in " + list_of(languages) + ".");
  if (language == nullptr) return not_chosen(tag, languages);
  if (language->name == kWat) return run_wat(std::move(program));
  if (!program.entry.empty())
    return unclear("An entry is for WAT. In " + language->title + ", call the function in the program.");
  program.written_in = language->name;
  program.name = name_of_program(*language, tag);
  Action action;
  action.kind = Action::Kind::kRun;
  action.program = std::move(program);
  return action;
}

// -- fenced code ----------------------------------------------------------------------

struct Fence {
  size_t start = 0;  // of the opening line
  size_t end = 0;    // after the closing line
  std::string info;  // lower case, its first word
  std::string rest;  // what follows that
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

// The fence that begins at or after `from`; nothing when there is none.
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
      const std::string_view words = trimmed(trimmed(line).substr(here));
      const size_t first_end = std::min(words.find_first_of(" \t"), words.size());
      fence->info = lower_case(words.substr(0, first_end));
      fence->rest = trimmed(words.substr(first_end));
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

// The language that a fence is certainly in; null if it is none of those that were chosen. Many models name
// no language for WAT, or a wrong one.
const ActionLanguage* language_of(const Fence& fence, Languages languages) {
  if (!fence.info.empty())
    if (const ActionLanguage* const named = find_language(languages, fence.info)) return named;
  return looks_like_wat(fence.text) && !fence.text.starts_with(";;") ? find_language(languages, kWat)
                                                                     : nullptr;
}

bool is_action(const Fence& fence, Languages languages) {
  if (acts_in_computer(languages)) return is_computer_fence(fence.info);
  return fence.info == "run" || language_of(fence, languages) != nullptr;
}

Action run_fence(const Fence& fence, const Catalog& catalog, Languages languages) {
  if (acts_in_computer(languages)) return read_computer_fence(fence.info, fence.rest, fence.text);
  if (fence.info != "run") {
    const ActionLanguage& language = *language_of(fence, languages);
    Program program;
    program.source = fence.text;
    return run_source(std::move(program), language.name == kWat ? kWat : fence.info, languages);
  }
  const std::string_view text = trimmed(fence.text);
  const size_t line_end = std::min(text.find('\n'), text.size());
  auto words = split_arguments(text.substr(0, line_end));
  if (!words) return unclear(words.error().to_string());
  if (words->empty())
    return unclear("A ```run block names no program. Write: NAME ARGUMENTS on its first line.");
  const std::string name = words->front();
  words->erase(words->begin());
  if (name == kCapabilities && find_language(languages, kWat) != nullptr)
    return describe_capabilities(*words);
  return run_catalog(catalog, name, std::move(*words),
                     std::string(text.substr(std::min(line_end + 1, text.size()))));
}

// A fence in a reply without another action: a program whose language is missing or wrong.
std::optional<Action> run_unclear_fence(const Fence& fence, Languages languages) {
  if (acts_in_computer(languages)) return std::nullopt;
  if (std::ranges::find(kProgramTags, fence.info) != std::end(kProgramTags))
    return not_chosen(fence.info, languages);
  const bool has_only_wat = languages.size() == 1 && languages.front().name == kWat;
  if (!fence.info.empty() || has_only_wat || trimmed(fence.text).empty()) return std::nullopt;
  Program program;
  program.source = fence.text;
  return run_source(std::move(program), "", languages);
}

// The start of a line that begins with ANSWER:, after `from`; npos when there is none.
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

Action cut_off() {
  return unclear(
      "Your reply was cut off in the middle of the program. Write a shorter one, and less text before it.");
}

Reply read_text(const Completion& completion, const Catalog& catalog, Languages languages) {
  const std::string_view text = completion.content;
  const bool cut = completion.finish == Finish::kLength || completion.finish == Finish::kCut;
  const size_t answer = find_answer(text);
  Reply reply;
  std::optional<Action> unclear_fence;
  size_t from = 0;
  while (const auto fence = next_fence(text, from)) {
    if (fence->start > answer) break;  // code inside of the answer
    from = fence->end;
    const bool acts = is_action(*fence, languages);
    if (!acts && !unclear_fence) {
      unclear_fence = run_unclear_fence(*fence, languages);
      if (unclear_fence && !fence->closed && cut) unclear_fence = cut_off();
    }
    if (!acts) continue;
    reply.actions.push_back(!fence->closed && cut ? cut_off() : run_fence(*fence, catalog, languages));
    const auto second = next_fence(text, from);
    if (reply.actions.back().kind != Action::Kind::kUnclear &&
        (answer != std::string_view::npos || (second && is_action(*second, languages))))
      reply.note = "Only the first block of the reply was taken; what stood after it was passed over.";
    return reply;
  }
  if (answer != std::string_view::npos) reply.actions.push_back(submit_text(text.substr(answer)));
  else if (unclear_fence) reply.actions.push_back(std::move(*unclear_fence));
  return reply;
}

// -- tool calls ---------------------------------------------------------------------------

std::string text_of(const json& arguments, const char* name) {
  const auto at = arguments.find(name);
  if (at == arguments.end() || at->is_null()) return {};
  return at->is_string() ? at->get<std::string>() : at->dump(-1, ' ', false, json::error_handler_t::replace);
}

// Under `name`: a list of anything, or one text, split like a shell would.
Result<std::vector<std::string>> words_of(const json& arguments, const char* name) {
  const auto at = arguments.find(name);
  std::vector<std::string> words;
  if (at == arguments.end() || at->is_null()) return words;
  if (at->is_string()) return split_arguments(at->get<std::string>());
  if (!at->is_array()) return std::vector{at->dump(-1, ' ', false, json::error_handler_t::replace)};
  for (const json& word : *at)
    words.push_back(word.is_string() ? word.get<std::string>()
                                     : word.dump(-1, ' ', false, json::error_handler_t::replace));
  return words;
}

// A source that is nevertheless inside a fence.
std::string unfenced(std::string source) {
  if (const auto fence = next_fence(source, 0); fence && trimmed(source).starts_with("```"))
    return fence->text;
  return source;
}

Action read_call(const ToolCall& call, const Catalog& catalog, Languages languages) {
  auto read = read_json(call.arguments.empty() ? "{}" : call.arguments, "the text");
  if (!read || !read->is_object())
    return unclear("The arguments of " + call.name + " are not a JSON object" +
                   (read ? "" : ": " + read.error().message) + ". Call it again with valid JSON.");
  const json arguments = *std::move(read);
  if (acts_in_computer(languages))
    return call.name == "submit" ? submit(text_of(arguments, "answer"))
                                 : read_computer_call(call.name, arguments, languages.front().without);
  auto words = words_of(arguments, call.name == kCapabilities ? "names" : "arguments");
  if (!words) return unclear(words.error().to_string());
  if (call.name == "submit") return submit(text_of(arguments, "answer"));
  if (call.name == "run_catalog")
    return run_catalog(catalog, text_of(arguments, "name"), std::move(*words), text_of(arguments, "input"));
  const bool has_wat = find_language(languages, kWat) != nullptr;
  if (call.name == kCapabilities && has_wat) return describe_capabilities(*words);
  if (call.name != "run_program")
    return unclear("There is no tool " + call.name + ". Tools: run_program, " +
                   (catalog.entries().empty() ? "" : "run_catalog, ") + (has_wat ? "capabilities, " : "") +
                   "submit.");
  Program program;
  program.source = unfenced(text_of(arguments, "source"));
  program.entry = text_of(arguments, "entry");
  program.arguments = std::move(*words);
  program.input = text_of(arguments, "input");
  return run_source(std::move(program), lower_case(text_of(arguments, "language")), languages);
}

}  // namespace

Reply read_reply(const Completion& completion, const Catalog& catalog,
                 std::span<const ActionLanguage> languages) {
  if (completion.tool_calls.empty()) return read_text(completion, catalog, languages);
  Reply reply;
  for (const ToolCall& call : completion.tool_calls) {
    reply.actions.push_back(read_call(call, catalog, languages));
    reply.actions.back().call_id = call.id;
  }
  return reply;
}

std::vector<ToolSpec> tools_for(const Catalog& catalog, std::span<const ActionLanguage> languages) {
  const json text{{"type", "string"}};
  const json words{{"type", "array"}, {"items", text}};
  const auto schema = [](const json& properties, const std::vector<std::string>& required) {
    return json{{"type", "object"}, {"properties", properties}, {"required", required}}.dump();
  };
  const ToolSpec to_submit = {"submit", "Gives the final answer to the task and ends it.",
                              schema({{"answer", text}}, {"answer"})};
  if (acts_in_computer(languages)) {
    std::vector<ToolSpec> tools = computer_tools(languages.front().without);
    tools.push_back(to_submit);
    return tools;
  }
  json names = json::array();
  std::string titles;
  for (const ActionLanguage& language : languages) {
    names.push_back(language.name);
    titles += (titles.empty() ? "" : " or ") + language.title;
  }
  json of_program{{"language", {{"type", "string"}, {"enum", names}}},
                  {"source", text},
                  {"arguments", words},
                  {"input", text}};
  const bool has_wat = find_language(languages, kWat) != nullptr;
  if (has_wat) of_program["entry"] = text;
  std::vector<std::string> required{"source"};
  if (languages.size() > 1) required.insert(required.begin(), "language");
  std::vector<ToolSpec> tools{
      {"run_program", "Runs a program in " + titles + " in the sandbox; answers what it did.",
       schema(of_program, required)},
      to_submit};
  if (!catalog.entries().empty())
    tools.insert(tools.begin() + 1,
                 {"run_catalog", "Runs a ready program of the catalog by its name.",
                  schema({{"name", text}, {"arguments", words}, {"input", text}}, {"name"})});
  if (has_wat)
    tools.insert(tools.end() - 1,
                 {std::string(kCapabilities),
                  "Tells what host functions do: of groups (str), of single ones (str.slice).",
                  schema({{"names", words}}, {"names"})});
  return tools;
}

}  // namespace membrane::agent
