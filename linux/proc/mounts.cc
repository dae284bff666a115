#include "linux/proc/mounts.h"

#include <array>

#include "linux/fs/tree.h"
#include "linux/proc/directories.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kDevDevice = 0x19, kShmDevice = 0x1a;
constexpr uint64_t kMostDevBytes = 1u << 20, kMostDevNodes = 4096;

struct DeviceRow {
  const char* name;
  uint64_t number;
};
constexpr std::array<DeviceRow, 7> kDevices = {{{"null", kNullDevice},
                                                {"zero", kZeroDevice},
                                                {"full", kFullDevice},
                                                {"random", kRandomDevice},
                                                {"urandom", kUrandomDevice},
                                                {"tty", kTtyDevice},
                                                {"ptmx", kPtmxDevice}}};
struct LinkRow {
  const char* name;
  const char* target;
};
constexpr std::array<LinkRow, 4> kLinks = {{{"fd", "/proc/self/fd"},
                                            {"stdin", "/proc/self/fd/0"},
                                            {"stdout", "/proc/self/fd/1"},
                                            {"stderr", "/proc/self/fd/2"}}};

Done mount_over(Kernel& kernel, Node& parent, std::string_view name, const NodeRef& mounted) {
  auto directory = parent.look_up(name);
  if (!directory && directory.error() == ENOENT) directory = parent.create(name, {.mode = S_IFDIR | 0755});
  if (!directory) return err(directory.error());
  if ((*directory)->type() != S_IFDIR) return err(ENOTDIR);
  kernel.system->covered.push_back(*directory);
  kernel.mounts.add(**directory, mounted);
  return {};
}

// What a tree of the kernel's dates its files by.
std::function<timespec()> time_of(const Kernel& kernel) {
  return [clock = kernel.options().clock] { return clock->read(CLOCK_REALTIME); };
}

Done mount_dev(Kernel& kernel) {
  SystemDirectories& system = *kernel.system;
  const NodeRef dev = make_tree({.most_bytes = kMostDevBytes,
                                 .most_nodes = kMostDevNodes,
                                 .device = kDevDevice,
                                 .devices = system.devices,
                                 .now = time_of(kernel)});
  for (const DeviceRow& row : kDevices)
    MEMBRANE_TRY(dev->create(row.name, {.mode = S_IFCHR | 0666, .special = row.number}));
  for (const LinkRow& row : kLinks)
    MEMBRANE_TRY(dev->create(row.name, {.mode = S_IFLNK | 0777, .target = row.target}));
  const NodeRef shared_memory = make_tree({.most_bytes = kernel.options().limits.memory_bytes / 2,
                                           .device = kShmDevice,
                                           .now = time_of(kernel),
                                           .root_mode = 01777});
  system.device_files = dev;
  system.shared_memory = shared_memory;
  MEMBRANE_TRY(mount_over(kernel, *kernel.root->node, "dev", dev));
  MEMBRANE_TRY(mount_over(kernel, *dev, "pts", system.terminals->directory()));
  return mount_over(kernel, *dev, "shm", shared_memory);
}

}  // namespace

Done mount_system_directories(Kernel& kernel, std::shared_ptr<Devices> devices) {
  if (devices == nullptr) devices = std::make_shared<Devices>(kernel.options().entropy);
  auto system = std::make_shared<SystemDirectories>();
  system->devices = std::move(devices);
  system->terminals = std::make_shared<Terminals>(kernel);
  system->terminals->add_to(*system->devices);
  kernel.system = std::move(system);
  MEMBRANE_TRY(mount_over(kernel, *kernel.root->node, "proc", make_proc_directory(kernel)));
  MEMBRANE_TRY(mount_over(kernel, *kernel.root->node, "sys", make_sys_directory(kernel)));
  return mount_dev(kernel);
}

}  // namespace membrane::linux
