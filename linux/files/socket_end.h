// The parts of sockets: ends with packets that wait to be received, and the names by which ends are found.
// Threads: the kernel's thread.
#pragma once

#include <sys/socket.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "linux/files/file.h"
#include "linux/files/network.h"
#include "linux/files/socket_address.h"

namespace membrane::linux {

// struct ucred.
struct Sender {
  int process = 0;
  uint32_t uid = 0, gid = 0;
  bool operator==(const Sender&) const = default;
};
Sender sender_of(const Caller& caller);

// Files being sent: they count while this exists.
struct FilesInFlight {
  std::vector<FileRef> files;
  std::shared_ptr<void> count;
};

struct Packet {
  std::vector<std::byte> bytes;
  size_t begin = 0;  // bytes before it have been received
  FilesInFlight files;
  Sender sender;
  SocketAddress from;
  [[nodiscard]] size_t size() const { return bytes.size() - begin; }
  [[nodiscard]] size_t charge() const { return size() + kOverhead; }
  static constexpr size_t kOverhead = 512;
};

class SocketSpace;

// A socket's own part, to which its peer and its names refer. It is closed when its file ends.
struct SocketEnd {
  static constexpr size_t kUsualCapacity = 212992;
  SocketEnd(std::shared_ptr<SocketSpace> in, int of_domain, int of_type)
      : space(std::move(in)), domain(of_domain), type(of_type) {}
  ~SocketEnd();

  const std::shared_ptr<SocketSpace> space;
  const int domain, type;
  SocketAddress name;         // for AF_UNIX and AF_NETLINK; without bytes: none
  InetAddress local, remote;  // port 0: none
  Sender owner;               // the process that created, connected or listened: the peer's SO_PEERCRED
  bool reuses_address = false, reuses_port = false, only_v6 = false, passes_credentials = false;

  // -- receiving
  std::deque<Packet> packets;
  size_t charged = 0, capacity = kUsualCapacity;
  bool is_closed = false;         // nobody will receive
  bool receives_no_more = false;  // no more packets arrive: the peer stopped sending, or SHUT_RD
  int error = 0;                  // reported once
  bool is_outside = false;        // the other side of a connection that leaves the sandbox (network.h)
  bool has_peer_outside = false;
  WaitQueue changed;

  // -- listening
  bool is_listening = false;
  size_t backlog = 0;
  std::deque<std::shared_ptr<SocketEnd>> pending;  // connected ends that wait for accept()
  std::weak_ptr<SocketEnd> connected_by;           // if it is pending: its other side

  [[nodiscard]] size_t room() const { return charged < capacity ? capacity - charged : 0; }
  // Errors: ENOBUFS when all packets together are too many.
  Done add(Packet packet);
  // For a stream: like add(), but merges with the last packet where nobody can notice.
  Done append(Packet packet);
  // Removes bytes from the front packet. The packet is removed when nothing of it is left, or with `whole`.
  void drop(size_t bytes, bool whole);
  void clear();
};

// All names of a kernel's sockets, and the files being sent.
class SocketSpace {
 public:
  static constexpr size_t kMostQueuedBytes = 64u << 20, kMostFilesInFlight = 1024;
  using End = std::shared_ptr<SocketEnd>;
  Network* network = nullptr;  // the network beyond the loopback; borrowed, outlives the sockets

  // Errors: ETOOMANYREFS.
  Try<FilesInFlight> count(std::vector<FileRef> files);
  // Closes sockets that only their own packets keep alive: those on their way to themselves or to each other.
  void collect();
  // A socket was closed, so collect() may find garbage.
  void expect_garbage() { has_garbage_ |= *files_in_flight_ > 0; }
  [[nodiscard]] bool has_garbage() const { return has_garbage_; }

  // -- AF_UNIX: by abstract name or by node. Errors: EADDRINUSE.
  Done bind_abstract(const std::string& name, const End& end);
  Done bind_node(const NodeRef& node, const End& end);
  [[nodiscard]] std::string free_abstract_name();
  // nullptr when there is none.
  [[nodiscard]] End find_abstract(const std::string& name) const;
  [[nodiscard]] End find_node(const Node& node) const;

  // -- AF_INET and AF_INET6. A port of 0 is any that is free. Errors: EADDRINUSE.
  Done bind_inet(const InetAddress& address, const End& end);
  // Whether another listening end uses the address.
  [[nodiscard]] bool is_taken_for_listening(const SocketEnd& end) const;
  // The end to which packets for the address go; for streams, the one that listens.
  [[nodiscard]] End find_inet(const InetAddress& address, int type) const;

  void unbind(const SocketEnd& end);

  // -- AF_NETLINK: by port, which is another namespace. Errors: EADDRINUSE.
  Done bind_netlink(uint32_t port, const End& end);
  [[nodiscard]] uint32_t free_netlink_port(uint32_t wish);
  void unbind_netlink(uint32_t port, const SocketEnd& end);

 private:
  friend class FileState;  // linux/kept/file_state.h
  friend struct SocketEnd;
  [[nodiscard]] bool is_free(const InetAddress& address, const SocketEnd& end) const;
  std::map<std::string, std::weak_ptr<SocketEnd>> abstract_;
  std::map<const Node*, std::pair<NodeRef, std::weak_ptr<SocketEnd>>> nodes_;
  std::multimap<uint16_t, std::weak_ptr<SocketEnd>> ports_;
  std::map<uint32_t, std::weak_ptr<SocketEnd>> netlink_ports_;
  uint16_t last_port_ = 32767;
  uint32_t last_netlink_port_ = UINT32_MAX - 4096;
  uint32_t last_name_ = 0;
  size_t queued_bytes_ = 0;
  std::shared_ptr<size_t> files_in_flight_ = std::make_shared<size_t>(0);
  std::vector<std::weak_ptr<File>> sent_sockets_;  // sockets that may be in flight
  bool has_garbage_ = false;
};

}  // namespace membrane::linux
