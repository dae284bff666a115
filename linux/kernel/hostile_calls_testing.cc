#include "linux/kernel/hostile_calls_testing.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cstring>

#include "linux/kernel/call.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kScratch = ScriptedKernel::kScratch, kEnd = kScratch + ScriptedKernel::kScratchBytes;
constexpr uint64_t kNameBytes = 32;
constexpr size_t kMostTurns = 20'000;

constexpr std::array<std::string_view, 32> kPaths = {"/",
                                                     "/tmp",
                                                     "/tmp/a",
                                                     "/tmp/b",
                                                     ".",
                                                     "..",
                                                     "a",
                                                     "",
                                                     "/proc/self/fd/3",
                                                     "/proc/self/maps",
                                                     "/proc/self",
                                                     "/proc/stat",
                                                     "/proc/self/stat",
                                                     "/proc/self/smaps",
                                                     "/proc/self/mem",
                                                     "/dev/ptmx",
                                                     "/dev/pts/0",
                                                     "/dev/null",
                                                     "/dev/zero",
                                                     "/dev/full",
                                                     "/dev/tty",
                                                     "/dev/shm/x",
                                                     "/program",
                                                     "/other",
                                                     "user.name",
                                                     "/sys",
                                                     "/proc/mounts",
                                                     "/tmp/a/b/../c",
                                                     "/proc/self/cwd",
                                                     "system.posix_acl_access",
                                                     "/dev/fd/4",
                                                     "//tmp//a/"};

// A descriptor of each kind.
using Opening = void (*)(ScriptedThread&, uint64_t names);
constexpr auto kOpenings = std::to_array<Opening>({
    [](ScriptedThread& t, uint64_t names) {
      t.call(SYS_open, {names + kNameBytes, O_RDONLY | O_DIRECTORY, 0});
    },
    [](ScriptedThread& t, uint64_t names) {
      t.call(SYS_open, {names + 2 * kNameBytes, O_RDWR | O_CREAT, 0644});
    },
    [](ScriptedThread& t, uint64_t) { t.call(SYS_pipe2, {kScratch, O_NONBLOCK}); },
    [](ScriptedThread& t, uint64_t) { t.call(SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, kScratch}); },
    [](ScriptedThread& t, uint64_t) {
      t.call(SYS_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, kScratch});
    },
    [](ScriptedThread& t, uint64_t) { t.call(SYS_socket, {AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0}); },
    [](ScriptedThread& t, uint64_t names) { t.call(SYS_open, {names + 15 * kNameBytes, O_RDWR, 0}); },
    [](ScriptedThread& t, uint64_t) { t.call(SYS_epoll_create1, {0}); },
    [](ScriptedThread& t, uint64_t) { t.call(SYS_timerfd_create, {CLOCK_MONOTONIC, 0}); },
    [](ScriptedThread& t, uint64_t) { t.call(SYS_inotify_init1, {O_NONBLOCK}); },
    [](ScriptedThread& t, uint64_t names) { t.call(SYS_memfd_create, {names + 6 * kNameBytes, 2}); },
});

}  // namespace

const std::vector<uint64_t>& handled_calls() {
  static const std::vector<uint64_t> numbers = [] {
    std::vector<uint64_t> found;
    for (uint64_t number = 0; number < 512; ++number)
      if (const CallRow* const row = row_of(number); row != nullptr && row->handler != nullptr)
        found.push_back(number);
    return found;
  }();
  return numbers;
}

uint8_t HostileCalls::draw() {
  if (left_.empty()) return 0;
  const uint8_t byte = left_.front();
  left_ = left_.subspan(1);
  return byte;
}

template <typename T>
T HostileCalls::draw_number() {
  T number = 0;
  for (size_t i = 0; i < sizeof number; ++i) number = static_cast<T>(number << 8 | draw());
  return number;
}

uint64_t HostileCalls::draw_argument(const ScriptedThread& thread) {
  switch (draw() % 16) {
    case 0: return draw();
    case 1: return draw() % 24;  // a descriptor
    case 2: return static_cast<uint64_t>(AT_FDCWD);
    case 3:
    case 4: return kScratch + draw() * uint64_t{16};
    case 5:
    case 6: return kNames + draw() % kPaths.size() * kNameBytes;
    case 7: return kEnd - draw();
    case 8: return UINT64_MAX - draw();
    case 9: return 0x20000000 + draw() * kPage;  // nothing is there
    case 10: return (uint64_t{1} << (46 + draw() % 2)) - draw();
    case 11: return (uint64_t{1} << draw() % 64) - draw() % 2;
    case 12: return draw_number<uint64_t>();
    case 13: return draw_number<uint32_t>();
    case 14: return draw() * kPage;
    default: return static_cast<uint64_t>(thread.result());
  }
}

// Structures with pointers and descriptors in them.
void HostileCalls::write_memory(ScriptedThread& thread) {
  uint64_t at = kScratch + draw() * uint64_t{16};
  for (int words = draw() % 16; words > 0; --words, at += 8) {
    if (draw() % 2 == 0) {
      thread.put(at, draw_argument(thread));
    } else {  // two of 32 bits
      thread.put(at, static_cast<uint32_t>(draw_argument(thread)));
      thread.put(at + 4, static_cast<uint32_t>(draw_argument(thread)));
    }
  }
}

void HostileCalls::call(ScriptedThread& thread, uint64_t number) {
  while (draw() % 4 == 1) write_memory(thread);
  thread.registers.rsp = kScratch + draw() * uint64_t{16};
  std::array<uint64_t, 6> drawn;
  for (uint64_t& each : drawn) each = draw_argument(thread);
  thread.call(number, {drawn[0], drawn[1], drawn[2], drawn[3], drawn[4], drawn[5]});
}

bool HostileCalls::prepare(ScriptedThread& thread) {
  if (prepared_ == kOpenings.size()) return false;
  if (prepared_ == 0) {
    for (size_t i = 0; i < kPaths.size(); ++i) thread.put_text(kNames + i * kNameBytes, kPaths[i]);
  }
  kOpenings[prepared_++](thread, kNames);
  return true;
}

void HostileCalls::next(ScriptedThread& thread) {
  if (prepare(thread)) return;
  if (is_over()) return thread.call(SYS_exit_group, {0});
  const uint8_t kind = draw();
  if (kind == 255) {
    thread.stop = {.kind = StopKind::kException,
                   .signal = SIGSEGV,
                   .code = SEGV_MAPERR,
                   .address = draw_argument(thread)};
    return;
  }
  const auto& all = handled_calls();
  const size_t which = (kind % 2 * size_t{256} + draw()) % all.size();
  call(thread, kind == 254 ? draw_number<uint64_t>() : all[which]);
}

void run_hostile(const std::function<void(ScriptedThread&)>& script, uint32_t user) {
  ScriptedKernel on({.most_tasks = 8, .memory_bytes = 64u << 20, .most_files = File::alive() + 256});
  on.run(script, {.uid = user, .euid = user, .suid = user, .fsuid = user}, kMostTurns);
}

}  // namespace membrane::linux
