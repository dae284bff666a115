#include "linux/files/socket_file.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "linux/files/anonymous_node.h"
#include "linux/files/datagram_socket.h"
#include "linux/files/interfaces.h"
#include "linux/files/netlink_socket.h"
#include "linux/files/stream_socket.h"

namespace membrane::linux {

SocketFile::SocketFile(std::shared_ptr<SocketEnd> end, const Credentials& maker)
    : end_(std::move(end)), node_(make_anonymous_node(AnonymousDevice::kSockets, S_IFSOCK | 0777, maker)) {
  flags = O_RDWR;
}

std::string SocketFile::description() const { return anonymous_name("socket", *node_); }

Try<size_t> SocketFile::read(Caller& caller, Buffer& to) {
  MEMBRANE_ASSIGN(const Incoming got, receive(caller, to, 0));
  return got.size;
}

Try<size_t> SocketFile::write(Caller& caller, Buffer& from) { return send(caller, from, {}); }

Try<int64_t> SocketFile::ioctl(Caller& caller, uint64_t request, uint64_t argument) {
  if (request != FIONREAD)
    return interface_request(caller, end_->space->network, is_inet(), request, argument);
  if (end_->is_listening) return err(EINVAL);
  size_t bytes = 0;
  for (const Packet& packet : end_->packets) {
    bytes += packet.size();
    if (end_->type == SOCK_DGRAM) break;
  }
  MEMBRANE_TRY(caller.put(argument, static_cast<int>(bytes)));
  return 0;
}

// -- names

Done SocketFile::can_bind() const {
  const bool has_name = is_inet() ? end_->local.port != 0 : !end_->name.bytes.empty();
  return has_name ? err(EINVAL) : Done();
}

Done SocketFile::bind(Caller& caller, const SocketAddress& to) {
  MEMBRANE_TRY(can_bind());
  if (!is_inet()) return bind_unix(to);
  MEMBRANE_ASSIGN(const InetAddress address, inet_address_of(to, domain()));
  return bind_inet(caller, address);
}

Done SocketFile::bind_inet(Caller& caller, const InetAddress& to) {
  constexpr uint16_t kFirstOfAll = 1024;
  if (!to.is_any() && !to.is_loopback()) return err(EADDRNOTAVAIL);
  if (to.port != 0 && to.port < kFirstOfAll && !caller.credentials().is_root()) return err(EACCES);
  end_->owner = sender_of(caller);
  return end_->space->bind_inet(to, end_);
}

Done SocketFile::bind_unix(const SocketAddress& to) {
  MEMBRANE_ASSIGN(const UnixName name, unix_name_of(to));
  if (name.is_unnamed) return bind_to_any();
  if (!name.is_path) {
    MEMBRANE_TRY(end_->space->bind_abstract(name.abstract, end_));
    end_->name = to;
    return {};
  }
  if (to.node == nullptr) return err(EINVAL);
  MEMBRANE_TRY(end_->space->bind_node(to.node, end_));
  // getsockname() reports the path with its terminating zero.
  end_->name = to;
  end_->name.bytes.resize(sizeof(sa_family_t) + to.path().value_or("").size() + 1);
  end_->name.bytes.back() = '\0';
  return {};
}

Done SocketFile::bind_to_any() {
  if (is_inet()) return end_->space->bind_inet(any_of(domain()), end_);
  const std::string name = end_->space->free_abstract_name();
  MEMBRANE_TRY(end_->space->bind_abstract(name, end_));
  end_->name = abstract_address(name);
  return {};
}

SocketAddress SocketFile::name() const {
  if (!is_inet()) return end_->name.bytes.empty() ? unnamed_address(AF_UNIX) : end_->name;
  InetAddress local = end_->local;
  if (local.port == 0) local = any_of(domain());
  return socket_address_of(local, domain());
}

Try<InetAddress> SocketFile::reachable(const SocketAddress& to) const {
  MEMBRANE_ASSIGN(InetAddress address, inet_address_of(to, domain()));
  // "This host" also means the loopback.
  if (address.is_any()) address = loopback_like(address);
  if (address.is_v4() && end_->only_v6) return err(ENETUNREACH);
  if (address.is_loopback()) return address;
  if (end_->space->network == nullptr) return err(ENETUNREACH);
  MEMBRANE_TRY(end_->space->network->reaches(address, type()));
  return address;
}

// -- options

namespace {

// Options that are stored and reported but have no effect: there is one machine, whose network loses nothing.
constexpr std::array<std::pair<int, int>, 40> kKeptOptions = {{
    {SOL_SOCKET, SO_KEEPALIVE},
    {SOL_SOCKET, SO_BROADCAST},
    {SOL_SOCKET, SO_OOBINLINE},
    {SOL_SOCKET, SO_PRIORITY},
    {SOL_SOCKET, SO_RCVLOWAT},
    {SOL_SOCKET, SO_TIMESTAMP},
    {SOL_SOCKET, SO_DONTROUTE},
    {SOL_SOCKET, SO_INCOMING_CPU},
    {SOL_SOCKET, SO_MARK},
    {SOL_SOCKET, SO_DEBUG},
    {IPPROTO_TCP, TCP_NODELAY},
    {IPPROTO_TCP, TCP_CORK},
    {IPPROTO_TCP, TCP_KEEPIDLE},
    {IPPROTO_TCP, TCP_KEEPINTVL},
    {IPPROTO_TCP, TCP_KEEPCNT},
    {IPPROTO_TCP, TCP_QUICKACK},
    {IPPROTO_TCP, TCP_USER_TIMEOUT},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT},
    {IPPROTO_TCP, TCP_SYNCNT},
    {IPPROTO_TCP, TCP_FASTOPEN},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT},
    {IPPROTO_TCP, TCP_LINGER2},
    {IPPROTO_IP, IP_TOS},
    {IPPROTO_IP, IP_TTL},
    {IPPROTO_IP, IP_RECVERR},
    {IPPROTO_IP, IP_MTU_DISCOVER},
    {IPPROTO_IP, IP_MULTICAST_TTL},
    {IPPROTO_IP, IP_MULTICAST_LOOP},
    {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT},
    {IPPROTO_IPV6, IPV6_RECVERR},
    {IPPROTO_IPV6, IPV6_UNICAST_HOPS},
    {IPPROTO_IPV6, IPV6_TCLASS},
    {IPPROTO_IPV6, IPV6_MULTICAST_LOOP},
    {SOL_NETLINK, NETLINK_ADD_MEMBERSHIP},
    {SOL_NETLINK, NETLINK_DROP_MEMBERSHIP},
    {SOL_NETLINK, NETLINK_BROADCAST_ERROR},
    {SOL_NETLINK, NETLINK_NO_ENOBUFS},
    {SOL_NETLINK, NETLINK_CAP_ACK},
    {SOL_NETLINK, NETLINK_EXT_ACK},
    {SOL_NETLINK, NETLINK_GET_STRICT_CHK},
}};

constexpr int kLeastCapacity = 2304, kMostCapacity = 425984;  // the reported bounds of SO_RCVBUF

constexpr std::string_view kCongestionControl = "cubic";
constexpr size_t kMostNameBytes = 16;  // TCP_CA_NAME_MAX

bool is_kept(int level, int name) {
  return std::ranges::find(kKeptOptions, std::pair(level, name)) != kKeptOptions.end();
}

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

int SocketFile::protocol() const {
  if (!is_inet()) return 0;
  return type() == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
}

bool SocketFile::has_level(int level) const {
  if (level == SOL_SOCKET) return true;
  return domain() == AF_NETLINK ? level == SOL_NETLINK : is_inet() && level != SOL_NETLINK;
}

Done SocketFile::set_option(int level, int name, std::span<const std::byte> value) {
  if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO))
    return set_time_option(name, value);
  if (level == SOL_SOCKET && name == SO_LINGER) {
    if (value.size() < sizeof linger_) return err(EINVAL);
    std::memcpy(&linger_, value.data(), sizeof linger_);
    return {};
  }
  // No socket is bound to a device, and none can be.
  if (level == SOL_SOCKET && name == SO_BINDTODEVICE)
    return value.empty() || value.front() == std::byte{0} ? Done() : err(EPERM);
  if (level == IPPROTO_TCP && name == TCP_CONGESTION && is_tcp()) {
    const std::string wanted(reinterpret_cast<const char*>(value.data()),
                             std::min(value.size(), kMostNameBytes));
    const std::string_view its = wanted.c_str();
    return its == kCongestionControl || its == "reno" ? Done() : err(ENOENT);
  }
  int number = 0;
  if (value.size() < sizeof number) return err(EINVAL);
  std::memcpy(&number, value.data(), sizeof number);
  return set_int_option(level, name, number);
}

Done SocketFile::set_int_option(int level, int name, int value) {
  if (level == SOL_SOCKET) {
    switch (name) {
      case SO_REUSEADDR: end_->reuses_address = value != 0; return {};
      case SO_REUSEPORT: end_->reuses_port = value != 0; return {};
      case SO_PASSCRED: end_->passes_credentials = value != 0; return {};
      case SO_RCVBUF:
      case SO_RCVBUFFORCE:
        // The room for senders; Linux doubles the requested size.
        end_->capacity =
            static_cast<size_t>(std::max(std::clamp(value, 0, kMostCapacity / 2) * 2, kLeastCapacity));
        end_->changed.wake();
        return {};
      case SO_SNDBUF: options_[{level, name}] = std::clamp(value, 1, kMostCapacity / 2) * 2; return {};
      default: break;
    }
  }
  if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY && domain() == AF_INET6) {
    if (end_->local.port != 0) return err(EINVAL);
    end_->only_v6 = value != 0;
    return {};
  }
  if (!is_kept(level, name) || !has_level(level)) return err(ENOPROTOOPT);
  if (level == IPPROTO_TCP && type() != SOCK_STREAM) return err(ENOPROTOOPT);
  options_[{level, name}] = value;
  return {};
}

Done SocketFile::set_time_option(int name, std::span<const std::byte> value) {
  constexpr int64_t kMostSeconds = int64_t{1} << 40;
  timeval time = {};
  if (value.size() < sizeof time) return err(EINVAL);
  std::memcpy(&time, value.data(), sizeof time);
  if (time.tv_usec < 0 || time.tv_usec >= 1'000'000) return err(EDOM);
  const int64_t seconds = std::clamp<int64_t>(time.tv_sec, 0, kMostSeconds);
  auto& limit = name == SO_RCVTIMEO ? receive_limit_ : send_limit_;
  limit = std::chrono::microseconds(time.tv_sec < 0 ? 0 : seconds * 1'000'000 + time.tv_usec);
  return {};
}

Try<std::vector<std::byte>> SocketFile::option(int level, int name) {
  if (level == SOL_SOCKET) {
    if (auto value = socket_option(name); value || value.error() != ENOPROTOOPT) return value;
  }
  if (level == IPPROTO_TCP && is_tcp() && name == TCP_INFO) return connection_facts();
  if (level == IPPROTO_TCP && is_tcp() && name == TCP_CONGESTION) {
    std::array<char, kMostNameBytes> text = {};
    kCongestionControl.copy(text.data(), text.size());
    return bytes_of(text);
  }
  MEMBRANE_ASSIGN(const int value, int_option(level, name));
  return bytes_of(value);
}

// Values of a connection that loses nothing and takes no time.
std::vector<std::byte> SocketFile::connection_facts() const {
  constexpr uint32_t kSegment = 65483, kWindow = 10, kTimeout_us = 200'000;
  tcp_info facts = {};
  facts.tcpi_state = end_->is_listening ? TCP_LISTEN : peer() ? TCP_ESTABLISHED : TCP_CLOSE;
  facts.tcpi_rto = kTimeout_us;
  facts.tcpi_snd_mss = facts.tcpi_rcv_mss = facts.tcpi_advmss = kSegment;
  facts.tcpi_pmtu = 65536;
  facts.tcpi_snd_cwnd = kWindow;
  return bytes_of(facts);
}

Try<std::vector<std::byte>> SocketFile::socket_option(int name) {
  const auto time_of = [](std::chrono::microseconds time) {
    return bytes_of(timeval{.tv_sec = time.count() / 1'000'000, .tv_usec = time.count() % 1'000'000});
  };
  switch (name) {
    case SO_RCVTIMEO: return time_of(receive_limit_);
    case SO_SNDTIMEO: return time_of(send_limit_);
    case SO_LINGER: return bytes_of(linger_);
    case SO_PEERCRED: return bytes_of(peer_owner());
    case SO_BINDTODEVICE: return std::vector<std::byte>();  // no name
    default: return err(ENOPROTOOPT);
  }
}

Try<int> SocketFile::int_option(int level, int name) {
  if (level == SOL_SOCKET) {
    switch (name) {
      case SO_TYPE: return type();
      case SO_DOMAIN: return domain();
      case SO_PROTOCOL: return protocol();
      case SO_ERROR: return std::exchange(end_->error, 0);
      case SO_ACCEPTCONN: return end_->is_listening ? 1 : 0;
      case SO_REUSEADDR: return end_->reuses_address ? 1 : 0;
      case SO_REUSEPORT: return end_->reuses_port ? 1 : 0;
      case SO_PASSCRED: return end_->passes_credentials ? 1 : 0;
      case SO_RCVBUF: return static_cast<int>(end_->capacity);
      case SO_SNDBUF:
        if (!options_.contains({level, name})) return static_cast<int>(SocketEnd::kUsualCapacity);
        break;
      default: break;
    }
  }
  if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY && domain() == AF_INET6) return end_->only_v6 ? 1 : 0;
  if (level == IPPROTO_TCP && name == TCP_MAXSEG && is_inet() && type() == SOCK_STREAM) return 65483;
  const auto found = options_.find({level, name});
  if (found != options_.end()) return found->second;
  if (!is_kept(level, name) || !has_level(level)) return err(ENOPROTOOPT);
  if (level == SOL_SOCKET && name == SO_RCVLOWAT) return 1;
  if (level == IPPROTO_IP && name == IP_TTL) return 64;
  if (level == IPPROTO_TCP && name == TCP_LINGER2) return 60;
  return 0;
}

// -- making

namespace {

constexpr int kTypeMask = 0xf;

Done check_protocol(int domain, int type, int protocol) {
  if ((type & ~(kTypeMask | SOCK_NONBLOCK | SOCK_CLOEXEC)) != 0) return err(EINVAL);
  const int kind = type & kTypeMask;
  if (domain == AF_NETLINK) return NetlinkSocket::check(kind, protocol);
  if (domain != AF_UNIX && domain != AF_INET && domain != AF_INET6) return err(EAFNOSUPPORT);
  const bool is_unix = domain == AF_UNIX;
  const bool is_known = kind == SOCK_STREAM || kind == SOCK_DGRAM || (is_unix && kind == SOCK_SEQPACKET);
  if (!is_known) return err(ESOCKTNOSUPPORT);
  if (protocol == 0) return {};
  const int own = is_unix ? AF_UNIX : kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
  return protocol == own ? Done() : err(EPROTONOSUPPORT);
}

}  // namespace

Try<std::shared_ptr<SocketFile>> make_socket(const std::shared_ptr<SocketSpace>& space, Caller& caller,
                                             int domain, int type, int protocol) {
  MEMBRANE_TRY(check_protocol(domain, type, protocol));
  auto end = std::make_shared<SocketEnd>(space, domain, type & kTypeMask);
  end->owner = sender_of(caller);
  std::shared_ptr<SocketFile> file;
  if (domain == AF_NETLINK) file = std::make_shared<NetlinkSocket>(end, caller.credentials(), protocol);
  else if (end->type == SOCK_DGRAM) file = std::make_shared<DatagramSocket>(end, caller.credentials());
  else file = std::make_shared<StreamSocket>(end, caller.credentials());
  file->flags |= type & SOCK_NONBLOCK;
  return file;
}

Done SocketFile::receive_packet(Buffer& to, bool stays, Incoming& got) {
  Packet& packet = end_->packets.front();
  const size_t wanted = std::min(packet.size(), to.size());
  if (wanted > 0) {
    MEMBRANE_ASSIGN(got.size, to.put(std::span(packet.bytes).first(wanted)));
  }
  got.whole_size = packet.size();
  got.sender = packet.sender;
  got.files = packet.files.files;
  if (!stays) end_->drop(0, true);
  return {};
}

Try<SocketPair> make_socket_pair(const std::shared_ptr<SocketSpace>& space, Caller& caller, int domain,
                                 int type, int protocol) {
  MEMBRANE_TRY(check_protocol(domain, type, protocol));
  if (domain != AF_UNIX) return err(EOPNOTSUPP);
  const std::array<std::shared_ptr<SocketEnd>, 2> ends = {
      std::make_shared<SocketEnd>(space, domain, type & kTypeMask),
      std::make_shared<SocketEnd>(space, domain, type & kTypeMask)};
  std::array<std::shared_ptr<SocketFile>, 2> files;
  for (size_t i = 0; i < 2; ++i) {
    ends[i]->owner = sender_of(caller);
    if ((type & kTypeMask) == SOCK_DGRAM)
      files[i] = std::make_shared<DatagramSocket>(ends[i], ends[1 - i], caller.credentials());
    else files[i] = std::make_shared<StreamSocket>(ends[i], ends[1 - i], caller.credentials());
    files[i]->flags |= type & SOCK_NONBLOCK;
  }
  return SocketPair{.first = files[0], .second = files[1]};
}

}  // namespace membrane::linux
