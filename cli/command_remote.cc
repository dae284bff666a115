// The commands that speak to a service: create, exec, cp, fork, pause, resume, snapshot, approvals, approve, logs, ps, rm.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include "agent/interrupt.h"
#include "agent/retry.h"
#include "base/json.h"
#include "base/terminal.h"
#include "cli/cli.h"
#include "cli/input_source.h"
#include "cli/remote.h"
#include "cli/seal.h"
#include "lang/language_names.h"
#include "policy/quantity.h"
#include "sandbox/receipt_files.h"
#include "sandbox/report.h"

namespace membrane::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostCodeBytes = 16u << 20, kMostFileBytes = 64u << 20;  // as the service's own limits
constexpr uint32_t kMostCuts = 3;                                           // of one stream, without an event
constexpr uint64_t kLookAgainMs = 500;
constexpr int kExitInterrupted = 130;

std::vector<std::string> of_sandbox(const std::string& id, std::vector<std::string> rest = {}) {
  rest.insert(rest.begin(), {"v1", "sandboxes", id});
  return rest;
}

std::string text_at(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// "10m" is what people write; the policy's durations have "min".
Result<uint64_t> duration_ms(const std::string& text) {
  return policy::parse_duration_ms(text.ends_with('m') ? text + "in" : text);
}

Result<uint64_t> whole_seconds(const std::string& text) {
  MEMBRANE_ASSIGN(const uint64_t ms, duration_ms(text));
  return (ms + 999) / 1000;
}

// {"NAME": "VALUE"} of "NAME=VALUE" words. Errors: kInvalidArgument.
Result<Json> pairs_of(const char* option, const std::vector<std::string>& words) {
  Json pairs = Json::object();
  for (const std::string& word : words) {
    const size_t at = word.find('=');
    if (at == std::string::npos || at == 0)
      return fail(ErrorCode::kInvalidArgument, std::string(option) + " " + word + " has no \"=\" in it",
                  "Write it as NAME=VALUE.");
    pairs[word.substr(0, at)] = word.substr(at + 1);
  }
  return pairs;
}

int finish(const Result<int>& done, bool json = false) {
  return done ? *done : complain(done.error(), json ? Reader::kJson : Reader::kPerson);
}

// -- create ---------------------------------------------------------------------------------------------------------

struct CreateOptions {
  RemoteOptions remote;
  PolicyOptions policy;
  std::string template_name = "python", snapshot, ttl, idle_timeout;
  std::vector<std::string> metadata, labels, environment, packages;
  bool json = false, seals = false;
};

// Nothing when it is the usual one.
Result<std::optional<Json>> policy_of(const CreateOptions& options) {
  policy::Policy usual;
  if (lang::language_named(options.template_name) != "wat") usual.limits = policy::language_limits();
  MEMBRANE_ASSIGN(const policy::Policy wanted, options.policy.policy(usual.limits));
  if (!wanted.fs.empty() || !wanted.sql.empty())
    return fail(ErrorCode::kDenied, "a service grants no directory and no database of a machine",
                "Copy files into the sandbox when it is there: membrane cp data.csv ID:/tmp/");
  const std::string text = policy::to_json(wanted);
  if (text == policy::to_json(usual)) return std::nullopt;
  MEMBRANE_ASSIGN(Json json, read_ordered_json(text, "the policy"));
  return json;
}

Result<Json> spec_of(const CreateOptions& options) {
  Json spec;
  if (options.snapshot.empty()) spec["template"] = options.template_name;
  else spec["snapshot"] = options.snapshot;
  MEMBRANE_ASSIGN(auto policy, policy_of(options));
  if (policy) spec["policy"] = *std::move(policy);
  if (!options.ttl.empty()) {
    MEMBRANE_ASSIGN(spec["ttl_s"], whole_seconds(options.ttl));
  }
  if (!options.idle_timeout.empty()) {
    MEMBRANE_ASSIGN(spec["idle_timeout_s"], whole_seconds(options.idle_timeout));
  }
  if (!options.metadata.empty()) {
    MEMBRANE_ASSIGN(spec["metadata"], pairs_of("--metadata", options.metadata));
  }
  if (!options.environment.empty()) {
    MEMBRANE_ASSIGN(spec["env"], pairs_of("--env", options.environment));
  }
  if (!options.labels.empty()) spec["labels"] = options.labels;
  if (!options.packages.empty()) spec["packages"] = options.packages;
  if (options.seals) spec["seal"] = true;
  return spec;
}

Result<int> create(const CreateOptions& options) {
  MEMBRANE_ASSIGN(const Json spec, spec_of(options));
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json made, remote.send_json(json_request("POST", {"v1", "sandboxes"}, spec)));
  if (options.json) print_json(made);
  else print(text_at(made, "id") + "\n");
  return kExitOk;
}

// -- exec -----------------------------------------------------------------------------------------------------------

struct ExecOptions {
  RemoteOptions remote;
  std::string id, code, input, timeout, context, seal_file;
  std::vector<std::string> words;  // a file, unless there is code; then arguments
  bool has_code = false, json = false, background = false, interactive = false;
};

Result<Json> turn_of(const ExecOptions& options) {
  Json turn;
  auto words = options.words;
  if (options.has_code) {
    turn["code"] = options.code;
  } else if (words.empty()) {
    return fail(ErrorCode::kInvalidArgument, "there is nothing to run",
                "Give -e CODE or a file; - is standard input.");
  } else {
    MEMBRANE_ASSIGN(turn["code"], read_input(words.front(), kMostCodeBytes));
    words.erase(words.begin());
  }
  if (!words.empty()) turn["arguments"] = words;
  if (!options.context.empty()) turn["context"] = options.context;
  if (!options.input.empty()) {
    MEMBRANE_ASSIGN(turn["stdin"], read_input(options.input, kMostCodeBytes));
  }
  if (!options.timeout.empty()) {
    MEMBRANE_ASSIGN(turn["timeout_ms"], duration_ms(options.timeout));
  }
  if (!options.seal_file.empty()) turn["seal"] = true;
  if (options.interactive) turn["open_stdin"] = true;
  return turn;
}

// Shows the events of an exec as they come, and keeps its report.
class ExecView {
 public:
  explicit ExecView(bool is_quiet) : is_quiet_(is_quiet) {}

  void take(const agent::SseEvent& event) {
    last_id = event.last_event_id;
    ++count;
    const auto json = read_ordered_json(event.data, "an event");
    if (!json || !json->is_object()) return;
    if (event.type == "report") report = *json;
    if (is_quiet_) return;
    if (event.type == "stdout") show(stdout, text_at(*json, "text"), in_line_);
    if (event.type == "stderr") show(stderr, text_at(*json, "text"), error_in_line_);
    if (event.type == "approval")
      print(stderr, "approval " + text_at(*json, "id") + " " + text_at(*json, "state") + ": " +
                        text_at(*json, "function") + " " + text_at(*json, "target") + "\n");
  }

  // The last value, and why the program failed.
  void show_end() {
    const std::string result = text_at(report, "result");
    if (!result.empty()) {
      print((in_line_ ? "\n" : "") + result + "\n");
      in_line_ = false;
    }
    std::fflush(stdout);
    const auto error = report.find("error");
    if (error == report.end() || !error->is_object()) return;
    if (error_in_line_ || (in_line_ && same_file(stdout, stderr))) print(stderr, "\n");
    const std::string traceback = text_at(*error, "traceback"), hint = text_at(*error, "hint");
    print(stderr, traceback.empty() ? text_at(report, "outcome") + ": " + text_at(*error, "message") + "\n"
                                    : traceback);
    if (!hint.empty()) print(stderr, "hint: " + hint + "\n");
  }

  [[nodiscard]] int exit_code() const {
    if (const auto code = report.find("exit_code"); code != report.end() && code->is_number_integer())
      return sandbox::exit_code_of_process(code->get<int64_t>());
    const std::string outcome = text_at(report, "outcome");
#define X(id, name, exit, sentence)   \
  if (outcome == (name)) return exit;
    MEMBRANE_OUTCOMES(X)
#undef X
    return kExitMembrane;
  }

  Json report;
  std::string last_id;
  uint64_t count = 0;

 private:
  static void show(std::FILE* to, const std::string& text, bool& in_line) {
    if (text.empty()) return;
    print(to, text);
    std::fflush(to);
    in_line = !text.ends_with('\n');
  }

  const bool is_quiet_;
  bool in_line_ = false, error_in_line_ = false;
};

RemoteRequest events_of(const std::string& sandbox, const std::string& exec, const std::string& after) {
  RemoteRequest request{.path = of_sandbox(sandbox, {"execs", exec, "events"})};
  if (!after.empty()) request.query = {{"after", after}};
  return request;
}

// Reads the exec's events to the report; a stream that is cut is read on from where it was.
Status follow(Remote& remote, const std::string& sandbox, RemoteRequest request, std::string exec,
              ExecView& view) {
  for (uint32_t cuts = 0;;) {
    const uint64_t before = view.count;
    const Status read = remote.stream(request, [&](const agent::SseEvent& event) { view.take(event); });
    if (!view.report.is_null()) return {};
    if (!remote.exec_id().empty()) exec = remote.exec_id();
    cuts = view.count == before ? cuts + 1 : 0;
    const bool is_cut = read || read.error().code == ErrorCode::kUnavailable;
    if (!is_cut || exec.empty() || cuts > kMostCuts)
      return read ? fail(ErrorCode::kUnavailable, "the service ended the answer before its end") : read;
    request = events_of(sandbox, exec, view.last_id);
  }
}

Result<int> exec_in_background(Remote& remote, const ExecOptions& options, Json turn) {
  turn["background"] = true;
  MEMBRANE_ASSIGN(const Json exec,
                  remote.send_json(json_request("POST", of_sandbox(options.id, {"exec"}), turn)));
  if (options.json) print_json(exec);
  else print(text_at(exec, "exec_id") + "\n");
  return kExitOk;
}

// Gives an exec this command's standard input, as it comes, on a thread of its own.
class InputPump {
 public:
  InputPump(Remote remote, std::string sandbox, std::string exec)
      : remote_(std::move(remote)),
        path_(of_sandbox(sandbox, {"execs", std::move(exec), "stdin"})),
        thread_([this] { run(); }) {}
  ~InputPump() {
    is_over_ = true;
    thread_.join();
  }
  InputPump(const InputPump&) = delete;
  InputPump& operator=(const InputPump&) = delete;

 private:
  void run() {
    constexpr std::chrono::milliseconds kPatience(50);
    auto source = InputSource::open("-");
    remote_.set_cancel(&is_over_);
    while (source && !is_over_) {
      const sandbox::InputPiece piece = source->read(kPatience);
      if (piece.bytes.empty() && !piece.is_end) continue;
      if (!give(piece) || piece.is_end) return;
    }
  }
  // What the exec has no room for yet is given again. False: it takes no more.
  bool give(const sandbox::InputPiece& piece) {
    RemoteRequest request{
        .method = "POST", .path = path_, .body = piece.bytes, .content_type = "application/octet-stream"};
    if (piece.is_end) request.query = {{"eof", "true"}};
    while (!is_over_) {
      const auto taken = remote_.send(request);
      if (taken) return true;
      if (taken.error().code != ErrorCode::kExhausted) return false;
      agent::RetryClock::real().wait_ms(kLookAgainMs, &is_over_);
    }
    return false;
  }

  Remote remote_;
  const std::vector<std::string> path_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;  // the last, since it uses all else
};

Result<sandbox::SealedReceipt> fetch_receipt(Remote& remote, const std::string& sandbox,
                                             const std::string& exec) {
  sandbox::SealedReceipt sealed;
  MEMBRANE_ASSIGN(sealed.text, remote.send({.path = of_sandbox(sandbox, {"execs", exec, "receipt"})}));
  MEMBRANE_ASSIGN(sealed.private_text,
                  remote.send({.path = of_sandbox(sandbox, {"execs", exec, "receipt", "private"})}));
  return sealed;
}

// The receipts of the turns before, which a replay needs beside this one, as far as they are not there yet: under the names
// that `membrane repl --seal` gives.
Status save_turns_before(Remote& remote, const std::string& sandbox, const std::string& exec,
                         const std::string& folder) {
  std::set<std::string> there;
  MEMBRANE_ASSIGN(const std::vector<std::string> files, sandbox::receipts_in(folder));
  for (const std::string& file : files)
    if (const auto receipt = sandbox::read_receipt(file)) there.insert(receipt->digest);
  MEMBRANE_ASSIGN(const Json answer, remote.send_json({.path = of_sandbox(sandbox, {"receipts"})}));
  const Json all = answer.value("receipts", Json::array());
  const auto own =
      std::ranges::find_if(all, [&](const Json& each) { return text_at(each, "exec_id") == exec; });
  if (own == all.end()) return {};
  for (const Json& each : all) {
    if (text_at(each, "context") != text_at(*own, "context") ||
        each.value("turn", 0) >= own->value("turn", 0) || there.contains(text_at(each, "digest")))
      continue;
    MEMBRANE_ASSIGN(const sandbox::SealedReceipt sealed,
                    fetch_receipt(remote, sandbox, text_at(each, "exec_id")));
    MEMBRANE_ASSIGN(const sandbox::Receipt receipt, sandbox::Receipt::parse(sealed.text));
    MEMBRANE_TRY(sandbox::write_receipt(folder + "/" + sandbox::name_of_turn(receipt.head), sealed));
  }
  return {};
}

// FILE and FILE.private, when the exec is over.
Status save_receipt(Remote& remote, const ExecOptions& options, const std::string& exec) {
  MEMBRANE_ASSIGN(const sandbox::SealedReceipt sealed, fetch_receipt(remote, options.id, exec));
  MEMBRANE_TRY(sandbox::write_receipt(options.seal_file, sealed));
  const std::string folder = std::filesystem::path(options.seal_file).parent_path().string();
  return save_turns_before(remote, options.id, exec, folder.empty() ? "." : folder);
}

Result<int> exec(const ExecOptions& options) {
  if (!options.seal_file.empty()) MEMBRANE_TRY(check_receipt_path(options.seal_file));
  MEMBRANE_ASSIGN(Json turn, turn_of(options));
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  if (options.background) return exec_in_background(remote, options, std::move(turn));
  agent::Interrupt interrupt;
  remote.set_cancel(&interrupt.flag());
  ExecView view(options.json);
  std::optional<InputPump> pump;
  std::string id;
  RemoteRequest request;
  if (options.interactive) {
    turn["background"] = true;  // whose id is known before it has printed anything
    MEMBRANE_ASSIGN(const Json begun,
                    remote.send_json(json_request("POST", of_sandbox(options.id, {"exec"}), turn)));
    id = text_at(begun, "exec_id");
    MEMBRANE_ASSIGN(Remote for_input, Remote::open(options.remote));
    pump.emplace(std::move(for_input), options.id, id);
    request = events_of(options.id, id, "");
  } else {
    turn["stream"] = true;
    request = json_request("POST", of_sandbox(options.id, {"exec"}), turn);
  }
  const Status read = follow(remote, options.id, std::move(request), id, view);
  pump.reset();
  if (!read && read.error().code == ErrorCode::kCancelled) {
    remote.set_cancel(nullptr);
    const std::string exec = id.empty() ? remote.exec_id() : id;
    if (!exec.empty())
      MEMBRANE_TRY(remote.send({.method = "DELETE", .path = of_sandbox(options.id, {"execs", exec})}));
    return kExitInterrupted;
  }
  MEMBRANE_TRY(read);
  if (options.json) print_json(view.report);
  else view.show_end();
  if (options.seal_file.empty()) return view.exit_code();
  const Status saved = save_receipt(remote, options, text_at(view.report, "exec_id"));
  return saved ? view.exit_code() : complain_unsealed(saved.error());
}

// -- cp -------------------------------------------------------------------------------------------------------------

struct CopyOptions {
  RemoteOptions remote;
  std::string from, to;
};

struct Place {
  std::string sandbox;  // "": on this machine
  std::string path;
};

// "ID:/path" is in a sandbox.
Place place_of(const std::string& word) {
  const size_t at = word.find(":/");
  if (at == std::string::npos || at == 0 || word.find('/') < at) return {"", word};
  return {word.substr(0, at), word.substr(at + 1)};
}

// "sbx…:data.csv": meant for a sandbox, where every path is absolute.
Status check_absolute(const std::string& word) {
  const size_t at = word.find(':');
  if (at == std::string::npos || !word.starts_with("sbx") || word.find('/') < at || word[at + 1] == '/')
    return {};
  return fail(ErrorCode::kInvalidArgument, "the path in the sandbox is not absolute: " + word,
              "Write it from / on: " + word.substr(0, at) + ":/tmp/" + word.substr(at + 1));
}

Result<int> copy_to(Remote& remote, const Place& from, Place to) {
  MEMBRANE_ASSIGN(std::string bytes, read_input(from.path, kMostFileBytes));
  if (to.path.ends_with('/')) to.path += std::filesystem::path(from.path).filename().string();
  MEMBRANE_TRY(remote.send({.method = "PUT",
                            .path = of_sandbox(to.sandbox, {"files"}),
                            .query = {{"path", to.path}},
                            .body = std::move(bytes),
                            .content_type = "application/octet-stream"}));
  return kExitOk;
}

Result<int> copy_from(Remote& remote, const Place& from, Place to) {
  MEMBRANE_ASSIGN(const std::string bytes,
                  remote.send({.path = of_sandbox(from.sandbox, {"files"}), .query = {{"path", from.path}}}));
  if (to.path == "-") {
    print_styled(stdout, bytes);
    return kExitOk;
  }
  std::error_code error;
  if (to.path.ends_with('/') || std::filesystem::is_directory(to.path, error))
    to.path = (std::filesystem::path(to.path) / std::filesystem::path(from.path).filename()).string();
  MEMBRANE_TRY(write_output(to.path, bytes));
  return kExitOk;
}

Result<int> copy(const CopyOptions& options) {
  for (const std::string& word : {options.from, options.to}) MEMBRANE_TRY(check_absolute(word));
  const Place from = place_of(options.from), to = place_of(options.to);
  if (from.sandbox.empty() == to.sandbox.empty())
    return fail(ErrorCode::kInvalidArgument,
                "one of the two places is in a sandbox, and the other on this machine",
                "Write it as membrane cp data.csv ID:/tmp/ or membrane cp ID:/tmp/data.csv .");
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  return from.sandbox.empty() ? copy_to(remote, from, to) : copy_from(remote, from, to);
}

// -- fork, pause, resume, snapshot, rm ------------------------------------------------------------------------------

struct SandboxOptions {
  RemoteOptions remote;
  std::vector<std::string> ids;
  uint32_t count = 1;
  bool json = false;
};

Result<int> fork(const SandboxOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  const auto request =
      json_request("POST", of_sandbox(options.ids.front(), {"fork"}), {{"count", options.count}});
  MEMBRANE_ASSIGN(const Json made, remote.send_json(request));
  if (options.json) {
    print_json(made);
  } else if (const auto list = made.find("sandboxes"); list != made.end()) {
    for (const Json& each : *list) print(text_at(each, "id") + "\n");
  }
  return kExitOk;
}

// One of the requests that only name what is to be done.
Result<int> act(const SandboxOptions& options, const char* action) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json answer,
                  remote.send_json({.method = "POST", .path = of_sandbox(options.ids.front(), {action})}));
  if (options.json) print_json(answer);
  else print(text_at(answer, "id") + "\n");
  return kExitOk;
}

Result<int> remove(const SandboxOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  std::optional<Error> failed;
  for (const std::string& id : options.ids) {
    const auto sent = remote.send({.method = "DELETE", .path = of_sandbox(id)});
    if (sent) print(id + "\n");
    else if (failed) complain(*failed);
    if (!sent) failed = sent.error();
  }
  if (failed) return std::unexpected(*failed);
  return kExitOk;
}

// -- approvals, approve ---------------------------------------------------------------------------------------------

Result<int> show_approvals(const SandboxOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json answer,
                  remote.send_json({.path = of_sandbox(options.ids.front(), {"approvals"})}));
  if (options.json) {
    print_json(answer);
    return kExitOk;
  }
  for (const Json& each : answer.value("approvals", Json::array())) {
    print(text_at(each, "id") + "  " + text_at(each, "function") + "  " + text_at(each, "target") + "\n");
    for (const char* const kind : {"private_reads", "untrusted_reads"})
      for (const Json& read : each.value(kind, Json::array()))
        print(std::string("  ") + (kind[0] == 'p' ? "private: " : "untrusted: ") + text_at(read, "function") +
              " of " + text_at(read, "target") + "\n");
  }
  return kExitOk;
}

struct ApproveOptions {
  RemoteOptions remote;
  std::string id, approval;
  bool is_denied = false;
};

Result<int> approve(const ApproveOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  const auto request = json_request("POST", of_sandbox(options.id, {"approvals", options.approval}),
                                    {{"allow", !options.is_denied}});
  MEMBRANE_ASSIGN(const auto sent, remote.send(request));
  static_cast<void>(sent);
  print(options.approval + (options.is_denied ? " is refused\n" : " goes\n"));
  return kExitOk;
}

// -- ps -------------------------------------------------------------------------------------------------------------

struct ListOptions {
  RemoteOptions remote;
  std::string state, label;
  bool json = false;
};

Result<Json> all_sandboxes(Remote& remote, const ListOptions& options) {
  Json all = Json::array();
  for (std::string cursor;;) {
    RemoteRequest request{.path = {"v1", "sandboxes"}};
    if (!options.state.empty()) request.query.emplace_back("state", options.state);
    if (!options.label.empty()) request.query.emplace_back("label", options.label);
    if (!cursor.empty()) request.query.emplace_back("cursor", cursor);
    MEMBRANE_ASSIGN(const Json page, remote.send_json(request));
    for (const Json& each : page.value("sandboxes", Json::array())) all.push_back(each);
    cursor = text_at(page, "next_cursor");
    if (cursor.empty()) return all;
  }
}

std::string table_of(const Json& sandboxes) {
  constexpr const char* kHeads[] = {"ID", "TEMPLATE", "STATE", "CREATED", "EXPIRES", "LABELS"};
  std::vector<std::vector<std::string>> rows = {{std::begin(kHeads), std::end(kHeads)}};
  for (const Json& each : sandboxes) {
    std::string labels;
    for (const Json& label : each.value("labels", Json::array()))
      if (label.is_string()) labels += (labels.empty() ? "" : ",") + label.get<std::string>();
    rows.push_back({text_at(each, "id"), text_at(each, "template"), text_at(each, "state"),
                    text_at(each, "created_at"), text_at(each, "expires_at"), labels});
  }
  std::vector<size_t> widths(std::size(kHeads));
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

Result<int> list(const ListOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json all, all_sandboxes(remote, options));
  if (options.json) print_json(Json{{"sandboxes", all}});
  else print(table_of(all));
  return kExitOk;
}

// -- logs -----------------------------------------------------------------------------------------------------------

struct LogOptions {
  RemoteOptions remote;
  std::string id;
  bool is_followed = false;
};

// What those of the sandbox's execs print that were not shown yet. False: one of them still runs, and is not followed.
Result<bool> show_execs(Remote& remote, const LogOptions& options, std::set<std::string>& shown) {
  MEMBRANE_ASSIGN(const Json answer, remote.send_json({.path = of_sandbox(options.id, {"execs"})}));
  bool all = true;
  for (const Json& each : answer.value("execs", Json::array())) {
    const std::string exec = text_at(each, "exec_id");
    if (shown.contains(exec)) continue;
    if (text_at(each, "state") != "done" && !options.is_followed) {
      all = false;
      continue;
    }
    ExecView view(false);
    MEMBRANE_TRY(follow(remote, options.id, events_of(options.id, exec, ""), exec, view));
    view.show_end();
    shown.insert(exec);
  }
  return all;
}

Result<int> show_logs(const LogOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  agent::Interrupt interrupt;
  remote.set_cancel(&interrupt.flag());
  std::set<std::string> shown;
  do {
    const auto all = show_execs(remote, options, shown);
    if (!all && all.error().code == ErrorCode::kCancelled) return kExitOk;
    // Of a sandbox that is over there is nothing more.
    if (!all && all.error().code == ErrorCode::kNotFound && !shown.empty()) return kExitOk;
    if (!all) return std::unexpected(all.error());
    if (!*all) print(stderr, "an exec still runs: -f follows it\n");
  } while (options.is_followed && agent::RetryClock::real().wait_ms(kLookAgainMs, &interrupt.flag()));
  return kExitOk;
}

// -- The parser -----------------------------------------------------------------------------------------------------

CLI::Option* add_id(CLI::App& command, std::string& id) {
  return command.add_option("id", id, "The sandbox")->required()->type_name("ID");
}

void add_create(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("create", "Make a sandbox in a service, and print its id");
  const auto options = std::make_shared<CreateOptions>();
  command->add_option("--template", options->template_name, "What it is made of (python)")->type_name("NAME");
  command
      ->add_option("--snapshot", options->snapshot,
                   "The snapshot that it goes on from, instead of a template")
      ->type_name("ID");
  command->add_option("--ttl", options->ttl, "It is ended after this time, as 10m or 1h")->type_name("TIME");
  command
      ->add_option("--idle-timeout", options->idle_timeout,
                   "It is ended after so long without anything to do")
      ->type_name("TIME");
  add_repeatable(*command, "--label", options->labels, "A label, by which ps finds it; may be repeated")
      ->type_name("LABEL");
  add_repeatable(*command, "--metadata", options->metadata, "A word of yours on it; may be repeated")
      ->type_name("NAME=VALUE");
  add_repeatable(*command, "--env", options->environment, "A variable of its environment; may be repeated")
      ->type_name("NAME=VALUE");
  add_repeatable(*command, "--with", options->packages,
                 "A package that its programs can import; may be repeated")
      ->type_name("PACKAGE");
  command->add_flag("--seal", options->seals, "Have the service make a receipt of every exec");
  options->policy.add_to(*command);
  command->get_option("--dir")->group("");  // refused, with what to do instead
  options->remote.add_to(*command);
  command->add_flag("--json", options->json, "Print what the service says of it");
  command->footer(
      "Examples:\n  membrane create --template python --ttl 10m\n  membrane create --label demo --fuel 1e10");
  command->callback([options, &exit_code] { exit_code = finish(create(*options), options->json); });
}

void add_exec(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("exec", "Run code in a sandbox of a service");
  const auto options = std::make_shared<ExecOptions>();
  add_id(*command, options->id);
  CLI::Option* const code =
      command->add_option("-e,--evaluate", options->code, "The code")->type_name("CODE");
  command->add_option("words", options->words, "Without -e a file with the code; then arguments of the code")
      ->type_name("[FILE] [ARGUMENT]");
  CLI::Option* const input = command->add_option(
      "--input", options->input, "What it reads from its standard input; - is this command's");
  input->type_name("FILE");
  command->add_option("--timeout", options->timeout, "How long it may run, as 10s")->type_name("TIME");
  command->add_option("--context", options->context, "The context of the sandbox to run it in")
      ->type_name("ID");
  CLI::Option* const background =
      command->add_flag("--background", options->background, "Print the exec's id, and do not wait for it");
  command
      ->add_option("--seal", options->seal_file,
                   "Write the receipt of it, FILE and FILE.private, and beside it those of the turns before")
      ->type_name("FILE")
      ->excludes(background);
  command
      ->add_flag("-i,--interactive", options->interactive,
                 "Give it this command's standard input as it comes, while it runs")
      ->excludes(background)
      ->excludes(input);
  command->add_flag("--json", options->json, "Print the report, once it is over");
  options->remote.add_to(*command);
  command->footer(
      "Prints what the code prints, as it comes, and the value of its last expression. The exit code is that "
      "of "
      "membrane run. Ctrl-C stops the code.\n\n"
      "Example:\n  membrane exec $ID -e 'print(2 + 2)'");
  command->callback([options, code, &exit_code] {
    options->has_code = code->count() > 0;
    exit_code = finish(exec(*options), options->json);
  });
}

void add_cp(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("cp", "Copy a file into a sandbox of a service, or out of one");
  const auto options = std::make_shared<CopyOptions>();
  command->add_option("from", options->from, "A file, or ID:/path of one in a sandbox")
      ->required()
      ->type_name("FROM");
  command->add_option("to", options->to, "The same; - prints it, and a directory keeps the file's name")
      ->required()
      ->type_name("TO");
  options->remote.add_to(*command);
  command->footer("Examples:\n  membrane cp data.csv $ID:/tmp/\n  membrane cp $ID:/tmp/data.csv copy.csv");
  command->callback([options, &exit_code] { exit_code = finish(copy(*options)); });
}

using Act = Result<int> (*)(const SandboxOptions&);
// Of one sandbox, or, where `is_many`, of some.
void add_act(CLI::App& app, int& exit_code, const char* name, const char* help, const char* example, Act act,
             bool is_many = false) {
  CLI::App* const command = app.add_subcommand(name, help);
  const auto options = std::make_shared<SandboxOptions>();
  CLI::Option* const id = command->add_option("id", options->ids, is_many ? "The sandboxes" : "The sandbox");
  id->required()->type_name("ID");
  if (!is_many) id->expected(1);
  if (std::string_view(name) == "fork")
    command->add_option("-n,--count", options->count, "How many (1)")
        ->check(CLI::Range(1, 1000))
        ->type_name("N");
  if (!is_many) command->add_flag("--json", options->json, "Print what the service says");
  options->remote.add_to(*command);
  command->footer("Example:\n  " + std::string(example));
  command->callback([options, act, &exit_code] { exit_code = finish(act(*options), options->json); });
}

void add_approve(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("approve", "Let a request go that waits for a yes, or refuse it");
  const auto options = std::make_shared<ApproveOptions>();
  add_id(*command, options->id);
  command->add_option("approval", options->approval, "Which one, as approvals says")
      ->required()
      ->type_name("APPROVAL");
  command->add_flag("--deny", options->is_denied, "Refuse it");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane approve $ID $APPROVAL --deny");
  command->callback([options, &exit_code] { exit_code = finish(approve(*options)); });
}

void add_ps(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("ps", "List the sandboxes of a service that the token has");
  const auto options = std::make_shared<ListOptions>();
  command->add_option("--state", options->state, "Only those in this state")->type_name("STATE");
  command->add_option("--label", options->label, "Only those with this label")->type_name("LABEL");
  command->add_flag("--json", options->json, "Print them as JSON");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane ps --label demo");
  command->callback([options, &exit_code] { exit_code = finish(list(*options), options->json); });
}

void add_logs(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("logs", "Show what the execs of a sandbox of a service printed");
  const auto options = std::make_shared<LogOptions>();
  add_id(*command, options->id);
  command->add_flag("-f,--follow", options->is_followed,
                    "Go on with what comes, until Ctrl-C or the sandbox's end");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane logs $ID");
  command->callback([options, &exit_code] { exit_code = finish(show_logs(*options)); });
}

}  // namespace

void add_remote(CLI::App& app, int& exit_code) {
  add_create(app, exit_code);
  add_exec(app, exit_code);
  add_cp(app, exit_code);
  add_act(app, exit_code, "fork", "Make sandboxes that go on from where one stands", "membrane fork $ID -n 8",
          fork);
  add_act(app, exit_code, "pause", "Put a sandbox of a service to disk, as it is", "membrane pause $ID",
          [](const SandboxOptions& options) { return act(options, "pause"); });
  add_act(app, exit_code, "resume", "Bring a paused sandbox back", "membrane resume $ID",
          [](const SandboxOptions& options) { return act(options, "resume"); });
  add_act(app, exit_code, "snapshot", "Keep a sandbox as it stands now, and print the snapshot's id",
          "membrane snapshot $ID", [](const SandboxOptions& options) { return act(options, "snapshot"); });
  add_act(app, exit_code, "approvals", "Show what of a sandbox waits for a person's yes, and why",
          "membrane approvals $ID", show_approvals);
  add_approve(app, exit_code);
  add_logs(app, exit_code);
  add_ps(app, exit_code);
  add_act(app, exit_code, "rm", "End sandboxes of a service", "membrane rm $ID", remove, true);
}

}  // namespace membrane::cli
