#include "linux/network/outside_network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "linux/files/socket_end.h"
#include "linux/network/dns.h"

namespace membrane::linux {
namespace {

constexpr uint16_t kDnsPort = 53;
constexpr size_t kMostPiece = 65536;
constexpr uint64_t kOwner = UINT64_MAX;  // a reserved connection number

Status unavailable() {
  return fail(ErrorCode::kUnavailable,
              std::string("the sandbox's network cannot be made: ") + std::strerror(errno));
}

std::string text_of(const InetAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.is_v4()) inet_ntop(AF_INET, &address.ip[12], text, sizeof text);
  else inet_ntop(AF_INET6, address.ip.data(), text, sizeof text);
  return text;
}

}  // namespace

// The peer of a guest's socket: it is woken when the guest has sent, received or closed.
class OutsideNetwork::Connection : public Waiter {
 public:
  Connection(std::shared_ptr<SocketEnd> own, std::shared_ptr<SocketEnd> theirs)
      : own_(std::move(own)), theirs_(std::move(theirs)) {
    join(theirs_->changed);
  }
  // The guest's socket has lost its peer.
  ~Connection() override {
    leave();
    theirs_->is_closed = true;
    theirs_->clear();
    own_->receives_no_more = true;
    own_->changed.wake();
  }
  virtual void after_poll() {}
  void on_wake() override {
    if (!is_over_) pump();
  }
  [[nodiscard]] bool is_over() const { return is_over_; }

 protected:
  virtual void pump() = 0;
  void end() { is_over_ = true; }
  const std::shared_ptr<SocketEnd> own_, theirs_;

 private:
  bool is_over_ = false;
};

class OutsideNetwork::Bridge final : public Connection {
 public:
  Bridge(std::shared_ptr<SocketEnd> own, std::shared_ptr<SocketEnd> theirs, HostFile socket, int poller,
         uint64_t number)
      : Connection(std::move(own), std::move(theirs)),
        socket_(std::move(socket)),
        poller_(poller),
        number_(number) {}

  void after_poll() override {
    armed_ = 0;
    if (!is_over()) pump();
  }

  void pump() override {
    const bool was_aborted = theirs_->error == ECONNRESET;  // the guest closed it with unread bytes
    if (was_aborted || !send_all()) return end();
    receive_all();
    if (has_sent_end_ && (has_received_end_ || own_->is_closed) && theirs_->packets.empty()) return end();
    arm();
  }

 private:
  // False when nobody will receive.
  bool send_all() {
    bool has_sent = false;
    while (!theirs_->packets.empty()) {
      const Packet& packet = theirs_->packets.front();
      const ssize_t sent = ::send(socket_.number(), packet.bytes.data() + packet.begin, packet.size(),
                                  MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) break;
      if (sent < 0) {
        fail_guest(ECONNRESET);
        return false;
      }
      theirs_->drop(static_cast<size_t>(sent), false);
      has_sent = true;
    }
    if (has_sent) own_->changed.wake();  // it waits there for room
    if (theirs_->packets.empty() && theirs_->receives_no_more && !has_sent_end_) {
      has_sent_end_ = true;
      ::shutdown(socket_.number(), SHUT_WR);
    }
    return true;
  }

  [[nodiscard]] size_t room() const {
    if (has_received_end_) return 0;
    if (own_->is_closed) return kMostPiece;  // read, and dropped
    const size_t room = own_->room();
    return room > Packet::kOverhead ? std::min(room - Packet::kOverhead, kMostPiece) : 0;
  }

  void receive_all() {
    bool has_changed = false;
    while (const size_t most = room()) {
      Packet packet;
      packet.bytes.resize(most);
      const ssize_t got = ::recv(socket_.number(), packet.bytes.data(), most, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) break;
      has_changed = true;
      if (got < 0) own_->error = ECONNRESET;
      if (got <= 0) {
        has_received_end_ = own_->receives_no_more = true;
        break;
      }
      if (own_->is_closed) continue;
      packet.bytes.resize(static_cast<size_t>(got));
      if (own_->append(std::move(packet))) continue;
      fail_guest(ENOBUFS);
      break;
    }
    if (has_changed) own_->changed.wake();
  }

  void fail_guest(int error) {
    own_->error = error;
    own_->receives_no_more = has_received_end_ = true;
    own_->changed.wake();
  }

  // Requests one notification when the socket can do what is wanted.
  void arm() {
    uint32_t wanted = 0;
    if (room() > 0) wanted |= EPOLLIN;
    if (!theirs_->packets.empty()) wanted |= EPOLLOUT;
    if (wanted == armed_ || wanted == 0) return;
    epoll_event event = {.events = wanted | EPOLLONESHOT, .data = {.u64 = number_}};
    const int how = std::exchange(is_known_, true) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(poller_, how, socket_.number(), &event) == 0) armed_ = wanted;
  }

  const HostFile socket_;
  const int poller_;
  const uint64_t number_;
  uint32_t armed_ = 0;
  bool is_known_ = false;  // to the poller
  bool has_sent_end_ = false, has_received_end_ = false;
};

// DNS over a stream: a length precedes each message.
class OutsideNetwork::DnsStream final : public Connection {
 public:
  DnsStream(std::shared_ptr<SocketEnd> own, std::shared_ptr<SocketEnd> theirs, OutsideNetwork& network)
      : Connection(std::move(own), std::move(theirs)), network_(network) {}

 private:
  void pump() override {
    while (!theirs_->packets.empty()) {
      const Packet& packet = theirs_->packets.front();
      const size_t count = packet.size();
      bytes_.insert(bytes_.end(), packet.bytes.begin() + static_cast<std::ptrdiff_t>(packet.begin),
                    packet.bytes.end());
      theirs_->drop(count, false);
      if (!answer_all()) return end();
      own_->changed.wake();
    }
    if (theirs_->receives_no_more || theirs_->error != 0) end();
  }

  bool answer_all() {
    std::span<const std::byte> rest(bytes_);
    while (rest.size() >= 2) {
      const size_t length = std::to_integer<size_t>(rest[0]) << 8 | std::to_integer<size_t>(rest[1]);
      if (rest.size() - 2 < length) break;
      const auto answer = network_.answer_query(rest.subspan(2, length));
      rest = rest.subspan(length + 2);
      if (!answer || own_->room() < answer->size() + 2 + Packet::kOverhead) return false;
      Packet packet;
      packet.bytes = {static_cast<std::byte>(answer->size() >> 8),
                      static_cast<std::byte>(answer->size() & 0xff)};
      const auto text = std::as_bytes(std::span(*answer));
      packet.bytes.insert(packet.bytes.end(), text.begin(), text.end());
      if (!own_->append(std::move(packet))) return false;
    }
    bytes_.erase(bytes_.begin(), bytes_.end() - static_cast<std::ptrdiff_t>(rest.size()));
    return true;
  }

  OutsideNetwork& network_;
  std::vector<std::byte> bytes_;  // a partial message of at most 64 KiB, and later bytes
};

// -- making

OutsideNetwork::OutsideNetwork(std::function<void()> wake) : wake_(std::move(wake)) {}

Result<std::unique_ptr<OutsideNetwork>> OutsideNetwork::create(std::function<void()> wake) {
  std::unique_ptr<OutsideNetwork> made(new OutsideNetwork(std::move(wake)));
  made->poller_ = HostFile(epoll_create1(EPOLL_CLOEXEC));
  made->end_ = HostFile(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = 0}};
  if (!made->poller_ || !made->end_ ||
      epoll_ctl(made->poller_.number(), EPOLL_CTL_ADD, made->end_.number(), &event) != 0)
    return std::unexpected(unavailable().error());
  made->thread_ = std::jthread([network = made.get()] { network->wait_for_sockets(); });
  return made;
}

OutsideNetwork::~OutsideNetwork() {
  const uint64_t one = 1;
  static_cast<void>(!write(end_.number(), &one, sizeof one));
  if (thread_.joinable()) thread_.join();
}

void OutsideNetwork::wait_for_sockets() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = epoll_wait(poller_.number(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    {
      const std::scoped_lock lock(mutex_);
      for (int i = 0; i < count; ++i) {
        const uint64_t number =
            events[static_cast<size_t>(i)].data.u64;  // copied, since the structure is packed
        if (number == 0) return;
        ready_.push_back(number);
      }
    }
    wake_();
  }
}

Status OutsideNetwork::attach(HostFile socket) {
  owner_ = std::move(socket);
  MEMBRANE_TRY(read_greeting());
  return listen_to_owner(EPOLL_CTL_ADD) ? Status() : unavailable();
}

bool OutsideNetwork::listen_to_owner(int how) {
  epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data = {.u64 = kOwner}};
  return epoll_ctl(poller_.number(), how, owner_.number(), &event) == 0;
}

Status OutsideNetwork::read_greeting() {
  const auto malformed = [] {
    return fail(ErrorCode::kInvalidInput, "the sandbox's owner did not say which hosts are reachable");
  };
  NetworkGreeting greeting;
  HostFile file;
  if (!receive_message(owner_.number(), std::as_writable_bytes(std::span(&greeting, 1)), &file) || !file ||
      greeting.magic != NetworkGreeting::kMagic || greeting.hosts_bytes > NetworkGreeting::kMostHostsBytes ||
      greeting.certificate_bytes > NetworkGreeting::kMostCertificateBytes)
    return malformed();
  std::string text(size_t{greeting.hosts_bytes} + greeting.certificate_bytes, '\0');
  if (pread(file.number(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return malformed();
  MEMBRANE_ASSIGN(Reachable hosts, Reachable::parse(std::string_view(text).substr(0, greeting.hosts_bytes)));
  reachable_.set_hosts(std::move(hosts));
  certificate_ = text.substr(greeting.hosts_bytes);
  return {};
}

// -- connections

void OutsideNetwork::after_wake() {
  std::vector<uint64_t> ready;
  {
    const std::scoped_lock lock(mutex_);
    ready.swap(ready_);
  }
  for (const uint64_t number : ready) {
    // An owner that is gone, or sends invalid messages, is no longer read from.
    if (number == kOwner && read_greeting()) listen_to_owner(EPOLL_CTL_MOD);
    const auto found = connections_.find(number);
    if (found != connections_.end()) found->second->after_poll();
  }
  remove_ended();
}

void OutsideNetwork::remove_ended() {
  std::erase_if(connections_, [](const auto& each) { return each.second->is_over(); });
}

bool OutsideNetwork::tell(NetworkEvent event, std::string_view host, uint16_t port, int descriptor) {
  if (!owner_ || host.size() > NetworkMessage::kMostHostBytes) return false;
  NetworkMessage message = {.event = event,
                            .port = port,
                            .host_bytes = static_cast<uint16_t>(host.size()),
                            .unreported = unreported_,
                            .host = {}};
  std::ranges::copy(host, message.host);
  const std::span<const int> descriptors(&descriptor, descriptor >= 0 ? 1 : 0);
  if (!send_message(owner_.number(), std::as_bytes(std::span(&message, 1)), descriptors)) return false;
  unreported_ = 0;
  return true;
}

void OutsideNetwork::tell_refusal(NetworkEvent event, std::string_view host, uint16_t port) {
  if (!tell(event, host, port)) ++unreported_;
}

Done OutsideNetwork::reaches(const InetAddress& to, int type) {
  if (to.port == kDnsPort) return {};
  if (type == SOCK_DGRAM) return reachable_.is_name(to) ? Done() : err(ENETUNREACH);
  const auto host = reachable_.host_at(to);
  if (host) return {};
  if (!to.is_loopback()) tell_refusal(NetworkEvent::kRefusedHost, text_of(to), to.port);
  return err(host.error());
}

Done OutsideNetwork::connect(const std::shared_ptr<SocketEnd>& own, const std::shared_ptr<SocketEnd>& theirs,
                             const InetAddress& to) {
  remove_ended();
  if (connections_.size() >= kMostConnections) return err(ENOBUFS);
  if (to.port == kDnsPort && !reachable_.host_at(to)) {
    connections_.emplace(++last_number_, std::make_unique<DnsStream>(own, theirs, *this));
    return {};
  }
  MEMBRANE_TRY(reaches(to, SOCK_STREAM));
  MEMBRANE_ASSIGN(const std::string host, reachable_.host_at(to));
  return add_bridge(own, theirs, host, to.port);
}

Done OutsideNetwork::add_bridge(const std::shared_ptr<SocketEnd>& own,
                                const std::shared_ptr<SocketEnd>& theirs, std::string_view host,
                                uint16_t port) {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return err(ENOBUFS);
  HostFile ours(ends[0]);
  const HostFile owners(ends[1]);
  if (!tell(NetworkEvent::kConnecting, host, port, owners.number()))
    return err(errno == EAGAIN ? ENOBUFS : ECONNREFUSED);
  const uint64_t number = ++last_number_;
  auto bridge = std::make_unique<Bridge>(own, theirs, std::move(ours), poller_.number(), number);
  bridge->pump();
  connections_.emplace(number, std::move(bridge));
  return {};
}

// -- names

std::optional<std::string> OutsideNetwork::answer(const InetAddress& to, std::span<const std::byte> packet) {
  if (to.port != kDnsPort) return {};
  return answer_query(packet);
}

std::optional<std::string> OutsideNetwork::answer_query(std::span<const std::byte> query) {
  return answer_dns(query, [this](std::string_view name) -> DnsName {
    if (name == own_name_ || name == "localhost")
      return {.exists = true, .v4 = std::array<uint8_t, 4>{127, 0, 0, 1}, .v6 = {}};
    const auto address = reachable_.address_of(name);
    if (!address) {
      tell_refusal(NetworkEvent::kRefusedName, name, 0);
      return {};
    }
    return {.exists = true,
            .v4 = std::array{address->ip[12], address->ip[13], address->ip[14], address->ip[15]},
            .v6 = {}};
  });
}

}  // namespace membrane::linux
