#include "agent/terminal/meta_commands.h"

#include <algorithm>

#include "base/diagnostic.h"
#include "base/terminal.h"
#include "base/text.h"

namespace membrane::agent {
namespace {

using enum Meta;
using enum MetaPlace;

constexpr MetaCommand kCommands[] = {
    {kHelp, kBoth, "help", "h", "", "what can be typed"},
    {kFork, kSession, "fork", "", "", "keeps the session as it stands, to come back to"},
    {kBack, kSession, "back", "", "", "goes back to the last fork, which stays"},
    {kDrop, kSession, "drop", "", "", "forgets the last fork"},
    {kPause, kSession, "pause", "", "FUEL",
     "pauses each entry after so much, as :pause 1e6; without it lets them run"},
    {kGo, kSession, "go", "", "",
     "lets the entry that is paused go on; a :fork meanwhile keeps it as it stands"},
    {kFiles, kSession, "files", "", "", "the files that the session has made"},
    {kSave, kSession, "save", "", "FILE AS", "copies one of them out: :save /out.csv out.csv"},
    {kSave, kConversation, "save", "", "FILE", "writes the transcript so far"},
    {kPolicy, kBoth, "policy", "", "", "what the policy lets programs do"},
    {kBudget, kSession, "budget", "fuel", "", "the fuel of the last entry, of all, and the limits of each"},
    {kBudget, kConversation, "budget", "fuel", "",
     "the fuel, calls, bytes and tokens left for the conversation, and a task's time"},
    {kHistory, kBoth, "history", "", "", "what was typed, in this session and before"},
    {kReset, kSession, "reset", "", "", "begins again, without what entries have made"},
    {kReset, kConversation, "reset", "", "",
     "forgets the conversation and what programs keep (budgets stay as they are)"},
    {kQuit, kBoth, "quit", "q", "", "leaves, as Ctrl-D does"},
};

bool is_in(const MetaCommand& command, MetaPlace place) {
  return (static_cast<uint8_t>(command.place) & static_cast<uint8_t>(place)) != 0;
}

const MetaCommand* find(MetaPlace place, std::string_view name) {
  for (const MetaCommand& command : kCommands)
    if (is_in(command, place) && (command.name == name || (!name.empty() && command.alias == name)))
      return &command;
  return nullptr;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

size_t words_in(std::string_view text) {
  size_t words = 0;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] != ' ' && (i == 0 || text[i - 1] == ' ')) ++words;
  return words;
}

std::vector<std::string> all_in(MetaPlace place, char prefix) {
  std::vector<std::string> names;
  for (const MetaCommand& command : kCommands)
    if (is_in(command, place)) names.push_back(prefix + std::string(command.name));
  return names;
}

}  // namespace

std::optional<MetaLine> meta_line(MetaPlace place, std::string_view line) {
  line = trimmed(line);
  if (line.size() < 2 || (line[0] != ':' && line[0] != '/') || line.find('\n') != std::string_view::npos)
    return std::nullopt;
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view word = line.substr(0, end), argument = trimmed(line.substr(end));
  MetaLine found{find(place, word.substr(1)), std::string(word), std::string(argument)};
  const bool is_word = std::ranges::all_of(word.substr(1), is_letter);
  if (place == kSession && line[0] == '/') {
    // Where it could be a regular expression, as in /back to/.test(text), it is one.
    const bool fits = found.command != nullptr && words_in(argument) <= words_in(found.command->arguments);
    return fits ? std::optional(std::move(found)) : std::nullopt;
  }
  if (found.command == nullptr && (line[0] == ':' ? !is_letter(line[1]) : !is_word)) return std::nullopt;
  return found;
}

std::string meta_help(MetaPlace place, char prefix) {
  constexpr size_t kWidth = 16;
  std::string help;
  for (const MetaCommand& command : kCommands) {
    if (!is_in(command, place)) continue;
    std::string usage = "  " + (prefix + std::string(command.name));
    if (!command.arguments.empty()) usage += " " + std::string(command.arguments);
    usage.append(kWidth - std::min(usage.size(), kWidth - 2), ' ');
    help += usage + std::string(command.does) + "\n";
  }
  return help;
}

std::string unknown_meta(MetaPlace place, std::string_view word) {
  const std::vector<std::string> names = all_in(place, word.front());
  const std::string_view near = nearest(word, {names.begin(), names.end()});
  std::string text = "There is no command " + printable_line(word);
  if (const MetaPlace other = place == kSession ? kConversation : kSession;
      find(other, word.substr(1)) != nullptr)
    text += other == kSession ? " here, but in membrane repl" : " here, but in membrane agent";
  text += ".";
  if (!near.empty()) text += " Did you mean " + std::string(near) + "?";
  text += " There are";
  for (const std::string& name : names)
    text += (&name == &names.front() ? " " : &name == &names.back() ? " and " : ", ") + name;
  return text + ".";
}

std::vector<std::string> metas_for(MetaPlace place, std::string_view begun) {
  if (begun.empty() || (begun[0] != ':' && begun[0] != '/')) return {};
  std::vector<std::string> names = all_in(place, begun[0]);
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(begun); });
  std::ranges::sort(names);
  return names;
}

}  // namespace membrane::agent
