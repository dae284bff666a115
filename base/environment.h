// The variables of this process's environment.
//
// Threads: any, while nobody sets one.
#pragma once

#include <cstdlib>
#include <string>

namespace membrane {

// For a process that others' code may take over: nothing of the variables stays in its memory. Its own copy, after fork().
void clear_environment();

// "" when there is none of that name.
inline std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace membrane
