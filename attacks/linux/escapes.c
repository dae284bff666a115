// Ways out that have worked elsewhere: other processes, the host's files, devices, sockets, namespaces,
// modules. Each one reports what it got, if anything.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"

static int reads_secret(int file) {
  char bytes[4096] = {0};
  if (file < 0 || read(file, bytes, sizeof bytes - 1) <= 0) return 0;
  return strstr(bytes, "the host's secret") != NULL;
}

// The harness has put a file on the host.
static int host_file(long how) {
  char path[5000];
  const char* const file = target("file");
  switch (how) {
    case 0: snprintf(path, sizeof path, "%s", file); break;
    case 1: snprintf(path, sizeof path, "/proc/1/root%s", file); break;
    case 2: snprintf(path, sizeof path, "/proc/self/root/../../..%s", file); break;
    case 3: snprintf(path, sizeof path, "/../../../../../..%s", file); break;
    case 4: snprintf(path, sizeof path, "/proc/self/cwd/../..%s", file); break;
    case 5: snprintf(path, sizeof path, "/proc/thread-self/root%s", file); break;
    case 6: snprintf(path, sizeof path, "/dev/fd/../../..%s", file); break;
    default: snprintf(path, sizeof path, "/proc/2/root%s", file); break;
  }
  return reads_secret(open(path, O_RDONLY)) ? escaped("%s was read", path) : kHeld;
}
static int host_file_by_link(long unused) {
  (void)unused;
  symlink(target("file"), "/tmp/way");
  return reads_secret(open("/tmp/way", O_RDONLY)) ? escaped("by a link") : kHeld;
}
static int host_file_by_chroot(long unused) {
  (void)unused;
  mkdir("/tmp/jail", 0700);
  const int root = open("/", O_RDONLY | O_DIRECTORY);
  if (chroot("/tmp/jail") != 0) return kHeld;
  fchdir(root);
  for (int i = 0; i < 100; ++i) chdir("..");
  chroot(".");
  return reads_secret(open(target("file"), O_RDONLY)) ? escaped("by chroot") : kHeld;
}
static int host_file_by_mount(long how) {
  mkdir("/tmp/mounted", 0700);
  const int failed = how == 0   ? mount("/", "/tmp/mounted", NULL, MS_BIND | MS_REC, NULL)
                     : how == 1 ? mount("proc", "/tmp/mounted", "proc", 0, NULL)
                     : how == 2 ? mount("/dev/sda1", "/tmp/mounted", "ext4", 0, NULL)
                                : (int)call(SYS_open_tree, AT_FDCWD, "/", 1);
  (void)failed;
  char path[5000];
  snprintf(path, sizeof path, "/tmp/mounted%s", target("file"));
  if (reads_secret(open(path, O_RDONLY))) return escaped("by a mount");
  return kHeld;
}
static int host_file_by_handle(long unused) {
  (void)unused;
  struct {
    struct file_handle handle;
    unsigned char bytes[128];
  } all = {.handle = {.handle_bytes = 8, .handle_type = 1}};
  for (int inode = 2; inode < 2000; ++inode) {
    memcpy(all.handle.f_handle, &inode, 4);
    const int file = open_by_handle_at(AT_FDCWD, &all.handle, O_RDONLY);
    if (reads_secret(file)) return escaped("by a handle");
    if (file >= 0) close(file);
  }
  return kHeld;
}
static int descriptors_of_others(long unused) {
  (void)unused;
  for (int number = 0; number < 300; ++number) {
    struct stat status;
    if (number > 2 && fstat(number, &status) == 0)
      return escaped("descriptor %d is open from the start", number);
  }
  return kHeld;
}
static int device(long number) {
  static const struct {
    mode_t type;
    unsigned major, minor;
  } kDevices[] = {{S_IFCHR, 1, 1},    {S_IFCHR, 1, 2},   {S_IFCHR, 1, 4}, {S_IFCHR, 10, 232},
                  {S_IFBLK, 8, 0},    {S_IFBLK, 254, 0}, {S_IFBLK, 7, 0}, {S_IFCHR, 10, 200},
                  {S_IFCHR, 10, 229}, {S_IFCHR, 4, 0}};
  unlink("/tmp/device");
  if (mknod("/tmp/device", kDevices[number].type | 0666,
            makedev(kDevices[number].major, kDevices[number].minor)) != 0)
    return kHeld;
  const int file = open("/tmp/device", O_RDWR);
  return file >= 0 ? escaped("device %u:%u opens", kDevices[number].major, kDevices[number].minor) : kHeld;
}
static int special_file(long number) {
  static const char* const kPaths[] = {"/proc/kcore",
                                       "/proc/kmsg",
                                       "/proc/sysrq-trigger",
                                       "/proc/sys/kernel/core_pattern",
                                       "/dev/mem",
                                       "/dev/kvm",
                                       "/dev/sda",
                                       "/proc/sys/kernel/modprobe",
                                       "/sys/kernel/uevent_helper",
                                       "/sys/fs/cgroup/release_agent",
                                       "/dev/fuse",
                                       "/proc/sys/vm/overcommit_memory",
                                       "/proc/1/mem",
                                       "/proc/1/environ",
                                       "/proc/config.gz",
                                       "/sys/kernel/debug"};
  const int file = open(kPaths[number], O_WRONLY);
  if (file < 0) return kHeld;
  // Writable settings in the sandbox are the sandbox's own.
  write(file, "|/tmp/x", 7);
  return kHeld;
}

static int host_process(long signal_number) {
  const int process = atoi(target("process"));
  if (process <= 0) return kHeld;
  if (kill(process, (int)signal_number) == 0) return escaped("process %d of the host was signalled", process);
  char byte;
  const struct iovec here = {&byte, 1}, there = {(void*)0x400000, 1};
  if (call(SYS_process_vm_readv, process, &here, 1, &there, 1, 0) > 0) return escaped("its memory was read");
  if (call(SYS_pidfd_open, process, 0) >= 0) return escaped("a pidfd of it was had");
  if (call(SYS_ptrace, PTRACE_ATTACH, process, 0, 0) == 0) return escaped("it was traced");
  char path[60];
  snprintf(path, sizeof path, "/proc/%d/status", process);
  return access(path, F_OK) == 0 ? escaped("%s is there", path) : kHeld;
}
static int processes_seen(long unused) {
  (void)unused;
  DIR* const all = opendir("/proc");
  int count = 0;
  for (struct dirent* each; all != NULL && (each = readdir(all)) != NULL;) count += atoi(each->d_name) > 0;
  return count > 3 ? escaped("%d processes are seen", count) : kHeld;
}
static int kill_all(long unused) {
  (void)unused;
  // The harness sees whether its own processes live.
  for (int process = 2; process < 70000; ++process)
    if (process != getpid()) kill(process, SIGKILL);
  for (int group = 2; group < 70000; group += 7)
    if (group != getpgrp()) kill(-group, SIGKILL);
  return kHeld;
}
static int trace_parent(long unused) {
  (void)unused;
  return call(SYS_ptrace, PTRACE_ATTACH, getppid(), 0, 0) == 0 ? kHeld : kHeld;
}
static int memory_of_parent(long unused) {
  (void)unused;
  // The stub's half of the address space, through every access to a process's memory.
  char byte = 0;
  const struct iovec here = {&byte, 1}, there = {(void*)0x7ffe00000000, 1};
  if (call(SYS_process_vm_writev, getpid(), &here, 1, &there, 1, 0) > 0)
    return escaped("the stub was written");
  const int memory = open("/proc/self/mem", O_RDWR);
  if (memory >= 0 && pwrite(memory, &byte, 1, 0x7ffe00000000) == 1)
    return escaped("the stub was written by /proc/self/mem");
  return kHeld;
}

static int host_port(long how) {
  const int port = atoi(target("port"));
  if (port <= 0) return kHeld;
  static const char* const kAddresses[] = {"127.0.0.1", "0.0.0.0",     "127.0.0.53", "169.254.169.254",
                                           "10.0.0.1",  "192.168.0.1", "1.1.1.1"};
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  inet_aton(kAddresses[how], &to.sin_addr);
  const int stream = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (stream < 0) return kHeld;
  if (connect(stream, (struct sockaddr*)&to, sizeof to) != 0) usleep(100000);
  char bytes[100];
  if (recv(stream, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
    return escaped("the host's %s answers", kAddresses[how]);
  const int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
  if (datagrams >= 0) sendto(datagrams, "x", 1, 0, (struct sockaddr*)&to, sizeof to);
  return kHeld;
}
static int host_socket(long is_abstract) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  const char* const name = target(is_abstract ? "abstract" : "socket");
  if (name[0] == 0) return kHeld;
  strncpy(to.sun_path + is_abstract, name, sizeof to.sun_path - 2);
  const int stream = socket(AF_UNIX, SOCK_STREAM, 0);
  const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)is_abstract +
                                       strlen(name) + (is_abstract ? 0 : 1));
  return connect(stream, (struct sockaddr*)&to, length) == 0 ? escaped("a socket of the host was reached")
                                                             : kHeld;
}
static int socket_family(long family) {
  static const int kTypes[] = {SOCK_RAW, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_PACKET};
  for (size_t type = 0; type < sizeof kTypes / sizeof *kTypes; ++type)
    for (int protocol = 0; protocol < 30; ++protocol) {
      const int made = socket((int)family, kTypes[type], protocol);
      if (made < 0) continue;
      if (family != AF_UNIX && family != AF_INET && family != AF_INET6 && family != AF_NETLINK)
        return escaped("a socket of family %ld, type %d is made", family, kTypes[type]);
      close(made);
    }
  return kHeld;
}

// Calls whose success is of no use to a guest.
static int forbidden(long number) {
  switch (number) {
    case SYS_init_module:
    case SYS_delete_module: return call(number, "x", 0, "") == 0 ? escaped("a module") : kHeld;
    case SYS_finit_module: return call(number, 0, "", 0) == 0 ? escaped("a module") : kHeld;
    case SYS_kexec_load: return call(number, 0, 0, 0, 0) == 0 ? escaped("kexec") : kHeld;
    case SYS_reboot:
      return call(number, 0xfee1dead, 672274793, 0x89abcdef, 0) == 0 ? escaped("reboot") : kHeld;
    case SYS_iopl: return call(number, 3) == 0 ? escaped("iopl") : kHeld;
    case SYS_ioperm: return call(number, 0, 65535, 1) == 0 ? escaped("ioperm") : kHeld;
    case SYS_bpf: return call(number, 0, &(char[128]){4}, 128) >= 0 ? escaped("bpf") : kHeld;
    case SYS_perf_event_open:
      return call(number, &(char[128]){0}, 0, -1, -1, 0) >= 0 ? escaped("perf") : kHeld;
    case SYS_userfaultfd: return call(number, 0) >= 0 ? escaped("userfaultfd") : kHeld;
    case SYS_io_uring_setup: return call(number, 8, &(char[256]){0}) >= 0 ? escaped("io_uring") : kHeld;
    case SYS_swapon: return call(number, "/tmp/swap", 0) == 0 ? escaped("swap") : kHeld;
    case SYS_settimeofday:
      return call(number, &(long[2]){0, 0}, 0) == 0 ? escaped("the time was set") : kHeld;
    case SYS_clock_settime:
      return call(number, 0, &(long[2]){0, 0}) == 0 ? escaped("the time was set") : kHeld;
    case SYS_acct: return call(number, "/tmp/acct") == 0 ? escaped("accounting") : kHeld;
    case SYS_syslog: return call(number, 3, &(char[100]){0}, 100) > 0 ? escaped("the kernel's log") : kHeld;
    case SYS_add_key: return call(number, "user", "a", "b", 1, -3) >= 0 ? escaped("keys") : kHeld;
    case SYS_request_key: return call(number, "user", "a", 0, -3) >= 0 ? escaped("keys") : kHeld;
    case SYS_keyctl: return call(number, 0, -3, 1) >= 0 ? escaped("keys") : kHeld;
    case SYS_setns: return call(number, open("/proc/1/ns/net", O_RDONLY), 0) == 0 ? escaped("setns") : kHeld;
    case SYS_pivot_root: return call(number, ".", ".") == 0 ? escaped("pivot_root") : kHeld;
    case SYS_quotactl: return call(number, 0x800002, "/dev/sda", 0, 0) == 0 ? escaped("quotas") : kHeld;
    case SYS_fanotify_init: return call(number, 0, 0) >= 0 ? escaped("fanotify") : kHeld;
    case SYS_lookup_dcookie: return call(number, 1, &(char[100]){0}, 100) >= 0 ? escaped("dcookie") : kHeld;
    case SYS_move_pages: return call(number, 1, 0, 0, 0, 0, 0) > 0 ? escaped("move_pages") : kHeld;
    case SYS_modify_ldt: {
      const unsigned entry[4] = {0, 0, 0xfffff, 0x51};
      return call(number, 1, entry, sizeof entry) == 0 ? escaped("a segment of its own") : kHeld;
    }
    default: return kHeld;
  }
}
static int unshared(long flags) {
  const pid_t process = fork();
  if (process == 0) {
    if (unshare((int)flags) == 0) mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    _exit(reads_secret(open(target("file"), O_RDONLY)) ? kEscaped : kHeld);
  }
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kHeld;
}
static int host_name(long unused) {
  (void)unused;
  char name[100] = {0};
  gethostname(name, sizeof name);
  return target("host")[0] != 0 && strcmp(name, target("host")) == 0 ? escaped("the host's name is %s", name)
                                                                     : kHeld;
}
static int environment(long unused) {
  (void)unused;
  for (char** each = environ; *each != NULL; ++each)
    if (strstr(*each, "MEMBRANE") != NULL || strstr(*each, "SECRET") != NULL) return escaped("%s", *each);
  return kHeld;
}
static int other_users_files(long unused) {
  (void)unused;
  setgid(1000);
  if (setuid(1000) != 0) return kHeld;
  const int shadow = open("/etc/only-root", O_RDONLY);
  if (shadow >= 0) return escaped("a file of mode 0600 of another user opens");
  if (setuid(0) == 0) return escaped("it became root again");
  return kHeld;
}
// A process that tries to outlive everything.
static int daemon_of_many(long unused) {
  (void)unused;
  for (int i = 0; i < 20; ++i)
    if (fork() == 0) {
      setsid();
      if (fork() != 0) _exit(0);
      for (int signal_number = 1; signal_number < 65; ++signal_number) signal(signal_number, SIG_IGN);
      for (;;) pause();
    }
  return kHeld;
}

#define ROW(name, act, n) {"escape." name, act, n}
const struct Attack kEscapes[] = {
    ROW("file.path", host_file, 0),
    ROW("file.proc_root", host_file, 1),
    ROW("file.self_root", host_file, 2),
    ROW("file.dots", host_file, 3),
    ROW("file.cwd", host_file, 4),
    ROW("file.thread_root", host_file, 5),
    ROW("file.dev_fd", host_file, 6),
    ROW("file.other_root", host_file, 7),
    ROW("file.link", host_file_by_link, 0),
    ROW("file.chroot", host_file_by_chroot, 0),
    ROW("file.bind", host_file_by_mount, 0),
    ROW("file.mount_proc", host_file_by_mount, 1),
    ROW("file.mount_disk", host_file_by_mount, 2),
    ROW("file.open_tree", host_file_by_mount, 3),
    ROW("file.handle", host_file_by_handle, 0),
    ROW("file.descriptors", descriptors_of_others, 0),
    ROW("device.0", device, 0),
    ROW("device.1", device, 1),
    ROW("device.2", device, 2),
    ROW("device.3", device, 3),
    ROW("device.4", device, 4),
    ROW("device.5", device, 5),
    ROW("device.6", device, 6),
    ROW("device.7", device, 7),
    ROW("device.8", device, 8),
    ROW("device.9", device, 9),
    ROW("special.0", special_file, 0),
    ROW("special.1", special_file, 1),
    ROW("special.2", special_file, 2),
    ROW("special.3", special_file, 3),
    ROW("special.4", special_file, 4),
    ROW("special.5", special_file, 5),
    ROW("special.6", special_file, 6),
    ROW("special.7", special_file, 7),
    ROW("special.8", special_file, 8),
    ROW("special.9", special_file, 9),
    ROW("special.10", special_file, 10),
    ROW("special.11", special_file, 11),
    ROW("special.12", special_file, 12),
    ROW("special.13", special_file, 13),
    ROW("special.14", special_file, 14),
    ROW("special.15", special_file, 15),
    ROW("process.probe", host_process, 0),
    ROW("process.kill", host_process, SIGKILL),
    ROW("process.list", processes_seen, 0),
    ROW("process.kill_all", kill_all, 0),
    ROW("process.trace_parent", trace_parent, 0),
    ROW("process.memory", memory_of_parent, 0),
    ROW("process.daemons", daemon_of_many, 0),
    ROW("network.loopback", host_port, 0),
    ROW("network.any", host_port, 1),
    ROW("network.resolver", host_port, 2),
    ROW("network.metadata", host_port, 3),
    ROW("network.ten", host_port, 4),
    ROW("network.private", host_port, 5),
    ROW("network.public", host_port, 6),
    ROW("network.unix", host_socket, 0),
    ROW("network.abstract", host_socket, 1),
    ROW("network.packet", socket_family, AF_PACKET),
    ROW("network.netlink", socket_family, AF_NETLINK),
    ROW("network.vsock", socket_family, AF_VSOCK),
    ROW("network.alg", socket_family, AF_ALG),
    ROW("network.bluetooth", socket_family, AF_BLUETOOTH),
    ROW("network.tipc", socket_family, AF_TIPC),
    ROW("network.xdp", socket_family, AF_XDP),
    ROW("network.can", socket_family, AF_CAN),
    ROW("network.raw", socket_family, AF_INET6),
    ROW("call.init_module", forbidden, SYS_init_module),
    ROW("call.finit_module", forbidden, SYS_finit_module),
    ROW("call.delete_module", forbidden, SYS_delete_module),
    ROW("call.kexec_load", forbidden, SYS_kexec_load),
    ROW("call.reboot", forbidden, SYS_reboot),
    ROW("call.iopl", forbidden, SYS_iopl),
    ROW("call.ioperm", forbidden, SYS_ioperm),
    ROW("call.bpf", forbidden, SYS_bpf),
    ROW("call.perf", forbidden, SYS_perf_event_open),
    ROW("call.userfaultfd", forbidden, SYS_userfaultfd),
    ROW("call.io_uring", forbidden, SYS_io_uring_setup),
    ROW("call.swapon", forbidden, SYS_swapon),
    ROW("call.settimeofday", forbidden, SYS_settimeofday),
    ROW("call.clock_settime", forbidden, SYS_clock_settime),
    ROW("call.acct", forbidden, SYS_acct),
    ROW("call.syslog", forbidden, SYS_syslog),
    ROW("call.add_key", forbidden, SYS_add_key),
    ROW("call.request_key", forbidden, SYS_request_key),
    ROW("call.keyctl", forbidden, SYS_keyctl),
    ROW("call.setns", forbidden, SYS_setns),
    ROW("call.pivot_root", forbidden, SYS_pivot_root),
    ROW("call.quotactl", forbidden, SYS_quotactl),
    ROW("call.fanotify", forbidden, SYS_fanotify_init),
    ROW("call.dcookie", forbidden, SYS_lookup_dcookie),
    ROW("call.move_pages", forbidden, SYS_move_pages),
    ROW("call.modify_ldt", forbidden, SYS_modify_ldt),
    ROW("unshare.mount", unshared, CLONE_NEWNS),
    ROW("unshare.user", unshared, CLONE_NEWUSER),
    ROW("unshare.all", unshared, CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET),
    ROW("name", host_name, 0),
    ROW("environment", environment, 0),
    ROW("users", other_users_files, 0),
    {NULL, NULL, 0}};
