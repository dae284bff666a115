// What the kernel relies on in each platform, with well-behaved guests; see trap_attack_test.cc and
// kvm_attack_test.cc for hostile ones.
#include "linux/platform/platform.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "linux/platform/guest_testing.h"

namespace membrane::linux {
namespace {

class PlatformTest : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Platform>> started = start_platform(GetParam());
    if (!started && started.error().code == ErrorCode::kUnsupported && GetParam() == "kvm")
      GTEST_SKIP() << started.error().to_string();
    ASSERT_TRUE(started) << started.error().to_string();
    platform_ = std::move(*started);
  }
  std::unique_ptr<Platform> platform_;
};

INSTANTIATE_TEST_SUITE_P(Each, PlatformTest, testing::Values("trap", "kvm"),
                         [](const auto& platform) { return std::string(platform.param); });

GUEST_CODE(call, R"(
  mov $0x1111, %rdi; mov $0x2222, %rsi; mov $0x3333, %rdx; mov $0x4444, %r10; mov $0x5555, %r8; mov $0x6666, %r9
  mov $0x7777, %rbx; mov $0x8888, %rbp; mov $0x9999, %r12; mov $0xaaaa, %r13; mov $0xbbbb, %r14; mov $0xcccc, %r15
  mov $39, %eax
  syscall
  mov %rax, %rdi
  mov $60, %eax
  syscall
)");

TEST_P(PlatformTest, GivesACallWithItsArgumentsAndTakesTheAnswer) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(call));
  ASSERT_NE(guest, nullptr);
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kSystemCall);
  const Registers& r = guest->registers;
  EXPECT_EQ(r.rax, 39u);
  EXPECT_EQ(r.rdi, 0x1111u);
  EXPECT_EQ(r.rsi, 0x2222u);
  EXPECT_EQ(r.rdx, 0x3333u);
  EXPECT_EQ(r.r10, 0x4444u);
  EXPECT_EQ(r.r8, 0x5555u);
  EXPECT_EQ(r.r9, 0x6666u);
  EXPECT_EQ(r.rsp, kStackAt + kStackBytes / 2);
  EXPECT_EQ(r.rcx, r.rip);
  answer(*guest, 42);
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(r.rax, 60u);
  EXPECT_EQ(r.rdi, 42u);
  EXPECT_EQ(r.rbx, 0x7777u);
  EXPECT_EQ(r.rbp, 0x8888u);
  EXPECT_EQ(r.r12, 0x9999u);
  EXPECT_EQ(r.r13, 0xaaaau);
  EXPECT_EQ(r.r14, 0xbbbbu);
  EXPECT_EQ(r.r15, 0xccccu);
}

GUEST_CODE(red_zone, R"(
  movq $0x1234, -8(%rsp); movq $0x5678, -128(%rsp)
  mov $0x4242424242424242, %rax; movq %rax, %xmm3; vbroadcastsd %xmm3, %ymm7
  mov $39, %eax
  syscall
  mov -8(%rsp), %rdi; mov -128(%rsp), %rsi
  vextracti128 $1, %ymm7, %xmm1; movq %xmm1, %rdx
  mov $39, %eax
  syscall
)");

TEST_P(PlatformTest, KeepsTheRedZoneAndVectors) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(red_zone));
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->registers.rdi, 0x1234u);
  EXPECT_EQ(guest->registers.rsi, 0x5678u);
  EXPECT_EQ(guest->registers.rdx, 0x4242424242424242u);
}

GUEST_CODE(clock, "call *%rax; mov %rax, %rdi; mov $39, %eax; syscall");

TEST_P(PlatformTest, ReadsTheClockWithoutAStop) {
  if (platform_->clock_function() == 0) GTEST_SKIP() << "the host has no such function";
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(clock));
  guest->registers.rax = platform_->clock_function();
  guest->registers.rdi = CLOCK_MONOTONIC;
  guest->registers.rsi = kDataAt;
  const auto now_ns = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  const int64_t before = now_ns();
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->registers.rax, 39u);
  EXPECT_EQ(guest->registers.rdi, 0u);
  const auto read = peek<timespec>(*guest, kDataAt);
  const int64_t read_ns = read.tv_sec * 1'000'000'000 + read.tv_nsec;
  EXPECT_LE(before, read_ns);
  EXPECT_LE(read_ns, now_ns());
}

TEST(TrapClockTest, IsAbsentWhenTimeStampsTrap) {
  TrapOptions options;
  options.traps_time_stamps = true;
  auto started = start_trap_platform(options);
  ASSERT_TRUE(started);
  EXPECT_EQ((*started)->clock_function(), 0u);
}

GUEST_CODE(xmm, R"(
  movq %xmm3, %rdi
  mov $39, %eax
  syscall
  movq %xmm3, %rdi
  mov $39, %eax
  syscall
)");

TEST_P(PlatformTest, GivesAndTakesVectorStates) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(xmm));
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->registers.rdi, 0u);
  std::vector<std::byte> state = guest->vector_state();
  ASSERT_GE(state.size(), 576u);
  const uint64_t value = 0x123456789abcdef0;
  std::memcpy(state.data() + 160 + 3 * 16, &value, sizeof value);
  state[512] |= std::byte{2};
  state[511] = std::byte{0xff};             // of nobody
  state[520] = std::byte{0xff};             // of the header: a compacted form
  std::memset(state.data() + 24, 0xff, 4);  // MXCSR with reserved bits
  ASSERT_TRUE(guest->set_vector_state(state));
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kSystemCall);
  EXPECT_EQ(guest->registers.rdi, value);
}

GUEST_CODE(bases, R"(
  mov %fs:0, %rdi
  mov %gs:8, %rsi
  mov $39, %eax
  syscall
)");

TEST_P(PlatformTest, SetsTheSegmentBases) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(bases));
  const std::array<uint64_t, 2> words = {71, 72};
  ASSERT_EQ(guest->space()->write(kDataAt, std::as_bytes(std::span(words))), 16u);
  guest->registers.fs_base = guest->registers.gs_base = kDataAt;
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->registers.rdi, 71u);
  EXPECT_EQ(guest->registers.rsi, 72u);
  EXPECT_EQ(guest->registers.fs_base, kDataAt);
}

GUEST_CODE(faults, R"(
  mov $0xdead000, %rax
  movq $1, 0x10(%rax)
  xor %ecx, %ecx
  div %ecx
  ud2
  int3
  hlt
  int $0x80
)");

TEST_P(PlatformTest, GivesExceptions) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(faults));
  const auto next = [&](uint64_t skipped) {
    guest->registers.rip += skipped;
    EXPECT_EQ(run_guest(*platform_, *guest), guest.get());
    EXPECT_EQ(guest->stop.kind, StopKind::kException);
    return guest->stop;
  };
  Stop stop = next(0);
  EXPECT_EQ(stop.signal, SIGSEGV);
  EXPECT_EQ(stop.code, SEGV_MAPERR);
  EXPECT_EQ(stop.trap_number, 14);
  EXPECT_EQ(stop.error_code, 6u);
  EXPECT_EQ(stop.address, 0xdead010u);
  stop = next(8);
  EXPECT_EQ(stop.signal, SIGFPE);
  EXPECT_EQ(stop.code, FPE_INTDIV);
  EXPECT_EQ(stop.address, guest->registers.rip);
  stop = next(2);
  EXPECT_EQ(stop.signal, SIGILL);
  stop = next(2);
  EXPECT_EQ(stop.signal, SIGTRAP);
  stop = next(0);
  EXPECT_EQ(stop.signal, SIGSEGV);
  EXPECT_EQ(stop.trap_number, 13);
  const uint64_t before = guest->registers.rip + 1;
  stop = next(1);
  EXPECT_EQ(stop.signal, SIGSEGV);
  EXPECT_EQ(guest->registers.rip, before);
}

GUEST_CODE(spin, "1: inc %rbx; jmp 1b");

TEST_P(PlatformTest, InterruptsAGuestThatSpins) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(spin));
  for (int round = 0; round < 3; ++round) {
    guest->resume();
    guest->interrupt();
    ASSERT_EQ(wait_long(*platform_), guest.get());
    EXPECT_EQ(guest->stop.kind, StopKind::kInterrupted);
  }
}

TEST_P(PlatformTest, WakesFromAnotherThread) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(spin));
  guest->resume();
  std::thread waker([&] { platform_->wake(); });
  EXPECT_EQ(platform_->wait(std::nullopt), nullptr);
  waker.join();
  EXPECT_EQ(platform_->wait(std::chrono::steady_clock::now()), nullptr);
}

GUEST_CODE(count, "1: mov $39, %eax; incq 0x800000; mov 0x800000, %rdi; mov 0x810000, %rsi; syscall; jmp 1b");

TEST_P(PlatformTest, ForksByCopyOnWriteAndSharesSharedMemory) {
  const std::unique_ptr<Thread> parent = load_guest(*platform_, code_of(count));
  const int file = memfd_create("shared", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 4096), 0);
  parent->space()->map(0x810000, 4096, PROT_READ | PROT_WRITE, {file, 0, true});
  ASSERT_EQ(run_guest(*platform_, *parent), parent.get());
  EXPECT_EQ(parent->registers.rdi, 1u);
  Try<std::unique_ptr<Thread>> forked = parent->fork();
  ASSERT_TRUE(forked);
  const std::unique_ptr<Thread> child = std::move(*forked);
  EXPECT_NE(child->space(), parent->space());
  EXPECT_EQ(child->registers.rip, parent->registers.rip);
  EXPECT_EQ(peek<uint64_t>(*child, kDataAt), 1u);
  const uint64_t shared = 99;
  ASSERT_EQ(child->space()->write(0x810000, std::as_bytes(std::span(&shared, 1))), 8u);
  for (uint64_t round = 2; round < 5; ++round) {
    ASSERT_EQ(run_guest(*platform_, *child), child.get());
    EXPECT_EQ(child->registers.rdi, round);
  }
  ASSERT_EQ(run_guest(*platform_, *parent), parent.get());
  EXPECT_EQ(parent->registers.rdi, 2u);
  EXPECT_EQ(parent->registers.rsi, 99u);
  Try<std::unique_ptr<Thread>> grandchild = child->fork();
  ASSERT_TRUE(grandchild);
  ASSERT_EQ(run_guest(*platform_, **grandchild), grandchild->get());
  EXPECT_EQ((*grandchild)->registers.rdi, 5u);
  close(file);
}

TEST_P(PlatformTest, InterruptsAForkAtOnce) {
  const std::unique_ptr<Thread> parent = load_guest(*platform_, code_of(spin));
  for (int round = 0; round < 50; ++round) {
    Try<std::unique_ptr<Thread>> child = parent->fork();
    ASSERT_TRUE(child);
    (*child)->resume();
    (*child)->interrupt();
    ASSERT_EQ(wait_long(*platform_), child->get());
    ASSERT_EQ((*child)->stop.kind, StopKind::kInterrupted) << round;
  }
}

TEST_P(PlatformTest, ClonesThreadsAndEndsThemInAnyOrder) {
  std::unique_ptr<Thread> first = load_guest(*platform_, code_of(count));
  const int file = memfd_create("shared", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 4096), 0);
  first->space()->map(0x810000, 4096, PROT_READ | PROT_WRITE, {file, 0, true});
  ASSERT_EQ(run_guest(*platform_, *first), first.get());
  std::vector<std::unique_ptr<Thread>> threads;
  for (int i = 0; i < 20; ++i) {
    Try<std::unique_ptr<Thread>> thread = first->clone_thread();
    ASSERT_TRUE(thread);
    EXPECT_EQ((*thread)->space(), first->space());
    (*thread)->registers.rsp -= 0x100;
    threads.push_back(std::move(*thread));
  }
  for (const std::unique_ptr<Thread>& thread : threads) thread->resume();
  for (size_t i = 0; i < threads.size(); ++i) ASSERT_NE(wait_long(*platform_), nullptr);
  EXPECT_EQ(peek<uint64_t>(*first, kDataAt), 21u);
  first.reset();
  threads[3]->resume();
  threads[3].reset();  // running
  threads.resize(5);
  for (int round = 0; round < 40; ++round) {
    Try<std::unique_ptr<Thread>> thread = threads[0]->clone_thread();
    ASSERT_TRUE(thread);
    ASSERT_EQ(run_guest(*platform_, **thread), thread->get());
  }
  ASSERT_EQ(run_guest(*platform_, *threads[4]), threads[4].get());
  close(file);
}

GUEST_CODE(memory, "1: mov $39, %eax; syscall; mov (%rdi), %rsi; jmp 1b");

TEST_P(PlatformTest, ChangesMemory) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(memory));
  Space& space = *guest->space();
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  const uint64_t word = 77;
  const auto bytes = std::as_bytes(std::span(&word, 1));
  space.map(0x900000, 0x2000, PROT_READ | PROT_WRITE, {});
  EXPECT_EQ(space.write(0x900000, bytes), 8u);
  space.protect(0x900000, 0x2000, PROT_READ);
  EXPECT_EQ(space.write(0x900000, bytes), 0u);
  EXPECT_EQ(space.poke(0x900008, bytes), 8u);
  std::vector<std::byte> many(0x3000);
  EXPECT_EQ(space.read(0x900000, many), 0x2000u);
  space.move(0x900000, 0x2000, 0xa00000, 0x4000);
  guest->registers.rdi = 0xa00008;
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->registers.rsi, 77u);
  space.protect(0xa00000, 0x4000, PROT_READ | PROT_WRITE);
  space.discard(0xa00000, 0x1000);
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->registers.rsi, 0u);
  space.unmap(0xa00000, 0x1000);
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kException);
  EXPECT_EQ(guest->stop.address, 0xa00008u);
  EXPECT_GT(space.resident_bytes(), 0u);
  space.clear();
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kException);
  EXPECT_EQ(guest->stop.address, guest->registers.rip);
  EXPECT_EQ(space.read(platform_->highest(), many), 0u);
}

TEST_P(PlatformTest, CountsWhatForksShareAndWhatTablesTake) {
  constexpr uint64_t kAt = 0x900000, kBytes = 4u << 20, kApart = 2u << 20;
  const std::unique_ptr<Thread> parent = load_guest(*platform_, code_of(memory));
  ASSERT_EQ(run_guest(*platform_, *parent), parent.get());
  Space& space = *parent->space();
  space.map(kAt, kBytes, PROT_READ | PROT_WRITE, {});
  const std::vector<std::byte> bytes(kBytes, std::byte{7});
  ASSERT_EQ(space.write(kAt, bytes), kBytes);
  Try<std::unique_ptr<Thread>> child = parent->fork();
  ASSERT_TRUE(child);
  EXPECT_GE(space.resident_bytes() + (*child)->space()->resident_bytes(), kBytes);
  EXPECT_GE(space.most_bytes().resident, kBytes);
  // A page that is only read counts for no process, but its page table takes memory.
  const uint64_t before = space.most_bytes().tables;
  space.map(0x100000000, 64 * kApart, PROT_READ, {});
  std::byte one{};
  for (uint64_t i = 0; i < 64; ++i) ASSERT_EQ(space.read(0x100000000 + i * kApart, {&one, 1}), 1u);
  EXPECT_GE(space.most_bytes().tables, before + uint64_t{32} * 4096);
}

TEST_P(PlatformTest, MapsFilesInBatches) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(memory));
  Space& space = *guest->space();
  std::vector<int> files;
  for (uint64_t i = 0; i < 50; ++i) {
    files.push_back(memfd_create("file", MFD_CLOEXEC));
    ASSERT_EQ(pwrite(files.back(), &i, sizeof i, 4096), 8);
    for (uint64_t k = 0; k < 3; ++k)
      space.map(0x10000000 + (i * 3 + k) * 4096, 4096, PROT_READ | PROT_WRITE, {files.back(), 4096, k == 2});
  }
  guest->registers.rip += 7;  // at the load
  guest->registers.rdi = 0x10000000 + 49 * 3 * 4096;
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->registers.rsi, 49u);
  for (const int file : files) close(file);
  for (uint64_t i = 0; i < 150; ++i) EXPECT_EQ(peek<uint64_t>(*guest, 0x10000000 + i * 4096), i / 3);
}

size_t count_open_files() {
  size_t count = 0;
  for (int number = 0; number < 1024; ++number) count += fcntl(number, F_GETFD) >= 0;
  return count;
}
size_t count_children() {
  std::ifstream file("/proc/thread-self/children");
  return static_cast<size_t>(std::distance(std::istream_iterator<int>(file), std::istream_iterator<int>()));
}

TEST_P(PlatformTest, ForksLeaveNothing) {
  const std::unique_ptr<Thread> parent = load_guest(*platform_, code_of(memory));
  ASSERT_EQ(run_guest(*platform_, *parent), parent.get());
  const size_t files = count_open_files(), children = count_children();
  for (int round = 0; round < 500; ++round) {
    Try<std::unique_ptr<Thread>> child = parent->fork();
    ASSERT_TRUE(child) << round;
    (*child)->registers.rdi = kDataAt;
    if (round % 2 == 0) {
      ASSERT_EQ(run_guest(*platform_, **child), child->get());
    }
    if (round % 3 == 0) (*child)->resume();  // it runs when it is ended
  }
  EXPECT_EQ(count_open_files(), files);
  while (count_children() > children)
    platform_->wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
  EXPECT_EQ(count_children(), children);
}

TEST_P(PlatformTest, ThreadsLeaveNothing) {
  const std::unique_ptr<Thread> first = load_guest(*platform_, code_of(spin));
  // More than there are slots, and then until the limit is reached.
  for (int round = 0; round < 1500; ++round) {
    Try<std::unique_ptr<Thread>> thread = first->clone_thread();
    ASSERT_TRUE(thread) << round;
  }
  std::vector<std::unique_ptr<Thread>> threads;
  for (Try<std::unique_ptr<Thread>> thread = first->clone_thread(); thread; thread = first->clone_thread())
    threads.push_back(std::move(*thread));
  EXPECT_GE(threads.size(), 1000u);
  for (const std::unique_ptr<Thread>& thread : threads) thread->resume();
  threads.clear();
  first->resume();
  first->interrupt();
  while (Thread* const stopped = wait_long(*platform_))
    if (stopped == first.get()) break;
  EXPECT_EQ(first->stop.kind, StopKind::kInterrupted);
}

TEST_P(PlatformTest, EndsWithThreadsThatRun) {
  std::vector<std::unique_ptr<Thread>> threads;
  for (int i = 0; i < 10; ++i) {
    threads.push_back(load_guest(*platform_, code_of(spin)));
    ASSERT_NE(threads.back(), nullptr);
    Try<std::unique_ptr<Thread>> second = threads.back()->clone_thread();
    ASSERT_TRUE(second);
    threads.back()->resume();
    (*second)->resume();
    threads.push_back(std::move(*second));
  }
  threads.clear();
  platform_.reset();
  EXPECT_EQ(count_children(), 0u);
}

TEST_P(PlatformTest, ReportsThatAProcessHasEnded) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(spin));
  guest->resume();
  // A change that the host refuses: the mapping does not exist.
  const std::unique_ptr<Thread> other = load_guest(*platform_, code_of(call));
  other->space()->protect(0x20000000, 4096, PROT_READ);
  ASSERT_EQ(run_guest(*platform_, *other), other.get());
  EXPECT_EQ(other->stop.kind, StopKind::kGone);
  std::byte byte{};
  EXPECT_EQ(other->space()->read(kCodeAt, std::span(&byte, 1)), 0u);
  EXPECT_FALSE(other->fork());
  guest->interrupt();
  ASSERT_EQ(wait_long(*platform_), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kInterrupted);
}

}  // namespace
}  // namespace membrane::linux
