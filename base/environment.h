// The variables of this process's environment.
//
// Threads: any, as long as no thread sets a variable.
#pragma once

#include <cstdlib>
#include <string>

namespace membrane {

// For a process that foreign code may take over: none of the variables stays in its memory. Call it after fork(), on
// the child's copy.
void clear_environment();

// "" when the variable is not set.
inline std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace membrane
