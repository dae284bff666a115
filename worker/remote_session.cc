// Sessions that run in a worker: Worker::create() and restore().
//
// Threads: one at a time uses a session; its commands wait for those of others of its worker.
#include <algorithm>

#include "sandbox/run/report_building.h"
#include "sandbox/run/run_context.h"
#include "sandbox/run/stops.h"
#include "sandbox/session/session_state.h"
#include "sandbox/session/turn_inputs.h"
#include "worker/answerer.h"
#include "worker/command.h"
#include "worker/resumed.h"

namespace membrane::worker {

using sandbox::Outcome;
using sandbox::Report;
using sandbox::RunOptions;

class RemoteSession final : public sandbox::Session {
 public:
  RemoteSession(std::shared_ptr<Worker> worker, sandbox::TemplateSpec spec, RunOptions options)
      : worker_(std::move(worker)),
        spec_(std::move(spec)),
        subject_(++worker_->last_subject_),
        options_(std::move(options)),
        budget_(budget_of(options_)),
        answerer_(options_, sandbox::world_of(options_, budget_), options_.policy.limits.memory_bytes) {}
  // An exclusive worker ends with its session, so its pages need not be restored first. Nor does anybody wait
  // for a worker that runs a turn of another session.
  ~RemoteSession() override {
    if (worker_.use_count() == 1 || !worker_->is_alive()) return;
    if (const std::unique_lock lock(worker_->mutex_, std::try_to_lock); lock)
      static_cast<void>(ask<std::string_view>(Kind::kClose, {}));
  }

  Status begin() {
    MEMBRANE_ASSIGN(Status begun, asked<Status>(Kind::kCreate, bytes_of(options_of_session(), spec_)));
    return begun;
  }
  Status restore(std::string_view kept) {
    auto state = sandbox::read_session({reinterpret_cast<const uint8_t*>(kept.data()), kept.size()});
    has_past_ = true;
    if (state) answerer_.world().add_flows(state->flows);
    if (state) answerer_.world().go_to(state->sources);
    if (state && state->pause) {
      paused_at_fuel_ = fuel_of_turn_ = state->pause->fuel_used;
      if (state->pause->calls) answerer_.wait_for(*state->pause->calls);
      waits_for_ = sandbox::waiting_of(state->pause->calls);
      if (!options_.budget) answerer_.world().take_after(amounts_of(*state->pause));
      before_ = calls_of(std::move(state->pause->history));
    }
    before_.has_past = true;
    MEMBRANE_ASSIGN(Status begun, asked<Status>(Kind::kRestore, bytes_of(options_of_session(), spec_, kept)));
    return begun;
  }

  Report exec(const sandbox::Turn& turn) override {
    const std::lock_guard lock(worker_->mutex_);
    if (worker_->is_conversing_) return sandbox::refusal(Worker::busy().error());
    const bool has_input = turn.read_input != nullptr;
    std::string payload = bytes_of(left_of(options_), turn, has_input);
    if (paused_at_fuel_) return take_turn(Kind::kExec, std::move(payload), Part::kRefused);
    fuel_of_turn_ = 0;
    turn_cancel_ = turn.cancel;
    turn_stdout_ = turn.on_stdout;
    turn_stderr_ = turn.on_stderr;
    answerer_.world().refill(options_.policy.limits);
    answerer_.begin();
    if (sandbox::gives_input(turn, options_)) answerer_.world().note_input();
    before_ = {};
    before_.has_past = has_past_;
    const auto input_of_session = options_.read_input;  // read by the answerer
    if (has_input) options_.read_input = turn.read_input;
    Report report = take_turn(Kind::kExec, std::move(payload), Part::kRuns, turn.pause_at_fuel.has_value());
    options_.read_input = input_of_session;
    return report;
  }
  Report go_on(std::optional<uint64_t> pause_at_fuel) override {
    const std::lock_guard lock(worker_->mutex_);
    if (worker_->is_conversing_) return sandbox::refusal(Worker::busy().error());
    std::string payload = bytes_of(left_of(options_), pause_at_fuel);
    if (!paused_at_fuel_) return take_turn(Kind::kGoOn, std::move(payload), Part::kRefused);
    answerer_.go_on();
    return take_turn(Kind::kGoOn, std::move(payload), Part::kRuns, pause_at_fuel.has_value());
  }
  Report resume(std::vector<sandbox::FunctionAnswer> answers) override {
    const std::lock_guard lock(worker_->mutex_);
    if (worker_->is_conversing_) return sandbox::refusal(Worker::busy().error());
    const SharedLeft left = left_of(options_);
    if (!paused_at_fuel_ || answers.size() > waits_for_.size())
      return take_turn(Kind::kResume, bytes_of(left, answers), Part::kRefused);
    answerer_.go_on();
    answerer_.take_answers(answers);
    return take_turn(Kind::kResume, bytes_of(left, answers), Part::kRuns);
  }
  Status abandon() override {
    if (!paused_at_fuel_) return Session::abandon();
    MEMBRANE_ASSIGN(Status done, asked<Status>(Kind::kAbandon, {}));
    MEMBRANE_TRY(done);
    paused_at_fuel_.reset();
    waits_for_.clear();
    answerer_.forget_functions();
    return {};
  }
  void cancel_by(const std::atomic<bool>* cancel) override { turn_cancel_ = cancel; }
  std::vector<sandbox::FunctionCall> waits_for() const override { return waits_for_; }
  void end(Report& report) override {
    sandbox::end_replay(answerer_.world(), report);
    if (const auto divergence = answerer_.world().divergence())
      sandbox::report_divergence(*divergence, "turns", report);
  }
  std::optional<uint64_t> paused_at_fuel() const override { return paused_at_fuel_; }

  Result<std::unique_ptr<Session>> fork(uint64_t number) override {
    RunOptions options = options_;
    options.record = nullptr;
    options.read_input = nullptr;
    if (!paused_at_fuel_)
      if (auto apart = restored_apart(keep_fork(number), options)) return apart;
    auto child = std::make_unique<RemoteSession>(worker_, spec_, std::move(options));
    MEMBRANE_ASSIGN(Status made, asked<Status>(Kind::kFork, bytes_of(number, child->subject_), child.get()));
    MEMBRANE_TRY(made);
    child->answerer_.world().add_flows(answerer_.world().flow_state());
    child->paused_at_fuel_ = paused_at_fuel_;
    child->waits_for_ = waits_for_;
    child->answerer_.copy_functions(answerer_);
    child->fuel_of_turn_ = fuel_of_turn_;
    child->has_past_ = child->before_.has_past = true;
    if (auto apart = child->moved_apart()) return apart;
    return child;
  }

  Result<std::vector<uint8_t>> keep() const override { return kept(std::nullopt); }
  Result<std::vector<uint8_t>> keep_fork(uint64_t number) const override { return kept(number); }

  std::vector<std::string> complete(std::string_view code) override {
    RunOptions options = options_;
    options.on_stdout = options.on_stderr = nullptr;
    options.on_file = nullptr;
    options.record = nullptr;
    policy::Limits& limits = options.policy.limits;
    limits.host_calls = limits.bytes_in = limits.bytes_out = limits.tokens = 0;
    options.budget = nullptr;
    options.flows = nullptr;
    // As a session in this process: a completion asks the embedder for nothing.
    if (std::exchange(options.sources, nullptr) != nullptr) {
      options.policy.time = {};
      options.policy.random = {};
    }
    RemoteSession scratch(worker_, spec_, std::move(options));
    scratch.answerer_.begin();  // for refused calls
    auto names = asked<std::vector<std::string>>(Kind::kComplete, bytes_of(scratch.subject_, code), &scratch);
    return names ? *std::move(names) : std::vector<std::string>();
  }

  std::vector<sandbox::ReportFile> files() const override {
    auto files = asked<std::vector<sandbox::ReportFile>>(Kind::kFiles, {});
    return files ? *std::move(files) : std::vector<sandbox::ReportFile>();
  }
  host::HostResult<std::string> read_file(std::string_view path) const override {
    return of_file<std::string>(Kind::kReadFile, bytes_of(path));
  }
  host::HostResult<void> put_file(std::string_view path, std::string_view bytes) override {
    return of_file<void>(Kind::kPutFile, bytes_of(path, bytes));
  }
  host::HostResult<std::vector<wasi::FileFact>> act_on_files(const wasi::FileRequest& request) override {
    return of_file<std::vector<wasi::FileFact>>(Kind::kActOnFiles, bytes_of(request));
  }
  std::string why_lost() const override { return worker_->is_alive() ? std::string() : worker_->problem(); }
  uint64_t skipped_ns() const override {
    const auto ns = asked<uint64_t>(Kind::kSkipped, {});
    return ns ? *ns : 0;
  }
  std::optional<uint64_t> private_bytes() const override {
    const auto bytes = asked<std::optional<uint64_t>>(Kind::kPrivateBytes, {});
    return bytes ? *bytes : std::nullopt;
  }

 private:
  using Clock = std::chrono::steady_clock;

  Result<std::vector<uint8_t>> kept(std::optional<uint64_t> fork) const {
    auto answer = asked<Result<std::vector<uint8_t>>>(
        Kind::kKeep, bytes_of(fork, answerer_.world().position(), answerer_.world().has_store_in_memory()));
    if (!answer) return std::unexpected(answer.error());
    if (!*answer) return std::unexpected(answer->error());
    std::vector<uint8_t> bytes = std::move(**answer);
    const auto refuse = [&](const std::string& how) {
      return std::unexpected(worker_->lose("the worker's session, as bytes, " + how));
    };
    // Restoring these bytes trusts their contents.
    auto state = sandbox::read_session(bytes);
    if (!state) return refuse("is malformed");
    const std::optional<uint64_t> paused_at_fuel = fork ? std::nullopt : paused_at_fuel_;
    const std::optional<uint64_t> is_said =
        state->pause ? std::optional(state->pause->fuel_used) : std::nullopt;
    if (is_said != paused_at_fuel) return refuse("is not paused as the session is");
    host::World& world = answerer_.world();
    host::World::Amounts used;
    if (state->pause) {
      const host::Dispatcher::History& history = state->pause->history;
      if (const auto how = answerer_.difference(history.records, history.records_dropped, before_))
        return refuse(*how);
      const policy::Limits& limits = options_.policy.limits;
      if (!options_.budget)
        used = amounts_used({}, {limits.host_calls, limits.bytes_in, limits.bytes_out, limits.tokens},
                            world.left());
    }
    const host::FlowState flows = world.flow_state();
    if (state->flows == flows && (!state->pause || amounts_of(*state->pause) == used)) return bytes;
    state->flows = flows;
    if (state->pause) set_amounts(used, *state->pause);
    return sandbox::write_session(*std::move(state));
  }

  // This session, a fork of another one in its worker, moved to a worker of its own; null if there can be
  // none.
  std::unique_ptr<Session> moved_apart() const {
    return worker_->of_ ? restored_apart(keep(), options_) : nullptr;
  }
  // A saved session in a worker of its own; null if there can be none.
  std::unique_ptr<Session> restored_apart(const Result<std::vector<uint8_t>>& kept,
                                          RunOptions options) const {
    if (!kept || !worker_->of_) return nullptr;
    if (options.sources != nullptr) {
      auto sources = std::make_shared<host::Sources>(*options.sources);
      sources->skipped_ns = skipped_ns();
      options.sources = std::move(sources);
    }
    const auto other = worker_->sibling();
    if (!other) return nullptr;
    auto made = other->restore(spec_, *kept, std::move(options));
    return made ? *std::move(made) : nullptr;
  }

  // A turn may have its own output callbacks.
  [[nodiscard]] GuestOptions options_of_session() const {
    GuestOptions said = guest_options(options_);
    said.hears_stdout = said.hears_stderr = true;
    return said;
  }

  // The answer to a command that runs next to no guest code. `other` may make requests too.
  template <typename T>
  Result<std::string> ask(Kind kind, std::string payload, const RemoteSession* other = nullptr) const {
    const std::lock_guard lock(worker_->mutex_);
    worker_->channel_.set_most_bytes(most_bytes(options_.policy.limits));
    Worker::Command what{.kind = kind,
                         .subject = subject_,
                         .payload = std::move(payload),
                         .until = Clock::now() + time_for(kind)};
    what.answerers = {{subject_, &answerer_}};
    if (other != nullptr) what.answerers.emplace_back(other->subject_, &other->answerer_);
    return worker_->command(what);
  }
  template <typename T>
  Result<T> asked(Kind kind, std::string payload, const RemoteSession* other = nullptr) const {
    MEMBRANE_ASSIGN(const std::string bytes, ask<T>(kind, std::move(payload), other));
    Reader in(bytes);
    T value = in.get<T>();
    if (!in.is_done()) return std::unexpected(worker_->lose("the worker's answer is malformed"));
    return value;
  }
  template <typename T>
  host::HostResult<T> of_file(Kind kind, std::string payload) const {
    auto answer = asked<host::HostResult<T>>(kind, std::move(payload));
    if (!answer) return host::refuse(host::Errno::kHost, answer.error().message);
    return *std::move(answer);
  }

  // kRefused: another turn is paused, or none is; the worker says which.
  enum class Part : uint8_t { kRuns, kRefused };
  Report take_turn(Kind kind, std::string payload, Part part, bool may_pause = false) {
    const std::lock_guard lock(worker_->mutex_);
    const auto end = end_of_turn();
    const RunOptions options = options_of_turn();
    answerer_.bound(end, options.cancel);
    worker_->channel_.set_most_bytes(most_bytes(options.policy.limits));
    Worker::Command what{.kind = kind,
                         .subject = subject_,
                         .payload = std::move(payload),
                         .options = &options,
                         .answerers = {{subject_, &answerer_}},
                         .until = end + kGrace,
                         .cancel = options.cancel};
    host::World& world = answerer_.world();
    const uint64_t tokens_before = world.tokens_used();
    const auto bytes = worker_->command(what);
    answerer_.pause();
    auto judged = bytes ? judge(*bytes, part, may_pause) : std::unexpected(what.unanswered(bytes.error()));
    Report report = judged ? std::move(judged->report) : std::move(judged.error());
    if (!judged) {
      answerer_.write_calls(before_, report);
      sandbox::report_unanswered(report);
      pay(report);
      return report;
    }
    report.flows = world.flow_report();
    if (part == Part::kRefused) return report;
    Answerer::complete(before_, report);
    paused_at_fuel_ = judged->paused_at_fuel;
    waits_for_ = std::move(judged->waits_for);
    answerer_.tell_late_call(options.policy.limits, Answerer::Of::kTurn, report);
    sandbox::report_unanswered(report);
    pay(report);
    report.tokens_used = world.tokens_used() - tokens_before;
    if (const auto divergence = world.divergence()) sandbox::report_divergence(*divergence, "turns", report);
    return report;
  }

  // When the turn must have ended. A budget of the session's own lasts as long as its turn may.
  Clock::time_point end_of_turn() {
    const auto wall_end = Clock::now() + std::chrono::milliseconds(options_.policy.limits.wall_ms);
    if (!options_.budget) budget_->set_deadline(wall_end);
    return std::min(wall_end, budget_->deadline());
  }

  RunOptions options_of_turn() const {
    RunOptions options = options_;
    if (turn_cancel_ != nullptr) options.cancel = turn_cancel_;
    if (turn_stdout_) options.on_stdout = turn_stdout_;
    if (turn_stderr_) options.on_stderr = turn_stderr_;
    return options;
  }

  // The worker's report of a turn, or the error that is reported in its place.
  std::expected<TurnEnd, Report> judge(std::string_view bytes, Part part, bool may_pause) {
    Reader in(bytes);
    TurnEnd ended = in.get<TurnEnd>();
    if (!in.is_done()) return std::unexpected(worker_lost(worker_->lose("the worker's report is malformed")));
    if (const auto how = difference(ended, part, may_pause))
      return std::unexpected(worker_->disbelieve(*how));
    return ended;
  }

  // How the end of a turn differs from what is known here, as the end of a sentence.
  std::optional<std::string> difference(const TurnEnd& ended, Part part, bool may_pause) const {
    const Report& report = ended.report;
    if (part == Part::kRefused) {
      if (report.host_calls.empty() && ended.paused_at_fuel == paused_at_fuel_) return std::nullopt;
      return "is not that of a turn that is refused";
    }
    if (auto how = answerer_.difference(report, before_)) return how;
    const bool waits = report.outcome == Outcome::kWaiting;
    const bool is_paused = report.outcome == Outcome::kFrozen || waits;
    if (is_paused != ended.paused_at_fuel.has_value() || (is_paused && !waits && !may_pause))
      return "is not paused as it was asked to";
    if (ended.waits_for != answerer_.waits_for()) return "waits for other functions than were called";
    return std::nullopt;
  }

  // Charges what a turn has used and has not yet paid for.
  void pay(const Report& report) {
    const uint64_t fuel = answerer_.fuel_used(report);
    if (options_.budget)
      options_.budget->take_after(policy::Resource::kFuel, fuel - std::min(fuel, fuel_of_turn_));
    fuel_of_turn_ = std::max(fuel, fuel_of_turn_);
  }

  std::shared_ptr<Worker> worker_;
  const sandbox::TemplateSpec spec_;
  const uint32_t subject_;
  RunOptions options_;
  std::shared_ptr<policy::Budget> budget_;
  mutable Answerer answerer_;
  CallsBefore before_;     // for a turn that was paused before the session was restored
  bool has_past_ = false;  // the session was restored or forked
  std::optional<uint64_t> paused_at_fuel_;
  std::vector<sandbox::FunctionCall> waits_for_;
  const std::atomic<bool>* turn_cancel_ = nullptr;  // of the last turn, like its callbacks
  std::function<void(std::string_view)> turn_stdout_, turn_stderr_;
  uint64_t fuel_of_turn_ = 0;  // already charged to a shared budget
};

Result<std::unique_ptr<sandbox::Session>> Worker::create(const sandbox::TemplateSpec& spec,
                                                         RunOptions options) {
  raise_walls({.memory_bytes = options.policy.limits.memory_bytes});
  auto session = std::make_unique<RemoteSession>(shared_from_this(), spec, std::move(options));
  MEMBRANE_TRY(session->begin());
  return session;
}

Result<std::unique_ptr<sandbox::Session>> Worker::restore(const sandbox::TemplateSpec& spec,
                                                          std::span<const uint8_t> kept, RunOptions options) {
  raise_walls({.memory_bytes = options.policy.limits.memory_bytes});
  auto session = std::make_unique<RemoteSession>(shared_from_this(), spec, std::move(options));
  MEMBRANE_TRY(session->restore({reinterpret_cast<const char*>(kept.data()), kept.size()}));
  return session;
}

}  // namespace membrane::worker
