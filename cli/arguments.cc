#include "cli/arguments.h"

#include <algorithm>
#include <cctype>

#include "base/diagnostic.h"

namespace membrane::cli {
namespace {

// "-1" and "-.5" are numbers, "-" is standard input.
bool looks_like_option(const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return false;
  return std::isdigit(static_cast<unsigned char>(word[1])) == 0 && word[1] != '.';
}

// An option as it was written.
struct Written {
  const CLI::Option* option = nullptr;  // null: the command has no such option
  bool has_value = false;               // in the same word: --fuel=3, -eTEXT
};

Written find_option(const CLI::App& command, const std::string& word) {
  if (word.starts_with("--")) {
    const size_t equals = word.find('=');
    return {command.get_option_no_throw(word.substr(0, equals)), equals != std::string::npos};
  }
  return {command.get_option_no_throw(word.substr(0, 2)), word.size() > 2};
}

class Order {
 public:
  Order(const CLI::App& command, const CLI::Option* text_option, size_t before)
      : command_(command), text_option_(text_option), before_(before) {}

  Result<std::vector<std::string>> of(const std::vector<std::string>& words) {
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "--") {
        positionals_.insert(positionals_.end(), words.begin() + static_cast<ptrdiff_t>(i) + 1, words.end());
        break;
      }
      if (!looks_like_option(words[i])) {
        positionals_.push_back(words[i]);
        continue;
      }
      MEMBRANE_ASSIGN(const bool takes_next, take_option(words[i]));
      if (!takes_next) continue;
      if (i + 1 == words.size() || words[i + 1] == "--")
        return fail(
            ErrorCode::kInvalidArgument, words[i] + " needs a value, and none follows it",
            "Write " + words[i] + " VALUE; membrane " + command_.get_name() + " --help lists the options.");
      options_.push_back(words[++i]);
    }
    options_.emplace_back("--");
    options_.insert(options_.end(), positionals_.begin(), positionals_.end());
    return std::move(options_);
  }

 private:
  // Whether the next word is its value.
  Result<bool> take_option(const std::string& word) {
    const Written written = find_option(command_, word);
    if (written.option == nullptr && has_program()) {
      MEMBRANE_TRY(check_spelling(word));
      positionals_.push_back(word);
      return false;
    }
    if (text_option_ != nullptr && written.option == text_option_) {
      if (positionals_.size() > before_) {
        std::string words = "membrane " + command_.get_name();
        for (const std::string& each : positionals_) words += " " + each;
        return fail(
            ErrorCode::kInvalidArgument,
            word + " gives a program's text, and the program is " + positionals_[before_] + " already",
            "Write -- before the program's arguments: " + words + " -- " + word + " …");
      }
      has_text_ = true;
    }
    options_.push_back(word);  // the parser reports unknown ones
    return written.option != nullptr && !written.has_value && written.option->get_items_expected_max() > 0;
  }

  [[nodiscard]] bool has_program() const {
    return positionals_.size() >= before_ && (has_text_ || positionals_.size() > before_);
  }

  [[nodiscard]] Status check_spelling(const std::string& word) const {
    const std::string name = word.substr(0, word.find('='));
    const std::vector<std::string> known = options_of(command_);
    const std::string_view near =
        name.starts_with("--") ? nearest(name, {known.begin(), known.end()}) : std::string_view();
    if (near.empty()) return {};
    return fail(ErrorCode::kInvalidArgument, "unknown option " + name,
                "Did you mean " + std::string(near) + "? Write -- before " + name +
                    " if it belongs to the program: everything after -- does.");
  }

  const CLI::App& command_;
  const CLI::Option* text_option_;
  const size_t before_;
  std::vector<std::string> options_, positionals_;
  bool has_text_ = false;
};

}  // namespace

Result<std::vector<std::string>> order_arguments(const CLI::App& app, std::vector<std::string> words) {
  if (words.empty() || (words.front() != "run" && words.front() != "exec" && words.front() != "shell"))
    return words;
  const size_t before = words.front() == "exec" ? 1 : 0;  // the sandbox
  const CLI::App& command = *app.get_subcommand(words.front());
  MEMBRANE_ASSIGN(
      auto ordered,
      Order(command, command.get_option_no_throw("--evaluate"), before).of({words.begin() + 1, words.end()}));
  ordered.insert(ordered.begin(), std::move(words.front()));
  return ordered;
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

}  // namespace membrane::cli
