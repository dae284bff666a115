#include "service/e2b/cell.h"

#include <algorithm>
#include <cctype>

#include "base/json.h"
#include "service/e2b/ipython_commands.h"

namespace membrane::service::e2b {
namespace {

constexpr std::string_view kBlanks = " \t";

// A text as a Python literal.
std::string literal(std::string_view text) { return json_text(nlohmann::json(text)); }

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\f\v") == line.npos; }

// Walks over a cell, and stops at the start of each logical line: not within a string or brackets, nor after
// a backslash.
class Walk {
 public:
  explicit Walk(std::string_view code) : code_(code) {}

  PythonCell rewritten() {
    while (at_ < code_.size()) {
      if (const size_t command = find_command(); command != code_.npos) take_command(command);
      take_line();
    }
    return std::move(cell_);
  }

 private:
  // The start of a command in the line at at_: at its beginning, or after `names =`.
  [[nodiscard]] size_t find_command() const {
    const auto begins = [&](size_t at) {
      return at < code_.size() && (code_[at] == '!' || code_[at] == '%');
    };
    const size_t first = code_.find_first_not_of(kBlanks, at_);
    if (first == code_.npos || begins(first)) return first;
    const auto is_of_names = [](char sign) {
      return std::isalnum(static_cast<unsigned char>(sign)) != 0 || std::string_view("_,. \t").contains(sign);
    };
    size_t at = first;
    while (at < code_.size() && is_of_names(code_[at])) ++at;
    if (at == first || at == code_.size() || code_[at] != '=') return code_.npos;
    at = code_.find_first_not_of(kBlanks, at + 1);
    return begins(at) ? at : code_.npos;
  }

  // Lines that end in a backslash continue in the next; a command of a whole cell (%%) takes everything that
  // follows.
  void take_command(size_t from) {
    const bool is_of_cell = code_.substr(from).starts_with("%%");
    std::string command;
    size_t breaks = 0, end = from;
    while (end < code_.size() && code_[end] != '\n') {
      if (code_.substr(end).starts_with("\\\n")) {
        command += ' ';
        ++breaks;
        end += 2;
      } else {
        command += code_[end++];
      }
    }
    cell_.code += code_.substr(at_, from - at_);
    cell_.code += std::string(kCommandFunction) + "(" + literal(command) + ")" + std::string(breaks, '\n');
    cell_.has_commands = true;
    at_ = is_of_cell ? code_.size() : end;
  }

  void take(size_t count) {
    count = std::min(count, code_.size() - at_);
    cell_.code += code_.substr(at_, count);
    at_ += count;
  }

  // To the beginning of the next one.
  void take_line() {
    size_t depth = 0;
    while (at_ < code_.size()) {
      const char sign = code_[at_];
      if (sign == '#') {
        take(std::min(code_.find('\n', at_), code_.size()) - at_);
      } else if (sign == '"' || sign == '\'') {
        take_string(sign);
      } else if (sign == '\\') {
        take(2);
      } else {
        if (std::string_view("([{").contains(sign)) ++depth;
        if (std::string_view(")]}").contains(sign) && depth > 0) --depth;
        take(1);
        if (sign == '\n' && depth == 0) return;
      }
    }
  }

  void take_string(char quote) {
    const bool is_long = code_.substr(at_).starts_with(std::string(3, quote));
    const std::string end(is_long ? 3 : 1, quote);
    take(end.size());
    while (at_ < code_.size() && !code_.substr(at_).starts_with(end)) {
      if (!is_long && code_[at_] == '\n') return;  // an error, which Python tells
      take(code_[at_] == '\\' ? 2 : 1);
    }
    take(end.size());
  }

  const std::string_view code_;
  size_t at_ = 0;
  PythonCell cell_;
};

}  // namespace

std::string without_indentation(std::string_view code) {
  std::string_view indentation;
  std::string lines;
  bool has_begun = false;
  for (size_t at = 0; at < code.size();) {
    std::string_view line = code.substr(at, std::min(code.find('\n', at), code.size() - 1) + 1 - at);
    at += line.size();
    if (!has_begun && !is_blank(line.substr(0, line.find('\n')))) {
      has_begun = true;
      indentation = line.substr(0, std::min(line.find_first_not_of(kBlanks), line.size()));
    }
    if (line.starts_with(indentation)) line.remove_prefix(indentation.size());
    const bool has_return = line.ends_with("\r\n");
    lines += has_return ? line.substr(0, line.size() - 2) : line;
    if (has_return) lines += '\n';
  }
  return lines;
}

PythonCell python_cell(std::string_view code) {
  const std::string cell = without_indentation(code);
  return Walk(cell).rewritten();
}

std::string code_for_commands() {
  return "exec(" + literal(kIpythonCommands) + ", {'__name__': 'ipython_commands'})";
}

}  // namespace membrane::service::e2b
