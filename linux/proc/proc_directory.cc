// The root of /proc.
#include <dirent.h>

#include "linux/files/interfaces.h"
#include "linux/files/socket_end.h"
#include "linux/kernel/version.h"
#include "linux/proc/directories.h"
#include "linux/proc/process_directory.h"
#include "linux/proc/process_texts.h"
#include "linux/proc/system_texts.h"
#include "linux/proc/text.h"

namespace membrane::linux {
namespace {

using Child = MadeDirectory::Child;
using Children = MadeDirectory::Children;

constexpr uint64_t kProcDevice = 0x16;

Child fixed(std::string text) {
  return made_text([text = std::move(text)]() -> Try<std::string> { return text; });
}
Child asked(Kernel& kernel, std::string (*text)(Kernel&)) {
  return made_text([&kernel, text]() -> Try<std::string> { return text(kernel); });
}
// Settings that a program may write, without any effect.
Child settable(std::string text) {
  return made_text([text = std::move(text)]() -> Try<std::string> { return text; },
                   [](std::string_view) { return Done(); });
}
Child directory(Children children) {
  return made_directory(std::make_shared<const Children>(std::move(children)));
}

Child own_link(Kernel& kernel, bool is_task) {
  return made_link([&kernel, is_task]() -> Try<std::string> {
    const Task* const reader = kernel.current();
    if (reader == nullptr) return err(ENOENT);
    const std::string process = std::to_string(reader->process->id);
    return is_task ? process + "/task/" + std::to_string(reader->id) : process;
  });
}

Child random_directory(Kernel& kernel) {
  return directory(
      {{"boot_id", fixed(uuid_text(kernel.entropy()))},
       {"entropy_avail", fixed("256\n")},
       {"poolsize", fixed("256\n")},
       {"uuid", made_text([&kernel]() -> Try<std::string> { return uuid_text(kernel.entropy()); })}});
}

Child sys_kernel(Kernel& kernel) {
  return directory({{"cap_last_cap", fixed("40\n")},
                    {"core_pattern", fixed("core\n")},
                    {"domainname", asked(kernel, [](Kernel& of) { return of.domain_name + "\n"; })},
                    {"hostname", asked(kernel, [](Kernel& of) { return of.host_name + "\n"; })},
                    {"ngroups_max", fixed("65536\n")},
                    {"osrelease", fixed(std::string(kKernelRelease) + "\n")},
                    {"ostype", fixed("Linux\n")},
                    {"overflowgid", fixed("65534\n")},
                    {"overflowuid", fixed("65534\n")},
                    {"pid_max", fixed("4194304\n")},
                    {"random", random_directory(kernel)},
                    {"randomize_va_space", settable("0\n")},
                    {"sched_child_runs_first", fixed("0\n")},
                    {"seccomp", directory({})},
                    {"shmmax", fixed("18446744073692774399\n")},
                    {"threads-max", fixed(text_of("%d\n", kernel.options().limits.most_tasks))},
                    {"version", fixed(std::string(kKernelVersion) + "\n")}});
}

Child sys_directory(Kernel& kernel) {
  const std::string files = std::to_string(kernel.options().limits.most_files);
  return directory(
      {{"fs", directory({{"file-max", fixed(files + "\n")},
                         {"file-nr", fixed(text_of("%d\t0\t%s\n", kernel.tasks(), files.c_str()))},
                         {"inotify", directory({{"max_queued_events", fixed("16384\n")},
                                                {"max_user_instances", fixed("128\n")},
                                                {"max_user_watches", fixed("65536\n")}})},
                         {"nr_open", fixed("1048576\n")},
                         {"pipe-max-size", fixed("1048576\n")}})},
       {"kernel", sys_kernel(kernel)},
       {"net", directory({{"core", directory({{"somaxconn", fixed("4096\n")}})},
                          {"ipv4", directory({{"ip_local_port_range", fixed("32768\t60999\n")}})}})},
       {"vm", directory({{"max_map_count", fixed("65530\n")},
                         {"mmap_min_addr", fixed("65536\n")},
                         {"overcommit_memory", settable("0\n")},
                         {"overcommit_ratio", settable("50\n")},
                         {"swappiness", settable("60\n")}})}});
}

const Network* network_of(Kernel& kernel) {
  return kernel.sockets == nullptr ? nullptr : kernel.sockets->network;
}

std::string devices_text(Kernel& kernel) {
  std::string text =
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo "
      "colls carrier compressed\n";
  for (const Interface& each : interfaces(network_of(kernel)))
    text += text_of("%6s:       0       0    0    0    0     0          0         0", each.name.data()) +
            "        0       0    0    0    0     0       0          0\n";
  return text;
}

// Numbers in this machine's byte order, which is reversed.
std::string routes_text(Kernel& kernel) {
  std::string text = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
  for (const Interface& each : interfaces(network_of(kernel))) {
    if (each.is_loopback()) continue;
    text += text_of("%s\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n", each.name.data());
    text += text_of("%s\t000012C6\t00000000\t0001\t0\t0\t0\t0000FEFF\t0\t0\t0\n", each.name.data());
  }
  return text;
}

// The network without its connections, which are not listed.
Child network_directory(Kernel& kernel) {
  constexpr const char* kInet =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
  constexpr const char* kLoopbackRoute =
      "00000000000000000000000000000001 80 00000000000000000000000000000000 00 "
      "00000000000000000000000000000000 00000000 00000001 00000000 80200001       lo\n";
  return directory(
      {{"arp", fixed("IP address       HW type     Flags       HW address            Mask     Device\n")},
       {"dev", asked(kernel, devices_text)},
       {"if_inet6", fixed("00000000000000000000000000000001 01 80 10 80       lo\n")},
       {"ipv6_route", fixed(kLoopbackRoute)},
       {"netlink",
        fixed("sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n")},
       {"raw", fixed(kInet)},
       {"route", asked(kernel, routes_text)},
       {"tcp", fixed(kInet)},
       {"tcp6", fixed(kInet)},
       {"udp", fixed(kInet)},
       {"udp6", fixed(kInet)},
       {"unix", fixed("Num       RefCount Protocol Flags    Type St Inode Path\n")}});
}

std::shared_ptr<const Children> children_of_root(Kernel& kernel) {
  return std::make_shared<const Children>(Children{
      {"cmdline", fixed("\n")},
      {"cpuinfo", made_text([]() -> Try<std::string> { return cpuinfo_text(); })},
      {"devices", fixed("Character devices:\n  1 mem\n  5 /dev/tty\n136 pts\n\nBlock devices:\n")},
      {"diskstats", fixed("")},
      {"filesystems", fixed("nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\nnodev\tdevpts\nnodev\toverlay\n")},
      {"interrupts", fixed("           CPU0\n")},
      {"loadavg", asked(kernel, loadavg_text)},
      {"meminfo", asked(kernel, meminfo_text)},
      {"modules", fixed("")},
      {"mounts", made_link([]() -> Try<std::string> { return "self/mounts"; })},
      {"net", network_directory(kernel)},
      {"partitions", fixed("major minor  #blocks  name\n\n")},
      {"self", own_link(kernel, false)},
      {"stat", asked(kernel, stat_text)},
      {"swaps", fixed("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")},
      {"sys", sys_directory(kernel)},
      {"thread-self", own_link(kernel, true)},
      {"uptime", asked(kernel, uptime_text)},
      {"version", fixed(version_text())},
      {"vmstat", asked(kernel, vmstat_text)}});
}

class ProcRoot final : public MadeDirectory {
 public:
  explicit ProcRoot(Kernel& kernel)
      : MadeDirectory({.device = kProcDevice, .number = 1, .permissions = 0555}, nullptr,
                      children_of_root(kernel)),
        kernel_(kernel) {}

 protected:
  Try<Child> changing_child(std::string_view name) override {
    const int id = number_of_name(name);
    if (id <= 0) return err(ENOENT);
    return process_child(kernel_, id);
  }
  Try<std::vector<Listed>> changing_names() override {
    std::vector<Listed> names;
    for (const auto& [id, process] : kernel_.processes())
      names.push_back({std::to_string(id), DT_DIR, kFirstChangingKey + id});
    return names;
  }

 private:
  Kernel& kernel_;
};

}  // namespace

NodeRef make_proc_directory(Kernel& kernel) { return std::make_shared<ProcRoot>(kernel); }

}  // namespace membrane::linux
