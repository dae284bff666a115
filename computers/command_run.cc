#include "computers/command_run.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include "computers/outcome.h"
#include "sandbox/report_building.h"
#include "wasi/text_stream.h"

namespace membrane::computers {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookAround(20);
// The amount that a pipe or terminal holds before anybody reads.
constexpr size_t kFitsAtOnce = 4096;
// A killed command ends within moments, or its computer is lost.
constexpr std::chrono::seconds kLastPatience(10);

// A command's output: counted, and reported in whole characters. The computer's thread uses it, and it
// outlives its use there.
class Printed {
 public:
  Printed(uint64_t most_bytes, bool is_exact, std::function<void(std::string_view)> on_output,
          std::function<void(std::string_view)> on_error)
      : most_bytes_(most_bytes), is_exact_(is_exact), on_{std::move(on_output), std::move(on_error)} {}

  void add(bool is_error, std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    const std::string_view part = bytes.substr(0, std::min<uint64_t>(bytes.size(), most_bytes_ - count_));
    count_ += part.size();
    if (part.size() < bytes.size()) is_too_much_ = true;
    wasi::TextStream& characters = characters_[is_error ? 1 : 0];
    tell(is_error, is_exact_ ? characters.add_bytes(part) : characters.add(part));
  }
  // Reports nothing more.
  void finish(sandbox::Report& report) {
    const std::lock_guard lock(mutex_);
    for (const bool is_error : {false, true}) {
      wasi::TextStream& characters = characters_[is_error ? 1 : 0];
      tell(is_error, is_exact_ ? characters.finish_bytes() : characters.finish());
    }
    is_over_ = true;
    report.stdout_text = std::move(text_[0]);
    report.stderr_text = std::move(text_[1]);
  }
  [[nodiscard]] bool is_too_much() const { return is_too_much_; }

 private:
  void tell(bool is_error, const std::string& text) {
    const size_t at = is_error ? 1 : 0;
    if (text.empty()) return;
    if (on_[at]) on_[at](text);
    text_[at] += text;
  }

  const uint64_t most_bytes_;
  const bool is_exact_;
  const std::function<void(std::string_view)> on_[2];
  std::mutex mutex_;  // guards what follows
  wasi::TextStream characters_[2];
  std::string text_[2];
  uint64_t count_ = 0;
  bool is_over_ = false;
  std::atomic<bool> is_too_much_ = false;
};

// Feeds a command that reads at its own pace, so that its limits are checked meanwhile.
class Feeder {
 public:
  Feeder(std::shared_ptr<linux::Command> command, const CommandRun& run)
      : command_(std::move(command)), stop_reading_(run.stop_reading) {
    const bool fits = !run.read_input && run.input.size() <= kFitsAtOnce;
    if (fits) {
      if (!run.input.empty()) static_cast<void>(command_->write_input(run.input));
      if (!run.spec.terminal) command_->end_input();
      return;
    }
    thread_ = std::thread([this, &run] { run.read_input ? pump(run) : write_all(run); });
  }
  // The command has ended, so no write waits.
  ~Feeder() {
    is_over_ = true;
    if (stop_reading_) stop_reading_();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void write_all(const CommandRun& run) {
    if (command_->write_input(run.input)) command_->end_input();
  }
  void pump(const CommandRun& run) {
    while (!is_over_) {
      const sandbox::InputPiece piece = run.read_input(kLookAround);
      if (!piece.bytes.empty() && !command_->write_input(piece.bytes)) return;
      if (!piece.is_end) continue;
      return command_->end_input();
    }
  }

  const std::shared_ptr<linux::Command> command_;
  const std::function<void()> stop_reading_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

struct Ended {
  linux::ComputerEnd end = linux::ComputerEnd::kFailed;
  int status = 0;
  std::string reason = {};
  linux::LimitsReached reached = {};
};

Ended ended_of(const linux::CommandEnd& end) {
  using enum linux::ComputerEnd;
  if (end.was_out_of_memory) return {kOutOfMemory, 0, {}, end.reached};
  if (end.reached.cpu > 0) return {kOutOfCpu, 0, {}, end.reached};
  return {end.was_signalled ? kSignalled : kExited, end.status, {}, end.reached};
}

// Waits until it ends by itself, or a limit or its owner ends it.
Ended wait_for(linux::Command& command, const CommandRun& run, const Printed& printed,
               Clock::time_point until) {
  using enum linux::ComputerEnd;
  for (;;) {
    auto end = command.wait(std::min(until, Clock::now() + kLookAround));
    const bool is_too_much = printed.is_too_much(), is_late = Clock::now() >= until;
    const bool is_cancelled = run.is_cancelled && run.is_cancelled();
    if (end && !is_too_much && !is_cancelled) return ended_of(*end);
    if (!is_too_much && !is_cancelled && !is_late) continue;
    if (!end) {
      command.signal(SIGKILL);
      end = command.wait(Clock::now() + kLastPatience);
      if (!end) return {kFailed, 0, "the command does not end: its computer does not answer"};
    }
    return {is_too_much ? kOutOfOutput : is_cancelled ? kCancelled : kTimedOut, 0, {}, end->reached};
  }
}

}  // namespace

sandbox::Report run_command(linux::LiveComputer& computer, CommandRun run) {
  const auto began = Clock::now();
  sandbox::Report report;
  report.platform = computer.platform();
  const auto printed = std::make_shared<Printed>(run.limits.output_bytes, run.is_exact,
                                                 std::move(run.on_output), std::move(run.on_error));
  auto started = computer.start(
      run.spec, {.on_output = [printed](std::string_view bytes) { printed->add(false, bytes); },
                 .on_error = [printed](std::string_view bytes) { printed->add(true, bytes); },
                 .on_end = nullptr});
  if (!started) {
    const Error& error = started.error();
    const auto status = linux::status_of_unstarted(error);
    if (!status) return sandbox::refusal(error);
    set_outcome(linux::ComputerEnd::kNotStarted, *status, error.message, run.limits, report);
    return report;
  }
  report.compile_us = sandbox::microseconds_since(began);
  const std::shared_ptr<linux::Command> command = *std::move(started);
  if (run.on_begun) run.on_begun(command);
  Ended ended;
  {
    const Feeder feeder(command, run);
    ended = wait_for(*command, run, *printed, began + std::chrono::milliseconds(run.limits.wall_ms));
  }
  printed->finish(report);
  set_reached(ended.reached, report);
  set_outcome(ended.end, ended.status, ended.reason, run.limits, report);
  if (const auto usage = computer.usage()) report.memory_peak_bytes = usage->memory_peak_bytes;
  report.run_us = sandbox::microseconds_since(began) - report.compile_us;
  return report;
}

}  // namespace membrane::computers
