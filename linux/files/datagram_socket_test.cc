#include "linux/files/datagram_socket.h"

#include "linux/files/socket_testing.h"

namespace membrane::linux {
namespace {

TEST(DatagramSocket, IsAPairOfPackets) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_DGRAM);
  EXPECT_TRUE(sockets.send(first, "one"));
  EXPECT_TRUE(sockets.send(first, ""));
  EXPECT_TRUE(sockets.send(first, "three", {.files = {second}}));
  EXPECT_EQ(sockets.receive(second, 2, MSG_PEEK).whole_size, 3u);
  EXPECT_EQ(sockets.receive(second, 2).text, "on");
  EXPECT_EQ(sockets.receive(second).text, "");
  EXPECT_EQ(sockets.receive(second).files.size(), 1u);
  EXPECT_EQ(sockets.receive(second).text, "error 11");
  second = nullptr;
  EXPECT_EQ(sockets.send(first, "x").error(), ECONNREFUSED);
}

TEST(DatagramSocket, IsSentToByName) {
  Sockets sockets;
  auto log = sockets.make(AF_UNIX, SOCK_DGRAM);
  EXPECT_TRUE(log->bind(sockets.caller, abstract_address("log")));
  auto program = sockets.make(AF_UNIX, SOCK_DGRAM);
  EXPECT_TRUE(sockets.send(program, "line", {.to = abstract_address("log")}));
  EXPECT_EQ(sockets.receive(log).from.bytes, "");
  EXPECT_TRUE(program->bind(sockets.caller, unnamed_address(AF_UNIX)));  // the kernel chooses
  EXPECT_TRUE(program->connect(sockets.caller, abstract_address("log")));
  EXPECT_TRUE(sockets.send(program, "line"));
  const auto got = sockets.receive(log);
  EXPECT_EQ(got.from.bytes, program->name().bytes);
  EXPECT_EQ(got.from.bytes.size(), 2u + 1 + 5);
  EXPECT_TRUE(sockets.send(log, "answer", {.to = got.from}));
  EXPECT_EQ(sockets.receive(program).text, "answer");
  EXPECT_EQ(sockets.send(log, "x").error(), ENOTCONN);
  EXPECT_EQ(sockets.send(log, "x", {.to = abstract_address("nobody")}).error(), ECONNREFUSED);
}

TEST(DatagramSocket, WaitsForItsReceiver) {
  Sockets sockets;
  auto log = sockets.make(AF_UNIX, SOCK_DGRAM), program = sockets.make(AF_UNIX, SOCK_DGRAM);
  EXPECT_TRUE(log->bind(sockets.caller, abstract_address("log")));
  Try<size_t> sent = 0;
  int packets = 0;
  while ((sent = sockets.send(program, "x", {.to = abstract_address("log")}))) ++packets;
  EXPECT_EQ(sent.error(), EAGAIN);
  EXPECT_LT(packets, 1000);
  CountingWaiter waiter;
  program->join(waiter);
  EXPECT_EQ(sockets.receive(log).text, "x");
  EXPECT_GT(waiter.wakes, 0);
  EXPECT_TRUE(sockets.send(program, "x", {.to = abstract_address("log")}));
}

TEST(DatagramSocket, SendsOverTheLoopback) {
  Sockets sockets;
  auto server = sockets.make(AF_INET, SOCK_DGRAM), client = sockets.make(AF_INET, SOCK_DGRAM);
  EXPECT_TRUE(server->bind(sockets.caller, at_v4({0, 0, 0, 0}, 53)));
  EXPECT_TRUE(sockets.send(client, "query", {.to = at_v4({127, 0, 0, 1}, 53)}));
  const auto got = sockets.receive(server);
  EXPECT_EQ(got.text, "query");
  EXPECT_TRUE(sockets.send(server, "answer", {.to = got.from}));
  const auto answer = sockets.receive(client);
  EXPECT_EQ(answer.text, "answer");
  EXPECT_EQ(answer.from.bytes, at_v4({127, 0, 0, 1}, 53).bytes);
  EXPECT_EQ(sockets.send(client, "x", {.to = at_v4({8, 8, 8, 8}, 53)}).error(), ENETUNREACH);
  EXPECT_EQ(sockets.send(client, "x").error(), EDESTADDRREQ);
  EXPECT_EQ(sockets.send(client, std::string(65508, 'x'), {.to = at_v4({127, 0, 0, 1}, 53)}).error(),
            EMSGSIZE);
  EXPECT_TRUE(sockets.send(client, "lost", {.to = at_v4({127, 0, 0, 1}, 9)}));
}

TEST(DatagramSocket, LearnsThatNobodyReceivesWhenItIsConnected) {
  Sockets sockets;
  auto client = sockets.make(AF_INET6, SOCK_DGRAM);
  EXPECT_TRUE(client->connect(sockets.caller, at_v6(1, 9)));
  EXPECT_TRUE(sockets.send(client, "x"));
  EXPECT_NE(client->ready() & POLLERR, 0);
  EXPECT_EQ(sockets.receive(client).text, "error 111");
  EXPECT_EQ(sockets.receive(client).text, "error 11");
  SocketAddress none = unnamed_address(AF_UNSPEC);
  EXPECT_TRUE(client->connect(sockets.caller, none));
  EXPECT_EQ(client->peer().error(), ENOTCONN);
}

TEST(DatagramSocket, GetsNothingFromOthersThanItsPeer) {
  Sockets sockets;
  auto first = sockets.make(AF_INET, SOCK_DGRAM), second = sockets.make(AF_INET, SOCK_DGRAM);
  EXPECT_TRUE(first->bind(sockets.caller, at_v4({127, 0, 0, 1}, 5000)));
  EXPECT_TRUE(second->bind(sockets.caller, at_v4({127, 0, 0, 1}, 5001)));
  EXPECT_TRUE(first->connect(sockets.caller, at_v4({127, 0, 0, 1}, 5001)));
  auto other = sockets.make(AF_INET, SOCK_DGRAM);
  EXPECT_TRUE(sockets.send(other, "spoof", {.to = at_v4({127, 0, 0, 1}, 5000)}));
  EXPECT_EQ(sockets.receive(first).text, "error 11");
  EXPECT_TRUE(sockets.send(second, "peer", {.to = at_v4({127, 0, 0, 1}, 5000)}));
  EXPECT_EQ(sockets.receive(first).text, "peer");
}

TEST(DatagramSocket, LosesWhatItHasNoRoomForOverTheLoopback) {
  Sockets sockets;
  auto server = sockets.make(AF_INET, SOCK_DGRAM), client = sockets.make(AF_INET, SOCK_DGRAM);
  EXPECT_TRUE(server->bind(sockets.caller, at_v4({127, 0, 0, 1}, 53)));
  EXPECT_TRUE(client->connect(sockets.caller, at_v4({127, 0, 0, 1}, 53)));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(sockets.send(client, std::string(1000, 'x')));
  int count = 0;
  while (!sockets.receive(server).text.starts_with("error")) ++count;
  EXPECT_LT(count, 512);
  EXPECT_GT(count, 50);
}

TEST(DatagramSocket, IsShutDown) {
  Sockets sockets;
  auto [first, second] = sockets.pair(SOCK_DGRAM);
  EXPECT_TRUE(first->shutdown(SHUT_RDWR));
  EXPECT_EQ(sockets.receive(first).text, "");
  EXPECT_EQ(sockets.send(first, "x").error(), EPIPE);
  EXPECT_EQ(sockets.send(second, "x").error(), EPIPE);
}

TEST(SocketAddress, IsRefusedWhenItIsCut) {
  Sockets sockets;
  auto socket = sockets.make(AF_INET, SOCK_DGRAM), six = sockets.make(AF_INET6, SOCK_DGRAM),
       local = sockets.make(AF_UNIX, SOCK_DGRAM);
  SocketAddress four_bytes = at_v4({127, 0, 0, 1}, 1), six_bytes = at_v6(1, 1);
  for (size_t size = 0; size < 16; ++size) {
    SocketAddress cut = four_bytes;
    cut.bytes.resize(size);
    EXPECT_EQ(socket->bind(sockets.caller, cut).error(), EINVAL);
  }
  for (size_t size = 0; size < 24; ++size) {
    SocketAddress cut = six_bytes;
    cut.bytes.resize(size);
    EXPECT_EQ(six->bind(sockets.caller, cut).error(), EINVAL);
  }
  EXPECT_EQ(local->bind(sockets.caller, at_path(std::string(109, 'x'), nullptr)).error(), EINVAL);
  EXPECT_EQ(local->bind(sockets.caller, four_bytes).error(), EINVAL);
  EXPECT_EQ(local->bind(sockets.caller, {}).error(), EINVAL);
  EXPECT_EQ(at_path(std::string("a\0b", 3), nullptr).path(), "a");
  EXPECT_EQ(abstract_address("a").path(), std::nullopt);
}

}  // namespace
}  // namespace membrane::linux
