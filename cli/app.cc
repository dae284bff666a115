// All commands.

#include <algorithm>

#include "cli/cli.h"

namespace membrane::cli {
namespace {

// Aligns columns by characters: the parser's own formatter pads names to a number of bytes.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string text = CLI::Formatter::make_option(option, is_positional);
    const std::string name = make_option_name(option, is_positional) + make_option_opts(option);
    const auto hidden = static_cast<size_t>(
        std::ranges::count_if(name, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }));
    // A longer name has a line of its own.
    if (hidden != 0 && name.size() + kIndent < get_column_width())
      text.insert(get_column_width(), hidden, ' ');
    return text;
  }

 private:
  static constexpr size_t kIndent = 2;
};

}  // namespace

std::unique_ptr<CLI::App> make_app(int& exit_code, std::string_view first_word) {
  auto app = std::make_unique<CLI::App>(
      "Runs the programs that a language model writes, where they can do only what they were granted.",
      "membrane");
  app->formatter(std::make_shared<HelpFormatter>());
  app->require_subcommand(1);
  app->footer(
      "Examples:\n"
      "  membrane run module.wasm --invoke add 2 2\n"
      "  membrane run program.wat --allow 'http:GET:https://example.org/*' --fuel 1000000\n"
      "  membrane run tool.wasm --dir . --env LANG=C notes.txt\n"
      "  membrane thaw program.snap --fuel 1e9\n"
      "  membrane check program.wat --json\n"
      "  membrane agent \"Which of the papers on http://127.0.0.1:8000/ is newest?\" --policy policy.toml\n"
      "  membrane policy explain policy.toml\n"
      "  membrane run program.wat --seal run.receipt\n"
      "  membrane verify run.receipt\n\n"
      "Exit codes: 0 fine; 1 the program failed; 2 the request was denied, invalid or misspelt; 3 Membrane "
      "failed; 4 the program is frozen. A program that ends itself with a code of its own ends membrane run "
      "with "
      "it.\n"
      "Pages such as docs/policy.md are in docs of the source tree, and in share/doc/membrane of a release.");
  add_run(*app, exit_code);
  if (first_word == "run") return app;
  add_thaw(*app, exit_code);
  add_repl(*app, exit_code);
  add_languages(*app, exit_code);
  add_check(*app, exit_code);
  add_agent(*app, exit_code);
  add_mcp(*app, exit_code);
  add_policy(*app, exit_code);
  add_verify(*app, exit_code);
  add_replay(*app, exit_code);
  add_keys(*app, exit_code);
  add_capabilities(*app, exit_code);
  add_doctor(*app, exit_code);
  add_serve(*app, exit_code);
  add_image(*app, exit_code);
  add_shell(*app, exit_code);
  add_remote(*app, exit_code);
  add_audit(*app, exit_code);
  add_spectest(*app, exit_code);
  add_completion(*app);
  return app;
}

}  // namespace membrane::cli
