// The parts of the platform `trap` (trap.h): the platform's loop, spaces, threads. For the files of this folder.
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

#include "linux/platform/trap/bell.h"
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
  TrapControl* control = nullptr;  // foreign: the guest can write it
  TrapThread* guest = nullptr;     // nullptr: it shall end, or be parked, once it stops
  uint32_t slot = 0, index = 0;
  pid_t inner_number = 0;  // as the stubs call it; 0: it is the process's first
  State state = State::kStopped;
  size_t running_at = 0;        // in the list of those that run
  bool is_kicked = false;       // a signal is on its way
  bool is_interrupted = false;  // and the kernel has not been told yet
  uint64_t vector_state = 0;    // where the frame has it, as far as the stub says; 0: not in its stack
};

// A change of memory that is to be made.
struct MemoryChange {
  uint32_t number = 0;  // of the host's call
  std::array<uint64_t, 6> arguments = {};
  int fd = -1;
  bool is_read_only = false;  // the stub gets a descriptor that is open for reading only
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

  // A message with descriptors for the stub. False: the stub has not taken what was sent before, as it must have.
  bool send(std::span<const int> descriptors);

  // The files of a process that is to be made: control pages, and the other end of its socket.
  bool prepare();
  [[nodiscard]] int controls_file() const { return controls_file_.number(); }
  [[nodiscard]] int their_socket() const { return their_socket_.number(); }
  // The process has been made.
  void begin(pid_t process);
  // What the nursery left in it goes, but for the host's clock.
  void empty();

  // A thread in the slot; nullptr: there are too many.
  HostThread* add_thread(uint32_t slot, TrapThread* guest);
  // A slot that no thread of the host uses; -1: there is none.
  int free_slot() const;
  void remove_thread(HostThread& thread);
  // A guest's thread begins; it ends; with the last one, the process ends.
  void enter() { ++guests_; }
  void forget_guest() { --guests_; }
  void leave(HostThread& thread);
  // It has never had another thread, so that its time is that of the process.
  [[nodiscard]] bool is_single() const { return !had_more_threads_; }

  // All changes are made by this stopped thread (or any). False: the space is lost.
  bool flush(HostThread& thread);
  bool flush();
  // As many changes as fit are put into the thread's control page, with their descriptors sent.
  bool load_batch(HostThread& thread);
  [[nodiscard]] bool has_changes() const { return !changes_.empty(); }
  // The thread was resumed with a batch.
  void note_flight(HostThread& thread);
  void end_flight() { flight_ = nullptr; }
  [[nodiscard]] size_t guest_count() const { return guests_; }

  // Vector states, in the stub's own memory.
  size_t read_stub(uint64_t address, std::span<std::byte> bytes) const;
  bool write_stub(uint64_t address, std::span<const std::byte> bytes) const;

  // Its process has ended, or is ended: all its threads are gone.
  void lose();
  void end_process();
  [[nodiscard]] bool is_lost() const { return process_ <= 0; }
  [[nodiscard]] pid_t process() const { return process_; }
  [[nodiscard]] int socket() const { return socket_.number(); }
  [[nodiscard]] TrapPlatform& platform() const { return platform_; }

 private:
  void change(const MemoryChange& change);
  [[nodiscard]] static bool is_within(uint64_t address, uint64_t length);
  // Before bytes there are looked at: what is pending for them is done. Gives how many of them a guest may name.
  size_t settle(uint64_t address, size_t length);
  bool await_flight();

  TrapPlatform& platform_;
  pid_t process_ = -1;
  HostFile controls_file_, socket_, their_socket_, memory_file_;
  TrapControl* controls_ = nullptr;
  std::vector<std::unique_ptr<HostThread>> threads_;
  size_t guests_ = 0;
  bool had_more_threads_ = false;
  std::vector<MemoryChange> changes_;
  uint64_t changed_from_ = ~uint64_t{0}, changed_to_ = 0;
  HostThread* flight_ = nullptr;  // runs, and was told to make changes first
  uint32_t flight_batch_ = 0;
};

class TrapThread final : public Thread {
 public:
  TrapThread(std::shared_ptr<Space> space, HostThread* host);
  ~TrapThread() override;

  [[nodiscard]] const std::shared_ptr<Space>& space() const override { return space_; }
  void resume() override;
  void interrupt() override;
  std::chrono::nanoseconds cpu_time() override;
  std::vector<std::byte> vector_state() override;
  Done set_vector_state(std::span<const std::byte> state) override;
  Try<std::unique_ptr<Thread>> clone_thread() override;
  Try<std::unique_ptr<Thread>> fork() override;

  // It has stopped: takes what its control page says. False: the kernel need not know; it runs again.
  bool take_stop();
  void be_gone();
  void lose_host() { host_ = nullptr; }
  [[nodiscard]] HostThread* host() const { return host_; }

 private:
  [[nodiscard]] TrapSpace& trap_space() const { return static_cast<TrapSpace&>(*space_); }
  [[nodiscard]] TrapPlatform& platform() const { return trap_space().platform(); }
  void take_exception(const TrapControl& seen);
  [[nodiscard]] std::chrono::nanoseconds time_of_host() const;
  std::unique_ptr<TrapThread> copy_into(const std::shared_ptr<Space>& space, HostThread& host) const;

  std::shared_ptr<Space> space_;
  HostThread* host_;  // nullptr when its process has ended
  std::chrono::nanoseconds cpu_time_{0};
};

class TrapPlatform final : public Platform {
 public:
  static Result<std::unique_ptr<Platform>> start(const TrapOptions& options);
  ~TrapPlatform() override;

  [[nodiscard]] std::string_view name() const override { return "trap"; }
  [[nodiscard]] uint64_t lowest() const override { return TRAP_LOWEST; }
  [[nodiscard]] uint64_t highest() const override { return TRAP_STUB; }
  [[nodiscard]] uint64_t clock_function() const override { return clock_.clock_gettime; }
  [[nodiscard]] const HostClock& clock() const { return clock_; }
  Try<std::unique_ptr<Thread>> start() override;
  Thread* wait(std::optional<std::chrono::steady_clock::time_point> deadline) override;
  void wake() override { bell_.wake(); }

  [[nodiscard]] Nursery& nursery() { return *nursery_; }
  [[nodiscard]] const std::vector<MissingWall>& missing() const { return nursery_->missing(); }

  // The thread's control page is complete: it runs.
  void run(HostThread& thread);
  // An order other than to run; waits until it is done. False: the space is lost.
  bool order(HostThread& thread, uint32_t order);
  // As order(), for one that makes a thread or a process: at no other time may a stub make any.
  bool order_new(HostThread& thread, uint32_t order);
  // An order to end.
  void end(HostThread& thread);
  void kick(HostThread& thread);

  // Numbers of threads.
  bool enroll(HostThread& thread);
  void strike(HostThread& thread);
  void note_process(pid_t process, TrapSpace& space);
  void forget_process(pid_t process);
  void add_gone(TrapThread& thread) { gone_.push_back(&thread); }
  void forget(TrapThread& thread) { std::erase(gone_, &thread); }
  // Whether a process that a stub speaks of is one of the stubs, and not yet known.
  [[nodiscard]] bool is_new_stub(pid_t process);
  // What has ended is learned.
  void reap();

 private:
  struct Prepared {
    std::shared_ptr<TrapSpace> space;
    HostThread* thread = nullptr;
    pid_t process = 0;  // 0: the nursery was not asked yet; -1: it could not be made, or has ended
  };

  explicit TrapPlatform(const TrapOptions& options) : options_(options) {}
  void pin();
  bool prepare();
  // The process numbers of all that is prepared are learned.
  void collect();
  void give(HostThread& thread, uint32_t order);
  bool await_stop(HostThread& thread);
  void stop_running(HostThread& thread);
  Thread* next_gone();
  Thread* next_stopped();
  Thread* take(HostThread& thread);
  void sleep(uint32_t rings, std::optional<std::chrono::steady_clock::time_point> deadline);
  // Those that have stopped without a hint; processes that have ended; those that must not be.
  void look_around();
  // Ends processes that a guest has made by itself.
  void sweep();

  TrapOptions options_;
  Bell bell_;
  std::unique_ptr<Nursery> nursery_;
  HostClock clock_;  // stays mapped in all stubs; empty when guests shall not read the host's time
  std::vector<HostThread*> threads_;  // by index
  std::vector<uint32_t> free_indexes_;
  std::vector<HostThread*> running_;
  std::deque<HostThread*> found_;  // stopped without a hint
  std::deque<TrapThread*> gone_;
  std::unordered_map<pid_t, TrapSpace*> processes_;
  std::chrono::steady_clock::time_point next_look_, next_sweep_;
  bool wants_sweep_ = false;  // a guest has run since the last one
  size_t ending_ = 0;         // processes that were killed, and not yet reaped
  std::deque<Prepared> prepared_;
  std::vector<char> old_cores_;  // of this thread, as it was before
};

}  // namespace membrane::linux
