// membrane run of a program in a language: one turn of a session, in a worker or in this process.
#include <chrono>
#include <optional>

#include "base/text.h"
#include "base/until_exit.h"
#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/input_source.h"
#include "cli/seal.h"
#include "engine/memory/region_pool.h"
#include "lang/environment_variables.h"
#include "lang/language_names.h"
#include "sandbox/run/stops.h"
#include "sandbox/session/language_templates.h"
#include "sandbox/session/session.h"
#include "worker/worker.h"

namespace membrane::cli {
namespace {

// Options that only a module has.
Status check_for_language(const RunCommandOptions& options, const std::string& language) {
  const auto refused = [&](const char* what, const char* instead) {
    return fail(ErrorCode::kInvalidArgument,
                std::string(what) + " is for WebAssembly, and the program is " + language, instead);
  };
  if (options.entry) return refused("--invoke", "Call the function in the program.");
  if (!options.freeze_after.empty())
    return refused("--freeze-after", "Fork a session: membrane repl has :fork.");
  if (!options.code_cache.empty())
    return refused("--code-cache", "A language keeps its code with its warm image.");
  const bool has_environment = language == "python" || language == "js";
  if (!options.environment.empty() && (!has_environment || !options.seal_file.empty()))
    return refused(has_environment ? "--env with --seal" : "--env",
                   "Give the program arguments, or a file that the policy grants.");
  return {};
}

// The worker opens the language's warm image, or that of the packages over it; a missing image is created
// here.
Result<sandbox::TemplateSpec> open_in(worker::Worker& worker, sandbox::LanguageTemplates& languages,
                                      const RunCommandOptions& options, const std::string& language,
                                      const sandbox::Program& program, sandbox::RunOptions& run_options,
                                      RunSeal* seal, const sandbox::Turn& turn) {
  MEMBRANE_ASSIGN(auto located, languages.locate(language, program.source));
  MEMBRANE_TRY(options.packages.join(run_options.policy, located.package.driver));
  const policy::Packages& packages = run_options.policy.packages;
  if (packages.python.empty() && packages.javascript.empty() && seal == nullptr) {
    const Status opened = worker.open(located.spec);
    if (opened) return located.spec;
    if (opened.error().code != ErrorCode::kNotFound) return std::unexpected(opened.error());
  }
  MEMBRANE_ASSIGN(auto made, languages.open(language, program.source));
  MEMBRANE_ASSIGN(made, options.packages.provide(std::move(made), run_options.policy, options.policy.file,
                                                 run_options.cancel));
  if (seal != nullptr) seal->in_language(made, run_options.policy, turn);
  MEMBRANE_TRY(worker.open(made->spec()));
  return made->spec();
}

Result<std::unique_ptr<sandbox::Session>> session_in_process(sandbox::LanguageTemplates& languages,
                                                             const RunCommandOptions& options,
                                                             const std::string& language,
                                                             const sandbox::Program& program,
                                                             sandbox::RunOptions run_options, RunSeal* seal,
                                                             const sandbox::Turn& turn) {
  MEMBRANE_ASSIGN(auto opened, languages.open(language, program.source));
  MEMBRANE_TRY(options.packages.join(run_options.policy, opened->package().driver));
  MEMBRANE_ASSIGN(opened, options.packages.provide(std::move(opened), run_options.policy, options.policy.file,
                                                   run_options.cancel));
  if (seal != nullptr) seal->in_language(opened, run_options.policy, turn);
  engine::RegionPool::instance().keep_none();  // no other guest follows
  return sandbox::Session::create(std::move(opened), std::move(run_options));
}

struct WholeInput {
  std::string bytes;
  std::optional<sandbox::Outcome> stopped_by;  // the wall limit or Ctrl-C, while more was awaited
};

Result<WholeInput> whole_input(const std::string& path, const sandbox::RunOptions& run_options) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPatience(100);
  const policy::Limits& limits = run_options.policy.limits;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(limits.wall_ms);
  MEMBRANE_ASSIGN(InputSource source, InputSource::open(path));
  WholeInput whole;
  for (;;) {
    const sandbox::InputPiece piece = source.read(kPatience);
    whole.bytes += piece.bytes;
    if (whole.bytes.size() > limits.bytes_in)
      return fail(ErrorCode::kExhausted, path + " has more than " + count_of(limits.bytes_in, "byte"));
    if (piece.is_end) return whole;
    if (run_options.cancel != nullptr && *run_options.cancel) whole.stopped_by = sandbox::Outcome::kCancelled;
    else if (Clock::now() >= deadline) whole.stopped_by = sandbox::Outcome::kTimedOut;
    if (whole.stopped_by) return whole;
  }
}

sandbox::Report stopped_report(sandbox::Outcome outcome, const policy::Limits& limits) {
  sandbox::Report report;
  report.outcome = outcome;
  report.errors = {sandbox::stop_error(outcome, limits)};
  return report;
}

// By a turn of its own, which the program does not notice.
std::optional<sandbox::Report> set_environment(sandbox::Session& session, const std::string& language,
                                               const sandbox::Program& program) {
  const lang::EnvironmentVariables wanted(program.environment.begin(), program.environment.end());
  const std::string code = lang::code_to_change(language, {}, wanted).value_or("");
  if (code.empty()) return std::nullopt;
  sandbox::Report report = session.exec({.code = code, .name = "<environment>"});
  if (report.outcome == sandbox::Outcome::kOk) return std::nullopt;
  return report;
}

}  // namespace

Result<sandbox::Report> run_in_language(const RunCommandOptions& options, const std::string& language,
                                        const sandbox::Program& program, sandbox::RunOptions run_options,
                                        const std::shared_ptr<worker::Worker>& worker, RunSeal* seal) {
  MEMBRANE_TRY(check_for_language(options, language));
  const uint64_t limit = run_options.policy.limits.module_bytes;
  if (program.source.size() > limit)
    return fail(ErrorCode::kInvalidArgument,
                "the program has " + count_of(program.source.size(), "byte") + ", and the limit is " +
                    std::to_string(limit),
                "Make it smaller, or raise --module.");
  // Never destroyed: the process is about to end, and a language is large.
  static auto* const languages = new sandbox::LanguageTemplates(template_options(run_options.tier));
  MEMBRANE_ASSIGN(const auto located, languages->locate(language, program.source));
  std::string input;  // for languages other than Python and JavaScript, which read on demand
  if (!options.input_file.empty() && located.package.driver == lang::Driver::kStdin) {
    MEMBRANE_ASSIGN(auto whole, whole_input(options.input_file, run_options));
    if (whole.stopped_by) return stopped_report(*whole.stopped_by, run_options.policy.limits);
    input = std::move(whole.bytes);
  }
  const std::string name = lang::program_name(program.name, options.language);
  const char* const cell = program.environment.empty() ? "" : "<cell 1>";  // the environment's is not counted
  const sandbox::Turn turn{.code = program.source,
                           .name = options.text && name == program.name ? cell : name,
                           .is_script = !options.text,
                           .arguments = program.arguments,
                           .input = std::move(input)};
  std::unique_ptr<sandbox::Session> made;
  if (worker) {
    MEMBRANE_ASSIGN(const auto spec,
                    open_in(*worker, *languages, options, language, program, run_options, seal, turn));
    MEMBRANE_ASSIGN(made, worker->create(spec, std::move(run_options)));
  } else {
    MEMBRANE_ASSIGN(
        made, session_in_process(*languages, options, language, program, std::move(run_options), seal, turn));
  }
  sandbox::Session& session = keep_until_exit(std::move(made));  // as the languages
  const auto failed = set_environment(session, language, program);
  sandbox::Report report = failed ? *failed : session.exec(turn);
  session.end(report);
  return report;
}

}  // namespace membrane::cli
