#include <fcntl.h>
#include <linux/audit.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "linux/platform/trap/trap_platform.h"

namespace membrane::linux {
namespace {

// The registers in the order of a signal frame.
constexpr std::array<uint64_t Registers::*, kTrapRegisters> kOrder = {
    &Registers::r8,  &Registers::r9,  &Registers::r10, &Registers::r11, &Registers::r12, &Registers::r13,
    &Registers::r14, &Registers::r15, &Registers::rdi, &Registers::rsi, &Registers::rbp, &Registers::rbx,
    &Registers::rdx, &Registers::rax, &Registers::rcx, &Registers::rsp, &Registers::rip, &Registers::rflags};

// An address that the processor rejects would end the stub.
uint64_t canonical(uint64_t address) {
  return static_cast<int64_t>(address << 16) >> 16 == static_cast<int64_t>(address) ? address : 0;
}

void put_registers(const Registers& from, TrapControl& to) {
  for (size_t i = 0; i < kTrapRegisters; ++i) to.registers[i] = from.*kOrder[i];
  to.fs_base = canonical(from.fs_base);
  to.gs_base = canonical(from.gs_base);
}

void take_registers(const TrapControl& from, Registers& to) {
  for (size_t i = 0; i < kTrapRegisters; ++i) to.*kOrder[i] = from.registers[i];
  to.fs_base = from.fs_base;
  to.gs_base = from.gs_base;
}

// The XSAVE area of a signal frame.
constexpr size_t kLegacyBytes = 512, kHeaderBytes = 64, kSoftwareAt = 464, kMostVectorBytes = 16 << 10;
constexpr uint32_t kFirstMagic = 0x46505853;
struct SoftwareBytes {
  uint32_t magic, extended_size;
  uint64_t features;
  uint32_t size;
};

template <typename T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <typename T>
void store(std::span<std::byte> bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// The signals that the stub handles; it reports no others to the kernel.
bool is_stop(int32_t signal) {
  return signal == SIGSYS || signal == SIGUSR1 || signal == SIGSEGV || signal == SIGBUS || signal == SIGILL ||
         signal == SIGFPE || signal == SIGTRAP;
}

uint64_t stack_of(uint32_t slot) { return TRAP_STACKS + slot * TRAP_STACK_SIZE; }

// The processor's initial state: empty registers, no exceptions.
void make_initial(std::span<std::byte> state) {
  std::ranges::fill(state.first(kSoftwareAt), std::byte{});
  std::ranges::fill(state.subspan(kLegacyBytes), std::byte{});
  store<uint16_t>(state, 0, 0x37f);
  store<uint32_t>(state, 24, 0x1f80);
  store<uint32_t>(state, 28, 0xffff);
}

}  // namespace

TrapThread::TrapThread(std::shared_ptr<Space> space, HostThread* host)
    : space_(std::move(space)), host_(host) {
  if (host_ != nullptr) host_->guest = this;
  trap_space().enter();
}

TrapThread::~TrapThread() {
  platform().forget(*this);
  if (host_ != nullptr) trap_space().leave(*host_);
}

// ---- to and from the guest ----

void TrapThread::be_gone() {
  stop = {};
  stop.kind = StopKind::kGone;
  platform().add_gone(*this);
}

void TrapThread::resume() {
  TrapSpace& space = trap_space();
  if (host_ == nullptr) return be_gone();
  // Flags that a program may have only after a signal's frame had them.
  constexpr uint64_t kPlainFlags = 0xcd5 | 0x202;
  if ((registers.rflags & ~kPlainFlags) != 0 && !make_frame()) return be_gone();
  TrapControl& control = *host_->control;
  control.call_count = control.descriptor_count = 0;
  // In a space of one thread the changes are made on the way; otherwise before any other thread runs.
  if (space.has_changes()) {
    while (space.has_changes()) {
      if (!space.load_batch(*host_)) return be_gone();
      if (!space.has_changes() && space.guest_count() == 1) break;
      if (!platform().order(*host_, kTrapCalls)) return be_gone();
      if (std::atomic_ref(control.result).load() != 0) {
        space.end_process();
        return be_gone();
      }
      control.call_count = control.descriptor_count = 0;
    }
    if (control.call_count != 0) space.note_flight(*host_);
  }
  put_registers(registers, control);
  if (space.tables() != nullptr && !put_machine(control)) return;
  platform().run(*host_);
}

bool TrapThread::take_stop() {
  HostThread& host = *host_;
  TrapControl seen;
  std::memcpy(&seen, host.control, offsetof(TrapControl, calls));
  asm volatile("" : "+m"(seen) : : "memory");  // once: the guest may write the page at any time
  trap_space().end_flight();
  if (!is_stop(seen.signal)) {  // 0: a change of memory was refused
    trap_space().end_process();
    be_gone();
    return false;
  }
  host.by_gate = seen.by_gate != 0 && host.slot == 0 && trap_space().tables() == nullptr;
  take_frame(seen.vector_state);
  take_registers(seen, registers);
  if (const auto site = trap_space().sites().site_of_gate(registers.rip)) registers.rip = *site;
  stop = {};
  if (trap_space().tables() != nullptr) return take_exit(seen);
  if (seen.signal == SIGUSR1) {
    host.is_kicked = false;
    if (!host.is_interrupted) {  // it had already stopped for another reason
      resume();
      return false;
    }
    stop.kind = StopKind::kInterrupted;
  } else if (seen.signal == SIGSYS && seen.architecture == AUDIT_ARCH_X86_64) {
    stop.kind = StopKind::kSystemCall;
    if (!host.by_gate) trap_space().consider_site(host, registers.rip, registers.rax);
  } else {
    take_exception(seen);
  }
  host.is_interrupted = false;
  return true;
}

void TrapThread::take_frame(uint64_t vector_state) {
  const uint64_t stack = stack_of(host_->slot);
  const bool is_inside = vector_state >= stack && vector_state < stack + TRAP_STACK_SIZE;
  host_->vector_state = is_inside && !host_->by_gate ? vector_state : 0;
}

bool TrapThread::make_frame() {
  if (host_ == nullptr) return false;
  if (!host_->by_gate) return true;
  if (!platform().order(*host_, kTrapFrame)) return false;
  host_->by_gate = false;
  take_frame(std::atomic_ref(host_->control->vector_state).load());
  return true;
}

void TrapThread::set_identity(const Identity& identity) {
  if (host_ == nullptr || host_->slot != 0) return;
  const std::array values = {identity.process,        identity.thread, identity.parent,         identity.user,
                             identity.effective_user, identity.group,  identity.effective_group};
  for (size_t i = 0; i < values.size(); ++i)
    std::atomic_ref(host_->control->answers[i]).store(values[i], std::memory_order_relaxed);
  trap_space().note_identity();
}

void TrapThread::take_exception(const TrapControl& seen) {
  constexpr uint32_t kProtection = 13, kPage = 14;
  stop.kind = StopKind::kException;
  stop.signal = seen.signal;
  stop.code = seen.code;
  stop.trap_number = static_cast<int>(seen.trap_number);
  stop.error_code = seen.error_code;
  stop.address = seen.trap_number == kPage ? seen.page_address : seen.fault_address;
  if (seen.signal != SIGSYS) return;
  // A call of a 32-bit program: behaves like a machine that runs none.
  stop.signal = SIGSEGV;
  stop.code = SI_KERNEL;
  stop.trap_number = kProtection;
  stop.error_code = 0x80 * 8 + 2;
  stop.address = 0;
  registers.rip -= 2;
}

void TrapThread::interrupt() {
  if (host_ == nullptr || host_->state != HostThread::State::kRunning) return;
  host_->is_interrupted = true;
  platform().kick(*host_);
}

std::chrono::nanoseconds TrapThread::cpu_time() {
  // A failed read (the process is just ending) changes nothing; and a clock does not go back.
  return cpu_time_ = std::max(cpu_time_, time_of_host());
}

std::chrono::nanoseconds TrapThread::time_of_host() const {
  const pid_t process = trap_space().process();
  if (host_ == nullptr || process <= 0) return {};
  if (trap_space().is_single()) {
    constexpr unsigned kScheduled = 2;  // the process's time, counted by the scheduler
    timespec time = {};
    const auto clock = static_cast<clockid_t>(~static_cast<unsigned>(process) << 3 | kScheduled);
    if (clock_gettime(clock, &time) != 0) return {};
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
  const pid_t number =
      host_->inner_number == 0 ? process : platform().nursery().number_of(host_->inner_number);
  const std::string path =
      "/proc/" + std::to_string(process) + "/task/" + std::to_string(number) + "/schedstat";
  const HostFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  if (!file || read(file.number(), text.data(), text.size() - 1) <= 0) return {};
  return std::chrono::nanoseconds(std::strtoll(text.data(), nullptr, 10));
}

// ---- vector state ----

std::vector<std::byte> TrapThread::vector_state() {
  if (!make_frame() || host_->vector_state == 0) return {};
  if (trap_space().tables() != nullptr && !host_->has_vectors) {
    if (!platform().order(*host_, kTrapSaveVectors)) return {};
    host_->has_vectors = true;
  }
  const uint64_t room = stack_of(host_->slot) + TRAP_STACK_SIZE - host_->vector_state;
  std::vector<std::byte> bytes(std::min<uint64_t>(room, kMostVectorBytes));
  bytes.resize(trap_space().read_stub(host_->vector_state, bytes));
  if (bytes.size() < kLegacyBytes + kHeaderBytes) return {};
  const auto software = load<SoftwareBytes>(bytes, kSoftwareAt);
  if (software.magic != kFirstMagic || software.extended_size > bytes.size() ||
      software.size > software.extended_size || software.size < kLegacyBytes + kHeaderBytes)
    return {};
  bytes.resize(software.extended_size);
  return bytes;
}

Done TrapThread::set_vector_state(std::span<const std::byte> state) {
  if (!state.empty() && state.size() < kLegacyBytes) return err(EINVAL);
  std::vector<std::byte> bytes = vector_state();
  if (bytes.empty()) return err(EFAULT);
  const auto software = load<SoftwareBytes>(bytes, kSoftwareAt);
  const auto area = std::span(bytes).first(software.size);
  const uint32_t mask = load<uint32_t>(area, 28) != 0 ? load<uint32_t>(area, 28) : 0xffbf;
  make_initial(area);
  store<uint32_t>(area, 28, mask);
  if (!state.empty()) {
    std::ranges::copy(state.first(kSoftwareAt - 48),
                      area.begin());  // the rest is not the processor's
    store<uint32_t>(area, 24, load<uint32_t>(state, 24) & mask);
    store<uint32_t>(area, 28, mask);
    const auto theirs = load<SoftwareBytes>(state, kSoftwareAt);
    const bool is_whole =
        theirs.magic == kFirstMagic && theirs.size >= software.size && state.size() >= software.size;
    if (is_whole)
      std::ranges::copy(state.subspan(kLegacyBytes, software.size - kLegacyBytes),
                        area.begin() + kLegacyBytes);
    // In the header, the guest may only choose which parts are present.
    const uint64_t parts =
        is_whole ? load<uint64_t>(state, kLegacyBytes) & software.features & theirs.features : 3;
    std::ranges::fill(area.subspan(kLegacyBytes, kHeaderBytes), std::byte{});
    store<uint64_t>(area, kLegacyBytes, parts);
  }
  if (!trap_space().write_stub(host_->vector_state, area)) return err(EFAULT);
  host_->control->loads_vectors = 1;
  return {};
}

// ---- copies ----

std::unique_ptr<TrapThread> TrapThread::copy_into(const std::shared_ptr<Space>& space,
                                                  HostThread& host) const {
  TrapControl& control = *host.control;
  control.index = host.index;
  control.spins = host_->control->spins;
  const uint64_t distance = stack_of(host.slot) - stack_of(host_->slot);
  host.by_gate = host_->by_gate;
  host.has_any_core = host_->has_any_core;
  host.vector_state = host_->vector_state == 0 ? 0 : host_->vector_state + distance;
  std::ranges::copy(host_->control->answers, control.answers);
  host.has_vectors = true;
  auto thread = std::make_unique<TrapThread>(space, &host);
  thread->registers = registers;
  thread->stop = stop;
  return thread;
}

Try<std::unique_ptr<Thread>> TrapThread::clone_thread() {
  TrapSpace& space = trap_space();
  if (host_ == nullptr || !space.flush(*host_) || !make_frame()) return err(EAGAIN);
  space.restore_sites();
  const int slot = space.free_slot();
  HostThread* const host = slot < 0 ? nullptr : space.add_thread(static_cast<uint32_t>(slot), nullptr);
  if (host == nullptr) return err(EAGAIN);
  *host->control = {};
  host->control->thread = 1;
  std::unique_ptr<TrapThread> thread = copy_into(space_, *host);
  TrapControl& control = *host_->control;
  control.new_slot = host->slot;
  if (!platform().order_new(*host_, kTrapThread)) return err(EAGAIN);
  const int64_t result = std::atomic_ref(control.result).load();
  if (result > 0) {
    host->inner_number = static_cast<pid_t>(result);
    return thread;
  }
  // It was not created, so it cannot be told to end.
  std::atomic_ref(host->control->thread).store(0);
  thread->lose_host();
  space.forget_guest();
  space.remove_thread(*host);
  return err(EAGAIN);
}

Try<std::unique_ptr<Thread>> TrapThread::fork() {
  TrapSpace& space = trap_space();
  if (host_ == nullptr || !space.flush(*host_)) return err(EAGAIN);
  auto child = std::make_shared<TrapSpace>(platform());
  if (!child->prepare(space.tables())) return err(ENOMEM);
  HostThread* const host = child->add_thread(host_->slot, nullptr);
  if (host == nullptr) return err(EAGAIN);
  std::unique_ptr<TrapThread> thread = copy_into(child, *host);
  host->control->thread = 1;
  const GuestTables* const tables = child->tables();
  const std::array<int, 3> descriptors = {child->controls_file(), child->their_socket(),
                                          tables == nullptr ? -1 : tables->file()};
  if (!space.send(std::span(descriptors).first(tables == nullptr ? 2 : 3))) return err(EAGAIN);
  if (!platform().order_new(*host_, kTrapFork)) return err(EAGAIN);
  const int64_t result = std::atomic_ref(host_->control->result).load();
  const pid_t process =
      result > 0 && result < 1 << 30 ? platform().nursery().number_of(static_cast<pid_t>(result)) : 0;
  // The stub's answer is foreign: the process must be a child of ours, and in no other space.
  if (!platform().is_new_stub(process)) {
    thread->lose_host();
    child->remove_thread(*host);
    return err(result == -ENOMEM ? ENOMEM : EAGAIN);
  }
  child->begin(process);
  child->copy_sites(space);
  return thread;
}

}  // namespace membrane::linux
