// membrane audit: shows what an audit log of the service says, and checks that the log is intact.

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/audit_chain.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/terminal.h"
#include "base/user_directory.h"
#include "cli/cli.h"
#include "cli/duration.h"
#include "policy/quantity.h"

namespace membrane::cli {
namespace {

using Record = nlohmann::ordered_json;
// A line without its newline, and the chain up to it.
using Visitor = std::function<Status(std::string_view line, const AuditChain& chain)>;

std::unexpected<Error> unreadable(const std::string& path, const char* why = "") {
  return fail(ErrorCode::kNotFound, "cannot read " + path + why, "Name an audit log: DIRECTORY/audit.log.");
}

// The chain at the file's end. Errors: kNotFound; kInvalidInput for the first line that breaks it, which is not
// visited; those of `visit`.
Result<AuditChain> read_log(const std::string& path, const Visitor& visit) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) return unreadable(path, ": it is a directory");
  std::ifstream file(path, std::ios::binary);
  if (!file) return unreadable(path);
  AuditChain chain;
  std::string buffer(kMostAuditLineBytes + 1, '\0');
  while (file.getline(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    if (file.bad()) break;
    if (file.fail()) return fail(ErrorCode::kInvalidInput, "a line is longer than an audit log's can be");
    if (file.eof())
      return fail(ErrorCode::kInvalidInput, "the last line is incomplete",
                  "The service cuts it off when it starts again, and records that.");
    const std::string_view line(buffer.data(), static_cast<size_t>(file.gcount()) - 1);
    MEMBRANE_TRY(chain.follow(line));
    MEMBRANE_TRY(visit(line, chain));
  }
  if (file.bad()) return unreadable(path, ": reading it failed");
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
  std::string file, event;
  std::optional<std::string> since;
  std::string sandbox, by, tenant;  // as the fields of these names
  bool json = false;
};

std::string field(const Record& record, const char* name) {
  const auto found = record.find(name);
  return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

// YYYY[-MM[-DD[(T| )HH:MM[:SS[.mmm]]]]][Z], in UTC. Nothing for other text.
std::optional<int64_t> time_ms_of(std::string text) {
  constexpr std::string_view kFirst = "0000-01-01T00:00:00.000Z";
  constexpr size_t kLengths[] = {4, 7, 10, 16, 19, 23};
  if (text.ends_with('Z')) text.pop_back();
  if (std::ranges::find(kLengths, text.size()) == std::end(kLengths)) return std::nullopt;
  if (text.size() > 10 && text[10] == ' ') text[10] = 'T';
  const auto time = policy::parse_time_ms(text.append(kFirst.substr(text.size())));
  return time ? std::optional(*time) : std::nullopt;
}

// A duration is counted back from now.
Result<int64_t> earliest_ms(const std::string& since) {
  if (const auto time = time_ms_of(since)) return *time;
  const auto ms = duration_ms(since);
  if (!ms)
    return fail(
        ErrorCode::kInvalidArgument, "--since \"" + since + "\" is neither a duration nor a time",
        "Write how long ago, as 30m, 1h or 7d, or a time in UTC, as 2026-07-28 or 2026-07-28T09:30:00Z.");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return now_ms - static_cast<int64_t>(std::min<uint64_t>(*ms, static_cast<uint64_t>(now_ms)));
}

// A record with a time that nobody can read is shown.
bool is_since(const Record& record, const std::optional<int64_t>& earliest) {
  if (!earliest) return true;
  const auto time = policy::parse_time_ms(field(record, "time"));
  return !time || *time >= *earliest;
}

bool is_asked_for(const Record& record, const ShowOptions& options, const std::optional<int64_t>& earliest) {
  const auto is = [&](const char* name, const std::string& wanted) {
    return wanted.empty() || field(record, name) == wanted;
  };
  const std::string event = field(record, "event");
  const bool is_event =
      options.event.empty() || event == options.event || event.starts_with(options.event + ".");
  return is_event && is("sandbox", options.sandbox) && is("by", options.by) && is("tenant", options.tenant) &&
         is_since(record, earliest);
}

// A text as it is, or as a JSON text where a reader could take it for something else: for several fields, for one that
// is empty, or for another text.
std::string shown(const std::string& text) {
  const bool is_plain =
      !text.empty() && text.find_first_of(" =\"\\") == std::string::npos && printable_line(text) == text;
  return is_plain ? text : printable_json(json_text(Record(text)));
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
  std::string line = shown(field(record, "time")) + "  " + padded(by.empty() ? "-" : shown(by), kByWidth) +
                     padded(shown(field(record, "event")), kEventWidth) +
                     (sandbox.empty() ? "" : shown(sandbox));
  for (const auto& [name, value] : record.items()) {
    if (std::ranges::find(kInFront, name) != kInFront.end()) continue;
    line += " " + shown(name) + "=" +
            (value.is_string() ? shown(value.get<std::string>()) : printable_json(json_text(value)));
  }
  return line;
}

Result<int> show(const ShowOptions& options) {
  const std::string file =
      options.file.empty() ? user_path(UserDirectory::kState, "service/audit.log") : options.file;
  if (file.empty())
    return fail(ErrorCode::kNotFound, "this user has no home directory, where the service has its log",
                "Name an audit log: membrane audit show DIRECTORY/audit.log.");
  std::optional<int64_t> earliest;
  if (options.since) {
    MEMBRANE_ASSIGN(earliest, earliest_ms(*options.since));
  }
  MEMBRANE_TRY(read_log(file, [&](std::string_view line, const AuditChain&) -> Status {
    MEMBRANE_ASSIGN(const Record record, read_ordered_json(line, "the line"));
    if (!is_asked_for(record, options, earliest)) return {};
    print(options.json ? std::string(line) + "\n" : line_of(record) + "\n");
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
  command
      ->add_option("--since", options->since,
                   "Only later records: of the last 1d, or since 2026-07-28T09:30 in UTC")
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
