#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

extern char** environ;

namespace membrane {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenLooks(100);

std::unexpected<Error> refused(const Subprocess& process, int error) {
  const std::string& name = process.arguments.front();
  if (error == ENOENT)
    return fail(ErrorCode::kNotFound, "the program " + name + " is not installed",
                "Install it, or correct PATH.");
  return fail(ErrorCode::kUnavailable, "cannot start " + name + ": " + std::strerror(error), "");
}

class Pipe {
 public:
  Pipe() { made_ = pipe2(ends_.data(), O_CLOEXEC) == 0; }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  [[nodiscard]] bool made() const { return made_; }
  [[nodiscard]] int end(size_t which) const { return ends_[which]; }
  void close_end(size_t which) {
    if (ends_[which] >= 0) close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  std::array<int, 2> ends_ = {-1, -1};
  bool made_ = false;
};

// The attributes and file actions for posix_spawn.
class Start {
 public:
  Start(const Subprocess& process, int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    if (!process.directory.empty())
      posix_spawn_file_actions_addchdir_np(&actions_, process.directory.c_str());
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Start() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  int spawn(pid_t& id, char* const* arguments, char* const* environment) {
    return posix_spawnp(&id, arguments[0], &actions_, &attributes_, arguments, environment);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::vector<std::string> environment_of(const Subprocess& process) {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view variable(*at);
    const std::string_view name = variable.substr(0, variable.find('='));
    if (std::ranges::none_of(process.environment, [&](const auto& own) { return own.first == name; }))
      all.emplace_back(variable);
  }
  for (const auto& [name, value] : process.environment) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The process, from its start until it has been waited for.
class Running {
 public:
  Running(pid_t id, int output) : id_(id), output_(output) {}
  ~Running() {
    if (id_ != 0) end_by_force();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  Result<SubprocessEnd> wait(const Subprocess& process) {
    const Clock::time_point deadline = Clock::now() + process.most_time;
    for (bool is_open = true;;) {
      if (is_open) is_open = read_for(kBetweenLooks, process.most_output_bytes);
      else poll(nullptr, 0, static_cast<int>(kBetweenLooks.count()));
      if (const auto code = look()) {
        while (is_open && read_for({}, process.most_output_bytes)) {}
        return SubprocessEnd{*code, std::move(text_)};
      }
      if (Clock::now() >= deadline)
        return fail(ErrorCode::kTimedOut,
                    process.arguments.front() + " has not ended in " +
                        std::to_string(process.most_time.count() / 1000) + " s",
                    "Check the network, and try again.");
      if (process.watch) MEMBRANE_TRY(process.watch());
    }
  }

 private:
  // False at the end of the output and, when `patience` is 0, if no output is ready.
  bool read_for(std::chrono::milliseconds patience, size_t most) {
    pollfd output{.fd = output_, .events = POLLIN, .revents = 0};
    if (poll(&output, 1, static_cast<int>(patience.count())) <= 0) return patience.count() != 0;
    char buffer[4096];
    const ssize_t got = read(output_, buffer, sizeof buffer);
    if (got <= 0) return got < 0 && (errno == EINTR || errno == EAGAIN);
    text_.append(buffer, static_cast<size_t>(got));
    if (text_.size() > 2 * most) text_.erase(0, text_.size() - most);
    return true;
  }
  std::optional<int> look() {
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(id_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        ended.si_pid != id_)
      return std::nullopt;
    kill(-id_, SIGKILL);  // its remaining group; the id cannot be reused until it is waited for
    int status = 0;
    waitpid(std::exchange(id_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void end_by_force() {
    kill(-id_, SIGKILL);
    while (waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {}
  }

  pid_t id_;
  int output_;
  std::string text_;
};

}  // namespace

Result<SubprocessEnd> run_subprocess(const Subprocess& process) {
  Pipe output;
  if (!output.made()) return refused(process, errno);
  std::vector<std::string> arguments = process.arguments, environment = environment_of(process);
  pid_t id = 0;
  const int error =
      Start(process, output.end(1)).spawn(id, pointers_to(arguments).data(), pointers_to(environment).data());
  if (error != 0) return refused(process, error);
  output.close_end(1);
  auto end = Running(id, output.end(0)).wait(process);
  if (end && end->output.size() > process.most_output_bytes)
    end->output.erase(0, end->output.size() - process.most_output_bytes);
  return end;
}

}  // namespace membrane
