// membrane completion, membrane man: shell completions and the manual page, generated from the commands
// themselves.

#include <functional>

#include "cli/cli.h"

namespace membrane::cli {
namespace {

// A command with its path: "languages add", "" for membrane itself.
struct Command {
  std::string path;
  const CLI::App* app;
};

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->nonpositional(); });
}

std::vector<Command> all_commands(const CLI::App& root) {
  std::vector<Command> all = {{"", &root}};
  for (size_t i = 0; i < all.size(); ++i) {
    const Command command = all[i];
    for (const CLI::App* const sub : subcommands_of(*command.app))
      all.push_back({command.path + (command.path.empty() ? "" : " ") + sub->get_name(), sub});
  }
  return all;
}

// "--fuel", or "-q" if there is no long name.
std::string name_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? "-" + option.get_snames().front() : "--" + option.get_lnames().front();
}

std::string words_of(const CLI::App& app) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
  for (const CLI::App* const sub : subcommands_of(app)) add(sub->get_name());
  for (const CLI::Option* const option : options_of(app)) add(name_of(*option));
  return words;
}

// In single quotes, for any shell.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += "'\\''";
    else out += c;
  }
  return out + "'";
}

// "run|thaw|languages add": the commands that the words before the cursor may name.
std::string paths_of(const std::vector<Command>& commands) {
  std::string patterns;
  for (const Command& command : commands)
    if (!command.path.empty())
      patterns += (patterns.empty() ? "" : "|") +
                  in_quotes((command.path.find(' ') == std::string::npos ? " " : "") + command.path);
  return patterns;
}

std::string for_bash(const std::vector<Command>& commands) {
  std::string out =
      "# Completion of membrane for bash: source it, or put it into bash-completion's directory.\n"
      "_membrane() {\n"
      "  local path='' words='' i word=${COMP_WORDS[COMP_CWORD]}\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"$path ${COMP_WORDS[i]}\" in\n"
      "      " +
      paths_of(commands) +
      ") path=\"${path:+$path }${COMP_WORDS[i]}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$path\" in\n";
  for (const Command& command : commands)
    out += "    " + in_quotes(command.path) + ") words=" + in_quotes(words_of(*command.app)) + " ;;\n";
  return out +
         "  esac\n"
         "  local IFS=$' \\t\\n'\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "  if [[ ${#COMPREPLY[@]} -eq 0 && $word != -* ]]; then\n"
         "    IFS=$'\\n'\n"
         "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _membrane membrane\n";
}

// The format of _describe: colons in the word are escaped, and a colon precedes the description.
std::string described(const std::string& word, const std::string& description) {
  return "      " + in_quotes(word + ":" + description) + "\n";
}

std::string for_zsh(const std::vector<Command>& commands) {
  std::string out =
      "#compdef membrane\n"
      "# Completion of membrane for zsh: a file _membrane in a directory of $fpath.\n"
      "_membrane() {\n"
      "  local path_of_words='' i\n"
      "  local -a candidates\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    case \"$path_of_words ${words[i]}\" in\n"
      "      (" +
      paths_of(commands) +
      ") path_of_words=\"${path_of_words:+$path_of_words }${words[i]}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$path_of_words\" in\n";
  for (const Command& command : commands) {
    out += "    (" + in_quotes(command.path) + ") candidates=(\n";
    for (const CLI::App* const sub : subcommands_of(*command.app))
      out += described(sub->get_name(), sub->get_description());
    for (const CLI::Option* const option : options_of(*command.app))
      out += described(name_of(*option), option->get_description());
    out += "    ) ;;\n";
  }
  return out +
         "  esac\n"
         "  _describe membrane candidates\n"
         "  [[ ${words[CURRENT]} == -* ]] || _files\n"
         "}\n"
         "_membrane \"$@\"\n";
}

std::string for_fish(const std::vector<Command>& commands) {
  std::string out = "# Completion of membrane for fish: a file membrane.fish among its completions.\n";
  for (const Command& command : commands) {
    std::string condition;
    for (size_t at = 0; at < command.path.size();) {
      const size_t end = std::min(command.path.find(' ', at), command.path.size());
      condition += (condition.empty() ? "" : "; and ") +
                   ("__fish_seen_subcommand_from " + command.path.substr(at, end - at));
      at = end + 1;
    }
    if (condition.empty()) condition = "__fish_use_subcommand";
    const std::string begin = "complete -c membrane -n " + in_quotes(condition);
    for (const CLI::App* const sub : subcommands_of(*command.app))
      out +=
          begin + " -f -a " + in_quotes(sub->get_name()) + " -d " + in_quotes(sub->get_description()) + "\n";
    for (const CLI::Option* const option : options_of(*command.app)) {
      const bool is_long = !option->get_lnames().empty();
      out += begin +
             (is_long ? " -l " + option->get_lnames().front() : " -s " + option->get_snames().front()) +
             (option->get_items_expected_max() > 0 ? " -r" : "") + " -d " +
             in_quotes(option->get_description()) + "\n";
    }
  }
  return out;
}

// Text for roff: escaped so that no line is a request.
std::string roff(std::string_view text) {
  std::string out;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else out += c;
    begins_line = c == '\n';
  }
  return out;
}

std::string manual(const std::vector<Command>& commands) {
  const CLI::App& root = *commands.front().app;
  std::string out = ".TH MEMBRANE 1 \"\" \"" + root.version() + "\"\n.SH NAME\nmembrane \\- " +
                    roff("runs programs of language models where they can do only what they were granted") +
                    "\n.SH SYNOPSIS\n.B membrane\n.I COMMAND\n[options]\n";
  for (const Command& command : commands) {
    out += command.path.empty() ? ".SH DESCRIPTION\n" : ".SH " + roff("membrane " + command.path) + "\n";
    out += roff(command.app->get_description()) + "\n";
    for (const CLI::Option* const option : command.app->get_options()) {
      out += ".TP\n.B " + roff(option->get_name(!option->nonpositional(), true));
      if (const std::string type = option->get_type_name(); !type.empty() && option->nonpositional())
        out += " " + roff(type);
      out += "\n" + roff(option->get_description()) + "\n";
    }
    if (const std::string footer = command.app->get_footer(); !footer.empty())
      out += ".PP\n.nf\n" + roff(footer) + "\n.fi\n";
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& app) {
  struct Shell {
    const char* name;
    std::string (*text)(const std::vector<Command>&);
  };
  static constexpr Shell kShells[] = {{"bash", for_bash}, {"zsh", for_zsh}, {"fish", for_fish}};
  CLI::App* const group =
      app.add_subcommand("completion", "Print a script that completes membrane's words in a shell");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n"
      "  mkdir -p ~/.local/share/bash-completion/completions ~/.config/fish/completions ~/.zfunc\n"
      "  membrane completion bash > ~/.local/share/bash-completion/completions/membrane\n"
      "  membrane completion fish > ~/.config/fish/completions/membrane.fish\n"
      "  membrane completion zsh > ~/.zfunc/_membrane\n"
      "For zsh, ~/.zshrc must say fpath+=(~/.zfunc) before compinit.\n"
      "make install installs all three, and the manual page.");
  for (const Shell& shell : kShells) {
    CLI::App* const command = group->add_subcommand(shell.name, std::string("For ") + shell.name);
    command->footer(std::string("Examples:\n  membrane completion ") + shell.name);
    command->callback([&app, text = shell.text] { print(text(all_commands(app))); });
  }
  CLI::App* const man = app.add_subcommand("man", "Print the manual page, for man(1)");
  man->footer("Examples:\n  membrane man | man -l -");
  man->callback([&app] { print(manual(all_commands(app))); });
}

}  // namespace membrane::cli
