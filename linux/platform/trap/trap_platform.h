// The parts of the platform `trap` (trap.h): the platform's loop, spaces, threads. Only for files of this
// directory.
//
//   TrapPlatform ─* HostThread    by index; those that run are in a list
//   TrapSpace    ─* HostThread    by slot: a thread of a stub, its control page and its trap stack
//   TrapThread   ─1 HostThread    what the kernel has; a HostThread may outlive it, parked or until it stops
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "linux/platform/kvm/tables.h"
#include "linux/platform/trap/bell.h"
#include "linux/platform/trap/call_sites.h"
#include "linux/platform/trap/host_clock.h"
#include "linux/platform/trap/nursery.h"
#include "linux/platform/trap/trap.h"

namespace membrane::linux {

class TrapPlatform;
class TrapSpace;
class TrapThread;

struct HostThread {
  enum class State : uint8_t { kStopped, kRunning, kParked };

  TrapSpace* space = nullptr;
  TrapControl* control = nullptr;  // foreign data: the guest can write it
  TrapThread* guest = nullptr;     // nullptr: to be ended or parked once it stops
  uint32_t slot = 0, index = 0;
  pid_t inner_number = 0;  // its id in the stubs' namespace; 0: the process's first thread
  State state = State::kStopped;
  size_t running_at = 0;                 // index in the list of running threads
  bool is_kicked = false;                // a signal is on its way
  bool is_interrupted = false;           // not yet reported to the kernel
  uint32_t stops = 0, stops_before = 0;  // total; at the last check
  bool has_any_core = false;             // not bound to the shared core
  bool by_gate = false;                  // came through a gate and has no frame
  uint64_t vector_state = 0;  // its address in the frame, as reported by the stub; 0: not in its stack
  bool has_vectors = false;   // for a monitor: the saved state is, or will be, the processor's
};

// A pending change of memory.
struct MemoryChange {
  uint32_t number = 0;  // of the host's call
  std::array<uint64_t, 6> arguments = {};
  int fd = -1;
  bool is_read_only = false;  // the stub gets a read-only descriptor
  bool may_fail = false;
};

class TrapSpace final : public Space {
 public:
  explicit TrapSpace(TrapPlatform& platform) : platform_(platform) {}
  ~TrapSpace() override;
  TrapSpace(const TrapSpace&) = delete;

  void map(uint64_t address, uint64_t length, int protection, const Backing& backing) override;
  void unmap(uint64_t address, uint64_t length) override;
  void protect(uint64_t address, uint64_t length, int protection) override;
  void move(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length) override;
  void discard(uint64_t address, uint64_t length) override;
  void clear() override;
  size_t read(uint64_t address, std::span<std::byte> bytes) override;
  size_t write(uint64_t address, std::span<const std::byte> bytes) override;
  size_t poke(uint64_t address, std::span<const std::byte> bytes) override;
  uint64_t resident_bytes() override;
  std::vector<PageRun> own_pages(uint64_t address, uint64_t length) override;
  size_t peek(uint64_t address, std::span<std::byte> bytes) override;
  SpaceBytes most_bytes() override;

  // Sends a message with descriptors to the stub. False: the stub has not taken the previous message, as it
  // must have.
  bool send(std::span<const int> descriptors);

  // The files of a process to be created: control pages, and the other end of its socket. On `kvm` also a
  // machine's memory, of a fork with the parent's protections.
  bool prepare(const GuestTables* parent = nullptr);
  [[nodiscard]] int controls_file() const { return controls_file_.number(); }
  [[nodiscard]] int their_socket() const { return their_socket_.number(); }
  // The process was created.
  void begin(pid_t process);
  // Unmaps what the nursery left in it, except the host's clock.
  void empty();

  // Adds a thread in the slot; nullptr: there are too many.
  HostThread* add_thread(uint32_t slot, TrapThread* guest);
  // A slot that no host thread uses; -1: there is none.
  int free_slot() const;
  void remove_thread(HostThread& thread);
  // Counts a guest thread that begins or ends; with the last one, the process ends.
  void enter() { ++guests_; }
  void forget_guest() { --guests_; }
  void leave(HostThread& thread);
  // Whether it has never had another thread, so that its time is that of the process.
  [[nodiscard]] bool is_single() const { return !had_more_threads_; }

  // On `kvm`: the machine's page tables; else nullptr.
  [[nodiscard]] GuestTables* tables() const { return tables_.get(); }
  // Adds this memory slot to the machine, in order with other changes.
  void add_slot(const GuestTables::Slot& slot);
  // Reuses the page tables' room, while the thread and all others are stopped. False: the space is lost.
  bool renew_tables(HostThread& thread);

  // Makes all changes on this stopped thread (or any). False: the space is lost.
  bool flush(HostThread& thread);
  bool flush();
  // Puts as many changes as fit into the thread's control page and sends their descriptors.
  bool load_batch(HostThread& thread);
  [[nodiscard]] bool has_changes() const { return !changes_.empty(); }
  // The thread was resumed with a batch.
  void note_flight(HostThread& thread);
  void end_flight() { flight_ = nullptr; }
  [[nodiscard]] size_t guest_count() const { return guests_; }

  // -- call sites (call_sites.h)
  // The only thread has made a call by a signal, and is stopped.
  void consider_site(const HostThread& thread, uint64_t next, uint64_t number);
  // Restores all sites: another thread is about to be created.
  void restore_sites() { put_back(sites_.remove_patches()); }
  [[nodiscard]] const CallSites& sites() const { return sites_; }
  void copy_sites(const TrapSpace& parent) {
    sites_ = parent.sites_;
    has_identity_ = parent.has_identity_;
  }
  void note_identity() { has_identity_ = true; }

  // Vector states, in the stub's own memory.
  size_t read_stub(uint64_t address, std::span<std::byte> bytes) const;
  bool write_stub(uint64_t address, std::span<const std::byte> bytes) const;

  // Its process has ended or is being ended: all its threads are gone.
  void lose();
  void end_process();
  [[nodiscard]] bool is_lost() const { return process_ <= 0; }
  [[nodiscard]] pid_t process() const { return process_; }
  [[nodiscard]] int socket() const { return socket_.number(); }
  [[nodiscard]] TrapPlatform& platform() const { return platform_; }

 private:
  void change(const MemoryChange& change);
  [[nodiscard]] int host_protection(int protection) const;
  [[nodiscard]] static bool is_within(uint64_t address, uint64_t length);
  // Before the caller accesses bytes there: makes the pending changes. Returns how many of the bytes a guest
  // may address.
  size_t settle(uint64_t address, size_t length);
  bool await_flight();
  void restore_sites(uint64_t address, uint64_t length) { put_back(sites_.remove(address, length)); }
  void put_back(const std::vector<std::pair<uint64_t, CallSites::Original>>& sites);
  // Ignores protection; includes the stub's own memory.
  size_t write_any(uint64_t address, std::span<const std::byte> bytes);
  bool open_memory();

  TrapPlatform& platform_;
  pid_t process_ = -1;
  HostFile controls_file_, socket_, their_socket_, memory_file_, pages_file_;
  TrapControl* controls_ = nullptr;
  std::unique_ptr<GuestTables> tables_;
  std::vector<std::unique_ptr<HostThread>> threads_;
  size_t guests_ = 0;
  bool had_more_threads_ = false;
  std::vector<MemoryChange> changes_;
  uint64_t changed_from_ = ~uint64_t{0}, changed_to_ = 0;
  CallSites sites_;
  bool has_identity_ = false;     // it is in the control page
  HostThread* flight_ = nullptr;  // running, with changes to make first
  uint32_t flight_batch_ = 0;
};

class TrapThread final : public Thread {
 public:
  TrapThread(std::shared_ptr<Space> space, HostThread* host);
  ~TrapThread() override;

  [[nodiscard]] const std::shared_ptr<Space>& space() const override { return space_; }
  void resume() override;
  void interrupt() override;
  void set_identity(const Identity& identity) override;
  std::chrono::nanoseconds cpu_time() override;
  std::vector<std::byte> vector_state() override;
  Done set_vector_state(std::span<const std::byte> state) override;
  Try<std::unique_ptr<Thread>> clone_thread() override;
  Try<std::unique_ptr<Thread>> fork() override;

  // It has stopped: reads its control page. False: the kernel need not know; it runs again.
  bool take_stop();
  void be_gone();
  void lose_host() { host_ = nullptr; }
  [[nodiscard]] HostThread* host() const { return host_; }

 private:
  [[nodiscard]] TrapSpace& trap_space() const { return static_cast<TrapSpace&>(*space_); }
  [[nodiscard]] TrapPlatform& platform() const { return trap_space().platform(); }
  void take_exception(const TrapControl& seen);
  // Gives it a frame if it came through a gate. False: it is lost.
  bool make_frame();
  void take_frame(uint64_t vector_state);
  // For kvm (linux/platform/kvm/thread.cc): before the guest enters the machine; and after it left it, like
  // take_stop().
  bool put_machine(TrapControl& control);
  bool take_exit(const TrapControl& seen);
  bool take_gate(uint64_t vector, const TrapControl& seen);
  bool take_page_fault(uint64_t address, uint64_t error_code);
  bool take_refusal();
  bool fill_page(uint64_t address);
  bool take_refused_code(uint64_t rip);
  bool be_lost();
  bool raise(int signal, int code, int trap_number, uint64_t address);
  int float_code(int trap_number);
  [[nodiscard]] std::chrono::nanoseconds time_of_host() const;
  std::unique_ptr<TrapThread> copy_into(const std::shared_ptr<Space>& space, HostThread& host) const;

  std::shared_ptr<Space> space_;
  HostThread* host_;  // nullptr once its process has ended
  // For kvm. The host refuses an access without saying which page: then the instruction runs again with
  // tables that are filled one page at a time, until the last page filled is at fault.
  bool fills_alone_ = false;
  int alone_fills_ = 0, refusals_ = 0, repeats_ = 0;
  uint64_t last_filled_ = 0, last_error_ = 0;
  std::optional<uint64_t> odd_rip_;  // a resume address that the processor would reject
  std::chrono::nanoseconds cpu_time_{0};
};

class TrapPlatform final : public Platform {
 public:
  // With /dev/kvm it is the platform `kvm` (linux/platform/kvm/kvm.h).
  static Result<std::unique_ptr<Platform>> start(const TrapOptions& options, HostFile device = {});
  ~TrapPlatform() override;

  [[nodiscard]] std::string_view name() const override { return is_kvm() ? "kvm" : "trap"; }
  [[nodiscard]] uint64_t lowest() const override { return TRAP_LOWEST; }
  [[nodiscard]] uint64_t highest() const override { return TRAP_STUB; }
  [[nodiscard]] uint64_t clock_function() const override { return clock_.clock_gettime; }
  [[nodiscard]] const HostClock& clock() const { return clock_; }
  // Where gates lead to, in all stubs.
  [[nodiscard]] uint64_t gate_entry() const { return nursery_->gate_entry(); }
  Try<std::unique_ptr<Thread>> start() override;
  Thread* wait(std::optional<std::chrono::steady_clock::time_point> deadline) override;
  void wake() override { bell_.wake(); }

  [[nodiscard]] bool is_kvm() const { return static_cast<bool>(device_); }
  [[nodiscard]] const TrapOptions& options() const { return options_; }
  [[nodiscard]] Nursery& nursery() { return *nursery_; }
  [[nodiscard]] const std::vector<MissingWall>& missing() const { return nursery_->missing(); }

  // The thread's control page is complete: it runs.
  void run(HostThread& thread);
  // Gives an order other than to run and waits for it. False: the space is lost.
  bool order(HostThread& thread, uint32_t order);
  // Like order(), for an order that creates a thread or process: at no other time may a stub create any.
  bool order_new(HostThread& thread, uint32_t order);
  // An order to end.
  void end(HostThread& thread);
  void kick(HostThread& thread);
  // Makes a running thread stop; wait() reports that as usual. False: the space is lost.
  bool hold(HostThread& thread);

  // Assigns indexes to threads.
  bool enroll(HostThread& thread);
  void strike(HostThread& thread);
  void note_process(pid_t process, TrapSpace& space);
  void forget_process(pid_t process);
  void add_gone(TrapThread& thread) { gone_.push_back(&thread); }
  void forget(TrapThread& thread) { std::erase(gone_, &thread); }
  // Whether a process that a stub reports is one of the stubs, and not yet known.
  [[nodiscard]] bool is_new_stub(pid_t process);
  // Reaps processes that have ended.
  void reap();

 private:
  struct Prepared {
    std::shared_ptr<TrapSpace> space;
    HostThread* thread = nullptr;
    pid_t process = 0;  // 0: not yet requested; -1: it could not be created, or has ended
  };

  TrapPlatform(const TrapOptions& options, HostFile device) : options_(options), device_(std::move(device)) {}
  void pin();
  bool prepare();
  // Receives the process ids of everything that was prepared.
  void collect();
  void give(HostThread& thread, uint32_t order);
  bool await_stop(HostThread& thread);
  void stop_running(HostThread& thread);
  Thread* next_gone();
  Thread* next_stopped();
  Thread* take(HostThread& thread);
  void sleep(uint32_t rings, std::optional<std::chrono::steady_clock::time_point> deadline);
  // Finds threads that stopped without a hint, processes that have ended, and processes that must not exist.
  void look_around();
  // When more than one thread computes, lets these run on any core; threads that call often share this
  // thread's.
  void spread();
  bool bind(HostThread& thread, bool to_any_core);
  // Ends processes that a guest has created by itself.
  void sweep();

  TrapOptions options_;
  HostFile device_;
  Bell bell_;
  std::unique_ptr<Nursery> nursery_;
  HostClock clock_;                   // mapped in all stubs; empty if guests may not read the host's time
  std::vector<HostThread*> threads_;  // by index
  std::vector<uint32_t> free_indexes_;
  std::vector<HostThread*> running_;
  std::deque<HostThread*> found_;  // stopped without a hint
  std::deque<TrapThread*> gone_;
  std::unordered_map<pid_t, TrapSpace*> processes_;
  std::chrono::steady_clock::time_point next_look_, next_sweep_;
  bool wants_sweep_ = false;  // a guest has run since the last sweep
  size_t ending_ = 0;         // killed processes that are not yet reaped
  std::deque<Prepared> prepared_;
  std::vector<char> old_cores_;  // this thread's original affinity
  int core_ = -1;                // the shared core; -1: none
};

}  // namespace membrane::linux
