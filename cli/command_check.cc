// membrane check: reports what is wrong with a program, before it runs.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "cli/cli.h"
#include "lang/language_names.h"
#include "policy/policy.h"
#include "sandbox/run/check.h"
#include "sandbox/session/language_templates.h"
#include "sandbox/session/session.h"

namespace membrane::cli {
namespace {

using sandbox::Finding;

constexpr uint64_t kMaxProgramBytes = 1u << 30;

struct Options {
  std::string file;
  std::string language;  // "" to derive it from the program's name
  std::string wall = "60s";
  bool json = false;
  bool expand = false;
  bool in_process = false;
};

nlohmann::ordered_json json_of(const Finding& finding) {
  return {{"code", finding.code},           {"message", finding.message},
          {"line", finding.place.line},     {"column", finding.place.column},
          {"offset", finding.place.offset}, {"end_offset", finding.place.end_offset},
          {"function", finding.function},   {"expected", finding.expected},
          {"found", finding.found},         {"hint", finding.hint}};
}

// The start and end of a line in the text.
std::pair<size_t, size_t> line_of(std::string_view source, uint32_t number) {
  size_t begin = 0;
  for (uint32_t line = 1; line < number && begin < source.size(); ++line)
    begin = std::min(source.find('\n', begin), source.size() - 1) + 1;
  return {begin, std::min(source.find('\n', begin), source.size())};
}

// For a language: its error, and the location that it reports.
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

Error out_of_time(const Options& options) {
  return {ErrorCode::kTimedOut, "checking the program took longer than its time of " + options.wall,
          "Make the program smaller, or give it more time with --wall."};
}

// A language's errors for a text, none of which runs. Errors: those of sandbox::LanguageTemplates; kUnsupported for a
// language that cannot check.
Result<std::vector<Finding>> check_in(const std::string& language, const std::string& source,
                                      const std::string& name, uint64_t wall_ms, const Options& options) {
  static auto* const languages =
      new sandbox::LanguageTemplates(template_options(engine::Tier::kAuto));  // as in run
  MEMBRANE_ASSIGN(auto opened, languages->open(language, ""));
  sandbox::RunOptions run_options;
  run_options.policy.limits = policy::language_limits();
  run_options.policy.limits.wall_ms = wall_ms;
  std::unique_ptr<sandbox::Session> session;
  if (options.in_process) {
    MEMBRANE_ASSIGN(session, sandbox::Session::create(std::move(opened), run_options));
  } else {
    MEMBRANE_ASSIGN(const auto worker, take_worker());
    MEMBRANE_TRY(worker->open(opened->spec()));
    MEMBRANE_ASSIGN(session, worker->create(opened->spec(), run_options));
  }
  const sandbox::Report report =
      session->exec({.code = source, .name = name, .is_script = true, .only_checks = true});
  std::vector<Finding> findings;
  if (report.outcome == sandbox::Outcome::kInvalid && !report.errors.empty())
    return fail(ErrorCode::kUnsupported, report.errors[0].message, report.errors[0].hint);
  if (report.outcome == sandbox::Outcome::kTimedOut) return std::unexpected(out_of_time(options));
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

// In a worker, unless the options say otherwise. Errors: those of worker::Worker; kTimedOut.
Result<sandbox::CheckAnswer> check(const sandbox::CheckRequest& request, const Options& options) {
  sandbox::CheckAnswer answer;
  if (options.in_process) {
    answer = sandbox::check_program(request);
  } else {
    MEMBRANE_ASSIGN(const auto worker, take_worker());
    MEMBRANE_ASSIGN(answer, worker->check(request));
  }
  if (answer.was_stopped) return std::unexpected(out_of_time(options));
  return answer;
}

Result<int> show_plain(const std::string& plain, const Options& options, const std::string& name) {
  if (options.json)
    print_json(nlohmann::ordered_json{{"file", name}, {"ok", true}, {"expanded", plain}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace));
  else print(plain);
  return kExitOk;
}

Result<int> run(const Options& options) {
  policy::Limits limits;
  MEMBRANE_TRY(policy::set_limit(limits, "wall", options.wall, "--wall"));
  MEMBRANE_ASSIGN(const std::string source, read_input(options.file, kMaxProgramBytes));
  const std::string name =
      options.file == "-" ? "standard input" : std::filesystem::path(options.file).filename().string();
  MEMBRANE_ASSIGN(const std::string language, program_language(options.language, options.file, source));
  if (language == "wat" || language == "wasm") {
    MEMBRANE_ASSIGN(const sandbox::CheckAnswer answer,
                    check({source, name, options.expand, limits.wall_ms}, options));
    return options.expand && answer.findings.empty() ? show_plain(answer.plain, options, name)
                                                     : show_findings(answer.findings, options, name);
  }
  if (options.expand)
    return fail(ErrorCode::kInvalidArgument, "--expand is for WAT, and the program is " + language,
                "Remove it.");
  MEMBRANE_ASSIGN(
      const std::vector<Finding> findings,
      check_in(language, source, lang::program_name(name, options.language), limits.wall_ms, options));
  return show_findings(findings, options, name);
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("check", "Report what is wrong with a program, and how to fix it");
  command->add_option("file", options->file, "The program, or - for standard input")
      ->required()
      ->type_name("FILE");
  command->add_flag(
      "--json", options->json,
      "One JSON object: {file, ok, diagnostics}; {outcome, error} when there is nothing to check");
  command->add_option("--lang", options->language, "python, js, wat (default: as the name ends)")
      ->type_name("LANGUAGE");
  command->add_option("--wall", options->wall, "How long it may take, as 10s or 500ms (default: 60s)")
      ->type_name("TIME");
  command->add_flag("--expand", options->expand, "Print the program as plain WAT");
  add_in_process(*command, options->in_process);
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
