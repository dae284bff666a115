#include "lang/language_names.h"

#include <algorithm>

#include "base/text.h"

namespace membrane::lang {
namespace {

constexpr KnownLanguage kKnown[] = {
    {"wat", "WAT", {"wat", "wast", "wasm", "wasm-text", "webassembly"}},
    {"python", "Python", {"python", "py", "python3", "ipython", ""}},
    {"js", "JavaScript", {"javascript", "js", "mjs", "cjs", "node"}},
};
constexpr std::string_view kTypescriptTags[] = {"typescript", "ts", "mts", "cts"};

}  // namespace

std::span<const KnownLanguage> known_languages() { return kKnown; }
std::span<const std::string_view> typescript_tags() { return kTypescriptTags; }

bool is_typescript(std::string_view tag) {
  return std::ranges::find(kTypescriptTags, lower_case(tag)) != std::end(kTypescriptTags);
}

std::string language_named(std::string_view word) {
  const std::string tag = lower_case(word);
  for (const KnownLanguage& each : kKnown)
    if (!tag.empty() && std::ranges::find(each.tags, tag) != each.tags.end()) return std::string(each.name);
  return is_typescript(tag) ? "js" : std::string(word);
}

std::string program_name(std::string_view name, std::string_view word) {
  const std::string_view ending = name.substr(std::min(name.rfind('.'), name.size()));
  return std::string(name) +
         (is_typescript(word) && (ending.empty() || !is_typescript(ending.substr(1))) ? ".ts" : "");
}

}  // namespace membrane::lang
