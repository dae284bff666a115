// Which words of a command line are Membrane's, and which are the program's.
//
//   membrane run --fuel 1e6 prog.wasm in.txt --json --depth 3 -- --fuel high
//                ╰─ option ─╯         ╰ P ─╯ ╰ opt ╯╰─── P ──╯    ╰─── P ──╯
//
// An option that the command knows is Membrane's wherever it stands, with its value. Everything else after the program
// is the program's (P), and so is everything after "--".
//
// Threads: pure functions.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "base/result.h"

namespace membrane::cli {

// The words of a command line; those of `run` and `exec`, whose positionals are a program (for `exec` after a sandbox) and what
// is the program's, in an order that the parser takes apart as described above: options, "--", positionals. -e gives the
// program's text in place of a file.
//
// Errors, kInvalidArgument: an option after the program that is nearly one of the command's, since a misspelt limit
// must not be lost on the program; -e after a file; an option without its value at the end or before "--".
Result<std::vector<std::string>> order_arguments(const CLI::App& app, std::vector<std::string> words);

// The long names of the command's options, with their dashes.
std::vector<std::string> options_of(const CLI::App& command);

}  // namespace membrane::cli
