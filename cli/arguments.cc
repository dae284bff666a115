#include "cli/arguments.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/diagnostic.h"
#include "base/one_slip.h"

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

// Whether it is an option by which `membrane create` bounds or grants something.
bool is_of_policy(const CLI::App& app, const std::string& name) {
  const CLI::Option* const option = app.get_subcommand("create")->get_option_no_throw(name);
  return option != nullptr &&
         (name == "--dir" || option->get_group() == "Policy" || option->get_group().starts_with("Limits"));
}

// Programs have these options, and singulars and plurals of Membrane's.
bool is_usual_in_programs(std::string_view name, std::string_view of_membrane) {
  constexpr std::string_view kUsual[] = {"--all",  "--call",  "--content", "--dist", "--find",
                                         "--full", "--jsonl", "--long",    "--quit", "--reply",
                                         "--seed", "--slack", "--walk",    "--width"};
  const auto is_plural_of = [](std::string_view plural, std::string_view word) {
    return plural.ends_with('s') && plural.substr(0, plural.size() - 1) == word;
  };
  return std::ranges::find(kUsual, name) != std::end(kUsual) || is_plural_of(name, of_membrane) ||
         is_plural_of(of_membrane, name);
}

class Order {
 public:
  Order(const CLI::App& app, const CLI::App& command, size_t before)
      : app_(app),
        command_(command),
        text_option_(command.get_option_no_throw("--evaluate")),
        before_(before) {}

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
        return fail(ErrorCode::kInvalidArgument, words[i] + " needs a value, and none follows it",
                    "Write " + words[i] + " VALUE; membrane " + command_.get_name() +
                        " --help lists the options." +
                        (has_program() ? " " + advice_to_pass_on(up_to_program(), words[i]) : ""));
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
    if (written.option == nullptr) {
      MEMBRANE_TRY(check_not_of_policy(word));
      if (has_program()) {
        MEMBRANE_TRY(check_spelling(word));
        positionals_.push_back(word);
        return false;
      }
      if (unknown_.empty()) unknown_ = word.substr(0, word.find('='));
    }
    if (text_option_ != nullptr && written.option == text_option_) {
      if (positionals_.size() > before_) {
        if (!unknown_.empty())
          return std::unexpected(unknown_option());  // the program was meant as its value
        std::string words = "membrane " + command_.get_name();
        for (const std::string& each : positionals_) words += " " + each;
        return fail(
            ErrorCode::kInvalidArgument,
            word + " gives a program's text, and the program is " + positionals_[before_] + " already",
            "Write -- before the program's arguments: " + words + " -- " + word +
                " …; --env NAME=VALUE gives it a variable.");
      }
      has_text_ = true;
    }
    options_.push_back(word);  // the parser reports unknown ones
    return written.option != nullptr && !written.has_value && written.option->get_items_expected_max() > 0;
  }

  [[nodiscard]] bool has_program() const {
    return positionals_.size() >= before_ && (has_text_ || positionals_.size() > before_);
  }

  [[nodiscard]] Error unknown_option() const {
    const std::string hint = hint_for_option(command_, unknown_);
    return {ErrorCode::kInvalidArgument, "unknown option " + unknown_,
            hint + (hint.empty() ? "" : " ") + "\"membrane " + command_.get_name() +
                " --help\" lists the options."};
  }

  // A limit that `exec` would silently pass to the program.
  [[nodiscard]] Status check_not_of_policy(const std::string& word) const {
    const std::string name = word.substr(0, word.find('='));
    if (command_.get_name() != "exec" || !name.starts_with("--") || !is_of_policy(app_, name)) return {};
    return fail(ErrorCode::kInvalidArgument,
                "exec has no " + name + ": the sandbox's policy holds for all that it runs",
                (name == "--dir" ? std::string("membrane cp -r copies a directory into the sandbox.")
                                 : "membrane update " + (positionals_.empty() ? "ID" : positionals_.front()) +
                                       " " + name + " changes it, and --timeout bounds one exec.") +
                    " Write -- before options of the program's own.");
  }

  [[nodiscard]] Status check_spelling(const std::string& word) const {
    constexpr size_t kLeastLetters = 4;
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--")) return {};
    for (const std::string& known : options_of(command_)) {
      if (known.size() < 2 + kLeastLetters || !is_one_slip(name, known) || is_usual_in_programs(name, known))
        continue;
      return fail(ErrorCode::kInvalidArgument, "unknown option " + name,
                  "Did you mean " + known + "? " + advice_to_pass_on(up_to_program(), name));
    }
    return {};
  }

  // "membrane run x.py", "membrane exec ID -e …".
  [[nodiscard]] std::string up_to_program() const {
    std::string words = "membrane " + command_.get_name();
    for (size_t i = 0; i < before_ + (has_text_ ? 0 : 1) && i < positionals_.size(); ++i)
      words += " " + positionals_[i];
    return words + (has_text_ ? " -e …" : "");
  }

  const CLI::App& app_;
  const CLI::App& command_;
  const CLI::Option* text_option_;
  const size_t before_;
  std::vector<std::string> options_, positionals_;
  std::string unknown_;  // the first unknown option before the program; "" if none
  bool has_text_ = false;
};

}  // namespace

Result<std::vector<std::string>> order_arguments(const CLI::App& app, std::vector<std::string> words) {
  if (words.empty() || (words.front() != "run" && words.front() != "exec" && words.front() != "shell"))
    return words;
  const size_t before = words.front() == "exec" ? 1 : 0;  // the sandbox
  const CLI::App& command = *app.get_subcommand(words.front());
  MEMBRANE_ASSIGN(auto ordered, Order(app, command, before).of({words.begin() + 1, words.end()}));
  ordered.insert(ordered.begin(), std::move(words.front()));
  return ordered;
}

std::vector<std::string> with_own_verb(const CLI::App& app, std::vector<std::string> words) {
  constexpr std::string_view kListAlone[] = {"tokens",   "snapshots", "templates",
                                             "contexts", "execs",     "approvals"};
  if (words.size() < 2 || (words[1] != "ls" && words[1] != "list")) return words;
  if (std::ranges::find(kListAlone, words[0]) != std::end(kListAlone)) {
    words.erase(words.begin() + 1);
    return words;
  }
  const auto named = [](const CLI::App& of, const std::string& name) {
    return of.get_subcommands([&](const CLI::App* sub) { return sub->check_name(name); });
  };
  const auto groups = named(app, words[0]);
  for (const char* const verb : {"ls", "list"})
    if (!groups.empty() && !named(*groups.front(), verb).empty()) words[1] = verb;
  return words;
}

std::string advice_to_pass_on(const std::string& command, const std::string& option) {
  return "Write -- before options of the program's own: " + command + " -- " + option;
}

Error with_advice_to_pass_on(Error error, const std::string& command, const std::string& input_file) {
  const bool is_of_option = error.code == ErrorCode::kInvalidArgument && error.message.starts_with("--");
  const bool is_of_input = !input_file.empty() && error.message.starts_with("cannot open " + input_file);
  if ((!is_of_option && !is_of_input) || error.hint.contains("rite -- before")) return error;
  const std::string option =
      is_of_input ? "--input" : error.message.substr(0, error.message.find_first_of(" :"));
  const bool ends = error.hint.empty() || error.hint.ends_with('.');
  error.hint += (error.hint.empty() ? "" : ends ? " " : ". ") + advice_to_pass_on(command, option);
  return error;
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string option_meant_by(const CLI::App& command, const std::string& name) {
  constexpr std::pair<std::string_view, const char*> kOtherNames[] = {{"--language", "--lang"},
                                                                      {"--lang", "--language"},
                                                                      {"--timeout", "--wall"},
                                                                      {"--time", "--wall"},
                                                                      {"-c", "-e"},
                                                                      {"--code", "--evaluate"},
                                                                      {"--eval", "--evaluate"}};
  for (const auto& [other, meant] : kOtherNames)
    if (other == name && command.get_option_no_throw(meant) != nullptr) return meant;
  if (!name.starts_with("--")) return {};
  const std::vector<std::string> known = options_of(command);
  return std::string(nearest(name, {known.begin(), known.end()}));
}

std::string hint_for_option(const CLI::App& command, const std::string& name) {
  struct OfDocker {
    std::string_view names;  // separated by spaces
    const char* instead;     // only where the command has this option
    const char* hint;
  };
  constexpr OfDocker kOfDocker[] = {
      {" -v --volume --mount ", "--dir",
       "A directory is granted by --dir HOST:GUEST, with :ro at the end only for reading."},
      {" -it -ti -i --interactive ", "--tty",
       "-t gives a Linux command this terminal; input reaches every program."},
      {" --rm ", "--dir", "Leave it out: nothing of a sandbox stays after the program."},
      {" -p --publish --expose ", "--dir",
       "Leave it out: nothing connects to a sandbox from outside. --allow http:HOST lets it reach a host."},
      {" --network --net ", "--allow",
       "A host is granted by --allow http:HOST, and nothing else is reached."},
      {" -d --detach ", "--tty", "In a service: membrane create, and then membrane exec -d ID."},
      {" --env-file ", "--env", "Each variable is given by --env NAME=VALUE."},
      {" -m ", "--memory", "Write --memory SIZE."},
      {" --cpus ", "--cpu", "--cpu bounds the time of all processors together."},
  };
  for (const OfDocker& each : kOfDocker)
    if (each.names.contains(" " + name + " ") && command.get_option_no_throw(each.instead) != nullptr)
      return each.hint;
  const std::string meant = option_meant_by(command, name);
  return meant.empty() ? "" : "Did you mean " + meant + "?";
}

}  // namespace membrane::cli
