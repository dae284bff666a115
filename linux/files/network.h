// What lies beyond a sandbox's loopback, as its sockets see it. There is none unless the sandbox's owner gives it one
// (linux/network/). Threads: the kernel's one.
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

  // Whether anything at the address can be reached. Errors: ENETUNREACH, ECONNREFUSED.
  virtual Done reaches(const InetAddress& to, int type) = 0;
  // `own` is connected to `theirs`: what the guest sends waits in `theirs`, and what it is to receive goes into `own`. A
  // loopback address is one at which no guest listens. Errors: those of reaches(), ENOBUFS when there are too many.
  virtual Done connect(const std::shared_ptr<SocketEnd>& own, const std::shared_ptr<SocketEnd>& theirs,
                       const InetAddress& to) = 0;
  // What comes back for a datagram; nothing when nobody is there.
  virtual std::optional<std::string> answer(const InetAddress& to, std::span<const std::byte> packet) = 0;
  // The certificate in PEM by which connections to what lies beyond are to be trusted, besides the image's; "" for none.
  [[nodiscard]] virtual std::string_view certificate() const { return {}; }
};

}  // namespace membrane::linux
