// Sources in languages that are not run, told apart so that the author hears it in words rather
// than as a parenthesis that is missing.
//
// Threads: pure.
#pragma once

#include <optional>
#include <string_view>

#include "base/diagnostic.h"

namespace membrane::lang {

// kUnsupportedLanguage when `source` cannot be WAT because it does not begin with a form, or is empty; nothing
// when it may be. `name` is the program's file name, or empty.
std::optional<Diagnostic> foreign_source(std::string_view source, std::string_view name);

}  // namespace membrane::lang
