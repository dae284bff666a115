// Environment variables as the languages have them.
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>

#include "service/guest.h"

namespace membrane::service {

// Errors: kInvalidValue for a name that is empty or has "=" or NUL, a value with NUL, and more than there may be.
Answer<void> check_environment(const Environment& environment);

// Code that makes the program's environment `to` where it was `from`, and leaves nothing else; "" when it is so already.
// Errors: kUnsupported for a language that has none.
Answer<std::string> code_to_change(std::string_view language, const Environment& from, const Environment& to);

}  // namespace membrane::service
