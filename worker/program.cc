#include "worker/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/build_id.h"
#include "worker/inside.h"
#include "worker/messages.h"

namespace membrane::worker {
namespace {

constexpr int kSocket = 3, kEmbedder = 4, kFirstOther = 5;
constexpr std::chrono::seconds kStartTime(60);
constexpr uint64_t kMostBytesOfHello = 64u << 10;
constexpr int kAboveThose = 16;  // where descriptors wait before they are put in their places

std::string reason() { return std::strerror(errno); }

// -- of the embedder ------------------------------------------------------------------------------------

// Prepares the program: descriptors in their places, no signal ignored or blocked, a session of its own,
// which no terminal's keys reach.
class Start {
 public:
  Start() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO})
      posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", O_RDWR, 0);
  }
  ~Start() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  // `descriptor` remains the caller's, and is not in any of the places.
  void put(const Descriptor& descriptor, int place) {
    posix_spawn_file_actions_adddup2(&actions_, descriptor.number(), place);
  }
  // Returns the error's number.
  int run(const std::string& path, pid_t& process) {
    std::string name = path, libraries = "LD_LIBRARY_PATH=";
    char* const arguments[] = {name.data(), nullptr};
    const char* const given = std::getenv("LD_LIBRARY_PATH");
    if (given != nullptr) libraries += given;
    char* const environment[] = {given == nullptr ? nullptr : libraries.data(), nullptr};
    return posix_spawn(&process, path.c_str(), &actions_, &attributes_, arguments, environment);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

Descriptor above_places(const Descriptor& descriptor) {
  return Descriptor(fcntl(descriptor.number(), F_DUPFD_CLOEXEC, kAboveThose));
}

std::string how_it_ended(pid_t process) {
  int status = 0;
  if (waitpid(process, &status, 0) != process) return "it has ended";
  if (WIFEXITED(status)) return "it ended with exit code " + std::to_string(WEXITSTATUS(status));
  return "it ended by the signal " + std::to_string(WTERMSIG(status));
}

std::unexpected<Error> not_started(const std::string& path, const std::string& why) {
  return fail(ErrorCode::kUnavailable, "the worker program " + path + " does not start: " + why,
              "Run it by hand with --version, and reinstall it from this build if that fails.");
}

Result<Descriptor> read_hello(const std::string& path, Frame hello) {
  Reader in(hello.payload);
  const auto build = in.get<std::string_view>();
  const auto made = in.get<Status>();
  if (!in.is_done() || build != kBuildId)
    return fail(ErrorCode::kUnsupported,
                "the worker program " + path + " is of another build than this library",
                "Install both from the same build.");
  if (!made) return std::unexpected(made.error());
  if (hello.descriptors.size() != 1) return not_started(path, "it names no process");
  return std::move(hello.descriptors.front());
}

}  // namespace

Result<StartedProgram> start_program(const std::string& path) {
  if (access(path.c_str(), X_OK) != 0)
    return fail(ErrorCode::kNotFound, "the worker program " + path + " cannot be run: " + reason(),
                "Install membrane-worker there, from the same build as this library.");
  MEMBRANE_ASSIGN(auto ends, Channel::make_pair());
  const Descriptor this_process(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  pid_t process = -1;
  {
    const Descriptor socket = above_places(ends.second), embedder = above_places(this_process);
    const Descriptor others(std::move(ends.second));
    if (!socket) return not_started(path, reason());
    Start start;
    start.put(socket, kSocket);
    if (embedder) start.put(embedder, kEmbedder);
    if (const int error = start.run(path, process); error != 0)
      return not_started(path, std::strerror(error));
  }
  Channel channel(std::move(ends.first), kMostBytesOfHello);
  const auto until = Channel::Clock::now() + kStartTime;
  auto hello = channel.receive(until);
  while (hello && !*hello && Channel::Clock::now() < until) hello = channel.receive(until);
  if (hello && !*hello) kill(process, SIGKILL);
  const std::string end = how_it_ended(process);
  if (!hello) return not_started(path, end);
  if (!*hello) return not_started(path, "it says nothing");
  MEMBRANE_ASSIGN(Descriptor zygote, read_hello(path, **std::move(hello)));
  return StartedProgram{std::move(channel), std::move(zygote)};
}

// -- of the program -------------------------------------------------------------------------------------

bool is_started_by_library() {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(kSocket, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

namespace {

void close_all_others() {
  if (syscall(SYS_close_range, kFirstOther, ~0u, 0) == 0) return;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1u << 20));
  for (int number = kFirstOther; number < most; ++number) close(number);
}

// A zygote has some for each of its workers.
void allow_many_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 1u << 16);
  setrlimit(RLIMIT_NOFILE, &limit);
}

void drop_standard_error() {
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nowhere < 0) return;
  dup2(nowhere, STDERR_FILENO);
  close(nowhere);
}

}  // namespace

void be_program() {
  close_all_others();
  Descriptor socket(kSocket);
  Descriptor embedder(fcntl(kEmbedder, F_GETFD) < 0 ? -1 : kEmbedder);
  for (const int number : {kSocket, kEmbedder}) fcntl(number, F_SETFD, FD_CLOEXEC);
  allow_many_descriptors();
  static_cast<void>(chdir("/"));
  Walls walls;
  auto made = new_process(walls);
  if (made && made->pid == 0) {
    drop_standard_error();
    enclose({.is_zygote = true, .outlives_parent = true}, walls);
    work(std::move(socket), std::move(walls), std::move(embedder));
  }
  Channel channel(std::move(socket), 0);
  const std::string hello = bytes_of(kBuildId, made ? Status() : std::unexpected(made.error()));
  const Descriptor zygote(made ? made->process_file : -1);
  const int along[] = {zygote.number()};
  const auto sent = channel.send(static_cast<uint16_t>(Kind::kDone), 0, hello,
                                 zygote ? std::span<const int>(along) : std::span<const int>());
  _exit(sent ? 0 : 1);
}

}  // namespace membrane::worker
