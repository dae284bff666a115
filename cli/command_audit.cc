// membrane audit: shows what an audit log of the service says, and checks that the log is intact.

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>

#include "base/audit_chain.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/terminal.h"
#include "base/user_directory.h"
#include "cli/cli.h"
#include "cli/duration.h"

namespace membrane::cli {
namespace {

using Record = nlohmann::ordered_json;
// A line without its newline, and the chain up to it.
using Visitor = std::function<Status(std::string_view line, const AuditChain& chain)>;

// The chain at the file's end. Errors: kNotFound; kInvalidInput for the first line that breaks it, which is not
// visited; those of `visit`.
Result<AuditChain> read_log(const std::string& path, const Visitor& visit) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(ErrorCode::kNotFound, "cannot read " + path, "Name an audit log: DIRECTORY/audit.log.");
  AuditChain chain;
  std::string buffer(kMostAuditLineBytes + 1, '\0');
  while (file.getline(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    if (file.fail()) return fail(ErrorCode::kInvalidInput, "a line is longer than an audit log's can be");
    if (file.eof())
      return fail(ErrorCode::kInvalidInput, "the last line is incomplete",
                  "The service cuts it off when it starts again, and records that.");
    const std::string_view line(buffer.data(), static_cast<size_t>(file.gcount()) - 1);
    MEMBRANE_TRY(chain.follow(line));
    MEMBRANE_TRY(visit(line, chain));
  }
  return chain;
}

// Exit code 1 where the log was changed.
int complain_of_log(const Error& error) {
  const int code = complain(error);
  return error.code == ErrorCode::kInvalidInput ? kExitGuest : code;
}

// -- verify ----------------------------------------------------------------------------------

struct VerifyOptions {
  std::string file, head;
};

Result<int> verify(const VerifyOptions& options) {
  if (!options.head.empty() && !is_sha256_hex(options.head))
    return fail(ErrorCode::kInvalidArgument, "--head " + options.head + " is no head of a log",
                "A head is a SHA-256 in 64 hexadecimal digits: membrane audit verify prints it.");
  bool had_head = options.head.empty();
  MEMBRANE_ASSIGN(const AuditChain chain,
                  read_log(options.file, [&](std::string_view, const AuditChain& so_far) -> Status {
                    had_head = had_head || so_far.head() == options.head;
                    return {};
                  }));
  if (!had_head)
    return fail(ErrorCode::kInvalidInput,
                "it never had that head: records at its end are missing or have changed");
  print("records " + std::to_string(chain.count()) + "\nhead " + chain.head() + "\n");
  return kExitOk;
}

// -- show ------------------------------------------------------------------------------------

struct ShowOptions {
  std::string file, since, event;
  std::string sandbox, by, tenant;  // as the fields of these names
  bool json = false;
};

std::string field(const Record& record, const char* name) {
  const auto found = record.find(name);
  return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

// As records have it: the beginning of "2026-07-28T09:30:00.125Z". A duration is counted back from now.
Result<std::string> earliest_time(const std::string& since) {
  if (since.empty()) return "";
  const std::string_view year = std::string_view(since).substr(0, since.find('-'));
  if (year.size() == 4 && year.find_first_not_of("0123456789") == std::string_view::npos) return since;
  MEMBRANE_ASSIGN(const uint64_t ms, duration_ms(since));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t from = (now_ms - static_cast<int64_t>(std::min<uint64_t>(ms, now_ms))) / 1000;
  std::tm parts = {};
  std::array<char, 32> text = {};
  if (gmtime_r(&from, &parts) == nullptr) return since;
  return std::string(text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts));
}

bool is_asked_for(const Record& record, const ShowOptions& options, const std::string& earliest) {
  const auto is = [&](const char* name, const std::string& wanted) {
    return wanted.empty() || field(record, name) == wanted;
  };
  const std::string event = field(record, "event");
  const bool is_event =
      options.event.empty() || event == options.event || event.starts_with(options.event + ".");
  return is_event && is("sandbox", options.sandbox) && is("by", options.by) && is("tenant", options.tenant) &&
         field(record, "time") >= earliest;
}

// "2026-07-28T09:30:00.125Z  owner         exec.ended          sbx…  outcome=ok …"
std::string line_of(const Record& record) {
  constexpr size_t kByWidth = 13, kEventWidth = 19;
  constexpr std::array<std::string_view, 7> kInFront = {"number", "time",    "by",        "event",
                                                        "before", "sandbox", "request_id"};
  const auto padded = [](std::string text, size_t width) {
    return text.append(std::max(width, text.size() + 1) - text.size(), ' ');
  };
  const std::string by = field(record, "by"), sandbox = field(record, "sandbox");
  std::string line = field(record, "time") + "  " + padded(by.empty() ? "-" : by, kByWidth) +
                     padded(field(record, "event"), kEventWidth) + sandbox;
  for (const auto& [name, value] : record.items()) {
    if (std::ranges::find(kInFront, name) != kInFront.end()) continue;
    line += " " + name + "=" + (value.is_string() ? value.get<std::string>() : json_text(value));
  }
  return line;
}

Result<int> show(const ShowOptions& options) {
  const std::string file =
      options.file.empty() ? user_path(UserDirectory::kState, "service/audit.log") : options.file;
  MEMBRANE_ASSIGN(const std::string earliest, earliest_time(options.since));
  MEMBRANE_TRY(read_log(file, [&](std::string_view line, const AuditChain&) -> Status {
    MEMBRANE_ASSIGN(const Record record, read_ordered_json(line, "the line"));
    if (!is_asked_for(record, options, earliest)) return {};
    print(options.json ? std::string(line) + "\n" : printable_line(line_of(record)) + "\n");
    return {};
  }));
  return kExitOk;
}

// -- the commands ----------------------------------------------------------------------------

template <class Options>
void run_as(CLI::App* command, const std::shared_ptr<Options>& options, Result<int> (*act)(const Options&),
            int& exit_code) {
  command->callback([options, act, &exit_code] {
    const auto done = act(*options);
    exit_code = done ? *done : complain_of_log(done.error());
  });
}

void add_verify_log(CLI::App& group, int& exit_code) {
  CLI::App* const command =
      group.add_subcommand("verify", "Check that each line of an audit log follows from the one before it");
  auto options = std::make_shared<VerifyOptions>();
  command->add_option("file", options->file, "The audit log")->type_name("FILE")->required();
  command
      ->add_option("--head", options->head,
                   "A head from an earlier check: also check that those records are still there")
      ->type_name("SHA256");
  command->footer(
      "Prints how many records there are, and the head: the SHA-256 of the last. Keep it elsewhere.\n"
      "Exit code 1: the log was changed.\n\n"
      "Example:\n  membrane audit verify ~/.local/state/membrane/service/audit.log");
  run_as(command, options, verify, exit_code);
}

void add_show(CLI::App& group, int& exit_code) {
  CLI::App* const command =
      group.add_subcommand("show", "Show what happened, who caused it and what was refused");
  auto options = std::make_shared<ShowOptions>();
  command->add_option("file", options->file, "The audit log; without it, the one of this user's service")
      ->type_name("FILE");
  command->add_option("--sandbox", options->sandbox, "Only records of this sandbox")->type_name("ID");
  command->add_option("--by", options->by, "Only what this token caused; owner for the owner's")
      ->type_name("TOKEN_ID");
  command->add_option("--tenant", options->tenant, "Only records of this tenant")->type_name("NAME");
  command->add_option("--event", options->event, "Only this event, as exec.ended, or all of a kind, as exec")
      ->type_name("EVENT");
  command->add_option("--since", options->since, "Only later records: 1d, or a time as 2026-07-28T09:30")
      ->type_name("TIME");
  command->add_flag("--json", options->json, "The records as they are in the log, one in a line");
  command->footer(
      "Each line has the time in UTC, the token (- for what the service did by itself), the event, the "
      "sandbox and\n"
      "the event's fields (docs/service.md lists them). The chain is checked on the way: records from a line "
      "on that\n"
      "was changed are not shown, and the exit code is 1.\n\n"
      "Examples:\n"
      "  membrane audit show --since 1d\n"
      "  membrane audit show audit.log --event policy --by owner\n"
      "  membrane audit show audit.log --sandbox $ID --json | jq .host_calls");
  run_as(command, options, show, exit_code);
}

}  // namespace

void add_audit(CLI::App& app, int& exit_code) {
  CLI::App* const group = app.add_subcommand("audit", "Read and check audit logs of the service");
  group->require_subcommand(1);
  group->footer("Examples:\n  membrane audit show --since 1d\n  membrane audit verify audit.log");
  add_show(*group, exit_code);
  add_verify_log(*group, exit_code);
}

}  // namespace membrane::cli
