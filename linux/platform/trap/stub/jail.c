// The nursery: the stub's program as it starts. It enters namespaces of its own and then creates a stub for
// each request of the kernel process. A stub is the kernel process's child (CLONE_PARENT), in the process
// namespace that ends with the nursery: nothing that a guest starts can outlive the kernel process.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>

#ifdef MEMBRANE_KVM  // the jail of the platform kvm's monitor
#include <linux/kvm.h>

#include "linux/platform/kvm/monitor/layout.h"
#endif
#include "linux/platform/trap/stub/calls.h"
#include "linux/platform/trap/stub/layout.h"

// What arrives for each stub: its control pages, its socket, and a machine's memory.
#ifdef MEMBRANE_KVM
enum { kStubDescriptors = 3 };
#else
enum { kStubDescriptors = 2 };
#endif

// Compilers call these for large objects, even in freestanding code.
void* memset(void* at, int value, unsigned long length) {
  void* to = at;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(length) : "a"(value) : "memory");
  return at;
}

void* memcpy(void* at, const void* from, unsigned long length) {
  void* to = at;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
  return at;
}

static __attribute__((noreturn)) void end(void) {
  for (;;) CALL1(SYS_exit_group, 1);
}

// ---- messages ----

// Returns the length; takes at most *count descriptors and stores the number received there.
static long receive(void* bytes, long length, int* descriptors, int* count) {
  char control[CMSG_SPACE(kStubDescriptors * sizeof(int))];
  struct iovec io = {bytes, (size_t)length};
  struct msghdr message = {
      .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  const long got = CALL3(SYS_recvmsg, kTrapSocket, &message, 0);
  if (got <= 0) end();  // the kernel process has ended
  const struct cmsghdr* const head = (const struct cmsghdr*)control;
  const int came =
      message.msg_controllen >= CMSG_LEN(0) ? (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int)) : 0;
  for (int i = 0; i < came && i < *count; ++i) descriptors[i] = ((const int*)CMSG_DATA(head))[i];
  *count = came;
  return got;
}

static void answer_with(const void* bytes, long length, int descriptor) {
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec io = {(void*)bytes, (size_t)length};
  struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1};
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr* const head = (struct cmsghdr*)control;
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    *(int*)CMSG_DATA(head) = descriptor;
  }
  if (CALL3(SYS_sendmsg, kTrapSocket, &message, MSG_NOSIGNAL) < 0) end();
}

// ---- walls ----

static char* put_number(char* at, unsigned number) {
  char digits[10];
  int count = 0;
  do digits[count++] = (char)('0' + number % 10);
  while ((number /= 10) != 0);
  while (count > 0) *at++ = digits[--count];
  return at;
}

static long write_file(const char* path, const char* text, long length) {
  const long file = CALL4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
  if (file < 0) return file;
  const long written = CALL3(SYS_write, file, text, length);
  CALL1(SYS_close, file);
  return written < 0 ? written : 0;
}

static long map_one(const char* path, unsigned inner, unsigned outer) {
  char text[40], *at = put_number(text, inner);
  *at++ = ' ';
  at = put_number(at, outer);
  *at++ = ' ';
  *at++ = '1';
  return write_file(path, text, at - text);
}

static long become(unsigned user, unsigned group) {
  long failed = CALL2(SYS_setgroups, 0, 0);
  if (failed == 0) failed = CALL3(SYS_setresgid, group, group, group);
  if (failed == 0) failed = CALL3(SYS_setresuid, user, user, user);
  return failed;
}

// Where the kernel process may map another user, the stubs run as that user; otherwise as this user, without
// privileges.
static long enter_user_namespace(const struct TrapNurseryStart* start) {
  long failed = CALL1(SYS_unshare, CLONE_NEWUSER);
  if (start->inner_user != start->user) {
    int answer = (int)failed, none = 0;
    answer_with(&answer, sizeof answer, -1);
    if (receive(&answer, sizeof answer, 0, &none) != sizeof answer) end();
    if (failed == 0 && answer == 0) return become(start->inner_user, start->inner_group);
  }
  if (failed != 0) return failed;
  write_file("/proc/self/setgroups", "deny", 4);
  failed = map_one("/proc/self/uid_map", start->user, start->user);
  if (failed == 0) failed = map_one("/proc/self/gid_map", start->group, start->group);
  return failed;
}

// An empty root directory in which nothing can be created.
static long empty_root(void) {
  const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  long failed = CALL5(SYS_mount, "none", "/", 0, MS_REC | MS_PRIVATE, 0);
  if (failed == 0) failed = CALL5(SYS_mount, "none", "/proc", "tmpfs", flags, "size=4k,nr_inodes=2,mode=555");
  if (failed == 0) failed = CALL1(SYS_chdir, "/proc");
  if (failed == 0) failed = CALL2(SYS_pivot_root, ".", ".");
  if (failed == 0) failed = CALL2(SYS_umount2, ".", MNT_DETACH);
  if (failed == 0) failed = CALL1(SYS_chdir, "/");
  if (failed == 0) failed = CALL5(SYS_mount, "none", "/", 0, MS_REMOUNT | MS_RDONLY | flags, 0);
  return failed;
}

static long bound(int resource, unsigned long most) {
  struct {
    unsigned long soft, hard;
  } limit;
  long failed = CALL4(SYS_prlimit64, 0, resource, 0, &limit);
  if (failed != 0) return failed;
  if (limit.hard > most) limit.hard = most;
  limit.soft = limit.hard;
  return CALL4(SYS_prlimit64, 0, resource, &limit, 0);
}

static long bound_resources(const struct TrapNurseryStart* start) {
  long failed =
      bound(RLIMIT_CORE, 1);  // at 0, a program that takes core dumps would still get them; at 1 it does not
  if (failed == 0) failed = bound(RLIMIT_MSGQUEUE, 0);
  if (failed == 0) failed = bound(RLIMIT_MEMLOCK, 0);
  if (failed == 0) failed = bound(RLIMIT_FSIZE, 0);
  if (failed == 0) failed = bound(RLIMIT_NOFILE, start->most_files);
  if (failed == 0) failed = bound(RLIMIT_NPROC, start->most_processes);
  return failed;
}

static long drop_capabilities(void) {
  CALL5(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability)
    CALL5(SYS_prctl, PR_CAPBSET_DROP, capability, 0, 0, 0);
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  return CALL2(SYS_capset, &header, none);
}

// The first process of the namespace: when it ends, all others of it do. It ends with the nursery, which
// holds the other end of the pipe.
static __attribute__((noreturn)) void be_first(int pipe) {
  char byte;
  CALL5(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  CALL2(SYS_dup2, pipe, 0);
  CALL3(SYS_close_range, 1, ~0u, 0);
  const unsigned long ignore[4] = {1, 0, 0, 0};  // its children do not become zombies
  CALL4(SYS_rt_sigaction, SIGCHLD, ignore, 0, 8);
  CALL3(SYS_read, 0, &byte, 1);
  end();
}

// Returns its process id or an error.
static int make_first(void) {
  int pipe[2];
  const long failed = CALL2(SYS_pipe2, pipe, O_CLOEXEC);
  if (failed != 0) return (int)failed;
  const int process = (int)CALL5(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (process == 0) be_first(pipe[0]);
  CALL1(SYS_close, pipe[0]);  // the other end stays open while the nursery lives
  return process;
}

static void raise_walls(const struct TrapNurseryStart* start, struct TrapNurseryAnswer* answer,
                        int* name_space) {
  static const struct {
    int wall;
    unsigned long flag;
  } kinds[] = {{kTrapPidNamespace, CLONE_NEWPID},       {kTrapNetNamespace, CLONE_NEWNET},
               {kTrapIpcNamespace, CLONE_NEWIPC},       {kTrapUtsNamespace, CLONE_NEWUTS},
               {kTrapCgroupNamespace, CLONE_NEWCGROUP}, {kTrapMountNamespace, CLONE_NEWNS}};
  int* const errors = answer->errors;
  errors[kTrapUserNamespace] = (int)enter_user_namespace(start);
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    errors[kinds[i].wall] = (int)CALL1(SYS_unshare, kinds[i].flag);
  answer->init = make_first();
  *name_space = (int)CALL4(SYS_openat, AT_FDCWD, "/proc/self/ns/pid_for_children", O_RDONLY | O_CLOEXEC, 0);
  if (errors[kTrapMountNamespace] == 0) errors[kTrapMountNamespace] = (int)empty_root();
  // Inherited by forks.
  if (start->traps_time_stamps != 0) CALL5(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
  errors[kTrapResourceLimits] = (int)bound_resources(start);
  errors[kTrapCapabilities] = (int)drop_capabilities();
  errors[kTrapNoNewPrivileges] = (int)CALL5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // The kernel process reads its memory; being the same user's child does not suffice once privileges have
  // changed.
  CALL5(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
}

// ---- a stub ----

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_ARGUMENT(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n))
#define LOAD_HIGH(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n) + 4)
#define EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define ANY_BIT(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (yes), (no))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
// Each of these is complete: it decides, or falls through to the next with the call's number in the
// accumulator.
#define ALLOW(call) EQUAL(call, 0, 1), RETURN(SECCOMP_RET_ALLOW)
#define ALLOW_ONE_OF_TWO(call, n, one, other)                                                           \
  EQUAL(call, 0, 5), LOAD_ARGUMENT(n), EQUAL(one, 1, 0), EQUAL(other, 0, 1), RETURN(SECCOMP_RET_ALLOW), \
      RETURN(SECCOMP_RET_KILL_PROCESS)
#define ALLOW_BITS(call, n, bits)                                                                      \
  EQUAL(call, 0, 6), LOAD_HIGH(n), EQUAL(0, 0, 3), LOAD_ARGUMENT(n), ANY_BIT(~(uint32_t)(bits), 1, 0), \
      RETURN(SECCOMP_RET_ALLOW), RETURN(SECCOMP_RET_KILL_PROCESS)

// The calls that a stub and a monitor have in common: futexes, their own memory, threads and processes.
#define ALLOW_COMMON                                                                                 \
  ALLOW_ONE_OF_TWO(SYS_futex, 1, FUTEX_WAIT, FUTEX_WAKE), ALLOW(SYS_rt_sigreturn),                   \
      ALLOW_BITS(SYS_mmap, 3, MAP_SHARED | MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE), \
      ALLOW(SYS_munmap), ALLOW_BITS(SYS_mprotect, 2, PROT_READ | PROT_WRITE | PROT_EXEC),            \
      ALLOW_BITS(SYS_mremap, 3, MREMAP_MAYMOVE | MREMAP_FIXED),                                      \
      ALLOW_ONE_OF_TWO(SYS_madvise, 2, MADV_DONTNEED, MADV_DONTFORK), ALLOW_BITS(SYS_recvmsg, 2, 0), \
      ALLOW(SYS_close), ALLOW(SYS_dup2), ALLOW(SYS_exit)

// The end of a filter: of what is left, clone with the flags of a fork or of a thread.
#define ALLOW_OUR_CLONES_ONLY                                                                               \
  EQUAL(SYS_clone, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS), LOAD_HIGH(0), EQUAL(0, 0, 3), LOAD_ARGUMENT(0), \
      EQUAL(TRAP_FORK_FLAGS, 2, 0), EQUAL(TRAP_THREAD_FLAGS, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS),       \
      RETURN(SECCOMP_RET_ALLOW)

#ifdef MEMBRANE_KVM

// The calls that the monitor may make. Guests run in the machine and cannot make any; the filter is for a
// guest that escaped from it.
static long install_filter(void) {
  const struct sock_filter filter[] = {
      LOAD(arch),
      EQUAL(AUDIT_ARCH_X86_64, 1, 0),
      RETURN(SECCOMP_RET_KILL_PROCESS),
      LOAD(nr),
      ALLOW_COMMON,
      ALLOW(SYS_close_range),
      EQUAL(SYS_ioctl, 0, 16),
      LOAD_ARGUMENT(1),
      EQUAL((uint32_t)KVM_RUN, 13, 0),
      EQUAL((uint32_t)KVM_SET_USER_MEMORY_REGION, 12, 0),
      EQUAL((uint32_t)KVM_GET_XSAVE, 11, 0),
      EQUAL((uint32_t)KVM_SET_XSAVE, 10, 0),
      EQUAL((uint32_t)KVM_CREATE_VM, 9, 0),
      EQUAL((uint32_t)KVM_ENABLE_CAP, 8, 0),
      EQUAL((uint32_t)KVM_CREATE_VCPU, 7, 0),
      EQUAL((uint32_t)KVM_GET_VCPU_MMAP_SIZE, 6, 0),
      EQUAL((uint32_t)KVM_GET_SUPPORTED_CPUID, 5, 0),
      EQUAL((uint32_t)KVM_SET_CPUID2, 4, 0),
      EQUAL((uint32_t)KVM_SET_XCRS, 3, 0),
      EQUAL((uint32_t)KVM_SET_MSRS, 2, 0),
      EQUAL((uint32_t)KVM_GET_SREGS, 1, 0),
      RETURN(SECCOMP_RET_KILL_PROCESS),
      RETURN(SECCOMP_RET_ALLOW),
      ALLOW_OUR_CLONES_ONLY,
  };
  const struct sock_fprog program = {sizeof filter / sizeof *filter, (struct sock_filter*)filter};
  return CALL3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static const int kHandledSignals[] = {SIGUSR1};
static const int kKeptFrom = kTrapDevice + 1;

static unsigned long gate_entry(void) { return 0; }

static int map_own(int descriptor) {
  return CALL6(SYS_mmap, KVM_MACHINE, KVM_MACHINE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               descriptor, 0) == (long)KVM_MACHINE &&
         CALL3(SYS_madvise, KVM_MACHINE, KVM_MACHINE_BYTES, MADV_DONTFORK) == 0;
}

#else

// The calls that the stub's own instruction may make; a guest can jump there too, so all of them must be
// harmless. The guest's calls from anywhere else raise SIGSYS.
static long install_filter(void) {
  const unsigned long address = (unsigned long)trap_call_end;
  const struct sock_filter filter[] = {
      LOAD(arch),
      EQUAL(AUDIT_ARCH_X86_64, 1, 0),
      RETURN(SECCOMP_RET_TRAP),
      LOAD(instruction_pointer),
      EQUAL((uint32_t)address, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
      EQUAL((uint32_t)(address >> 32), 1, 0),
      RETURN(SECCOMP_RET_TRAP),
      LOAD(nr),
      ALLOW_COMMON,
      ALLOW_OUR_CLONES_ONLY,
  };
  const struct sock_fprog program = {sizeof filter / sizeof *filter, (struct sock_filter*)filter};
  return CALL3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static const int kHandledSignals[] = {SIGSYS, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGUSR1};
static const int kKeptFrom = kTrapSocket + 1;

static unsigned long gate_entry(void) { return (unsigned long)trap_gate_entry; }

static int map_own(int descriptor) {
  return descriptor < 0 &&
         CALL6(SYS_mmap, TRAP_GATES, kTrapGates * kTrapGateBytes, PROT_READ | PROT_EXEC,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == (long)TRAP_GATES;
}

#endif

static long handle_signals(void) {
  struct {
    void (*handler)(int, void*, void*);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
  } action = {trap_handler, SA_SIGINFO | SA_ONSTACK | 0x04000000, trap_restorer, ~0ul};  // SA_RESTORER
  long failed = 0;
  for (unsigned i = 0; i < sizeof kHandledSignals / sizeof *kHandledSignals && failed == 0; ++i)
    failed = CALL4(SYS_rt_sigaction, kHandledSignals[i], &action, 0, 8);
  return failed;
}

// In the new process. The kernel process unmaps what is left of the nursery.
static __attribute__((noreturn)) void become_stub(int controls, int socket, int machine) {
  const long size = kTrapSlots * TRAP_PAGE, stacks = kTrapSlots * TRAP_STACK_SIZE;
  const stack_t stack = {.ss_sp = (void*)TRAP_STACKS, .ss_size = TRAP_STACK_SIZE};
  if (CALL6(SYS_mmap, TRAP_CONTROLS, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, controls, 0) !=
          (long)TRAP_CONTROLS ||
      CALL3(SYS_madvise, TRAP_CONTROLS, size, MADV_DONTFORK) != 0 ||
      CALL6(SYS_mmap, TRAP_STACKS, stacks, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != (long)TRAP_STACKS ||
      !map_own(machine) || CALL2(SYS_dup2, socket, kTrapSocket) != kTrapSocket ||
      CALL3(SYS_close_range, 0, kTrapSocket - 1, 0) != 0 ||
      CALL3(SYS_close_range, kTrapNurseryBell, kTrapNurseryBell, 0) != 0 ||
      CALL3(SYS_close_range, kKeptFrom, ~0u, 0) != 0 || CALL2(SYS_sigaltstack, &stack, 0) != 0 ||
      handle_signals() != 0 || install_filter() != 0)
    end();
  trap_begin();
}

void trap_nursery(void) {
  struct TrapNurseryStart start;
  struct TrapNurseryAnswer answer;
  int none = 0, name_space = -1;
  const unsigned long no_signals = 0;
  CALL4(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, 0, 8);
  CALL2(SYS_setpgid, 0, 0);
  if (receive(&start, sizeof start, 0, &none) != sizeof start) end();
  if (CALL6(SYS_mmap, TRAP_BELL, TRAP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, kTrapNurseryBell,
            0) != (long)TRAP_BELL)
    end();
  CALL1(SYS_close, kTrapNurseryBell);
  raise_walls(&start, &answer, &name_space);
  answer.gate_entry = gate_entry();
  answer_with(&answer, sizeof answer, name_space);
  if (name_space >= 0) CALL1(SYS_close, name_space);
  for (;;) {
    char byte;
    int descriptors[3] = {-1, -1, -1}, count = kStubDescriptors;
    receive(&byte, 1, descriptors, &count);
    if (count != kStubDescriptors) end();
    const int process = (int)CALL5(SYS_clone, CLONE_PARENT, 0, 0, 0, 0);
    if (process == 0) become_stub(descriptors[0], descriptors[1], descriptors[2]);
    for (int i = 0; i < kStubDescriptors; ++i) CALL1(SYS_close, descriptors[i]);
    answer_with(&process, sizeof process, -1);
  }
}
