// The state of a kept sandbox with bytes changed, removed and inserted: it is refused, or the sandbox
// resumes, whatever its processes then do.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "linux/files/devices.h"
#include "linux/kept/kept.h"
#include "linux/kernel/hostile_calls_testing.h"
#include "linux/platform/trap/host_file.h"
#include "linux/proc/mounts.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kTurns = 400;

// A process that has opened a file of each kind, and a waiting child.
struct Base {
  std::vector<std::byte> file;  // as it was written
  uint64_t state_at = 0;

  Base() {
    ScriptedKernel on({.most_tasks = 8, .memory_bytes = 64u << 20, .most_files = File::alive() + 512});
    HostileCalls calls({});
    bool has_forked = false;
    const auto script = [&](ScriptedThread& thread) {
      if (calls.prepare(thread)) return;
      if (!std::exchange(has_forked, true)) return thread.call(SYS_fork);
      thread.call(SYS_pause);
    };
    on.run(script, {}, kTurns);
    on.kernel->freeze();
    const HostFile kept(memfd_create("kept", MFD_CLOEXEC));
    if (!keep_sandbox(*on.kernel, {}, "", kept.number())) std::abort();
    const auto opened = KeptFile::open(kept.number());
    const std::span<const std::byte> bytes = opened->pages()->bytes();
    file.assign(bytes.begin(), bytes.end());
    KeptHeader header;
    std::memcpy(&header, file.data(), sizeof header);
    state_at = header.state_at;
  }
};

// Each change: its position (3 bytes), its kind (1), and its bytes.
std::vector<std::byte> changed(std::span<const std::byte> base, std::span<const uint8_t>& data) {
  std::vector<std::byte> state(base.begin(), base.end());
  while (data.size() >= 5 && data[3] % 8 < 6) {
    const size_t at = (data[0] | data[1] << 8 | data[2] << 16) % (state.size() + 1);
    const auto where = state.begin() + static_cast<ptrdiff_t>(at);
    const uint8_t what = data[3] % 8, length = static_cast<uint8_t>(1 + data[4] % 8);
    const auto bytes = std::as_bytes(data.subspan(5).first(std::min<size_t>(length, data.size() - 5)));
    if (what < 3) std::copy_n(bytes.begin(), std::min<size_t>(bytes.size(), state.size() - at), where);
    else if (what < 5) state.insert(where, bytes.begin(), bytes.end());
    else state.erase(where, where + static_cast<ptrdiff_t>(std::min<size_t>(length, state.size() - at)));
    data = data.subspan(5 + bytes.size());
  }
  return state;
}

void go_on(const KeptFile& kept, std::span<const uint8_t> rest) {
  auto platform = std::make_unique<ScriptedPlatform>();
  HostileCalls calls(rest);
  platform->script = [&calls](ScriptedThread& thread) {
    if (calls.is_over()) return thread.call(SYS_exit_group, {0});
    calls.next(thread);
  };
  const auto devices = std::make_shared<Devices>(std::make_shared<Entropy>(1));
  auto tree = restore_tree(kept, {.most_bytes = 16u << 20, .most_nodes = 10'000, .devices = devices});
  if (!tree) return;
  Kernel kernel({.platform = std::move(platform),
                 .root = tree->root,
                 .limits = {.most_tasks = 8, .memory_bytes = 64u << 20, .most_files = File::alive() + 512},
                 .clock = std::make_shared<GuestClock>(1000),
                 .entropy = std::make_shared<Entropy>(1)});
  if (!mount_system_directories(kernel, devices)) return;
  std::vector<KeptCommand> commands;
  if (!restore_processes(kernel, kept, *tree, commands)) return;
  const HostFile again(memfd_create("again", MFD_CLOEXEC));
  if (!keep_sandbox(kernel, commands, "", again.number())) std::abort();
  kernel.thaw();
  uint64_t turns = kTurns;
  kernel.run_while([&] { return turns-- > 0; });
}

}  // namespace
}  // namespace membrane::linux

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::linux;
  static const Base base;
  std::span<const uint8_t> left(data, size);
  const auto pages = std::span(base.file).first(base.state_at);
  const auto state = changed(std::span(base.file).subspan(base.state_at), left);
  const HostFile file(memfd_create("changed", MFD_CLOEXEC));
  if (pwrite(file.number(), pages.data(), pages.size(), 0) != static_cast<ssize_t>(pages.size())) return 0;
  KeptHeader header;
  std::memcpy(&header, base.file.data(), sizeof header);
  if (!write_state(file.number(), base.state_at, state, header)) return 0;
  const auto kept = KeptFile::open(file.number());
  if (kept) go_on(*kept, left);
  return 0;
}
