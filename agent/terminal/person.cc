#include "agent/terminal/person.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>

#include "base/terminal.h"
#include "base/text.h"

namespace membrane::agent {
namespace {

// Reads a line of a terminal, which may never come.
class Terminal {
 public:
  explicit Terminal(int file) : file_(file) {}
  ~Terminal() { close(file_); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(file_, text.data(), text.size());
      if (written <= 0) return;
      text.remove_prefix(static_cast<size_t>(written));
    }
  }

  // Nothing when the time is over, the run must end, or the terminal is gone.
  [[nodiscard]] std::optional<std::string> read_line(const host::EgressQuestion& question) const {
    constexpr int kLookAgainMs = 50;
    constexpr size_t kMostBytes = 1024;
    while (std::chrono::steady_clock::now() < question.until &&
           (question.cancel == nullptr || !*question.cancel)) {
      pollfd input{file_, POLLIN, 0};
      if (poll(&input, 1, kLookAgainMs) <= 0) continue;
      std::string line(kMostBytes, '\0');  // a terminal gives a line at a time
      const ssize_t got = ::read(file_, line.data(), line.size());
      if (got <= 0) return std::nullopt;
      line.resize(static_cast<size_t>(got));
      while (line.ends_with('\n') || line.ends_with('\r') || line.ends_with(' ')) line.pop_back();
      return line;
    }
    return std::nullopt;
  }

 private:
  const int file_;
};

void tell(std::string& text, std::string_view what, const host::FlowReads& reads) {
  text += std::string(what) + ":\n";
  for (const host::FlowRead& read : reads.first) {
    text += "  " + printable_line(read.function);
    if (!read.target.empty()) text += " of " + printable_line(read.target);
    if (read.call != 0) text += " (call " + std::to_string(read.call) + ")";
    text += "\n";
  }
  if (reads.more != 0) text += "  and " + std::to_string(reads.more) + " more\n";
}

}  // namespace

host::HostResult<std::string> ConsolePerson::ask(std::string_view question, uint64_t) {
  out_ << "\nThe program asks: " << printable(question) << '\n' << std::flush;
  std::string line;
  switch (in_.read("answer> ", line)) {
    case LineEvent::kLine: return line;
    case LineEvent::kInterrupted:
      return host::refuse(host::Errno::kCancelled, "The person did not want to answer.");
    case LineEvent::kEnd: break;
  }
  return host::refuse(host::Errno::kUnsupported, "No one is there to answer.");
}

std::string egress_question_text(const host::EgressQuestion& question) {
  std::string text = "\nThe program wants to send " + count_of(question.bytes, "byte") + ": " +
                     printable_line(question.function);
  if (!question.target.empty()) text += " of " + printable_line(question.target);
  text += "\n";
  tell(text, "It has read what is private", question.reads.private_reads);
  tell(text, "and what is of untrusted origin", question.reads.untrusted_reads);
  return text;
}

host::Approve approve_on_terminal() {
  const int file = isatty(STDIN_FILENO) != 0 ? open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY) : -1;
  if (file < 0) return nullptr;
  const auto terminal = std::make_shared<Terminal>(file);
  return [terminal](const host::EgressQuestion& question) {
    terminal->write(egress_question_text(question) + "Let it go? (yes/no) ");
    const auto line = terminal->read_line(question);
    if (!line) return host::Approval::kNobody;
    return *line == "yes" || *line == "y" ? host::Approval::kYes : host::Approval::kNo;
  };
}

}  // namespace membrane::agent
