#include "mcp/local_backend.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/text.h"
#include "lang/package.h"
#include "mcp/kept_reports.h"
#include "sandbox/receipts/receipt_recorder.h"
#include "sandbox/run/report_building.h"
#include "sandbox/run/sandbox.h"
#include "sandbox/session/session.h"

namespace membrane::mcp {
namespace {

constexpr std::string_view kWat = "wat";
constexpr size_t kMostTold = 16;  // handles in a hint

// Eight hexadecimal digits that are new in this process: a handle of an earlier process is unknown.
std::string new_handle(std::string_view kind, std::random_device& entropy) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string handle = std::string(kind) + "-";
  uint32_t bits = entropy();
  for (int i = 0; i < 8; ++i, bits >>= 4) handle += kDigits[bits & 15];
  return handle;
}

Error of_host(const host::HostError& error, const std::string& path) {
  return {ErrorCode::kInvalidArgument, path + ": " + error.reason,
          error.grant.empty() ? "list_files says what there is." : "It would be allowed by " + error.grant};
}

// The time limit that a call sets for its program; also cancels it with the caller.
class Patience {
 public:
  Patience(const std::atomic<bool>* cancel, std::optional<uint64_t> wall_ms)
      : cancel_(cancel), wall_ms_(wall_ms) {
    if (!wall_ms_) return;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(*wall_ms_);
    watch_ = std::jthread([this, until](const std::stop_token& stop) {
      std::mutex mutex;
      std::condition_variable_any changed;
      std::unique_lock lock(mutex);
      constexpr std::chrono::milliseconds kLook(20);
      while (!changed.wait_for(lock, stop, kLook, [] { return false; }) && !stop.stop_requested())
        if (is_cancelled() || std::chrono::steady_clock::now() >= until) is_over_ = true;
    });
  }
  // For the turn; it may be null.
  [[nodiscard]] const std::atomic<bool>* cancel() const { return wall_ms_ ? &is_over_ : cancel_; }
  // For a turn that was stopped at its time limit.
  void tell(sandbox::Report& report) const {
    if (!wall_ms_ || report.outcome != sandbox::Outcome::kCancelled || is_cancelled()) return;
    report.outcome = sandbox::Outcome::kTimedOut;
    report.errors.front().code = "timed_out";
    report.errors.front().message = "it ran for " + std::to_string(*wall_ms_) + " ms, which were given";
  }

 private:
  [[nodiscard]] bool is_cancelled() const { return cancel_ != nullptr && *cancel_; }

  const std::atomic<bool>* const cancel_;
  const std::optional<uint64_t> wall_ms_;
  std::atomic<bool> is_over_ = false;
  std::jthread watch_;  // the last: it uses the others
};

class LocalBackend final : public Backend {
 public:
  explicit LocalBackend(LocalOptions options) : options_(std::move(options)) {
    policy_of_wat_ = options_.policy;
    policy_of_wat_.limits = options_.limits_of_wat;
  }

  Offer offer(const Caller& caller) override;
  Result<Ran> run(const Caller& caller, const Program& program) override;
  Result<SessionInfo> create_session(const Caller& caller, const std::string& language, bool seal) override;
  Result<Ran> exec(const Caller& caller, const std::string& id, const Program& program) override;
  Result<std::vector<SessionInfo>> fork_session(const Caller& caller, const std::string& id,
                                                size_t count) override;
  Status close_session(const Caller& caller, const std::string& id) override;
  Result<std::vector<SessionInfo>> sessions(const Caller& caller) override;
  Result<std::vector<sandbox::ReportFile>> list_files(const Caller& caller, const std::string& id) override;
  Result<std::string> read_file(const Caller& caller, const std::string& id,
                                const std::string& path) override;
  Status write_file(const Caller& caller, const std::string& id, const std::string& path,
                    std::string_view bytes) override;
  Result<PolicyText> policy(const Caller& caller, const std::string& id) override;
  Result<std::vector<ReportInfo>> reports(const Caller& caller) override;
  Result<std::string> report(const Caller& caller, const std::string& id) override;
  Result<ReceiptTexts> receipt(const Caller& caller, const std::string& id) override;

 private:
  struct Entry {
    SessionInfo info;
    std::string file_ending;
    std::shared_ptr<const sandbox::Template> language = nullptr;
    std::unique_ptr<sandbox::ReceiptRecorder> recorder = nullptr;  // null: its programs are not sealed
    std::unique_ptr<sandbox::Session> session;
    uint64_t forks = 0;
    const std::atomic<bool>* cancel = nullptr;  // of the current call; null: it cannot be cancelled
  };

  // A session while one call uses it; other calls are refused meanwhile.
  class Held {
   public:
    Held(LocalBackend& backend, std::shared_ptr<Entry> entry)
        : backend_(&backend), entry_(std::move(entry)) {}
    Held(Held&& other) noexcept = default;
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (entry_ == nullptr) return;
      const std::lock_guard lock(backend_->mutex_);
      entry_->info.is_busy = false;
      entry_->cancel = nullptr;
      backend_->freed_.notify_all();
    }
    Entry& operator*() const { return *entry_; }
    Entry* operator->() const { return entry_.get(); }

   private:
    LocalBackend* backend_;
    std::shared_ptr<Entry> entry_;
  };

  Result<const LocalLanguage*> language(const std::string& name) const;
  Result<std::shared_ptr<const sandbox::Template>> open(const Caller& caller, const LocalLanguage& language,
                                                        std::string_view program);
  sandbox::RunOptions run_options() const;
  sandbox::Report run_wat(const Caller& caller, const Program& program,
                          sandbox::ReceiptRecorder* recorder) const;
  Result<Ran> run_in_computer(const Caller& caller, const Program& program);
  static Status check_unsealed(bool seal);
  // Null when no receipt is wanted. Errors: kUnsupported if there are none; those of the key.
  Result<std::unique_ptr<sandbox::ReceiptRecorder>> recorder_for(bool seal) const;
  // Waits for the end of a cancelled call. Errors: kNotFound; kUnavailable while another call uses the
  // session; kCancelled.
  Result<Held> hold(const Caller& caller, const std::string& id);
  Status check_room(size_t count) const;  // with the mutex
  SessionInfo keep_session(std::shared_ptr<Entry> entry);
  Ran keep_report(sandbox::Report report, std::string session, std::string language,
                  ReceiptTexts receipt = {});
  std::string known_sessions() const;  // with the mutex

  LocalOptions options_;
  policy::Policy policy_of_wat_;
  // What any program has read counts for all: the client carries it from one to another.
  std::shared_ptr<host::Flows> flows_ = std::make_shared<host::Flows>();
  KeptReports reports_{{.most = options_.most_reports, .most_bytes = options_.most_report_bytes}};
  mutable std::mutex mutex_;       // over what follows
  std::condition_variable freed_;  // signals that a busy session is free
  std::random_device entropy_;
  std::map<std::string, std::shared_ptr<Entry>> sessions_;
  size_t sessions_to_come_ = 0;  // reserved, and being created
};

// -- programs -------------------------------------------------------------------------------------------------------

Offer LocalBackend::offer(const Caller&) {
  Offer offer;
  for (const LocalLanguage& each : options_.languages) offer.languages.push_back(each.offered);
  offer.policy = policy::explain_briefly(policy_of_wat_) +
                 policy::explain_larger_limits(policy_of_wat_.limits, options_.policy.limits);
  offer.most_sessions = options_.most_sessions;
  return offer;
}

Result<const LocalLanguage*> LocalBackend::language(const std::string& name) const {
  std::string known;
  for (const LocalLanguage& each : options_.languages) {
    if (each.offered.name == name) return &each;
    known += (known.empty() ? "" : ", ") + each.offered.name;
  }
  return fail(ErrorCode::kNotFound, "there is no language " + name, "There are " + known + ".");
}

Result<std::shared_ptr<const sandbox::Template>> LocalBackend::open(const Caller& caller,
                                                                    const LocalLanguage& language,
                                                                    std::string_view program) {
  if (caller.on_step) caller.on_step("starting " + language.offered.title);
  return options_.open(language.package, program);
}

sandbox::RunOptions LocalBackend::run_options() const {
  sandbox::RunOptions options;
  options.policy = options_.policy;
  options.tier = options_.tier;
  options.model = options_.model;
  options.flows = flows_;
  return options;
}

Result<std::unique_ptr<sandbox::ReceiptRecorder>> LocalBackend::recorder_for(bool seal) const {
  if (!seal) return nullptr;
  if (!options_.signing_key)
    return fail(ErrorCode::kUnsupported, "this server makes no receipts", "Remove \"seal\".");
  MEMBRANE_ASSIGN(sandbox::ReceiptKey key, options_.signing_key());
  return std::make_unique<sandbox::ReceiptRecorder>(std::move(key));
}

// The texts of a receipt; a report that could not be sealed says so.
ReceiptTexts texts_of(Result<sandbox::SealedReceipt> sealed, sandbox::Report& report) {
  if (sealed) return {std::move(sealed->text), std::move(sealed->private_text)};
  sandbox::ReportError& error = report.errors.emplace_back();
  error.code = "unsealed";
  error.message = "it ran, and has no receipt: " + sealed.error().message;
  error.hint = sealed.error().hint;
  return {};
}

sandbox::MadeOf made_of(const Program& program, const std::string& name, const sandbox::Template* language,
                        const policy::Policy& policy) {
  sandbox::MadeOf made_of{program.code, {}, language, &policy};
  made_of.invocation.name = name;
  made_of.invocation.given_input = program.input;
  made_of.invocation.arguments = program.arguments;
  return made_of;
}

sandbox::Report LocalBackend::run_wat(const Caller& caller, const Program& program,
                                      sandbox::ReceiptRecorder* recorder) const {
  sandbox::RunOptions options = run_options();
  options.policy = policy_of_wat_;
  if (program.wall_ms)
    options.policy.limits.wall_ms = std::min(options.policy.limits.wall_ms, *program.wall_ms);
  options.cancel = caller.cancel;
  options.on_stdout = caller.on_stdout;
  options.on_stderr = caller.on_stderr;
  if (recorder != nullptr) recorder->attach(options);
  sandbox::Report report = options_.guests.run({.source = program.code,
                                                .format = lang::SourceFormat::kWat,
                                                .entry = {},
                                                .arguments = program.arguments,
                                                .input = program.input},
                                               options);
  if (program.wall_ms) sandbox::report_timeout(*program.wall_ms, policy_of_wat_.limits.wall_ms, report);
  return report;
}

Result<Ran> LocalBackend::run(const Caller& caller, const Program& program) {
  MEMBRANE_ASSIGN(const LocalLanguage* const chosen, language(program.language));
  MEMBRANE_ASSIGN(const auto recorder, recorder_for(program.seal));
  if (chosen->package.empty()) {
    sandbox::Report report = run_wat(caller, program, recorder.get());
    ReceiptTexts receipt;
    if (recorder)
      receipt = texts_of(
          recorder->seal_run(made_of(program, sandbox::Program().name, nullptr, policy_of_wat_), report),
          report);
    return keep_report(std::move(report), "", chosen->offered.name, std::move(receipt));
  }
  if (chosen->package == kComputer) return run_in_computer(caller, program);
  MEMBRANE_ASSIGN(auto opened, open(caller, *chosen, program.code));
  sandbox::RunOptions options = run_options();
  const uint64_t most_wall_ms = options.policy.limits.wall_ms;
  if (program.wall_ms)
    options.policy.limits.wall_ms = std::min(options.policy.limits.wall_ms, *program.wall_ms);
  options.is_single_turn = true;
  const policy::Policy policy = options.policy;
  if (recorder) recorder->attach(options);
  MEMBRANE_ASSIGN(const auto session, options_.guests.create(opened, std::move(options)));
  const std::string name = chosen->file_ending.empty() ? "" : "program" + chosen->file_ending;
  sandbox::Report report = session->exec({.code = program.code,
                                          .name = name,
                                          .arguments = program.arguments,
                                          .input = program.input,
                                          .cancel = caller.cancel,
                                          .on_stdout = caller.on_stdout,
                                          .on_stderr = caller.on_stderr});
  if (program.wall_ms) sandbox::report_timeout(*program.wall_ms, most_wall_ms, report);
  ReceiptTexts receipt;
  if (recorder)
    receipt = texts_of(recorder->seal_run(made_of(program, name, opened.get(), policy), report), report);
  return keep_report(std::move(report), "", chosen->offered.name, std::move(receipt));
}

// A sandbox of its own, which ends with the run.
Result<Ran> LocalBackend::run_in_computer(const Caller& caller, const Program& program) {
  MEMBRANE_TRY(check_unsealed(program.seal));
  if (caller.on_step) caller.on_step("starting Linux");
  MEMBRANE_ASSIGN(const auto session, options_.open_computer());
  const Patience patience(caller.cancel, program.wall_ms);
  sandbox::Report report = session->exec({.code = program.code,
                                          .arguments = program.arguments,
                                          .input = program.input,
                                          .cancel = patience.cancel(),
                                          .on_stdout = caller.on_stdout,
                                          .on_stderr = caller.on_stderr});
  patience.tell(report);
  return keep_report(std::move(report), "", std::string(kComputer));
}

Status LocalBackend::check_unsealed(bool seal) {
  if (!seal) return {};
  return fail(ErrorCode::kUnsupported, "what runs in a Linux sandbox is not sealed here",
              "Remove \"seal\"; membrane run --kind linux --seal and a service make receipts.");
}

// -- sessions -------------------------------------------------------------------------------------------------------

std::string LocalBackend::known_sessions() const {
  if (sessions_.empty()) return "There is no session: create one with create_session.";
  std::string list;
  size_t shown = 0;
  for (const auto& [id, entry] : sessions_) {
    if (shown++ == kMostTold) break;
    list += (list.empty() ? "" : ", ") + id;
  }
  return "The sessions are " + list + (sessions_.size() > kMostTold ? " and more." : ".");
}

Result<LocalBackend::Held> LocalBackend::hold(const Caller& caller, const std::string& id) {
  constexpr std::chrono::milliseconds kPatience(100);  // interval for checking cancellation
  const auto is_set = [](const std::atomic<bool>* flag) { return flag != nullptr && *flag; };
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end())
      return fail(ErrorCode::kNotFound, "there is no session " + id, known_sessions());
    const std::shared_ptr<Entry> entry = found->second;
    if (!entry->info.is_busy) {
      entry->info.is_busy = true;
      entry->cancel = caller.cancel;
      return Held(*this, entry);
    }
    if (!is_set(entry->cancel))
      return fail(ErrorCode::kUnavailable, "another call is using the session " + id,
                  "Wait until it is answered, or work in a fork.");
    if (is_set(caller.cancel)) return fail(ErrorCode::kCancelled, "the call was cancelled");
    freed_.wait_for(lock, kPatience);
  }
}

Status LocalBackend::check_room(size_t count) const {
  if (sessions_.size() + sessions_to_come_ + count <= options_.most_sessions) return {};
  return fail(ErrorCode::kExhausted,
              "there can be " + count_of(options_.most_sessions, "session") + " at once",
              "Close some with close_session. " + known_sessions());
}

SessionInfo LocalBackend::keep_session(std::shared_ptr<Entry> entry) {
  do entry->info.id = new_handle("s", entropy_);
  while (sessions_.contains(entry->info.id));
  return sessions_.emplace(entry->info.id, std::move(entry)).first->second->info;
}

Result<SessionInfo> LocalBackend::create_session(const Caller& caller, const std::string& name, bool seal) {
  MEMBRANE_ASSIGN(const LocalLanguage* const chosen, language(name));
  if (!chosen->offered.has_sessions)
    return fail(ErrorCode::kUnsupported, chosen->offered.title + " has no sessions", "Use run_code.");
  {
    const std::lock_guard lock(mutex_);
    MEMBRANE_TRY(check_room(1));
    ++sessions_to_come_;
  }
  auto entry = std::make_shared<Entry>();
  entry->info.language = name;
  entry->file_ending = chosen->file_ending;
  const auto make = [&]() -> Status {
    if (chosen->package == kComputer) {
      MEMBRANE_TRY(check_unsealed(seal));
      if (caller.on_step) caller.on_step("starting Linux");
      MEMBRANE_ASSIGN(entry->session, options_.open_computer());
      return {};
    }
    MEMBRANE_ASSIGN(entry->recorder, recorder_for(seal));
    MEMBRANE_ASSIGN(entry->language, open(caller, *chosen, ""));
    sandbox::RunOptions options = run_options();
    if (entry->recorder) entry->recorder->attach(options);
    MEMBRANE_ASSIGN(entry->session, options_.guests.create(entry->language, std::move(options)));
    return {};
  };
  const Status made = make();
  const std::lock_guard lock(mutex_);
  --sessions_to_come_;
  MEMBRANE_TRY(made);
  return keep_session(std::move(entry));
}

Result<Ran> LocalBackend::exec(const Caller& caller, const std::string& id, const Program& program) {
  MEMBRANE_ASSIGN(const Held held, hold(caller, id));
  if (held->recorder) {
    MEMBRANE_TRY(held->recorder->usable());
    MEMBRANE_ASSIGN(sandbox::ReceiptKey key, options_.signing_key());  // it may have changed
    held->recorder->sign_with(std::move(key));
  }
  const std::string name =
      held->file_ending.empty() ? "" : "cell-" + std::to_string(held->info.turns + 1) + held->file_ending;
  const Patience patience(caller.cancel, program.wall_ms);
  sandbox::Report report = held->session->exec({.code = program.code,
                                                .name = name,
                                                .arguments = program.arguments,
                                                .input = program.input,
                                                .cancel = patience.cancel(),
                                                .on_stdout = caller.on_stdout,
                                                .on_stderr = caller.on_stderr});
  patience.tell(report);
  {
    const std::lock_guard lock(mutex_);
    ++held->info.turns;
  }
  ReceiptTexts receipt;
  if (held->recorder)
    receipt = texts_of(
        held->recorder->seal_turn(made_of(program, name, held->language.get(), options_.policy), report),
        report);
  return keep_report(std::move(report), id, held->info.language, std::move(receipt));
}

Result<std::vector<SessionInfo>> LocalBackend::fork_session(const Caller& caller, const std::string& id,
                                                            size_t count) {
  MEMBRANE_ASSIGN(const Held held, hold(caller, id));
  {
    const std::lock_guard lock(mutex_);
    MEMBRANE_TRY(check_room(count));
    sessions_to_come_ += count;
  }
  std::vector<std::shared_ptr<Entry>> made;
  Status failed;
  while (failed && made.size() < count) {
    auto forked = held->session->fork(++held->forks);
    if (!forked) failed = std::unexpected(std::move(forked).error());
    else
      made.push_back(std::make_shared<Entry>(
          Entry{.info = {.id = {}, .language = held->info.language, .parent = id, .turns = held->info.turns},
                .file_ending = held->file_ending,
                .session = std::move(*forked)}));
  }
  const std::lock_guard lock(mutex_);
  sessions_to_come_ -= count;
  MEMBRANE_TRY(failed);
  std::vector<SessionInfo> shown;
  for (auto& entry : made) shown.push_back(keep_session(std::move(entry)));
  return shown;
}

Status LocalBackend::close_session(const Caller& caller, const std::string& id) {
  std::shared_ptr<Entry> closed;  // destroyed without the mutex
  MEMBRANE_ASSIGN(const Held held, hold(caller, id));
  const std::lock_guard lock(mutex_);
  closed = std::move(sessions_[id]);
  sessions_.erase(id);
  return {};
}

Result<std::vector<SessionInfo>> LocalBackend::sessions(const Caller&) {
  const std::lock_guard lock(mutex_);
  std::vector<SessionInfo> shown;
  for (const auto& [id, entry] : sessions_) shown.push_back(entry->info);
  return shown;
}

// -- files ----------------------------------------------------------------------------------------------------------

Result<std::vector<sandbox::ReportFile>> LocalBackend::list_files(const Caller& caller,
                                                                  const std::string& id) {
  MEMBRANE_ASSIGN(const Held held, hold(caller, id));
  return held->session->files();
}

Result<std::string> LocalBackend::read_file(const Caller& caller, const std::string& id,
                                            const std::string& path) {
  MEMBRANE_ASSIGN(const Held held, hold(caller, id));
  auto bytes = held->session->read_file(path);
  if (!bytes) return std::unexpected(of_host(bytes.error(), path));
  return *std::move(bytes);
}

Status LocalBackend::write_file(const Caller& caller, const std::string& id, const std::string& path,
                                std::string_view bytes) {
  MEMBRANE_ASSIGN(const Held held, hold(caller, id));
  if (held->recorder) MEMBRANE_TRY(held->recorder->has_room_for(path.size() + bytes.size()));
  const auto written = held->session->put_file(path, bytes);
  if (held->recorder) held->recorder->note({"put", path, std::string(bytes)});
  if (!written) return std::unexpected(of_host(written.error(), path));
  return {};
}

// -- policy and reports ---------------------------------------------------------------------------------------------

Result<PolicyText> LocalBackend::policy(const Caller&, const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    if (!id.empty() && !sessions_.contains(id))
      return fail(ErrorCode::kNotFound, "there is no session " + id, known_sessions());
  }
  return PolicyText{policy::explain(policy_of_wat_) +
                        policy::explain_larger_limits(policy_of_wat_.limits, options_.policy.limits),
                    policy::to_json(options_.policy)};
}

Ran LocalBackend::keep_report(sandbox::Report report, std::string session, std::string language,
                              ReceiptTexts receipt) {
  std::string json = sandbox::render_json(report, false);
  const std::lock_guard lock(mutex_);
  std::string id;
  do id = new_handle("r", entropy_);
  while (reports_.find("", id));
  reports_.add("", {id, std::move(session), std::move(language), std::string(name_of(report.outcome))},
               std::move(json), std::move(receipt));
  return {std::move(id), std::move(report)};
}

Result<std::vector<ReportInfo>> LocalBackend::reports(const Caller&) { return reports_.list(""); }

Result<std::string> LocalBackend::report(const Caller&, const std::string& id) {
  return reports_.find("", id);
}

Result<ReceiptTexts> LocalBackend::receipt(const Caller&, const std::string& id) {
  return reports_.receipt("", id);
}

}  // namespace

std::vector<LocalLanguage> installed_languages() {
  std::vector<LocalLanguage> languages;
  const auto add = [&](std::string name, std::string title, std::string package, std::string ending) {
    const bool has_sessions = !package.empty();
    languages.push_back(
        {{std::move(name), std::move(title), has_sessions}, std::move(package), std::move(ending)});
  };
  for (const lang::Package& package : lang::installed_packages()) {
    switch (package.driver) {
      case lang::Driver::kPython: add(package.name, "Python", package.name, ""); break;
      case lang::Driver::kQuickJs:
        add(package.name, "JavaScript", package.name, "");
        if (package.name == "js") add("typescript", "TypeScript", package.name, ".ts");
        break;
      case lang::Driver::kStdin: add(package.name, package.name, package.name, ""); break;
    }
  }
  std::ranges::stable_sort(languages, {},
                           [](const LocalLanguage& each) { return each.offered.name != "python"; });
  add(std::string(kWat), "WAT", "", "");
  return languages;
}

std::unique_ptr<Backend> local_backend(LocalOptions options) {
  return std::make_unique<LocalBackend>(std::move(options));
}

}  // namespace membrane::mcp
