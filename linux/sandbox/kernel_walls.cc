#include "linux/sandbox/kernel_walls.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "linux/platform/trap/own_pages.h"

namespace membrane::linux {

namespace {

constexpr uint32_t kCalls[] = {
#define X(name) SYS_##name,
#include "linux/sandbox/kernel_calls.def"
#undef X
};

// All requests of ioctl() that are allowed: how much of its socket a stub has not read, which process a
// stub's number is (NS_GET_PID_FROM_PIDNS, which Debian 12's headers lack), and which pages are a stub's own.
const uint32_t kRequests[] = {TIOCOUTQ, _IOR(0xb7, 0x6, int), kPagemapScan};

constexpr unsigned kNobody = 65534;  // whom the stubs run as (linux/platform/trap/nursery.cc)

MissingWall missing(const char* name) { return {name, std::strerror(errno)}; }

bool write_file(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return is_written;
}

// For a superuser's namespace: maps 0 and kNobody in it from outside, as is required.
struct Outsider {
  std::array<int, 2> pipe = {-1, -1};  // a byte says that the namespace is there
  pid_t process = 0;
  alignas(16) std::array<char, 16384> stack;
};

int name_users(void* argument) {
  const auto& outsider = *static_cast<const Outsider*>(argument);
  close(outsider.pipe[1]);  // its own copy: the end of the other one is that of the pipe
  char byte;
  if (read(outsider.pipe[0], &byte, 1) != 1) return 1;
  const std::string both = "0 0 1\n" + std::to_string(kNobody) + " " + std::to_string(kNobody) + " 1";
  const std::string of = "/proc/" + std::to_string(outsider.process);
  return write_file((of + "/uid_map").c_str(), both) && write_file((of + "/gid_map").c_str(), both) ? 0 : 1;
}

// If the caller is the superuser, guests should be another user, since process limits do not apply to a
// superuser.
bool enter_superusers_namespace() {
  Outsider outsider;
  if (pipe2(outsider.pipe.data(), O_CLOEXEC) != 0) return false;
  outsider.process = getpid();
  // Shares this memory, so that it starts quickly.
  const pid_t helper =
      clone(name_users, outsider.stack.data() + outsider.stack.size(), CLONE_VM | SIGCHLD, &outsider);
  const bool is_entered = helper > 0 && unshare(CLONE_NEWUSER) == 0 && write(outsider.pipe[1], "", 1) == 1;
  const int why = errno;
  close(outsider.pipe[1]);
  int status = 1;
  if (helper > 0) waitpid(helper, &status, 0);
  close(outsider.pipe[0]);
  errno = why;
  return is_entered && status == 0;
}

// The caller's user and group do not change; seen from inside they are the superuser.
bool enter_user_namespace() {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (uid == 0 && gid == 0) return enter_superusers_namespace();
  if (unshare(CLONE_NEWUSER) != 0) return false;
  return write_file("/proc/self/setgroups", "deny") &&
         write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1") &&
         write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1");
}

// Replaces the host's file system by an empty one with /proc in it.
bool change_root() {
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  constexpr const char* kPlace = "/tmp";
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", kPlace, "tmpfs", kFlags, "size=64k,nr_inodes=8,mode=755") == 0 &&
         mkdirat(AT_FDCWD, "/tmp/proc", 0555) == 0 &&
         mount("/proc", "/tmp/proc", nullptr, MS_BIND | MS_REC, nullptr) == 0 && chdir(kPlace) == 0 &&
         syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 && chdir("/") == 0 &&
         mount("none", "/", nullptr, MS_REMOUNT | MS_RDONLY | kFlags, nullptr) == 0;
}

}  // namespace

std::vector<MissingWall> leave_host() {
  std::vector<MissingWall> all;
  prctl(PR_SET_DUMPABLE, 1);  // or the files of /proc/self are the superuser's
  // When the machine runs out of memory, a sandbox ends before its owner.
  if (!write_file("/proc/self/oom_score_adj", "1000")) all.push_back(missing("kernel_ends_first"));
  if (!enter_user_namespace()) all.push_back(missing("kernel_user_namespace"));
  if (unshare(CLONE_NEWNET) != 0) all.push_back(missing("kernel_net_namespace"));
  if (unshare(CLONE_NEWIPC | CLONE_NEWUTS) != 0) all.push_back(missing("kernel_ipc_namespace"));
  if (unshare(CLONE_NEWNS) != 0 || !change_root()) all.push_back(missing("kernel_mount_namespace"));
  return all;
}

std::vector<MissingWall> allow_only_kernel_calls() {
  std::vector<sock_filter> code = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 2 * std::size(kRequests) + 2));
  code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + sizeof(uint64_t)));
  for (const uint32_t request : kRequests) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, request, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  for (const uint32_t call : kCalls) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  const sock_fprog program = {.len = static_cast<unsigned short>(code.size()), .filter = code.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return {missing("kernel_no_new_privileges")};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
    return {missing("kernel_system_calls")};
  return {};
}

}  // namespace membrane::linux
