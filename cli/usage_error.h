// Explains an invalid command line: what is wrong with it, and what was probably meant.
//
// Threads: pure functions.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "base/result.h"

namespace membrane::cli {

// The names of the command's own commands.
std::vector<std::string> commands_of(const CLI::App& command);

// kInvalidArgument, for words that `app` could not parse. `error` is the parser's.
Error usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace membrane::cli
