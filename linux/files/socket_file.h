// Sockets of AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK (netlink_socket.h). A sandbox has its loopback and,
// beyond it, what its owner grants (network.h).
// Threads: the kernel's thread.
//
// As with all files, nothing waits: connect() and accept() return EAGAIN where they would. The system calls
// handle MSG_DONTWAIT, SO_RCVTIMEO and MSG_WAITALL.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "linux/files/file.h"
#include "linux/files/socket_address.h"
#include "linux/files/socket_end.h"

namespace membrane::linux {

struct Outgoing {
  int flags = 0;                    // MSG_NOSIGNAL
  SocketAddress to = {};            // for datagrams; without bytes: the connected peer
  std::vector<FileRef> files = {};  // SCM_RIGHTS, at most kMostFilesOfMessage
};

struct Incoming {
  size_t size = 0;        // bytes moved
  size_t whole_size = 0;  // the packet's size: larger when it was truncated (MSG_TRUNC)
  SocketAddress from = {};
  std::vector<FileRef> files = {};
  Sender sender = {};             // SCM_CREDENTIALS, when passes_credentials()
  bool is_end_of_record = false;  // MSG_EOR, of SOCK_SEQPACKET
};

class SocketFile : public File {
 public:
  static constexpr size_t kMostFilesOfMessage = 253;

  SocketFile(std::shared_ptr<SocketEnd> end, const Credentials& owner);
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override;
  Try<size_t> read(Caller& caller, Buffer& to) override;
  Try<size_t> write(Caller& caller, Buffer& from) override;
  void join(Waiter& waiter) override { waiter.join(end_->changed); }
  bool can_poll() override { return true; }
  Try<int64_t> ioctl(Caller& caller, uint64_t request, uint64_t argument) override;

  [[nodiscard]] int domain() const { return end_->domain; }
  [[nodiscard]] int type() const { return end_->type; }
  // Whether bind() could name it; checked before a node is made for its path. Errors: EINVAL.
  [[nodiscard]] Done can_bind() const;
  // Errors: EINVAL, EADDRINUSE, EADDRNOTAVAIL beyond the loopback, EACCES for ports below 1024.
  virtual Done bind(Caller& caller, const SocketAddress& to);
  // Errors: ECONNREFUSED, EAGAIN while the listener's queue is full, EISCONN, EPROTOTYPE, ENETUNREACH for
  // addresses that are neither the loopback nor in SocketSpace::network.
  virtual Done connect(Caller& caller, const SocketAddress& to) = 0;
  virtual Done listen(Caller&, int /*backlog*/) { return err(EOPNOTSUPP); }
  // With no flags set. Errors: EAGAIN, EINVAL.
  virtual Try<std::shared_ptr<SocketFile>> accept(Caller&) { return err(EOPNOTSUPP); }
  // `how`: SHUT_RD, SHUT_WR, SHUT_RDWR. Errors: EINVAL, ENOTCONN.
  virtual Done shutdown(int how) = 0;
  [[nodiscard]] virtual SocketAddress name() const;
  [[nodiscard]] virtual Try<SocketAddress> peer() const = 0;  // ENOTCONN

  // A packet is sent as a whole. Errors: EAGAIN, EMSGSIZE, EPIPE, ENOTCONN, EDESTADDRREQ, ECONNREFUSED,
  // ENOBUFS, ETOOMANYREFS.
  virtual Try<size_t> send(Caller& caller, Buffer& from, const Outgoing& how) = 0;
  // `flags`: MSG_PEEK. An Incoming of size 0 is the end of a stream. Errors: EAGAIN, ENOTCONN, ECONNRESET.
  virtual Try<Incoming> receive(Caller& caller, Buffer& to, int flags) = 0;

  // A value is as long as the option: the caller of set_option() cuts longer ones, and shorter ones are
  // EINVAL. Errors: ENOPROTOOPT, EINVAL, EDOM.
  Done set_option(int level, int name, std::span<const std::byte> value);
  Try<std::vector<std::byte>> option(int level, int name);
  // SO_RCVTIMEO and SO_SNDTIMEO; zero: none.
  [[nodiscard]] std::chrono::microseconds receive_limit() const { return receive_limit_; }
  [[nodiscard]] std::chrono::microseconds send_limit() const { return send_limit_; }
  [[nodiscard]] bool passes_credentials() const { return end_->passes_credentials; }
  [[nodiscard]] SocketEnd& end() const { return *end_; }
  void on_close(Caller&) override { end_->space->expect_garbage(); }

 protected:
  Done bind_inet(Caller& caller, const InetAddress& to);
  Done bind_unix(const SocketAddress& to);
  // Binds the socket to a name that the kernel chooses, if it has none.
  Done bind_to_any();
  [[nodiscard]] bool is_inet() const { return end_->domain == AF_INET || end_->domain == AF_INET6; }
  [[nodiscard]] virtual int protocol() const;  // SO_PROTOCOL
  // The owner of the other side, for SO_PEERCRED; no process when there is none.
  [[nodiscard]] virtual Sender peer_owner() const {
    return {.process = 0, .uid = UINT32_MAX, .gid = UINT32_MAX};
  }
  Try<InetAddress> reachable(const SocketAddress& to) const;
  // Receives the first packet, dropping what does not fit. Removes the packet unless `stays`. Errors: those
  // of Buffer::put().
  Done receive_packet(Buffer& to, bool stays, Incoming& got);
  const std::shared_ptr<SocketEnd> end_;

 private:
  friend class FileState;  // linux/kept/file_state.h
  [[nodiscard]] bool has_level(int level) const;
  [[nodiscard]] bool is_tcp() const { return is_inet() && type() == SOCK_STREAM; }
  [[nodiscard]] std::vector<std::byte> connection_facts() const;  // TCP_INFO
  Try<int> int_option(int level, int name);
  Try<std::vector<std::byte>> socket_option(int name);
  Done set_int_option(int level, int name, int value);
  Done set_time_option(int name, std::span<const std::byte> value);
  NodeRef node_;
  std::map<std::pair<int, int>, int> options_;  // options that are only stored
  std::chrono::microseconds receive_limit_{0}, send_limit_{0};
  linger linger_ = {};
};

// `type` may have SOCK_NONBLOCK and SOCK_CLOEXEC (which is the descriptor's). Errors: EAFNOSUPPORT, ESOCKTNOSUPPORT, EPROTONOSUPPORT,
// EINVAL.
Try<std::shared_ptr<SocketFile>> make_socket(const std::shared_ptr<SocketSpace>& space, Caller& caller,
                                             int domain, int type, int protocol);
struct SocketPair {
  std::shared_ptr<SocketFile> first, second;
};
// Errors: EOPNOTSUPP for all but AF_UNIX.
Try<SocketPair> make_socket_pair(const std::shared_ptr<SocketSpace>& space, Caller& caller, int domain,
                                 int type, int protocol);

}  // namespace membrane::linux
