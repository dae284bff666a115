// What languages are called: by packages, in sentences, in fences of code and by people.
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
  std::string_view title;                // in sentences
  std::array<std::string_view, 5> tags;  // in lower case; the first is what models are taught; "" for none
};
std::span<const KnownLanguage> known_languages();
// Of TypeScript, which the package of JavaScript runs.
std::span<const std::string_view> typescript_tags();

// In any case.
bool is_typescript(std::string_view tag);
// The language that a word stands for: "python" for "py", "js" for "TypeScript". A word that stands for nothing here is
// the name of a package.
std::string language_named(std::string_view word);
// What a program in `word`, given without a name, is called, so that its language knows it: "-e.ts" for "-e" in TypeScript.
std::string program_name(std::string_view name, std::string_view word);

}  // namespace membrane::lang
