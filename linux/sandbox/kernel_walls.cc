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
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>

namespace membrane::linux {

namespace {

constexpr uint32_t kCalls[] = {
#define X(name) SYS_##name,
#include "linux/sandbox/kernel_calls.def"
#undef X
};

// All that ioctl() may ask: how much of its socket a stub has not read, and which process a stub's number is (NS_GET_PID_FROM_PIDNS,
// which Debian 12's headers do not have).
constexpr uint32_t kRequests[] = {TIOCOUTQ, _IOR(0xb7, 0x6, int)};

MissingWall missing(const char* name) { return {name, std::strerror(errno)}; }

bool write_file(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return is_written;
}

// The caller's user and group stay what they are, seen from inside as the superuser.
bool enter_user_namespace() {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER) != 0) return false;
  return write_file("/proc/self/setgroups", "deny") &&
         write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1") &&
         write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1");
}

// An empty file system with /proc in it takes the place of the host's.
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
