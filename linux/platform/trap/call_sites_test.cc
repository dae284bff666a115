// Patched call sites, with well-behaved guests and hostile ones that know the gates.
#include "linux/platform/trap/call_sites.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "linux/platform/guest_testing.h"
#include "linux/platform/trap/trap.h"

namespace membrane::linux {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kFileAt = 0x7ffdf0000000;
constexpr uint64_t kCalls = 8;  // after so many a site is patched

// Counts its calls in rbx, and keeps what a call must not change. The word at rdi + 8 is the code of its call
// as the guest reads it. The first instructions fill the bytes that are inspected before a site.
GUEST_CODE(caller, R"(
     nop; nop; nop; nop
     mov $0x4242424242424242, %rax; movq %rax, %xmm3; vbroadcastsd %xmm3, %ymm7
  1: inc %rbx; movq $0x1234, -8(%rsp); lea 2f(%rip), %rsi; mov (%rsi), %rax; mov %rax, 8(%rdi)
     stc; nop; nop; nop
  2: mov $110, %eax; syscall
     setc %r12b; mov -8(%rsp), %rdx; vextracti128 $1, %ymm7, %xmm1; movq %xmm1, %rbp
     jmp 1b
)");
// Makes the call in rax from a site of another number, by a jump over the mov.
GUEST_CODE(
    jumper,
    "nop; nop; nop; nop; 1: mov $39, %eax; 2: syscall; test %r12, %r12; jz 1b; mov $102, %eax; jmp 2b");

class CallSitesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto started = start_trap_platform({});
    ASSERT_TRUE(started) << started.error().to_string();
    platform_ = std::move(*started);
  }
  void TearDown() override { EXPECT_NE(load_guest(*platform_, code_of(caller)), nullptr); }

  // A guest whose code belongs to a file, near enough to the gates.
  std::unique_ptr<Thread> load(std::span<const std::byte> code) {
    std::unique_ptr<Thread> guest = load_guest(*platform_, code);
    const int file = memfd_create("code", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(file, 4096), 0);
    EXPECT_EQ(pwrite(file, code.data(), code.size(), 0), static_cast<ssize_t>(code.size()));
    guest->space()->map(kFileAt, 4096, PROT_READ | PROT_EXEC, {.fd = file, .may_write = false});
    std::byte byte{};
    EXPECT_EQ(guest->space()->read(kFileAt, std::span(&byte, 1)), 1u);
    close(file);
    guest->registers.rip = kFileAt;
    guest->registers.rdi = kDataAt;
    return guest;
  }
  void run(Thread& guest, uint64_t times = kCalls) {
    for (uint64_t i = 0; i < times; ++i) ASSERT_EQ(run_guest(*platform_, guest), &guest);
  }
  // What the guest reads at its call: the first byte of a mov or of a jump.
  static uint8_t seen_by(Thread& guest) { return peek<uint8_t>(guest, kDataAt + 8); }
  static constexpr uint8_t kMove = 0xb8, kJump = 0xe9;

  std::unique_ptr<Platform> platform_;
};

TEST_F(CallSitesTest, APatchedCallIsAsAnyOther) {
  const std::unique_ptr<Thread> guest = load(code_of(caller));
  run(*guest, 1);
  EXPECT_EQ(seen_by(*guest), kMove);
  const Registers first = guest->registers;
  run(*guest);
  EXPECT_EQ(seen_by(*guest), kJump);
  EXPECT_EQ(guest->stop.kind, StopKind::kSystemCall);
  const Registers& r = guest->registers;
  EXPECT_EQ(r.rbx, 1 + kCalls);
  EXPECT_EQ(r.rax, 110u);
  EXPECT_EQ(r.rip, first.rip);
  EXPECT_EQ(r.rcx, r.rip);
  EXPECT_EQ(r.r11, r.rflags);
  EXPECT_EQ(r.rflags & 1, 1u);
  EXPECT_EQ(r.rsp, first.rsp);
  EXPECT_EQ(r.r12 & 0xff, 1u);
  EXPECT_EQ(r.rdx, 0x1234u);
  EXPECT_EQ(r.rbp, 0x4242424242424242u);
  // The kernel sees what the file has.
  EXPECT_EQ(peek<uint8_t>(*guest, r.rip - 7), kMove);
  EXPECT_EQ(peek<uint32_t>(*guest, r.rip - 6), 110u);
}

TEST_F(CallSitesTest, AllRegistersCanBeSetAfterAPatchedCall) {
  const std::unique_ptr<Thread> guest = load(code_of(caller));
  run(*guest);
  guest->registers.rbx = 100;
  guest->registers.fs_base = kDataAt;
  guest->registers.rip -= 2;  // the call is made again
  guest->registers.rax = 77;
  run(*guest, 1);
  EXPECT_EQ(guest->registers.rax, 77u);
  EXPECT_EQ(guest->registers.rbx, 100u);
  EXPECT_EQ(guest->registers.fs_base, kDataAt);
  run(*guest, 1);
  EXPECT_EQ(guest->registers.rbx, 101u);
  EXPECT_EQ(guest->registers.rax, 110u);
}

TEST_F(CallSitesTest, AJumpOverTheMoveIsStillACall) {
  const std::unique_ptr<Thread> guest = load(code_of(jumper));
  run(*guest);
  guest->registers.r12 = 1;
  run(*guest, 1);
  EXPECT_EQ(guest->stop.kind, StopKind::kSystemCall);
  EXPECT_EQ(guest->registers.rax, 102u);
}

TEST_F(CallSitesTest, VectorStatesAreReadAndSet) {
  const std::unique_ptr<Thread> guest = load(code_of(caller));
  run(*guest);
  std::vector<std::byte> state = guest->vector_state();
  ASSERT_GE(state.size(), 576u);
  uint64_t value = 0;
  std::memcpy(&value, state.data() + 160 + 3 * 16, sizeof value);
  EXPECT_EQ(value, 0x4242424242424242u);
  ASSERT_TRUE(guest->set_vector_state({}));
  run(*guest, 1);
  EXPECT_EQ(guest->registers.rbp, 0u);
  EXPECT_EQ(guest->registers.rbx, 1 + kCalls);
}

TEST_F(CallSitesTest, AForkHasThemAndAnotherThreadEndsThem) {
  const std::unique_ptr<Thread> guest = load(code_of(caller));
  run(*guest);
  Try<std::unique_ptr<Thread>> child = guest->fork();
  ASSERT_TRUE(child);
  run(**child);
  EXPECT_EQ((*child)->registers.rbx, 2 * kCalls);
  EXPECT_EQ((*child)->registers.rbp, 0x4242424242424242u);
  EXPECT_EQ(seen_by(**child), kJump);
  Try<std::unique_ptr<Thread>> thread = (*child)->clone_thread();
  ASSERT_TRUE(thread);
  run(**thread, 2 * kCalls);
  EXPECT_EQ(seen_by(**thread), kMove);
  EXPECT_EQ((*thread)->registers.rbx, 4 * kCalls);
  EXPECT_EQ((*thread)->registers.rbp, 0x4242424242424242u);
  run(**child);
  EXPECT_EQ((*child)->registers.rbx, 3 * kCalls);
  run(*guest);
  EXPECT_EQ(seen_by(*guest), kJump);
}

TEST_F(CallSitesTest, CodeThatChangesIsAsItWas) {
  const std::unique_ptr<Thread> guest = load(code_of(caller));
  run(*guest);
  guest->space()->protect(kFileAt, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
  run(*guest, 1 + kCalls);
  EXPECT_EQ(seen_by(*guest), kMove);
  // The kernel's own writes, too.
  const std::unique_ptr<Thread> other = load(code_of(caller));
  run(*other);
  const uint64_t site = other->registers.rip - 7;
  const uint32_t number = 111;
  ASSERT_EQ(other->space()->poke(site + 1, std::as_bytes(std::span(&number, 1))), sizeof number);
  run(*other, 1);
  EXPECT_EQ(other->registers.rax, 111u);
}

TEST_F(CallSitesTest, OnlyFilesArePatchedThatCannotBeWritten) {
  const std::unique_ptr<Thread> guest = load(code_of(caller));
  guest->space()->map(kFileAt, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, {});
  ASSERT_EQ(guest->space()->write(kFileAt, code_of(caller)), code_of(caller).size());
  run(*guest, 2 * kCalls);
  EXPECT_EQ(seen_by(*guest), kMove);
}

TEST_F(CallSitesTest, WhoTheCallerIsIsAnsweredWithoutAStop) {
  const std::unique_ptr<Thread> guest = load(code_of(caller));
  guest->set_identity({.process = 1, .thread = 2, .parent = 77, .user = 4});
  run(*guest, 4);
  guest->resume();
  EXPECT_EQ(platform_->wait(Clock::now() + std::chrono::milliseconds(20)), nullptr);
  guest->interrupt();
  ASSERT_EQ(wait_long(*platform_), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kInterrupted);
  EXPECT_GT(guest->registers.rbx, 100u);
  EXPECT_LT(guest->registers.rip, TRAP_STUB);
  // A child is another one.
  Try<std::unique_ptr<Thread>> child = guest->fork();
  ASSERT_TRUE(child);
  (*child)->set_identity({.process = 3, .parent = 1});
  (*child)->resume();
  EXPECT_EQ(platform_->wait(Clock::now() + std::chrono::milliseconds(5)), nullptr);
}

TEST_F(CallSitesTest, InterruptsComeBetweenTwoInstructionsOfTheGuest) {
  TrapOptions options;
  options.shares_core = false;  // so that they come at any moment
  for (const bool shares_core : {true, false}) {
    options.shares_core = shares_core;
    auto started = start_trap_platform(options);
    ASSERT_TRUE(started);
    std::swap(platform_, *started);
    const std::unique_ptr<Thread> guest = load(code_of(caller));
    run(*guest);
    const uint64_t stack = guest->registers.rsp;
    uint64_t calls = kCalls, interrupts = 0;
    for (int round = 0; round < 3000; ++round) {
      guest->resume();
      for (volatile int wait = round % 97 * 40; wait > 0;) wait = wait - 1;
      guest->interrupt();
      ASSERT_EQ(wait_long(*platform_), guest.get());
      ASSERT_EQ(guest->registers.rsp, stack);
      ASSERT_GE(guest->registers.rip, kFileAt);
      ASSERT_LT(guest->registers.rip, kFileAt + 4096);
      if (guest->stop.kind == StopKind::kInterrupted) ++interrupts;
      else if (guest->stop.kind == StopKind::kSystemCall) ++calls;
      else FAIL();
      // Counted before the call is made.
      ASSERT_GE(guest->registers.rbx, calls);
      ASSERT_LE(guest->registers.rbx, calls + 1);
    }
    EXPECT_EQ(guest->vector_state().empty(), false);
    std::swap(platform_, *started);
  }
}

// ---- guests that are hostile ----

// Jumps to what rax says, with all registers as they are.
GUEST_CODE(jump, "jmp *%rax");

TEST_F(CallSitesTest, JumpsIntoGatesAndTheirEntryHurtNobodyElse) {
  const std::unique_ptr<Thread> bystander = load(code_of(caller));
  run(*bystander);
  for (uint64_t at = TRAP_STUB + 0x1000; at < TRAP_STUB + 0x3000; at += 7) {
    const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(jump));
    guest->registers.rax = at;
    guest->registers.rcx = kCodeAt;
    guest->registers.rdi = kDataAt;
    guest->resume();
    for (int stops = 0; stops < 3; ++stops) {
      Thread* const stopped = platform_->wait(Clock::now() + std::chrono::milliseconds(2));
      if (stopped == nullptr) break;
      ASSERT_EQ(stopped, guest.get());
      if (guest->stop.kind == StopKind::kGone) break;
      guest->resume();
    }
  }
  for (uint64_t at = TRAP_GATES; at < TRAP_GATES + 2 * kTrapGateBytes; ++at) {
    const std::unique_ptr<Thread> guest = load(code_of(caller));
    run(*guest);
    guest->registers.rip = at;
    ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  }
  run(*bystander);
  EXPECT_EQ(bystander->registers.rbx, 2 * kCalls);
}

// Claims to have come through a gate, and obeys nothing. rdi is its control page.
GUEST_CODE(frameless, R"(
     movl $31, 48(%rdi); movl $0xc000003e, 56(%rdi); movl $1, 256(%rdi); movl $1, 260(%rdi); movl $1, (%rdi)
  1: pause; cmpl $2, (%rdi); jne 1b; movl $1, (%rdi); jmp 1b
)");
static_assert(offsetof(TrapControl, by_gate) == 256 && offsetof(TrapControl, is_kicked) == 260);

TEST_F(CallSitesTest, WhoLiesAboutItsFrameHasNone) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(frameless));
  guest->registers.rdi = TRAP_CONTROLS;
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  ASSERT_EQ(guest->stop.kind, StopKind::kSystemCall);
  // What it left in its page is its own old frame.
  static_cast<void>(guest->vector_state());
  static_cast<void>(guest->set_vector_state({}));
  EXPECT_FALSE(guest->fork());
  EXPECT_FALSE(guest->clone_thread());
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
}

// Writes its own identity, and asks for it.
GUEST_CODE(forger, R"(
     nop; nop; nop; nop; mov $264, %r8
  1: nop; nop; nop; mov $110, %eax; syscall; inc %rbx; movl $5, 8(%rdi,%r8); cmp $5, %eax; jne 1b
     mov $60, %eax; syscall
)");

TEST_F(CallSitesTest, AForgedIdentityIsItsOwnLie) {
  static_assert(offsetof(TrapControl, answers) == 264);
  const std::unique_ptr<Thread> guest = load(code_of(forger));
  guest->registers.rdi = TRAP_CONTROLS;
  guest->set_identity({.parent = 77});
  for (int stops = 0; stops < 10 && guest->registers.rax != 60; ++stops) run(*guest, 1);
  EXPECT_EQ(guest->registers.rax, 60u);
}

// Overwrites its gates and the patched code through calls that the stub may make: only the guest itself sees
// that.
TEST_F(CallSitesTest, GatesOfOneProcessAreItsOwn) {
  const std::unique_ptr<Thread> first = load(code_of(caller)), second = load(code_of(caller));
  run(*first);
  run(*second);
  const std::vector<std::byte> nothing(kTrapGateBytes);
  // Whatever the bytes are, the kernel does not write there for it.
  EXPECT_EQ(first->space()->poke(TRAP_GATES, nothing), 0u);
  EXPECT_EQ(first->space()->write(TRAP_GATES, nothing), 0u);
  run(*second);
  EXPECT_EQ(second->registers.rbx, 2 * kCalls);
}

// ---- the books ----

TEST(CallSitesBooksTest, OnlyAMoveOfItsOwnIsASite) {
  const auto is_site = [](std::array<uint8_t, 10> code, uint64_t number) {
    const auto bytes = std::as_bytes(std::span(code));
    return CallSites::is_site(bytes.first(3), bytes.last(7), number);
  };
  EXPECT_TRUE(is_site({0x0f, 0x1e, 0xfa, 0xb8, 39, 0, 0, 0, 0x0f, 0x05}, 39));
  EXPECT_FALSE(is_site({0x0f, 0x1e, 0xfa, 0xb8, 39, 0, 0, 0, 0x0f, 0x05}, 40));
  EXPECT_FALSE(is_site({0x0f, 0x1e, 0xfa, 0xb9, 39, 0, 0, 0, 0x0f, 0x05}, 39));
  EXPECT_FALSE(is_site({0x90, 0x90, 0x41, 0xb8, 39, 0, 0, 0, 0x0f, 0x05}, 39));  // mov $39, %r8d
  EXPECT_FALSE(is_site({0x90, 0x90, 0x8d, 0xb8, 39, 0, 0, 0, 0x0f, 0x05}, 39));  // lea 39(%rax), %edi
  EXPECT_FALSE(is_site({0x90, 0xc7, 0x45, 0xb8, 39, 0, 0, 0, 0x0f, 0x05}, 39));  // movl $39, -72(%rbp)
  EXPECT_FALSE(is_site({0xc7, 0x44, 0x24, 0xb8, 39, 0, 0, 0, 0x0f, 0x05}, 39));  // movl $39, -72(%rsp)
  EXPECT_FALSE(is_site({0x90, 0x8b, 0x84, 0xb8, 39, 0, 0, 0, 0x0f, 0x05}, 39));  // mov 39(%rax,%rdi,4), %eax
}

TEST(CallSitesBooksTest, CodeIsCutAndSitesAreForgotten) {
  CallSites sites;
  sites.add_code(0x10000, 0x4000);
  const CallSites::Original original = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(sites.count(0x11000));
  EXPECT_TRUE(sites.count(0x11000));
  ASSERT_TRUE(sites.add(0x11ffe, original));  // over two pages
  std::array<std::byte, 4> bytes = {};
  sites.restore(0x12000, bytes);
  EXPECT_EQ(bytes[0], std::byte{3});
  EXPECT_EQ(bytes[2], std::byte{5});
  EXPECT_EQ(bytes[3], std::byte{0});
  EXPECT_TRUE(sites.remove(0x13000, 0x1000).empty());
  const auto removed = sites.remove(0x12000, 0x1000);
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].first, 0x11ffeu);
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(sites.count(0x12100));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(sites.count(0x11800));
  EXPECT_TRUE(sites.count(0x11800));
  for (uint32_t i = 0; i < kTrapGates; ++i) ASSERT_TRUE(sites.add(0x10000 + i * 8, original)) << i;
  EXPECT_FALSE(sites.add(0x20000, original));
  EXPECT_EQ(sites.site_of_gate(TRAP_GATES + kTrapGateBytes + 3), 0x10008u);
  EXPECT_FALSE(jump_to_gate(0x400000, 0));
}

}  // namespace
}  // namespace membrane::linux
