#include "worker/worker.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/sanitized_testing.h"
#include "engine/freeze/snapshot.h"
#include "sandbox/frozen_state.h"
#include "sandbox/report_building.h"
#include "sandbox/session_state.h"
#include "sandbox/turn_inputs.h"
#include "worker/answerer.h"
#include "worker/inside.h"
#include "worker/messages.h"
#include "worker/program.h"

namespace membrane::worker {
namespace {

using sandbox::Outcome;
using sandbox::Report;
using sandbox::RunOptions;

// A worker ends by itself when its guest's time is over; one that does not is killed.
constexpr std::chrono::seconds kGrace(kIsSanitized ? 10 : 3);
constexpr std::chrono::seconds kSetUpTime(120);
// For commands between a session's turns, which run no guest code: a worker that takes longer hangs.
constexpr std::chrono::seconds kFileTime(kIsSanitized ? 100 : 10), kKeepTime(kIsSanitized ? 120 : 30);
constexpr std::chrono::milliseconds kLookAtCancel(20);
constexpr uint64_t kMostBytesOfSetUp = 1u << 20;
constexpr uint64_t kReportBytes = 64u << 20;  // of a report without the program's output
constexpr uint64_t kMostFiles = 100'000;

// The worker does not need the headers of grants, nor where things are on this machine.
policy::Policy for_worker(policy::Policy policy) {
  for (policy::HttpGrant& grant : policy.http) grant.headers.clear();
  for (policy::SqlGrant& grant : policy.sql) grant.path.clear();
  return policy;
}

std::chrono::seconds time_for(Kind kind) {
  switch (kind) {
    case Kind::kFiles:
    case Kind::kReadFile:
    case Kind::kPutFile:
    case Kind::kActOnFiles:
    case Kind::kPrivateBytes:
    case Kind::kSkipped:
    case Kind::kClose: return kFileTime;
    case Kind::kAbandon:
    case Kind::kKeep: return kKeepTime;
    default: return kSetUpTime;
  }
}

SharedLeft left_of(const RunOptions& options) {
  constexpr uint64_t kLongestMs = 30ull * 86'400'000;
  if (!options.budget) return {};
  const uint64_t wall_ms = options.budget->wall_left_ms();
  return {options.budget->left(policy::Resource::kFuel),
          wall_ms > kLongestMs ? std::nullopt : std::optional(wall_ms)};
}

GuestOptions guest_options(const RunOptions& options) {
  GuestOptions said;
  said.policy = for_worker(options.policy);
  said.tier = options.tier;
  const SharedLeft left = left_of(options);
  said.fuel_left = left.fuel;
  said.wall_left_ms = left.wall_ms;
  said.hears_stdout = options.on_stdout != nullptr;
  said.hears_stderr = options.on_stderr != nullptr;
  said.hears_bytes = options.hears_bytes;
  said.hears_files = options.on_file != nullptr;
  said.reads_input = options.read_input != nullptr;
  said.input_is_ambient = options.input_is_ambient;
  said.freeze_after_fuel = options.freeze_after_fuel;
  said.packages_by = options.packages_by;
  said.is_single_turn = options.is_single_turn;
  if (options.guest_functions) said.functions = options.guest_functions->description;
  if (options.sources)
    said.sources = {.sleep = options.sources->sleep,
                    .key = options.sources->key,
                    .skipped_ns = options.sources->skipped_ns};
  if (options.time_zone) said.time_zone = *options.time_zone;
  return said;
}

// The report of a turn whose worker was lost.
Report lost(const Error& error, const std::atomic<bool>* cancel, bool was_late,
            const policy::Limits& limits) {
  Report report;
  const bool is_cancelled = cancel != nullptr && *cancel;
  report.outcome = is_cancelled ? Outcome::kCancelled : was_late ? Outcome::kTimedOut : Outcome::kFailed;
  if (is_cancelled || was_late) {
    report.errors.push_back(sandbox::stop_error(report.outcome, limits));
    report.errors.back().message += ": " + error.message;
  } else {
    report.errors.push_back({"worker_lost", error.message, {}, error.hint, {}, {}});
  }
  return report;
}

}  // namespace

// -- calls that were made before ---------------------------------------------------------------------

namespace {

CallsBefore calls_of(host::Dispatcher::History history) {
  return {.calls = std::move(history.records), .dropped = history.records_dropped, .began_elsewhere = true};
}

// For a FrozenState or a KeptPause.
template <typename Kept>
host::World::Amounts amounts_of(const Kept& kept) {
  return {kept.host_calls, kept.bytes_in, kept.bytes_out, kept.tokens};
}
template <typename Kept>
void set_amounts(const host::World::Amounts& used, Kept& kept) {
  kept.host_calls = used.host_calls;
  kept.bytes_in = used.bytes_in;
  kept.bytes_out = used.bytes_out;
  kept.tokens = used.tokens;
}
// `before` and what was taken since there were `at_start`.
host::World::Amounts amounts_used(const host::World::Amounts& before, const host::World::Amounts& at_start,
                                  const host::World::Amounts& left) {
  const auto used = [](uint64_t before_it, uint64_t start, uint64_t now) {
    return before_it + (start - std::min(start, now));
  };
  return {used(before.host_calls, at_start.host_calls, left.host_calls),
          used(before.bytes_in, at_start.bytes_in, left.bytes_in),
          used(before.bytes_out, at_start.bytes_out, left.bytes_out),
          used(before.tokens, at_start.tokens, left.tokens)};
}

Result<sandbox::FrozenState> state_in_snapshot(std::span<const uint8_t> snapshot) {
  MEMBRANE_ASSIGN(const auto part, engine::embedder_part(snapshot));
  return sandbox::read_state(part);
}

// The supervisor decides what was read and charged to the budget, also in bytes that a worker makes.
Result<std::vector<uint8_t>> with_truth(std::span<const uint8_t> snapshot, const host::FlowState& flows,
                                        const host::World::Amounts& used) {
  MEMBRANE_ASSIGN(sandbox::FrozenState state, state_in_snapshot(snapshot));
  if (state.flows == flows && amounts_of(state) == used) return std::vector(snapshot.begin(), snapshot.end());
  state.flows = flows;
  set_amounts(used, state);
  return engine::with_embedder_part(snapshot, sandbox::write_state(std::move(state)));
}

}  // namespace

// -- one command -------------------------------------------------------------------------------------

struct Worker::Command {
  Kind kind;
  uint32_t subject = 0;
  std::string payload = {};
  const RunOptions* options = nullptr;  // its callbacks receive the output; null: no output is expected
  std::vector<std::pair<uint32_t, Answerer*>> answerers = {};
  Clock::time_point until = Clock::now() + kSetUpTime;
  const std::atomic<bool>* cancel = nullptr;
  std::vector<Descriptor> came_along = {};
  bool was_late = false;  // the worker was killed at its deadline
};

// A worker's messages while it executes a command, each bounded by the policy.
class Worker::Conversation {
 public:
  explicit Conversation(const Command& command) : command_(command) {
    if (command.options == nullptr) return;
    const policy::Limits& limits = command.options->policy.limits;
    output_left_ = limits.output_bytes + (1u << 20);  // the worker cuts what does not fit
    file_bytes_left_ = 2 * limits.memory_bytes + (512ull << 20);
  }

  Status forward_output(std::string_view payload) {
    Reader in(payload);
    const bool is_error = in.get<bool>();
    const auto text = in.get<std::string_view>();
    if (!in.is_done() || text.empty() || command_.options == nullptr || text.size() > output_left_)
      return no_message();
    output_left_ -= text.size();
    const auto& hears = is_error ? command_.options->on_stderr : command_.options->on_stdout;
    if (hears) hears(text);
    return {};
  }

  Status hear_file(std::string_view payload) {
    Reader in(payload);
    const auto path = in.get<std::string_view>(), bytes = in.get<std::string_view>();
    if (!in.is_done() || command_.options == nullptr || !command_.options->on_file || files_left_-- == 0 ||
        payload.size() > file_bytes_left_)
      return no_message();
    file_bytes_left_ -= payload.size();
    command_.options->on_file(path, bytes);
    return {};
  }

  Result<std::string> answer(const Frame& request) {
    for (const auto& [subject, answerer] : command_.answerers)
      if (subject == request.subject) return answerer->answer(request.payload);
    return std::unexpected(no_message().error());
  }

  static Status no_message() {
    return fail(ErrorCode::kInvalidInput, "the worker broke the protocol, and was ended");
  }

 private:
  const Command& command_;
  uint64_t output_left_ = 0, file_bytes_left_ = 0;
  uint64_t files_left_ = kMostFiles;
};

// A call that a command has made on this thread, such as a function of the embedder, ends before the command.
std::unexpected<Error> Worker::busy() {
  return fail(ErrorCode::kInvalidArgument, "a turn of the session is running",
              "Do this after it: what a turn calls cannot use the turn's own session.");
}

std::unexpected<Error> Worker::too_late(const Command& what) {
  return fail(ErrorCode::kTimedOut, what.options != nullptr
                                        ? "the worker did not stop, and was ended"
                                        : "the worker did not answer in time, and was ended");
}

Result<std::string> Worker::converse(Command& what) {
  Conversation conversation(what);
  bool was_asked_to_stop = false, was_answered_late = false;
  // The time by which the worker must be done, which is soon once it was cancelled.
  const auto end = [&] {
    if (what.cancel != nullptr && *what.cancel) {
      if (!std::exchange(was_asked_to_stop, true)) what.until = std::min(what.until, Clock::now() + kGrace);
      signal(SIGUSR1);  // repeated, since one may arrive before the worker has begun
    }
    return what.until;
  };
  const auto send = [&](Kind kind, uint32_t subject, std::string_view payload) {
    const Status sent = channel_.send(static_cast<uint16_t>(kind), subject, payload, {}, what.until, end);
    what.was_late = !sent && sent.error().code == ErrorCode::kTimedOut;
    // For a turn, the report says that the answers of its requests were not taken.
    return what.was_late && what.options == nullptr ? Status(too_late(what)) : sent;
  };
  MEMBRANE_TRY(send(what.kind, what.subject, what.payload));
  while (true) {
    const auto now = Clock::now();
    if (now >= end()) {
      what.was_late = true;
      return too_late(what);
    }
    const bool is_polled = what.options != nullptr && what.options->on_poll;
    if (is_polled) what.options->on_poll();
    const auto look_again = is_polled || what.cancel != nullptr ? now + kLookAtCancel : what.until;
    MEMBRANE_ASSIGN(auto frame, channel_.receive(std::min(what.until, look_again)));
    if (!frame) continue;
    switch (static_cast<Kind>(frame->kind)) {
      case Kind::kDone:
        if (frame->subject != what.subject) return std::unexpected(Conversation::no_message().error());
        what.came_along = std::move(frame->descriptors);
        return std::move(frame->payload);
      case Kind::kOutput: MEMBRANE_TRY(conversation.forward_output(frame->payload)); break;
      case Kind::kFile: MEMBRANE_TRY(conversation.hear_file(frame->payload)); break;
      case Kind::kRequest: {
        MEMBRANE_ASSIGN(const std::string answer, conversation.answer(*frame));
        // A function of the embedder took longer than the turn may: the worker may still report how that
        // ended, once.
        if (const auto answered = Clock::now(); answered >= end() && !std::exchange(was_answered_late, true))
          what.until = answered + kGrace;
        MEMBRANE_TRY(send(Kind::kAnswer, frame->subject, answer));
        break;
      }
      default: return std::unexpected(Conversation::no_message().error());
    }
  }
}

Result<std::string> Worker::command(Command& what) {
  if (!is_own())
    return fail(ErrorCode::kUnavailable, "the session is that of the process that this one was forked from",
                "Begin a new session in this process.");
  const std::lock_guard lock(mutex_);
  if (is_conversing_) return busy();
  if (!is_alive())
    return fail(ErrorCode::kUnavailable, "the worker is gone: " + problem(), "Begin a new session.");
  is_conversing_ = true;
  auto answer = converse(what);
  is_conversing_ = false;
  if (answer) return answer;
  return std::unexpected(lose(answer.error().code == ErrorCode::kUnavailable ? "" : answer.error().message));
}

// `how`: what it did, if known; otherwise how it ended says it.
Error Worker::lose(std::string how) {
  kill();
  problem_ = how.empty() ? how_it_ended() : std::move(how);
  return {ErrorCode::kUnavailable, problem_, "What it did until then is not known; begin a new session."};
}

// -- the process ---------------------------------------------------------------------------------------

Worker::Worker(Channel channel, Descriptor process, int pid, std::shared_ptr<Zygote> of)
    : channel_(std::move(channel)), process_(std::move(process)), pid_(pid), of_(std::move(of)) {}

namespace {

// Killed children whose end nobody waits for, which would add half a millisecond to a command. They are
// reaped when the next one is added.
class Dying {
 public:
  static Dying& instance() {
    static Dying* const all = new Dying;  // outlives every worker, even static ones
    return *all;
  }
  void add(pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.push_back(pid);
    std::erase_if(pids_, [](pid_t each) { return waitpid(each, nullptr, WNOHANG) != 0; });
  }

 private:
  std::mutex mutex_;
  std::vector<pid_t> pids_;
};

}  // namespace

Worker::~Worker() {
  kill();
  if (!of_ && !is_reaped_ && pid_ != 0) Dying::instance().add(pid_);  // a zygote reaps by itself
}

Result<std::shared_ptr<Worker>> Worker::start() { return start_in({}); }

Result<std::shared_ptr<Worker>> Worker::start_in(const Enclosure& how) {
  MEMBRANE_ASSIGN(auto ends, Channel::make_pair());
  Walls walls;
  MEMBRANE_ASSIGN(const NewProcess made, new_process(walls));
  if (made.pid == 0) {
    {
      const Descriptor others(std::move(ends.first));
    }
    enclose(how, walls);
    work(std::move(ends.second), std::move(walls));
  }
  return adopt(std::move(ends.first), Descriptor(made.process_file), made.pid);
}

std::shared_ptr<Worker> Worker::adopt(Descriptor socket, Descriptor process, int pid) {
  return std::shared_ptr<Worker>(
      new Worker(Channel(std::move(socket), kMostBytesOfSetUp), std::move(process), pid, nullptr));
}

void Worker::signal(int number) const {
  if (process_) syscall(SYS_pidfd_send_signal, process_.number(), number, nullptr, 0);
}

void Worker::kill() {
  if (!is_own()) return;
  is_lost_ = true;
  signal(SIGKILL);
}

std::string Worker::problem() {
  const std::lock_guard lock(mutex_);
  return !is_lost_ || !problem_.empty() ? problem_ : "it was ended";
}

std::string Worker::how_it_ended() {
  if (std::exchange(is_reaped_, true)) return problem_;
  if (pid_ == 0) return "the process that workers are forked from is gone";
  int status = -1;
  if (of_) status = of_->end_of(pid_);
  else if (waitpid(pid_, &status, 0) != pid_) status = -1;
  if (status < 0) return "the worker is gone";
  if (WIFEXITED(status)) return "the worker ended with exit code " + std::to_string(WEXITSTATUS(status));
  switch (const int by = WTERMSIG(status)) {
    case SIGSYS: return "the worker made a system call that no guest needs, and the system ended it";
    case SIGKILL: return "the worker was killed, because the system ran out of memory or by a person";
    default: return "the worker crashed (" + std::string(strsignal(by)) + ")";
  }
}

// -- templates and walls ---------------------------------------------------------------------------------

std::shared_ptr<Worker> Worker::sibling() const {
  auto made = siblings_ ? siblings_() : of_->spawn();
  return made ? *std::move(made) : nullptr;
}

Status Worker::open(const sandbox::TemplateSpec& spec) {
  Command what{.kind = Kind::kOpenTemplate, .payload = bytes_of(spec)};
  MEMBRANE_ASSIGN(const std::string bytes, command(what));
  Reader in(bytes);
  auto opened = in.get<Status>();
  if (!in.is_done()) return std::unexpected(lose("the worker's answer is malformed"));
  return opened;
}

const Walls& Worker::raise_walls(const WallLimits& limits) {
  const std::lock_guard lock(mutex_);
  const bool is_limited = std::exchange(is_limited_, is_limited_ || limits.memory_bytes != 0);
  if (std::exchange(has_walls_, true)) {
    if (process_ && !is_limited && limits.memory_bytes != 0) limit_memory(process_.number(), limits, walls_);
    return walls_;
  }
  Command what{.kind = Kind::kRaiseWalls, .payload = bytes_of(limits)};
  if (const auto bytes = command(what)) {
    Reader in(*bytes);
    walls_.missing = in.get<decltype(walls_.missing)>();
    if (!in.is_done()) lose("the worker's answer is malformed");
  }
  return walls_;
}

uint64_t Worker::rehearse() {
  raise_walls({});
  Command what{.kind = Kind::kRehearse};
  const auto bytes = command(what);
  if (!bytes) return 0;
  Reader in(*bytes);
  const auto rehearsed = in.get<uint64_t>();
  if (!in.is_done()) lose("the worker's answer is malformed");
  return rehearsed;
}

// -- runs ------------------------------------------------------------------------------------------------

namespace {

// The size limit for a worker's message about a guest of this policy.
uint64_t most_bytes(const policy::Limits& limits) {
  return std::min<uint64_t>(limits.memory_bytes + 8 * limits.output_bytes + kReportBytes, UINT32_MAX);
}

// A snapshot resumes with the calls that its report lists.
std::optional<std::string> difference_of_snapshot(const Report& report) {
  auto state = state_in_snapshot(report.snapshot);
  if (!state) return "comes with an invalid snapshot";
  const CallsBefore frozen = calls_of(std::move(state->history));
  const auto is_same = [](const host::CallRecord& call, const sandbox::HostCallRecord& line) {
    return call.name == line.name && call.arguments == line.arguments && call.bytes_in == line.bytes_in &&
           call.bytes_out == line.bytes_out && sandbox::line_of(call).error == line.error &&
           call.reason == line.reason && call.grant == line.grant;
  };
  if (std::ranges::equal(frozen.calls, report.host_calls, is_same) &&
      frozen.dropped == report.host_calls_dropped)
    return std::nullopt;
  return "comes with a snapshot that lists other host calls";
}

std::shared_ptr<policy::Budget> budget_of(const RunOptions& options) {
  return options.budget ? options.budget : std::make_shared<policy::Budget>(options.policy.limits);
}

}  // namespace

// For a run before it is resumed in a worker.
struct Worker::Past {
  CallsBefore calls;
  host::FlowState flows;
  host::World::Amounts used;
  bool has_input = false;
};

Report Worker::run(const sandbox::Program& program, const RunOptions& options) {
  return run_alone(Kind::kRun, bytes_of(guest_options(options), program), options,
                   {.calls = {}, .flows = {}, .used = {}, .has_input = !program.input.empty()});
}

Report Worker::thaw(std::span<const uint8_t> snapshot, const RunOptions& options) {
  const std::string_view bytes(reinterpret_cast<const char*>(snapshot.data()), snapshot.size());
  // The worker refuses bytes that are not a snapshot.
  auto state = state_in_snapshot(snapshot);
  if (!state) state = sandbox::FrozenState();
  return run_alone(Kind::kThaw, bytes_of(guest_options(options), bytes), options,
                   {.calls = calls_of(std::move(state->history)),
                    .flows = std::move(state->flows),
                    .used = amounts_of(*state),
                    .has_input = !state->input.empty()});
}

Report Worker::disbelieve(const std::string& how, Answerer& answerer, const CallsBefore& before) {
  Report report;
  report.outcome = Outcome::kFailed;
  report.errors.push_back(
      {"worker_differs",
       lose("the worker's report " + how).message,
       {},
       "Its list of host calls is the supervisor's own, and true. What else the program did or said "
       "is not known: start it again.",
       {},
       {}});
  answerer.tell_calls(before, report);
  report.flows = answerer.world().flow_report();
  return report;
}

Report Worker::run_alone(Kind kind, std::string payload, const RunOptions& options, const Past& past) {
  const std::lock_guard lock(mutex_);
  const policy::Limits& limits = options.policy.limits;
  raise_walls(
      {.hashes = kind == Kind::kThaw || options.freeze_after_fuel, .memory_bytes = limits.memory_bytes});
  channel_.set_most_bytes(
      std::min<uint64_t>(most_bytes(limits) + (options.freeze_after_fuel ? UINT32_MAX : 0), UINT32_MAX));
  const auto budget = budget_of(options);
  Answerer answerer(options, sandbox::world_of(options, budget), limits.memory_bytes);
  const auto end = std::min(Clock::now() + std::chrono::milliseconds(limits.wall_ms), budget->deadline());
  answerer.bound(end, options.cancel);
  answerer.begin();
  answerer.world().add_flows(past.flows);
  answerer.world().take_after(past.used);
  const host::World::Amounts at_start = answerer.world().left();
  if (past.has_input) answerer.world().note_input();
  const uint32_t subject = ++last_subject_;
  Command what{.kind = kind,
               .subject = subject,
               .payload = std::move(payload),
               .options = &options,
               .answerers = {{subject, &answerer}},
               .until = end + kGrace,
               .cancel = options.cancel};
  const auto bytes = command(what);
  const auto pay = [&](const Report& report) {
    if (options.budget) options.budget->take_after(policy::Resource::kFuel, answerer.fuel_used(report));
  };
  const auto without_report = [&](const Error& error, const std::atomic<bool>* cancel, bool was_late) {
    Report report = lost(error, cancel, was_late, limits);
    answerer.tell_calls(past.calls, report);
    report.flows = answerer.world().flow_report();
    sandbox::report_unanswered(report);
    pay(report);
    return report;
  };
  if (!bytes) return without_report(bytes.error(), options.cancel, what.was_late);
  Reader in(*bytes);
  Report report = in.get<Report>();
  if (!in.is_done()) return without_report(lose("the worker's report is malformed"), nullptr, false);
  auto how = answerer.difference(report, past.calls);
  const bool is_frozen = report.outcome == Outcome::kFrozen;
  if (!how && is_frozen && !options.freeze_after_fuel) how = "is of a run that nobody asked to freeze";
  if (!how && is_frozen == report.snapshot.empty())
    how = is_frozen ? "comes without a snapshot" : "comes with a snapshot of a run that has ended";
  if (!how && is_frozen) how = difference_of_snapshot(report);
  if (how) {
    report = disbelieve(*how, answerer, past.calls);
    pay(report);
    return report;
  }
  Answerer::complete(past.calls, report);
  host::World& world = answerer.world();
  report.flows = world.flow_report();
  if (is_frozen) {
    auto snapshot =
        with_truth(report.snapshot, world.flow_state(), amounts_used(past.used, at_start, world.left()));
    if (!snapshot) return without_report(lose("the worker's snapshot is malformed"), nullptr, false);
    report.snapshot = *std::move(snapshot);
    report.snapshot_bytes = report.snapshot.size();
  }
  answerer.tell_late_call(limits, Answerer::Of::kRun, report);
  pay(report);
  report.tokens_used = std::max(report.tokens_used, world.tokens_used());
  sandbox::report_end_of_replay(world, report);
  return report;
}

Result<sandbox::CheckAnswer> Worker::check(const sandbox::CheckRequest& request) {
  constexpr uint64_t kMemoryBytes = 1ull << 30;
  const std::lock_guard lock(mutex_);
  raise_walls({.memory_bytes = kMemoryBytes + 4 * request.source.size()});
  channel_.set_most_bytes(UINT32_MAX);
  Command what{.kind = Kind::kCheck,
               .payload = bytes_of(request),
               .until = Clock::now() + std::chrono::milliseconds(request.wall_ms) + kGrace};
  const auto bytes = command(what);
  if (!bytes && what.was_late) return sandbox::CheckAnswer{.findings = {}, .plain = {}, .was_stopped = true};
  if (!bytes) return std::unexpected(bytes.error());
  Reader in(*bytes);
  auto answer = in.get<sandbox::CheckAnswer>();
  if (!in.is_done()) return std::unexpected(lose("the worker's answer is malformed"));
  return answer;
}

// -- sessions ----------------------------------------------------------------------------------------------

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
    const policy::Limits& limits = options_.policy.limits;
    const auto wall_end = Clock::now() + std::chrono::milliseconds(limits.wall_ms);
    if (!options_.budget) budget_->set_deadline(wall_end);
    const auto end = std::min(wall_end, budget_->deadline());
    host::World& world = answerer_.world();
    RunOptions options = options_;
    if (turn_cancel_ != nullptr) options.cancel = turn_cancel_;
    if (turn_stdout_) options.on_stdout = turn_stdout_;
    if (turn_stderr_) options.on_stderr = turn_stderr_;
    answerer_.bound(end, options.cancel);
    const uint64_t tokens_before = world.tokens_used();
    worker_->channel_.set_most_bytes(most_bytes(limits));
    Worker::Command what{.kind = kind,
                         .subject = subject_,
                         .payload = std::move(payload),
                         .options = &options,
                         .answerers = {{subject_, &answerer_}},
                         .until = end + kGrace,
                         .cancel = options.cancel};
    const auto bytes = worker_->command(what);
    answerer_.pause();
    const auto pay = [&](const Report& report) {
      const uint64_t fuel = answerer_.fuel_used(report);
      if (options_.budget)
        options_.budget->take_after(policy::Resource::kFuel, fuel - std::min(fuel, fuel_of_turn_));
      fuel_of_turn_ = std::max(fuel, fuel_of_turn_);
    };
    const auto without_report = [&](const Error& error, const std::atomic<bool>* cancel, bool was_late) {
      Report report = lost(error, cancel, was_late, limits);
      answerer_.tell_calls(before_, report);
      report.flows = world.flow_report();
      sandbox::report_unanswered(report);
      pay(report);
      return report;
    };
    if (!bytes) return without_report(bytes.error(), options.cancel, what.was_late);
    Reader in(*bytes);
    TurnEnd ended = in.get<TurnEnd>();
    if (!in.is_done())
      return without_report(worker_->lose("the worker's report is malformed"), nullptr, false);
    Report& report = ended.report;
    if (part == Part::kRefused) {
      report.flows = world.flow_report();
      if (report.host_calls.empty() && ended.paused_at_fuel == paused_at_fuel_) return std::move(report);
      return worker_->disbelieve("is not that of a turn that is refused", answerer_, before_);
    }
    auto how = answerer_.difference(report, before_);
    const bool waits = report.outcome == Outcome::kWaiting;
    const bool is_paused = report.outcome == Outcome::kFrozen || waits;
    if (!how && (is_paused != ended.paused_at_fuel.has_value() || (is_paused && !waits && !may_pause)))
      how = "is not paused as it was asked to";
    if (!how && ended.waits_for != answerer_.waits_for()) how = "waits for other functions than were called";
    if (how) {
      Report told = worker_->disbelieve(*how, answerer_, before_);
      pay(told);
      return told;
    }
    Answerer::complete(before_, report);
    paused_at_fuel_ = ended.paused_at_fuel;
    waits_for_ = std::move(ended.waits_for);
    report.flows = world.flow_report();
    answerer_.tell_late_call(limits, Answerer::Of::kTurn, report);
    sandbox::report_unanswered(report);
    pay(report);
    report.tokens_used = world.tokens_used() - tokens_before;
    if (const auto divergence = world.divergence()) sandbox::report_divergence(*divergence, "turns", report);
    return std::move(report);
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

// -- a zygote ------------------------------------------------------------------------------------------------

Result<std::shared_ptr<Zygote>> Zygote::start() {
  MEMBRANE_ASSIGN(auto worker, Worker::start_in({.is_zygote = true}));
  return std::shared_ptr<Zygote>(new Zygote(std::move(worker)));
}

Result<std::shared_ptr<Zygote>> Zygote::start_program(const std::string& path) {
  MEMBRANE_ASSIGN(auto started, worker::start_program(path));
  started.channel.set_most_bytes(kMostBytesOfSetUp);
  return std::shared_ptr<Zygote>(new Zygote(std::shared_ptr<Worker>(
      new Worker(std::move(started.channel), std::move(started.process), 0, nullptr))));
}

Status Zygote::open(const sandbox::TemplateSpec& spec) {
  const std::lock_guard lock(mutex_);
  return worker_->open(spec);
}

Result<std::shared_ptr<Worker>> Zygote::spawn() {
  const std::lock_guard lock(mutex_);
  Worker::Command what{.kind = Kind::kSpawn};
  MEMBRANE_ASSIGN(const std::string bytes, worker_->command(what));
  Reader in(bytes);
  const auto number = in.get<Result<int32_t>>();
  if (!number) return std::unexpected(number.error());
  if (!in.is_done() || what.came_along.size() != 2)
    return std::unexpected(worker_->lose("the zygote's answer is malformed"));
  return std::shared_ptr<Worker>(new Worker(Channel(std::move(what.came_along[0]), kMostBytesOfSetUp),
                                            std::move(what.came_along[1]), *number, shared_from_this()));
}

int Zygote::end_of(int number) {
  const std::lock_guard lock(mutex_);
  Worker::Command what{.kind = Kind::kEndOf, .payload = bytes_of(int32_t{number})};
  const auto bytes = worker_->command(what);
  return bytes ? Reader(*bytes).get<int32_t>() : -1;
}

}  // namespace membrane::worker
