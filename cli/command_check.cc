// membrane check: what is wrong with a program, before it runs.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/stop_scope.h"
#include "base/terminal.h"
#include "cli/cli.h"
#include "host/link.h"
#include "lang/language.h"
#include "lang/language_names.h"
#include "lang/wat/preprocessor.h"
#include "policy/policy.h"
#include "sandbox/languages.h"
#include "sandbox/session.h"
#include "sandbox/wasi_calls.h"
#include "wasm/text/printer.h"
#include "wasm/validate.h"

namespace membrane::cli {
namespace {

constexpr uint64_t kMaxProgramBytes = 1u << 30;

struct Options {
  std::string file;
  std::string language;  // "" for the one that the program's name tells
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

// A finding, of Membrane or of a language.
struct Finding {
  std::string code;
  std::string message;
  Place place;
  std::string function = {};
  std::string expected = {};
  std::string found = {};
  std::string hint = {};
  std::string text = {};  // all of it, for a person
};

nlohmann::ordered_json json_of(const Finding& finding) {
  return {{"code", finding.code},           {"message", finding.message},
          {"line", finding.place.line},     {"column", finding.place.column},
          {"offset", finding.place.offset}, {"end_offset", finding.place.end_offset},
          {"function", finding.function},   {"expected", finding.expected},
          {"found", finding.found},         {"hint", finding.hint}};
}

Finding finding_of(const Diagnostic& d, const std::string& source, const std::string& name) {
  return {.code = std::string(name_of(d.code)),
          .message = d.message,
          .place = d.place,
          .function = d.function,
          .expected = d.expected,
          .found = d.found,
          .hint = std::string(hint_of(d)),
          .text = render(d, source, name)};
}

// Where a line of the text begins, and its end.
std::pair<size_t, size_t> line_of(std::string_view source, uint32_t number) {
  size_t begin = 0;
  for (uint32_t line = 1; line < number && begin < source.size(); ++line)
    begin = std::min(source.find('\n', begin), source.size() - 1) + 1;
  return {begin, std::min(source.find('\n', begin), source.size())};
}

// Of a language: its error, and where it says that it is.
Finding finding_of(const sandbox::ReportError& error, const std::string& source, const std::string& name) {
  const auto [begin, end] = line_of(source, error.place.line);
  const size_t column = std::clamp<size_t>(error.place.column, 1, end - begin + 1);
  const bool has_place = error.place.line != 0;
  std::string text = name;
  if (has_place) text += ":" + std::to_string(error.place.line) + ":" + std::to_string(column);
  text += ": error[" + error.code + "]: " + error.message + "\n";
  constexpr size_t kLongestShown = 200;
  if (has_place && end - begin <= kLongestShown) {
    std::string above(source, begin, column - 1);
    for (char& c : above)
      if (c != '\t') c = ' ';
    text += "  " + source.substr(begin, end - begin) + "\n  " + above + "^\n";
  }
  if (!error.hint.empty()) text += "  hint: " + error.hint + "\n";
  Place place;
  place.line = error.place.line;
  place.column = error.place.column;
  place.offset = has_place ? static_cast<uint32_t>(begin + column - 1) : 0;
  return {.code = error.code,
          .message = error.message,
          .place = place,
          .hint = error.hint,
          .text = std::move(text)};
}

// What a language says of a text, of which it runs nothing. Errors: those of sandbox::Languages; kUnsupported of a language
// that cannot.
Result<std::vector<Finding>> check_in(const std::string& language, const std::string& source,
                                      const std::string& name, uint64_t wall_ms) {
  static auto* const languages = new sandbox::Languages(template_options(engine::Tier::kAuto));  // as in run
  MEMBRANE_ASSIGN(auto opened, languages->open(language, ""));
  sandbox::RunOptions options;
  options.policy.limits = policy::language_limits();
  options.policy.limits.wall_ms = wall_ms;
  MEMBRANE_ASSIGN(const auto session, sandbox::Session::create(std::move(opened), options));
  const sandbox::Report report =
      session->exec({.code = source, .name = name, .is_script = true, .only_checks = true});
  std::vector<Finding> findings;
  if (report.outcome == sandbox::Outcome::kInvalid && !report.errors.empty())
    return fail(ErrorCode::kUnsupported, report.errors[0].message, report.errors[0].hint);
  for (const sandbox::ReportError& error : report.errors) findings.push_back(finding_of(error, source, name));
  return findings;
}

int show_findings(const std::vector<Finding>& findings, const Options& options, const std::string& name) {
  if (options.json) {
    nlohmann::ordered_json j;
    j["file"] = name;
    j["ok"] = findings.empty();
    j["diagnostics"] = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) j["diagnostics"].push_back(json_of(finding));
    print_json(j);
  } else {
    for (const Finding& finding : findings) print(printable(finding.text));
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
  MEMBRANE_ASSIGN(const std::string language, program_language(options.language, options.file, source));
  std::vector<Finding> findings;
  if (language == "wat" || language == "wasm") {
    for (const Diagnostic& d : check(source, name)) findings.push_back(finding_of(d, source, name));
  } else {
    if (options.expand)
      return fail(ErrorCode::kInvalidArgument, "--expand is for WAT, and the program is " + language,
                  "Leave it out.");
    MEMBRANE_ASSIGN(findings,
                    check_in(language, source, lang::program_name(name, options.language), limits.wall_ms));
  }
  if (scope.stopped()) return std::unexpected(out_of_time(options));
  if (!options.expand || !findings.empty()) return show_findings(findings, options, name);
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
  command->add_option("--lang", options->language, "python, js, wat (default: as the name ends)")
      ->type_name("LANGUAGE");
  command->add_option("--wall", options->wall, "How long it may take, as 10s or 500ms (60s)")
      ->type_name("TIME");
  command->add_flag("--expand", options->expand, "Print the program as plain WAT");
  command->footer(
      "Examples:\n"
      "  membrane check program.wat\n"
      "  membrane check script.py\n"
      "  membrane check program.wat --expand > plain.wat\n"
      "Exit codes: 0 no errors; 2 there are some.");
  command->callback([options, &exit_code] {
    const Result<int> code = run(*options);
    exit_code = code ? *code : complain(code.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
}

}  // namespace membrane::cli
