// Sockets of all kinds, named, connected, written, read and closed in any order, with arbitrary addresses and
// options.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "linux/files/anonymous_node.h"
#include "linux/files/caller_testing.h"
#include "linux/files/epoll.h"
#include "linux/files/event_file.h"
#include "linux/files/socket_file.h"

namespace {

using namespace membrane::linux;

void require(bool holds) {
  if (!holds) std::abort();
}

// The bytes that decide what to do, one after another; zeros after the end.
class Choices {
 public:
  explicit Choices(std::span<const uint8_t> bytes) : left_(bytes) {}
  [[nodiscard]] bool is_over() const { return left_.empty(); }
  uint8_t next() {
    if (left_.empty()) return 0;
    const uint8_t byte = left_.front();
    left_ = left_.subspan(1);
    return byte;
  }
  std::string bytes(size_t most) {
    const size_t size = std::min(most, left_.size());
    std::string text(reinterpret_cast<const char*>(left_.data()), size);
    left_ = left_.subspan(size);
    return text;
  }

 private:
  std::span<const uint8_t> left_;
};

struct Room {
  FakeCaller caller;
  std::shared_ptr<SocketSpace> space = std::make_shared<SocketSpace>();
  std::vector<std::shared_ptr<SocketFile>> sockets;
  std::array<NodeRef, 2> nodes = {make_anonymous_node(AnonymousDevice::kMemory, S_IFSOCK | 0755),
                                  make_anonymous_node(AnonymousDevice::kMemory, S_IFSOCK | 0755)};
  std::shared_ptr<EpollFile> epoll = make_epoll_file(0).value();

  void add(std::shared_ptr<SocketFile> socket) {
    if (sockets.size() < 16) sockets.push_back(std::move(socket));
  }
};

void make(Room& room, Choices& choices) {
  constexpr std::array kDomains = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
  constexpr std::array<int, 3> kTypes = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
  const int domain = kDomains[choices.next() % kDomains.size()], type = kTypes[choices.next() % 3];
  if (choices.next() % 2 == 0) {
    if (auto made = make_socket(room.space, room.caller, domain, type, 0)) room.add(*made);
  } else if (auto made = make_socket_pair(room.space, room.caller, domain, type, 0)) {
    room.add(made->first);
    room.add(made->second);
  }
}

SocketAddress address(Room& room, Choices& choices) {
  const uint8_t kind = choices.next();
  InetAddress inet = any_of(kind % 2 == 0 ? AF_INET : AF_INET6);
  inet.port = static_cast<uint16_t>(1024 + choices.next() % 4);
  switch (kind % 5) {
    case 0:
    case 1: return socket_address_of(loopback_like(inet), kind % 2 == 0 ? AF_INET : AF_INET6);
    case 2: return abstract_address(choices.bytes(1));
    case 3: {
      SocketAddress at = unnamed_address(AF_UNIX);
      at.bytes += "x";
      at.node = room.nodes[choices.next() % 2];
      return at;
    }
    default: return {.bytes = choices.bytes(choices.next() % 130), .node = room.nodes[0]};
  }
}

void transfer(Room& room, SocketFile& socket, Choices& choices) {
  if (choices.next() % 2 == 0) {
    Outgoing how = {.flags = MSG_NOSIGNAL};
    if (choices.next() % 2 == 0) how.to = address(room, choices);
    // No file is sent that could contain itself.
    if (choices.next() % 4 == 0) how.files.push_back(make_event_file(0, 0).value());
    const std::string bytes = socket.domain() == AF_NETLINK ? choices.bytes(choices.next())
                                                            : std::string(size_t{choices.next()} * 64, 'x');
    MemorySource source(bytes);
    const auto sent = socket.send(room.caller, source, how);
    require(!sent || *sent <= bytes.size());
    return;
  }
  std::vector<std::byte> bytes(size_t{choices.next()} * 64);
  MemoryTarget target(bytes);
  const auto got = socket.receive(room.caller, target, choices.next() % 2 == 0 ? MSG_PEEK : 0);
  require(!got || (got->size <= bytes.size() && got->size <= got->whole_size));
}

void act(Room& room, Choices& choices) {
  const size_t which = choices.next() % room.sockets.size();
  const std::shared_ptr<SocketFile> socket = room.sockets[which];
  switch (choices.next() % 10) {
    case 0: (void)socket->bind(room.caller, address(room, choices)); break;
    case 1: (void)socket->connect(room.caller, address(room, choices)); break;
    case 2: (void)socket->listen(room.caller, choices.next() % 3); break;
    case 3:
      if (auto accepted = socket->accept(room.caller)) room.add(*accepted);
      break;
    case 4: (void)socket->shutdown(choices.next() % 4); break;
    case 5: room.sockets.erase(room.sockets.begin() + static_cast<std::ptrdiff_t>(which)); break;
    case 6: {
      const int level = choices.next() % 2 == 0 ? SOL_SOCKET : choices.next() % 64,
                name = choices.next() % 80;
      const std::string value = choices.bytes(choices.next() % 20);
      (void)socket->set_option(level, name, std::as_bytes(std::span(value)));
      (void)socket->option(level, name);
      break;
    }
    case 7: {
      epoll_event event = {};
      event.events = EPOLLIN | EPOLLOUT | (choices.next() % 2 == 0 ? static_cast<uint32_t>(EPOLLET) : 0u);
      (void)room.epoll->add(choices.next() % 4, socket, event);
      std::array<epoll_event, 8> events;
      require(room.epoll->collect(events) <= events.size());
      break;
    }
    default: transfer(room, *socket, choices); break;
  }
  require((socket->ready() & POLLNVAL) == 0);
  require(!socket->name().bytes.empty());
  (void)socket->peer();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Room room;
  Choices choices(std::span(data, size));
  while (!choices.is_over()) {
    if (room.sockets.empty() || choices.next() % 8 == 0) make(room, choices);
    if (!room.sockets.empty()) act(room, choices);
  }
  return 0;
}
