// Sockets of AF_NETLINK: programs ask for interfaces, addresses and routes (interfaces.h), and wait for
// changes that never happen. A request to change the network is EPERM.
//
// A request is answered at once, into the socket's own queue. Answers that do not fit there are lost, and the
// next receive() is ENOBUFS, as on Linux.
//
// Threads: the kernel's thread.
#pragma once

#include "linux/files/socket_file.h"

namespace membrane::linux {

class NetlinkSocket final : public SocketFile {
 public:
  NetlinkSocket(std::shared_ptr<SocketEnd> end, const Credentials& owner, int protocol);
  ~NetlinkSocket() override;
  // Errors: ESOCKTNOSUPPORT, EPROTONOSUPPORT.
  static Done check(int type, int protocol);
  [[nodiscard]] int protocol() const override { return protocol_; }
  short ready() override;

  Done bind(Caller& caller, const SocketAddress& to) override;
  // Accepts only the kernel's address, to which the socket is already connected.
  Done connect(Caller& caller, const SocketAddress& to) override;
  Done shutdown(int) override { return err(EOPNOTSUPP); }
  [[nodiscard]] SocketAddress name() const override;
  [[nodiscard]] Try<SocketAddress> peer() const override;
  Try<size_t> send(Caller& caller, Buffer& from, const Outgoing& how) override;
  Try<Incoming> receive(Caller& caller, Buffer& to, int flags) override;

 private:
  friend class FileState;  // linux/kept/file_state.h
  Done bind_to_any(Caller& caller);
  void answer_all(std::span<const std::byte> requests);
  const int protocol_;
};

}  // namespace membrane::linux
