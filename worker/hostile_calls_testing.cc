#include "worker/hostile_calls_testing.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

namespace membrane::worker {
namespace {

constexpr size_t kPage = 4096;

// The system's answer.
int said(long result) { return result < 0 ? -errno : 1; }
// For reads: 0 when there is nothing.
int found(bool is_there) { return is_there ? 1 : 0; }

// Calls without the C library, which might make others.
template <typename... Arguments>
int call(long number, Arguments... arguments) {
  return said(syscall(number, arguments...));
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int open_file(const std::string& path, int flags = O_RDONLY) {
  return call(SYS_openat, AT_FDCWD, path.c_str(), flags | O_CLOEXEC, 0600);
}

void* a_page(int protection = PROT_READ | PROT_WRITE) {
  return mmap(nullptr, kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// -- files

int open_a_file_of_the_host(const Bait& bait) { return open_file(bait.file); }
int open_beneath_a_descriptor(const Bait& bait) {
  return call(SYS_openat, bait.left_directory, "..", O_RDONLY | O_DIRECTORY);
}
int open_its_own_memory(const Bait&) { return open_file("/proc/self/mem", O_RDWR); }
int open_the_machines_memory(const Bait&) { return open_file("/proc/kmsg"); }
int open_with_openat2(const Bait& bait) {
  const std::array<uint64_t, 3> how = {O_RDONLY, 0, 0};
  return call(SYS_openat2, AT_FDCWD, bait.file.c_str(), how.data(), sizeof how);
}
int look_at_a_file(const Bait& bait) {
  std::array<char, 512> status{};
  return call(SYS_statx, AT_FDCWD, bait.file.c_str(), 0, 0x7ff, status.data());
}
int read_the_link_of_its_program(const Bait&) {
  std::array<char, 256> target{};
  return call(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", target.data(), target.size());
}
int climb_out_of_the_root(const Bait& bait) {
  static_cast<void>(syscall(SYS_chdir, ".."));
  return open_file("../../../../../../../../../.." + bait.file);
}
// In its root directory "/".
int list_the_root(const Bait&) {
  const int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return -errno;
  std::array<char, kPage> entries{};
  const long got = syscall(SYS_getdents64, root, entries.data(), entries.size());
  constexpr long kItselfAndAbove = 2 * 24;
  return got < 0 ? -errno : found(got > kItselfAndAbove);
}
int list_a_directory(const Bait& bait) {
  std::array<char, kPage> entries{};
  return call(SYS_getdents64, bait.left_directory, entries.data(), entries.size());
}
// In the root that it sees, or in another place that it may be able to write to.
std::string place(const Bait& bait, const char* name) {
  struct stat status{};
  return stat(bait.directory.c_str(), &status) == 0 ? bait.directory + name : name;
}
int make_a_file_in_the_root(const Bait& bait) { return open_file(place(bait, "/made"), O_WRONLY | O_CREAT); }
int make_a_nameless_file_in_the_root(const Bait& bait) {
  return open_file(place(bait, "/"), O_RDWR | O_TMPFILE);
}
int make_a_directory_in_the_root(const Bait& bait) {
  return call(SYS_mkdirat, AT_FDCWD, place(bait, "/directory").c_str(), 0700);
}
int make_a_device(const Bait& bait) {
  return call(SYS_mknodat, AT_FDCWD, place(bait, "/device").c_str(), S_IFCHR | 0600, makedev(1, 1));
}
int read_a_file_of_another_user(const Bait& bait) { return open_file(bait.file_of_another); }
int give_a_file_to_another_user(const Bait& bait) {
  return call(SYS_fchownat, AT_FDCWD, bait.file.c_str(), 12345, 12345, 0);
}
int watch_files(const Bait& bait) {
  const int watcher = static_cast<int>(syscall(SYS_inotify_init1, 0));
  if (watcher < 0) return -errno;
  return call(SYS_inotify_add_watch, watcher, bait.directory.c_str(), IN_ALL_EVENTS);
}
int watch_a_whole_file_system(const Bait&) { return call(SYS_fanotify_init, 0, 0); }
int ask_for_quotas(const Bait& bait) { return call(SYS_quotactl, 0, bait.file.c_str(), 0, nullptr); }
int open_by_a_handle(const Bait&) { return call(SYS_open_by_handle_at, -1, nullptr, 0); }
int make_a_pipe(const Bait&) {
  int ends[2];
  return call(SYS_pipe2, ends, 0);
}
int splice_into_its_socket(const Bait& bait) {
  return call(SYS_splice, bait.own_socket, nullptr, bait.own_socket, nullptr, 1, 0);
}

// -- processes

int fork_a_process(const Bait&) {
  const long pid = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0);
  if (pid == 0) _exit(0);
  return said(pid);
}
int start_a_thread(const Bait&) {
  constexpr unsigned long kThread =
      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  // Without a stack of its own no thread starts: the system must not even see the call.
  return call(SYS_clone, kThread | CLONE_NEWNS, nullptr, nullptr, nullptr, 0);
}
int start_with_clone3(const Bait&) { return call(SYS_clone3, nullptr, 0); }
int execute_a_program(const Bait& bait) {
  const char* const arguments[] = {bait.program.c_str(), nullptr};
  const char* const environment[] = {nullptr};
  return call(SYS_execve, bait.program.c_str(), arguments, environment);
}
int execute_bytes_in_memory(const Bait&) {
  const int file = static_cast<int>(syscall(SYS_memfd_create, "program", 0));
  constexpr std::string_view kProgram = "#!/bin/true\n";
  static_cast<void>(write(file, kProgram.data(), kProgram.size()));
  const char* const none[] = {nullptr};
  return call(SYS_execveat, file, "", none, none, AT_EMPTY_PATH);
}
int trace_the_supervisor(const Bait& bait) {
  return call(SYS_ptrace, PTRACE_SEIZE, bait.supervisor, nullptr, nullptr);
}
iovec part(void* at, size_t size) { return {at, size}; }
int read_the_supervisors_memory(const Bait& bait) {
  std::array<char, 8> stolen{};
  const iovec here = part(stolen.data(), stolen.size()), there = part(bait.secret->data(), stolen.size());
  return call(SYS_process_vm_readv, bait.supervisor, &here, 1ul, &there, 1ul, 0ul);
}
int write_the_supervisors_memory(const Bait& bait) {
  std::array<char, 8> forged{};
  const iovec here = part(forged.data(), forged.size()), there = part(bait.secret->data(), forged.size());
  return call(SYS_process_vm_writev, bait.supervisor, &here, 1ul, &there, 1ul, 0ul);
}
int signal_the_supervisor(const Bait& bait) { return call(SYS_kill, bait.supervisor, SIGURG); }
int signal_everybody(const Bait&) { return call(SYS_kill, -1, 0); }
int hold_the_supervisor_by_pidfd(const Bait& bait) { return call(SYS_pidfd_open, bait.supervisor, 0); }
int take_the_supervisors_descriptor(const Bait& bait) {
  return call(SYS_pidfd_getfd, bait.own_socket, bait.left_file, 0);
}
int find_processes_by_their_numbers(const Bait& bait) {
  const pid_t self = getpid();
  for (pid_t pid = 2; pid <= bait.supervisor; ++pid)
    if (pid != self && (syscall(SYS_tgkill, pid, pid, 0) == 0 || errno != ESRCH)) return 1;
  return 0;
}
int learn_its_parent(const Bait&) { return found(syscall(SYS_getppid) != 0); }
int set_a_limit_of_the_supervisor(const Bait& bait) {
  rlimit now{};
  return call(SYS_prlimit64, bait.supervisor, RLIMIT_NOFILE, nullptr, &now);
}
int have_the_supervisor_signalled_by_its_socket(const Bait& bait) {
  return call(SYS_fcntl, bait.own_socket, F_SETOWN, bait.supervisor);
}
int outlive_by_clearing_the_death_signal(const Bait&) {
  return call(SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0, 0);
}

// -- sockets

int socket_of(int family, int type = SOCK_STREAM, int protocol = 0) {
  return call(SYS_socket, family, type, protocol);
}
int make_a_unix_socket(const Bait&) { return socket_of(AF_UNIX); }
int make_an_internet_socket(const Bait&) { return socket_of(AF_INET); }
int make_an_ipv6_socket(const Bait&) { return socket_of(AF_INET6); }
int make_a_netlink_socket(const Bait&) { return socket_of(AF_NETLINK, SOCK_RAW); }
int make_a_packet_socket(const Bait&) { return socket_of(AF_PACKET, SOCK_RAW, 0); }
int make_a_socket_of_the_hypervisor(const Bait&) { return socket_of(AF_VSOCK); }
int make_a_socket_of_the_kernels_ciphers(const Bait&) { return socket_of(AF_ALG, SOCK_SEQPACKET); }
int make_a_pair_of_sockets(const Bait&) {
  int ends[2];
  return call(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, ends);
}
int connect_its_own_socket_elsewhere(const Bait& bait) {
  const sockaddr_in address = loopback(bait.port);
  return call(SYS_connect, bait.own_socket, &address, sizeof address);
}
int accept_on_its_own_socket(const Bait& bait) {
  return call(SYS_accept4, bait.own_socket, nullptr, nullptr, SOCK_NONBLOCK);
}
int send_many_messages_in_one_call(const Bait& bait) {
  return call(SYS_sendmmsg, bait.own_socket, nullptr, 0, 0);
}

int connect_to(int family, int type, const void* address, socklen_t bytes) {
  const int made = socket(family, type | SOCK_CLOEXEC, 0);
  if (made < 0) return -errno;
  return said(connect(made, static_cast<const sockaddr*>(address), bytes));
}
int connect_to_loopback(const Bait& bait) {
  const sockaddr_in address = loopback(bait.port);
  return connect_to(AF_INET, SOCK_STREAM, &address, sizeof address);
}
int send_a_datagram_to_loopback(const Bait& bait) {
  const sockaddr_in address = loopback(bait.port);
  return connect_to(AF_INET, SOCK_DGRAM, &address, sizeof address);
}
int connect_to_name(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  return connect_to(AF_UNIX, SOCK_STREAM, &address,
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size()));
}
int connect_to_a_socket_of_the_host(const Bait& bait) { return connect_to_name(bait.socket); }
int connect_to_an_abstract_socket(const Bait& bait) { return connect_to_name(bait.abstract_socket); }
int bring_loopback_up(const Bait&) {
  const int any = socket(AF_INET, SOCK_DGRAM, 0);
  if (any < 0) return -errno;
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
  return said(ioctl(any, SIOCSIFFLAGS, &request));
}
int find_an_interface_that_is_up(const Bait&) {
  const int any = socket(AF_INET, SOCK_DGRAM, 0);
  if (any < 0) return -errno;
  constexpr int kMostInterfaces = 64;
  for (int index = 1; index < kMostInterfaces; ++index) {
    ifreq request{};
    request.ifr_ifindex = index;
    if (ioctl(any, SIOCGIFNAME, &request) != 0) continue;
    if (ioctl(any, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0) return 1;
  }
  return 0;
}

// -- file systems and namespaces

int mount_a_file_system(const Bait& bait) {
  const std::string at = place(bait, "/");
  const int done = call(SYS_mount, "none", at.c_str(), "tmpfs", 0, nullptr);
  if (done > 0) umount2(at.c_str(), MNT_DETACH);
  return done;
}
int mount_by_the_new_calls(const Bait&) { return call(SYS_fsopen, "tmpfs", 0); }
int pivot_the_root(const Bait&) { return call(SYS_pivot_root, "/none", "/none"); }
int change_the_root(const Bait& bait) { return call(SYS_chroot, place(bait, "/").c_str()); }
int unshare_a_user_namespace(const Bait&) { return call(SYS_unshare, CLONE_NEWUSER); }
int unshare_a_network(const Bait&) { return call(SYS_unshare, CLONE_NEWNET); }
int join_a_namespace(const Bait& bait) { return call(SYS_setns, bait.left_file, 0); }
int enter_the_supervisors_mounts(const Bait& bait) {
  const std::string path = "/proc/" + std::to_string(bait.supervisor) + "/ns/mnt";
  const int its = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  return its < 0 ? -errno : said(setns(its, CLONE_NEWNS));
}
int learn_its_control_group(const Bait&) {
  const int file = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -errno;
  std::string text(kPage, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(read(file, text.data(), text.size()), 0)));
  bool is_root = true;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    is_root = is_root && text.compare(end - 2, 2, ":/") == 0;
    at = end + 1;
  }
  return found(!is_root);
}
uint64_t inode_of(const char* path) {
  struct stat status{};
  return stat(path, &status) == 0 ? status.st_ino : 0;
}
int share_the_namespace_of_control_groups(const Bait& bait) {
  return found(inode_of("/proc/self/ns/cgroup") == bait.cgroup_namespace);
}
int learn_the_machine_by_uname(const Bait&) {
  utsname names{};
  return call(SYS_uname, &names);
}
int learn_the_machines_name(const Bait& bait) {
  utsname names{};
  if (uname(&names) != 0) return -errno;
  return found(bait.machine == names.nodename);
}
int rename_the_machine(const Bait& bait) {
  return call(SYS_sethostname, bait.machine.data(), bait.machine.size());
}

// -- what the system keeps for processes together

int map_a_segment_of_shared_memory(const Bait& bait) {
  return call(SYS_shmget, bait.shared_memory_key, kPage, 0600);
}
int attach_to_shared_memory_by_its_number(const Bait& bait) {
  return call(SYS_shmat, bait.shared_memory, nullptr, SHM_RDONLY);
}
int open_a_message_queue(const Bait& bait) { return call(SYS_msgget, bait.queue_key, 0600); }
int open_a_semaphore(const Bait& bait) { return call(SYS_semget, bait.semaphore_key, 1, 0600); }
int make_a_queue_of_messages(const Bait&) {
  const int done = call(SYS_mq_open, "membrane-try", O_CREAT | O_RDWR, 0600, nullptr);
  if (done > 0) syscall(SYS_mq_unlink, "membrane-try");
  return done;
}
int read_the_keyring(const Bait&) {
  return call(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1);
}
int add_a_key(const Bait&) { return call(SYS_add_key, "user", "membrane", "x", 1, KEY_SPEC_PROCESS_KEYRING); }

// -- the kernel's own machines

int load_a_bpf_program(const Bait&) {
  bpf_attr map{};
  map.map_type = BPF_MAP_TYPE_ARRAY;
  map.key_size = map.value_size = map.max_entries = 4;
  return call(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map);
}
int open_a_performance_counter(const Bait&) {
  perf_event_attr counter{};
  counter.type = PERF_TYPE_SOFTWARE;
  counter.size = sizeof counter;
  return call(SYS_perf_event_open, &counter, 0, -1, -1, 0);
}
int handle_page_faults(const Bait&) { return call(SYS_userfaultfd, 1); }
int set_up_an_io_ring(const Bait&) {
  std::array<char, 256> parameters{};
  return call(SYS_io_uring_setup, 1, parameters.data());
}
int install_a_filter_of_its_own(const Bait&) {
  sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog program{1, all};
  return call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}
int load_a_module_into_the_kernel(const Bait&) { return call(SYS_init_module, nullptr, 0, ""); }
int reboot_the_machine(const Bait&) {
  return call(SYS_reboot, 0, 0, 0, nullptr);
}  // the magic numbers are wrong
int read_the_kernels_log(const Bait&) {
  std::array<char, 256> text{};
  constexpr int kReadAll = 3;
  return call(SYS_syslog, kReadAll, text.data(), text.size());
}
int set_the_clock(const Bait&) { return call(SYS_settimeofday, nullptr, nullptr); }
int type_into_the_terminal(const Bait&) { return call(SYS_ioctl, 0, TIOCSTI, "x"); }

// -- memory

int map_executable_memory(const Bait&) { return found(a_page(PROT_READ | PROT_EXEC) != MAP_FAILED); }
int map_memory_to_write_and_execute(const Bait&) {
  return found(a_page(PROT_READ | PROT_WRITE | PROT_EXEC) != MAP_FAILED);
}
int make_memory_executable(const Bait&) { return call(SYS_mprotect, a_page(), kPage, PROT_READ | PROT_EXEC); }
int make_memory_executable_by_a_key(const Bait&) {
  return call(SYS_pkey_mprotect, a_page(), kPage, PROT_READ | PROT_EXEC, -1);
}
int make_memory_executable_by_personality(const Bait&) { return call(SYS_personality, READ_IMPLIES_EXEC); }
// One bit of each entry's frame number suffices: it is zero for a process that may not see it.
int learn_physical_addresses(const Bait&) {
  const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (map < 0) return -errno;
  auto* const page = static_cast<char*>(a_page());
  *page = 1;
  uint64_t entry = 0;
  const auto at = static_cast<off_t>(reinterpret_cast<uint64_t>(page) / kPage * sizeof entry);
  if (pread(map, &entry, sizeof entry, at) != sizeof entry) return -errno;
  constexpr uint64_t kFrame = (1ull << 55) - 1;
  return found((entry & kFrame) != 0);
}

// -- rights

int give_up_no_new_privileges(const Bait&) { return call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0); }
int find_no_new_privileges_off(const Bait&) { return found(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1); }
int find_no_new_privileges_off_in_a_child(const Bait& bait) {
  const pid_t child = fork();
  if (child < 0) return -errno;
  if (child == 0) _exit(find_no_new_privileges_off(bait));
  int status = 0;
  waitpid(child, &status, 0);
  return found(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}
int become_dumpable(const Bait&) { return call(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0); }
int become_another_user(const Bait&) { return call(SYS_setresuid, 12345, 12345, 12345); }
struct CapabilitySets {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
};
int find_a_capability(const Bait&) {
  CapabilitySets has;
  if (syscall(SYS_capget, &has.header, has.sets.data()) != 0) return -errno;
  for (const auto& set : has.sets)
    if ((set.effective | set.permitted | set.inheritable) != 0) return 1;
  return 0;
}
int find_a_capability_to_inherit(const Bait&) {
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability)
    if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) > 0) return 1;
  return 0;
}
int take_capabilities(const Bait&) {
  CapabilitySets wanted;
  wanted.sets[0] = {1u << CAP_CHOWN, 1u << CAP_CHOWN, 0};
  return call(SYS_capset, &wanted.header, wanted.sets.data());
}
int make_a_capability_ambient(const Bait&) {
  CapabilitySets wanted;  // one that may be inherited, where it can be had
  wanted.sets[0] = {1u << CAP_CHOWN, 1u << CAP_CHOWN, 1u << CAP_CHOWN};
  static_cast<void>(syscall(SYS_capset, &wanted.header, wanted.sets.data()));
  return call(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0);
}
#if defined(__x86_64__)
int use_ports_of_the_machine(const Bait&) { return call(SYS_iopl, 3); }
#endif

// -- resources and time

int set_a_limit(const Bait&) {
  rlimit same{};
  getrlimit(RLIMIT_STACK, &same);
  return call(SYS_prlimit64, 0, RLIMIT_STACK, &same, nullptr);
}
int set_a_limit_by_prlimit(const Bait& bait) { return set_a_limit(bait); }
// The filter sees addresses as two halves.
int set_a_limit_at_an_address_of_zeros(const Bait&) {
  constexpr uint64_t kLowHalfIsZero = 1ull << 44;
  void* const at = mmap(reinterpret_cast<void*>(kLowHalfIsZero), kPage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED) return -errno;
  *static_cast<rlimit*>(at) = {64, 64};
  return call(SYS_prlimit64, 0, RLIMIT_NOFILE, at, nullptr);
}
int raise_a_hard_limit(const Bait&) {
  rlimit limit{100, 100};
  if (setrlimit(RLIMIT_SIGPENDING, &limit) != 0) return -errno;
  limit.rlim_max = 101;
  return said(setrlimit(RLIMIT_SIGPENDING, &limit));
}
int open_its_limits_again(const Bait&) {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_max = RLIM_INFINITY;
  return said(setrlimit(RLIMIT_FSIZE, &limit));
}
int become_more_urgent(const Bait&) { return said(setpriority(PRIO_PROCESS, 0, -10)); }
int become_a_real_time_process(const Bait&) {
  const sched_param first{1};
  return call(SYS_sched_setscheduler, 0, SCHED_FIFO, &first);
}
int take_the_other_processors(const Bait&) {
  const uint64_t all = ~0ull;
  return call(SYS_sched_setaffinity, 0, sizeof all, &all);
}
int start_a_timer(const Bait&) {
  const itimerval never{};
  return call(SYS_setitimer, ITIMER_REAL, &never, nullptr);
}
int make_a_timer_with_a_descriptor(const Bait&) { return call(SYS_timerfd_create, CLOCK_MONOTONIC, 0); }
int learn_the_memory_by_sysinfo(const Bait&) {
  struct sysinfo facts{};
  return call(SYS_sysinfo, &facts);
}
int leave_a_core_dump(const Bait&) {
  rlimit limit{};
  getrlimit(RLIMIT_CORE, &limit);
  limit.rlim_cur = limit.rlim_max;
  return found(setrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_max != 0);
}
int open_files_without_end(const Bait&) {
  constexpr int kMany = 512;
  for (int count = 0; count < kMany; ++count)
    if (syscall(SYS_memfd_create, "x", 0) < 0) return -errno;
  return 1;
}
int make_a_file_of_a_terabyte(const Bait&) {
  signal(SIGXFSZ, SIG_IGN);
  return said(ftruncate(static_cast<int>(syscall(SYS_memfd_create, "x", 0)), 1ll << 40));
}
int take_a_terabyte_of_memory(const Bait&) {
  void* const taken =
      mmap(nullptr, 1ull << 40, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return taken == MAP_FAILED ? -errno : 1;
}

// -- descriptors

// Except 0 to 2, and its socket.
int find_open_descriptors(const Bait& bait) {
  constexpr int kAll = 4096;
  for (int number = 3; number < kAll; ++number)
    if (number != bait.own_socket && fcntl(number, F_GETFD) >= 0) return number;
  return 0;
}
int read_a_file_that_was_left_open(const Bait& bait) {
  char byte = 0;
  return call(SYS_pread64, bait.left_file, &byte, 1, 0);
}
int open_beneath_a_directory_that_was_left_open(const Bait& bait) {
  return call(SYS_openat, bait.left_directory, ".", O_RDONLY);
}
int accept_on_a_socket_that_was_left_open(const Bait& bait) {
  const int got = call(SYS_accept4, bait.left_listener, nullptr, nullptr, SOCK_NONBLOCK);
  return got == -EAGAIN ? 1 : got;
}
int write_on_the_supervisors_output(const Bait&) {
  for (int number = 0; number < 3; ++number) {
    struct stat status{};
    if (fstat(number, &status) != 0) continue;
    if (!S_ISCHR(status.st_mode) || status.st_rdev != makedev(1, 3)) return 1;  // it is not /dev/null
  }
  return 0;
}

// -- other ways to call

#if defined(__x86_64__)
int call_by_the_numbers_of_x32(const Bait&) { return call(0x40000000 + SYS_getpid); }
int call_by_the_gate_of_32_bits(const Bait&) {
  long result = 20;  // getpid
  asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
  return static_cast<int>(result);
}
#endif

// -- after the supervisor's death

int outlive_the_supervisor(const Bait&) { return 1; }
int outlive_the_supervisor_with_signals_blocked(const Bait&) {
  sigset_t all;
  sigfillset(&all);
  return said(sigprocmask(SIG_BLOCK, &all, nullptr));
}
int outlive_the_supervisor_with_signals_ignored(const Bait&) {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_IGN);
  return 1;
}

constexpr Try kTries[] = {
#define TRY(name, wall, when, stop) {#name, Wall::wall, When::when, stop, &name},
#include "worker/hostile_calls.def"
#undef TRY
};

}  // namespace

std::span<const Try> all_tries() { return kTries; }

}  // namespace membrane::worker
