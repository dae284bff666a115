// What a kernel process and its sandbox's owner say to each other about connections, over a SOCK_SEQPACKET socket.
//
//   owner ─► kernel: Greeting, with a descriptor: a file whose text says which hosts are reachable (reachable.h), and after it has the
//                    certificate in PEM that programs are to trust besides the image's, where there is one. The first greeting is
//                    there before the kernel process has the socket; another one takes its place
//   kernel ─► owner: Connecting, with a descriptor: one end of a stream; or Refused, without
//
// All of it is foreign data to whoever receives it.
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
  kRefusedHost,  // a program connected to what is not reachable, and was told so
  kRefusedName,  // a program asked for the address of a name that is not reachable
};

struct NetworkMessage {
  static constexpr size_t kMostHostBytes = 253;
  NetworkEvent event = NetworkEvent::kConnecting;
  uint16_t port = 0;
  uint16_t host_bytes = 0;
  uint32_t untold = 0;  // refusals before this message for which the socket had no room
  char host[256] = {};
};

}  // namespace membrane::linux
