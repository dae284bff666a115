#include "service/e2b/shell_words.h"

#include <optional>

namespace membrane::service::e2b {
namespace {

// The meaning of an unquoted character to a shell, other than itself. "": none.
std::string_view meaning_of(char c) {
  switch (c) {
    case '|': return "a pipe (|)";
    case '&': return "a job or a list of commands (&)";
    case ';':
    case '\n': return "more than one command";
    case '<':
    case '>': return "a redirection (< or >)";
    case '(':
    case ')': return "a subshell";
    case '$': return "a variable ($)";
    case '`': return "a command's output (`)";
    case '*':
    case '?':
    case '[': return "a pattern of file names (*, ? or [)";
    case '{':
    case '}': return "an expansion ({ or })";
    case '!': return "a history expansion (!)";
    default: return "";
  }
}

class Splitter {
 public:
  explicit Splitter(std::string_view line) : line_(line) {}

  std::expected<std::vector<std::string>, std::string> split() {
    while (at_ < line_.size() && problem_.empty()) take(line_[at_++]);
    if (!problem_.empty()) return std::unexpected(std::string(problem_));
    end_word();
    return std::move(words_);
  }

 private:
  void take(char c) {
    if (c == ' ' || c == '\t') return end_word();
    if (c == '\'') return take_single();
    if (c == '"') return take_double();
    if (c == '\\') {
      if (at_ == line_.size()) problem_ = "a backslash with nothing after it";
      else if (line_[at_] == '\n') ++at_;
      else add(line_[at_++]);
      return;
    }
    if ((c == '#' || c == '~') && !word_) {
      problem_ = c == '#' ? "a comment (#)" : "a home directory (~)";
      return;
    }
    problem_ = meaning_of(c);
    add(c);
  }
  void take_single() {
    const size_t end = line_.find('\'', at_);
    if (end == std::string_view::npos) {
      problem_ = "a quote that is not closed";
      return;
    }
    word_ = word_.value_or("").append(line_.substr(at_, end - at_));
    at_ = end + 1;
  }
  void take_double() {
    if (!word_) word_.emplace();
    for (; at_ < line_.size() && line_[at_] != '"'; ++at_) {
      char c = line_[at_];
      if (c == '$' || c == '`') problem_ = meaning_of(c);
      constexpr std::string_view kEscaped = "$`\"\\\n";
      if (c == '\\' && at_ + 1 < line_.size() && kEscaped.find(line_[at_ + 1]) != std::string_view::npos) {
        c = line_[++at_];
        if (c == '\n') continue;
      }
      add(c);
    }
    if (at_ == line_.size()) problem_ = "a quote that is not closed";
    else ++at_;
  }
  void add(char c) {
    if (!word_) word_.emplace();
    *word_ += c;
  }
  void end_word() {
    if (word_) words_.push_back(*std::move(word_));
    word_.reset();
  }

  std::string_view line_;
  size_t at_ = 0;
  std::optional<std::string> word_;
  std::vector<std::string> words_;
  std::string_view problem_;
};

}  // namespace

std::expected<std::vector<std::string>, std::string> shell_words(std::string_view line) {
  constexpr std::string_view kAround = " \t\r\n";
  const size_t last = line.find_last_not_of(kAround);
  if (last == std::string_view::npos) return {};
  return Splitter(line.substr(0, last + 1).substr(line.find_first_not_of(kAround))).split();
}

}  // namespace membrane::service::e2b
