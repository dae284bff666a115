// Addresses of sockets, as guests write them (struct sockaddr) and as the kernel compares them. Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "linux/abi/answer.h"
#include "linux/fs/node.h"

namespace membrane::linux {

// An address that a guest passed or receives. For an AF_UNIX socket whose name is a path, the caller finds
// the node: bind() makes it (S_IFSOCK), connect() and sendto() walk to it.
struct SocketAddress {
  static constexpr size_t kMostBytes = 128;
  std::string bytes;  // struct sockaddr including the family; empty: none
  NodeRef node = nullptr;
  // 0 when there is none.
  [[nodiscard]] int family() const;
  // The path of an address of AF_UNIX; nullopt for an abstract name, for none, and for other families.
  [[nodiscard]] std::optional<std::string> path() const;
};

// The sandbox's own address on the network that its owner grants (interfaces.h): 198.18.0.1. No name resolves
// to it (linux/network/reachable.h).
constexpr std::array<uint8_t, 4> kOwnAddress = {198, 18, 0, 1};

// An AF_INET or AF_INET6 address. IPv4 addresses are stored as ::ffff:a.b.c.d.
struct InetAddress {
  std::array<uint8_t, 16> ip = {};
  uint16_t port = 0;
  [[nodiscard]] bool is_v4() const;
  [[nodiscard]] bool is_any() const;  // 0.0.0.0 or ::
  // 127.0.0.0/8, ::1 or kOwnAddress: addresses that lead back into the sandbox.
  [[nodiscard]] bool is_loopback() const;
  bool operator==(const InetAddress&) const = default;
};
InetAddress any_of(int domain);                         // port 0
InetAddress loopback_like(const InetAddress& address);  // 127.0.0.1 or ::1, with the same port

// Errors: EINVAL when it is too short; EAFNOSUPPORT for a family other than the socket's.
Try<InetAddress> inet_address_of(const SocketAddress& address, int domain);
SocketAddress socket_address_of(const InetAddress& address, int domain);

// The key by which AF_UNIX sockets are found. Errors: EINVAL.
struct UnixName {
  std::string abstract;     // without its zero
  bool is_path = false;     // the address has a node
  bool is_unnamed = false;  // only a family: bind() chooses a name
};
Try<UnixName> unix_name_of(const SocketAddress& address);
SocketAddress abstract_address(std::string_view name);
SocketAddress unnamed_address(int domain);

}  // namespace membrane::linux
