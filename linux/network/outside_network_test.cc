#include "linux/network/outside_network.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstring>

#include "linux/files/socket_testing.h"

namespace membrane::linux {
namespace {

// A kernel's sockets with a network, and the owner's end of it.
struct NetworkThreads {
  Sockets sockets;
  std::mutex mutex;
  std::condition_variable woken;
  int wakes = 0;
  HostFile owner;
  std::unique_ptr<OutsideNetwork> network;

  explicit NetworkThreads(std::string_view hosts) {
    network = OutsideNetwork::create([this] {
                const std::scoped_lock lock(mutex);
                ++wakes;
                woken.notify_all();
              }).value();
    HostFile kernels;
    EXPECT_TRUE(make_socket_pair(owner, kernels));
    greet(hosts);
    EXPECT_TRUE(network->attach(std::move(kernels)));
    sockets.space->network = network.get();
  }
  void greet(std::string_view hosts) const {
    HostFile text = make_memory("hosts", hosts.size());
    EXPECT_EQ(pwrite(text.number(), hosts.data(), hosts.size(), 0), static_cast<ssize_t>(hosts.size()));
    const NetworkGreeting greeting = {.hosts_bytes = static_cast<uint32_t>(hosts.size())};
    const int descriptor = text.number();
    EXPECT_TRUE(
        send_message(owner.number(), std::as_bytes(std::span(&greeting, 1)), std::span(&descriptor, 1)));
  }
  // Lets the kernel process events until `is_so` holds.
  template <typename Is>
  void until(Is is_so) {
    while (!is_so()) {
      {
        std::unique_lock lock(mutex);
        woken.wait(lock, [this] { return wakes > 0; });
        wakes = 0;
      }
      network->after_wake();
    }
  }
  struct Told {
    NetworkMessage message;
    HostFile stream;
    [[nodiscard]] std::string host() const { return {message.host, message.host_bytes}; }
  };
  Told hear() {
    Told shown;
    EXPECT_TRUE(
        receive_message(owner.number(), std::as_writable_bytes(std::span(&shown.message, 1)), &shown.stream));
    return shown;
  }
  [[nodiscard]] bool has_told() const {
    pollfd looked = {owner.number(), POLLIN, 0};
    return poll(&looked, 1, 0) == 1;
  }
  // The address of a name, resolved as a program would.
  std::optional<SocketAddress> look_up(std::string_view name, uint16_t port) {
    const SocketRef socket = sockets.make(AF_INET, SOCK_DGRAM);
    std::string query("\0\1\1\0\0\1\0\0\0\0\0\0", 12);
    for (size_t at = 0; at < name.size();) {
      const size_t dot = std::min(name.find('.', at), name.size());
      query += static_cast<char>(dot - at);
      query += name.substr(at, dot - at);
      at = dot + 1;
    }
    query += std::string("\0\0\1\0\1", 5);
    EXPECT_EQ(sockets.send(socket, query, {.to = at_v4({10, 0, 0, 53}, 53)}).value(), query.size());
    const std::string answer = sockets.receive(socket).text;
    if (answer.size() < 12 || answer[7] == 0) return {};
    std::array<uint8_t, 4> ip;
    std::memcpy(ip.data(), answer.data() + answer.size() - 4, 4);
    return at_v4(ip, port);
  }
};

std::string read_some(const HostFile& from) {
  std::array<char, 65536> bytes;
  const ssize_t got = recv(from.number(), bytes.data(), bytes.size(), 0);
  return got < 0 ? "error " + std::to_string(errno) : std::string(bytes.data(), static_cast<size_t>(got));
}

TEST(OutsideNetworkThreads, AConnectionReachesTheOwnerByItsName) {
  NetworkThreads net("example.org 80\n");
  const auto address = net.look_up("example.org", 80);
  ASSERT_TRUE(address);
  const SocketRef guest = net.sockets.connected(AF_INET, SOCK_STREAM, *address);
  const auto shown = net.hear();
  EXPECT_EQ(shown.message.event, NetworkEvent::kConnecting);
  EXPECT_EQ(shown.host(), "example.org");
  EXPECT_EQ(shown.message.port, 80);
  EXPECT_EQ(guest->peer().value().bytes, address->bytes);
  EXPECT_EQ(net.sockets.send(guest, "hello").value(), 5u);
  EXPECT_EQ(read_some(shown.stream), "hello");
  EXPECT_EQ(net.sockets.receive(guest).text, "error " + std::to_string(EAGAIN));
  EXPECT_EQ(send(shown.stream.number(), "hi", 2, 0), 2);
  net.until([&] { return (guest->ready() & POLLIN) != 0; });
  EXPECT_EQ(net.sockets.receive(guest).text, "hi");
}

TEST(OutsideNetworkThreads, EachSideMayEndFirst) {
  NetworkThreads net("127.0.0.1 80\n");
  const SocketRef guest = net.sockets.connected(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 80));
  auto shown = net.hear();
  EXPECT_EQ(shown.host(), "127.0.0.1");
  EXPECT_TRUE(net.sockets.send(guest, "all"));
  EXPECT_TRUE(guest->shutdown(SHUT_WR));
  EXPECT_EQ(read_some(shown.stream), "all");
  EXPECT_EQ(read_some(shown.stream), "");
  EXPECT_EQ(send(shown.stream.number(), "answer", 6, 0), 6);
  shown.stream.close();
  net.until([&] { return (guest->ready() & POLLHUP) != 0; });
  EXPECT_EQ(net.sockets.receive(guest).text, "answer");
  EXPECT_EQ(net.sockets.receive(guest).text, "");
  EXPECT_EQ(net.sockets.send(guest, "late").error(), EPIPE);
}

TEST(OutsideNetworkThreads, WhatAClosedSocketHasSentArrives) {
  NetworkThreads net("127.0.0.1 80\n");
  SocketRef guest = net.sockets.connected(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 80));
  const auto shown = net.hear();
  EXPECT_TRUE(net.sockets.send(guest, "bye"));
  guest.reset();
  EXPECT_EQ(read_some(shown.stream), "bye");
  EXPECT_EQ(read_some(shown.stream), "");
}

TEST(OutsideNetworkThreads, BothSidesWaitForEachOther) {
  NetworkThreads net("127.0.0.1 80\n");
  const SocketRef guest = net.sockets.connected(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 80));
  const auto shown = net.hear();
  const std::string piece(10000, 'x');
  size_t sent = 0;
  for (auto once = net.sockets.send(guest, piece); once; once = net.sockets.send(guest, piece)) sent += *once;
  EXPECT_LT(sent, 2u << 20);  // the buffers are full
  size_t read = 0;
  net.until([&] {
    std::array<char, 65536> bytes;
    for (ssize_t got = 1; got > 0;) {
      got = recv(shown.stream.number(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0) read += static_cast<size_t>(got);
    }
    return read == sent;
  });
  EXPECT_TRUE((guest->ready() & POLLOUT) != 0);

  size_t written = 0;
  for (ssize_t once = 1; once > 0;) {
    once = send(shown.stream.number(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (once > 0) written += static_cast<size_t>(once);
    net.network->after_wake();
  }
  EXPECT_LT(written, 4u << 20);
  size_t received = 0;
  net.until([&] {
    for (auto got = net.sockets.receive(guest); got.size > 0; got = net.sockets.receive(guest))
      received += got.size;
    return received == written;
  });
}

TEST(OutsideNetworkThreads, WhatIsNotGrantedIsUnreachableAndReported) {
  NetworkThreads net("example.org 80\n");
  FakeCaller& caller = net.sockets.caller;
  const SocketRef guest = net.sockets.make(AF_INET, SOCK_STREAM);
  EXPECT_EQ(guest->connect(caller, at_v4({93, 184, 216, 34}, 80)).error(), ENETUNREACH);
  auto shown = net.hear();
  EXPECT_EQ(shown.message.event, NetworkEvent::kRefusedHost);
  EXPECT_EQ(shown.host(), "93.184.216.34");
  EXPECT_FALSE(shown.stream);
  EXPECT_FALSE(net.look_up("other.org", 80));
  shown = net.hear();
  EXPECT_EQ(shown.message.event, NetworkEvent::kRefusedName);
  EXPECT_EQ(shown.host(), "other.org");
  EXPECT_EQ(guest->connect(caller, *net.look_up("example.org", 22)).error(), ECONNREFUSED);
  EXPECT_EQ(guest->connect(caller, at_v4({127, 0, 0, 1}, 80)).error(), ECONNREFUSED);
  const SocketRef packets = net.sockets.make(AF_INET, SOCK_DGRAM);
  EXPECT_EQ(net.sockets.send(packets, "x", {.to = at_v4({93, 184, 216, 34}, 443)}).error(), ENETUNREACH);
}

TEST(OutsideNetworkThreads, RefusalsAreReportedOrCounted) {
  constexpr size_t kRefusals = 3000;
  NetworkThreads net("example.org 80\n");
  const SocketRef guest = net.sockets.make(AF_INET, SOCK_STREAM);
  const auto refuse = [&] {
    EXPECT_EQ(guest->connect(net.sockets.caller, at_v4({93, 184, 216, 34}, 80)).error(), ENETUNREACH);
  };
  for (size_t i = 0; i < kRefusals; ++i) refuse();
  size_t shown = 0, counted = 0;
  const auto hear_all = [&] {
    for (; net.has_told(); ++shown) counted += net.hear().message.unreported;
  };
  hear_all();
  EXPECT_EQ(counted, 0u);
  EXPECT_LT(shown, kRefusals);  // the owner did not listen, and the socket was full
  refuse();
  hear_all();
  EXPECT_EQ(shown + counted, kRefusals + 1);
}

TEST(OutsideNetworkThreads, ThereIsABoundOfConnections) {
  NetworkThreads net("127.0.0.1 80\n");
  std::vector<SocketRef> guests;
  std::vector<NetworkThreads::Told> streams;
  for (size_t i = 0; i < OutsideNetwork::kMostConnections; ++i) {
    guests.push_back(net.sockets.connected(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 80)));
    streams.push_back(net.hear());
  }
  const SocketRef more = net.sockets.make(AF_INET, SOCK_STREAM);
  EXPECT_EQ(more->connect(net.sockets.caller, at_v4({127, 0, 0, 1}, 80)).error(), ENOBUFS);
  guests.pop_back();
  streams.back().stream.close();
  net.until([&] { return more->connect(net.sockets.caller, at_v4({127, 0, 0, 1}, 80)).has_value(); });
}

TEST(OutsideNetworkThreads, GuestsOwnListenersComeFirst) {
  NetworkThreads net("127.0.0.1 8000\n");
  const SocketRef listener = net.sockets.listening(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 8000));
  const SocketRef guest = net.sockets.connected(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 8000));
  EXPECT_TRUE(listener->accept(net.sockets.caller));
  EXPECT_FALSE(net.has_told());
}

TEST(OutsideNetworkThreads, NamesAreAnsweredOverStreamsToo) {
  NetworkThreads net("example.org 80\n");
  const SocketRef guest = net.sockets.connected(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 53));
  const std::string query("\0\x1d\0\1\1\0\0\1\0\0\0\0\0\0\7example\3org\0\0\1\0\1", 31);
  EXPECT_TRUE(net.sockets.send(guest, query.substr(0, 20)));
  EXPECT_EQ(net.sockets.receive(guest).text, "error " + std::to_string(EAGAIN));
  EXPECT_TRUE(net.sockets.send(guest, query.substr(20) + query));
  EXPECT_EQ(net.sockets.receive(guest).size, 2 * (2 + 12 + 17 + 16));
}

TEST(OutsideNetworkThreads, AnOwnerThatIsGoneRefuses) {
  NetworkThreads net("127.0.0.1 80\n");
  net.owner.close();
  const SocketRef guest = net.sockets.make(AF_INET, SOCK_STREAM);
  EXPECT_EQ(guest->connect(net.sockets.caller, at_v4({127, 0, 0, 1}, 80)).error(), ECONNREFUSED);
}

TEST(OutsideNetworkThreads, AnOwnerGrantsOtherHostsLater) {
  NetworkThreads net("example.org 80\n");
  const auto address = net.look_up("example.org", 80);
  ASSERT_TRUE(address);
  EXPECT_FALSE(net.look_up("other.org", 80));
  net.greet("other.org 80\n");
  net.until([&] { return net.look_up("other.org", 80).has_value(); });
  EXPECT_FALSE(net.look_up("example.org", 80));
  EXPECT_EQ(net.sockets.make(AF_INET, SOCK_STREAM)->connect(net.sockets.caller, *address).error(),
            ECONNREFUSED);
  net.greet("example.org 80\n");
  net.until([&] { return net.look_up("example.org", 80).has_value(); });
  EXPECT_EQ(net.look_up("example.org", 80)->bytes, address->bytes);  // a name keeps its address
}

TEST(OutsideNetworkThreads, ItsOwnNameIsItsLoopback) {
  NetworkThreads net("example.org 80\n");
  net.network->set_own_name("membrane");
  EXPECT_EQ(net.look_up("membrane", 80)->bytes, at_v4({127, 0, 0, 1}, 80).bytes);
  EXPECT_EQ(net.look_up("localhost", 80)->bytes, at_v4({127, 0, 0, 1}, 80).bytes);
  EXPECT_FALSE(net.has_told());
}

TEST(OutsideNetworkThreads, AGreetingIsCheckedBeforeItIsUsed) {
  const auto attach = [](const NetworkGreeting& greeting, int descriptor) {
    auto network = OutsideNetwork::create([] {}).value();
    HostFile ours, theirs;
    EXPECT_TRUE(make_socket_pair(ours, theirs));
    EXPECT_TRUE(send_message(ours.number(), std::as_bytes(std::span(&greeting, 1)),
                             std::span(&descriptor, descriptor >= 0 ? 1 : 0)));
    ours.close();
    return network->attach(std::move(theirs)).has_value();
  };
  const HostFile empty = make_memory("hosts", 0);
  EXPECT_TRUE(attach({.hosts_bytes = 0}, empty.number()));
  EXPECT_FALSE(attach({.hosts_bytes = 0}, -1));
  EXPECT_FALSE(attach({.magic = 1, .hosts_bytes = 0}, empty.number()));
  EXPECT_FALSE(attach({.hosts_bytes = 7}, empty.number()));
  EXPECT_FALSE(attach({.hosts_bytes = UINT32_MAX}, empty.number()));
  EXPECT_FALSE(attach({.certificate_bytes = 7}, empty.number()));
  EXPECT_FALSE(attach({.certificate_bytes = UINT32_MAX}, empty.number()));
}

}  // namespace
}  // namespace membrane::linux
