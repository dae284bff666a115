// Sockets with connections: SOCK_STREAM and SOCK_SEQPACKET. Threads: the kernel's thread.
#pragma once

#include "linux/files/socket_file.h"

namespace membrane::linux {

class StreamSocket final : public SocketFile {
 public:
  using SocketFile::SocketFile;
  // Connected to `peer`, as accept() and socketpair() create it.
  StreamSocket(std::shared_ptr<SocketEnd> end, std::shared_ptr<SocketEnd> peer, const Credentials& owner);
  ~StreamSocket() override;
  short ready() override;
  Done connect(Caller& caller, const SocketAddress& to) override;
  Done listen(Caller& caller, int backlog) override;
  Try<std::shared_ptr<SocketFile>> accept(Caller& caller) override;
  Done shutdown(int how) override;
  [[nodiscard]] Try<SocketAddress> peer() const override;
  Try<size_t> send(Caller& caller, Buffer& from, const Outgoing& how) override;
  Try<Incoming> receive(Caller& caller, Buffer& to, int flags) override;
  void join(Waiter& waiter) override;

 protected:
  [[nodiscard]] Sender peer_owner() const override {
    return peer_ != nullptr && !is_inet() ? peer_->owner : SocketFile::peer_owner();
  }

 private:
  friend class FileState;  // linux/kept/file_state.h
  Try<std::shared_ptr<SocketEnd>> find_listener(Caller& caller, const SocketAddress& to,
                                                InetAddress& inet) const;
  void name_ends(SocketEnd& theirs, const SocketEnd& listener, const InetAddress& to) const;
  Done take_local_address(const InetAddress& to);
  Done connect_outside(const InetAddress& to);
  Try<size_t> send_bytes(Caller& caller, Buffer& from, FilesInFlight files);
  Try<size_t> send_packet(Caller& caller, Buffer& from, FilesInFlight files);
  // Discards bytes that nobody will receive.
  static Try<size_t> lose(Buffer& from);
  Done receive_bytes(Buffer& to, bool stays, Incoming& got);
  [[nodiscard]] bool is_stream() const { return end_->type == SOCK_STREAM; }
  std::shared_ptr<SocketEnd> peer_;  // nullptr: not connected
  bool sends_no_more_ = false;
  bool has_been_reset_ = false;             // bytes were sent to a TCP peer that had closed
  std::weak_ptr<SocketEnd> full_listener_;  // where connect() found no room
};

}  // namespace membrane::linux
