// A worker that runs code of an attacker's choice, and its supervisor: attacks/worker_attack_test.py.
//
//   hostile_worker calls DIRECTORY          each row of hostile_calls.def against the walls, as a line of JSON
//   hostile_worker calls DIRECTORY bare     the same without any wall, which shows that the walls are what stops it
//   hostile_worker group                    what it tries at a control group, in one and without
//   hostile_worker peers                    the names of hostile_peers.def
//   hostile_worker peer NAME DIRECTORY      one of them, as JSON
//
// In a second build, with MEMBRANE_WITHOUT_FILTERS, the system call filters are left out, so that each of the
// other walls is tested alone.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "cli/out_directory.h"
#include "worker/channel.h"
#include "worker/control_groups.h"
#include "worker/hostile_calls_testing.h"
#include "worker/hostile_peers_testing.h"

#if defined(MEMBRANE_WITHOUT_FILTERS)
// Replaces system_calls.cc, which the linker then leaves in its library.
namespace membrane::worker {
Status allow_setting_up(bool /*is_zygote*/) { return {}; }
Status allow_running() { return {}; }
}  // namespace membrane::worker
constexpr bool kHasFilters = false;
#else
constexpr bool kHasFilters = true;
#endif

namespace membrane::worker {
namespace {

constexpr uint64_t kGuestBytes = 64u << 20;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(3);
}
int need(int result, const char* what) {
  if (result < 0) give_up(what);
  return result;
}

// -- what there is to want -------------------------------------------------------------------------------------

int write_file(const std::string& path, std::string_view text, mode_t mode) {
  const int file = need(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode), "open");
  need(static_cast<int>(write(file, text.data(), text.size())), "write");
  return file;
}
int listen_at(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  const int made = need(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  need(bind(made, reinterpret_cast<const sockaddr*>(&address), bytes), "bind");
  need(listen(made, 8), "listen");
  return made;
}
// Stays open in new programs, as if somebody had forgotten it.
int leave_open(int file, int number) {
  need(dup2(file, number), "dup2");
  return number;
}

struct Baits {
  explicit Baits(std::string directory) {
    bait.supervisor = getpid();
    bait.directory = std::move(directory);
    bait.file = bait.directory + "/file";
    bait.program = "/bin/true";
    bait.secret = &secret;
    const int file = write_file(bait.file, "a file of the host", 0644);
    bait.file_of_another = bait.directory + "/file_of_another";
    write_file(bait.file_of_another, "a file of another user", 0600);
    if (chown(bait.file_of_another.c_str(), 12345, 12345) != 0) bait.file_of_another = "/etc/shadow";
    bait.socket = bait.directory + "/socket";
    listen_at(bait.socket);
    bait.abstract_socket = std::string("\0membrane-", 10) + std::to_string(bait.supervisor);
    listen_at(bait.abstract_socket);
    const int listener = listen_on_tcp();
    bait.shared_memory_key = bait.queue_key = bait.semaphore_key = 0x4d000000 + bait.supervisor;
    bait.shared_memory = need(shmget(bait.shared_memory_key, 4096, IPC_CREAT | 0600), "shmget");
    queue = need(msgget(bait.queue_key, IPC_CREAT | 0600), "msgget");
    semaphore = need(semget(bait.semaphore_key, 1, IPC_CREAT | 0600), "semget");
    bait.left_file = leave_open(file, 50);
    bait.left_directory = leave_open(need(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open"), 100);
    bait.left_listener = leave_open(listener, 200);
    struct stat status{};
    if (stat("/proc/self/ns/cgroup", &status) == 0) bait.cgroup_namespace = status.st_ino;
    utsname names{};
    uname(&names);
    bait.machine = names.nodename;
  }
  ~Baits() {
    shmctl(bait.shared_memory, IPC_RMID, nullptr);
    msgctl(queue, IPC_RMID, nullptr);
    semctl(semaphore, 0, IPC_RMID);
  }
  Baits(const Baits&) = delete;
  Baits& operator=(const Baits&) = delete;

  int listen_on_tcp() {
    const int made = need(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address), "bind");
    need(listen(made, 8), "listen");
    socklen_t bytes = sizeof address;
    need(getsockname(made, reinterpret_cast<sockaddr*>(&address), &bytes), "getsockname");
    bait.port = ntohs(address.sin_port);
    return made;
  }

  Bait bait;
  std::string secret = "a secret in the supervisor's memory";
  int queue = -1, semaphore = -1;
};

// -- a try -------------------------------------------------------------------------------------------------------

// The system's answer, in its own words.
std::string words_of(int result) {
  if (result == 0) return "nothing";
  if (result > 0) return "done";
  const char* const name = strerrorname_np(-result);
  return name == nullptr ? std::to_string(result) : name;
}
std::string words_of_end(int status) {
  if (WIFSIGNALED(status)) return std::string("SIG") + sigabbrev_np(WTERMSIG(status));
  return "exit " + std::to_string(WEXITSTATUS(status));
}

// A process like a worker, or without walls; returns 0 in it.
pid_t begin(bool is_bare, Walls& walls) {
  if (is_bare) return need(fork(), "fork");
  const auto made = new_process(walls);
  if (!made) give_up(made.error().message.c_str());
  if (made->pid != 0) close(made->process_file);
  return made->pid;
}
void raise(When when, bool is_bare, int socket, Walls& walls) {
  if (is_bare) return;
  enclose({}, walls);
  const int kept[] = {socket};
  if (when != When::setting_up) lock_up(kept, {.memory_bytes = kGuestBytes}, walls);
}

// What a process sends through the socket, until it ends.
std::string hear(int socket) {
  std::string text;
  char piece[256];
  for (ssize_t got = 0; (got = read(socket, piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<size_t>(got));
  return text;
}
[[noreturn]] void say(int socket, const std::string& text) {
  static_cast<void>(write(socket, text.data(), text.size()));
  _exit(0);
}

std::string try_out(const Try& each, Bait bait, bool is_bare) {
  auto ends = Channel::make_pair();
  if (!ends) give_up("socketpair");
  Walls walls;
  const pid_t pid = begin(is_bare, walls);
  if (pid == 0) {
    bait.own_socket = ends->second.number();
    raise(each.when, is_bare, bait.own_socket, walls);
    say(bait.own_socket, words_of(each.act(bait)));
  }
  ends->second = Descriptor();
  const std::string text = hear(ends->first.number());
  int status = 0;
  need(waitpid(pid, &status, 0), "waitpid");
  return text.empty() ? words_of_end(status) : text;
}

// The worker that a supervisor starts reports through `socket` that it is ready; then its supervisor sends
// its process id through `numbers`, and both wait to be killed.
[[noreturn]] void supervise_and_wait(const Try& each, Bait bait, bool is_bare, int socket, int numbers) {
  Walls walls;
  const pid_t pid = begin(is_bare, walls);
  if (pid == 0) {
    raise(each.when, is_bare, socket, walls);
    static_cast<void>(each.act(bait));
    static_cast<void>(write(socket, "r", 1));
    while (true) pause();
  }
  static_cast<void>(write(numbers, &pid, sizeof pid));
  while (true) pause();
}

std::string try_to_outlive(const Try& each, const Bait& bait, bool is_bare) {
  auto ends = Channel::make_pair();
  auto numbers = Channel::make_pair();
  if (!ends || !numbers) give_up("socketpair");
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // the worker becomes this process's child
  const pid_t supervisor = need(fork(), "fork");
  if (supervisor == 0)
    supervise_and_wait(each, bait, is_bare, ends->second.number(), numbers->second.number());
  ends->second = Descriptor();
  char ready = 0;
  need(static_cast<int>(read(ends->first.number(), &ready, 1)), "read");
  pid_t worker = 0;
  if (read(numbers->first.number(), &worker, sizeof worker) != sizeof worker) give_up("read");
  kill(supervisor, SIGKILL);
  need(waitpid(supervisor, nullptr, 0), "waitpid");
  constexpr std::chrono::milliseconds kStep(5);
  int steps = is_bare ? 20 : 12'000;
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(worker, &status, WNOHANG)) == 0 && steps-- > 0) std::this_thread::sleep_for(kStep);
  if (ended == worker) return words_of_end(status);
  kill(worker, SIGKILL);
  waitpid(worker, nullptr, 0);
  return "done";
}

// The walls that this machine cannot raise, as a worker finds them.
std::vector<std::string> missing_walls() {
  auto ends = Channel::make_pair();
  if (!ends) give_up("socketpair");
  Walls walls;
  const pid_t pid = begin(false, walls);
  if (pid == 0) {
    raise(When::running, false, ends->second.number(), walls);
    std::string all;
    for (const auto& [name, why] : walls.missing) all += name + "\n";
    say(ends->second.number(), all);
  }
  ends->second = Descriptor();
  const std::string text = hear(ends->first.number());
  waitpid(pid, nullptr, 0);
  std::vector<std::string> names;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    names.push_back(text.substr(at, end - at));
  return names;
}

void print(const nlohmann::ordered_json& json) {
  std::puts(json_text(json).c_str());
  std::fflush(stdout);
}

constexpr std::string_view kWhens[] = {"running", "setting_up", "orphaned"};

int try_all(const std::string& directory, bool is_bare) {
  Baits baits(directory);
  print({{"missing", missing_walls()}});
  size_t count = 0;
  for (const Try& each : all_tries()) {
    if ((each.wall == Wall::kSystemCalls) != kHasFilters) continue;
    Bait bait = baits.bait;
    bait.directory += "/" + std::to_string(count++);
    need(mkdir(bait.directory.c_str(), 0755), "mkdir");
    const std::string said =
        each.when == When::orphaned ? try_to_outlive(each, bait, is_bare) : try_out(each, bait, is_bare);
    print({{"name", each.name},
           {"wall", name_of(each.wall)},
           {"when", kWhens[static_cast<size_t>(each.when)]},
           {"stop", each.stop},
           {"said", said}});
  }
  return 0;
}

// -- a control group: no other wall, so that it stands alone

constexpr uint64_t kGroupBytes = 64u << 20, kGroupProcesses = 16;
constexpr size_t kWantedProcesses = 4 * kGroupProcesses;

int eat_memory() {
  constexpr size_t kBytes = 4 * kGroupBytes, kPage = 4096;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno;
  for (size_t at = 0; at < kBytes; at += kPage) static_cast<volatile char*>(memory)[at] = 1;
  return 0;
}

int fork_without_end() {
  std::vector<pid_t> children;
  int error = 0;
  while (error == 0 && children.size() < kWantedProcesses) {
    const pid_t child = fork();
    if (child == 0)
      while (true) pause();
    if (child < 0) error = errno;
    else children.push_back(child);
  }
  for (const pid_t child : children) kill(child, SIGKILL), waitpid(child, nullptr, 0);
  return error;
}

// The outcome: a signal, an error, or "nothing", which is what stops it.
std::string try_in_group(int (*act)(), ControlGroups* group) {
  int go[2] = {};
  need(pipe(go), "pipe");
  const pid_t pid = need(fork(), "fork");
  if (pid == 0) {
    char byte = 0;
    close(go[1]);
    if (read(go[0], &byte, 1) != 1) _exit(1);
    _exit(act());
  }
  if (group != nullptr && !group->add(pid)) give_up("control group");
  need(static_cast<int>(write(go[1], "x", 1)), "write");
  close(go[0]);
  close(go[1]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) return std::string("SIG") + sigabbrev_np(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "nothing" : strerrorname_np(WEXITSTATUS(status));
}

int try_groups() {
  ControlGroups group = ControlGroups::make({.memory_bytes = kGroupBytes, .processes = kGroupProcesses});
  print({{"missing", group.missing()}});
  const std::pair<const char*, int (*)()> tries[] = {{"eat_memory", eat_memory},
                                                     {"fork_without_end", fork_without_end}};
  if (group.missing().empty())
    for (const auto& [name, act] : tries)
      print({{"name", name}, {"said", try_in_group(act, &group)}, {"bare", try_in_group(act, nullptr)}});
  return 0;
}

int usage() {
  std::fputs("usage: hostile_worker calls DIRECTORY [bare] | group | peers | peer NAME DIRECTORY\n", stderr);
  return 2;
}

int run(std::span<char*> arguments) {
  const std::string what = arguments.size() > 1 ? arguments[1] : "";
  if (what == "calls" && arguments.size() >= 3)
    return try_all(arguments[2], arguments.size() == 4 && std::string_view(arguments[3]) == "bare");
  if (what == "group") return try_groups();
  if (what == "peers") {
    for (const std::string_view name : names_of_peers()) std::printf("%s\n", std::string(name).c_str());
    return 0;
  }
  if (what != "peer" || arguments.size() != 4) return usage();
  const auto met = meet_peer(arguments[2], arguments[3], [](const std::string& directory) {
    auto out = cli::OutDirectory::open(directory);
    if (!out) give_up("OutDirectory");
    const auto kept = std::make_shared<cli::OutDirectory>(*std::move(out));
    return [kept](std::string_view path, std::string_view bytes) { kept->keep(path, bytes); };
  });
  if (!met) return usage();
  print(*met);
  return 0;
}

}  // namespace
}  // namespace membrane::worker

int main(int count, char** arguments) {
  return membrane::worker::run({arguments, static_cast<size_t>(count)});
}
