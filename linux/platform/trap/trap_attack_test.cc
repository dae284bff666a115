// Hostile guests that know the stub: they jump to its instruction, write its pages, and report false states.
// They may lose themselves; the kernel process and the other guests must not notice.
#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "linux/platform/guest_testing.h"
#include "linux/platform/trap/stub/layout.h"
#include "linux/platform/trap/stub_program.h"
#include "linux/platform/trap/trap.h"

namespace membrane::linux {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Where the stub's one instruction for calls of the host is; 0: not found.
uint64_t stub_instruction() {
  constexpr std::array<unsigned char, 8> kCode = {0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05, 0xc3};
  const auto program = std::as_bytes(std::span(kStubProgram));
  const auto found = std::ranges::search(program, std::as_bytes(std::span(kCode)));
  if (found.empty()) return 0;
  const auto at = static_cast<uint64_t>(found.begin() - program.begin()) + 5;
  Elf64_Ehdr header;
  std::memcpy(&header, program.data(), sizeof header);
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    std::memcpy(&part, program.data() + header.e_phoff + i * sizeof part, sizeof part);
    if (part.p_type == PT_LOAD && at >= part.p_offset && at < part.p_offset + part.p_filesz)
      return part.p_vaddr + at - part.p_offset;
  }
  return 0;
}

// Where a direct call returns to: it reports the result.
GUEST_CODE(report, "1: mov %rax, %rdi; mov $39, %eax; syscall; jmp 1b");
// Reports a stop while it runs: rdi is its control page, esi the signal. Then it obeys each order by
// reporting the result rdx, until an order to run; then it makes a call.
GUEST_CODE(liar, R"(
     movl %esi, 48(%rdi); movl $0xc000003e, 56(%rdi); movl $1, (%rdi)
  1: pause; cmpl $2, (%rdi); jne 1b
     cmpl $0, 24(%rdi); je 2f
     movq %rdx, 40(%rdi); movl $1, (%rdi); jmp 1b
  2: mov $39, %eax; syscall; jmp 2b
)");
static_assert(offsetof(TrapControl, order) == 24 && offsetof(TrapControl, result) == 40 &&
              offsetof(TrapControl, signal) == 48 && offsetof(TrapControl, architecture) == 56);
GUEST_CODE(well, "1: inc %rbx; mov $39, %eax; syscall; jmp 1b");

// Whether a child of this process has that number in the namespace of the stubs.
bool has_child(int number) {
  std::FILE* const file = std::fopen("/proc/thread-self/children", "re");
  if (file == nullptr) return false;
  bool is_there = false;
  for (int process = 0; std::fscanf(file, "%d", &process) == 1;) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("NSpid:")) is_there |= line.ends_with("\t" + std::to_string(number));
  }
  std::fclose(file);
  return is_there;
}

class TrapAttackTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(stub_instruction(), 0u);
    Result<std::unique_ptr<Platform>> started = start_trap_platform({});
    ASSERT_TRUE(started) << started.error().to_string();
    platform_ = std::move(*started);
    bystander_ = load_guest(*platform_, code_of(well));
    ASSERT_NE(bystander_, nullptr);
  }
  void TearDown() override {
    expect_all_is_well();
    bystander_.reset();
    platform_.reset();
    // Nothing is left: no running process and none waiting to be reaped.
    EXPECT_EQ(waitpid(-1, nullptr, __WALL), -1);
    EXPECT_EQ(errno, ECHILD);
  }
  void expect_all_is_well() {
    if (platform_ == nullptr) return;
    const uint64_t before = bystander_->registers.rbx;
    bystander_->resume();
    while (Thread* const stopped = wait_long(*platform_))
      if (stopped == bystander_.get()) break;
    EXPECT_EQ(bystander_->stop.kind, StopKind::kSystemCall);
    EXPECT_EQ(bystander_->registers.rbx, before + 1);
    EXPECT_NE(load_guest(*platform_, code_of(well)), nullptr);
  }

  // The guest makes a host call from the stub's instruction. Returns the result; 0 with stop.kind kGone.
  int64_t call(Thread& guest, uint64_t number, std::array<uint64_t, 6> arguments) {
    begin_call(guest, number, arguments);
    EXPECT_EQ(run_guest(*platform_, guest), &guest);
    return guest.stop.kind == StopKind::kSystemCall ? static_cast<int64_t>(guest.registers.rdi) : 0;
  }
  static void begin_call(Thread& guest, uint64_t number, std::array<uint64_t, 6> arguments) {
    Registers& r = guest.registers;
    r = {};
    r.rsp = kStackAt + kStackBytes / 2;
    const uint64_t back = kCodeAt;
    guest.space()->write(r.rsp, std::as_bytes(std::span(&back, 1)));
    r.rip = stub_instruction();
    r.rax = number;
    r.rdi = arguments[0], r.rsi = arguments[1], r.rdx = arguments[2];
    r.r10 = arguments[3], r.r8 = arguments[4], r.r9 = arguments[5];
  }
  std::unique_ptr<Thread> attacker() { return load_guest(*platform_, code_of(report)); }
  // A running guest that has reported a stop.
  std::unique_ptr<Thread> lying_guest(int signal, int64_t result) {
    std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(liar));
    guest->registers.rdi = TRAP_CONTROLS;
    guest->registers.rsi = static_cast<uint64_t>(signal);
    guest->registers.rdx = static_cast<uint64_t>(result);
    EXPECT_EQ(run_guest(*platform_, *guest), guest.get());
    return guest;
  }

  std::unique_ptr<Platform> platform_;
  std::unique_ptr<Thread> bystander_;
};

// ---- calls of the host ----

TEST_F(TrapAttackTest, CallsThatTheStubDoesNotNeedEndTheProcess) {
  constexpr std::array kForbidden = {SYS_read,
                                     SYS_write,
                                     SYS_open,
                                     SYS_openat,
                                     SYS_openat2,
                                     SYS_execve,
                                     SYS_execveat,
                                     SYS_fork,
                                     SYS_vfork,
                                     SYS_clone3,
                                     SYS_kill,
                                     SYS_tgkill,
                                     SYS_tkill,
                                     SYS_ptrace,
                                     SYS_getpid,
                                     SYS_prctl,
                                     SYS_arch_prctl,
                                     SYS_seccomp,
                                     SYS_unshare,
                                     SYS_setns,
                                     SYS_mount,
                                     SYS_socket,
                                     SYS_sendmsg,
                                     SYS_sendto,
                                     SYS_ioctl,
                                     SYS_fcntl,
                                     SYS_dup,
                                     SYS_dup3,
                                     SYS_memfd_create,
                                     SYS_ftruncate,
                                     SYS_rt_sigaction,
                                     SYS_sigaltstack,
                                     SYS_setpgid,
                                     SYS_setsid,
                                     SYS_personality,
                                     SYS_modify_ldt,
                                     SYS_io_uring_setup,
                                     SYS_userfaultfd,
                                     SYS_bpf,
                                     SYS_perf_event_open,
                                     SYS_keyctl,
                                     SYS_process_vm_readv,
                                     SYS_process_vm_writev,
                                     SYS_pidfd_open,
                                     SYS_pidfd_getfd,
                                     SYS_sched_setaffinity,
                                     SYS_setpriority,
                                     SYS_prlimit64,
                                     SYS_mlock,
                                     SYS_shmget,
                                     SYS_splice,
                                     SYS_exit_group,
                                     SYS_pkey_alloc,
                                     SYS_set_robust_list};
  for (const long number : kForbidden) {
    const std::unique_ptr<Thread> guest = attacker();
    ASSERT_NE(guest, nullptr);
    call(*guest, static_cast<uint64_t>(number), {});
    EXPECT_EQ(guest->stop.kind, StopKind::kGone) << number;
  }
  const std::unique_ptr<Thread> guest = attacker();
  call(*guest, 0x40000000 | SYS_getpid, {});  // of the x32 kind
  EXPECT_EQ(guest->stop.kind, StopKind::kGone);
}

TEST_F(TrapAttackTest, ArgumentsThatTheStubDoesNotNeedEndTheProcess) {
  struct Call {
    long number;
    std::array<uint64_t, 6> arguments;
  };
  const std::vector<Call> calls = {
      {SYS_clone, {0}},
      {SYS_clone, {SIGCHLD}},
      {SYS_clone, {CLONE_PARENT | CLONE_NEWUSER}},
      {SYS_clone, {CLONE_PARENT | CLONE_VM}},
      {SYS_clone, {CLONE_PARENT | uint64_t{1} << 33}},
      {SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, ~0ul, 0}},
      {SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, ~0ul, 0}},
      {SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, ~0ul, 0}},
      {SYS_mprotect, {kDataAt, 4096, PROT_READ | PROT_GROWSDOWN}},
      {SYS_mremap, {kDataAt, 4096, 4096, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0}},
      {SYS_madvise, {kDataAt, 4096, MADV_HWPOISON}},
      {SYS_madvise, {kDataAt, 4096, MADV_DOFORK}},
      {SYS_futex, {kDataAt, FUTEX_LOCK_PI}},
      {SYS_futex, {kDataAt, FUTEX_REQUEUE}},
      {SYS_recvmsg, {kTrapSocket, kDataAt, MSG_PEEK}},
  };
  for (const Call& each : calls) {
    const std::unique_ptr<Thread> guest = attacker();
    call(*guest, static_cast<uint64_t>(each.number), each.arguments);
    EXPECT_EQ(guest->stop.kind, StopKind::kGone) << each.number << " " << each.arguments[0];
  }
}

GUEST_CODE(old_call, "mov $20, %eax; int $0x80");
GUEST_CODE(fast_old_call, "mov $20, %eax; mov %rsp, %rbp; sysenter");
GUEST_CODE(vsyscall, "xor %edi, %edi; xor %esi, %esi; mov $0xffffffffff600000, %rax; call *%rax; hlt");

TEST_F(TrapAttackTest, CallsOfOlderKindsAreNotCarriedOut) {
  const std::unique_ptr<Thread> first = load_guest(*platform_, code_of(old_call));
  ASSERT_EQ(run_guest(*platform_, *first), first.get());
  EXPECT_EQ(first->stop.kind, StopKind::kException);
  EXPECT_EQ(first->stop.signal, SIGSEGV);
  EXPECT_EQ(first->registers.rax, 20u);
  const std::unique_ptr<Thread> second = load_guest(*platform_, code_of(fast_old_call));
  ASSERT_EQ(run_guest(*platform_, *second), second.get());
  EXPECT_NE(second->stop.kind, StopKind::kSystemCall);
  // The host has no such page, or the call behaves like any other.
  const std::unique_ptr<Thread> third = load_guest(*platform_, code_of(vsyscall));
  ASSERT_EQ(run_guest(*platform_, *third), third.get());
  if (third->stop.kind == StopKind::kSystemCall) {
    EXPECT_EQ(third->registers.rax, static_cast<uint64_t>(SYS_gettimeofday));
  } else {
    EXPECT_EQ(third->stop.signal, SIGSEGV);
  }
}

TEST_F(TrapAttackTest, AStubHasNoDescriptorButItsSocket) {
  const std::unique_ptr<Thread> parent = attacker();
  ASSERT_EQ(run_guest(*platform_, *parent), parent.get());
  Try<std::unique_ptr<Thread>> forked = parent->fork();
  ASSERT_TRUE(forked);
  for (Thread* const guest : {parent.get(), forked->get()})
    for (uint64_t number = 0; number < 64; ++number) {
      // Closing it shows whether it exists.
      if (number == kTrapSocket) continue;
      EXPECT_EQ(call(*guest, SYS_close, {number}), -EBADF) << number;
    }
}

TEST_F(TrapAttackTest, EndsItself) {
  const std::unique_ptr<Thread> guest = attacker();
  call(*guest, SYS_exit, {0});
  EXPECT_EQ(guest->stop.kind, StopKind::kGone);
  EXPECT_FALSE(guest->fork());
  EXPECT_FALSE(guest->clone_thread());
  EXPECT_TRUE(guest->vector_state().empty());
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kGone);
}

TEST_F(TrapAttackTest, UnmapsTheStub) {
  for (const uint64_t address : {TRAP_STUB, TRAP_CONTROLS, TRAP_STACKS, TRAP_BELL}) {
    const std::unique_ptr<Thread> guest = attacker();
    call(*guest, SYS_munmap, {address, 0x10000});
    // Without the bell it stops, and then ends.
    if (guest->stop.kind != StopKind::kGone) run_guest(*platform_, *guest);
    EXPECT_EQ(guest->stop.kind, StopKind::kGone) << address;
  }
  const std::unique_ptr<Thread> guest = attacker();
  call(*guest, SYS_munmap, {0, TRAP_TOP});
  EXPECT_EQ(guest->stop.kind, StopKind::kGone);
}

TEST_F(TrapAttackTest, TheHostsClockCannotBeWrittenAndMakesNoCalls) {
  const uint64_t function = platform_->clock_function();
  if (function == 0) GTEST_SKIP() << "the host has no such function";
  const uint64_t page = function & ~(TRAP_PAGE - 1);
  const std::unique_ptr<Thread> guest = attacker();
  // A clock that needs a system call: it is the guest's own.
  begin_call(*guest, 0, {CLOCK_PROCESS_CPUTIME_ID, kDataAt});
  guest->registers.rip = function;
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kSystemCall);
  EXPECT_EQ(guest->registers.rax, static_cast<uint64_t>(SYS_clock_gettime));
  // Its own copy of the code is the guest's to overwrite; the data cannot be changed.
  const std::unique_ptr<Thread> other = attacker();
  for (uint64_t each = page - 8 * TRAP_PAGE; each < page; each += TRAP_PAGE)
    EXPECT_LT(call(*other, SYS_mprotect, {each, TRAP_PAGE, PROT_READ | PROT_WRITE}), 0);
}

TEST_F(TrapAttackTest, LeavesASignalHandlerThatItIsNotIn) {
  const std::unique_ptr<Thread> guest = attacker();
  call(*guest, SYS_rt_sigreturn, {});
  EXPECT_NE(guest->stop.kind, StopKind::kSystemCall);
}

// ---- processes that the kernel does not know ----

GUEST_CODE(two, "1: test %rax, %rax; jz 1b; mov %rax, %rdi; mov $39, %eax; syscall");

// In a user namespace the system counts the stubs' user separately; a superuser outside of one has no limit.
bool has_user_namespace(const Platform& platform) {
  return std::ranges::none_of(missing_walls_of(platform), [](const MissingWall& wall) {
    return wall.name == "user_namespace" || wall.name == "resource_limits";
  });
}

TEST_F(TrapAttackTest, AGuestMakesNoProcessByItself) {
  if (!has_user_namespace(*platform_)) GTEST_SKIP() << "this machine refuses user namespaces";
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(two));
  EXPECT_EQ(call(*guest, SYS_clone, {TRAP_FORK_FLAGS}), -EAGAIN);
  EXPECT_EQ(call(*guest, SYS_clone, {TRAP_THREAD_FLAGS, 0x10000}), -EAGAIN);
  // Nor after it was told to, nor in a copy.
  const auto thread = guest->clone_thread();
  ASSERT_TRUE(thread);
  EXPECT_EQ(call(*guest, SYS_clone, {TRAP_FORK_FLAGS}), -EAGAIN);
  const auto copy = guest->fork();
  ASSERT_TRUE(copy);
  EXPECT_EQ(call(**copy, SYS_clone, {TRAP_FORK_FLAGS}), -EAGAIN);
  EXPECT_EQ(call(*guest, SYS_clone, {TRAP_FORK_FLAGS}), -EAGAIN);
  expect_all_is_well();
}

TEST_F(TrapAttackTest, AProcessThatAGuestMakesIsEnded) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(two));
  const int64_t made = call(*guest, SYS_clone, {TRAP_FORK_FLAGS});
  if (made == -EAGAIN) return expect_all_is_well();
  ASSERT_GT(made, 0);
  while (has_child(static_cast<int>(made))) platform_->wait(Clock::now() + milliseconds(50));
  expect_all_is_well();
}

TEST_F(TrapAttackTest, AProcessOfAGuestEndsWithThePlatform) {
  const std::unique_ptr<Thread> guest = attacker();
  const int64_t made = call(*guest, SYS_clone, {TRAP_FORK_FLAGS});
  EXPECT_TRUE(made > 0 || made == -EAGAIN) << made;
}

GUEST_CODE(spinner, "1: jmp 1b");

TEST(TrapEndTest, NothingOutlivesTheKernelProcess) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  const pid_t kernel = ::fork();
  if (kernel == 0) {
    close(pipe[0]);
    auto platform = start_trap_platform({});
    if (!platform) _exit(1);
    const std::unique_ptr<Thread> guest = load_guest(**platform, code_of(spinner));
    guest->resume();
    char is_walled = 1;
    for (const MissingWall& wall : missing_walls_of(**platform)) is_walled &= wall.name != "pid_namespace";
    if (write(pipe[1], &is_walled, 1) != 1) _exit(1);
    for (;;) (*platform)->wait(std::nullopt);
  }
  close(pipe[1]);
  char is_walled = 0;
  ASSERT_EQ(read(pipe[0], &is_walled, 1), 1);
  kill(kernel, SIGKILL);
  if (is_walled == 0) {
    waitpid(kernel, nullptr, 0);
    GTEST_SKIP() << "no process namespace";
  }
  int ended = 0;
  while (waitpid(-1, nullptr, __WALL) > 0) ++ended;  // orphans are this process's children
  EXPECT_GE(ended, 3);
}

// ---- lies ----

TEST_F(TrapAttackTest, ASignalThatTheStubDoesNotHandleIsNotReportedToTheKernel) {
  for (const int signal : {9999, -1, 0, SIGKILL, SIGCHLD}) {
    const std::unique_ptr<Thread> guest = lying_guest(signal, 0);
    EXPECT_EQ(guest->stop.kind, StopKind::kGone) << signal;
  }
}

TEST_F(TrapAttackTest, AForksResultMustBeAProcessOfIt) {
  for (int64_t number = -2; number < 16; ++number) {
    const std::unique_ptr<Thread> guest = lying_guest(SIGSYS, number);
    ASSERT_EQ(guest->stop.kind, StopKind::kSystemCall);
    EXPECT_FALSE(guest->fork()) << number;
    expect_all_is_well();
  }
  for (const int64_t number : {INT64_MAX, INT64_MIN, int64_t{getpid()}, int64_t{1} << 32}) {
    const std::unique_ptr<Thread> guest = lying_guest(SIGSYS, number);
    EXPECT_FALSE(guest->fork()) << number;
  }
}

TEST_F(TrapAttackTest, AThreadsNumberMayBeWrong) {
  for (int64_t number = 1; number < 16; ++number) {
    const std::unique_ptr<Thread> guest = lying_guest(SIGSYS, number);
    Try<std::unique_ptr<Thread>> thread = guest->clone_thread();
    if (!thread) continue;
    (*thread)->resume();
    (*thread)->interrupt();
    thread->reset();
    expect_all_is_well();
  }
}

GUEST_CODE(deaf, "movl $31, 48(%rdi); movl $0xc000003e, 56(%rdi); movl $1, (%rdi); 1: jmp 1b");

TEST_F(TrapAttackTest, AStubThatDoesNotObeyIsEnded) {
  const std::unique_ptr<Thread> guest = lying_guest(SIGSYS, 0);
  guest->resume();
  guest->interrupt();  // it makes a call by itself, or is interrupted
  ASSERT_EQ(wait_long(*platform_), guest.get());
  const std::unique_ptr<Thread> other = load_guest(*platform_, code_of(deaf));
  other->registers.rdi = TRAP_CONTROLS;
  ASSERT_EQ(run_guest(*platform_, *other), other.get());
  EXPECT_FALSE(other->fork());
  ASSERT_EQ(run_guest(*platform_, *other), other.get());
  EXPECT_EQ(other->stop.kind, StopKind::kGone);
}

TEST_F(TrapAttackTest, AStubMustTakeWhatItIsSent) {
  const std::unique_ptr<Thread> guest = lying_guest(SIGSYS, 0);
  const int file = memfd_create("file", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 4096), 0);
  std::byte byte{};
  guest->space()->map(0x900000, 4096, PROT_READ, {file, 0, true});
  guest->space()->read(0x900000, std::span(&byte, 1));
  guest->space()->map(0x900000, 4096, PROT_READ, {file, 0, true});
  guest->space()->read(0x900000, std::span(&byte, 1));
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kGone);
  close(file);
}

// A message's descriptors, in the guest's memory.
struct Message {
  msghdr head;
  iovec bytes;
  alignas(cmsghdr) std::array<char, 128> control;
  char byte;
};

TEST_F(TrapAttackTest, DescriptorsForPrivateMappingsCannotWrite) {
  const int file = memfd_create("file", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 4096), 0);
  for (const bool is_shared : {false, true}) {
    const std::unique_ptr<Thread> guest = lying_guest(SIGSYS, 0);
    guest->space()->map(0x900000, 4096, PROT_READ, {.fd = file, .is_shared = is_shared, .may_write = false});
    std::byte byte{};
    guest->space()->read(0x900000, std::span(&byte, 1));  // the guest says that it is mapped
    ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
    ASSERT_EQ(guest->stop.kind, StopKind::kSystemCall);
    const auto code = code_of(report);
    ASSERT_EQ(guest->space()->poke(kCodeAt, code), code.size());
    Message message = {};
    message.bytes = {reinterpret_cast<void*>(kDataAt + offsetof(Message, byte)), 1};
    message.head.msg_iov = reinterpret_cast<iovec*>(kDataAt + offsetof(Message, bytes));
    message.head.msg_iovlen = 1;
    message.head.msg_control = reinterpret_cast<void*>(kDataAt + offsetof(Message, control));
    message.head.msg_controllen = message.control.size();
    ASSERT_EQ(guest->space()->write(kDataAt, std::as_bytes(std::span(&message, 1))), sizeof message);
    ASSERT_EQ(call(*guest, SYS_recvmsg, {kTrapSocket, kDataAt, 0}), 1);
    const auto number = peek<uint32_t>(*guest, kDataAt + offsetof(Message, control) + CMSG_LEN(0));
    EXPECT_EQ(
        call(*guest, SYS_mmap, {0xa00000, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, number, 0}),
        -EACCES);
    EXPECT_EQ(call(*guest, SYS_mmap, {0xa00000, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, number, 0}),
              0xa00000);
    EXPECT_EQ(call(*guest, SYS_mprotect, {0xa00000, 4096, PROT_READ | PROT_WRITE}), -EACCES);
  }
  close(file);
}

// ---- the pages ----

// Writes pseudo-random words all over a range, forever. rdi: start, rcx: how many words (a power of two).
GUEST_CODE(scribbler, R"(
  1: imul $1664525, %rax, %rax; add $1013904223, %rax
     mov %rax, %rdx; shr $16, %rdx; lea -1(%rcx), %rsi; and %rsi, %rdx
     mov %eax, (%rdi, %rdx, 4)
     jmp 1b
)");

TEST_F(TrapAttackTest, ScribblesOverTheBell) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(scribbler));
  guest->registers.rdi = TRAP_BELL;
  guest->registers.rcx = 128;
  guest->resume();
  for (int round = 0; round < 20; ++round) expect_all_is_well();
  EXPECT_EQ(platform_->wait(Clock::now() + milliseconds(20)), nullptr);
  std::thread waker([&] { platform_->wake(); });
  EXPECT_EQ(platform_->wait(std::nullopt), nullptr);
  waker.join();
  // The end of another's process is noticed nevertheless.
  const std::unique_ptr<Thread> other = attacker();
  call(*other, SYS_exit, {0});
  EXPECT_EQ(other->stop.kind, StopKind::kGone);
  guest->interrupt();
  ASSERT_EQ(wait_long(*platform_), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kInterrupted);
}

GUEST_CODE(hints, "1: movq $-1, 8(%rdi); movq $-1, 16(%rdi); movq $-1, 24(%rdi); jmp 1b");

TEST_F(TrapAttackTest, SetsHintsWithoutEnd) {
  TrapOptions options;
  options.shares_core = false;  // faster than it is checked
  auto started = start_trap_platform(options);
  ASSERT_TRUE(started);
  std::unique_ptr<Thread> guest = load_guest(**started, code_of(hints));
  guest->registers.rdi = TRAP_BELL;
  guest->resume();
  EXPECT_EQ((*started)->wait(Clock::now() + milliseconds(20)), nullptr);
  guest.reset();
}

TEST_F(TrapAttackTest, ScribblesOverControlPages) {
  std::unique_ptr<Thread> caller = load_guest(*platform_, code_of(well));
  ASSERT_EQ(run_guest(*platform_, *caller), caller.get());
  Try<std::unique_ptr<Thread>> thread = caller->clone_thread();
  ASSERT_TRUE(thread);
  caller->space()->map(0x500000, 4096, PROT_READ | PROT_EXEC, {});
  ASSERT_EQ(caller->space()->poke(0x500000, code_of(scribbler)), code_of(scribbler).size());
  (*thread)->registers.rip = 0x500000;
  (*thread)->registers.rdi = TRAP_CONTROLS;
  (*thread)->registers.rcx = 1024;
  (*thread)->resume();
  caller->resume();
  for (int round = 0; round < 50; ++round) {
    Thread* const stopped = platform_->wait(Clock::now() + milliseconds(20));
    if (stopped != caller.get()) continue;
    if (round % 8 == 1) caller->fork();
    if (round % 8 == 3) caller->space()->map(0x900000, 4096, PROT_READ, {});
    caller->resume();
  }
}

}  // namespace
}  // namespace membrane::linux
