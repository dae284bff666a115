#include "lang/program_language.h"

#include <algorithm>
#include <ranges>

#include "base/text.h"
#include "base/utf8.h"
#include "lang/package.h"

namespace membrane::lang {
namespace {

// A parenthesis followed by a word of WebAssembly's text format, and not one of JavaScript's; or a comment.
bool begins_as_wat(std::string_view source) {
  source = trimmed(without_byte_order_mark(source));
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
    for (const Package& package : installed_packages())
      if (std::ranges::any_of(package.extensions, ends_with)) return package.name;
  if (begins_as_wat(source)) return "wat";
  return file_name.empty() ? "python" : "";
}

std::string guessed_language(std::string_view source) {
  constexpr size_t kMostBytes = 64u << 10;
  source = without_byte_order_mark(source).substr(0, kMostBytes);
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

}  // namespace membrane::lang
