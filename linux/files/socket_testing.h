// Helpers shared by the tests of sockets.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <memory>
#include <string>

#include "linux/files/anonymous_node.h"
#include "linux/files/caller_testing.h"
#include "linux/files/socket_file.h"

namespace membrane::linux {

using SocketRef = std::shared_ptr<SocketFile>;

inline SocketAddress at_path(std::string_view path, const NodeRef& node) {
  SocketAddress address = unnamed_address(AF_UNIX);
  address.bytes += path;
  address.node = node;
  return address;
}

// "127.0.0.1" or such is four numbers; `ip` of AF_INET6 is sixteen.
inline SocketAddress at_v4(std::array<uint8_t, 4> ip, uint16_t port) {
  InetAddress address = any_of(AF_INET);
  std::copy(ip.begin(), ip.end(), address.ip.begin() + 12);
  address.port = port;
  return socket_address_of(address, AF_INET);
}
inline SocketAddress at_v6(uint8_t last, uint16_t port) {
  InetAddress address;
  address.ip[15] = last;
  address.port = port;
  return socket_address_of(address, AF_INET6);
}

struct Sockets {
  FakeCaller caller;
  std::shared_ptr<SocketSpace> space = std::make_shared<SocketSpace>();
  SocketRef make(int domain, int type) { return make_socket(space, caller, domain, type, 0).value(); }
  SocketPair pair(int type) { return make_socket_pair(space, caller, AF_UNIX, type, 0).value(); }
  SocketRef listening(int domain, int type, const SocketAddress& at, int backlog = 5) {
    SocketRef made = make(domain, type);
    EXPECT_TRUE(made->bind(caller, at));
    EXPECT_TRUE(made->listen(caller, backlog));
    return made;
  }
  SocketRef connected(int domain, int type, const SocketAddress& to) {
    SocketRef made = make(domain, type);
    EXPECT_TRUE(made->connect(caller, to));
    return made;
  }
  Try<size_t> send(const SocketRef& socket, std::string_view text, Outgoing how = {}) {
    MemorySource source(text);
    return socket->send(caller, source, how);
  }
  // What was received; `text` is its bytes, or "error N".
  struct Received : Incoming {
    std::string text;
  };
  Received receive(const SocketRef& socket, size_t most = 65536, int flags = 0) {
    Received got;
    got.text.resize(most);
    MemoryTarget target(std::as_writable_bytes(std::span(got.text)));
    auto incoming = socket->receive(caller, target, flags);
    if (!incoming) {
      got.text = "error " + std::to_string(incoming.error());
      return got;
    }
    static_cast<Incoming&>(got) = std::move(*incoming);
    got.text.resize(got.size);
    return got;
  }
};

}  // namespace membrane::linux
