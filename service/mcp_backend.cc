#include "service/mcp_backend.h"

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "lang/language_names.h"
#include "mcp/kept_reports.h"
#include "service/exec.h"

namespace membrane::service {
namespace {

using mcp::Caller;
using mcp::Program;
using mcp::Ran;
using mcp::SessionInfo;

constexpr std::string_view kWat = "wat", kJavaScript = "js", kTypeScript = "typescript";
// A label for a sandbox whose programs are in another language than its template says. Forks inherit it.
constexpr const char* kLanguageKey = "mcp.language";
constexpr std::chrono::milliseconds kPatience(50);  // between checks whether the call was cancelled
constexpr size_t kMostTold = 16;                    // handles listed in a hint
constexpr mcp::KeptReportsOptions kReports = {
    .most = 64, .most_bytes = 8u << 20, .most_bytes_of_all = 128u << 20};

ErrorCode code_of(ApiCode code) {
  switch (code) {
    case ApiCode::kUnauthorized:
    case ApiCode::kForbidden: return ErrorCode::kDenied;
    case ApiCode::kNotFound: return ErrorCode::kNotFound;
    case ApiCode::kTooLarge: return ErrorCode::kTooLong;
    case ApiCode::kQuotaExceeded:
    case ApiCode::kTooManyRequests:
    case ApiCode::kNoSpace: return ErrorCode::kExhausted;
    case ApiCode::kOverloaded:
    case ApiCode::kDraining:
    case ApiCode::kUnavailable: return ErrorCode::kUnavailable;
    case ApiCode::kUnsupported: return ErrorCode::kUnsupported;
    case ApiCode::kInternal: return ErrorCode::kInternal;
    default: return ErrorCode::kInvalidArgument;
  }
}

// In REST's words; a retry time that REST puts into a header becomes a sentence here.
Error error_of(const ApiError& error) {
  Error as = {code_of(error.code), error.message, error.hint};
  if (error.retry_after_s)
    as.hint += (as.hint.empty() ? "" : " ") + std::string("Try again in ") +
               count_of(*error.retry_after_s, "second") + ".";
  return as;
}

std::unexpected<Error> cancelled() { return fail(ErrorCode::kCancelled, "the call was cancelled"); }

bool is_cancelled(const Caller& caller) { return caller.cancel != nullptr && *caller.cancel; }

Status need(const Caller& caller, std::initializer_list<std::string_view> scopes) {
  const auto has = [&](std::string_view scope) {
    return std::ranges::find(caller.scopes, scope) != caller.scopes.end();
  };
  for (const std::string_view scope : scopes)
    if (!has(scope) && !has("admin"))
      return fail(ErrorCode::kDenied, "the token does not have the scope " + std::string(scope),
                  "Use one that has it; POST /v1/tokens makes them.");
  return {};
}

Actor actor_of(const Caller& caller) { return {caller.tenant, caller.client}; }

// Lets a thread wait for an answer that Sandboxes gives by a callback.
template <typename T>
class Awaited {
 public:
  [[nodiscard]] Sandboxes::Then<T> then() const {
    return [state = state_](Answer<T> answer) {
      const std::lock_guard lock(state->mutex);
      state->answer = std::move(answer);
      state->came.notify_one();
    };
  }
  Result<T> get() const {
    std::unique_lock lock(state_->mutex);
    state_->came.wait(lock, [&] { return state_->answer.has_value(); });
    return taken();
  }
  // Waits until it is there, or the call was cancelled.
  Result<T> get_unless_cancelled(const Caller& caller) const {
    std::unique_lock lock(state_->mutex);
    while (!state_->came.wait_for(lock, kPatience, [&] { return state_->answer.has_value(); }))
      if (is_cancelled(caller)) return cancelled();
    return taken();
  }

 private:
  struct State {
    std::mutex mutex;  // over what follows
    std::condition_variable came;
    std::optional<Answer<T>> answer;
  };
  Result<T> taken() const {
    Answer<T>& answer = *state_->answer;
    if (!answer) return std::unexpected(error_of(answer.error()));
    if constexpr (std::is_void_v<T>) return {};
    else return *std::move(answer);
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A client that moves data from one session to another has read there what the session has read. Null: nobody
// keeps account.
void carry(const std::shared_ptr<host::Flows>& from, const std::shared_ptr<host::Flows>& to) {
  if (from != nullptr && to != nullptr) to->add(host::carried(from->state()));
}

// What was received of an exec.
struct Heard {
  std::mutex mutex;  // over what follows
  std::condition_variable changed;
  sandbox::Report report;
  bool is_done = false;
  bool has_output = true;  // maybe: needs a check
};

struct ServedLanguage {
  mcp::OfferedLanguage offered;
  std::string template_name;
  std::string file_ending;  // distinguishes programs of a template: ".ts"; else ""
};

class SandboxBackend final : public mcp::Backend {
 public:
  explicit SandboxBackend(Sandboxes& sandboxes) : sandboxes_(sandboxes) {}

  mcp::Offer offer(const Caller& caller) override;
  Result<Ran> run(const Caller& caller, const Program& program) override;
  Result<SessionInfo> create_session(const Caller& caller, const std::string& language, bool seal) override;
  Result<Ran> exec(const Caller& caller, const std::string& session, const Program& program) override;
  Result<std::vector<SessionInfo>> fork_session(const Caller& caller, const std::string& session,
                                                size_t count) override;
  Status close_session(const Caller& caller, const std::string& session) override;
  Result<std::vector<SessionInfo>> sessions(const Caller& caller) override;
  Result<std::vector<sandbox::ReportFile>> list_files(const Caller& caller,
                                                      const std::string& session) override;
  Result<std::string> read_file(const Caller& caller, const std::string& session,
                                const std::string& path) override;
  Status write_file(const Caller& caller, const std::string& session, const std::string& path,
                    std::string_view bytes) override;
  Result<mcp::PolicyText> policy(const Caller& caller, const std::string& session) override;
  Result<std::vector<mcp::ReportInfo>> reports(const Caller& caller) override;
  Result<std::string> report(const Caller& caller, const std::string& id) override;
  Result<mcp::ReceiptTexts> receipt(const Caller& caller, const std::string& id) override;

 private:
  // need(), with a record of the refusal.
  Status need_noted(const Caller& caller, std::initializer_list<std::string_view> scopes);
  [[nodiscard]] std::vector<ServedLanguage> languages() const;
  [[nodiscard]] Result<ServedLanguage> language(const std::string& name) const;
  [[nodiscard]] policy::Policy policy_of(std::string_view template_name) const;
  [[nodiscard]] SessionInfo info_of(const SandboxInfo& sandbox) const;
  Result<SandboxInfo> create(const Caller& caller, const ServedLanguage& language, bool seal);
  // For an exec of a sandbox that still exists. Errors: kNotFound.
  Result<mcp::ReceiptTexts> receipt_of(const Caller& caller, const std::string& sandbox,
                                       const std::string& exec);
  // Waits for its end. `session`: its name in reports, "" for a program of its own.
  Result<Ran> run_in(const Caller& caller, const std::string& sandbox, ExecSpec spec,
                     const std::string& session, const std::string& language);
  Result<SandboxInfo> find(const Caller& caller, const std::string& session);
  void carry_out(const Caller& caller, const std::string& report) const;
  // Lists what exists, when an id is unknown.
  Error with_known_sessions(const Caller& caller, Error error);

  Sandboxes& sandboxes_;
  mcp::KeptReports reports_{kReports};
  std::mutex mutex_;  // over what follows
  mcp::Offer offer_;  // the latest result
  std::optional<std::chrono::steady_clock::time_point> offered_at_;
};

Status SandboxBackend::need_noted(const Caller& caller, std::initializer_list<std::string_view> scopes) {
  auto needed = need(caller, scopes);
  if (!needed)
    sandboxes_.note_refusal(actor_of(caller), "", {ApiCode::kForbidden, needed.error().message, ""});
  return needed;
}

// -- languages and what is granted ----------------------------------------------------------------------------------

std::string title_of(std::string_view name) {
  for (const lang::KnownLanguage& each : lang::known_languages())
    if (each.name == name) return std::string(each.title);
  return std::string(name);
}

std::vector<ServedLanguage> SandboxBackend::languages() const {
  std::vector<ServedLanguage> all;
  for (const TemplateInfo& each : sandboxes_.guests().templates()) {
    const std::string name = lang::language_named(each.name);
    all.push_back({{name, title_of(name), name != kWat}, each.name, ""});
    if (name == kJavaScript)
      all.push_back({{std::string(kTypeScript), "TypeScript", true}, each.name, ".ts"});
  }
  const auto place_of = [](const ServedLanguage& each) {
    return each.offered.name == "python" ? 0 : each.offered.name == kWat ? 2 : 1;
  };
  std::ranges::stable_sort(all, {}, place_of);
  return all;
}

Result<ServedLanguage> SandboxBackend::language(const std::string& name) const {
  std::string known;
  for (ServedLanguage& each : languages()) {
    if (each.offered.name == name) return std::move(each);
    known += (known.empty() ? "" : ", ") + each.offered.name;
  }
  return fail(ErrorCode::kNotFound, "there is no language " + name, "There are " + known + ".");
}

policy::Policy SandboxBackend::policy_of(std::string_view template_name) const {
  policy::Policy policy;
  policy.limits = sandboxes_.guests().usual_limits(std::string(template_name));
  return policy;
}

// Languages are installed while the service runs, and looking for them costs more than a short program.
mcp::Offer SandboxBackend::offer(const Caller& caller) {
  constexpr std::chrono::seconds kFresh(1);
  mcp::Offer offer;
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (offered_at_ && now - *offered_at_ < kFresh) offer = offer_;
  }
  if (offer.languages.empty()) {
    const std::vector<ServedLanguage> all = languages();
    for (const ServedLanguage& each : all) offer.languages.push_back(each.offered);
    const policy::Policy of_wat = policy_of(kWat);
    offer.policy = policy::explain_briefly(of_wat) +
                   policy::explain_larger_limits(of_wat.limits, policy_of(all.front().template_name).limits);
    const std::lock_guard lock(mutex_);
    offer_ = offer;
    offered_at_ = now;
  }
  offer.most_sessions = sandboxes_.most_of(caller.tenant);
  return offer;
}

Result<mcp::PolicyText> SandboxBackend::policy(const Caller& caller, const std::string& session) {
  if (!session.empty()) {
    MEMBRANE_TRY(need_noted(caller, {"sandboxes:read"}));
    const auto found = sandboxes_.policy(caller.tenant, session);
    if (!found) return std::unexpected(with_known_sessions(caller, error_of(found.error())));
    return mcp::PolicyText{policy::explain(*found), policy::to_json(*found)};
  }
  const policy::Policy of_wat = policy_of(kWat), of_language = policy_of(languages().front().template_name);
  return mcp::PolicyText{
      policy::explain(of_wat) + policy::explain_larger_limits(of_wat.limits, of_language.limits),
      policy::to_json(of_language)};
}

// -- sessions -------------------------------------------------------------------------------------------------------

SessionInfo SandboxBackend::info_of(const SandboxInfo& sandbox) const {
  SessionInfo info = {.id = sandbox.id,
                      .language = lang::language_named(sandbox.template_name),
                      .parent = sandbox.parent,
                      .turns = sandbox.execs,
                      .is_busy = sandbox.has_exec};
  if (const auto said = sandbox.metadata.find(kLanguageKey); said != sandbox.metadata.end())
    info.language = said->second;
  return info;
}

Error SandboxBackend::with_known_sessions(const Caller& caller, Error error) {
  if (error.code != ErrorCode::kNotFound || !need(caller, {"sandboxes:read"})) return error;
  const auto page = sandboxes_.list(caller.tenant, {.limit = kMostTold});
  if (!page) return error;
  std::string list;
  for (const SandboxInfo& each : page->sandboxes) list += (list.empty() ? "" : ", ") + each.id;
  if (list.empty()) error.hint += " There is no session: create one with create_session.";
  else error.hint += " The sessions are " + list + (page->next_cursor.empty() ? "." : " and more.");
  return error;
}

Result<SandboxInfo> SandboxBackend::find(const Caller& caller, const std::string& session) {
  auto found = sandboxes_.get(caller.tenant, session);
  if (!found) return std::unexpected(with_known_sessions(caller, error_of(found.error())));
  return *std::move(found);
}

Result<SandboxInfo> SandboxBackend::create(const Caller& caller, const ServedLanguage& language, bool seal) {
  if (caller.on_step) caller.on_step("starting " + language.offered.title);
  SandboxSpec spec = {.template_name = language.template_name, .policy = policy_of(language.template_name)};
  spec.seals = seal;
  if (!language.file_ending.empty()) spec.metadata.emplace(kLanguageKey, language.offered.name);
  const Awaited<SandboxInfo> made;
  sandboxes_.create(actor_of(caller), std::move(spec), made.then());
  auto info = made.get();
  if (!info || !is_cancelled(caller)) return info;
  (void)sandboxes_.kill(actor_of(caller), info->id);  // nobody knows of it
  return cancelled();
}

Result<SessionInfo> SandboxBackend::create_session(const Caller& caller, const std::string& name, bool seal) {
  MEMBRANE_TRY(need_noted(caller, {"sandboxes:write"}));
  MEMBRANE_ASSIGN(const ServedLanguage chosen, language(name));
  if (!chosen.offered.has_sessions)
    return fail(ErrorCode::kUnsupported, chosen.offered.title + " has no sessions", "Use run_code.");
  MEMBRANE_ASSIGN(const SandboxInfo made, create(caller, chosen, seal));
  return info_of(made);
}

Result<std::vector<SessionInfo>> SandboxBackend::fork_session(const Caller& caller,
                                                              const std::string& session, size_t count) {
  MEMBRANE_TRY(need_noted(caller, {"sandboxes:write"}));
  MEMBRANE_TRY(find(caller, session));
  const Awaited<std::vector<SandboxInfo>> made;
  sandboxes_.fork(actor_of(caller), session, count, made.then());
  MEMBRANE_ASSIGN(const std::vector<SandboxInfo> forks, made.get());
  std::vector<SessionInfo> shown;
  for (const SandboxInfo& each : forks) {
    if (is_cancelled(caller)) (void)sandboxes_.kill(actor_of(caller), each.id);
    else shown.push_back(info_of(each));
  }
  return shown;
}

Status SandboxBackend::close_session(const Caller& caller, const std::string& session) {
  MEMBRANE_TRY(need_noted(caller, {"sandboxes:write"}));
  if (const auto ended = sandboxes_.kill(actor_of(caller), session); !ended)
    return std::unexpected(with_known_sessions(caller, error_of(ended.error())));
  return {};
}

Result<std::vector<SessionInfo>> SandboxBackend::sessions(const Caller& caller) {
  MEMBRANE_TRY(need_noted(caller, {"sandboxes:read"}));
  std::vector<SessionInfo> shown;
  SandboxFilter filter;
  do {
    const auto page = sandboxes_.list(caller.tenant, filter);
    if (!page) return std::unexpected(error_of(page.error()));
    for (const SandboxInfo& each : page->sandboxes) shown.push_back(info_of(each));
    filter.cursor = page->next_cursor;
  } while (!filter.cursor.empty());
  return shown;
}

// -- programs -------------------------------------------------------------------------------------------------------

// The output of the exec since the last call; there may be more already.
void tell_output(const Caller& caller, Exec& exec, uint64_t& next, const std::shared_ptr<Heard>& heard) {
  constexpr size_t kPiece = 64u << 10;
  const auto wake = [heard] {
    const std::lock_guard lock(heard->mutex);
    heard->has_output = true;
    heard->changed.notify_one();
  };
  for (bool is_more = true; is_more;) {
    const Exec::Events taken = exec.take(next, kPiece, wake);
    next += taken.events.size();
    is_more = !taken.events.empty() && !taken.is_end;
    for (const Exec::Event& event : taken.events) {
      if (event.kind == Exec::Kind::kStdout && caller.on_stdout) caller.on_stdout(utf8_repair(event.text));
      if (event.kind == Exec::Kind::kStderr && caller.on_stderr) caller.on_stderr(utf8_repair(event.text));
    }
  }
}

Result<Ran> SandboxBackend::run_in(const Caller& caller, const std::string& sandbox, ExecSpec spec,
                                   const std::string& session, const std::string& language) {
  const auto heard = std::make_shared<Heard>();
  spec.flows = caller.flows;
  spec.hear_report = [heard](const sandbox::Report& report) {
    const std::lock_guard lock(heard->mutex);
    heard->report = report;
  };
  const auto begun = sandboxes_.exec(actor_of(caller), sandbox, std::move(spec));
  if (!begun) return std::unexpected(error_of(begun.error()));
  Exec& exec = **begun;
  exec.when_done([heard] {
    const std::lock_guard lock(heard->mutex);
    heard->is_done = true;
    heard->changed.notify_one();
  });
  const bool wants_output = caller.on_stdout || caller.on_stderr;
  uint64_t next = 0;
  std::unique_lock lock(heard->mutex);
  while (!heard->is_done || (wants_output && heard->has_output)) {
    if (wants_output && std::exchange(heard->has_output, false)) {
      lock.unlock();
      tell_output(caller, exec, next, heard);
      lock.lock();
    }
    const auto is_news = [&] { return heard->is_done || (wants_output && heard->has_output); };
    if (heard->changed.wait_for(lock, kPatience, is_news) || !is_cancelled(caller)) continue;
    lock.unlock();
    (void)sandboxes_.cancel_exec(actor_of(caller), sandbox, exec.id);  // it may already be over or gone
    return cancelled();
  }
  Ran ran = {exec.id, std::move(heard->report)};
  lock.unlock();
  // Ends the sandbox of a program of its own, and with it its receipt.
  mcp::ReceiptTexts receipt;
  if (session.empty()) receipt = receipt_of(caller, sandbox, exec.id).value_or(mcp::ReceiptTexts());
  mcp::ReportInfo info{exec.id, session, language, std::string(name_of(ran.report.outcome))};
  if (ran.report.flows) info.reads = ran.report.flows->state;
  reports_.add(caller.tenant, std::move(info), sandbox::render_json(ran.report, false), std::move(receipt));
  return ran;
}

Result<Ran> SandboxBackend::run(const Caller& caller, const Program& program) {
  MEMBRANE_TRY(need_noted(caller, {"sandboxes:write", "exec"}));
  MEMBRANE_ASSIGN(const ServedLanguage chosen, language(program.language));
  MEMBRANE_ASSIGN(const SandboxInfo made, create(caller, chosen, program.seal));
  auto ran = run_in(caller, made.id,
                    {.code = program.code,
                     .stdin_text = program.input,
                     .arguments = program.arguments,
                     .timeout_ms = program.wall_ms,
                     .name = chosen.file_ending.empty() ? "" : "program" + chosen.file_ending},
                    "", chosen.offered.name);
  (void)sandboxes_.kill(actor_of(caller), made.id);  // it may have expired, or been ended by its owner
  return ran;
}

Result<Ran> SandboxBackend::exec(const Caller& caller, const std::string& session, const Program& program) {
  MEMBRANE_TRY(need_noted(caller, {"exec"}));
  MEMBRANE_ASSIGN(const SandboxInfo found, find(caller, session));
  const SessionInfo info = info_of(found);
  ExecSpec spec = {.code = program.code,
                   .stdin_text = program.input,
                   .arguments = program.arguments,
                   .timeout_ms = program.wall_ms};
  if (info.language == kTypeScript) spec.name = "cell-" + std::to_string(info.turns + 1) + ".ts";
  return run_in(caller, session, std::move(spec), session, info.language);
}

// -- files and reports ----------------------------------------------------------------------------------------------

void SandboxBackend::carry_out(const Caller& caller, const std::string& report) const {
  if (caller.flows == nullptr) return;
  for (const mcp::ReportInfo& info : reports_.list(caller.tenant))
    if (info.id == report) caller.flows->add(host::carried(info.reads));
}

Result<std::vector<sandbox::ReportFile>> SandboxBackend::list_files(const Caller& caller,
                                                                    const std::string& session) {
  MEMBRANE_TRY(need_noted(caller, {"files:read"}));
  MEMBRANE_TRY(find(caller, session));
  const Awaited<std::string> done;
  const auto listed = std::make_shared<std::vector<sandbox::ReportFile>>();
  sandboxes_.with_files(
      actor_of(caller), session,
      [flows = caller.flows, listed](Guest& guest) -> Answer<std::string> {
        auto files = guest.files("");
        if (!files) return std::unexpected(files.error());
        *listed = *std::move(files);
        carry(guest.flows(), flows);
        return "";
      },
      done.then());
  MEMBRANE_TRY(done.get_unless_cancelled(caller));
  return std::move(*listed);
}

Result<std::string> SandboxBackend::read_file(const Caller& caller, const std::string& session,
                                              const std::string& path) {
  MEMBRANE_TRY(need_noted(caller, {"files:read"}));
  MEMBRANE_TRY(find(caller, session));
  const Awaited<std::string> bytes;
  sandboxes_.with_files(
      actor_of(caller), session,
      [flows = caller.flows, path](Guest& guest) {
        auto read = guest.read_file("", path);
        if (read) carry(guest.flows(), flows);
        return read;
      },
      bytes.then());
  return bytes.get_unless_cancelled(caller);
}

Status SandboxBackend::write_file(const Caller& caller, const std::string& session, const std::string& path,
                                  std::string_view bytes) {
  MEMBRANE_TRY(need_noted(caller, {"files:write"}));
  MEMBRANE_TRY(find(caller, session));
  const Awaited<std::string> written;
  auto held = sandboxes_.hold(caller.tenant, bytes.size());  // a cancelled call leaves it waiting
  if (!held) return std::unexpected(error_of(held.error()));
  sandboxes_.with_files(
      actor_of(caller), session,
      [flows = caller.flows, path, bytes = std::string(bytes),
       kept = std::make_shared<HeldBytes::Hold>(*std::move(held))](Guest& guest) -> Answer<std::string> {
        carry(flows, guest.flows());
        const auto done = guest.write_file("", path, bytes);
        if (!done) return std::unexpected(done.error());
        return "";
      },
      written.then(), FileChange{"file.written", {{"path", path}, {"bytes", std::to_string(bytes.size())}}});
  MEMBRANE_TRY(written.get_unless_cancelled(caller));
  return {};
}

Result<std::vector<mcp::ReportInfo>> SandboxBackend::reports(const Caller& caller) {
  MEMBRANE_TRY(need_noted(caller, {"exec"}));
  return reports_.list(caller.tenant);
}

Result<std::string> SandboxBackend::report(const Caller& caller, const std::string& id) {
  MEMBRANE_TRY(need_noted(caller, {"exec"}));
  carry_out(caller, id);
  return reports_.find(caller.tenant, id);
}

Result<mcp::ReceiptTexts> SandboxBackend::receipt_of(const Caller& caller, const std::string& sandbox,
                                                     const std::string& exec) {
  if (sandboxes_.receipts() == nullptr)
    return fail(ErrorCode::kUnsupported, "this service makes no receipts");
  mcp::ReceiptTexts texts;
  for (const bool is_private : {false, true}) {
    auto text = sandboxes_.receipts()->text(caller.tenant, sandbox, exec, is_private);
    if (!text) return std::unexpected(error_of(text.error()));
    (is_private ? texts.private_text : texts.text) = *std::move(text);
  }
  return texts;
}

Result<mcp::ReceiptTexts> SandboxBackend::receipt(const Caller& caller, const std::string& id) {
  MEMBRANE_TRY(need_noted(caller, {"exec"}));
  carry_out(caller, id);
  const std::vector<mcp::ReportInfo> kept = reports_.list(caller.tenant);
  const auto found = std::ranges::find(kept, id, &mcp::ReportInfo::id);
  if (found != kept.end() && !found->session.empty()) return receipt_of(caller, found->session, id);
  return reports_.receipt(caller.tenant, id);
}

}  // namespace

std::unique_ptr<mcp::Backend> mcp_backend(Sandboxes& sandboxes) {
  return std::make_unique<SandboxBackend>(sandboxes);
}

}  // namespace membrane::service
