#include "worker/worker.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "sandbox/run/frozen_state.h"
#include "sandbox/run/report_building.h"
#include "sandbox/run/run_context.h"
#include "sandbox/run/stops.h"
#include "worker/answerer.h"
#include "worker/command.h"
#include "worker/inside.h"
#include "worker/messages.h"
#include "worker/resumed.h"

namespace membrane::worker {
namespace {

using sandbox::Outcome;
using sandbox::Report;
using sandbox::RunOptions;

constexpr std::chrono::milliseconds kLookAtCancel(20);
constexpr uint64_t kMostFiles = 100'000;

}  // namespace

// -- one command -------------------------------------------------------------------------------------

// A worker's messages while it executes a command, each bounded by the policy.
class Worker::Conversation {
 public:
  explicit Conversation(const Command& command) : command_(command) {
    if (command.options == nullptr) return;
    const policy::Limits& limits = command.options->policy.limits;
    const uint64_t most_per_byte = command.options->hears_bytes ? 1 : 3;  // as text, of U+FFFD
    output_left_ = most_per_byte * limits.output_bytes + (1u << 20);      // the worker cuts what does not fit
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

// Killed children. To wait for the end of one takes half a millisecond; so they are reaped when the next one is added,
// and at last before the process exits.
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
  void reap_all() {
    const std::lock_guard lock(mutex_);
    for (const pid_t each : std::exchange(pids_, {}))
      while (waitpid(each, nullptr, 0) < 0 && errno == EINTR) {}
  }

 private:
  std::mutex mutex_;
  std::vector<pid_t> pids_;
};

}  // namespace

Worker::~Worker() { end(); }

void Worker::end() {
  kill();
  const bool is_child = !of_ && pid_ != 0;  // a zygote reaps its own
  if (is_child && !std::exchange(is_reaped_, true)) Dying::instance().add(pid_);
}

void Worker::reap_ended() { Dying::instance().reap_all(); }

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

Report Worker::disbelieve(const std::string& how) {
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
  return report;
}

std::expected<Report, Report> Worker::judge(std::string_view bytes, const RunOptions& options,
                                            const Answerer& answerer, const Past& past) {
  Reader in(bytes);
  Report report = in.get<Report>();
  if (!in.is_done()) return std::unexpected(worker_lost(lose("the worker's report is malformed")));
  auto how = answerer.difference(report, past.calls);
  const bool is_frozen = report.outcome == Outcome::kFrozen;
  if (!how && is_frozen && !options.freeze_after_fuel) how = "is of a run that nobody asked to freeze";
  if (!how && is_frozen == report.snapshot.empty())
    how = is_frozen ? "comes without a snapshot" : "comes with a snapshot of a run that has ended";
  if (!how && is_frozen) how = difference_of_snapshot(report);
  if (how) return std::unexpected(disbelieve(*how));
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
  host::World& world = answerer.world();
  auto judged =
      bytes ? judge(*bytes, options, answerer, past) : std::unexpected(what.unanswered(bytes.error()));
  if (judged && judged->outcome == Outcome::kFrozen) {
    auto snapshot =
        with_truth(judged->snapshot, world.flow_state(), amounts_used(past.used, at_start, world.left()));
    if (!snapshot) {
      judged = std::unexpected(worker_lost(lose("the worker's snapshot is malformed")));
    } else {
      judged->snapshot = *std::move(snapshot);
      judged->snapshot_bytes = judged->snapshot.size();
    }
  }
  Report report = judged ? *std::move(judged) : std::move(judged.error());
  if (judged) {
    Answerer::complete(past.calls, report);
    report.flows = world.flow_report();
    answerer.tell_late_call(limits, Answerer::Of::kRun, report);
    report.tokens_used = std::max(report.tokens_used, world.tokens_used());
    sandbox::report_end_of_replay(world, report);
  } else {
    answerer.write_calls(past.calls, report);
    sandbox::report_unanswered(report);
  }
  if (options.budget) options.budget->take_after(policy::Resource::kFuel, answerer.fuel_used(report));
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

}  // namespace membrane::worker
