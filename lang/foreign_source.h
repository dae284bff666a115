// Recognises sources in other languages, so that the author gets a clear message rather than one about a missing
// parenthesis.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <string_view>

#include "base/diagnostic.h"

namespace membrane::lang {

// kUnsupportedLanguage when `source` cannot be WAT because it does not begin with a form, or is empty; nothing when
// it may be WAT. `name` is the program's file name, or empty.
std::optional<Diagnostic> foreign_source(std::string_view source, std::string_view name);

}  // namespace membrane::lang
