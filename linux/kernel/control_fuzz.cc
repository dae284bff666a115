// Control messages of Unix sockets: files and credentials with arbitrary lengths, levels and types, sockets
// sent through themselves, and too little room for what arrives. What a program receives is well-formed, and
// its files are open.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "linux/kernel/hostile_calls_testing.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kHeader = ScriptedKernel::kScratch, kVector = kHeader + 128, kPair = kHeader + 256,
                   kBytes = kHeader + kPage, kControl = kHeader + 2 * kPage;
constexpr uint64_t kMostRoom = 6 * kPage;
constexpr std::array<uint64_t, 3> kTypes = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};

void require(bool holds) {
  if (!holds) std::abort();
}

struct Head {
  uint64_t length;
  int32_t level, type;
};

class Talk {
 public:
  explicit Talk(std::span<const uint8_t> bytes) : left_(bytes) {}

  void next(ScriptedThread& thread) {
    if (std::exchange(has_received_, false)) check(thread);
    if (opened_ < kTypes.size())
      return thread.call(SYS_socketpair, {AF_UNIX, kTypes[opened_++] | SOCK_NONBLOCK, 0, kPair});
    if (left_.empty()) return thread.call(SYS_exit_group, {0});
    const uint8_t kind = draw();
    const uint64_t socket = draw() % 12u;
    switch (kind % 8) {
      case 0: return thread.call(SYS_close, {socket});
      case 1:
        thread.put(kBytes, kind / 8 % 2);
        return thread.call(SYS_setsockopt, {socket, SOL_SOCKET, SO_PASSCRED, kBytes, 4});
      case 2: return thread.call(SYS_socketpair, {AF_UNIX, kTypes[draw() % 3] | SOCK_NONBLOCK, 0, kPair});
      case 3:
      case 4: return receive(thread, socket);
      default: return send(thread, socket);
    }
  }

 private:
  uint8_t draw() {
    if (left_.empty()) return 0;
    const uint8_t byte = left_.front();
    left_ = left_.subspan(1);
    return byte;
  }

  void put_header(ScriptedThread& thread, uint64_t bytes, uint64_t room) {
    msghdr header = {};
    header.msg_iov = reinterpret_cast<iovec*>(kVector);
    header.msg_iovlen = 1;
    header.msg_control = reinterpret_cast<void*>(kControl);
    header.msg_controllen = room;
    thread.put(kHeader, header);
    thread.put(kVector, std::array<uint64_t, 2>{kBytes, bytes});
  }

  // One message after another, the last one with an arbitrary length.
  uint64_t put_control(ScriptedThread& thread) {
    uint64_t at = 0;
    for (int left = draw() % 4; left > 0; --left) {
      const uint8_t how = draw();
      const uint64_t files = how % 16;
      Head head = {sizeof(Head) + files * 4, SOL_SOCKET, SCM_RIGHTS + how / 16 % 3};
      for (uint64_t i = 0; i < files; ++i)
        thread.put(kControl + at + sizeof head + i * 4, how >= 240 ? -draw() : draw() % 12);
      if (how / 64 == 3) head.length = how % 2 == 0 ? draw() : UINT64_MAX - draw();
      if (how == 191) head.level = draw();
      thread.put(kControl + at, head);
      at += (sizeof head + files * 4 + 7) & ~uint64_t{7};
    }
    return at;
  }

  void send(ScriptedThread& thread, uint64_t socket) {
    const uint64_t control = put_control(thread), cut = draw();
    put_header(thread, draw(), cut % 4 == 0 ? cut : control);
    thread.call(SYS_sendmsg, {socket, kHeader, MSG_NOSIGNAL});
  }

  void receive(ScriptedThread& thread, uint64_t socket) {
    room_ = draw() % 2 == 0 ? draw() : kMostRoom;
    put_header(thread, draw(), room_);
    has_received_ = true;
    thread.call(SYS_recvmsg,
                {socket, kHeader, draw() % 2 == 0 ? uint64_t{MSG_PEEK} : uint64_t{MSG_CMSG_CLOEXEC}});
  }

  void check(ScriptedThread& thread) const {
    if (thread.result() < 0) return;
    const auto header = thread.get<msghdr>(kHeader);
    require(header.msg_controllen <= room_);
    for (uint64_t at = 0; at + sizeof(Head) <= header.msg_controllen;) {
      const auto head = thread.get<Head>(kControl + at);
      require(head.length >= sizeof head && head.length <= header.msg_controllen - at &&
              head.level == SOL_SOCKET);
      if (head.type == SCM_RIGHTS) {
        const auto& open = *static_cast<const Task*>(thread.owner)->process->descriptors;
        for (uint64_t file = at + sizeof head; file + 4 <= at + head.length; file += 4)
          require(open.get(thread.get<int32_t>(kControl + file)).has_value());
      } else {
        require(head.type == SCM_CREDENTIALS);
      }
      at += (head.length + 7) & ~uint64_t{7};
    }
  }

  std::span<const uint8_t> left_;
  size_t opened_ = 0;
  uint64_t room_ = 0;
  bool has_received_ = false;
};

}  // namespace
}  // namespace membrane::linux

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::linux;
  if (size == 0) return 0;
  Talk talk(std::span(data, size).subspan(1));
  run_hostile([&](ScriptedThread& thread) { talk.next(thread); }, data[0] % 2 == 0 ? 0 : 1000);
  return 0;
}
