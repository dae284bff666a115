#include "worker/walls.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/environment.h"
#include "base/sanitized_testing.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not every system's headers have it

namespace membrane::worker {
namespace {

constexpr std::array<std::string_view, kWallCount> kNames = {
#define WALL(id, name, words) name,
#include "worker/walls.def"
#undef WALL
};
constexpr std::array<std::string_view, kWallCount> kWords = {
#define WALL(id, name, words) words,
#include "worker/walls.def"
#undef WALL
};

std::string reason() { return std::strerror(errno); }

// Like fork(), with namespaces. The C library's records of the new thread are corrected where the system can
// say where they are.
pid_t fork_into(unsigned long namespaces, int& process_file) {
  const long pid = syscall(SYS_clone, namespaces | CLONE_PIDFD | SIGCHLD, nullptr, &process_file, nullptr, 0);
  if (pid == 0) {
    int* tid = nullptr;
    if (prctl(PR_GET_TID_ADDRESS, &tid) == 0 && tid != nullptr) *tid = static_cast<int>(syscall(SYS_gettid));
  }
  return static_cast<pid_t>(pid);
}

bool write_file(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return done;
}

// Users have the same numbers inside as outside, so that files belong to this user.
void map_user(uid_t user, gid_t group, Walls& walls) {
  static_cast<void>(write_file("/proc/self/setgroups", "deny"));
  const auto same = [](uint64_t number) {
    return std::to_string(number) + " " + std::to_string(number) + " 1";
  };
  if (!write_file("/proc/self/uid_map", same(user)) || !write_file("/proc/self/gid_map", same(group)))
    walls.miss(Wall::kUserNamespace, "no user can be mapped in it: " + reason());
}

void enter(Wall wall, int name_space, Walls& walls) {
  if (unshare(name_space) != 0) walls.miss(wall, reason());
}

// A new namespace starts with the names of the old one. A zygote's are already hidden, and it may not set any
// more.
void hide_names(Walls& walls) {
  constexpr std::string_view kName = "worker", kDomain = "";
  if (unshare(CLONE_NEWUTS) != 0) return walls.miss(Wall::kUtsNamespace, reason());
  utsname names{};
  if (uname(&names) == 0 && names.nodename == kName && names.domainname == kDomain) return;
  if (sethostname(kName.data(), kName.size()) != 0 || setdomainname(kDomain.data(), kDomain.size()) != 0)
    walls.miss(Wall::kUtsNamespace, reason());
}

// An empty root directory in which nothing can be created.
void empty_root(Walls& walls) {
  const char* const place = "/proc";  // any directory: it is covered for a moment
  const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  const bool done = mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                    mount("none", place, "tmpfs", flags, "size=4k,nr_inodes=2,mode=555") == 0 &&
                    chdir(place) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
                    umount2(".", MNT_DETACH) == 0 && chdir("/") == 0 &&
                    mount("none", "/", nullptr, MS_REMOUNT | MS_RDONLY | flags, nullptr) == 0;
  if (!done) walls.miss(Wall::kMountNamespace, "no empty root directory could be created: " + reason());
}

void close_others(std::span<const int> kept, Walls& walls) {
  std::vector<int> open(kept.begin(), kept.end());
  std::ranges::sort(open);
  unsigned first = 3;
  bool done = true;
  for (const int number : open) {
    if (number < static_cast<int>(first)) continue;
    if (number > static_cast<int>(first)) done = done && syscall(SYS_close_range, first, number - 1, 0) == 0;
    first = static_cast<unsigned>(number) + 1;
  }
  done = done && syscall(SYS_close_range, first, ~0u, 0) == 0;
  if (!done) walls.miss(Wall::kDescriptors, reason());
}

// 0 to 2 lead nowhere, so that nothing else is ever opened there.
void silence(Walls& walls) {
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  bool done = nowhere >= 0;
  for (int number = 0; number < 3 && done; ++number) done = dup2(nowhere, number) == number;
  if (nowhere > 2) close(nowhere);
  if (!done) walls.miss(Wall::kDescriptors, reason());
}

// For a process, or with 0 this one.
bool bound(int resource, uint64_t most, pid_t process = 0) {
  const auto which = static_cast<__rlimit_resource>(resource);
  rlimit limit{};
  if (prlimit(process, which, nullptr, &limit) != 0) return false;
  limit.rlim_cur = limit.rlim_max = std::min<rlim_t>(limit.rlim_max, most);
  return prlimit(process, which, &limit, nullptr) == 0;
}

// The pages that a process, or with 0 this one, can write, as the limit counts them.
uint64_t data_bytes(pid_t process) {
  const std::string name = process == 0 ? "self" : std::to_string(process);
  std::FILE* const file = std::fopen(("/proc/" + name + "/statm").c_str(), "re");
  if (file == nullptr) return 0;
  unsigned long long size = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  const int read =
      std::fscanf(file, "%llu %llu %llu %llu %llu %llu", &size, &resident, &shared, &text, &library, &data);
  std::fclose(file);
  return read == 6 ? data * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

// The descriptor limit that leaves that many, in addition to those that stay open.
uint64_t numbers_for(std::span<const int> kept, uint64_t more) {
  int number = 3;
  for (uint64_t left = more; left > 0; ++number)
    if (std::ranges::find(kept, number) == kept.end()) --left;
  return static_cast<uint64_t>(number);
}

// When the system or the control group runs out of memory, it ends workers before their supervisor.
void be_first_to_end(Walls& walls) {
  if (!write_file("/proc/self/oom_score_adj", "1000"))
    walls.miss(Wall::kResourceLimits, "the system would not end it before others: " + reason());
}

// Limits the memory that guests take of a process, or with 0 of this one. Returns why it could not be
// limited; "": it is.
std::string bound_memory(const WallLimits& limits, pid_t process = 0) {
  constexpr uint64_t kHostBytes = 1ull << 30;  // of the engine itself: compiling, reports
  // For a guest's memory: itself, the step back, a fork that completes, and what is reported.
  constexpr uint64_t kCopies = 4;
  // Nameless files, which no limit of a process counts together: images of guests' memories, as long as one
  // can be.
  constexpr uint64_t kFileBytes = 4ull << 30, kLeastFileBytes = 64ull << 20;
  const uint64_t file_bytes =
      limits.memory_bytes == 0 ? kFileBytes : std::clamp(limits.memory_bytes, kLeastFileBytes, kFileBytes);
  if (!bound(RLIMIT_FSIZE, file_bytes, process)) return reason();
  if (kIsSanitized || limits.memory_bytes == 0) return "";
  const uint64_t now = data_bytes(process);
  if (now == 0) return "/proc does not say how much memory it has";
  return bound(RLIMIT_DATA, now + kCopies * limits.memory_bytes + kHostBytes, process) ? "" : reason();
}

void limit_resources(std::span<const int> kept, const WallLimits& limits, Walls& walls) {
  constexpr uint64_t kOpenFiles = 32;
  if (!bound(RLIMIT_CORE, 0) || !bound(RLIMIT_NPROC, 0) ||
      !bound(RLIMIT_NOFILE, numbers_for(kept, kOpenFiles)) || !bound(RLIMIT_MSGQUEUE, 0))
    walls.miss(Wall::kResourceLimits, reason());
  if (std::string why = bound_memory(limits); !why.empty()) walls.miss(Wall::kResourceLimits, std::move(why));
}

// The number of the process in the /proc of this one; 0 when it has ended.
pid_t number_of(int process_file) {
  std::ifstream facts("/proc/self/fdinfo/" + std::to_string(process_file));
  for (std::string word; facts >> word;)
    if (pid_t number = 0; word == "Pid:" && facts >> number) return std::max(number, 0);
  return 0;
}

void drop_capabilities(Walls& walls) {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability)
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> none{};
  if (syscall(SYS_capset, &header, none.data()) != 0) walls.miss(Wall::kCapabilities, reason());
}

}  // namespace

void limit_memory(int process_file, const WallLimits& limits, Walls& walls) {
  const pid_t process = number_of(process_file);
  if (process == 0) return;
  std::string why = bound_memory(limits, process);
  if (!why.empty() && number_of(process_file) != 0) walls.miss(Wall::kResourceLimits, std::move(why));
}

std::string_view name_of(Wall wall) { return kNames[static_cast<size_t>(wall)]; }
std::string_view describe(Wall wall) { return kWords[static_cast<size_t>(wall)]; }

Result<NewProcess> new_process(Walls& walls) {
  NewProcess made;
  const uid_t user = getuid();
  const gid_t group = getgid();
  made.pid = fork_into(CLONE_NEWUSER | CLONE_NEWPID, made.process_file);
  if (made.pid == 0) map_user(user, group, walls);
  if (made.pid >= 0) return made;
  const std::string why = reason();
  made.pid = fork_into(CLONE_NEWPID, made.process_file);  // where root may, and others may not
  if (made.pid == 0) walls.miss(Wall::kUserNamespace, why);
  if (made.pid >= 0) return made;
  made.pid = fork_into(0, made.process_file);
  if (made.pid == 0) {
    walls.miss(Wall::kUserNamespace, why);
    walls.miss(Wall::kPidNamespace, reason());
  }
  if (made.pid >= 0) return made;
  return fail(ErrorCode::kUnavailable, "cannot start a process for a worker: " + reason(),
              "End other processes, or raise the limit on processes.");
}

void enclose(const Enclosure& how, Walls& walls) {
  clear_environment();
  if (!how.outlives_parent && prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) walls.miss(Wall::kParentDeath, reason());
  prctl(PR_SET_NAME, "membrane-worker");
  if (!how.is_zygote) be_first_to_end(walls);
  enter(Wall::kMountNamespace, CLONE_NEWNS, walls);
  if (!how.has_network) enter(Wall::kNetNamespace, CLONE_NEWNET, walls);
  enter(Wall::kIpcNamespace, CLONE_NEWIPC, walls);
  hide_names(walls);
  enter(Wall::kCgroupNamespace, CLONE_NEWCGROUP, walls);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) walls.miss(Wall::kNoNewPrivileges, reason());
  if (kIsSanitized) return;
  if (const Status set = allow_setting_up(how.is_zygote); !set)
    walls.miss(Wall::kSystemCalls, set.error().message);
}

void lock_up(std::span<const int> kept, const WallLimits& limits, Walls& walls) {
  prctl(PR_SET_DUMPABLE, 0);
  if (!kIsSanitized) silence(walls);
  close_others(kept, walls);
  limit_resources(kept, limits, walls);
  empty_root(walls);
  drop_capabilities(walls);
  if (kIsSanitized) return walls.miss(Wall::kSystemCalls, "a sanitizer makes calls of its own");
  if (const Status set = allow_running(); !set) walls.miss(Wall::kSystemCalls, set.error().message);
}

}  // namespace membrane::worker
