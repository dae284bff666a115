// The messages about connections between a kernel process and its sandbox's owner, over a SOCK_SEQPACKET
// socket.
//
//   owner ─► kernel: Greeting, with a descriptor of a file that lists the reachable hosts (reachable.h),
//                    followed by the PEM certificate, if any, that programs are to trust in addition to the
//                    image's. The first greeting is sent before the kernel process gets the socket; a later
//                    one replaces it
//   kernel ─► owner: Connecting, with a descriptor, one end of a stream; or Refused, without one
//
// The receiver of a message treats it as foreign data.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace membrane::linux {

struct NetworkGreeting {
  static constexpr uint32_t kMagic = 0x324e424d;  // "MBN2"
  static constexpr uint64_t kMostHostsBytes = 2u << 20, kMostCertificateBytes = 64u << 10;
  uint32_t magic = kMagic, hosts_bytes = 0, certificate_bytes = 0;
};

enum class NetworkEvent : uint32_t {
  kConnecting,   // a program connects to the host
  kRefusedHost,  // a program's connection to an unreachable host was refused
  kRefusedName,  // a program looked up an unreachable name
};

struct NetworkMessage {
  static constexpr size_t kMostHostBytes = 253;
  NetworkEvent event = NetworkEvent::kConnecting;
  uint16_t port = 0;
  uint16_t host_bytes = 0;
  uint32_t unreported = 0;  // earlier refusals for which the socket had no room
  char host[256] = {};
};

}  // namespace membrane::linux
