// What a machine's exits mean, and what a thread's machine needs before it resumes: TrapThread's part for
// `kvm`.
#include <linux/kvm.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "linux/platform/trap/trap_platform.h"

namespace membrane::linux {
namespace {

// The flags that a program may set, and those that are always set.
constexpr uint64_t kUserFlags = 0x250dd5, kFixedFlags = 0x202;
constexpr uint64_t kNoTimeStamps = 1 << 2;  // of cr4
constexpr int kMemoryFault = 39;            // KVM_EXIT_MEMORY_FAULT, missing in older headers

constexpr int kDebug = 1, kBreakpoint = 3, kInvalidCode = 6, kNoSegment = 11, kStackSegment = 12,
              kProtection = 13, kPage = 14, kFloat = 16, kAlignment = 17, kVectorFloat = 19;

bool has_error_code(uint64_t vector) { return vector == 8 || (vector >= 10 && vector <= 14) || vector == 17; }

bool is_canonical(uint64_t address) {
  return static_cast<int64_t>(address << 16) >> 16 == static_cast<int64_t>(address);
}

// The vector of the exception that jumped there; -1: none did.
int vector_of(uint64_t rip) {
  const uint64_t distance = rip - KVM_GATE_EXCEPTIONS;
  return distance < KVM_VECTORS * 8 && distance % 8 == 0 ? static_cast<int>(distance / 8) : -1;
}

bool is_in_gates(uint64_t address) { return address - KVM_GATES < TRAP_PAGE; }

}  // namespace

bool TrapThread::be_lost() {
  trap_space().end_process();
  be_gone();
  return false;
}

// ---- in ----

bool TrapThread::put_machine(TrapControl& control) {
  GuestTables& tables = *trap_space().tables();
  uint64_t root = tables.root();
  if (root == 0 && trap_space().renew_tables(*host_)) root = tables.root();
  if (root == 0) return be_lost();
  odd_rip_.reset();
  if (!is_canonical(registers.rip)) {
    odd_rip_ = registers.rip;
    control.registers[16] = KVM_SYSTEM;  // an address that guests may not execute
  }
  control.registers[17] = (registers.rflags & kUserFlags) | kFixedFlags;
  control.root = root;
  control.more_cr4 = platform().options().traps_time_stamps ? kNoTimeStamps : 0;
  host_->has_vectors = false;
  return true;
}

// ---- out ----

bool TrapThread::take_exit(const TrapControl& seen) {
  const bool is_refused = seen.exit == -EFAULT || seen.exit == kMemoryFault;
  const uint64_t rip = registers.rip;
  if (seen.signal == SIGSYS) {  // the monitor has started
    host_->is_interrupted = false;
    stop.kind = StopKind::kSystemCall;
    return true;
  }
  if (is_refused && seen.level == 3) return take_refusal();
  const int vector = seen.level == 0 ? vector_of(rip) : -1;
  if (seen.signal == SIGUSR1) host_->is_kicked = false;
  if (seen.signal == SIGUSR1 && rip != KVM_GATE_CALL && vector < 0) {
    if (seen.level != 3) return be_lost();
    if (odd_rip_) registers.rip = *odd_rip_;
    if (!host_->is_interrupted) {
      resume();
      return false;
    }
    host_->is_interrupted = false;
    stop.kind = StopKind::kInterrupted;
    return true;
  }
  if (seen.signal != SIGUSR1 && seen.exit == KVM_EXIT_MMIO && seen.level == 3) {
    // The page of the gates, as data.
    return raise(SIGSEGV, SEGV_MAPERR, kPage, KVM_GATES + seen.fault_address % TRAP_PAGE);
  }
  if (seen.signal != SIGUSR1 && seen.exit != KVM_EXIT_INTERNAL_ERROR) return be_lost();
  if (rip == KVM_GATE_CALL) {
    fills_alone_ = false;
    refusals_ = repeats_ = 0;
    host_->is_interrupted = false;
    stop.kind = StopKind::kSystemCall;
    registers.rip = registers.rcx;
    registers.rflags = registers.r11;
    return true;
  }
  if (vector >= 0) return take_gate(static_cast<uint64_t>(vector), seen);
  if (seen.level != 3) return be_lost();
  if (is_in_gates(rip)) return raise(SIGSEGV, SEGV_MAPERR, kPage, rip);
  return take_refused_code(rip);
}

// Code that kvm would not run. A machine has vectors for exceptions only: `int` with any other number ends up
// here too.
bool TrapThread::take_refused_code(uint64_t rip) {
  constexpr std::byte kInterrupt{0xcd};
  std::array<std::byte, 2> code = {};
  const size_t length = trap_space().read(rip, code);
  if (length < code.size() || code[0] != kInterrupt) return raise(SIGILL, ILL_ILLOPN, kInvalidCode, rip);
  stop.error_code = std::to_integer<uint64_t>(code[1]) * 8 + 2;
  return raise(SIGSEGV, SI_KERNEL, kProtection, 0);
}

bool TrapThread::raise(int signal, int code, int trap_number, uint64_t address) {
  if (host_ == nullptr) return be_lost();
  fills_alone_ = false;
  refusals_ = repeats_ = 0;
  host_->is_interrupted = false;
  stop.kind = StopKind::kException;
  stop.signal = signal;
  stop.code = code;
  stop.trap_number = trap_number;
  stop.address = address;
  return true;
}

bool TrapThread::take_gate(uint64_t vector, const TrapControl& seen) {
  const GuestTables::Frame frame = trap_space().tables()->frame(host_->slot, has_error_code(vector));
  if ((frame.code_segment & 3) != 3) return be_lost();
  registers.rip = frame.rip;
  registers.rflags = frame.flags;
  registers.rsp = frame.rsp;
  if (odd_rip_) {
    registers.rip = *odd_rip_;
    return raise(SIGSEGV, SI_KERNEL, kProtection, 0);
  }
  stop.error_code = frame.error_code & 0xffff;
  const int number = static_cast<int>(vector);
  switch (number) {
    case 0: return raise(SIGFPE, FPE_INTDIV, number, registers.rip);
    case kDebug: return raise(SIGTRAP, TRAP_TRACE, number, registers.rip);
    case kBreakpoint: return raise(SIGTRAP, SI_KERNEL, number, 0);
    case kInvalidCode: return take_refused_code(registers.rip);
    case kNoSegment:
    case kStackSegment: return raise(SIGBUS, SI_KERNEL, number, 0);
    case kPage: return take_page_fault(seen.page_address, stop.error_code);
    case kFloat:
    case kVectorFloat: return raise(SIGFPE, float_code(number), number, registers.rip);
    case kAlignment: return raise(SIGBUS, BUS_ADRALN, number, 0);
    default: return raise(SIGSEGV, SI_KERNEL, number, 0);
  }
}

int TrapThread::float_code(int trap_number) {
  const std::vector<std::byte> state = vector_state();
  if (state.size() < 512) return FPE_FLTINV;
  uint16_t control = 0, status = 0;
  uint32_t vector_control = 0;
  std::memcpy(&control, state.data(), sizeof control);
  std::memcpy(&status, state.data() + 2, sizeof status);
  std::memcpy(&vector_control, state.data() + 24, sizeof vector_control);
  const uint32_t raised = trap_number == kFloat ? status & ~control : vector_control & ~(vector_control >> 7);
  if ((raised & 1) != 0) return FPE_FLTINV;
  if ((raised & 4) != 0) return FPE_FLTDIV;
  if ((raised & 8) != 0) return FPE_FLTOVF;
  if ((raised & 0x12) != 0) return FPE_FLTUND;
  return (raised & 0x20) != 0 ? FPE_FLTRES : FPE_FLTINV;
}

// ---- pages ----

bool TrapThread::take_page_fault(uint64_t address, uint64_t error_code) {
  if (address > TRAP_TOP) stop.error_code |= 1;  // as Linux reports for kernel addresses
  switch (trap_space().tables()->judge(address, error_code)) {
    case GuestTables::Answer::kPresent: last_error_ = error_code; return fill_page(address);
    case GuestTables::Answer::kNoMapping: return raise(SIGSEGV, SEGV_MAPERR, kPage, address);
    default: return raise(SIGSEGV, SEGV_ACCERR, kPage, address);
  }
}

// The machine's tables permit the access and the host's mappings do not: either the tables are outdated, or
// the file has nothing at that page.
bool TrapThread::take_refusal() {
  constexpr int kMostRefusals = 4;
  if (odd_rip_) registers.rip = *odd_rip_;
  if ((fills_alone_ && alone_fills_ > 0) || ++refusals_ == kMostRefusals) {
    stop.error_code = last_error_;
    return raise(SIGBUS, BUS_ADRERR, kPage, last_filled_);
  }
  fills_alone_ = true;
  alone_fills_ = 0;
  trap_space().tables()->discard();
  resume();
  return false;
}

bool TrapThread::fill_page(uint64_t address) {
  constexpr int kMostAlone = 64, kManyRepeats = 3, kMostRepeats = 16;
  TrapSpace& space = trap_space();
  GuestTables& tables = *space.tables();
  repeats_ = address == last_filled_ ? repeats_ + 1 : 0;
  if (repeats_ == kMostRepeats) return be_lost();
  if (repeats_ == kManyRepeats) tables.discard();
  if (fills_alone_ && ++alone_fills_ == kMostAlone) fills_alone_ = false;
  last_filled_ = address;
  if (const std::optional<GuestTables::Slot> slot = tables.needs_slot(address)) {
    space.add_slot(*slot);
    // Other running threads must not find the page before the memory exists.
    if (space.guest_count() > 1 && !space.flush(*host_)) return be_lost();
  }
  GuestTables::Answer answer = tables.fill(address, fills_alone_);
  if (answer == GuestTables::Answer::kFull && space.renew_tables(*host_))
    answer = tables.fill(address, fills_alone_);
  if (answer != GuestTables::Answer::kPresent) return be_lost();
  resume();
  return false;
}

}  // namespace membrane::linux
