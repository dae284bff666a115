#include "linux/platform/kvm/kvm.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "linux/platform/kvm/monitor_program.h"
#include "linux/platform/trap/trap_platform.h"

namespace membrane::linux {
namespace {

constexpr int kVersion = 12;
constexpr int kLeastSlots = 480 * 16 + 2;  // tables.cc

struct Need {
  int capability, least;
  const char* what;
};
constexpr std::array<Need, 6> kNeeds = {{
    {KVM_CAP_SYNC_REGS, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS, "registers in shared memory"},
    {KVM_CAP_IMMEDIATE_EXIT, 1, "an exit at once"},
    {KVM_CAP_EXIT_ON_EMULATION_FAILURE, 1, "an exit where code cannot be fetched"},
    {KVM_CAP_XSAVE, 1, "vector states"},
    {KVM_CAP_XCRS, 1, "extended control registers"},
    {KVM_CAP_NR_MEMSLOTS, kLeastSlots, "enough slots of memory"},
}};

std::unexpected<Error> unsupported(const std::string& why, const char* fix) {
  return fail(ErrorCode::kUnsupported, "The platform \"kvm\" cannot be used: " + why + ".", fix);
}

}  // namespace

Result<HostFile> open_kvm_device() {
  if (kMonitorProgram.empty())
    return unsupported("it runs on x86-64 only", "Use a machine with such a processor.");
  HostFile device(open("/dev/kvm", O_RDWR | O_CLOEXEC));
  if (!device)
    return unsupported(
        "/dev/kvm: " + std::string(std::strerror(errno)),
        "Use a machine with virtualization, and a user who may open /dev/kvm; or use the platform \"trap\".");
  if (ioctl(device.number(), KVM_GET_API_VERSION, 0) != kVersion)
    return unsupported("/dev/kvm is of another version", "Use the platform \"trap\".");
  for (const Need& need : kNeeds) {
    const int has = ioctl(device.number(), KVM_CHECK_EXTENSION, need.capability);
    const bool is_mask = need.capability == KVM_CAP_SYNC_REGS;
    if (is_mask ? (has & need.least) != need.least : has < need.least)
      return unsupported(std::string("this host's kvm does not have ") + need.what,
                         "Use a newer host, or the platform \"trap\".");
  }
  return device;
}

Result<std::unique_ptr<Platform>> start_kvm_platform(const KvmOptions& options) {
  HostFile device;
  if (options.device >= 0) device = HostFile(fcntl(options.device, F_DUPFD_CLOEXEC, 0));
  else {
    MEMBRANE_ASSIGN(device, open_kvm_device());
  }
  if (!device)
    return fail(ErrorCode::kInvalidInput, "the descriptor of /dev/kvm is not open", "Pass one that is.");
  const TrapOptions stubs = {.spins = 0,
                             .most_threads = options.most_threads,
                             .shares_core = options.shares_core,
                             .traps_time_stamps = options.traps_time_stamps};
  return TrapPlatform::start(stubs, std::move(device));
}

}  // namespace membrane::linux
