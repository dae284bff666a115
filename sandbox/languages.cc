#include "sandbox/languages.h"

#include <algorithm>
#include <ranges>

#include "base/environment.h"
#include "base/text.h"
#include "lang/package.h"
#include "sandbox/warm_lists.h"

namespace membrane::sandbox {

std::string Languages::default_cache_directory() {
  // By its specification, a path that is not absolute is ignored.
  if (const std::string cache = environment_variable("XDG_CACHE_HOME"); cache.starts_with('/'))
    return cache + "/membrane/templates";
  const std::string home = environment_variable("HOME");
  return home.empty() ? "" : home + "/.cache/membrane/templates";
}

Result<std::shared_ptr<const Template>> Languages::open(lang::Package package, const Modules* modules) {
  std::string key = package.name;
  if (modules != nullptr)
    for (const std::string& module : *modules) key += " " + module;
  const std::lock_guard lock(mutex_);
  if (const auto found = templates_.find(key); found != templates_.end()) return found->second;
  MEMBRANE_TRY(check_cache(package));
  Modules list = modules == nullptr ? Modules() : *modules;
  MEMBRANE_ASSIGN(auto opened, Template::open(std::move(package), options_, std::move(list)));
  templates_.emplace(std::move(key), opened);
  return opened;
}

Status Languages::check_cache(const lang::Package& package) const {
  if (!options_.cache_directory.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, "there is no directory for the warm image of " + package.name,
              "Set HOME or XDG_CACHE_HOME.");
}

static const std::vector<std::string>* warm_list_for(const lang::Package& package, std::string_view program) {
  return package.warm.empty() ? nullptr : best_warm_list(package.warm, imported_packages(program));
}

Result<std::shared_ptr<const Template>> Languages::open(std::string_view name, std::string_view program) {
  MEMBRANE_ASSIGN(const lang::Package package, lang::find_package(name));
  return open(package, warm_list_for(package, program));
}

Result<Languages::Located> Languages::locate(std::string_view name, std::string_view program) const {
  MEMBRANE_ASSIGN(lang::Package package, lang::find_package(name));
  MEMBRANE_TRY(check_cache(package));
  const Modules* const modules = warm_list_for(package, program);
  TemplateSpec spec{package.directory,
                    modules == nullptr ? Modules() : *modules,
                    options_.cache_directory,
                    options_.tier,
                    {},
                    {},
                    {}};
  return Located{std::move(package), std::move(spec)};
}

Result<std::shared_ptr<const Template>> Languages::open_for_session(std::string_view name) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = for_sessions_.find(name); found != for_sessions_.end()) return found->second;
  }
  MEMBRANE_ASSIGN(const lang::Package package, lang::find_package(name));
  MEMBRANE_ASSIGN(auto opened, open(package, largest_warm_list(package.warm)));
  const std::lock_guard lock(mutex_);
  return for_sessions_.emplace(name, std::move(opened)).first->second;
}

namespace {

// A parenthesis followed by a word of WebAssembly's text format, and not one of JavaScript's; or a comment.
bool begins_as_wat(std::string_view source) {
  source = trimmed(source);
  if (source.starts_with(";;") || source.starts_with("(;")) return true;
  if (!source.starts_with('(')) return false;
  const std::string_view rest = trimmed(source.substr(1));
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t\r\n()"));
  constexpr std::string_view kOfJavaScript[] = {"async", "function", "class", "await", "new"};
  return !word.empty() && std::ranges::find(kOfJavaScript, word) == std::end(kOfJavaScript);
}

bool has(std::string_view line, std::string_view part) { return line.find(part) != std::string_view::npos; }

bool is_as_in_python(std::string_view line) {
  constexpr std::string_view kBlocks[] = {"def ",  "class ", "if ",  "for ",       "while ", "with ",
                                          "elif ", "else:",  "try:", "async def ", "except", "match "};
  const auto begins = [&](std::string_view word) { return line.starts_with(word); };
  if (begins("print(") || (begins("from ") && has(line, " import "))) return true;
  if (begins("import ")) return !has(line, "'") && !has(line, "\"") && !line.ends_with(';');
  return line.ends_with(':') && std::ranges::any_of(kBlocks, begins);
}

bool is_as_in_javascript(std::string_view line) {
  constexpr std::string_view kBeginnings[] = {"const ",          "let ",    "var ", "function ",
                                              "async function ", "export ", "//"};
  constexpr std::string_view kParts[] = {"=>", "console.log(", "require("};
  const auto begins = [&](std::string_view word) { return line.starts_with(word); };
  const auto contains = [&](std::string_view part) { return has(line, part); };
  if (begins("import ")) return has(line, "'") || has(line, "\"");
  return std::ranges::any_of(kBeginnings, begins) || std::ranges::any_of(kParts, contains);
}

}  // namespace

std::string language_of(std::string_view file_name, std::string_view source) {
  if (source.starts_with(std::string_view("\0asm", 4))) return "wasm";
  const auto ends_with = [&](std::string_view extension) { return file_name.ends_with(extension); };
  if (ends_with(".wat") || ends_with(".wast")) return "wat";
  if (ends_with(".py")) return "python";
  for (const std::string_view extension : {".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"})
    if (ends_with(extension)) return "js";
  if (file_name.find('.') != std::string_view::npos)
    for (const lang::Package& package : lang::installed_packages())
      if (std::ranges::any_of(package.extensions, ends_with)) return package.name;
  if (begins_as_wat(source)) return "wat";
  return file_name.empty() ? "python" : "";
}

std::string guessed_language(std::string_view source) {
  constexpr size_t kMostBytes = 64u << 10;
  source = source.substr(0, kMostBytes);
  if (source.starts_with("#!")) {
    const std::string_view first = source.substr(0, source.find('\n'));
    if (first.find("python") != std::string_view::npos) return "python";
    for (const std::string_view runner : {"node", "deno", "bun"})
      if (first.find(runner) != std::string_view::npos) return "js";
  }
  size_t python = 0, javascript = 0;
  for (const auto part : std::views::split(source, '\n')) {
    const std::string_view line = trimmed({part.begin(), part.end()});
    if (is_as_in_python(line)) ++python;
    if (is_as_in_javascript(line)) ++javascript;
  }
  if (python == javascript) return "";
  return python > javascript ? "python" : "js";
}

}  // namespace membrane::sandbox
