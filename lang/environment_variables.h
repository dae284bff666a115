// Environment variables of programs in Python and JavaScript: a session has what code sets.
//
// Threads: pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace membrane::lang {

using EnvironmentVariables = std::map<std::string, std::string>;

// Code in the language that changes the program's environment from `from` to `to`, and leaves nothing else; "" when
// they are equal. Nothing for a language without an environment.
std::optional<std::string> code_to_change(std::string_view language, const EnvironmentVariables& from,
                                          const EnvironmentVariables& to);

}  // namespace membrane::lang
