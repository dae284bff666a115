// membrane languages: lists the installed languages, and adds one: Python and JavaScript from their
// registries, any WASI command that reads code, or another language that has already run something.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/terminal.h"
#include "cli/cli.h"
#include "cli/fetch_language.h"
#include "lang/package_install.h"
#include "sandbox/session/language_templates.h"

namespace membrane::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string name;
  std::string module, from;
  std::string version;
  std::string driver = "stdin";
  std::string frame = "text";
  std::vector<std::string> arguments, environment, files, directories, extensions, imports, warm;
  std::string init;
  std::optional<std::string> end;
  std::string tier = "auto";
  bool json = false;
};

// "LEFT=RIGHT", with both. Errors: kInvalidArgument.
Result<std::pair<std::string, std::string>> pair_of(const char* option, const std::string& text) {
  const size_t at = text.find('=');
  if (at != std::string::npos && at != 0) return std::pair(text.substr(0, at), text.substr(at + 1));
  return fail(
      ErrorCode::kInvalidArgument, std::string(option) + " " + text + " has no \"=\" in it",
      std::string("Write it as ") + (option == std::string_view("--env") ? "NAME=VALUE." : "GUEST=PATH."));
}

Result<lang::Package> package_of(const Options& options) {
  lang::Package package;
  package.name = options.name;
  package.version = options.version;
  MEMBRANE_ASSIGN(package.driver, lang::driver_of(options.driver));
  MEMBRANE_ASSIGN(package.frame, lang::frame_of(options.frame));
  package.module.path = options.module;
  package.arguments = {options.name};
  package.arguments.insert(package.arguments.end(), options.arguments.begin(), options.arguments.end());
  package.extensions = options.extensions;
  package.init = options.init;
  if (package.driver == lang::Driver::kStdin)
    package.end = options.end.value_or(package.frame == lang::Frame::kText ? "\n" : "");
  for (const std::string& variable : options.environment) {
    MEMBRANE_ASSIGN(auto pair, pair_of("--env", variable));
    package.environment.push_back(std::move(pair));
  }
  for (const std::string& file : options.files) {
    MEMBRANE_ASSIGN(auto pair, pair_of("--file", file));
    package.files.push_back({std::move(pair.first), std::move(pair.second), {}});
  }
  for (const std::string& directory : options.directories) {
    MEMBRANE_ASSIGN(const auto pair, pair_of("--directory", directory));
    MEMBRANE_ASSIGN(auto files, lang::files_below(pair.first, pair.second));
    std::ranges::move(files, std::back_inserter(package.files));
  }
  return package;
}

uint64_t bytes_of(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

using Modules = std::vector<std::string>;

// The plain image, which has none, then those of package.warm.
std::vector<Modules> lists_of_images(const lang::Package& package) {
  std::vector<Modules> lists = {{}};
  lists.insert(lists.end(), package.warm.begin(), package.warm.end());
  return lists;
}

// The digest of its warm image: "" when there is none.
std::string image_of(const lang::Package& package, const Modules& modules) {
  const auto path =
      sandbox::Template::image_file(package, sandbox::LanguageTemplates::default_cache_directory(), modules);
  return path && bytes_of(*path) != 0 ? *path : "";
}

Json json_of(const lang::Package& package) {
  Json images = Json::array();
  for (const Modules& modules : lists_of_images(package)) {
    const std::string path = image_of(package, modules);
    Json image = {{"modules", modules}, {"path", nullptr}, {"bytes", bytes_of(path)}};
    if (!path.empty()) image["path"] = path;
    images.push_back(std::move(image));
  }
  return {{"name", package.name},
          {"version", package.version},
          {"driver", lang::name_of(package.driver)},
          {"directory", package.directory},
          {"module_bytes", bytes_of(package.module.path)},
          {"files", package.files.size()},
          {"extensions", package.extensions},
          {"warm_images", images}};
}

std::string mebibytes(uint64_t bytes) {
  constexpr uint64_t kTenth = (1u << 20) / 10;
  const uint64_t tenths = (bytes + kTenth / 2) / kTenth;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

std::string sentence_of_image(const lang::Package& package, const Modules& modules) {
  const std::string image = image_of(package, modules);
  return image.empty() ? "not warm yet" : "warm, " + mebibytes(bytes_of(image));
}

// "pandas, scipy.stats and 20 more"
std::string words_of(const Modules& modules) {
  constexpr size_t kShown = 4;
  std::string words;
  for (size_t i = 0; i < std::min(modules.size(), kShown); ++i) words += (i == 0 ? "" : ", ") + modules[i];
  return modules.size() <= kShown ? words
                                  : words + " and " + std::to_string(modules.size() - kShown) + " more";
}

std::string lines_of(const lang::Package& package) {
  std::string lines = printable_line(package.name + "  " + (package.version.empty() ? "-" : package.version) +
                                     "  " + std::string(lang::name_of(package.driver)) + "  " +
                                     package.directory + "  " + sentence_of_image(package, {})) +
                      "\n";
  for (const Modules& modules : package.warm)
    lines += "  with " + words_of(modules) + ": " + sentence_of_image(package, modules) + "\n";
  return lines;
}

Result<int> list(const Options& options) {
  const std::vector<lang::Package> packages = lang::installed_packages();
  if (options.json) {
    Json all = Json::array();
    for (const lang::Package& package : packages) all.push_back(json_of(package));
    print_json(Json{{"languages", all}});
    return kExitOk;
  }
  if (packages.empty())
    print(
        stderr,
        "No language is installed. Python and JavaScript: membrane languages add python, membrane languages "
        "add js\n");
  for (const lang::Package& package : packages) print(stdout, lines_of(package));
  return kExitOk;
}

// A copy of another language, which runs more code when its warm image is made.
Result<lang::Package> package_from(const Options& options) {
  MEMBRANE_ASSIGN(lang::Package package, lang::find_package(options.from));
  package.name = options.name;
  package.extensions.clear();  // file names select the other language
  package.warm.clear();        // it has its own modules, and one image
  if (!package.init.empty()) package.init += "\n";
  for (const std::string& name : options.imports) {
    if (package.driver != lang::Driver::kPython)
      return fail(ErrorCode::kInvalidArgument,
                  "--import is for Python, and " + options.from + " is not Python",
                  "Pass the code to run with --init.");
    if (!lang::is_module_name(name))
      return fail(ErrorCode::kInvalidArgument, "\"" + name + "\" is not a module name",
                  "Write it as pandas or scipy.stats.");
    package.init += "__import__(\"" + name + "\")\n";
  }
  package.init += options.init;
  return package;
}

// All of its initial images.
Status make_images(const lang::Package& package, engine::Tier tier) {
  sandbox::TemplateOptions options = template_options(tier);
  for (const Modules& modules : lists_of_images(package)) {
    MEMBRANE_TRY(sandbox::Template::open(package, options, modules));
  }
  return {};
}

void show(const lang::Package& package, bool json) {
  if (json) print_json(json_of(package));
  else print(lines_of(package));
}

// Installs it from a registry, with its warm image, so that its first use is as quick as any other.
Result<int> fetch(const Options& options) {
  if (!is_fetched(options.name))
    return fail(ErrorCode::kInvalidArgument, "no module was named for " + options.name,
                "Name it: membrane languages add " + options.name +
                    " module.wasm. Only python and js come from a registry.");
  if (!options.warm.empty() && options.name != "python")
    return fail(ErrorCode::kInvalidArgument, "--warm is for Python, and " + options.name + " is not Python",
                "Remove it.");
  MEMBRANE_TRY(fetch_language(options.name, options.warm));
  MEMBRANE_ASSIGN(const lang::Package package, lang::find_package(options.name));
  MEMBRANE_TRY(make_images(package, engine::Tier::kAuto));
  show(package, options.json);
  return kExitOk;
}

Result<int> add(const Options& options) {
  if (options.module.empty() && options.from.empty()) return fetch(options);
  if (!options.warm.empty())
    return fail(ErrorCode::kInvalidArgument, "--warm is for Python from its registry",
                "To run code in advance: --init, or membrane languages extend.");
  MEMBRANE_ASSIGN(const lang::Package wanted,
                  options.from.empty() ? package_of(options) : package_from(options));
  MEMBRANE_ASSIGN(const lang::Package package, lang::install_package(wanted));
  if (options.json) print_json(json_of(package));
  else
    print("added " + package.name + " in " + package.directory +
          "; its first use makes its warm image, or: membrane languages warm " + package.name + "\n");
  return kExitOk;
}

Result<int> remove(const Options& options) {
  MEMBRANE_ASSIGN(const std::string directory, lang::remove_package(options.name));
  const size_t images =
      sandbox::Template::forget_images(options.name, sandbox::LanguageTemplates::default_cache_directory());
  if (options.json) print_json(Json{{"name", options.name}, {"removed_images", images}});
  else print("removed " + directory + "\n");
  return kExitOk;
}

Result<int> warm(const Options& options) {
  MEMBRANE_ASSIGN(const engine::Tier tier, tier_of(options.tier));
  MEMBRANE_ASSIGN(const lang::Package package, lang::find_package(options.name));
  const bool was_warm = std::ranges::none_of(
      lists_of_images(package), [&](const Modules& modules) { return image_of(package, modules).empty(); });
  MEMBRANE_TRY(make_images(package, tier));
  if (!options.json) return print(lines_of(package)), kExitOk;
  Json object = json_of(package);
  object["was_warm"] = was_warm;
  print_json(object);
  return kExitOk;
}

void set_callback(CLI::App* command, std::shared_ptr<Options> options, int& exit_code,
                  Result<int> (*act)(const Options&)) {
  command->add_flag("--json", options->json, "As one JSON object");
  command->callback([options = std::move(options), act, &exit_code] {
    const Result<int> code = act(*options);
    exit_code = code ? *code : complain(code.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
}

// An option that may be repeated, with one value each time.
void add_list(CLI::App* command, const char* name, std::vector<std::string>& to, const char* type,
              const char* help) {
  add_repeatable(*command, name, to, help)->type_name(type);
}

void add_add(CLI::App* group, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = group->add_subcommand(
      "add", "Add a language: python or js from a registry, or a module, which is copied with what it needs");
  command->add_option("name", options->name, "Its name")->type_name("NAME")->required();
  command
      ->add_option("module", options->module,
                   "A WASI command that reads code from standard input; none for python and js")
      ->type_name("FILE");
  add_list(
      command, "--warm", options->warm, "MODULE,…",
      "Of python: modules that a warm image has imported; once more for another image; \"none\" for none "
      "(default: those that it has, else pandas, matplotlib, scikit-learn and others)");
  command->add_option("--version", options->version, "Said by list")->type_name("TEXT");
  command
      ->add_option("--driver", options->driver,
                   "How it receives code: stdin, python or quickjs (default: stdin)")
      ->type_name("DRIVER");
  command
      ->add_option(
          "--frame", options->frame,
          "How stdin is given code: text, length, door; eof for a program that reads its input to the "
          "end, and is started for each turn (default: text; docs/languages.md)")
      ->type_name("FRAME");
  add_list(command, "--arg", options->arguments, "TEXT",
           "An argument of the program; write --arg=-x for one with a dash");
  add_list(command, "--env", options->environment, "NAME=VALUE", "An environment variable");
  add_list(command, "--file", options->files, "GUEST=PATH", "A file for it, at GUEST");
  add_list(command, "--directory", options->directories, "GUEST=PATH",
           "All files of a directory, below GUEST");
  add_list(command, "--extension", options->extensions, ".EXT", "The file extension of its programs");
  command->add_option("--init", options->init, "Code that is run once, before the warm image is made")
      ->type_name("TEXT");
  command
      ->add_option("--end", options->end,
                   "Text written after each piece of code (default: a newline; with eof, nothing)")
      ->type_name("TEXT");
  command->footer(
      "Examples:\n"
      "  membrane languages add python\n"
      "  membrane languages add python --warm pandas,matplotlib.pyplot --warm sympy\n"
      "  membrane languages add calc calc.wasm --extension .calc\n"
      "  membrane run program.calc\n"
      "  membrane run --lang calc -e '1+1'\n"
      "  membrane repl --lang calc\n"
      "  membrane languages add sqlite sqlite3.wasm --arg=-batch --extension .sql\n"
      "  membrane languages add ruby ruby.wasm --file /driver.rb=driver.rb --arg /driver.rb --frame door "
      "--extension .rb\n"
      "  membrane languages add sort sort.wasm --frame eof\n"
      "Exit codes: 0 added; 2 not: wrong usage, or an invalid module; 3 Membrane failed.");
  set_callback(command, options, exit_code, add);
}

void add_extend(CLI::App* group, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = group->add_subcommand(
      "extend", "Add a copy of a language that has already imported modules or run code");
  command->add_option("name", options->name, "Its name")->type_name("NAME")->required();
  command->add_option("from", options->from, "The language to copy")->type_name("LANGUAGE")->required();
  add_list(command, "--import", options->imports, "MODULE", "An installed Python module, such as pandas");
  command->add_option("--init", options->init, "Code that is run once, before the warm image is made")
      ->type_name("TEXT");
  command->footer(
      "Examples:\n"
      "  membrane languages extend data python --import pandas --import numpy\n"
      "  membrane run --lang data -e 'import pandas; pandas.__version__'\n"
      "Exit codes: those of membrane languages add.");
  set_callback(command, options, exit_code, add);
}

CLI::App* add_named(CLI::App* group, const char* name, const char* help, int& exit_code,
                    Result<int> (*act)(const Options&)) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = group->add_subcommand(name, help);
  command->add_option("name", options->name, "The language")->type_name("NAME")->required();
  if (act == warm)
    command->add_option("--tier", options->tier, "What runs the code: interpreter, compiler, or auto")
        ->type_name("TIER");
  set_callback(command, options, exit_code, act);
  return command;
}

}  // namespace

void add_languages(CLI::App& app, int& exit_code) {
  CLI::App* const group = app.add_subcommand(
      "languages", "Languages: list them; add Python, JavaScript, or any WASI command as one");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n"
      "  membrane languages add python\n"
      "  membrane languages list\n"
      "  membrane languages add calc calc.wasm --extension .calc");
  CLI::App* const all =
      group->add_subcommand("list", "What is installed: name, version, driver, where, warm image");
  set_callback(all, std::make_shared<Options>(), exit_code, list);
  all->footer("Examples:\n  membrane languages list\n  membrane languages list --json");
  add_add(group, exit_code);
  add_extend(group, exit_code);
  add_named(group, "remove", "Remove an added language and its warm images", exit_code, remove)
      ->footer("Examples:\n  membrane languages remove calc");
  add_named(group, "warm", "Make its warm images now instead of at the first use", exit_code, warm)
      ->footer("Examples:\n  membrane languages warm calc\n  membrane languages warm python --json");
}

}  // namespace membrane::cli
