// The languages in which a model may act: WAT, which the engine runs itself, and installed packages. Their
// names in replies, their descriptions in the prompt, and the executor's choice come from here.
//
// Threads: values; choose_languages() reads files and the environment.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lang/package.h"
#include "sandbox/sandbox.h"

namespace membrane::agent {

inline constexpr std::string_view kWat = "wat";
// Not a package: what a model does in a Linux sandbox (computer_actions.h).
inline constexpr std::string_view kShell = "shell";

struct Language {
  std::string name;                       // "wat", or the package's: "python", "js"
  std::string title;                      // in sentences: "Python"
  std::vector<std::string> tags;          // of fenced code, in lower case; models are taught the first
  std::string version = {};               // of the package
  std::vector<std::string> modules = {};  // importable modules besides the standard library
  std::vector<std::string> without = {};  // for kShell: unavailable entries
};

// A program and its language.
struct Program : sandbox::Program {
  std::string written_in{kWat};  // a Language's name
};

Language wat();
Language shell();
// Its modules come from the file MANIFEST next to the package, if there is one.
Language language_of_package(const lang::Package& package);

// Finds by name or tag, in any case. Null when there is none.
const Language* find_language(std::span<const Language> languages, std::string_view tag);
// "Python (```python) or WAT (```wat)".
std::string list_of(std::span<const Language> languages);

// The named languages, once each, in order; if none is named, the first of python, js and wat that exists.
// Errors: those of lang::find_package(); kInvalidArgument for an invalid name.
Result<std::vector<Language>> choose_languages(std::span<const std::string> names);

}  // namespace membrane::agent
