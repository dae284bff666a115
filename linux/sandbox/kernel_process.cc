#include "linux/sandbox/kernel_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "linux/files/devices.h"
#include "linux/image/image_tree.h"
#include "linux/kernel/kernel.h"
#include "linux/proc/mounts.h"
#include "linux/sandbox/kernel_server.h"
#include "linux/sandbox/kernel_walls.h"

namespace membrane::linux {

namespace {

constexpr int kSocket = 3;

// Nothing of the owner's process is kept: its files, its terminal, what it does with signals.
HostFile leave_owner(HostFile socket) {
  setsid();
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int kept = fcntl(socket.number(), F_DUPFD_CLOEXEC, 64);
  socket.close();
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int number = 0; number < kSocket; ++number)
    if (null >= 0) dup2(null, number);
  if (kept < 0 || dup3(kept, kSocket, O_CLOEXEC) != kSocket) _exit(1);
  if (syscall(SYS_close_range, kSocket + 1, ~0u, 0) != 0)
    for (int number = kSocket + 1; number < 4096; ++number) close(number);
  return HostFile(kSocket);
}

// All that there is before the owner says what it wants.
struct Prepared {
  Result<std::unique_ptr<Platform>> platform;
  std::vector<MissingWall> missing_walls;
  bool traps_time_stamps = false;
};

Prepared prepare(const KernelProcessOptions& options) {
  std::vector<MissingWall> missing = leave_host();
  auto platform = start_trap_platform({.traps_time_stamps = options.traps_time_stamps});
  if (platform) std::ranges::copy(missing_walls_of(**platform), std::back_inserter(missing));
  return {std::move(platform), std::move(missing), options.traps_time_stamps};
}

struct Begun {
  std::unique_ptr<Kernel> kernel;
  BeginAnswer answer;
};

Result<Begun> begin(Frame& frame, Prepared& prepared) {
  if (frame.kind != FrameKind::kBegin)
    return fail(ErrorCode::kInvalidInput, "the first order is not the beginning");
  MEMBRANE_ASSIGN(const BeginOrder order, unpack_begin(frame.bytes));
  if (frame.files.size() != order.files())
    return fail(ErrorCode::kInvalidInput, "the beginning has not the files that it names");
  if (!prepared.platform) return std::unexpected(prepared.platform.error());
  const std::string name((*prepared.platform)->name());
  if (!order.platform.empty() && order.platform != name)
    return fail(ErrorCode::kUnsupported, "there is no platform \"" + order.platform + "\" here",
                "Leave it to Membrane, or name \"" + name + "\".");
  if (order.has_kept) return fail(ErrorCode::kUnsupported, "a sandbox cannot begin with a kept one yet");
  if (order.has_network || !order.directories.empty())
    return fail(ErrorCode::kUnsupported, "a sandbox has neither network nor directories of the owner's yet");
  const auto& same = order.deterministic;
  if (same && !prepared.traps_time_stamps)
    return fail(ErrorCode::kInvalidInput, "the kernel process was not made for a deterministic sandbox");
  const auto clock = same ? std::make_shared<GuestClock>(same->start_ms) : std::make_shared<GuestClock>();
  const auto entropy = same ? std::make_shared<Entropy>(same->seed) : std::make_shared<Entropy>();
  const auto devices = std::make_shared<Devices>(entropy);
  TreeOptions options = {.most_bytes = order.limits.disk_bytes, .devices = devices, .now = [clock] {
                           return clock->read(CLOCK_REALTIME);
                         }};
  size_t next = 0;
  if (order.has_image) {
    const int file = dup(frame.files[next++].number());
    if (file < 0) return fail(ErrorCode::kUnavailable, "the kernel process has no room for another file");
    MEMBRANE_ASSIGN(options.image, Layer::open(file, "the image"));
  }
  Begun begun;
  begun.kernel = std::make_unique<Kernel>(KernelOptions{
      .platform = std::move(*prepared.platform),
      .root = make_tree(std::move(options)),
      .limits = {.most_tasks = order.limits.most_tasks, .memory_bytes = order.limits.memory_bytes},
      .host_name = order.host_name,
      .clock = clock,
      .entropy = entropy});
  if (const Done mounted = mount_system_directories(*begun.kernel, devices); !mounted)
    return fail(ErrorCode::kUnavailable,
                std::string("/proc, /sys and /dev cannot be made: ") + std::strerror(mounted.error()));
  begun.answer.platform = name;
  for (const MissingWall& each : prepared.missing_walls)
    begun.answer.missing_walls.push_back(each.name + ": " + each.why);
  return begun;
}

// Files whose bytes guests map are the kernel process's, a descriptor each.
void allow_many_files() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Its threads live until the process ends, and so does what they use.
void serve(FrameSocket& socket, const KernelProcessOptions& options) {
  static std::atomic<KernelServer*> server = nullptr;
  allow_many_files();
  Prepared prepared = prepare(options);
  auto* const orders = new Orders(socket, [] {
    if (KernelServer* const there = server) there->wake();
  });
  std::ranges::move(allow_only_kernel_calls(), std::back_inserter(prepared.missing_walls));
  auto first = orders->wait();
  if (!first) return;
  auto begun = begin(*first, prepared);
  const uint64_t number = first->number;
  first.reset();
  const Result<std::string> told =
      begun ? Result<std::string>(pack(begun->answer)) : std::unexpected(begun.error());
  if (!socket.send(FrameKind::kAnswer, number, pack_answer(told)) || !begun) return;
  static KernelServer serving(socket, *orders, *begun->kernel);
  server = &serving;
  serving.run();
  server = nullptr;
}

}  // namespace

void run_kernel_process(HostFile theirs, const KernelProcessOptions& options) {
  auto* const socket = new FrameSocket(leave_owner(std::move(theirs)), FrameReader::From::kOwner);
  serve(*socket, options);
  _exit(0);
}

}  // namespace membrane::linux
