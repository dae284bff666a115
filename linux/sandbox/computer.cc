#include "linux/sandbox/computer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/kernel_process.h"

namespace membrane::linux {

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMostReportBytes = 1u << 20;
constexpr auto kLookEvery = std::chrono::milliseconds(100);  // at `cancelled`
constexpr auto kPatience = std::chrono::seconds(2);          // for a kernel process that was asked to stop

struct Pair {
  HostFile ours, theirs;
};

Status no_more() {
  return fail(ErrorCode::kUnavailable,
              std::string("the system has no room for a sandbox: ") + std::strerror(errno));
}

Status take_pair(Pair& pair, int made, const std::array<int, 2>& ends) {
  if (made != 0) return no_more();
  pair = {HostFile(ends[0]), HostFile(ends[1])};
  return {};
}

Status make_pipe(Pair& pair) {
  std::array<int, 2> ends;
  return take_pair(pair, pipe2(ends.data(), O_CLOEXEC), ends);
}

Status make_socket(Pair& pair) {
  std::array<int, 2> ends;
  return take_pair(pair, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), ends);
}

// What the caller's process has of a running computer.
class Running {
 public:
  Running(const Computer& computer, const ComputerStreams& streams)
      : computer_(computer), streams_(streams) {}
  ~Running() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  Status start();
  Result<ComputerReport> watch(const std::function<bool()>& cancelled);

 private:
  void ask_to_stop(ComputerEnd why);
  bool take(HostFile& from, const std::function<void(std::string_view)>& to);
  [[nodiscard]] bool is_over() const { return control_.number() < 0; }
  Result<ComputerReport> report();

  const Computer& computer_;
  const ComputerStreams& streams_;
  pid_t process_ = 0;
  HostFile output_, errors_, control_;
  std::string told_;  // by the kernel process, so far
  uint64_t output_bytes_ = 0;
  std::optional<ComputerEnd> stopped_for_;
  Clock::time_point patience_ends_;
};

Status Running::start() {
  Pair output, errors, control;
  MEMBRANE_TRY(make_pipe(output));
  MEMBRANE_TRY(make_pipe(errors));
  MEMBRANE_TRY(make_socket(control));
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0) return no_more();
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const KernelStreams theirs = {.input = streams_.input,
                                  .output = output.theirs.number(),
                                  .errors = errors.theirs.number(),
                                  .control = control.theirs.number()};
    _exit(run_kernel_process(computer_, theirs));
  }
  if (streams_.on_started) streams_.on_started();
  output_ = std::move(output.ours);
  errors_ = std::move(errors.ours);
  control_ = std::move(control.ours);
  return {};
}

// It ends by itself then, and reports; the deadline is for one that does not.
void Running::ask_to_stop(ComputerEnd why) {
  if (stopped_for_) return;
  stopped_for_ = why;
  patience_ends_ = Clock::now() + kPatience;
  shutdown(control_.number(), SHUT_WR);
}

// False at the end of the stream.
bool Running::take(HostFile& from, const std::function<void(std::string_view)>& to) {
  std::array<char, 65536> piece;
  const ssize_t got = read(from.number(), piece.data(), piece.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got <= 0) {
    from.close();
    return false;
  }
  std::string_view bytes(piece.data(), static_cast<size_t>(got));
  const uint64_t room = computer_.limits.output_bytes - output_bytes_;
  if (bytes.size() > room) ask_to_stop(ComputerEnd::kOutOfOutput);
  bytes = bytes.substr(0, room);
  output_bytes_ += bytes.size();
  if (to && !bytes.empty()) to(bytes);
  return true;
}

Result<ComputerReport> Running::report() {
  const auto dead = [](std::string why) {
    return ComputerReport{
        .end = ComputerEnd::kFailed, .reason = std::move(why), .platform = {}, .absent_calls = {}};
  };
  int status = 0;
  waitpid(std::exchange(process_, 0), &status, 0);
  auto told = told_.empty() ? fail(ErrorCode::kInvalidInput, "it has told nothing") : report_from_json(told_);
  const std::string how =
      WIFSIGNALED(status) ? std::string(" by signal ") + strsignal(WTERMSIG(status)) : std::string();
  ComputerReport report =
      told ? std::move(*told) : dead("the kernel process was lost" + how + ": " + told.error().message);
  if (stopped_for_) report.end = *stopped_for_;
  report.output_bytes = output_bytes_;
  return report;
}

Result<ComputerReport> Running::watch(const std::function<bool()>& cancelled) {
  const Clock::time_point begun = Clock::now();
  while (output_.number() >= 0 || errors_.number() >= 0 || !is_over()) {
    std::array<pollfd, 3> looked = {
        {{output_.number(), POLLIN, 0}, {errors_.number(), POLLIN, 0}, {control_.number(), POLLIN, 0}}};
    const int found = poll(looked.data(), looked.size(), static_cast<int>(kLookEvery.count()));
    if (found < 0 && errno != EINTR) break;
    const Clock::time_point now = Clock::now();
    if (cancelled && cancelled()) ask_to_stop(ComputerEnd::kCancelled);
    if (computer_.limits.wall && now - begun > *computer_.limits.wall) ask_to_stop(ComputerEnd::kTimedOut);
    if (stopped_for_ && now > patience_ends_) break;
    if (looked[0].revents != 0) take(output_, streams_.on_output);
    if (looked[1].revents != 0) take(errors_, streams_.on_error);
    if (looked[2].revents == 0) continue;
    std::array<char, 4096> piece;
    const ssize_t got = read(control_.number(), piece.data(), piece.size());
    if (got > 0 && told_.size() < kMostReportBytes) told_.append(piece.data(), static_cast<size_t>(got));
    else if (got == 0 || (got < 0 && errno != EINTR)) control_.close();
  }
  if (!is_over()) kill(process_, SIGKILL);
  return report();
}

}  // namespace

Result<ComputerReport> run_computer(const Computer& computer, const ComputerStreams& streams,
                                    const std::function<bool()>& cancelled) {
  if (access(computer.image.c_str(), R_OK) != 0)
    return fail(ErrorCode::kNotFound, "there is no image " + computer.image,
                "`membrane image ls` lists those that there are; `membrane image import FILE.tar -t NAME` "
                "makes one.");
  Running running(computer, streams);
  MEMBRANE_TRY(running.start());
  return running.watch(cancelled);
}

}  // namespace membrane::linux
