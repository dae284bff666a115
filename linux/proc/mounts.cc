#include "linux/proc/mounts.h"

#include "linux/proc/directories.h"

namespace membrane::linux {
namespace {

Done mount_over(Kernel& kernel, std::string_view name, const NodeRef& mounted) {
  Node& root = *kernel.root->node;
  auto directory = root.look_up(name);
  if (!directory && directory.error() == ENOENT) directory = root.create(name, {.mode = S_IFDIR | 0755});
  if (!directory) return err(directory.error());
  if ((*directory)->type() != S_IFDIR) return err(ENOTDIR);
  kernel.system->covered.push_back(*directory);
  kernel.mounts.add(**directory, mounted);
  return {};
}

}  // namespace

Done mount_system_directories(Kernel& kernel) {
  auto system = std::make_shared<SystemDirectories>();
  system->devices = std::make_shared<Devices>();
  system->terminals = std::make_shared<Terminals>(kernel);
  system->terminals->add_to(*system->devices);
  kernel.system = system;
  LINUX_TRY(mount_over(kernel, "proc", make_proc_directory(kernel)));
  LINUX_TRY(mount_over(kernel, "sys", make_sys_directory(kernel)));
  return mount_over(kernel, "dev", make_dev_directory(system->devices, system->terminals, nullptr));
}

}  // namespace membrane::linux
