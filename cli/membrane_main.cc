// membrane: runs the programs that a language model writes, inside a wall.

#include "cli/cli.h"

int main(int argc, char** argv) {
  using namespace membrane::cli;
  CLI::App app("Runs the programs that a language model writes, where they can do only what they were granted.",
               "membrane");
  app.set_version_flag("--version", "membrane " MEMBRANE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  membrane run module.wasm --invoke add 2 2\n"
      "  membrane run program.wat --allow 'http:GET:https://example.org/*' --fuel 1000000\n"
      "  membrane check program.wat --json\n"
      "  membrane agent \"Which of the papers on http://127.0.0.1:8000/ is newest?\" --policy policy.toml\n"
      "  membrane policy explain policy.toml\n\n"
      "Exit codes: 0 fine; 1 the program failed; 2 the request was denied, invalid or misspelt; 3 Membrane failed.");
  int exit_code = kExitOk;
  add_run(app, exit_code);
  add_check(app, exit_code);
  add_agent(app, exit_code);
  add_policy(app, exit_code);
  add_capabilities(app, exit_code);
  add_spectest(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitRequest;
  }
  return exit_code;
}
