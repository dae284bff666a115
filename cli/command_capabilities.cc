// membrane capabilities: what a program can ask of its host.

#include "cli/cli.h"
#include "host/registry.h"

namespace membrane::cli {

void add_capabilities(CLI::App& app, int&) {
  struct Options {
    bool json = false, prompt = false, markdown = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(
      "capabilities", "List the host functions: signature, what each does, an example, its errors");
  CLI::Option* const json = command->add_flag("--json", options->json, "As one JSON object");
  CLI::Option* const prompt =
      command->add_flag("--prompt", options->prompt, "As a model's system prompt has them");
  CLI::Option* const markdown =
      command->add_flag("--markdown", options->markdown, "As the reference page (the default)");
  json->excludes(prompt)->excludes(markdown);
  prompt->excludes(markdown);
  command->footer(
      "Examples:\n"
      "  membrane capabilities | less\n"
      "  membrane capabilities --json > capabilities.json");
  command->callback([options] {
    if (options->json) print(host::capabilities_json() + "\n");
    else if (options->prompt) print(host::capabilities_prompt());
    else print(host::capabilities_markdown());
  });
}

}  // namespace membrane::cli
