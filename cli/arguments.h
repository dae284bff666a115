// Separates the words of a command line that are Membrane's from the program's.
//
//   membrane run --fuel 1e6 prog.wasm in.txt --json --depth 3 -- --fuel high
//                ╰─ option ─╯         ╰ P ─╯ ╰ opt ╯╰─── P ──╯    ╰─── P ──╯
//
// An option that the command knows is Membrane's wherever it is, with its value. Everything else after the
// program belongs to the program (P), and so does everything after "--".
//
// Threads: pure functions.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "base/result.h"

namespace membrane::cli {

// Reorders the words of a command line for the parser: options, "--", positionals. The positionals of `run`
// and `exec` are a program (for `exec` after a sandbox) and the program's own words. -e supplies the
// program's text instead of a file.
//
// Errors, kInvalidArgument: an option after the program that is one slip away from one of the command's, so that a
// misspelt limit is not silently passed to the program; a limit or a grant given to `exec`, which has none; -e
// after a file; an option without its value at the end or before "--".
Result<std::vector<std::string>> order_arguments(const CLI::App& app, std::vector<std::string> words);

// Replaces the verb of a list by the command's own: "image list" becomes image ls, "languages ls" languages list, and
// "tokens list" tokens.
std::vector<std::string> with_own_verb(const CLI::App& app, std::vector<std::string> words);

// How an option reaches the program, for messages about one after it: "Write -- before …: membrane run x.py --
// --model". `command` is the command line up to the program.
std::string advice_to_pass_on(const std::string& command, const std::string& option);
// Adds the advice to an error about the value of an option, which its message begins with, or about the file of
// --input.
Error with_advice_to_pass_on(Error error, const std::string& command, const std::string& input_file);

// The long names of the command's options, with their dashes.
std::vector<std::string> options_of(const CLI::App& command);
// The command's option that an unknown one probably means: the nearest, or what another command or program calls
// the same. "" if there is none.
std::string option_meant_by(const CLI::App& command, const std::string& name);
// A sentence on what to do instead of an unknown option: how docker's are written here, or the nearest. "" if nothing is
// known.
std::string hint_for_option(const CLI::App& command, const std::string& name);

}  // namespace membrane::cli
