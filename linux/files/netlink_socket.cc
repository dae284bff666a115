#include "linux/files/netlink_socket.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "linux/files/route_messages.h"

namespace membrane::linux {
namespace {

SocketAddress address_of(uint32_t port, uint32_t groups = 0) {
  const sockaddr_nl record = {.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = port, .nl_groups = groups};
  return {.bytes = std::string(reinterpret_cast<const char*>(&record), sizeof record)};
}

Try<sockaddr_nl> record_of(const SocketAddress& address) {
  sockaddr_nl record = {};
  if (address.bytes.size() < sizeof record || address.family() != AF_NETLINK) return err(EINVAL);
  std::memcpy(&record, address.bytes.data(), sizeof record);
  return record;
}

// 0: it has none yet.
uint32_t port_of(const SocketEnd& end) { return record_of(end.name).value_or(sockaddr_nl()).nl_pid; }

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> done(const nlmsghdr& request, uint32_t port) {
  std::vector<std::byte> made;
  append(made, nlmsghdr{.nlmsg_len = sizeof(nlmsghdr) + sizeof(int),
                        .nlmsg_type = NLMSG_DONE,
                        .nlmsg_flags = NLM_F_MULTI,
                        .nlmsg_seq = request.nlmsg_seq,
                        .nlmsg_pid = port});
  append(made, 0);
  return made;
}

// An acknowledgement if the error is 0. A failed request is returned whole, unless the sender asked not to
// have it.
std::vector<std::byte> report(std::span<const std::byte> request, int error, bool is_capped, uint32_t port) {
  nlmsghdr header;
  std::memcpy(&header, request.data(), sizeof header);
  const bool is_cut = error == 0 || is_capped;
  const auto told = is_cut ? request.first(sizeof header) : request;
  std::vector<std::byte> made;
  append(made, nlmsghdr{.nlmsg_len = static_cast<uint32_t>(sizeof(nlmsghdr) + sizeof(int) + told.size()),
                        .nlmsg_type = NLMSG_ERROR,
                        .nlmsg_flags = static_cast<uint16_t>(is_cut ? NLM_F_CAPPED : 0),
                        .nlmsg_seq = header.nlmsg_seq,
                        .nlmsg_pid = port});
  append(made, -error);
  made.insert(made.end(), told.begin(), told.end());
  return made;
}

}  // namespace

NetlinkSocket::NetlinkSocket(std::shared_ptr<SocketEnd> end, const Credentials& maker, int protocol)
    : SocketFile(std::move(end), maker), protocol_(protocol) {}

NetlinkSocket::~NetlinkSocket() {
  end_->space->unbind_netlink(port_of(*end_), *end_);
  end_->is_closed = true;
  end_->clear();
  end_->changed.wake();
}

Done NetlinkSocket::check(int type, int protocol) {
  if (type != SOCK_RAW && type != SOCK_DGRAM) return err(ESOCKTNOSUPPORT);
  constexpr std::array kKnown = {NETLINK_ROUTE, NETLINK_SOCK_DIAG, NETLINK_KOBJECT_UEVENT};
  return std::ranges::find(kKnown, protocol) != kKnown.end() ? Done() : err(EPROTONOSUPPORT);
}

short NetlinkSocket::ready() {
  int events = POLLOUT | POLLWRNORM;
  if (end_->error != 0) events |= POLLERR;
  if (!end_->packets.empty() || end_->error != 0) events |= POLLIN | POLLRDNORM;
  return static_cast<short>(events);
}

// -- names

Done NetlinkSocket::bind(Caller& caller, const SocketAddress& to) {
  MEMBRANE_ASSIGN(const sockaddr_nl wanted, record_of(to));
  const uint32_t port = port_of(*end_);
  if (port != 0) {
    if (wanted.nl_pid != port) return err(EINVAL);
  } else if (wanted.nl_pid == 0) {
    MEMBRANE_TRY(bind_to_any(caller));
  } else {
    MEMBRANE_TRY(end_->space->bind_netlink(wanted.nl_pid, end_));
    end_->name = address_of(wanted.nl_pid);
  }
  end_->name = address_of(port_of(*end_), wanted.nl_groups);
  return {};
}

Done NetlinkSocket::bind_to_any(Caller& caller) {
  const uint32_t port = end_->space->free_netlink_port(static_cast<uint32_t>(caller.process_id()));
  MEMBRANE_TRY(end_->space->bind_netlink(port, end_));
  end_->name = address_of(port);
  return {};
}

Done NetlinkSocket::connect(Caller& caller, const SocketAddress& to) {
  if (to.family() == AF_UNSPEC && to.bytes.size() >= sizeof(sa_family_t)) return {};
  MEMBRANE_ASSIGN(const sockaddr_nl wanted, record_of(to));
  if (wanted.nl_pid != 0 || wanted.nl_groups != 0) return err(EPERM);
  return port_of(*end_) == 0 ? bind_to_any(caller) : Done();
}

SocketAddress NetlinkSocket::name() const {
  const sockaddr_nl own = record_of(end_->name).value_or(sockaddr_nl());
  return address_of(own.nl_pid, own.nl_groups);
}

Try<SocketAddress> NetlinkSocket::peer() const { return address_of(0); }

// -- messages

Try<size_t> NetlinkSocket::send(Caller& caller, Buffer& from, const Outgoing& how) {
  if (!how.files.empty()) return err(EINVAL);
  if (!how.to.bytes.empty()) {
    MEMBRANE_ASSIGN(const sockaddr_nl to, record_of(how.to));
    if (to.nl_groups != 0) return err(EPERM);
    if (to.nl_pid != 0) return err(ECONNREFUSED);
  }
  if (protocol_ == NETLINK_KOBJECT_UEVENT) return err(ECONNREFUSED);
  const size_t size = from.size();
  if (size > SocketEnd::kUsualCapacity - Packet::kOverhead) return err(EMSGSIZE);
  if (port_of(*end_) == 0) MEMBRANE_TRY(bind_to_any(caller));
  std::vector<std::byte> requests(size);
  if (size > 0) {
    MEMBRANE_ASSIGN(const size_t taken, from.take(requests));
    if (taken < size) return err(EFAULT);
  }
  answer_all(requests);
  return size;
}

void NetlinkSocket::answer_all(std::span<const std::byte> requests) {
  const uint32_t port = port_of(*end_);
  const auto capped = option(SOL_NETLINK, NETLINK_CAP_ACK);
  const bool is_capped =
      capped && std::ranges::any_of(*capped, [](std::byte each) { return each != std::byte{0}; });
  const auto queue = [&](std::vector<std::byte> bytes) {
    Packet packet;
    packet.bytes = std::move(bytes);
    packet.from = address_of(0);
    const bool fits = packet.size() + Packet::kOverhead <= end_->room();
    if (!fits || !end_->add(std::move(packet))) end_->error = ENOBUFS;
    return fits;
  };
  nlmsghdr header;
  while (requests.size() >= sizeof header) {
    std::memcpy(&header, requests.data(), sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > requests.size()) break;
    const auto request = requests.first(header.nlmsg_len);
    requests = requests.subspan(std::min(requests.size(), NLMSG_ALIGN(size_t{header.nlmsg_len})));
    int error = 0;
    bool is_answered = false;
    if ((header.nlmsg_flags & NLM_F_REQUEST) != 0 && header.nlmsg_type >= NLMSG_MIN_TYPE) {
      auto answer = protocol_ == NETLINK_ROUTE ? answer_route_request(header, request.subspan(sizeof header),
                                                                      port, end_->space->network)
                                               : err(ENOENT);  // as Linux without the modules of sock_diag
      const bool is_dump = (header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
      if (!answer) {
        error = answer.error();
      } else if (is_dump && request.size() > sizeof header) {
        const auto last = done(header, port);
        answer->insert(answer->end(), last.begin(), last.end());
        is_answered = true;
      }
      if (answer && !answer->empty() && !queue(std::move(*answer))) break;
    }
    const bool wants_report = error != 0 || ((header.nlmsg_flags & NLM_F_ACK) != 0 && !is_answered);
    if (wants_report && !queue(report(request, error, is_capped, port))) break;
  }
  end_->changed.wake();
}

Try<Incoming> NetlinkSocket::receive(Caller&, Buffer& to, int how) {
  if (end_->error != 0) return err(std::exchange(end_->error, 0));
  if (end_->packets.empty()) return err(EAGAIN);
  Incoming got;
  got.from = end_->packets.front().from;
  MEMBRANE_TRY(receive_packet(to, (how & MSG_PEEK) != 0, got));
  return got;
}

}  // namespace membrane::linux
