#include "agent/terminal/console.h"

#include <algorithm>

#include "agent/actions/computer_actions.h"
#include "base/terminal.h"
#include "base/text.h"

namespace membrane::agent {

void Console::line_end() {
  if (in_line_) out_ << '\n';
  in_line_ = false;
}

void Console::title(std::string_view text) {
  line_end();
  out_ << (options_.colour ? terminal::kBold : "") << text << (options_.colour ? terminal::kPlain : "")
       << '\n';
}

void Console::dim(std::string_view text) {
  out_ << (options_.colour ? terminal::kDim : "") << text << (options_.colour ? terminal::kPlain : "");
}

void Console::on_step(uint32_t number) {
  title("── step " + std::to_string(number));
  reply_.clear();
}

void Console::on_text(std::string_view text) {
  reply_ += text;
  out_ << printable(text) << std::flush;
  if (!text.empty()) in_line_ = text.back() != '\n';
}

void Console::on_thought(std::string_view text) {
  if (!options_.thoughts || text.empty()) return;
  dim(printable(text));
  out_ << std::flush;
  in_line_ = text.back() != '\n';
}

void Console::on_retry(std::string_view why, uint64_t wait_ms) {
  on_note(std::string(why) + " Asking again" +
          (wait_ms >= 1000 ? " in " + std::to_string(wait_ms / 1000) + " s." : "."));
  reply_.clear();
}

void Console::on_reply(const ChatQuery&, const Completion& completion) {
  line_end();
  if (completion.finish == Finish::kCut) on_note(completion.problem);
}

// A program inside the text was already shown.
void Console::on_program(const Program& program) {
  if (!program.source.empty() && reply_.find(program.source) != std::string::npos) return;
  std::string call = program.name;
  const bool is_command = program.written_in == kShell && program.entry == kRunEntry;
  for (const std::string& argument : program.arguments)
    call += is_command ? " (at most " + argument + " s)" : " " + argument;
  title("── program " + printable_line(call));
  if (program.source.starts_with('\0')) return;  // a binary
  out_ << printable(program.source);
  in_line_ = !program.source.ends_with('\n');
  line_end();
}

void Console::on_observation(std::string_view text) {
  title("── observation");
  size_t end = 0;
  for (size_t lines = 0; lines < options_.observation_lines && end < text.size(); ++lines)
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  out_ << printable(text.substr(0, end));
  if (end != 0) in_line_ = text[end - 1] != '\n';
  line_end();
  if (end < text.size()) dim("… and " + count_of(text.size() - end, "byte") + " more\n");
  out_ << std::flush;
}

void Console::on_note(std::string_view text) {
  line_end();
  dim("[" + printable(text) + "]\n");
  out_ << std::flush;
}

void Console::on_end(const TaskResult& result) {
  if (result.stop == Stop::kAnswered) {
    title("── answer");
    out_ << printable(result.answer) << '\n';
  } else {
    title("── no answer");
    out_ << (options_.colour ? terminal::kRed : "") << describe(result.stop)
         << (options_.colour ? terminal::kPlain : "") << '\n';
    if (result.error) out_ << printable(result.error->to_string()) << '\n';
  }
  out_ << '\n' << render_totals(result) << std::flush;
}

}  // namespace membrane::agent
