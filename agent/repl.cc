#include "agent/repl.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "base/diagnostic.h"
#include "base/terminal.h"
#include "base/text.h"

namespace membrane::agent {

using policy::Resource;

namespace {

constexpr std::string_view kPrompt = "membrane> ";
constexpr std::string_view kMorePrompt = "       …> ";

// Whether a code fence is open at the end of the text.
bool in_fence(std::string_view text) {
  bool open = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (trimmed(text.substr(at, end - at)).starts_with("```")) open = !open;
    at = end + 1;
  }
  return open;
}

}  // namespace

struct Repl::Command {
  std::string_view name;
  std::string_view argument;
  std::string_view does;
  Went (*act)(Repl& repl, const std::string& argument);
};

const Repl::Command Repl::kCommands[] = {
    {"/help", "", "what can be typed",
     [](Repl& r, const std::string&) {
       r.help();
       return Went::kOn;
     }},
    {"/policy", "", "what the policy lets programs do",
     [](Repl& r, const std::string&) {
       r.out_ << printable(r.options_.policy_explanation)
              << (r.options_.policy_explanation.ends_with('\n') ? "" : "\n");
       return Went::kOn;
     }},
    {"/budget", "", "what is left of each budget",
     [](Repl& r, const std::string&) {
       r.budget();
       return Went::kOn;
     }},
    {"/save", "FILE", "writes the transcript so far",
     [](Repl& r, const std::string& path) {
       r.save(path);
       return Went::kOn;
     }},
    {"/history", "", "what was typed, in this session and before",
     [](Repl& r, const std::string&) {
       r.history();
       return Went::kOn;
     }},
    {"/reset", "", "forgets the conversation and what programs keep (budgets stay as they are)",
     [](Repl& r, const std::string&) {
       r.loop_.reset();
       r.out_ << "The conversation begins anew.\n";
       return Went::kOn;
     }},
    {"/quit", "", "leaves, as Ctrl-D does", [](Repl&, const std::string&) { return Went::kQuit; }},
};

Repl::Repl(Loop& loop, LineReader& in, std::ostream& out, std::atomic<bool>& cancel, ReplOptions options)
    : loop_(loop),
      in_(in),
      out_(out),
      cancel_(cancel),
      options_(std::move(options)),
      history_(History::load(options_.history_file)),
      writer_([this](std::string_view line) { transcript_ += line; }, options_.model, options_.policy_json,
              options_.languages) {
  loop_.add_observer(writer_);
  for (const std::string& line : history_.lines()) in_.remember(line);
}

// One task or command, however many lines it has.
LineEvent Repl::read_entry(std::string& entry) {
  entry.clear();
  for (std::string line;;) {
    const LineEvent event = in_.read(entry.empty() ? kPrompt : kMorePrompt, line);
    if (event == LineEvent::kEnd && !entry.empty()) return LineEvent::kLine;  // what stands there, stands
    if (event != LineEvent::kLine) return event;
    const bool more = line.ends_with('\\');
    if (more) line.pop_back();
    entry += line;
    if (!more && !in_fence(entry)) return LineEvent::kLine;
    entry += '\n';
  }
}

void Repl::run() {
  if (!options_.banner.empty()) out_ << options_.banner << '\n';
  for (std::string entry;;) {
    const LineEvent event = read_entry(entry);
    if (event == LineEvent::kEnd) return;
    if (event == LineEvent::kInterrupted) {
      out_ << "\n(Ctrl-D or /quit leaves.)\n";
      continue;
    }
    const std::string text(trimmed(entry));
    if (text.empty()) continue;
    if (const Status kept = history_.add(entry); !kept) out_ << "[" << kept.error().to_string() << "]\n";
    in_.remember(entry);
    if (text.front() == '/') {
      if (command(text) == Went::kQuit) return;
      continue;
    }
    cancel_ = false;
    (void)loop_.run(text, cancel_);  // the console, an observer, has shown all of it
    cancel_ = false;
  }
}

Repl::Went Repl::command(std::string_view line) {
  const size_t space = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view name = line.substr(0, space);
  const std::string argument(trimmed(line.substr(space)));
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) {
    if (command.name == name) return command.act(*this, argument);
    names.push_back(command.name);
  }
  const std::string_view near = nearest(name, names);
  out_ << "There is no command " << printable_line(name) << ". "
       << (near.empty() ? "/help lists them." : "Did you mean " + std::string(near) + "?") << '\n';
  return Went::kOn;
}

void Repl::help() {
  out_ << "A line is a task for the agent. A trailing \\ or an open ``` goes on in the next line.\n";
  for (const Command& command : kCommands) {
    const std::string usage =
        std::string(command.name) + (command.argument.empty() ? "" : " " + std::string(command.argument));
    out_ << "  " << usage << std::string(14 - usage.size(), ' ') << command.does << '\n';
  }
  out_ << "Ctrl-C stops the step that is under way; Ctrl-D leaves.\n";
}

void Repl::budget() {
  const policy::Budget& budget = loop_.budget();
  for (size_t i = 0; i < static_cast<size_t>(Resource::kCount); ++i) {
    const auto resource = static_cast<Resource>(i);
    const uint64_t left = budget.left(resource);
    const std::string_view name = name_of(resource);
    out_ << "  " << name << std::string(14 - name.size(), ' ')
         << (left == policy::Budget::kUnlimited ? "unlimited" : std::to_string(left) + " left") << '\n';
  }
  const uint64_t wall = budget.wall_left_ms();
  out_ << "  wall          "
       << (wall == policy::Budget::kUnlimited ? "unlimited" : std::to_string(wall) + " ms left") << '\n';
}

void Repl::save(const std::string& path) {
  if (path.empty()) {
    out_ << "Write /save FILE.\n";
    return;
  }
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << transcript_;
  out.close();
  if (out) out_ << "Saved to " << printable_line(path) << "; --replay runs it again.\n";
  else out_ << printable_line(path) << " cannot be written.\n";
}

void Repl::history() {
  for (const std::string& line : history_.lines()) out_ << printable(line) << '\n';
}

}  // namespace membrane::agent
