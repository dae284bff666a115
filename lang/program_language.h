// The language of a program, by its name and its text.
//
// Threads: pure functions; language_of() reads which packages are installed.
#pragma once

#include <string>
#include <string_view>

namespace membrane::lang {

// The language of a program, by its name and how it begins: "python", "js" or an installed package with that
// extension; "wat" or "wasm" for programs that the engine runs itself. A text without a name is Python unless it
// begins as WAT or a binary does; if a name has no known extension, the language is "", and can be guessed.
std::string language_of(std::string_view file_name, std::string_view source);
// "python" or "js", if the words of a text suggest one of them; otherwise "".
std::string guessed_language(std::string_view source);

}  // namespace membrane::lang
