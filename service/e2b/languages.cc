#include "service/e2b/languages.h"

#include <algorithm>
#include <span>

#include "base/json.h"

namespace membrane::service::e2b {
namespace {

struct Alias {
  std::string_view theirs, ours;
};
constexpr Alias kTemplates[] = {{"", "python"},
                                {"base", "python"},
                                {"code-interpreter-v1", "python"},
                                {"code-interpreter-stateful", "python"},
                                {"python", "python"},
                                {"javascript", "javascript"},
                                {"node", "javascript"},
                                {"nodejs", "javascript"},
                                {"js", "javascript"}};
constexpr Alias kLanguages[] = {{"python", "python"},         {"python3", "python"},
                                {"javascript", "javascript"}, {"js", "javascript"},
                                {"typescript", "typescript"}, {"ts", "typescript"}};

std::string_view ours(std::span<const Alias> aliases, std::string_view theirs) {
  const auto found = std::ranges::find(aliases, theirs, &Alias::theirs);
  return found == aliases.end() ? std::string_view() : found->ours;
}

// A text as a literal of both languages.
std::string literal(const std::string& text) { return json_text(nlohmann::json(text)); }

}  // namespace

std::string_view template_of(std::string_view theirs) { return ours(kTemplates, theirs); }
std::string_view language_of(std::string_view theirs) { return ours(kLanguages, theirs); }
std::string_view template_that_runs(std::string_view language) {
  return language == "typescript" ? "javascript" : language;
}

std::string code_to_begin_in(std::string_view language, const std::string& directory) {
  const std::string path = literal(directory);
  if (language == "javascript")
    return "require('fs').mkdirSync(" + path + ", {recursive: true}); process.chdir(" + path + ")";
  return "__import__('os').makedirs(" + path + ", exist_ok=True) or __import__('os').chdir(" + path +
         ") or __import__('membrane._e2b', fromlist=['install']).install()";
}

std::string code_to_enter(std::string_view language, const std::string& directory) {
  if (language == "javascript")
    return "globalThis[Symbol.for('membrane.cwd')] = process.cwd(); process.chdir(" + literal(directory) +
           ")";
  return "setattr(__import__('sys'), '_membrane_cwd', __import__('os').getcwd()) or __import__('os').chdir(" +
         literal(directory) + ")";
}

std::string code_to_leave(std::string_view language) {
  if (language == "javascript") return "process.chdir(globalThis[Symbol.for('membrane.cwd')])";
  return "__import__('os').chdir(__import__('sys')._membrane_cwd)";
}

}  // namespace membrane::service::e2b
