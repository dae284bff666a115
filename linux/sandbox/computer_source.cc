// The process that keeps kernel processes ready: it is forked from a caller of one thread, has one thread
// itself, and forks them.
//
//   the owner ──one socket──► the source's process ──forks──► kernel processes, which wait for their BeginOrder
//
// An order is answered with the owner's end of a kernel process's socket. Waiting kernel processes end with
// the source's process, which holds the last ends of their sockets; those that were handed out end with the
// owner.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>

#include "linux/platform/choice.h"
#include "linux/sandbox/detach.h"
#include "linux/sandbox/live_computer.h"
#include "linux/sandbox/start_computer.h"

namespace membrane::linux {

namespace {

struct SourceOrder {
  uint32_t traps_time_stamps, is_kvm;
  uint32_t is_beginning = 0;  // from now on keep some ready; no answer
};
// With error 0 it carries the owner's end of the kernel process's socket, and a handle of the process.
struct SourceAnswer {
  int32_t error;
};
struct KernelProcess {
  HostFile socket, handle;
};

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

std::unexpected<Error> no_room(int error) {
  return fail(ErrorCode::kUnavailable,
              std::string("the system has no room for a sandbox: ") + std::strerror(error));
}

// In the source's process.
class KernelProcesses {
 public:
  // Whether the waiting processes are on the platform `kvm` or on `trap`.
  KernelProcesses(HostFile owner, size_t most_ready, bool is_kvm)
      : owner_(std::move(owner)), most_ready_(most_ready), is_kvm_(is_kvm) {}

  // Runs until the owner is gone. Makes new ones while no order waits.
  void serve() {
    for (;;) {
      const bool is_full = !has_begun_ || ready_.size() >= most_ready_ || cannot_fork_;
      pollfd looked = {owner_.number(), POLLIN, 0};
      const int found = poll(&looked, 1, is_full ? -1 : 0);
      if (found < 0 && errno != EINTR) return;
      if (found == 0) make_ready();
      if (found > 0 && !obey()) return;
    }
  }

 private:
  void make_ready() {
    KernelProcess made = make({.is_kvm = is_kvm_});
    cannot_fork_ = !made.handle;  // until the next order
    if (made.handle) ready_.push_back(std::move(made));
  }
  // No handle: errno says why.
  static KernelProcess make(const KernelProcessOptions& options) {
    HostFile ours, theirs;
    if (!make_stream(ours, theirs)) return {};
    const pid_t child = fork();
    if (child < 0) return {};
    if (child == 0) run_kernel_process(std::move(theirs), options);
    return {std::move(ours), handle_of(child)};
  }
  static bool make_stream(HostFile& one, HostFile& other) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    one = HostFile(ends[0]);
    other = HostFile(ends[1]);
    return true;
  }
  // The oldest one that has not been ended from elsewhere.
  KernelProcess take_ready() {
    while (!ready_.empty()) {
      KernelProcess first = std::move(ready_.front());
      ready_.pop_front();
      pollfd looked = {first.socket.number(), 0, 0};
      if (poll(&looked, 1, 0) == 0) return first;
    }
    return {};
  }
  bool obey() {
    SourceOrder order = {};
    if (!receive_message(owner_.number(), bytes_of(order))) return false;
    cannot_fork_ = false;
    if (order.is_beginning != 0) return has_begun_ = true;
    KernelProcess made;
    const bool is_kvm = order.is_kvm != 0;
    if (order.traps_time_stamps == 0 && is_kvm == is_kvm_) made = take_ready();
    if (!made.handle) made = make({.traps_time_stamps = order.traps_time_stamps != 0, .is_kvm = is_kvm});
    SourceAnswer answer = {made.handle ? 0 : errno};
    if (!made.handle) return send_message(owner_.number(), bytes_of(answer), {});
    return std::ranges::all_of(std::array{made.socket.number(), made.handle.number()}, [&](int file) {
      return send_message(owner_.number(), bytes_of(answer), std::span(&file, 1));
    });
  }

  const HostFile owner_;
  const size_t most_ready_;
  const bool is_kvm_;
  std::deque<KernelProcess> ready_;
  bool has_begun_ = false, cannot_fork_ = false;
};

class ForkedSource final : public ComputerSource {
 public:
  ForkedSource(HostFile socket, pid_t process) : socket_(std::move(socket)), process_(process) {}
  ~ForkedSource() override {
    shutdown(socket_.number(), SHUT_RDWR);
    end_child(process_);
  }
  ForkedSource(const ForkedSource&) = delete;
  ForkedSource& operator=(const ForkedSource&) = delete;

  [[nodiscard]] pid_t process() const override { return process_; }
  void make_ready() override {
    const std::scoped_lock lock(mutex_);
    SourceOrder order = {.traps_time_stamps = 0, .is_kvm = 0, .is_beginning = 1};
    static_cast<void>(send_message(socket_.number(), bytes_of(order), {}));
  }
  Result<std::unique_ptr<LiveComputer>> create(const LiveSpec& spec) override {
    MEMBRANE_ASSIGN(KernelProcess made,
                    take({.traps_time_stamps = wants_virtual_clock(spec), .is_kvm = wants_kvm(spec)}));
    return begin_computer(std::move(made.socket), OwnedProcess(std::move(made.handle), 0), spec);
  }

 private:
  Result<KernelProcess> take(SourceOrder order) {
    const std::scoped_lock lock(mutex_);
    SourceAnswer answer = {};
    KernelProcess made;
    bool is_told = send_message(socket_.number(), bytes_of(order), {}) &&
                   receive_message(socket_.number(), bytes_of(answer), &made.socket);
    if (is_told && answer.error == 0)
      is_told = receive_message(socket_.number(), bytes_of(answer), &made.handle);
    if (!is_told)
      return fail(ErrorCode::kUnavailable, "the process that makes sandboxes is lost",
                  "Start this one again.");
    if (answer.error != 0 || !made.socket || !made.handle) return no_room(answer.error);
    return made;
  }

  const HostFile socket_;
  const pid_t process_;
  std::mutex mutex_;  // an order and its answer
};

}  // namespace

Result<std::unique_ptr<ComputerSource>> ComputerSource::create(size_t most_ready) {
  HostFile ours, theirs;
  if (!make_socket_pair(ours, theirs)) return no_room(errno);
  const bool is_kvm = fastest_platform() == "kvm";
  const pid_t child = fork();
  if (child < 0) return no_room(errno);
  if (child == 0) {
    HostFile owner = leave_owner(std::move(theirs));
    prctl(PR_SET_NAME, "membrane-linux");
    signal(SIGCHLD, SIG_IGN);  // nobody waits for kernel processes
    KernelProcesses(std::move(owner), most_ready, is_kvm).serve();
    _exit(0);
  }
  return std::make_unique<ForkedSource>(std::move(ours), child);
}

}  // namespace membrane::linux
