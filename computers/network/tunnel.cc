#include "computers/network/tunnel.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "computers/network/client_hello.h"

namespace membrane::computers {
namespace {

using host::Errno;
using host::HostError;
using linux::HostFile;
using policy::Address;
using policy::Resource;

constexpr size_t kBufferBytes = 64u << 10;
constexpr int kMostSilenceMs = 10 * 60 * 1000;

socklen_t fill(sockaddr_storage& to, const Address& address, uint16_t port) {
  if (address.is_v4()) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(to);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address.bytes().data(), sizeof v4.sin_addr);
    return sizeof v4;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(to);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(&v6.sin6_addr, address.bytes().data(), sizeof v6.sin6_addr);
  return sizeof v6;
}

// Returns 0 or the reason for which there is no connection. EINTR: everything is to stop.
int wait_for_connection(const HostFile& socket, const host::Deadline& deadline, const Stop& stop) {
  for (;;) {
    std::array<pollfd, 2> looked = {{{socket.number(), POLLOUT, 0}, {stop.descriptor(), POLLIN, 0}}};
    const uint64_t left = deadline.left_ms();
    if (left == 0) return ETIMEDOUT;
    const int found =
        ::poll(looked.data(), looked.size(), static_cast<int>(std::min<uint64_t>(left, INT_MAX)));
    if (stop.is_set()) return EINTR;
    if (found < 0 && errno != EINTR) return errno;
    if (looked[0].revents == 0) continue;
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
  }
}

// One direction of the tunnel.
class Way {
 public:
  // `server`: the side whose loss is an error. A program may close at any time.
  Way(int from, int to, int server, policy::Budget& budget, Resource paid, HelloWatch* hellos = nullptr)
      : from_(from), to_(to), server_(server), budget_(budget), paid_(paid), hellos_(hellos) {}

  void begin_with(std::string_view bytes) {
    std::ranges::copy(bytes, buffer_->begin());
    end_ = bytes.size();
    has_unpaid_ = end_ > 0;
  }
  // False when it has failed.
  bool move() {
    if (has_unpaid_ && !(may_pass() && pay(end_))) return false;
    has_unpaid_ = false;
    for (;;) {
      if (!send_all()) return false;
      if (begin_ < end_ || has_ended_) return true;
      const ssize_t got = ::recv(from_, buffer_->data(), buffer_->size(), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return true;
      if (got < 0) return loses(from_);
      begin_ = 0;
      end_ = static_cast<size_t>(got);
      if (got == 0) {
        has_ended_ = true;
        ::shutdown(to_, SHUT_WR);
      } else if (!may_pass() || !pay(end_)) {
        return false;
      }
    }
  }
  [[nodiscard]] bool wants_to_read() const { return !has_ended_ && begin_ == end_; }
  [[nodiscard]] bool wants_to_write() const { return begin_ < end_; }
  [[nodiscard]] bool is_over() const { return has_ended_ && begin_ == end_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::optional<HostError>& error() const { return error_; }

 private:
  bool fails(Errno code, std::string reason) {
    error_ = HostError{code, std::move(reason), "", true};
    return false;
  }
  bool loses(int socket) {
    return socket == server_ &&
           fails(Errno::kConnection, std::string("The connection is lost: ") + std::strerror(errno) + ".");
  }
  bool may_pass() {
    if (hellos_ == nullptr) return true;
    const Status passes = hellos_->take({buffer_->data(), end_});
    return passes || fails(Errno::kAccess, "The connection was closed: " + passes.error().message + ".");
  }
  bool pay(size_t count) {
    if (!budget_.take(paid_, count)) return fails(Errno::kBudget, std::string(policy::used_up(paid_)));
    bytes_ += count;
    return true;
  }
  bool send_all() {
    while (begin_ < end_) {
      const ssize_t sent = ::send(to_, buffer_->data() + begin_, end_ - begin_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return true;
      if (sent < 0) return loses(to_);
      begin_ += static_cast<size_t>(sent);
    }
    return true;
  }

  const int from_, to_, server_;
  policy::Budget& budget_;
  const Resource paid_;
  HelloWatch* const hellos_;
  const std::unique_ptr<std::array<char, kBufferBytes>> buffer_ =
      std::make_unique<std::array<char, kBufferBytes>>();
  size_t begin_ = 0, end_ = 0;
  bool has_ended_ = false, has_unpaid_ = false;
  uint64_t bytes_ = 0;
  std::optional<HostError> error_;
};

short events_of(const Way& reads, const Way& writes) {
  return static_cast<short>((reads.wants_to_read() ? POLLIN : 0) | (writes.wants_to_write() ? POLLOUT : 0));
}

}  // namespace

host::HostResult<HostFile> dial(const std::vector<Address>& addresses, uint16_t port,
                                const host::Deadline& deadline, const Stop& stop) {
  int why = EHOSTUNREACH;
  for (const Address& address : addresses) {
    HostFile socket(
        ::socket(address.is_v4() ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket)
      return host::refuse(Errno::kHost,
                          std::string("No socket could be created: ") + std::strerror(errno) + ".");
    sockaddr_storage to = {};
    const socklen_t size = fill(to, address, port);
    why = ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&to), size) == 0 ? 0 : errno;
    if (why == EINPROGRESS) why = wait_for_connection(socket, deadline, stop);
    if (why == 0) {
      const int on = 1;
      setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return socket;
    }
    if (why == EINTR) return host::refuse(Errno::kConnection, "The sandbox's network has ended.");
    if (why == ETIMEDOUT && deadline.passed())
      return host::refuse(Errno::kTimedOut, "The server did not answer in time.");
  }
  return host::refuse(Errno::kConnection,
                      std::string("The server cannot be reached: ") + std::strerror(why) + ".");
}

TunnelEnd relay(SocketStream& program, std::string_view first, const std::string& name,
                const HostFile& server, policy::Budget& budget, const Stop& stop) {
  HelloWatch hellos(name);
  Way out(program.descriptor(), server.number(), server.number(), budget, Resource::kBytesOut, &hellos);
  Way in(server.number(), program.descriptor(), server.number(), budget, Resource::kBytesIn);
  out.begin_with(first.substr(0, kBufferBytes));
  while (!stop.is_set() && out.move() && in.move()) {
    if (out.is_over() && in.is_over()) break;
    std::array<pollfd, 3> looked = {{{program.descriptor(), events_of(out, in), 0},
                                     {server.number(), events_of(in, out), 0},
                                     {stop.descriptor(), POLLIN, 0}}};
    // A side without wanted events would report its end again and again.
    if (looked[0].events == 0) looked[0].fd = -1;
    if (looked[1].events == 0) looked[1].fd = -1;
    const int found = ::poll(looked.data(), looked.size(), kMostSilenceMs);
    if (found == 0 || (found < 0 && errno != EINTR)) break;
  }
  return {.bytes_in = in.bytes(), .bytes_out = out.bytes(), .error = out.error() ? out.error() : in.error()};
}

}  // namespace membrane::computers
