// The actions of a model in a Linux sandbox, as programs of the loop: each is in the "language" kShell, and
// its entry names the action.
//
//   entry    source        arguments              input
//   run      the command   timeout_s              standard input
//   write    content       path
//   edit     the new text  path                   the old one, which is there once
//   read                   path, line, lines
//   search   a pattern     path
//   diff
//   undo                   steps
//
// By tool calls, else by fenced code: ```bash is a command; ```write PATH, ```edit PATH, ```read PATH [LINE [LINES]], ```search PATH,
// ```diff and ```undo [STEPS] are the others. The text of an edit is
//
//   <<<<<<< OLD
//   …
//   =======
//   …
//   >>>>>>> NEW
//
// Threads: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "agent/action.h"
#include "agent/languages.h"

namespace membrane::agent {

inline constexpr std::string_view kRunEntry = "run", kWriteEntry = "write", kEditEntry = "edit",
                                  kReadEntry = "read", kSearchEntry = "search", kDiffEntry = "diff",
                                  kUndoEntry = "undo";

// Whether the model acts in a Linux sandbox.
bool acts_in_computer(std::span<const Language> languages);

// Parses a tool call; an unclear one says what is wrong. `without`: as for computer_tools().
Action read_computer_call(std::string_view tool, const nlohmann::json& arguments,
                          const std::vector<std::string>& without);
// Whether a fence with this first word, in lower case, is an action.
bool is_computer_fence(std::string_view word);
// `rest`: the text after the word.
Action read_computer_fence(std::string_view word, std::string_view rest, std::string text);
// All except submit. `without`: entries to leave out.
std::vector<ToolSpec> computer_tools(const std::vector<std::string>& without);

}  // namespace membrane::agent
