// membrane capabilities: the functions that a program can call, and what this machine supports.

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "engine/native/compiler.h"
#include "host/files/beneath.h"
#include "host/registry.h"

namespace membrane::cli {

namespace {

struct Options {
  std::string name;
  bool json = false, prompt = false, markdown = false, machine = false;
};

// How granted files are opened here, and whether programs are compiled.
std::string machine_text(bool as_json) {
  const bool opens_files = host::check_kernel().has_value();
  const bool by_kernel = host::path_resolution() == host::PathResolution::kOpenat2;
  const std::string_view files = opens_files ? host::name_of(host::path_resolution()) : "none";
  const bool compiles = engine::native::machine_is_supported();
  if (as_json)
    return nlohmann::ordered_json{{"machine", {{"files", files}, {"compiler", compiles}}}}.dump(2) + "\n";
  std::string text = "files     ";
  text += files;
  text +=
      !opens_files ? ": this machine has no openat2, and does not report the mount of a file; a policy that "
                     "grants files is refused\n"
      : by_kernel  ? ": the kernel keeps paths beneath a granted directory\n"
                  : ": there is no openat2 here (Linux 5.6), so paths are followed one component at a time\n";
  text += "compiler  ";
  text += compiles
              ? "yes: code that uses much fuel becomes machine code\n"
              : "no: the interpreter runs everything; the compiler needs x86-64 with AVX2, FMA and BMI2\n";
  return text;
}

Result<std::string> text_of(const Options& options) {
  if (options.markdown) return host::capabilities_markdown();
  if (options.machine) return machine_text(options.json);
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
      command->add_flag("--prompt", options->prompt, "In the form of a model's system prompt");
  CLI::Option* const markdown =
      command->add_flag("--markdown", options->markdown, "In the form of the page docs/capabilities.md");
  CLI::Option* const machine =
      command->add_flag("--machine", options->machine,
                        "What this machine supports: how granted files are opened, whether code is compiled");
  json->excludes(prompt)->excludes(markdown);
  prompt->excludes(markdown);
  markdown->excludes(name);
  machine->excludes(name)->excludes(prompt)->excludes(markdown);
  command->footer(
      "Examples:\n"
      "  membrane capabilities | less\n"
      "  membrane capabilities http.get\n"
      "  membrane capabilities --json > capabilities.json\n"
      "  membrane capabilities --machine");
  command->callback([options, &exit_code] {
    const Result<std::string> text = text_of(*options);
    if (text) print(*text);
    else exit_code = complain(text.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
}

}  // namespace membrane::cli
