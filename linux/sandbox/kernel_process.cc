#include "linux/sandbox/kernel_process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/environment.h"
#include "base/text.h"
#include "linux/files/devices.h"
#include "linux/files/socket_end.h"
#include "linux/granted/granted_directory.h"
#include "linux/image/image_tree.h"
#include "linux/kept/kept.h"
#include "linux/kernel/kernel.h"
#include "linux/network/outside_network.h"
#include "linux/platform/kvm/kvm.h"
#include "linux/proc/mounts.h"
#include "linux/sandbox/detach.h"
#include "linux/sandbox/kernel_server.h"
#include "linux/sandbox/kernel_walls.h"

namespace membrane::linux {

namespace {

// Everything that exists before the owner sends its order.
struct Prepared {
  Result<std::unique_ptr<Platform>> platform;
  std::vector<MissingWall> missing_walls;
  bool traps_time_stamps = false;
};

// Guests map these files' bytes through the kernel process, which needs a descriptor for each.
void allow_many_files() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Prepared prepare(const KernelProcessOptions& options) {
  allow_many_files();
  // After the walls no device can be opened.
  Result<HostFile> device;
  if (options.is_kvm) device = open_kvm_device();
  std::vector<MissingWall> missing = leave_host();
  if (!device) return {std::unexpected(device.error()), std::move(missing)};
  auto platform =
      *device
          ? start_kvm_platform({.device = device->number(), .traps_time_stamps = options.traps_time_stamps})
          : start_trap_platform({.traps_time_stamps = options.traps_time_stamps});
  if (platform) std::ranges::copy(missing_walls_of(**platform), std::back_inserter(missing));
  return {std::move(platform), std::move(missing), options.traps_time_stamps};
}

struct Begun {
  std::unique_ptr<Kernel> kernel;
  std::string image_name;
  bool stands_still = false;
  std::vector<KeptCommand> commands;
  BeginAnswer answer;
};

Status check(const Frame& frame, const BeginOrder& order, const Prepared& prepared) {
  if (frame.files.size() != order.files())
    return fail(ErrorCode::kInvalidInput, "the first order lacks the files that it names");
  if (!prepared.platform) return std::unexpected(prepared.platform.error());
  const std::string name((*prepared.platform)->name());
  if (!order.platform.empty() && order.platform != name)
    return fail(ErrorCode::kUnsupported, "there is no platform \"" + order.platform + "\" here",
                "Omit the platform, or use \"" + name + "\"; `membrane doctor` lists those of this machine.");
  return {};
}

// The state that it resumes from, and the image below it.
struct Before {
  std::optional<KeptFile> kept;
  OutsideNetwork* network = nullptr;
  std::vector<HostFile> directories;
  std::vector<KeptCommand> commands;
};

// A restored sandbox with processes is as deterministic as it was; the state of its random numbers is
// restored with them.
std::optional<Determinism> determinism_of(const BeginOrder& order, const std::optional<KeptFile>& kept) {
  if (!kept || !kept->facts().has_processes || order.kept_files_only) return order.deterministic;
  const auto start_ms = kept->facts().clock_start_ms;
  return start_ms ? std::optional(Determinism{.start_ms = *start_ms}) : std::nullopt;
}

Result<RestoredTree> make_root(TreeOptions options, const std::optional<KeptFile>& kept) {
  if (kept) return restore_tree(*kept, std::move(options));
  return RestoredTree{.root = make_tree(std::move(options)), .rest = StateReader({}), .held = {}};
}

Status mount_granted(Kernel& kernel, const BeginOrder::Directory& directory, size_t number, HostFile socket) {
  constexpr uint64_t kFirstDevice = 0x40;
  const NodeRef mounted = make_granted_directory(std::move(socket), {.device = kFirstDevice + number,
                                                                     .is_writable = directory.is_writable,
                                                                     .copied_bytes = kernel.granted_copies});
  if (const Done done = mount_at(kernel, directory.path, mounted); !done)
    return fail(ErrorCode::kInvalidInput,
                "a directory cannot be mounted at " + directory.path + ": " + std::strerror(done.error()),
                "Choose another place, such as /work: none below /proc, /sys or /dev, and none within "
                "another grant.");
  return {};
}

// `image`: -1 for none.
Result<std::unique_ptr<Kernel>> make_kernel(const BeginOrder& order, HostFile image, Before& before,
                                            Prepared& prepared) {
  const auto same = determinism_of(order, before.kept);
  if (same && !prepared.traps_time_stamps)
    return fail(ErrorCode::kInvalidInput, "the kernel process was not made for a deterministic sandbox");
  const auto clock = same ? std::make_shared<GuestClock>(same->start_ms) : std::make_shared<GuestClock>();
  const auto entropy = same ? std::make_shared<Entropy>(same->seed) : std::make_shared<Entropy>();
  const auto devices = std::make_shared<Devices>(entropy);
  TreeOptions options = {.most_bytes = order.limits.disk_bytes, .devices = devices, .now = [clock] {
                           return clock->read(CLOCK_REALTIME);
                         }};
  if (image) {
    MEMBRANE_ASSIGN(options.image, Layer::open(image.release(), "the image"));
  }
  MEMBRANE_ASSIGN(RestoredTree tree, make_root(std::move(options), before.kept));
  auto kernel = std::make_unique<Kernel>(KernelOptions{.platform = std::move(*prepared.platform),
                                                       .root = tree.root,
                                                       .limits = {.most_tasks = order.limits.most_tasks,
                                                                  .memory_bytes = order.limits.memory_bytes,
                                                                  .cpu = order.limits.cpu},
                                                       .host_name = order.host_name,
                                                       .clock = clock,
                                                       .entropy = entropy});
  if (const Done mounted = mount_system_directories(*kernel, devices); !mounted)
    return fail(ErrorCode::kUnavailable,
                std::string("/proc, /sys and /dev cannot be made: ") + std::strerror(mounted.error()));
  kernel->sockets = std::make_shared<SocketSpace>();
  kernel->sockets->network = before.network;
  for (size_t i = 0; i < order.directories.size(); ++i)
    MEMBRANE_TRY(mount_granted(*kernel, order.directories[i], i, std::move(before.directories[i])));
  if (before.kept && !order.kept_files_only)
    MEMBRANE_TRY(restore_processes(*kernel, *before.kept, tree, before.commands));
  return kernel;
}

Result<Begun> begin(Frame& frame, Prepared& prepared, OutsideNetwork* network) {
  if (frame.kind != FrameKind::kBegin)
    return fail(ErrorCode::kInvalidInput, "the first order must be kBegin");
  MEMBRANE_ASSIGN(const BeginOrder order, unpack_begin(frame.bytes));
  MEMBRANE_TRY(check(frame, order, prepared));
  size_t next = 0;
  HostFile image;
  if (order.has_image) image = std::move(frame.files[next++]);
  Before before;
  if (order.has_kept) {
    MEMBRANE_ASSIGN(before.kept, KeptFile::open(frame.files[next++].number()));
  }
  if (order.has_network) {
    if (network == nullptr) return fail(ErrorCode::kUnavailable, "the system has no room for a network");
    MEMBRANE_TRY(network->attach(std::move(frame.files[next++])));
    network->set_own_name(lower_case(order.host_name));
    before.network = network;
  }
  while (next < frame.files.size()) before.directories.push_back(std::move(frame.files[next++]));
  Begun begun = {.kernel = nullptr,
                 .image_name = order.image_name,
                 .stands_still = order.stands_still,
                 .commands = {},
                 .answer = {}};
  MEMBRANE_ASSIGN(begun.kernel, make_kernel(order, std::move(image), before, prepared));
  begun.commands = std::move(before.commands);
  begun.answer.platform = begun.kernel->platform().name();
  for (const MissingWall& each : prepared.missing_walls)
    begun.answer.missing_walls.push_back(each.name + ": " + each.why);
  return begun;
}

// Its threads live until the process ends, and so does what they use.
void serve(FrameSocket& socket, const KernelProcessOptions& options) {
  static std::atomic<KernelServer*> server = nullptr;
  Prepared prepared = prepare(options);
  const auto wake = [] {
    if (KernelServer* const there = server) there->wake();
  };
  auto* const orders = new Orders(socket, wake);
  auto made = OutsideNetwork::create(wake);
  OutsideNetwork* const network = made ? made->release() : nullptr;
  std::ranges::move(allow_only_kernel_calls(), std::back_inserter(prepared.missing_walls));
  auto first = orders->wait();
  if (!first) return;
  auto begun = begin(*first, prepared, network);
  const uint64_t number = first->number;
  first.reset();
  const Result<std::string> shown =
      begun ? Result<std::string>(pack(begun->answer)) : std::unexpected(begun.error());
  if (!socket.send(FrameKind::kAnswer, number, pack_answer(shown)) || !begun) return;
  static KernelServer serving(socket, *orders, *begun->kernel, network, begun->image_name);
  serving.adopt(std::move(begun->commands));
  if (begun->stands_still) serving.stand_still();
  server = &serving;
  serving.run();
  server = nullptr;
}

}  // namespace

void run_kernel_process(HostFile theirs, const KernelProcessOptions& options) {
  clear_environment();  // the owner's secrets may be in it
  auto* const socket = new FrameSocket(leave_owner(std::move(theirs)), FrameReader::From::kOwner);
  serve(*socket, options);
  _exit(0);
}

}  // namespace membrane::linux
