#include <fcntl.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>

#include "linux/platform/trap/own_pages.h"
#include "linux/platform/trap/process_memory.h"
#include "linux/platform/trap/trap_platform.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kControlBytes = kTrapSlots * TRAP_PAGE;
constexpr std::chrono::seconds kPatience{2};  // for a stub to change its memory

// The same file, opened read-only.
HostFile reading_only(int fd) {
  return HostFile(open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC));
}
bool is_open_for_writing(int fd) { return (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY; }

}  // namespace

TrapSpace::~TrapSpace() {
  end_process();
  for (const std::unique_ptr<HostThread>& thread : threads_) platform_.strike(*thread);
  if (controls_ != nullptr) munmap(controls_, kControlBytes);
}

// ---- its process ----

bool TrapSpace::prepare(const GuestTables* parent) {
  if (platform_.is_kvm()) {
    tables_ = parent == nullptr ? GuestTables::make() : parent->copy();
    if (tables_ == nullptr) return false;
  }
  controls_file_ = make_memory("membrane-control", kControlBytes);
  if (!controls_file_ || !make_socket_pair(socket_, their_socket_)) return false;
  void* const pages =
      mmap(nullptr, kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, controls_file_.number(), 0);
  if (pages == MAP_FAILED) return false;
  controls_ = static_cast<TrapControl*>(pages);
  return true;
}

void TrapSpace::begin(pid_t process) {
  process_ = process;
  platform_.note_process(process, *this);
  controls_file_.close();
  their_socket_.close();
  if (tables_ == nullptr) return;
  tables_->close_file();
  for (const GuestTables::Slot& slot : tables_->slots()) add_slot(slot);
}

void TrapSpace::empty() {
  constexpr uint64_t kEnd = TRAP_STACKS + kTrapSlots * TRAP_STACK_SIZE;
  if (tables_ != nullptr) {
    constexpr uint64_t kMachineEnd = KVM_RUNS + kTrapSlots * KVM_RUN_BYTES;
    change({SYS_munmap, {kEnd, KVM_MACHINE - kEnd}});
    change({SYS_munmap, {kMachineEnd, TRAP_TOP - kMachineEnd}});
    return clear();
  }
  const HostClock& clock = platform_.clock();
  const uint64_t begin = clock.clock_gettime != 0 ? clock.begin : TRAP_TOP;
  change({SYS_munmap, {kEnd, begin - kEnd}});
  if (begin != TRAP_TOP && clock.end < TRAP_TOP) change({SYS_munmap, {clock.end, TRAP_TOP - clock.end}});
  clear();
}

void TrapSpace::end_process() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  lose();
}

void TrapSpace::lose() {
  if (process_ <= 0) return;
  platform_.forget_process(process_);
  process_ = -1;
  flight_ = nullptr;
  changes_.clear();
  socket_.close();
  memory_file_.close();
  pages_file_.close();
  for (const std::unique_ptr<HostThread>& thread : threads_) {
    const bool was_running = thread->state == HostThread::State::kRunning;
    platform_.strike(*thread);
    if (thread->guest == nullptr) continue;
    thread->guest->lose_host();
    if (was_running) thread->guest->be_gone();
  }
  threads_.clear();
}

HostThread* TrapSpace::add_thread(uint32_t slot, TrapThread* guest) {
  auto thread = std::make_unique<HostThread>();
  thread->space = this;
  thread->slot = slot;
  thread->guest = guest;
  thread->control =
      reinterpret_cast<TrapControl*>(reinterpret_cast<std::byte*>(controls_) + slot * TRAP_PAGE);
  if (!platform_.enroll(*thread)) return nullptr;
  threads_.push_back(std::move(thread));
  had_more_threads_ |= threads_.size() > 1;
  return threads_.back().get();
}

int TrapSpace::free_slot() const {
  std::array<bool, kTrapSlots> is_used = {};
  for (const std::unique_ptr<HostThread>& thread : threads_) is_used[thread->slot] = true;
  for (int slot = 0; slot < kTrapSlots; ++slot) {
    auto* const control =
        reinterpret_cast<TrapControl*>(reinterpret_cast<std::byte*>(controls_) + slot * TRAP_PAGE);
    if (!is_used[slot] && std::atomic_ref(control->thread).load() == 0) return slot;
  }
  return -1;
}

void TrapSpace::remove_thread(HostThread& thread) {
  if (flight_ == &thread) flight_ = nullptr;
  platform_.strike(thread);
  std::erase_if(threads_, [&](const std::unique_ptr<HostThread>& each) { return each.get() == &thread; });
}

void TrapSpace::leave(HostThread& thread) {
  thread.guest = nullptr;
  if (--guests_ == 0) return end_process();
  if (thread.state == HostThread::State::kRunning) return platform_.kick(thread);
  platform_.end(thread);
}

// ---- changes ----

bool TrapSpace::is_within(uint64_t address, uint64_t length) {
  return address >= TRAP_LOWEST && address <= TRAP_STUB && length <= TRAP_STUB - address;
}

void TrapSpace::change(const MemoryChange& change) {
  if (is_lost()) return;
  changes_.push_back(change);
  changed_from_ = std::min(changed_from_, change.arguments[0]);
  changed_to_ = std::max(changed_to_, change.arguments[0] + change.arguments[1]);
  // A program that keeps mapping is not made to wait for more.
  if (changes_.size() >= 1024) flush();
}

// In a machine, guest code need not be executable to the monitor, only readable.
int TrapSpace::host_protection(int protection) const {
  if (tables_ == nullptr || (protection & PROT_EXEC) == 0) return protection;
  return (protection & ~PROT_EXEC) | PROT_READ;
}

void TrapSpace::add_slot(const GuestTables::Slot& slot) {
  if (is_lost()) return;
  changes_.push_back(
      {.number = SYS_ioctl, .arguments = {slot.number, slot.physical, slot.length, slot.address}});
}

bool TrapSpace::renew_tables(HostThread& thread) {
  for (size_t i = 0; i < threads_.size(); ++i)
    if (threads_[i]->state == HostThread::State::kRunning && !platform_.hold(*threads_[i])) return false;
  // Removing a slot makes the machine forget its shadows of the page tables.
  constexpr uint32_t kForgetting = 32000;
  add_slot({kForgetting, KVM_HOLE + KVM_SYSTEM_DIRECTORY, TRAP_PAGE, KVM_MACHINE});
  add_slot({kForgetting, KVM_HOLE + KVM_SYSTEM_DIRECTORY, 0, KVM_MACHINE});
  if (!flush(thread)) return false;
  tables_->renew();
  return true;
}

void TrapSpace::map(uint64_t address, uint64_t length, int protection, const Backing& backing) {
  if (!is_within(address, length)) return end_process();
  if (tables_ != nullptr) tables_->map(address, length, protection);
  protection = host_protection(protection);
  const uint64_t kind = backing.is_shared ? MAP_SHARED : MAP_PRIVATE;
  const uint64_t source = backing.fd < 0 ? MAP_ANONYMOUS : 0;
  const uint64_t reserve = backing.is_shared ? 0 : MAP_NORESERVE;
  restore_sites(address, length);
  if (tables_ == nullptr && backing.fd >= 0 && !backing.is_shared && protection == (PROT_READ | PROT_EXEC))
    sites_.add_code(address, length);
  change({.number = SYS_mmap,
          .arguments = {address, length, static_cast<uint64_t>(protection),
                        kind | source | reserve | MAP_FIXED, ~uint64_t{0}, backing.offset},
          .fd = backing.fd,
          .is_read_only = backing.fd >= 0 && !(backing.is_shared && backing.may_write)});
}

void TrapSpace::unmap(uint64_t address, uint64_t length) {
  if (!is_within(address, length)) return end_process();
  restore_sites(address, length);
  if (tables_ != nullptr) tables_->unmap(address, length);
  change({SYS_munmap, {address, length}});
}

void TrapSpace::protect(uint64_t address, uint64_t length, int protection) {
  if (!is_within(address, length)) return end_process();
  restore_sites(address, length);
  if (tables_ != nullptr) tables_->protect(address, length, protection);
  change({SYS_mprotect, {address, length, static_cast<uint64_t>(host_protection(protection))}});
}

void TrapSpace::move(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length) {
  if (!is_within(from, length) || !is_within(to, new_length)) return end_process();
  restore_sites(from, length);
  restore_sites(to, new_length);
  if (tables_ != nullptr) tables_->move(from, length, to, new_length);
  if (from == to) change({SYS_mremap, {from, length, new_length, 0, 0}});
  else change({SYS_mremap, {from, length, new_length, MREMAP_MAYMOVE | MREMAP_FIXED, to}});
  changed_from_ = std::min(changed_from_, to);
  changed_to_ = std::max(changed_to_, to + new_length);
}

void TrapSpace::discard(uint64_t address, uint64_t length) {
  if (!is_within(address, length)) return end_process();
  restore_sites(address, length);
  change({.number = SYS_madvise, .arguments = {address, length, MADV_DONTNEED}, .may_fail = true});
}

void TrapSpace::clear() {
  sites_.clear();
  unmap(TRAP_LOWEST, TRAP_STUB - TRAP_LOWEST);
}

bool TrapSpace::send(std::span<const int> descriptors) {
  int queued = 0;
  const std::byte word{};
  return ioctl(socket_.number(), SIOCOUTQ, &queued) == 0 && queued == 0 &&
         send_message(socket_.number(), std::span(&word, 1), descriptors);
}

namespace {

// The descriptors of a batch.
class Sending {
 public:
  // The index of the change's descriptor; -1: no more fit, or it cannot be duplicated (is_wrong).
  int add(const MemoryChange& change) {
    const auto same = [&](const Sent& sent) {
      return sent.fd == change.fd && sent.is_read_only == change.is_read_only;
    };
    const auto found = std::ranges::find_if(sent_, same);
    if (found != sent_.end()) return static_cast<int>(found - sent_.begin());
    if (sent_.size() == kTrapDescriptors) return -1;
    int number = change.fd;
    if (change.is_read_only && is_open_for_writing(number)) {
      copies_.push_back(reading_only(number));
      number = copies_.back().number();
      is_wrong = number < 0;
      if (is_wrong) return -1;
    }
    sent_.push_back({change.fd, change.is_read_only});
    numbers.push_back(number);
    return static_cast<int>(numbers.size()) - 1;
  }
  std::vector<int> numbers;
  bool is_wrong = false;

 private:
  struct Sent {
    int fd;
    bool is_read_only;
  };
  std::vector<Sent> sent_;
  std::vector<HostFile> copies_;
};

}  // namespace

bool TrapSpace::load_batch(HostThread& thread) {
  TrapControl& control = *thread.control;
  Sending sending;
  uint32_t count = 0;
  for (; count < kTrapBatch && count < changes_.size(); ++count) {
    const MemoryChange& change = changes_[count];
    int number = -1;
    if (change.fd >= 0 && (number = sending.add(change)) < 0) break;
    TrapCall& call = control.calls[count];
    call.number = change.number;
    call.descriptor = static_cast<int16_t>(number);
    call.may_fail = change.may_fail;
    std::ranges::copy(change.arguments, call.arguments);
  }
  control.call_count = count;
  control.descriptor_count = static_cast<uint32_t>(sending.numbers.size());
  changes_.erase(changes_.begin(), changes_.begin() + count);
  if (changes_.empty()) changed_from_ = ~uint64_t{0}, changed_to_ = 0;
  if (!sending.is_wrong && (sending.numbers.empty() || send(sending.numbers))) return true;
  end_process();
  return false;
}

bool TrapSpace::flush(HostThread& thread) {
  while (!changes_.empty()) {
    if (!load_batch(thread) || !platform_.order(thread, kTrapCalls)) return false;
    if (std::atomic_ref(thread.control->result).load() != 0) {
      end_process();
      return false;
    }
  }
  return !is_lost();
}

bool TrapSpace::flush() {
  if (is_lost()) return false;
  if (changes_.empty()) return true;
  for (const std::unique_ptr<HostThread>& thread : threads_)
    if (thread->state != HostThread::State::kRunning) return flush(*thread);
  return true;  // made when the next thread is resumed
}

void TrapSpace::note_flight(HostThread& thread) {
  flight_ = &thread;
  flight_batch_ = std::atomic_ref(thread.control->batches).load() + 1;
}

bool TrapSpace::await_flight() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (flight_ != nullptr) {
    TrapControl& control = *flight_->control;
    if (std::atomic_ref(control.batches).load() == flight_batch_ ||
        std::atomic_ref(control.state).load() == kTrapStopped)
      flight_ = nullptr;
    else if (std::chrono::steady_clock::now() > deadline) end_process();
    else sched_yield();
    platform_.reap();
  }
  return !is_lost();
}

// ---- bytes ----

size_t TrapSpace::settle(uint64_t address, size_t length) {
  if (is_lost() || address < TRAP_LOWEST || address >= TRAP_STUB) return 0;
  const uint64_t most = std::min<uint64_t>(length, TRAP_STUB - address);
  if (flight_ != nullptr && !await_flight()) return 0;
  if (!changes_.empty() && address < changed_to_ && address + most > changed_from_ && !flush()) return 0;
  return most;
}

size_t TrapSpace::read(uint64_t address, std::span<std::byte> bytes) {
  const size_t count = read_stub(address, bytes.first(settle(address, bytes.size())));
  sites_.restore(address, bytes.first(count));
  return count;
}

size_t TrapSpace::read_stub(uint64_t address, std::span<std::byte> bytes) const {
  size_t done = 0;
  while (done < bytes.size() && process_ > 0) {
    const iovec ours = {bytes.data() + done, bytes.size() - done};
    const iovec theirs = {reinterpret_cast<void*>(address + done), ours.iov_len};
    const ssize_t count = process_vm_readv(process_, &ours, 1, &theirs, 1, 0);
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

size_t TrapSpace::write(uint64_t address, std::span<const std::byte> bytes) {
  const size_t length = settle(address, bytes.size());
  restore_sites(address, length);
  size_t done = 0;
  while (done < length && process_ > 0) {
    const iovec ours = {const_cast<std::byte*>(bytes.data()) + done, length - done};
    const iovec theirs = {reinterpret_cast<void*>(address + done), ours.iov_len};
    const ssize_t count = process_vm_writev(process_, &ours, 1, &theirs, 1, 0);
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

bool TrapSpace::write_stub(uint64_t address, std::span<const std::byte> bytes) const {
  const iovec ours = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  const iovec theirs = {reinterpret_cast<void*>(address), bytes.size()};
  return process_ > 0 &&
         process_vm_writev(process_, &ours, 1, &theirs, 1, 0) == static_cast<ssize_t>(bytes.size());
}

size_t TrapSpace::poke(uint64_t address, std::span<const std::byte> bytes) {
  const size_t length = settle(address, bytes.size());
  restore_sites(address, length);
  return write_any(address, bytes.first(length));
}

bool TrapSpace::open_memory() {
  if (!memory_file_ && !is_lost())
    memory_file_ = HostFile(open(("/proc/" + std::to_string(process_) + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  return static_cast<bool>(memory_file_);
}

size_t TrapSpace::write_any(uint64_t address, std::span<const std::byte> bytes) {
  if (bytes.empty() || !open_memory()) return 0;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = pwrite(memory_file_.number(), bytes.data() + done, bytes.size() - done,
                                 static_cast<off_t>(address + done));
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

// process_vm_readv() honours the guest's protections and is faster.
size_t TrapSpace::peek(uint64_t address, std::span<std::byte> bytes) {
  bytes = bytes.first(settle(address, bytes.size()));
  size_t done = read_stub(address, bytes);
  while (done < bytes.size() && open_memory()) {
    const ssize_t count = pread(memory_file_.number(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(address + done));
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  sites_.restore(address, bytes.first(done));
  return done;
}

std::vector<PageRun> TrapSpace::own_pages(uint64_t address, uint64_t length) {
  if (!is_within(address, length) || settle(address, length) != length) return {};
  if (!pages_file_)
    pages_file_ =
        HostFile(open(("/proc/" + std::to_string(process_) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  if (!pages_file_) return {{address, length}};
  if (auto runs = scan_own_pages(pages_file_.number(), address, length)) return *std::move(runs);
  return read_own_pages(pages_file_.number(), address, length);
}

// ---- call sites ----

void TrapSpace::put_back(const std::vector<std::pair<uint64_t, CallSites::Original>>& sites) {
  for (const auto& [site, original] : sites) write_any(site, original);
}

void TrapSpace::consider_site(const HostThread& thread, uint64_t next, uint64_t number) {
  const uint64_t site = next - CallSites::kBytes;
  if (thread.slot != 0 || guests_ != 1 || threads_.size() != 1 || !changes_.empty() || !sites_.count(site))
    return;
  std::array<std::byte, 3 + CallSites::kBytes> code;
  if (read_stub(site - 3, code) != code.size()) return;
  const auto before = std::span(code).first<3>();
  const auto found = std::span(code).last<CallSites::kBytes>();
  if (!CallSites::is_site(before, found, number)) return;
  CallSites::Original original;
  std::ranges::copy(found.first<CallSites::kPatched>(), original.begin());
  const auto gate = sites_.add(site, original);
  if (!gate) return;
  const auto jump = jump_to_gate(site, *gate);
  const int answer = has_identity_ ? answer_of(number) : -1;
  const auto its_code = gate_code(*gate, site, static_cast<uint32_t>(number), answer, platform_.gate_entry());
  if (!jump || write_any(TRAP_GATES + uint64_t{*gate} * kTrapGateBytes, its_code) != its_code.size()) {
    sites_.remove(site, 1);
    return;
  }
  write_any(site, *jump);
}

uint64_t TrapSpace::resident_bytes() { return is_lost() ? 0 : proportional_bytes(process_).value_or(0); }

SpaceBytes TrapSpace::most_bytes() {
  const auto memory = is_lost() ? std::nullopt : process_memory(process_);
  if (!memory) return {};
  // On `kvm` the machine has its own tables for the same pages, and the host has shadows of those.
  const uint64_t tables = memory->table_bytes * (tables_ == nullptr ? 1 : 3);
  return {.resident = memory->anonymous_bytes, .tables = tables};
}

}  // namespace membrane::linux
