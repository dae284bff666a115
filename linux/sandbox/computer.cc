#include "linux/sandbox/computer.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "linux/sandbox/live_computer.h"
#include "linux/sandbox/start_computer.h"

namespace membrane::linux {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLookEvery = std::chrono::milliseconds(100);  // at `cancelled`
constexpr auto kPatience = std::chrono::seconds(2);  // for a kernel process that was told to end the command

double us_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

// A thread that passes a descriptor's bytes to a command until either ends.
class InputPump {
 public:
  InputPump(int from, Command& to) : from_(from), stop_(eventfd(0, EFD_CLOEXEC)) {
    if (from_ < 0) to.end_input();
    else thread_ = std::thread([this, &to] { pump(to); });
  }
  ~InputPump() {
    const uint64_t one = 1;
    if (write(stop_.number(), &one, sizeof one) < 0) {}  // it has room
    if (thread_.joinable()) thread_.join();
  }
  InputPump(const InputPump&) = delete;
  InputPump& operator=(const InputPump&) = delete;

 private:
  void pump(Command& to) {
    std::array<char, 65536> piece;
    for (;;) {
      std::array<pollfd, 2> looked = {{{from_, POLLIN, 0}, {stop_.number(), POLLIN, 0}}};
      if (poll(looked.data(), looked.size(), -1) < 0 && errno != EINTR) break;
      if (looked[1].revents != 0) return;
      if (looked[0].revents == 0) continue;
      const ssize_t got = read(from_, piece.data(), piece.size());
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) break;
      if (!to.write_input({piece.data(), static_cast<size_t>(got)})) return;
    }
    to.end_input();
  }

  const int from_;
  const HostFile stop_;
  std::thread thread_;
};

// The output and end of a command, for a caller that waits for it; the bytes are passed on to the caller up
// to the limit.
class Watched {
 public:
  Watched(const ComputerStreams& streams, uint64_t most_bytes) : streams_(streams), most_bytes_(most_bytes) {}

  CommandEvents events() {
    return {.on_output = [this](std::string_view bytes) { take(bytes, streams_.on_output); },
            .on_error = [this](std::string_view bytes) { take(bytes, streams_.on_error); },
            .on_end =
                [this](const CommandEnd& end) {
                  const std::scoped_lock lock(mutex_);
                  end_ = end;
                  news_.notify_all();
                }};
  }
  // Waits until the command has ended, has printed too much, or the time has come.
  void wait(Clock::time_point until) {
    std::unique_lock lock(mutex_);
    news_.wait_until(lock, until, [this] { return end_ || (was_too_much_ && !was_seen_); });
  }
  [[nodiscard]] std::optional<CommandEnd> end() {
    const std::scoped_lock lock(mutex_);
    return end_;
  }
  [[nodiscard]] bool was_too_much() {
    const std::scoped_lock lock(mutex_);
    was_seen_ = was_too_much_;
    return was_too_much_;
  }
  [[nodiscard]] uint64_t bytes() {
    const std::scoped_lock lock(mutex_);
    return bytes_;
  }

 private:
  void take(std::string_view bytes, const std::function<void(std::string_view)>& to) {
    {
      const std::scoped_lock lock(mutex_);
      const uint64_t room = most_bytes_ - bytes_;
      if (bytes.size() > room) {
        was_too_much_ = true;
        news_.notify_all();
      }
      bytes = bytes.substr(0, room);
      bytes_ += bytes.size();
    }
    if (to && !bytes.empty()) to(bytes);
  }

  const ComputerStreams& streams_;
  const uint64_t most_bytes_;
  std::mutex mutex_;  // of what follows
  std::condition_variable news_;
  uint64_t bytes_ = 0;
  bool was_too_much_ = false, was_seen_ = false;  // was_too_much() said so
  std::optional<CommandEnd> end_;
};

// The reason for which the owner ends it, if any.
std::optional<ComputerEnd> watch(Watched& watched, const ComputerLimits& limits, Clock::time_point begun,
                                 const std::function<bool()>& cancelled) {
  for (;;) {
    if (watched.was_too_much()) return ComputerEnd::kOutOfOutput;
    if (watched.end()) return std::nullopt;
    const Clock::time_point now = Clock::now();
    if (cancelled && cancelled()) return ComputerEnd::kCancelled;
    if (limits.wall && now - begun > *limits.wall) return ComputerEnd::kTimedOut;
    auto until = now + kLookEvery;
    if (limits.wall) until = std::min(until, begun + *limits.wall + std::chrono::microseconds(1));
    watched.wait(until);
  }
}

void set_end(ComputerReport& report, const CommandEnd& end) {
  report.end = end.was_out_of_memory && end.was_signalled ? ComputerEnd::kOutOfMemory
               : end.reached.cpu > 0                      ? ComputerEnd::kOutOfCpu
               : end.was_signalled                        ? ComputerEnd::kSignalled
                                                          : ComputerEnd::kExited;
  report.status = end.status;
}

void set_usage(ComputerReport& report, LiveComputer& computer) {
  auto usage = computer.usage();
  if (!usage) {
    report.end = ComputerEnd::kFailed;
    report.reason = usage.error().to_string();
    return;
  }
  report.memory_peak_bytes = usage->memory_peak_bytes;
  report.preemptions = usage->preemptions;
  report.absent_calls = std::move(usage->absent_calls);
}

ComputerReport failed(const Error& error) {
  ComputerReport report;
  if (const auto status = status_of_unstarted(error)) {
    report.end = ComputerEnd::kNotStarted;
    report.status = *status;
    report.reason = error.message;
    return report;
  }
  report.reason = error.to_string();
  return report;
}

}  // namespace

std::optional<int> status_of_unstarted(const Error& error) {
  constexpr int kNotThere = 127, kNotRun = 126;
  switch (error.code) {
    case ErrorCode::kNotFound: return kNotThere;
    case ErrorCode::kDenied:
    case ErrorCode::kInvalidInput: return kNotRun;
    default: return std::nullopt;
  }
}

Result<ComputerReport> run_computer(const Computer& wanted, const ComputerStreams& streams,
                                    const std::function<bool()>& cancelled) {
  const Clock::time_point begun = Clock::now();
  MEMBRANE_ASSIGN(auto computer, start_computer({.image = wanted.image,
                                                 .kept = -1,
                                                 .host_name = wanted.host_name,
                                                 .limits = wanted.limits,
                                                 .deterministic = wanted.deterministic,
                                                 .platform = wanted.platform,
                                                 .network = wanted.network,
                                                 .directories = wanted.directories,
                                                 .on_forked = streams.on_forked}));
  if (streams.on_made) streams.on_made();
  Watched watched(streams, wanted.limits.output_bytes);
  const auto command = computer->start({.arguments = wanted.arguments,
                                        .environment = wanted.environment,
                                        .directory = wanted.directory,
                                        .user = wanted.user,
                                        .group = wanted.group,
                                        .terminal = wanted.terminal},
                                       watched.events());
  if (!command && command.error().code == ErrorCode::kInvalidArgument)
    return std::unexpected(command.error());
  ComputerReport report = command ? ComputerReport() : failed(command.error());
  report.platform = computer->platform();
  report.missing_walls = computer->missing_walls();
  if (!command) return report;
  const Clock::time_point runs = Clock::now();
  report.start_us = us_between(begun, runs);
  const auto companion = streams.accompany ? streams.accompany(**command) : nullptr;
  InputPump pump(streams.input, **command);
  const auto stopped_for = watch(watched, wanted.limits, begun, cancelled);
  report.run_us = us_between(runs, Clock::now());
  if (stopped_for) {
    report.end = *stopped_for;
    (*command)->signal(SIGKILL);
    watched.wait(Clock::now() + kPatience);
  }
  const auto end = watched.end();
  if (end && !stopped_for) set_end(report, *end);
  if (end) {
    report.reached = end->reached;
    set_usage(report, *computer);
    if (streams.at_end) streams.at_end(*computer);
  } else {
    computer.reset();  // whatever the kernel process does
  }
  report.output_bytes = watched.bytes();
  return report;
}

}  // namespace membrane::linux
