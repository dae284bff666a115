// membrane capabilities: what a program can ask of its host.

#include "cli/cli.h"
#include "host/registry.h"

namespace membrane::cli {

namespace {

struct Options {
  std::string name;
  bool json = false, prompt = false, markdown = false;
};

Result<std::string> text_of(const Options& options) {
  if (options.markdown) return host::capabilities_markdown();
  host::Selection selection;
  if (!options.name.empty()) {
    MEMBRANE_ASSIGN(selection, host::select(options.name));
  }
  if (options.json) return host::capabilities_json(selection) + "\n";
  return options.prompt ? host::capabilities_prompt(selection) : host::capabilities_text(selection);
}

}  // namespace

void add_capabilities(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(
      "capabilities", "List the host functions: signature, what each does, an example, its errors");
  CLI::Option* const name =
      command->add_option("name", options->name, "Only this capability (http), or this function (http.get)")
          ->type_name("NAME");
  CLI::Option* const json = command->add_flag("--json", options->json, "As one JSON object");
  CLI::Option* const prompt =
      command->add_flag("--prompt", options->prompt, "As a model's system prompt has them");
  CLI::Option* const markdown =
      command->add_flag("--markdown", options->markdown, "As the page docs/capabilities.md");
  json->excludes(prompt)->excludes(markdown);
  prompt->excludes(markdown);
  markdown->excludes(name);
  command->footer(
      "Examples:\n"
      "  membrane capabilities | less\n"
      "  membrane capabilities http.get\n"
      "  membrane capabilities --json > capabilities.json");
  command->callback([options, &exit_code] {
    const Result<std::string> text = text_of(*options);
    if (text) print(*text);
    else exit_code = complain(text.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
}

}  // namespace membrane::cli
