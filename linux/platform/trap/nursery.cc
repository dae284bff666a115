#include "linux/platform/trap/nursery.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "linux/platform/kvm/monitor/layout.h"
#include "linux/platform/kvm/monitor_program.h"
#include "linux/platform/trap/stub_program.h"

namespace membrane::linux {
namespace {

constexpr std::array<std::string_view, kTrapWalls> kWallNames = {
    "user_namespace",   "pid_namespace",   "net_namespace",   "ipc_namespace", "uts_namespace",
    "cgroup_namespace", "mount_namespace", "resource_limits", "capabilities",  "no_new_privileges"};

constexpr unsigned long kPidFromNamespace = _IOR(0xb7, 0x6, int);  // NS_GET_PID_FROM_PIDNS

std::string reason(int number) { return std::strerror(number); }

// The program, in a nameless file.
HostFile program_file(std::string_view program) {
  HostFile file(memfd_create("membrane-stub", MFD_CLOEXEC));
  const ssize_t size = static_cast<ssize_t>(program.size());
  if (file && write(file.number(), program.data(), program.size()) != size) file.close();
  return file;
}

bool write_file(const std::string& path, const std::string& text) {
  const HostFile file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Whether user 0 of this namespace is also user 0 of the parent namespace.
bool is_superuser() {
  const HostFile file(open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text = {};
  unsigned long inner = 1, outer = 1;
  return file && read(file.number(), text.data(), text.size() - 1) > 0 &&
         std::sscanf(text.data(), "%lu %lu", &inner, &outer) == 2 && inner == 0 && outer == 0;
}

// In the child of vfork(): only system calls.
[[noreturn]] void become_nursery(int program, int socket, int bell, int device) {
  // Numbers above their final ones, so that neither takes the other's place.
  const int high_socket = fcntl(socket, F_DUPFD_CLOEXEC, 64), high_bell = fcntl(bell, F_DUPFD_CLOEXEC, 64);
  const int high_program = fcntl(program, F_DUPFD_CLOEXEC, 64),
            high_device = fcntl(device, F_DUPFD_CLOEXEC, 64);
  if (dup2(high_socket, kTrapSocket) == kTrapSocket &&
      dup2(high_bell, kTrapNurseryBell) == kTrapNurseryBell &&
      (device < 0 || dup2(high_device, kTrapDevice) == kTrapDevice)) {
    for (int number = 0; number < kTrapSocket; ++number) close(number);
    const int last = device < 0 ? kTrapNurseryBell : kTrapDevice;
    syscall(SYS_close_range, last + 1, ~0u, 1u << 2);  // CLOSE_RANGE_CLOEXEC
    personality(ADDR_NO_RANDOMIZE);                    // its own stack lies above the guests' addresses
    const std::array<const char*, 2> arguments = {"membrane-stub", nullptr};
    const std::array<const char*, 1> environment = {nullptr};
    syscall(SYS_execveat, high_program, "", arguments.data(), environment.data(), AT_EMPTY_PATH);
  }
  _exit(127);
}

Status check_machine() {
  if (kStubProgram.empty())
    return fail(ErrorCode::kUnsupported, "Linux programs run on x86-64 only.",
                "Use a machine with such a processor.");
  struct sigaction action = {};
  sigaction(SIGCHLD, nullptr, &action);
  if (action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT) != 0)
    return fail(ErrorCode::kUnsupported,
                "This process ignores SIGCHLD, so that the ends of guests cannot be seen.",
                "Set the action of SIGCHLD to SIG_DFL.");
  return {};
}

}  // namespace

Result<std::unique_ptr<Nursery>> Nursery::start(const Bell& bell, const TrapOptions& options, int device) {
  MEMBRANE_TRY(check_machine());
  std::unique_ptr<Nursery> nursery(new Nursery);
  const HostFile program = program_file(device < 0 ? kStubProgram : kMonitorProgram);
  HostFile theirs;
  if (!program || !make_socket_pair(nursery->socket_, theirs))
    return fail(ErrorCode::kUnavailable, "cannot make the files of a process for guests: " + reason(errno),
                "Raise the limit of open files, or free memory.");
  nursery->process_ = vfork();
  if (nursery->process_ == 0) become_nursery(program.number(), theirs.number(), bell.file(), device);
  if (nursery->process_ < 0)
    return fail(ErrorCode::kUnavailable, "cannot start a process for guests: " + reason(errno),
                "End other processes, or raise the limit on processes.");
  nursery->group_ = nursery->process_;
  theirs.close();
  MEMBRANE_TRY(nursery->raise(options, device >= 0));
  return nursery;
}

// In the nursery's user namespace, once that exists. False when the nursery has ended.
bool Nursery::name_user(const TrapNurseryStart& start) {
  int32_t answer = 0;
  if (!receive_message(socket_.number(), std::as_writable_bytes(std::span(&answer, 1)))) return false;
  const std::string of = "/proc/" + std::to_string(process_);
  const auto map = [](uint32_t id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; };
  if (answer == 0 && (!write_file(of + "/uid_map", map(start.inner_user)) ||
                      !write_file(of + "/gid_map", map(start.inner_group)))) {
    answer = -EPERM;
    if (is_superuser())
      missing_.push_back({std::string(kWallNames[kTrapResourceLimits]),
                          "guests run as the superuser, to whom process limits do not apply"});
  }
  return send_message(socket_.number(), std::as_bytes(std::span(&answer, 1)), {});
}

Status Nursery::raise(const TrapOptions& options, bool has_device) {
  constexpr uint64_t kStubFiles = kTrapNurseryBell + kTrapDescriptors + 4, kMonitorFiles = kKvmFiles;
  constexpr uint32_t kNobody = 65534;
  TrapNurseryStart begin = {
      .user = getuid(),
      .group = getgid(),
      .inner_user = getuid(),
      .inner_group = getgid(),
      .most_processes = static_cast<uint64_t>(options.most_threads) * (has_device ? 2 : 1) + 64,
      .traps_time_stamps = options.traps_time_stamps,
      .most_files = has_device ? kMonitorFiles : kStubFiles};
  if (geteuid() == 0) begin.inner_user = begin.inner_group = kNobody;
  TrapNurseryAnswer answer = {};
  if (!send_message(socket_.number(), std::as_bytes(std::span(&begin, 1)), {}) ||
      (begin.inner_user != begin.user && !name_user(begin)) ||
      !receive_message(socket_.number(), std::as_writable_bytes(std::span(&answer, 1)), &name_space_) ||
      answer.init <= 0)
    return fail(ErrorCode::kUnavailable, "the process that starts guests has ended at once",
                "The system may forbid programs in memory (vm.memfd_noexec), or be out of memory.");
  gate_entry_ = answer.gate_entry;
  for (size_t wall = 0; wall < kTrapWalls; ++wall)
    if (answer.errors[wall] != 0)
      missing_.push_back({std::string(kWallNames[wall]), reason(-answer.errors[wall])});
  if (answer.errors[kTrapPidNamespace] != 0) name_space_.close();
  return {};
}

Nursery::~Nursery() {
  socket_.close();
  if (process_ <= 0) return;
  // Without a process namespace a guest may still be making processes; loops while there are any.
  for (;;) {
    if (!has_ended_) kill(process_, SIGKILL);
    kill(-group_, SIGKILL);
    const pid_t ended = waitpid(-group_, nullptr, __WALL);
    if (ended == process_) has_ended_ = true;
    if (ended < 0 && errno != EINTR) {
      // The process may not be in its group yet.
      if (!has_ended_) waitpid(process_, nullptr, __WALL);
      return;
    }
  }
}

bool Nursery::request(int controls, int socket, int machine) {
  const std::byte word{};
  const std::array<int, 3> descriptors = {controls, socket, machine};
  const size_t count = machine < 0 ? 2 : 3;
  return send_message(socket_.number(), std::span(&word, 1), std::span(descriptors).first(count));
}

Try<pid_t> Nursery::collect() {
  int process = 0;
  if (!receive_message(socket_.number(), std::as_writable_bytes(std::span(&process, 1)))) return err(EAGAIN);
  if (process <= 0) return err(EAGAIN);
  return process;
}

pid_t Nursery::number_of(pid_t inner) const {
  if (inner <= 0) return 0;
  if (!name_space_) return inner;
  const int number = ioctl(name_space_.number(), kPidFromNamespace, inner);
  return number > 0 ? number : 0;
}

bool Nursery::is_stub(pid_t process) const {
  if (process <= 0 || process == process_) return false;
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

std::vector<pid_t> Nursery::processes() const {
  std::vector<pid_t> processes;
  std::FILE* const file = std::fopen("/proc/thread-self/children", "re");
  if (file == nullptr) return processes;
  int process = 0;
  while (std::fscanf(file, "%d", &process) == 1)
    if (process != process_ && getpgid(process) == group_) processes.push_back(process);
  std::fclose(file);
  return processes;
}

pid_t Nursery::reap() {
  const pid_t ended = waitpid(-group_, nullptr, WNOHANG | __WALL);
  if (ended == process_) has_ended_ = true;
  return ended > 0 ? ended : 0;
}

}  // namespace membrane::linux
