// Hostile guests that know that they are in a machine: they try what a machine's supervisor could do, calls
// and jumps from odd places, and its gates. They may lose themselves; the kernel process and the other guests
// must not notice.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "linux/platform/guest_testing.h"
#include "linux/platform/kvm/kvm.h"
#include "linux/platform/kvm/monitor/layout.h"
#include "linux/platform/trap/trap_platform.h"

namespace membrane::linux {
namespace {

GUEST_CODE(kvm_well, "1: inc %rbx; mov $39, %eax; syscall; jmp 1b");
GUEST_CODE(kvm_jump, "jmp *%rdi");
GUEST_CODE(kvm_load, "mov (%rdi), %rax; mov $39, %eax; syscall");
GUEST_CODE(kvm_store, "mov %rdi, (%rdi); mov $39, %eax; syscall");

class KvmAttackTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Platform>> started = start_kvm_platform({});
    if (!started && started.error().code == ErrorCode::kUnsupported)
      GTEST_SKIP() << started.error().to_string();
    ASSERT_TRUE(started) << started.error().to_string();
    platform_ = std::move(*started);
    innocent_ = load_guest(*platform_, code_of(kvm_well));
    ASSERT_NE(innocent_, nullptr);
  }
  // Another guest continues as before.
  void expect_all_is_well() {
    const uint64_t before = innocent_->registers.rbx;
    ASSERT_EQ(run_guest(*platform_, *innocent_), innocent_.get());
    EXPECT_EQ(innocent_->stop.kind, StopKind::kSystemCall);
    EXPECT_EQ(innocent_->registers.rbx, before + 1);
  }
  // Code for the guest's processor, from bytes.
  std::unique_ptr<Thread> load(std::span<const uint8_t> code) {
    return load_guest(*platform_, std::as_bytes(code));
  }
  std::unique_ptr<Thread> run_with(std::span<const std::byte> code, uint64_t argument) {
    std::unique_ptr<Thread> guest = load_guest(*platform_, code);
    guest->registers.rdi = argument;
    EXPECT_EQ(run_guest(*platform_, *guest), guest.get());
    return guest;
  }

  std::unique_ptr<Platform> platform_;
  std::unique_ptr<Thread> innocent_;
};

// ---- instructions that are a supervisor's ----

struct Instruction {
  const char* name;
  std::vector<uint8_t> code;
};

const std::vector<Instruction>& privileged() {
  static const std::vector<Instruction> all = {
      {"hlt", {0xf4}},
      {"cli", {0xfa}},
      {"sti", {0xfb}},
      {"in al, dx", {0xec}},
      {"out dx, al", {0xee}},
      {"in al, 0x60", {0xe4, 0x60}},
      {"out 0x64, al", {0xe6, 0x64}},
      {"insb", {0x6c}},
      {"outsb", {0x6e}},
      {"rep outsl", {0xf3, 0x6f}},
      {"lgdt (rsp)", {0x0f, 0x01, 0x14, 0x24}},
      {"lidt (rsp)", {0x0f, 0x01, 0x1c, 0x24}},
      {"lldt ax", {0x0f, 0x00, 0xd0}},
      {"ltr ax", {0x0f, 0x00, 0xd8}},
      {"lmsw ax", {0x0f, 0x01, 0xf0}},
      {"clts", {0x0f, 0x06}},
      {"mov rax, cr0", {0x0f, 0x20, 0xc0}},
      {"mov cr0, rax", {0x0f, 0x22, 0xc0}},
      {"mov rax, cr3", {0x0f, 0x20, 0xd8}},
      {"mov cr3, rax", {0x0f, 0x22, 0xd8}},
      {"mov cr4, rax", {0x0f, 0x22, 0xe0}},
      {"mov cr8, rax", {0x44, 0x0f, 0x22, 0xc0}},
      {"mov rax, dr0", {0x0f, 0x21, 0xc0}},
      {"mov dr7, rax", {0x0f, 0x23, 0xf8}},
      {"rdmsr", {0x0f, 0x32}},
      {"wrmsr", {0x0f, 0x30}},
      {"rdpmc", {0x0f, 0x33}},
      {"invd", {0x0f, 0x08}},
      {"wbinvd", {0x0f, 0x09}},
      {"invlpg (rsp)", {0x0f, 0x01, 0x3c, 0x24}},
      {"swapgs", {0x0f, 0x01, 0xf8}},
      {"sysret", {0x48, 0x0f, 0x07}},
      {"sysexit", {0x48, 0x0f, 0x35}},
      {"sysenter", {0x0f, 0x34}},
      {"xsetbv", {0x0f, 0x01, 0xd1}},
      {"monitor", {0x0f, 0x01, 0xc8}},
      {"mwait", {0x0f, 0x01, 0xc9}},
      {"vmxoff", {0x0f, 0x01, 0xc4}},
      {"vmlaunch", {0x0f, 0x01, 0xc2}},
      {"vmrun", {0x0f, 0x01, 0xd8}},
      {"clgi", {0x0f, 0x01, 0xdd}},
      {"invpcid", {0x66, 0x0f, 0x38, 0x82, 0x04, 0x24}},
      {"encls", {0x0f, 0x01, 0xcf}},
      {"iretq to ring 0", {0x6a, 0x18, 0x54, 0x6a, 0x02, 0x6a, 0x10, 0x57, 0x48, 0xcf}},
      {"lretq to ring 0", {0x6a, 0x10, 0x57, 0x48, 0xcb}},
      {"lretq to 32-bit code", {0x6a, 0x23, 0x57, 0x48, 0xcb}},
      {"mov ss, ring 0's data", {0xb8, 0x18, 0, 0, 0, 0x8e, 0xd0}},
      {"mov fs, the task's segment", {0xb8, 0x43, 0, 0, 0, 0x8e, 0xe0}},
      {"ud2", {0x0f, 0x0b}},
  };
  return all;
}

// The following code shows that the instruction had no effect: the guest gets an exception and is still a
// user program.
TEST_F(KvmAttackTest, PrivilegedInstructionsAreExceptions) {
  for (const Instruction& each : privileged()) {
    std::vector<uint8_t> code = each.code;
    for (const uint8_t byte : {0xb8, 39, 0, 0, 0, 0x0f, 0x05}) code.push_back(byte);
    const std::unique_ptr<Thread> guest = load(code);
    ASSERT_NE(guest, nullptr);
    guest->registers.rdi = kCodeAt;
    ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
    EXPECT_EQ(guest->stop.kind, StopKind::kException) << each.name;
    EXPECT_TRUE(guest->stop.signal == SIGSEGV || guest->stop.signal == SIGILL || guest->stop.signal == SIGBUS)
        << each.name << " " << guest->stop.signal;
  }
  expect_all_is_well();
}

TEST_F(KvmAttackTest, CallsOfAMachineAreNotAnswered) {
  for (const std::array<uint8_t, 10>& code :
       {std::array<uint8_t, 10>{0x0f, 0x01, 0xc1, 0xb8, 39, 0, 0, 0, 0x0f, 0x05},     // vmcall
        std::array<uint8_t, 10>{0x0f, 0x01, 0xd9, 0xb8, 39, 0, 0, 0, 0x0f, 0x05}}) {  // vmmcall
    const std::unique_ptr<Thread> guest = load(code);
    for (const uint64_t call : {0ul, 1ul, 5ul, 9ul, 10ul, 12ul}) {
      guest->registers.rip = kCodeAt;
      guest->registers.rax = call;
      ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
      // Refused with an error, or no such instruction.
      EXPECT_TRUE(guest->stop.kind == StopKind::kSystemCall || guest->stop.kind == StopKind::kException);
    }
  }
  expect_all_is_well();
}

// As on the processor: an exception before the instruction. (An emulated kvm handles some vectors itself and
// does nothing.)
TEST_F(KvmAttackTest, EveryInterruptIsAnExceptionOrNothing) {
  for (int number = 0; number < 256; ++number) {
    const std::array<uint8_t, 9> code = {0xcd, static_cast<uint8_t>(number), 0xb8, 39, 0, 0, 0, 0x0f, 0x05};
    const std::unique_ptr<Thread> guest = load(code);
    ASSERT_NE(guest, nullptr);
    ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
    ASSERT_NE(guest->stop.kind, StopKind::kGone) << number;
    if (number >= KVM_VECTORS && number < 32 && guest->stop.kind == StopKind::kSystemCall) {
      EXPECT_EQ(guest->registers.rax, 39u) << number;
      continue;
    }
    ASSERT_EQ(guest->stop.kind, StopKind::kException) << number;
    EXPECT_EQ(guest->stop.signal, number == 3 ? SIGTRAP : SIGSEGV) << number;
    if (number < 5 || (number >= KVM_VECTORS && number < 32)) continue;
    EXPECT_EQ(guest->registers.rip, kCodeAt) << number;
    EXPECT_EQ(guest->stop.error_code, static_cast<uint64_t>(number) * 8 + 2) << number;
  }
  expect_all_is_well();
}

// ---- the machine's own pages ----

TEST_F(KvmAttackTest, TheMachinesPagesAreNotAGuests) {
  constexpr std::array kPlaces = {KVM_SYSTEM + KVM_GDT,
                                  KVM_SYSTEM + KVM_IDT,
                                  KVM_SYSTEM + KVM_SEGMENTS,
                                  KVM_SYSTEM + KVM_TABLES,
                                  KVM_MACHINE,
                                  KVM_RUNS,
                                  TRAP_CONTROLS,
                                  TRAP_STACKS,
                                  TRAP_BELL,
                                  uint64_t{0xffff800000000000}};
  for (const uint64_t place : kPlaces)
    for (const auto code : {code_of(kvm_load), code_of(kvm_store), code_of(kvm_jump)}) {
      const std::unique_ptr<Thread> guest = run_with(code, place);
      ASSERT_EQ(guest->stop.kind, StopKind::kException) << std::hex << place;
      EXPECT_EQ(guest->stop.signal, SIGSEGV) << std::hex << place;
      EXPECT_EQ(guest->stop.address, place);
    }
  expect_all_is_well();
}

TEST_F(KvmAttackTest, TheGatesAreNotData) {
  for (const uint64_t place : {KVM_GATES, KVM_GATES + 8, KVM_GATES + 0xff8})
    for (const auto code : {code_of(kvm_load), code_of(kvm_store)}) {
      const std::unique_ptr<Thread> guest = run_with(code, place);
      ASSERT_EQ(guest->stop.kind, StopKind::kException) << std::hex << place;
      EXPECT_EQ(guest->stop.signal, SIGSEGV);
      EXPECT_EQ(guest->registers.rip, kCodeAt);
    }
  expect_all_is_well();
}

// A jump to the system call gate is a call with the current registers; a jump to any other gate is a fault
// there.
TEST_F(KvmAttackTest, JumpsToGatesAreNotExceptions) {
  const std::unique_ptr<Thread> caller = load_guest(*platform_, code_of(kvm_jump));
  caller->registers.rdi = KVM_GATE_CALL;
  caller->registers.rax = 39;
  caller->registers.rcx = uint64_t{1} << 63;  // where it says that it comes from
  ASSERT_EQ(run_guest(*platform_, *caller), caller.get());
  ASSERT_EQ(caller->stop.kind, StopKind::kSystemCall);
  EXPECT_EQ(caller->registers.rip, uint64_t{1} << 63);
  ASSERT_EQ(run_guest(*platform_, *caller), caller.get());
  ASSERT_EQ(caller->stop.kind, StopKind::kException);
  EXPECT_EQ(caller->stop.signal, SIGSEGV);
  EXPECT_EQ(caller->stop.trap_number, 13);
  EXPECT_EQ(caller->registers.rip, uint64_t{1} << 63);
  for (uint64_t offset = 1; offset < 300; ++offset) {
    const std::unique_ptr<Thread> guest = run_with(code_of(kvm_jump), KVM_GATES + offset);
    ASSERT_EQ(guest->stop.kind, StopKind::kException) << offset;
    EXPECT_EQ(guest->stop.signal, SIGSEGV) << offset;
    EXPECT_EQ(guest->registers.rip, KVM_GATES + offset);
  }
  expect_all_is_well();
}

// ---- odd places and registers ----

TEST_F(KvmAttackTest, RegistersThatTheProcessorWouldNotTake) {
  for (const uint64_t odd :
       {uint64_t{1} << 47, uint64_t{1} << 63, ~uint64_t{0}, uint64_t{0x8000000000000000} - 1}) {
    const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(kvm_well));
    guest->registers.rip = odd;
    ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
    EXPECT_EQ(guest->stop.kind, StopKind::kException) << std::hex << odd;
    EXPECT_EQ(guest->stop.signal, SIGSEGV);
    EXPECT_EQ(guest->registers.rip, odd);
    guest->registers.rip = kCodeAt;
    guest->registers.fs_base = guest->registers.gs_base = odd;
    guest->registers.rsp = odd;
    guest->registers.rflags = ~uint64_t{0} & ~uint64_t{0x100};
    ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
    EXPECT_NE(guest->stop.kind, StopKind::kGone) << std::hex << odd;
    EXPECT_EQ(guest->registers.rflags & 0x3000, 0u);  // no rights to ports
  }
  expect_all_is_well();
}

GUEST_CODE(kvm_pushes, "push %rax; ud2");

TEST_F(KvmAttackTest, ExceptionsDoNotNeedAStack) {
  for (const uint64_t stack : {uint64_t{0}, uint64_t{8}, KVM_SYSTEM + 8, ~uint64_t{7}, uint64_t{0xdead000}}) {
    const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(kvm_pushes));
    guest->registers.rsp = stack;
    ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
    EXPECT_EQ(guest->stop.kind, StopKind::kException) << std::hex << stack;
    EXPECT_EQ(guest->registers.rsp, stack);
    guest->registers.rip += 1;
    ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
    EXPECT_EQ(guest->stop.signal, SIGILL);
  }
  expect_all_is_well();
}

// The last instruction of a page, after which nothing is mapped; and one that does not end.
TEST_F(KvmAttackTest, CallsFromTheEdgeOfAPage) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(kvm_well));
  Space& space = *guest->space();
  space.map(0x900000, 4096, PROT_READ | PROT_EXEC, {});
  const std::array<uint8_t, 3> call = {0x0f, 0x05, 0x0f};
  ASSERT_EQ(space.poke(0x900ffe, std::as_bytes(std::span(call).first(2))), 2u);
  guest->registers.rip = 0x900ffe;
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kSystemCall);
  EXPECT_EQ(guest->registers.rip, 0x901000u);
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.signal, SIGSEGV);
  EXPECT_EQ(guest->stop.address, 0x901000u);
  ASSERT_EQ(space.poke(0x900fff, std::as_bytes(std::span(call).last(1))), 1u);
  guest->registers.rip = 0x900fff;
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.signal, SIGSEGV);
  EXPECT_EQ(guest->stop.address, 0x901000u);
}

GUEST_CODE(kvm_steps, "pushf; orl $0x100, (%rsp); popf; nop; nop");

TEST_F(KvmAttackTest, StepsAreATrapOfTheGuests) {
  const std::unique_ptr<Thread> guest = run_with(code_of(kvm_steps), 0);
  EXPECT_EQ(guest->stop.kind, StopKind::kException);
  EXPECT_EQ(guest->stop.signal, SIGTRAP);
  expect_all_is_well();
}

// Overwrites its own next instruction, many times, and sees each.
GUEST_CODE(kvm_changes_itself, R"(
  xor %ebx, %ebx
  1: lea 2f(%rip), %rax; inc %ebx; mov %ebx, 1(%rax)
  2: mov $0, %edx
  cmp %ebx, %edx; jne 3f
  cmp $1000, %ebx; jne 1b
  3: mov $39, %eax; syscall
)");

TEST_F(KvmAttackTest, ChangesItsOwnCode) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(kvm_changes_itself));
  guest->space()->protect(kCodeAt, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kSystemCall);
  EXPECT_EQ(guest->registers.rbx, 1000u);
  EXPECT_EQ(guest->registers.rdx, 1000u);
}

// ---- pages ----

TEST_F(KvmAttackTest, WhatIsNotExecutableIsNotExecuted) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(kvm_well));
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  guest->space()->protect(kCodeAt, 4096, PROT_READ | PROT_WRITE);
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kException);
  EXPECT_EQ(guest->stop.signal, SIGSEGV);
  EXPECT_EQ(guest->stop.code, SEGV_ACCERR);
  EXPECT_EQ(guest->stop.address, guest->registers.rip);
  guest->space()->protect(kCodeAt, 4096, PROT_READ | PROT_EXEC);
  ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kSystemCall);
}

GUEST_CODE(kvm_touches, "1: mov (%rdi), %rax; mov %rax, (%rdi); mov $39, %eax; syscall; jmp 1b");

// Permissions are added and removed; each change takes effect, even after the page tables' room was reused
// many times.
TEST_F(KvmAttackTest, ChangesProtectionsWithoutEnd) {
  constexpr uint64_t kAt = 0x40000000, kLength = 16 << 21;
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(kvm_touches));
  Space& space = *guest->space();
  space.map(kAt, kLength, PROT_READ | PROT_WRITE, {});
  for (uint64_t round = 0; round < 2000; ++round) {
    guest->registers.rip = kCodeAt;
    const uint64_t page = kAt + round * 7919 * 4096 % kLength;
    guest->registers.rdi = page;
    ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
    ASSERT_EQ(guest->stop.kind, StopKind::kSystemCall) << round;
    space.protect(page, 4096, PROT_READ);
    ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
    ASSERT_EQ(guest->stop.kind, StopKind::kException) << round;
    ASSERT_EQ(guest->stop.signal, SIGSEGV) << round;
    ASSERT_EQ(guest->stop.address, page) << round;
    space.protect(page, 4096, PROT_READ | PROT_WRITE);
    guest->registers.rdi = page;
  }
  expect_all_is_well();
}

TEST_F(KvmAttackTest, MapsFarApart) {
  const std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(kvm_touches));
  uint64_t count = 0;
  // More than there are windows: eventually there is no room, and only this guest is lost.
  for (uint64_t at = uint64_t{1} << 32; at < platform_->highest(); at += uint64_t{1} << 37, ++count) {
    guest->space()->map(at, 4096, PROT_READ | PROT_WRITE, {});
    guest->registers.rdi = at;
    guest->registers.rip = kCodeAt;
    ASSERT_EQ(run_guest(*platform_, *guest), guest.get());
    if (guest->stop.kind == StopKind::kGone) break;
    ASSERT_EQ(guest->stop.kind, StopKind::kSystemCall) << std::hex << at;
  }
  EXPECT_GE(count, 400u);
  expect_all_is_well();
}

GUEST_CODE(kvm_spin, "1: jmp 1b");
GUEST_CODE(kvm_flood,
           "1: mov (%rdi), %rax; add $4096, %rdi; and $0x1ffffff, %rdi; or $0x40000000, %rdi; jmp 1b");

TEST_F(KvmAttackTest, GuestsThatNeverYieldAreInterrupted) {
  std::unique_ptr<Thread> guest = load_guest(*platform_, code_of(kvm_spin));
  std::unique_ptr<Thread> other = load_guest(*platform_, code_of(kvm_flood));
  other->space()->map(0x40000000, 0x2000000, PROT_READ, {});
  other->registers.rdi = 0x40000000;
  guest->resume();
  other->resume();
  for (int round = 0; round < 10; ++round) expect_all_is_well();
  for (Thread* const each : {guest.get(), other.get()}) {
    each->interrupt();
    ASSERT_EQ(wait_long(*platform_), each);
    EXPECT_EQ(each->stop.kind, StopKind::kInterrupted);
  }
}

GUEST_CODE(kvm_stamp, "rdtsc; mov $39, %eax; syscall");

TEST_F(KvmAttackTest, TimeStampsAreAnExceptionWhereTheyShallBe) {
  auto started = start_kvm_platform({.traps_time_stamps = true});
  ASSERT_TRUE(started);
  const std::unique_ptr<Thread> guest = load_guest(**started, code_of(kvm_stamp));
  ASSERT_EQ(run_guest(**started, *guest), guest.get());
  EXPECT_EQ(guest->stop.kind, StopKind::kException);
  EXPECT_EQ(guest->stop.trap_number, 13);
  EXPECT_EQ(guest->registers.rip, kCodeAt);
}

TEST(KvmTest, SaysWhyItCannotBeUsed) {
  const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
  const auto started = start_kvm_platform({.device = other});
  // It is not a kvm: no guest runs.
  if (started) {
    EXPECT_FALSE((*started)->start());
  }
  close(other);
}

}  // namespace
}  // namespace membrane::linux
