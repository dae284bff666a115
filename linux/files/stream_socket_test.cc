#include "linux/files/stream_socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "linux/files/socket_testing.h"

namespace membrane::linux {
namespace {

TEST(StreamSocket, IsAPairOfStreams) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_STREAM | SOCK_NONBLOCK);
  EXPECT_EQ(first->flags, O_RDWR | O_NONBLOCK);
  CountingWaiter waiter;
  second->join(waiter);
  EXPECT_EQ(sockets.send(first, "hello ").value(), 6u);
  EXPECT_EQ(waiter.wakes, 1);
  EXPECT_TRUE(write_text(*first, sockets.caller, "world"));
  int bytes = 0;
  EXPECT_TRUE(sockets.caller.ioctl(*second, FIONREAD, bytes));
  EXPECT_EQ(bytes, 11);
  EXPECT_EQ(sockets.receive(second, 100, MSG_PEEK).text, "hello world");
  EXPECT_EQ(sockets.receive(second, 3).text, "hel");
  EXPECT_EQ(read_text(*second, sockets.caller), "lo world");
  EXPECT_EQ(read_text(*second, sockets.caller), "error 11");
  EXPECT_EQ(second->ready(), POLLOUT | POLLWRNORM);
}

TEST(StreamSocket, HoldsNoMoreThanItsCapacity) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_STREAM);
  const std::string much(1 << 20, 'x');
  size_t sent = 0;
  while (const auto count = sockets.send(first, much)) sent += *count;
  EXPECT_LE(sent, SocketEnd::kUsualCapacity);
  EXPECT_GT(sent, SocketEnd::kUsualCapacity / 2);
  EXPECT_EQ(first->ready() & POLLOUT, 0);
  size_t received = 0;
  while (received < sent) received += sockets.receive(second).size;
  EXPECT_NE(first->ready() & POLLOUT, 0);
  for (int i = 0; i < 100000; ++i)  // single bytes are joined
    if (!sockets.send(first, "x")) FAIL() << i;
}

TEST(StreamSocket, EndsWhenThePeerIsGone) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_STREAM);
  EXPECT_TRUE(sockets.send(first, "last"));
  first = nullptr;
  EXPECT_EQ(second->ready(), POLLIN | POLLRDNORM | POLLRDHUP | POLLHUP | POLLOUT | POLLWRNORM);
  EXPECT_EQ(sockets.receive(second).text, "last");
  EXPECT_EQ(sockets.receive(second).text, "");
  EXPECT_EQ(sockets.send(second, "x", {.flags = MSG_NOSIGNAL}).error(), EPIPE);
  EXPECT_TRUE(sockets.caller.own_signals.empty());
  EXPECT_EQ(sockets.send(second, "x").error(), EPIPE);
  EXPECT_EQ(sockets.caller.own_signals, std::vector<int>{SIGPIPE});
}

TEST(StreamSocket, IsResetWhenThePeerDidNotReadAll) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_STREAM);
  EXPECT_TRUE(sockets.send(second, "unread"));
  first = nullptr;
  EXPECT_NE(second->ready() & POLLERR, 0);
  EXPECT_EQ(sockets.receive(second).text, "error 104");
  EXPECT_EQ(sockets.receive(second).text, "");
}

TEST(StreamSocket, IsShutDownByHalves) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_STREAM);
  EXPECT_EQ(first->shutdown(3).error(), EINVAL);
  EXPECT_TRUE(first->shutdown(SHUT_WR));
  EXPECT_EQ(sockets.receive(second).text, "");
  EXPECT_TRUE(sockets.send(second, "answer"));
  EXPECT_EQ(sockets.receive(first).text, "answer");
  EXPECT_EQ(sockets.send(first, "x").error(), EPIPE);
  EXPECT_EQ(sockets.make(AF_UNIX, SOCK_STREAM)->shutdown(SHUT_RD).error(), ENOTCONN);
}

TEST(StreamSocket, IsNotSentToWhenItsPeerReadsNoMore) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_STREAM);
  EXPECT_TRUE(sockets.send(first, "before"));
  EXPECT_TRUE(second->shutdown(SHUT_RD));
  EXPECT_EQ(sockets.send(first, "x").error(), EPIPE);
  EXPECT_EQ(sockets.receive(second).text, "before");
  EXPECT_EQ(sockets.receive(second).text, "");
}

TEST(StreamSocket, KeepsPacketsApart) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_SEQPACKET);
  EXPECT_TRUE(sockets.send(first, "one"));
  EXPECT_TRUE(sockets.send(first, "two"));
  const auto cut = sockets.receive(second, 2);
  EXPECT_EQ(cut.text, "on");
  EXPECT_EQ(cut.whole_size, 3u);
  EXPECT_TRUE(cut.is_end_of_record);
  EXPECT_EQ(sockets.receive(second).text, "two");
  EXPECT_EQ(sockets.send(first, std::string(1 << 20, 'x')).error(), EMSGSIZE);
  while (sockets.send(first, std::string(1000, 'x'))) {}
  EXPECT_EQ(sockets.send(first, std::string(1000, 'x')).error(), EAGAIN);
}

TEST(StreamSocket, IsFoundByAnAbstractName) {
  Sockets sockets;
  const SocketAddress name = abstract_address("bus");
  auto listener = sockets.listening(AF_UNIX, SOCK_STREAM, name);
  EXPECT_EQ(listener->accept(sockets.caller).error(), EAGAIN);
  EXPECT_EQ(sockets.make(AF_UNIX, SOCK_STREAM)->bind(sockets.caller, name).error(), EADDRINUSE);
  sockets.caller.process = 200;
  auto client = sockets.connected(AF_UNIX, SOCK_STREAM, name);
  EXPECT_TRUE(sockets.send(client, "early"));
  EXPECT_EQ(listener->ready(), POLLIN | POLLRDNORM);
  auto server = listener->accept(sockets.caller).value();
  EXPECT_EQ(sockets.receive(server).text, "early");
  EXPECT_TRUE(sockets.send(server, "late"));
  EXPECT_EQ(sockets.receive(client).text, "late");
  EXPECT_EQ(client->peer()->bytes, name.bytes);
  EXPECT_EQ(server->peer()->bytes, unnamed_address(AF_UNIX).bytes);
  EXPECT_EQ(server->name().bytes, name.bytes);
  Sender who;
  std::memcpy(&who, server->option(SOL_SOCKET, SO_PEERCRED)->data(), sizeof who);
  EXPECT_EQ(who.process, 200);
  std::memcpy(&who, client->option(SOL_SOCKET, SO_PEERCRED)->data(), sizeof who);
  EXPECT_EQ(who.process, 100);
  EXPECT_EQ(client->connect(sockets.caller, name).error(), EISCONN);
  listener = nullptr;
  EXPECT_EQ(sockets.make(AF_UNIX, SOCK_STREAM)->connect(sockets.caller, name).error(), ECONNREFUSED);
  EXPECT_TRUE(sockets.make(AF_UNIX, SOCK_STREAM)->bind(sockets.caller, name));
}

TEST(StreamSocket, IsFoundByANode) {
  Sockets sockets;
  const NodeRef node = make_anonymous_node(AnonymousDevice::kMemory, S_IFSOCK | 0755);
  auto listener = sockets.make(AF_UNIX, SOCK_STREAM);
  EXPECT_TRUE(listener->can_bind());
  EXPECT_EQ(listener->listen(sockets.caller, 1).error(), EINVAL);
  EXPECT_TRUE(listener->bind(sockets.caller, at_path("/run/x", node)));
  EXPECT_FALSE(listener->can_bind());
  EXPECT_EQ(listener->name().bytes, unnamed_address(AF_UNIX).bytes + std::string("/run/x\0", 7));
  EXPECT_EQ(sockets.make(AF_UNIX, SOCK_STREAM)->connect(sockets.caller, at_path("./x", node)).error(),
            ECONNREFUSED);  // it does not listen yet
  EXPECT_TRUE(listener->listen(sockets.caller, 1));
  auto client = sockets.connected(AF_UNIX, SOCK_STREAM, at_path("./x", node));
  EXPECT_EQ(client->peer()->bytes, listener->name().bytes);
  EXPECT_EQ(sockets.make(AF_UNIX, SOCK_SEQPACKET)->connect(sockets.caller, at_path("x", node)).error(),
            EPROTOTYPE);
  EXPECT_EQ(sockets.make(AF_UNIX, SOCK_STREAM)->connect(sockets.caller, at_path("x", nullptr)).error(),
            ECONNREFUSED);
}

TEST(StreamSocket, WaitsForRoomInTheQueueOfTheListener) {
  Sockets sockets;
  const SocketAddress name = abstract_address("bus");
  auto listener = sockets.listening(AF_UNIX, SOCK_STREAM, name, 0);
  auto first = sockets.connected(AF_UNIX, SOCK_STREAM, name);
  auto second = sockets.make(AF_UNIX, SOCK_STREAM);
  EXPECT_EQ(second->connect(sockets.caller, name).error(), EAGAIN);
  CountingWaiter waiter;
  second->join(waiter);
  EXPECT_TRUE(listener->accept(sockets.caller));
  EXPECT_EQ(waiter.wakes, 1);
  EXPECT_TRUE(second->connect(sockets.caller, name));
  listener = nullptr;  // it was never accepted
  EXPECT_EQ(sockets.receive(second).text, "error 104");
}

TEST(StreamSocket, IsAcceptedAlthoughTheClientIsGone) {
  Sockets sockets;
  auto listener = sockets.listening(AF_UNIX, SOCK_STREAM, abstract_address("bus"));
  auto client = sockets.connected(AF_UNIX, SOCK_STREAM, abstract_address("bus"));
  EXPECT_TRUE(sockets.send(client, "bye"));
  client = nullptr;
  auto server = listener->accept(sockets.caller).value();
  EXPECT_EQ(sockets.receive(server).text, "bye");
  EXPECT_EQ(sockets.receive(server).text, "");
  EXPECT_EQ(sockets.send(server, "x").error(), EPIPE);
}

TEST(StreamSocket, CarriesFiles) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_STREAM);
  auto passed = sockets.make(AF_UNIX, SOCK_DGRAM);
  EXPECT_TRUE(sockets.send(first, "before"));
  EXPECT_TRUE(sockets.send(first, "with", {.files = {passed, passed}}));
  EXPECT_TRUE(sockets.send(first, "after"));
  EXPECT_EQ(sockets.receive(second).text, "before");
  const auto got = sockets.receive(second);
  EXPECT_EQ(got.text, "with");
  ASSERT_EQ(got.files.size(), 2u);
  EXPECT_EQ(got.files[0], passed);
  EXPECT_EQ(got.sender.process, 100);
  EXPECT_TRUE(sockets.receive(second).files.empty());
}

TEST(StreamSocket, CarriesABoundedNumberOfFiles) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_STREAM);
  const std::vector<FileRef> many(200, sockets.make(AF_UNIX, SOCK_DGRAM));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(sockets.send(first, "x", {.files = many}));
  EXPECT_EQ(sockets.send(first, "x", {.files = many}).error(), ETOOMANYREFS);
  EXPECT_EQ(sockets.receive(second).files.size(), 200u);
  EXPECT_TRUE(sockets.send(first, "x", {.files = many}));
  EXPECT_EQ(sockets.send(first, "x", {.files = std::vector<FileRef>(254, many[0])}).error(), EINVAL);
  second = nullptr;  // what is on its way goes
  auto again = sockets.pair(SOCK_STREAM);
  EXPECT_TRUE(sockets.send(again.first, "x", {.files = many}));
}

TEST(StreamSocket, KeepsABoundedNumberOfBytes) {
  Sockets sockets;
  std::vector<SocketPair> pairs;
  const std::string much(SocketEnd::kUsualCapacity - 4096, 'x');
  Try<size_t> sent = 0;
  for (int i = 0; i < 1000 && sent; ++i) {
    pairs.push_back(sockets.pair(SOCK_SEQPACKET));
    sent = sockets.send(pairs.back().first, much);
  }
  EXPECT_EQ(sent.error(), ENOBUFS);
  pairs.erase(pairs.begin());
  EXPECT_TRUE(sockets.send(pairs.back().first, much));
}

TEST(StreamSocket, ConnectsOverTheLoopback) {
  Sockets sockets;
  auto listener = sockets.listening(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 8080));
  auto client = sockets.connected(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 8080));
  auto server = listener->accept(sockets.caller).value();
  EXPECT_TRUE(sockets.send(client, "GET /"));
  EXPECT_EQ(sockets.receive(server).text, "GET /");
  EXPECT_EQ(client->peer()->bytes, at_v4({127, 0, 0, 1}, 8080).bytes);
  EXPECT_EQ(server->name().bytes, client->peer()->bytes);
  EXPECT_EQ(server->peer()->bytes, client->name().bytes);
  const auto port = inet_address_of(client->name(), AF_INET)->port;
  EXPECT_GE(port, 32768);
  EXPECT_EQ(sockets.connected(AF_INET, SOCK_STREAM, at_v4({0, 0, 0, 0}, 8080))->peer()->bytes,
            client->peer()->bytes);
  client = nullptr;
  EXPECT_EQ(server->ready(), POLLIN | POLLRDNORM | POLLRDHUP | POLLOUT | POLLWRNORM);
  EXPECT_EQ(sockets.receive(server).text, "");
}

TEST(StreamSocket, ConnectsIpv4ToAListenerOfBoth) {
  Sockets sockets;
  auto listener = sockets.listening(AF_INET6, SOCK_STREAM, at_v6(0, 8080));
  auto four = sockets.connected(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 8080));
  auto six = sockets.connected(AF_INET6, SOCK_STREAM, at_v6(1, 8080));
  auto of_four = listener->accept(sockets.caller).value();
  EXPECT_EQ(of_four->domain(), AF_INET6);
  EXPECT_TRUE(inet_address_of(*of_four->peer(), AF_INET6)->is_v4());
  EXPECT_EQ(listener->accept(sockets.caller).value()->peer()->bytes, six->name().bytes);
  EXPECT_EQ(sockets.make(AF_INET, SOCK_STREAM)->bind(sockets.caller, at_v4({0, 0, 0, 0}, 8080)).error(),
            EADDRINUSE);
  auto only_six = sockets.make(AF_INET6, SOCK_STREAM);
  const int yes = 1;
  EXPECT_TRUE(only_six->set_option(IPPROTO_IPV6, IPV6_V6ONLY, std::as_bytes(std::span(&yes, 1))));
  EXPECT_TRUE(only_six->bind(sockets.caller, at_v6(0, 9090)));
  EXPECT_TRUE(only_six->listen(sockets.caller, 1));
  EXPECT_EQ(sockets.make(AF_INET, SOCK_STREAM)->connect(sockets.caller, at_v4({127, 0, 0, 1}, 9090)).error(),
            ECONNREFUSED);
  EXPECT_TRUE(sockets.make(AF_INET, SOCK_STREAM)->bind(sockets.caller, at_v4({127, 0, 0, 1}, 9090)));
}

TEST(StreamSocket, HasNoNetworkButTheLoopback) {
  Sockets sockets;
  auto socket = sockets.make(AF_INET, SOCK_STREAM);
  EXPECT_EQ(socket->connect(sockets.caller, at_v4({10, 0, 0, 1}, 80)).error(), ENETUNREACH);
  EXPECT_EQ(socket->connect(sockets.caller, at_v4({127, 0, 0, 1}, 80)).error(), ECONNREFUSED);
  EXPECT_EQ(socket->connect(sockets.caller, abstract_address("x")).error(), EINVAL);
  EXPECT_EQ(socket->bind(sockets.caller, at_v4({10, 0, 0, 1}, 80)).error(), EADDRNOTAVAIL);
  EXPECT_EQ(sockets.make(AF_INET6, SOCK_STREAM)->connect(sockets.caller, at_v6(2, 80)).error(), ENETUNREACH);
  sockets.caller.who.fsuid = 1000;
  EXPECT_EQ(socket->bind(sockets.caller, at_v4({127, 0, 0, 1}, 80)).error(), EACCES);
  EXPECT_EQ(sockets.send(socket, "x").error(), EPIPE);
  EXPECT_EQ(sockets.receive(socket).text, "error 107");
  EXPECT_EQ(socket->peer().error(), ENOTCONN);
  EXPECT_EQ(socket->ready(), POLLOUT | POLLWRNORM | POLLHUP);
}

TEST(StreamSocket, SharesPortsAsItsOptionsSay) {
  Sockets sockets;
  const int yes = 1;
  const auto reusing = [&](int option) {
    auto made = sockets.make(AF_INET, SOCK_STREAM);
    EXPECT_TRUE(made->set_option(SOL_SOCKET, option, std::as_bytes(std::span(&yes, 1))));
    return made;
  };
  const SocketAddress at = at_v4({127, 0, 0, 1}, 7000);
  auto first = reusing(SO_REUSEADDR), second = reusing(SO_REUSEADDR);
  EXPECT_TRUE(first->bind(sockets.caller, at));
  EXPECT_TRUE(second->bind(sockets.caller, at));
  EXPECT_TRUE(first->listen(sockets.caller, 1));
  EXPECT_EQ(second->listen(sockets.caller, 1).error(), EADDRINUSE);
  EXPECT_EQ(reusing(SO_REUSEADDR)->bind(sockets.caller, at).error(), EADDRINUSE);
  EXPECT_TRUE(sockets.make(AF_INET, SOCK_STREAM)->bind(sockets.caller, at_v4({127, 0, 0, 2}, 7000)));
  first = second = nullptr;
  EXPECT_TRUE(sockets.make(AF_INET, SOCK_STREAM)->bind(sockets.caller, at));
}

TEST(Socket, IsMadeOfSupportedKindsOnly) {
  Sockets sockets;
  const auto error = [&](int domain, int type, int protocol) {
    const auto made = make_socket(sockets.space, sockets.caller, domain, type, protocol);
    return made ? 0 : made.error();
  };
  EXPECT_EQ(error(AF_PACKET, SOCK_DGRAM, 0), EAFNOSUPPORT);
  EXPECT_EQ(error(AF_INET, SOCK_RAW, 1), ESOCKTNOSUPPORT);
  EXPECT_EQ(error(AF_INET, SOCK_SEQPACKET, 0), ESOCKTNOSUPPORT);
  EXPECT_EQ(error(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
  EXPECT_EQ(error(AF_INET, SOCK_STREAM | 0x100, 0), EINVAL);
  EXPECT_EQ(error(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP), 0);
  EXPECT_EQ(make_socket_pair(sockets.space, sockets.caller, AF_INET, SOCK_STREAM, 0).error(), EOPNOTSUPP);
}

TEST(Socket, HasOptions) {
  Sockets sockets;
  auto socket = sockets.make(AF_INET, SOCK_STREAM);
  const auto number = [&](int level, int name) {
    const auto value = socket->option(level, name);
    if (!value) return -value.error();
    int got = 0;
    std::memcpy(&got, value->data(), sizeof got);
    return got;
  };
  const auto set = [&](int level, int name, auto value) {
    const Done done = socket->set_option(level, name, std::as_bytes(std::span(&value, 1)));
    return done ? 0 : done.error();
  };
  EXPECT_EQ(number(SOL_SOCKET, SO_TYPE), SOCK_STREAM);
  EXPECT_EQ(number(SOL_SOCKET, SO_DOMAIN), AF_INET);
  EXPECT_TRUE(socket->option(SOL_SOCKET, SO_BINDTODEVICE)->empty());
  EXPECT_EQ(number(SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
  EXPECT_EQ(number(SOL_SOCKET, SO_ERROR), 0);
  EXPECT_EQ(number(IPPROTO_TCP, 1), 0);  // TCP_NODELAY
  EXPECT_EQ(set(IPPROTO_TCP, 1, 1), 0);
  EXPECT_EQ(number(IPPROTO_TCP, 1), 1);
  EXPECT_EQ(set(SOL_SOCKET, SO_RCVBUF, INT32_MAX), 0);
  EXPECT_EQ(number(SOL_SOCKET, SO_RCVBUF), 425984);
  EXPECT_EQ(set(SOL_SOCKET, SO_RCVBUF, INT32_MIN), 0);
  EXPECT_EQ(number(SOL_SOCKET, SO_RCVBUF), 2304);
  EXPECT_EQ(set(SOL_SOCKET, SO_RCVTIMEO, timeval{.tv_sec = 2, .tv_usec = 5}), 0);
  EXPECT_EQ(socket->receive_limit().count(), 2'000'005);
  EXPECT_EQ(set(SOL_SOCKET, SO_SNDTIMEO, timeval{.tv_sec = INT64_MAX, .tv_usec = 5}), 0);
  EXPECT_GT(socket->send_limit().count(), 0);
  EXPECT_EQ(set(SOL_SOCKET, SO_RCVTIMEO, timeval{.tv_sec = 0, .tv_usec = 1'000'000}), EDOM);
  EXPECT_EQ(set(SOL_SOCKET, SO_RCVTIMEO, 1), EINVAL);
  EXPECT_EQ(set(SOL_SOCKET, 9999, 1), ENOPROTOOPT);
  EXPECT_EQ(number(1234, 1), -ENOPROTOOPT);
  EXPECT_EQ(set(SOL_SOCKET, SO_REUSEADDR, 'c'), EINVAL);
}

TEST(StreamSocket, TcpLosesItsFirstBytesToAPeerThatHasClosed) {
  Sockets sockets;
  const SocketRef listener = sockets.listening(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 4000));
  const SocketRef client = sockets.connected(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 4000));
  SocketRef server = listener->accept(sockets.caller).value();
  server.reset();
  EXPECT_EQ(sockets.send(client, "lost").value(), 4u);
  EXPECT_EQ(sockets.send(client, "x", {.flags = MSG_NOSIGNAL}).error(), EPIPE);
}

// -- sockets on their way

// Whether a socket that is garbage, and its peer, are closed by collect().
TEST(StreamSocket, OneThatIsOnItsWayToItselfIsClosed) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_STREAM | SOCK_NONBLOCK);
  ASSERT_TRUE(sockets.send(first, "x", {.files = {second}}));
  const std::weak_ptr<SocketFile> gone = second;
  sockets.space->collect();
  EXPECT_FALSE(gone.expired()) << "it is open here still";
  second.reset();
  EXPECT_FALSE(gone.expired());
  sockets.space->collect();
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(first->ready() & POLLHUP, POLLHUP);
}

TEST(StreamSocket, SocketsOnTheirWayToEachOtherAreClosed) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_STREAM | SOCK_NONBLOCK);
  auto [third, fourth] = sockets.pair(SOCK_STREAM | SOCK_NONBLOCK);
  ASSERT_TRUE(sockets.send(first, "x", {.files = {fourth}}));  // waits at second
  ASSERT_TRUE(sockets.send(third, "x", {.files = {second}}));  // waits at fourth
  second.reset();
  fourth.reset();
  sockets.space->collect();
  EXPECT_EQ(first->ready() & POLLHUP, POLLHUP);
  EXPECT_EQ(third->ready() & POLLHUP, POLLHUP);
}

TEST(StreamSocket, WhatWaitsAtAnOpenSocketStays) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_STREAM | SOCK_NONBLOCK);
  auto [third, fourth] = sockets.pair(SOCK_STREAM | SOCK_NONBLOCK);
  ASSERT_TRUE(sockets.send(first, "x", {.files = {fourth}}));
  ASSERT_TRUE(
      sockets.send(third, "y", {.files = {fourth}}));  // waits at itself, too, to be received from second
  fourth.reset();
  sockets.space->collect();
  EXPECT_EQ(third->ready() & POLLHUP, 0);
  auto got = sockets.receive(second);
  ASSERT_EQ(got.files.size(), 1u);
  got.files.clear();
  sockets.space->collect();
  EXPECT_EQ(third->ready() & POLLHUP, POLLHUP);
}

TEST(StreamSocket, NoNumberOfLostSocketsUsesUpThoseOnTheirWay) {
  Sockets sockets;
  for (size_t i = 0; i < 2 * SocketSpace::kMostFilesInFlight; ++i) {
    auto [first, second] = sockets.pair(SOCK_STREAM | SOCK_NONBLOCK);
    ASSERT_TRUE(sockets.send(first, "x", {.files = {second}}));
  }
  sockets.space->collect();  // those that came after the last time
}

TEST(Socket, ReportsItsConnection) {
  Sockets sockets;
  const auto facts_of = [](const SocketRef& socket) {
    tcp_info facts = {};
    const auto bytes = socket->option(IPPROTO_TCP, TCP_INFO).value();
    EXPECT_EQ(bytes.size(), sizeof facts);
    std::memcpy(&facts, bytes.data(), std::min(bytes.size(), sizeof facts));
    return facts;
  };
  auto server = sockets.listening(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 4000));
  auto client = sockets.connected(AF_INET, SOCK_STREAM, at_v4({127, 0, 0, 1}, 4000));
  EXPECT_EQ(facts_of(server).tcpi_state, TCP_LISTEN);
  EXPECT_EQ(facts_of(client).tcpi_state, TCP_ESTABLISHED);
  EXPECT_EQ(facts_of(sockets.make(AF_INET6, SOCK_STREAM)).tcpi_state, TCP_CLOSE);
  const auto control = client->option(IPPROTO_TCP, TCP_CONGESTION).value();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(control.data())), "cubic");
  EXPECT_TRUE(client->set_option(IPPROTO_TCP, TCP_CONGESTION, std::as_bytes(std::span("reno", 4))));
  EXPECT_EQ(client->set_option(IPPROTO_TCP, TCP_CONGESTION, std::as_bytes(std::span("bbr", 3))).error(),
            ENOENT);
  EXPECT_EQ(client->set_option(IPPROTO_TCP, TCP_CONGESTION, {}).error(), ENOENT);
  EXPECT_EQ(sockets.make(AF_UNIX, SOCK_STREAM)->option(IPPROTO_TCP, TCP_INFO).error(), ENOPROTOOPT);
  EXPECT_TRUE(client->option(SOL_SOCKET, SO_MARK));
  EXPECT_TRUE(client->option(SOL_SOCKET, SO_DEBUG));
  EXPECT_TRUE(client->option(IPPROTO_TCP, TCP_LINGER2));
}

}  // namespace
}  // namespace membrane::linux
