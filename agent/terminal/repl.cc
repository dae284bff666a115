#include "agent/terminal/repl.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "base/terminal.h"
#include "base/text.h"
#include "policy/quantity.h"

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

Repl::Repl(Loop& loop, LineReader& in, std::ostream& out, std::atomic<bool>& cancel, ReplOptions options)
    : loop_(loop),
      in_(in),
      out_(out),
      cancel_(cancel),
      options_(std::move(options)),
      history_(History::load(options_.history_file)),
      writer_([this](std::string_view line) { transcript_ += line; }, options_.model, options_.policy_json,
              options_.languages, options_.given) {
  loop_.add_observer(writer_);
  for (const std::string& line : history_.lines()) in_.remember(line);
  in_.complete_by([](std::string_view before) -> Completions {
    return {before.size(), metas_for(MetaPlace::kConversation, before)};
  });
}

// One task or command, of any number of lines.
LineEvent Repl::read_entry(std::string& entry) {
  entry.clear();
  for (std::string line;;) {
    const LineEvent event = in_.read(entry.empty() ? kPrompt : kMorePrompt, line);
    if (event == LineEvent::kEnd && !entry.empty()) return LineEvent::kLine;  // the end ends the entry
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
    if (const auto line = meta_line(MetaPlace::kConversation, text)) {
      if (!command(*line)) return;
      continue;
    }
    cancel_ = false;
    (void)loop_.run(text, cancel_);  // the console, an observer, has shown all of it
    cancel_ = false;
  }
}

bool Repl::command(const MetaLine& line) {
  if (line.command == nullptr) {
    out_ << unknown_meta(MetaPlace::kConversation, line.word) << '\n';
    return true;
  }
  switch (line.command->meta) {
    case Meta::kHelp: help(line.word.front()); break;
    case Meta::kPolicy:
      out_ << printable(options_.policy_explanation)
           << (options_.policy_explanation.ends_with('\n') ? "" : "\n");
      break;
    case Meta::kBudget: budget(); break;
    case Meta::kSave: save(line.argument); break;
    case Meta::kHistory: history(); break;
    case Meta::kReset:
      loop_.reset();
      out_ << "The conversation begins again.\n";
      break;
    case Meta::kQuit: return false;
    case Meta::kFork:
    case Meta::kBack:
    case Meta::kDrop:
    case Meta::kPause:
    case Meta::kGo:
    case Meta::kFiles: break;  // of sessions
  }
  return true;
}

void Repl::help(char prefix) {
  out_ << "A line is a task for the agent. After a trailing \\, or in an open ```, the next line continues "
          "it.\n"
       << meta_help(MetaPlace::kConversation, prefix)
       << "Each can begin with / or with :. Ctrl-C stops the step that is under way; Ctrl-D leaves.\n";
}

void Repl::budget() {
  const policy::Budget& budget = loop_.budget();
  const auto line = [this](std::string name, const std::string& text) {
    std::ranges::replace(name, '_', ' ');
    name.resize(14, ' ');
    out_ << "  " << name << text << '\n';
  };
  const auto left_of = [](uint64_t amount, const std::string& text) {
    return amount == policy::Budget::kUnlimited ? "unlimited" : text + " left";
  };
  out_ << "For the rest of this conversation, whatever the number of its tasks:\n";
  for (size_t i = 0; i < static_cast<size_t>(Resource::kCount); ++i) {
    const auto resource = static_cast<Resource>(i);
    const uint64_t left = budget.left(resource);
    line(std::string(name_of(resource)), left_of(left, policy::format_count(left)));
  }
  const uint64_t task_ms = loop_.task_wall_ms(), left_ms = budget.wall_left_ms();
  line("time", task_ms != 0 ? policy::format_duration(task_ms) + " for each task"
                            : left_of(left_ms, policy::format_duration(left_ms)));
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
