// membrane policy test: which past runs a policy would have stopped, and at which call.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/receipt_options.h"
#include "computers/replay.h"
#include "computers/settings.h"

namespace membrane::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string policy_file;
  std::string directory;
  KeysOption keys;
  bool json = false;
};

// A policy with the limits of the engine's programs, of languages and of Linux programs, each with its judge.
class Trial {
 public:
  static Result<Trial> create(const std::string& file) {
    Trial trial;
    for (const policy::Limits& limits :
         {policy::Limits(), policy::language_limits(), computers::usual_limits()}) {
      MEMBRANE_ASSIGN(policy::Policy policy, policy::load_policy(file, limits));
      MEMBRANE_ASSIGN(host::CallJudge judge, host::CallJudge::create(policy));
      trial.policies_.push_back(std::move(policy));
      trial.judges_.push_back(std::move(judge));
    }
    return trial;
  }

  Result<std::vector<sandbox::RefusedCall>> refused(const sandbox::SealedRun& run) {
    const size_t which = computers::is_of_computer(run.receipt)                 ? 2
                         : limits_for(run.receipt) == policy::language_limits() ? 1
                                                                                : 0;
    MEMBRANE_TRY(check_holds(policies_[which], run.receipt));
    return sandbox::refused_calls(run, judges_[which], policies_[which]);
  }

 private:
  std::vector<policy::Policy> policies_;
  std::vector<host::CallJudge> judges_;
};

struct Row {
  std::string file;
  std::string made_at, kind, language;
  uint64_t calls = 0;
  std::optional<Error> problem;  // why it cannot be judged
  std::vector<sandbox::RefusedCall> refused;
};

Status judge(const std::string& file, const sandbox::KeyRing& keys, Trial& trial, Row& row) {
  MEMBRANE_ASSIGN(sandbox::Receipt receipt, sandbox::read_receipt(file));
  MEMBRANE_TRY(sandbox::verify(receipt, keys));
  row.made_at = receipt.head.made_at;
  row.kind = name_of(receipt.head.kind);
  if (receipt.head.kind == sandbox::ReceiptKind::kTask) return {};
  if (const sandbox::ReceiptItem* const of = receipt.find("template")) row.language = of->fact("language");
  row.calls = static_cast<uint64_t>(std::ranges::count(receipt.items, "call", &sandbox::ReceiptItem::name));
  MEMBRANE_ASSIGN(auto content, sandbox::read_private_part(file, receipt));
  if (!content) return fail(ErrorCode::kNotFound, "its private part, which lists the calls, is not here");
  MEMBRANE_ASSIGN(row.refused, trial.refused({std::move(receipt), *std::move(content)}));
  return {};
}

std::string verdict_of(const Row& row) {
  if (row.problem) return "cannot be judged: " + row.problem->message;
  if (const sandbox::RefusedCall* const stop = find_stop(row.refused)) return "stopped at " + text_of(*stop);
  return row.refused.empty() ? "runs" : "runs, with the same calls refused";
}

Json json_of(const Row& row) {
  const sandbox::RefusedCall* const stop = find_stop(row.refused);
  Json out = {
      {"file", row.file},       {"verdict", row.problem ? "unknown" : stop != nullptr ? "stopped" : "runs"},
      {"kind", row.kind},       {"language", row.language},
      {"made_at", row.made_at}, {"calls", row.calls}};
  out["stopped_at"] = stop == nullptr ? Json() : cli::json_of(*stop);
  out["refused"] = Json::array();
  for (const sandbox::RefusedCall& call : row.refused) out["refused"].push_back(cli::json_of(call));
  if (row.problem) out["error"] = row.problem->message;
  return out;
}

// Columns as wide as their widest cell; the last one as it is.
void print_table(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells = {{"receipt", "made at", "language", "calls", "verdict"}};
  for (const Row& row : rows) {
    cells.push_back({std::filesystem::path(row.file).filename().string(), row.made_at, row.language,
                     std::to_string(row.calls), verdict_of(row)});
    std::ranges::transform(cells.back(), cells.back().begin(), printable_line);
  }
  std::vector<size_t> widths(cells.front().size());
  for (const auto& line : cells)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const auto& line : cells) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i)
      text += line[i] + (i + 1 == line.size() ? "" : std::string(widths[i] - line[i].size() + 2, ' '));
    print(text + "\n");
  }
}

Result<int> run(const Options& options) {
  MEMBRANE_ASSIGN(Trial trial, Trial::create(options.policy_file));
  MEMBRANE_ASSIGN(const sandbox::KeyRing keys, options.keys.keys());
  std::vector<std::string> files = {options.directory};
  std::error_code error;
  if (!std::filesystem::is_regular_file(options.directory, error)) {
    MEMBRANE_ASSIGN(files, sandbox::receipts_in(options.directory));
  }
  if (files.empty())
    return fail(ErrorCode::kNotFound, options.directory + " has no receipts",
                "They end in .receipt, as membrane run --seal run.receipt writes one.");
  std::vector<Row> rows;
  for (const std::string& file : files) {
    Row row;
    row.file = file;
    if (const Status judged = judge(file, keys, trial, row); !judged) row.problem = judged.error();
    if (row.kind != name_of(sandbox::ReceiptKind::kTask))
      rows.push_back(std::move(row));  // its programs have their own rows
  }
  const auto stopped =
      std::ranges::count_if(rows, [](const Row& row) { return find_stop(row.refused) != nullptr; });
  const auto unknown = std::ranges::count_if(rows, [](const Row& row) { return row.problem.has_value(); });
  if (options.json) {
    for (const Row& row : rows) print_json(json_of(row));
  } else {
    print_table(rows);
    print(count_of(rows.size(), "run") + ": the policy would have stopped " + std::to_string(stopped) +
          (unknown == 0 ? "" : ", and " + std::to_string(unknown) + " cannot be judged") + "\n");
  }
  return stopped == 0 && unknown == 0 ? kExitOk : kExitGuest;
}

}  // namespace

void add_policy_test(CLI::App& policy, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command =
      policy.add_subcommand("test", "Show which past runs a policy would have stopped, and at which call");
  command->add_option("policy", options->policy_file, "The policy, TOML or JSON")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("directory", options->directory,
                   "The receipts and their private parts: their directory, or one receipt")
      ->type_name("DIR")
      ->required();
  options->keys.add_to(*command);
  command->add_flag("--json", options->json, "One JSON object for each receipt, on a line");
  command->footer(
      "Example:\n"
      "  membrane policy test stricter.toml receipts\n"
      "Nothing runs, and nothing is looked up: docs/receipts.md says what is decided, and what only the "
      "world knows.\n"
      "Exit codes: 0 no run would have been stopped; 1 some would, or cannot be judged; 2 wrong usage.");
  command->callback([options, &exit_code] {
    const Result<int> code = run(*options);
    exit_code = code ? *code : complain(code.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
}

}  // namespace membrane::cli
