// The commands of both REPLs: of the conversation (`membrane agent`) and of a session in a language
// (`membrane repl`). Each can be written with a colon or a slash. One table lists them, their REPL, and their
// help.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace membrane::agent {

enum class Meta : uint8_t {
  kHelp,
  kFork,
  kBack,
  kDrop,
  kPause,
  kGo,
  kFiles,
  kSave,
  kPolicy,
  kBudget,
  kHistory,
  kReset,
  kQuit,
};

enum class MetaPlace : uint8_t { kConversation = 1, kSession = 2, kBoth = 3 };

struct MetaCommand {
  Meta meta;
  MetaPlace place;
  std::string_view name;
  std::string_view alias;      // "" for none
  std::string_view arguments;  // as shown in the help: "FILE AS"
  std::string_view does;
};

// A line that is a command, or was meant to be one.
struct MetaLine {
  const MetaCommand* command = nullptr;  // null: no such command here
  std::string word;                      // with its prefix, as written
  std::string argument;
};

// Nothing for an entry or a task. In a session, where a line of code may begin with a slash, that includes
// anything that does not look exactly like a command; a colon followed by a letter always begins one.
std::optional<MetaLine> meta_line(MetaPlace place, std::string_view line);

// A line for each command, with the prefix.
std::string meta_help(MetaPlace place, char prefix);
// A one-line message that there is no such command, with the most similar one and the list of commands.
std::string unknown_meta(MetaPlace place, std::string_view word);
// The commands that begin with the typed text, with its prefix; none if it does not begin like one.
std::vector<std::string> metas_for(MetaPlace place, std::string_view begun);

}  // namespace membrane::agent
