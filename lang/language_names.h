// Names of languages: in packages, in sentences, in code fences and as people write them.
//
// Threads: pure functions.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace membrane::lang {

struct KnownLanguage {
  std::string_view name;                 // of the package; "wat" is the engine's own
  std::string_view title;                // used in sentences
  std::array<std::string_view, 5> tags;  // in lower case; models are taught the first; "" for none
};
std::span<const KnownLanguage> known_languages();
// The tags of TypeScript, which the package of JavaScript runs.
std::span<const std::string_view> typescript_tags();

// Ignores case.
bool is_typescript(std::string_view tag);
// The language that a word means: "python" for "py", "js" for "TypeScript". An unknown word is the name of a
// package.
std::string language_named(std::string_view word);
// The name for an unnamed program in `word`, by which its language recognises it: "-e.ts" for "-e" in TypeScript.
std::string program_name(std::string_view name, std::string_view word);

}  // namespace membrane::lang
