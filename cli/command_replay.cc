// membrane replay: repeats the run of a receipt from its private part.

#include <atomic>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/terminal.h"
#include "cli/cli.h"
#include "cli/package_options.h"
#include "cli/receipt_options.h"
#include "computers/replay.h"
#include "sandbox/session/language_templates.h"

namespace membrane::cli {
namespace {

using Json = nlohmann::ordered_json;

std::atomic<bool> interrupted = false;

struct Options {
  std::string file;
  std::string policy_file;
  std::string tier = "auto";
  KeysOption keys;
  bool json = false;
  bool in_process = false;
};

// The result of one run, or of a session up to a turn.
struct ReplayResult {
  std::string file;
  sandbox::Replayed replayed;
  std::vector<sandbox::RefusedCall> refused;  // in the last turn, by --policy
};

Result<std::shared_ptr<const sandbox::Template>> open_template(const sandbox::TemplateRequest& request,
                                                               engine::Tier tier) {
  // Never destroyed: the process is about to end, and a language is large.
  static auto* const languages = new sandbox::LanguageTemplates(template_options(tier));
  MEMBRANE_ASSIGN(auto opened, request.program.empty() ? languages->open_for_session(request.language)
                                                       : languages->open(request.language, request.program));
  return PackageOptions().provide(std::move(opened), request.policy, "", &interrupted);
}

// Where the programs run.
void run_in(const worker::Guests& guests, sandbox::ReplayOptions& options) {
  options.run = [&](const sandbox::Program& program, const sandbox::RunOptions& run_options) {
    return guests.run(program, run_options);
  };
  options.create = [&](std::shared_ptr<const sandbox::Template> of, sandbox::RunOptions run_options) {
    return guests.create(std::move(of), std::move(run_options));
  };
  options.restore = [&](std::shared_ptr<const sandbox::Template> of, std::span<const uint8_t> kept,
                        sandbox::RunOptions run_options) {
    return guests.restore(std::move(of), kept, std::move(run_options));
  };
}

// The calls that --policy would have refused.
Status judge(const sandbox::SealedRun& run, const Options& options, ReplayResult& outcome) {
  if (options.policy_file.empty()) return {};
  MEMBRANE_ASSIGN(const policy::Policy policy,
                  policy::load_policy(options.policy_file, limits_for(run.receipt)));
  MEMBRANE_TRY(check_holds(policy, run.receipt));
  MEMBRANE_ASSIGN(host::CallJudge judge, host::CallJudge::create(policy));
  MEMBRANE_ASSIGN(outcome.refused, sandbox::refused_calls(run, judge, policy));
  return {};
}

Result<ReplayResult> replay_one(const std::string& file, const sandbox::KeyRing& keys, const Options& options,
                                const worker::Guests& guests) {
  ReplayResult outcome;
  outcome.file = file;
  MEMBRANE_ASSIGN(const std::vector<sandbox::SealedRun> turns, sandbox::read_turns(file, keys));
  if (computers::is_of_computer(turns.back().receipt)) {
    MEMBRANE_ASSIGN(outcome.replayed, computers::replay(turns, [] { return interrupted.load(); }));
    MEMBRANE_TRY(judge(turns.back(), options, outcome));
    return outcome;
  }
  sandbox::ReplayOptions replay_options;
  MEMBRANE_ASSIGN(replay_options.tier, tier_of(options.tier));
  replay_options.open = [&](const sandbox::TemplateRequest& request) {
    return open_template(request, replay_options.tier);
  };
  replay_options.cancel = &interrupted;
  run_in(guests, replay_options);
  MEMBRANE_ASSIGN(outcome.replayed, sandbox::replay(turns, replay_options));
  MEMBRANE_TRY(judge(turns.back(), options, outcome));
  return outcome;
}

// The receipts to replay: for a task, those of its programs; a turn replays the earlier ones too.
Result<std::vector<std::string>> files_of(const Options& options, const sandbox::KeyRing& keys) {
  MEMBRANE_ASSIGN(const sandbox::Receipt receipt, sandbox::read_receipt(options.file));
  MEMBRANE_TRY(sandbox::verify(receipt, keys));
  if (receipt.head.kind != sandbox::ReceiptKind::kTask) return std::vector{options.file};
  std::set<std::string> wanted;
  for (const sandbox::ReceiptItem& item : receipt.items)
    if (item.name == "turn") wanted.emplace(item.fact("receipt"));
  const std::string folder = std::filesystem::path(options.file).parent_path().string();
  MEMBRANE_ASSIGN(const auto all, sandbox::receipts_in(folder.empty() ? "." : folder));
  std::vector<std::string> files;
  for (const std::string& file : all)
    if (const auto found = sandbox::read_receipt(file); found && wanted.erase(found->digest) != 0)
      files.push_back(file);
  if (wanted.empty()) return files;
  return fail(ErrorCode::kNotFound, "the receipt " + *wanted.begin() + " of the task is missing",
              "Put the receipts of the task's programs into its directory.");
}

Json json_of(const ReplayResult& outcome, bool has_policy) {
  Json out = {{"file", outcome.file},
              {"same", outcome.replayed.differences.empty()},
              {"was_stopped", outcome.replayed.was_stopped},
              {"outcome", name_of(outcome.replayed.report.outcome)},
              {"fuel", outcome.replayed.report.fuel_used},
              {"differences", outcome.replayed.differences}};
  if (!has_policy) return out;
  out["refused"] = Json::array();
  for (const sandbox::RefusedCall& call : outcome.refused) out["refused"].push_back(cli::json_of(call));
  return out;
}

void show(const ReplayResult& outcome, bool has_policy) {
  const std::vector<std::string>& differences = outcome.replayed.differences;
  const sandbox::Report& report = outcome.replayed.report;
  // Linux programs have none.
  const std::string fuel = !report.platform.empty() ? "" : "fuel: " + std::to_string(report.fuel_used);
  const std::string end = "outcome: " + std::string(name_of(report.outcome)) + (fuel.empty() ? "" : ", ");
  if (differences.empty())
    print(outcome.file +
          (outcome.replayed.was_stopped ? ": the same, to where it was stopped: " + fuel
                                        : ": the same: " + end + fuel) +
          "\n");
  else print(outcome.file + ": DIFFERS\n");
  for (const std::string& difference : differences) print("  " + printable_line(difference) + "\n");
  if (!has_policy) return;
  if (outcome.refused.empty()) print("  the policy refuses nothing of it\n");
  for (const sandbox::RefusedCall& call : outcome.refused)
    print(
        "  refused" + std::string(call.decision == "denied" ? ", as then: " : ": ") + text_of(call) +
        (call.error.grant.empty() ? "" : " (would be granted by " + printable_line(call.error.grant) + ")") +
        "\n");
}

Result<int> run(const Options& options) {
  MEMBRANE_ASSIGN(const sandbox::KeyRing keys, options.keys.keys());
  MEMBRANE_ASSIGN(const std::vector<std::string> files, files_of(options, keys));
  MEMBRANE_ASSIGN(const worker::Guests guests, take_guests(options.in_process));
  std::signal(SIGINT, [](int) { interrupted = true; });
  int code = kExitOk;
  for (const std::string& file : files) {
    MEMBRANE_ASSIGN(const ReplayResult outcome, replay_one(file, keys, options, guests));
    const bool has_policy = !options.policy_file.empty();
    if (options.json) print_json(json_of(outcome, has_policy));
    else show(outcome, has_policy);
    if (!outcome.replayed.differences.empty() || find_stop(outcome.refused) != nullptr) code = kExitGuest;
  }
  return code;
}

}  // namespace

void add_replay(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(
      "replay", "Run again what a receipt is of, without the world, and say whether the same comes out");
  command->add_option("file", options->file, "The receipt; its private part must be next to it")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--policy", options->policy_file,
                   "Say also which calls of the run this policy would have refused (TOML or JSON)")
      ->type_name("FILE");
  command->add_option("--tier", options->tier, "What runs the code: interpreter, compiler, or auto")
      ->type_name("TIER");
  add_in_process(*command, options->in_process);
  options->keys.add_to(*command);
  command->add_flag("--json", options->json, "One JSON object for each run, on a line");
  command->footer(
      "Examples:\n"
      "  membrane replay run.receipt\n"
      "  membrane replay run.receipt --policy stricter.toml\n"
      "A turn of a session needs the receipts of the turns before it beside it, a task those of its "
      "programs.\n"
      "Exit codes: 0 the same bytes and fuel, and nothing refused; 1 the run differs, or the policy would "
      "have stopped it;\n"
      "2 the receipt does not verify, its private part is not there, or wrong usage; 3 Membrane failed.");
  command->callback([options, &exit_code] {
    const Result<int> code = run(*options);
    exit_code = code ? *code : complain(code.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
}

}  // namespace membrane::cli
