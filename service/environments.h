// Environment variables, as the languages represent them.
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>

#include "service/guest.h"

namespace membrane::service {

// Errors: kInvalidValue for a name that is empty or has "=" or NUL, a value with NUL, and too many variables.
Answer<void> check_environment(const Environment& environment);

// As lang::code_to_change(). Errors: kUnsupported for a language without an environment.
Answer<std::string> code_to_change(std::string_view language, const Environment& from, const Environment& to);

}  // namespace membrane::service
