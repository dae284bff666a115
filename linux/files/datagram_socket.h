// Sockets without connections: SOCK_DGRAM. Threads: the kernel's thread.
#pragma once

#include "linux/files/socket_file.h"

namespace membrane::linux {

class DatagramSocket final : public SocketFile {
 public:
  using End = std::shared_ptr<SocketEnd>;
  using SocketFile::SocketFile;
  // One of a pair.
  DatagramSocket(std::shared_ptr<SocketEnd> end, const std::shared_ptr<SocketEnd>& peer,
                 const Credentials& owner);
  ~DatagramSocket() override;
  short ready() override;
  void join(Waiter& waiter) override;
  // An address of AF_UNSPEC ends it.
  Done connect(Caller& caller, const SocketAddress& to) override;
  Done shutdown(int how) override;
  [[nodiscard]] Try<SocketAddress> peer() const override;
  // For AF_INET, what the receiving end has no room for is lost, as on a network.
  Try<size_t> send(Caller& caller, Buffer& from, const Outgoing& how) override;
  Try<Incoming> receive(Caller& caller, Buffer& to, int flags) override;

 protected:
  [[nodiscard]] Sender peer_owner() const override {
    const End peer = peer_.lock();
    return peer != nullptr ? peer->owner : SocketFile::peer_owner();
  }

 private:
  friend class FileState;  // linux/kept/file_state.h
  Try<End> find(const SocketAddress& to, InetAddress& inet) const;
  // The receiver of a packet: nullptr for AF_INET packets that nobody receives.
  Try<End> receiver_of(const Outgoing& how, InetAddress& inet) const;
  Done check_room(const End& receiver, size_t size);
  void take_answer(std::string_view answer, const InetAddress& from);
  void send_inet(Packet packet, const End& receiver, const InetAddress& to);
  std::weak_ptr<SocketEnd> peer_;  // of AF_UNIX
  bool is_connected_ = false;      // for AF_INET: to end_->remote; for AF_UNIX: to peer_, which may be gone
  bool sends_no_more_ = false;
  std::weak_ptr<SocketEnd> full_;  // where send() found no room
};

}  // namespace membrane::linux
