// membrane check: what is wrong with a program, before it runs.

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/stop_scope.h"
#include "base/terminal.h"
#include "cli/cli.h"
#include "host/link.h"
#include "lang/language.h"
#include "lang/wat/preprocessor.h"
#include "policy/policy.h"
#include "sandbox/wasi_calls.h"
#include "wasm/text/printer.h"
#include "wasm/validate.h"

namespace membrane::cli {
namespace {

constexpr uint64_t kMaxProgramBytes = 1u << 30;

struct Options {
  std::string file;
  std::string wall = "60s";
  bool json = false;
  bool expand = false;
};

// Everything that is found out about a program without running it.
std::vector<Diagnostic> check(const std::string& source, const std::string& name) {
  auto loaded = lang::load_program(source, lang::Language::kAuto, name);
  if (!loaded) return loaded.error();
  if (auto valid = wasm::validate(loaded->module, loaded->text()); !valid)
    return {loaded->to_author(valid.error())};
  const auto is_of_wasi = [](const wasm::Import& import) { return sandbox::find_wasi(import) != nullptr; };
  if (auto linkage = host::link_imports(loaded->module, is_of_wasi); !linkage) return linkage.error();
  return {};
}

nlohmann::ordered_json json_of(const Diagnostic& d) {
  nlohmann::ordered_json j;
  j["code"] = name_of(d.code);
  j["message"] = d.message;
  j["line"] = d.place.line;
  j["column"] = d.place.column;
  j["offset"] = d.place.offset;
  j["end_offset"] = d.place.end_offset;
  j["function"] = d.function;
  j["expected"] = d.expected;
  j["found"] = d.found;
  j["hint"] = hint_of(d);
  return j;
}

int show_findings(const std::vector<Diagnostic>& findings, const Options& options, const std::string& source,
                  const std::string& name) {
  if (options.json) {
    nlohmann::ordered_json j;
    j["file"] = name;
    j["ok"] = findings.empty();
    j["diagnostics"] = nlohmann::ordered_json::array();
    for (const Diagnostic& d : findings) j["diagnostics"].push_back(json_of(d));
    print_json(j);
  } else {
    for (const Diagnostic& d : findings) print(printable(render(d, source, name)));
    if (findings.empty()) print(name + ": no errors\n");
  }
  return findings.empty() ? kExitOk : kExitRequest;
}

// Plain WAT: of a text, its expansion; of a binary, what it disassembles to.
Result<std::string> plain_text(const std::string& source, const std::string& name) {
  if (lang::detect(source) == lang::Language::kWasm) {
    auto loaded = lang::load_program(source, lang::Language::kWasm, name);
    if (!loaded) return fail(ErrorCode::kInvalidInput, loaded.error().front().message);
    return wasm::print_text(loaded->module);
  }
  auto expansion = lang::expand(source, lang::host_functions());
  if (!expansion) return fail(ErrorCode::kInvalidInput, expansion.error().front().message);
  return std::string(expansion->text_or(source));
}

Error out_of_time(const Options& options) {
  return {ErrorCode::kTimedOut, "checking the program took longer than its time of " + options.wall,
          "Make the program smaller, or give it more time with --wall."};
}

Result<int> run(const Options& options) {
  policy::Limits limits;
  MEMBRANE_TRY(policy::set_limit(limits, "wall", options.wall));
  MEMBRANE_ASSIGN(const std::string source, read_input(options.file, kMaxProgramBytes));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limits.wall_ms);
  const StopScope scope([end] { return std::chrono::steady_clock::now() >= end; });
  const std::string name =
      options.file == "-" ? "standard input" : std::filesystem::path(options.file).filename().string();
  const std::vector<Diagnostic> findings = check(source, name);
  if (scope.stopped()) return std::unexpected(out_of_time(options));
  if (!options.expand || !findings.empty()) return show_findings(findings, options, source, name);
  Result<std::string> plain = plain_text(source, name);
  if (scope.stopped()) return std::unexpected(out_of_time(options));
  MEMBRANE_TRY(plain);
  if (options.json)
    print_json(nlohmann::ordered_json{{"file", name}, {"ok", true}, {"expanded", *plain}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace));
  else print(*plain);
  return kExitOk;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("check", "Say what is wrong with a program, and how to mend it");
  command->add_option("file", options->file, "The program, or - for standard input")
      ->required()
      ->type_name("FILE");
  command->add_flag(
      "--json", options->json,
      "One JSON object: {file, ok, diagnostics}; {outcome, error} when there is nothing to check");
  command->add_option("--wall", options->wall, "How long it may take, as 10s or 500ms (60s)")
      ->type_name("TIME");
  command->add_flag("--expand", options->expand, "Print the program as plain WAT");
  command->footer(
      "Examples:\n"
      "  membrane check program.wat\n"
      "  membrane check program.wat --expand > plain.wat\n"
      "Exit codes: 0 no errors; 2 there are some.");
  command->callback([options, &exit_code] {
    const Result<int> code = run(*options);
    exit_code = code ? *code : complain(code.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
}

}  // namespace membrane::cli
