#include "linux/files/route_messages.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "linux/files/interfaces.h"

namespace membrane::linux {
namespace {

constexpr std::array<uint8_t, 16> kLoopbackV6 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr uint8_t kUp = 6;  // IF_OPER_UP

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// Consecutive messages, each with attributes.
class Messages {
 public:
  Messages(const nlmsghdr& request, uint32_t port) : request_(request), port_(port) {}
  template <typename Body>
  void begin(uint16_t type, const Body& body) {
    begin_ = bytes_.size();
    const bool is_dump = (request_.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    put(bytes_of(nlmsghdr{.nlmsg_len = 0,
                          .nlmsg_type = type,
                          .nlmsg_flags = static_cast<uint16_t>(is_dump ? NLM_F_MULTI : 0),
                          .nlmsg_seq = request_.nlmsg_seq,
                          .nlmsg_pid = port_}));
    put(bytes_of(body));
  }
  void add(unsigned short type, std::span<const std::byte> value) {
    put(bytes_of(
        rtattr{.rta_len = static_cast<unsigned short>(sizeof(rtattr) + value.size()), .rta_type = type}));
    put(value);
  }
  template <typename T>
  void add_value(unsigned short type, const T& value) {
    add(type, bytes_of(value));
  }
  void add_text(unsigned short type, std::string_view text) {
    const std::string with_end(text);
    add(type, std::as_bytes(std::span(with_end.c_str(), with_end.size() + 1)));
  }
  void end() {
    const auto length = static_cast<uint32_t>(bytes_.size() - begin_);
    std::memcpy(bytes_.data() + begin_, &length, sizeof length);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void put(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }
  const nlmsghdr& request_;
  const uint32_t port_;
  std::vector<std::byte> bytes_;
  size_t begin_ = 0;
};

template <typename T>
std::optional<T> record_of(std::span<const std::byte> body) {
  T record;
  if (body.size() < sizeof record) return {};
  std::memcpy(&record, body.data(), sizeof record);
  return record;
}

// An attribute of a request; attributes follow its fixed part.
std::optional<std::span<const std::byte>> attribute(std::span<const std::byte> body, size_t fixed,
                                                    unsigned short type) {
  for (size_t at = NLMSG_ALIGN(fixed); at <= body.size() && body.size() - at >= sizeof(rtattr);) {
    rtattr head;
    std::memcpy(&head, body.data() + at, sizeof head);
    if (head.rta_len < sizeof head || head.rta_len > body.size() - at) return {};
    if ((head.rta_type & NLA_TYPE_MASK) == type)
      return body.subspan(at + sizeof head, head.rta_len - sizeof head);
    at += NLMSG_ALIGN(size_t{head.rta_len});
  }
  return {};
}

// -- links

void add_link(Messages& to, const Interface& of) {
  to.begin(RTM_NEWLINK, ifinfomsg{.ifi_family = AF_UNSPEC,
                                  .__ifi_pad = 0,
                                  .ifi_type = of.hardware,
                                  .ifi_index = of.index,
                                  .ifi_flags = of.flags,
                                  .ifi_change = 0});
  to.add_text(IFLA_IFNAME, of.name);
  to.add_value(IFLA_TXQLEN, uint32_t{1000});
  to.add_value(IFLA_OPERSTATE, of.is_loopback() ? uint8_t{0} : kUp);
  to.add_value(IFLA_LINKMODE, uint8_t{0});
  to.add_value(IFLA_MTU, of.mtu);
  to.add_value(IFLA_GROUP, uint32_t{0});
  to.add_value(IFLA_PROMISCUITY, uint32_t{0});
  to.add_value(IFLA_NUM_TX_QUEUES, uint32_t{1});
  to.add_value(IFLA_NUM_RX_QUEUES, uint32_t{1});
  to.add_value(IFLA_CARRIER, uint8_t{1});
  to.add_text(IFLA_QDISC, "noqueue");
  to.add_value(IFLA_ADDRESS, of.hardware_address);
  to.add_value(IFLA_BROADCAST, of.hardware_broadcast);
  to.add_value(IFLA_STATS, rtnl_link_stats());
  to.add_value(IFLA_STATS64, rtnl_link_stats64());
  to.end();
}

Done answer_link(Messages& to, bool is_dump, std::span<const std::byte> body, const Network* network) {
  if (is_dump) {
    if (!body.empty() && body.front() == std::byte{AF_BRIDGE}) return {};
    for (const Interface& each : interfaces(network)) add_link(to, each);
    return {};
  }
  const auto asked = record_of<ifinfomsg>(body);
  if (!asked) return err(EINVAL);
  const Interface* found = nullptr;
  if (asked->ifi_index != 0) {
    found = find_interface(network, asked->ifi_index);
  } else {
    auto name = attribute(body, sizeof *asked, IFLA_IFNAME);
    if (!name) name = attribute(body, sizeof *asked, IFLA_ALT_IFNAME);
    if (!name) return err(EINVAL);
    const auto* const text = reinterpret_cast<const char*>(name->data());
    found = find_interface(network, std::string_view(text, strnlen(text, name->size())));
  }
  if (found == nullptr) return err(ENODEV);
  add_link(to, *found);
  return {};
}

// -- addresses

void begin_address(Messages& to, const Interface& of, uint8_t family, uint8_t prefix) {
  to.begin(RTM_NEWADDR,
           ifaddrmsg{.ifa_family = family,
                     .ifa_prefixlen = prefix,
                     .ifa_flags = IFA_F_PERMANENT,
                     .ifa_scope = static_cast<uint8_t>(of.is_loopback() ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE),
                     .ifa_index = static_cast<uint32_t>(of.index)});
}

void end_address(Messages& to) {
  constexpr uint32_t kForever = UINT32_MAX;
  to.add_value(IFA_FLAGS, uint32_t{IFA_F_PERMANENT});
  to.add_value(IFA_CACHEINFO,
               ifa_cacheinfo{.ifa_prefered = kForever, .ifa_valid = kForever, .cstamp = 0, .tstamp = 0});
  to.end();
}

void add_addresses(Messages& to, int family, const Network* network) {
  const bool is_any = family != AF_INET && family != AF_INET6;
  for (const Interface& each : interfaces(network)) {
    if (!is_any && family != AF_INET) continue;
    begin_address(to, each, AF_INET, each.prefix);
    to.add_value(IFA_ADDRESS, each.address);
    to.add_value(IFA_LOCAL, each.address);
    if (each.broadcast[0] != 0) to.add_value(IFA_BROADCAST, each.broadcast);
    to.add_text(IFA_LABEL, each.name);
    end_address(to);
  }
  for (const Interface& each : interfaces(network)) {
    if (!each.has_loopback_v6 || (!is_any && family != AF_INET6)) continue;
    begin_address(to, each, AF_INET6, 128);
    to.add_value(IFA_ADDRESS, kLoopbackV6);
    end_address(to);
  }
}

// -- routes

struct Route {
  uint8_t family = AF_INET, prefix = 0, table = RT_TABLE_MAIN, protocol = RTPROT_KERNEL,
          scope = RT_SCOPE_LINK, type = RTN_UNICAST;
  std::span<const uint8_t> to = {}, from = {};
  int index = 1;
};

void add_route(Messages& to, const Route& route, uint32_t flags = 0) {
  to.begin(RTM_NEWROUTE, rtmsg{.rtm_family = route.family,
                               .rtm_dst_len = route.prefix,
                               .rtm_src_len = 0,
                               .rtm_tos = 0,
                               .rtm_table = route.table,
                               .rtm_protocol = route.protocol,
                               .rtm_scope = route.scope,
                               .rtm_type = route.type,
                               .rtm_flags = flags});
  to.add_value(RTA_TABLE, uint32_t{route.table});
  if (!route.to.empty()) to.add(RTA_DST, std::as_bytes(route.to));
  if (!route.from.empty()) to.add(RTA_PREFSRC, std::as_bytes(route.from));
  to.add_value(RTA_OIF, route.index);
  to.end();
}

void add_routes_v4(Messages& to, const Network* network) {
  static constexpr std::array<uint8_t, 4> kLoopbacks = {127, 0, 0, 0}, kNetwork = {198, 18, 0, 0};
  for (const Interface& each : interfaces(network)) {
    if (!each.is_loopback()) {
      add_route(to, {.protocol = RTPROT_BOOT, .index = each.index});  // the default one
      add_route(to, {.prefix = each.prefix, .to = kNetwork, .from = each.address, .index = each.index});
    }
    Route local = {.table = RT_TABLE_LOCAL,
                   .scope = RT_SCOPE_HOST,
                   .type = RTN_LOCAL,
                   .from = each.address,
                   .index = each.index};
    if (each.is_loopback()) {
      local.prefix = each.prefix;
      local.to = kLoopbacks;
      add_route(to, local);
    }
    local.prefix = 32;
    local.to = each.address;
    add_route(to, local);
  }
}

void add_routes_v6(Messages& to) {
  add_route(to, {.family = AF_INET6, .prefix = 128, .scope = RT_SCOPE_UNIVERSE, .to = kLoopbackV6});
  add_route(to, {.family = AF_INET6,
                 .prefix = 128,
                 .table = RT_TABLE_LOCAL,
                 .scope = RT_SCOPE_UNIVERSE,
                 .type = RTN_LOCAL,
                 .to = kLoopbackV6});
}

// The way to one address.
Done answer_one_route(Messages& to, std::span<const std::byte> body, const Network* network) {
  const auto asked = record_of<rtmsg>(body);
  if (!asked) return err(EINVAL);
  const auto wanted = attribute(body, sizeof *asked, RTA_DST);
  const size_t size = asked->rtm_family == AF_INET ? 4 : asked->rtm_family == AF_INET6 ? 16 : 0;
  if (size == 0) return err(EOPNOTSUPP);
  if (!wanted || wanted->size() != size) return err(EINVAL);
  InetAddress address = any_of(asked->rtm_family);
  std::memcpy(address.ip.data() + (16 - size), wanted->data(), size);
  Route route = {.family = asked->rtm_family,
                 .prefix = static_cast<uint8_t>(8 * size),
                 .protocol = RTPROT_UNSPEC,
                 .scope = RT_SCOPE_UNIVERSE};
  route.to = std::span(address.ip).last(size);
  const auto all = interfaces(network);
  if (address.is_any() || address.is_loopback()) {
    route.table = RT_TABLE_LOCAL;
    route.type = RTN_LOCAL;
    route.from =
        size == 4 ? std::span<const uint8_t>(all.front().address) : std::span<const uint8_t>(kLoopbackV6);
  } else if (size == 4 && all.size() > 1) {
    route.index = all[1].index;
    route.from = all[1].address;
  } else {
    return err(ENETUNREACH);
  }
  add_route(to, route, RTM_F_CLONED);
  return {};
}

}  // namespace

Try<std::vector<std::byte>> answer_route_request(const nlmsghdr& request, std::span<const std::byte> body,
                                                 uint32_t port, const Network* network) {
  constexpr int kKindMask = 3, kGet = 2;  // the last two bits are the request's kind: new, delete, get, set
  const int type = request.nlmsg_type;
  if (type > RTM_MAX) return err(EOPNOTSUPP);
  Messages messages(request, port);
  if (body.empty()) return messages.take();
  if ((type & kKindMask) != kGet) return err(EPERM);
  const bool is_dump = (request.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
  const int family = std::to_integer<int>(body.front());
  switch (type) {
    case RTM_GETLINK: MEMBRANE_TRY(answer_link(messages, is_dump, body, network)); break;
    case RTM_GETADDR:
      if (!is_dump) return err(EOPNOTSUPP);
      add_addresses(messages, family, network);
      break;
    case RTM_GETROUTE:
      if (!is_dump) {
        MEMBRANE_TRY(answer_one_route(messages, body, network));
        break;
      }
      if (family != AF_INET6) add_routes_v4(messages, network);
      if (family != AF_INET) add_routes_v6(messages);
      break;
    case RTM_GETNEIGH:
    case RTM_GETRULE:
    case RTM_GETQDISC:
    case RTM_GETADDRLABEL:
      if (!is_dump) return err(EOPNOTSUPP);
      break;  // there are none
    default: return err(EOPNOTSUPP);
  }
  return messages.take();
}

}  // namespace membrane::linux
