// What lies beyond a sandbox's loopback, as its sockets see it. There is nothing unless the sandbox's owner
// grants a network (linux/network/). Threads: the kernel's thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "linux/abi/answer.h"
#include "linux/files/socket_address.h"

namespace membrane::linux {

struct SocketEnd;

class Network {
 public:
  virtual ~Network() = default;

  // Whether the address can be reached. Errors: ENETUNREACH, ECONNREFUSED.
  virtual Done reaches(const InetAddress& to, int type) = 0;
  // Connects `own` to `theirs`: what the guest sends waits in `theirs`, and what it receives comes from
  // `own`. A loopback address is one at which no guest listens. Errors: those of reaches(); ENOBUFS when
  // there are too many connections.
  virtual Done connect(const std::shared_ptr<SocketEnd>& own, const std::shared_ptr<SocketEnd>& theirs,
                       const InetAddress& to) = 0;
  // The reply to a datagram; nothing when nobody answers.
  virtual std::optional<std::string> answer(const InetAddress& to, std::span<const std::byte> packet) = 0;
  // The PEM certificate by which programs trust connections beyond the sandbox, in addition to the image's
  // certificates; "" for none.
  [[nodiscard]] virtual std::string_view certificate() const { return {}; }
};

}  // namespace membrane::linux
