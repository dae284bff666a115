#include "linux/files/netlink_socket.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <map>
#include <vector>

#include "linux/files/interfaces.h"
#include "linux/files/socket_testing.h"

namespace membrane::linux {
namespace {

class NoNetwork final : public Network {
 public:
  Done reaches(const InetAddress&, int) override { return err(ENETUNREACH); }
  Done connect(const std::shared_ptr<SocketEnd>&, const std::shared_ptr<SocketEnd>&,
               const InetAddress&) override {
    return err(ENETUNREACH);
  }
  std::optional<std::string> answer(const InetAddress&, std::span<const std::byte>) override { return {}; }
};

SocketAddress netlink_address(uint32_t port, uint32_t groups = 0) {
  const sockaddr_nl record = {.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = port, .nl_groups = groups};
  return {.bytes = std::string(reinterpret_cast<const char*>(&record), sizeof record)};
}

uint32_t port_of(const SocketAddress& address) {
  sockaddr_nl record = {};
  EXPECT_EQ(address.bytes.size(), sizeof record);
  std::memcpy(&record, address.bytes.data(), std::min(address.bytes.size(), sizeof record));
  EXPECT_EQ(record.nl_family, AF_NETLINK);
  return record.nl_pid;
}

template <typename T>
std::string text_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string request(uint16_t type, uint16_t flags, const std::string& body, uint32_t sequence = 7) {
  return text_of(nlmsghdr{.nlmsg_len = static_cast<uint32_t>(sizeof(nlmsghdr) + body.size()),
                          .nlmsg_type = type,
                          .nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags),
                          .nlmsg_seq = sequence,
                          .nlmsg_pid = 0}) +
         body;
}

std::string dump(uint16_t type, uint8_t family) {
  return request(type, NLM_F_DUMP, text_of(rtgenmsg{family}) + std::string(3, '\0'));
}

struct Message {
  nlmsghdr header;
  std::string body;
  [[nodiscard]] int error() const {
    int number = 0;
    std::memcpy(&number, body.data(), std::min(body.size(), sizeof number));
    return -number;
  }
  [[nodiscard]] std::map<int, std::string> attributes(size_t fixed) const {
    std::map<int, std::string> all;
    for (size_t at = NLMSG_ALIGN(fixed); at + sizeof(rtattr) <= body.size();) {
      rtattr head;
      std::memcpy(&head, body.data() + at, sizeof head);
      if (head.rta_len < sizeof head || head.rta_len > body.size() - at) {
        ADD_FAILURE() << "an attribute of " << head.rta_len << " bytes";
        break;
      }
      all[head.rta_type] = body.substr(at + sizeof head, head.rta_len - sizeof head);
      at += RTA_ALIGN(head.rta_len);
    }
    return all;
  }
};

std::vector<Message> messages_of(const std::string& text) {
  std::vector<Message> all;
  for (size_t at = 0; at + sizeof(nlmsghdr) <= text.size();) {
    Message message;
    std::memcpy(&message.header, text.data() + at, sizeof(nlmsghdr));
    const size_t length = message.header.nlmsg_len;
    if (length < sizeof(nlmsghdr) || length > text.size() - at) {
      ADD_FAILURE() << "a message of " << length << " bytes";
      break;
    }
    message.body = text.substr(at + sizeof(nlmsghdr), length - sizeof(nlmsghdr));
    all.push_back(std::move(message));
    at += NLMSG_ALIGN(length);
  }
  return all;
}

struct Asking {
  Sockets sockets;
  SocketRef socket;
  explicit Asking(int protocol = NETLINK_ROUTE)
      : socket(make_socket(sockets.space, sockets.caller, AF_NETLINK, SOCK_RAW, protocol).value()) {}
  std::vector<Message> ask(const std::string& text) {
    const auto sent = sockets.send(socket, text, {.to = netlink_address(0)});
    EXPECT_TRUE(sent.has_value());
    const auto got = sockets.receive(socket);
    EXPECT_EQ(port_of(got.from), 0u);
    return messages_of(got.text);
  }
};

TEST(NetlinkSocket, SupportsAFewProtocols) {
  Sockets sockets;
  const auto error_of = [&](int type, int protocol) {
    const auto made = make_socket(sockets.space, sockets.caller, AF_NETLINK, type, protocol);
    return made ? 0 : made.error();
  };
  EXPECT_EQ(error_of(SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_ROUTE), 0);
  EXPECT_EQ(error_of(SOCK_RAW, NETLINK_SOCK_DIAG), 0);
  EXPECT_EQ(error_of(SOCK_STREAM, NETLINK_ROUTE), ESOCKTNOSUPPORT);
  EXPECT_EQ(error_of(SOCK_RAW, NETLINK_AUDIT), EPROTONOSUPPORT);
  EXPECT_EQ(error_of(SOCK_RAW, -1), EPROTONOSUPPORT);
}

TEST(NetlinkSocket, HasAPortOfItsOwn) {
  Sockets sockets;
  auto first = sockets.make(AF_NETLINK, SOCK_RAW), second = sockets.make(AF_NETLINK, SOCK_RAW);
  EXPECT_EQ(port_of(first->name()), 0u);
  EXPECT_TRUE(first->bind(sockets.caller, netlink_address(0)));
  EXPECT_EQ(port_of(first->name()), static_cast<uint32_t>(sockets.caller.process));
  EXPECT_TRUE(second->bind(sockets.caller, netlink_address(0)));
  EXPECT_NE(port_of(second->name()), port_of(first->name()));
  EXPECT_EQ(first->bind(sockets.caller, netlink_address(9)).error(), EINVAL);
  auto third = sockets.make(AF_NETLINK, SOCK_RAW);
  EXPECT_EQ(third->bind(sockets.caller, netlink_address(port_of(first->name()))).error(), EADDRINUSE);
  const uint32_t port = port_of(first->name());
  first.reset();
  EXPECT_TRUE(third->bind(sockets.caller, netlink_address(port, 1)));
  EXPECT_EQ(port_of(third->name()), port);
  EXPECT_EQ(port_of(third->peer().value()), 0u);
  EXPECT_EQ(third->bind(sockets.caller, {.bytes = "xx"}).error(), EINVAL);
  EXPECT_EQ(third->connect(sockets.caller, netlink_address(5)).error(), EPERM);
  EXPECT_TRUE(third->connect(sockets.caller, netlink_address(0)));
  const auto protocol = third->option(SOL_SOCKET, SO_PROTOCOL).value();
  EXPECT_EQ(protocol, std::vector<std::byte>(4));
}

TEST(NetlinkSocket, ReportsTheLoopback) {
  Asking asking;
  const auto links = asking.ask(dump(RTM_GETLINK, AF_UNSPEC));
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].header.nlmsg_type, RTM_NEWLINK);
  EXPECT_EQ(links[0].header.nlmsg_flags, NLM_F_MULTI);
  EXPECT_EQ(links[0].header.nlmsg_seq, 7u);
  EXPECT_EQ(links[0].header.nlmsg_pid, port_of(asking.socket->name()));
  const auto of_link = links[0].attributes(sizeof(ifinfomsg));
  EXPECT_EQ(of_link.at(IFLA_IFNAME), std::string("lo\0", 3));
  EXPECT_EQ(of_link.at(IFLA_MTU), text_of(uint32_t{65536}));
  EXPECT_EQ(of_link.at(IFLA_ADDRESS), std::string(6, '\0'));
  EXPECT_EQ(links[1].header.nlmsg_type, NLMSG_DONE);
  EXPECT_EQ(links[1].error(), 0);

  const auto addresses = asking.ask(dump(RTM_GETADDR, AF_UNSPEC));
  ASSERT_EQ(addresses.size(), 3u);
  EXPECT_EQ(addresses[0].attributes(sizeof(ifaddrmsg)).at(IFA_LOCAL), std::string("\x7f\0\0\x01", 4));
  EXPECT_EQ(addresses[1].attributes(sizeof(ifaddrmsg)).at(IFA_ADDRESS), std::string(15, '\0') + '\x01');
  EXPECT_EQ(asking.ask(dump(RTM_GETADDR, AF_INET)).size(), 2u);
  EXPECT_EQ(asking.ask(dump(RTM_GETADDR, AF_INET6)).size(), 2u);
  const auto routes = asking.ask(dump(RTM_GETROUTE, AF_INET));
  ASSERT_EQ(routes.size(), 3u);
  EXPECT_EQ(routes[0].header.nlmsg_type, RTM_NEWROUTE);
  EXPECT_EQ(asking.ask(dump(RTM_GETNEIGH, AF_INET)).size(), 1u);
}

TEST(NetlinkSocket, ReportsTheInterfaceOfANetwork) {
  Asking asking;
  NoNetwork network;
  asking.sockets.space->network = &network;
  EXPECT_EQ(asking.ask(dump(RTM_GETLINK, AF_PACKET)).size(), 3u);
  const auto addresses = asking.ask(dump(RTM_GETADDR, AF_INET));
  ASSERT_EQ(addresses.size(), 3u);
  EXPECT_EQ(addresses[1].attributes(sizeof(ifaddrmsg)).at(IFA_LOCAL), std::string("\xc6\x12\0\x01", 4));
  // It can be used as one's own.
  auto server = asking.sockets.listening(AF_INET, SOCK_STREAM, at_v4({198, 18, 0, 1}, 5000));
  EXPECT_NE(asking.sockets.connected(AF_INET, SOCK_STREAM, at_v4({198, 18, 0, 1}, 5000)), nullptr);
}

TEST(NetlinkSocket, ReportsOneLinkAndOneRoute) {
  Asking asking;
  const ifinfomsg first = {
      .ifi_family = 0, .__ifi_pad = 0, .ifi_type = 0, .ifi_index = 1, .ifi_flags = 0, .ifi_change = 0};
  auto got = asking.ask(request(RTM_GETLINK, 0, text_of(first)));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.nlmsg_type, RTM_NEWLINK);
  EXPECT_EQ(got[0].header.nlmsg_flags, 0);
  const std::string name = text_of(rtattr{.rta_len = 7, .rta_type = IFLA_IFNAME}) + std::string("lo\0\0", 4);
  got = asking.ask(request(RTM_GETLINK, NLM_F_ACK, text_of(ifinfomsg()) + name));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.nlmsg_type, RTM_NEWLINK);
  EXPECT_EQ(messages_of(asking.sockets.receive(asking.socket).text)[0].error(), 0);
  ifinfomsg other = first;
  other.ifi_index = 9;
  EXPECT_EQ(asking.ask(request(RTM_GETLINK, 0, text_of(other)))[0].error(), ENODEV);
  EXPECT_EQ(asking.ask(request(RTM_GETLINK, 0, text_of(ifinfomsg())))[0].error(), EINVAL);
  rtmsg route = {};
  route.rtm_family = AF_INET;
  const auto to = [&](const std::string& ip) {
    return request(RTM_GETROUTE, 0, text_of(route) + text_of(rtattr{.rta_len = 8, .rta_type = RTA_DST}) + ip);
  };
  EXPECT_EQ(asking.ask(to(std::string("\x7f\0\0\x05", 4)))[0].header.nlmsg_type, RTM_NEWROUTE);
  EXPECT_EQ(asking.ask(to("\x08\x08\x08\x08"))[0].error(), ENETUNREACH);
}

TEST(NetlinkSocket, RefusesWhatItCannotDo) {
  Asking asking;
  const std::string body(sizeof(ifinfomsg), '\0');
  auto got = asking.ask(request(RTM_NEWLINK, NLM_F_ACK, body));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.nlmsg_type, NLMSG_ERROR);
  EXPECT_EQ(got[0].error(), EPERM);
  EXPECT_EQ(got[0].body.size(), sizeof(int) + sizeof(nlmsghdr) + body.size());
  EXPECT_EQ(asking.ask(request(RTM_MAX + 1, 0, body))[0].error(), EOPNOTSUPP);
  EXPECT_EQ(asking.ask(dump(RTM_GETNETCONF, 0))[0].error(), EOPNOTSUPP);
  EXPECT_TRUE(asking.socket->set_option(SOL_NETLINK, NETLINK_CAP_ACK, std::as_bytes(std::span("\1\0\0"))));
  got = asking.ask(request(RTM_NEWADDR, 0, body));
  EXPECT_EQ(got[0].body.size(), sizeof(int) + sizeof(nlmsghdr));
  EXPECT_EQ(asking.sockets.send(asking.socket, "x", {.to = netlink_address(9)}).error(), ECONNREFUSED);
  EXPECT_EQ(asking.sockets.send(asking.socket, "x", {.to = netlink_address(0, 1)}).error(), EPERM);
  EXPECT_EQ(asking.sockets.send(asking.socket, "x", {.to = {.bytes = "abc"}}).error(), EINVAL);
  Asking diagnosis(NETLINK_SOCK_DIAG);
  EXPECT_EQ(diagnosis.ask(request(20, NLM_F_DUMP, body))[0].error(), ENOENT);
}

TEST(NetlinkSocket, TakesRequestsOfAnyBytes) {
  Asking asking;
  for (const uint32_t length : {0u, 1u, 15u, 16u, 17u, 0x7fffffffu, 0xffffffffu}) {
    nlmsghdr header = {.nlmsg_len = length,
                       .nlmsg_type = RTM_GETLINK,
                       .nlmsg_flags = NLM_F_REQUEST,
                       .nlmsg_seq = 0,
                       .nlmsg_pid = 0};
    EXPECT_TRUE(asking.sockets.send(asking.socket, text_of(header) + "x"));
  }
  for (const uint16_t length : {uint16_t{0}, uint16_t{3}, uint16_t{5}, uint16_t{65535}})
    EXPECT_TRUE(asking.sockets.send(
        asking.socket,
        request(RTM_GETLINK, 0,
                text_of(ifinfomsg()) + text_of(rtattr{.rta_len = length, .rta_type = IFLA_IFNAME}) + "l")));
  while (!asking.sockets.receive(asking.socket).text.starts_with("error")) continue;
  EXPECT_EQ(asking.sockets.send(asking.socket, std::string(400'000, 'x')).error(), EMSGSIZE);
}

TEST(NetlinkSocket, LosesAnswersWithoutRoom) {
  Asking asking;
  std::string many;
  for (int i = 0; i < 5000; ++i) many += dump(RTM_GETLINK, 0);
  EXPECT_TRUE(asking.sockets.send(asking.socket, many));
  EXPECT_LE(asking.socket->end().charged, SocketEnd::kUsualCapacity);
  EXPECT_EQ(asking.sockets.receive(asking.socket).text, "error " + std::to_string(ENOBUFS));
  int count = 0;
  while (!asking.sockets.receive(asking.socket).text.starts_with("error")) ++count;
  EXPECT_GT(count, 10);
  EXPECT_EQ(asking.ask(dump(RTM_GETLINK, 0)).size(), 2u);
}

TEST(NetlinkSocket, IsPeekedAtAsIproute2Does) {
  Asking asking;
  EXPECT_TRUE(asking.sockets.send(asking.socket, dump(RTM_GETADDR, AF_INET)));
  MemoryTarget none{std::span<std::byte>()};
  const auto peeked = asking.socket->receive(asking.sockets.caller, none, MSG_PEEK).value();
  EXPECT_EQ(peeked.size, 0u);
  EXPECT_EQ(peeked.whole_size, asking.sockets.receive(asking.socket).text.size());
}

TEST(Interfaces, AreListedByIoctl) {
  Sockets sockets;
  auto socket = sockets.make(AF_INET, SOCK_DGRAM);
  struct Room {
    ifconf list;
    ifreq records[3];
  } room = {};
  room.list.ifc_len = sizeof room.records;
  room.list.ifc_buf = reinterpret_cast<char*>(FakeCaller::kMemory + offsetof(Room, records));
  EXPECT_TRUE(sockets.caller.ioctl(*socket, SIOCGIFCONF, room));
  EXPECT_EQ(room.list.ifc_len, static_cast<int>(sizeof(ifreq)));
  EXPECT_STREQ(room.records[0].ifr_name, "lo");
  room.list.ifc_len = -1;
  EXPECT_TRUE(sockets.caller.ioctl(*socket, SIOCGIFCONF, room));
  EXPECT_EQ(room.list.ifc_len, 0);
  room.list.ifc_buf = nullptr;
  EXPECT_TRUE(sockets.caller.ioctl(*socket, SIOCGIFCONF, room));
  EXPECT_EQ(room.list.ifc_len, static_cast<int>(sizeof(ifreq)));

  ifreq wish = {};
  std::memcpy(wish.ifr_name, "lo", 3);
  EXPECT_TRUE(sockets.caller.ioctl(*socket, SIOCGIFFLAGS, wish));
  EXPECT_EQ(wish.ifr_flags, IFF_UP | IFF_LOOPBACK | IFF_RUNNING);
  EXPECT_TRUE(sockets.caller.ioctl(*socket, SIOCGIFNETMASK, wish));
  EXPECT_EQ(std::string(wish.ifr_addr.sa_data + 2, 4), std::string("\xff\0\0\0", 4));
  EXPECT_TRUE(sockets.caller.ioctl(*sockets.make(AF_UNIX, SOCK_STREAM), SIOCGIFINDEX, wish));
  EXPECT_EQ(wish.ifr_ifindex, 1);
  EXPECT_TRUE(sockets.caller.ioctl(*socket, SIOCGIFNAME, wish));
  EXPECT_STREQ(wish.ifr_name, "lo");
  EXPECT_TRUE(sockets.caller.ioctl(*socket, SIOCGIFHWADDR, wish));
  EXPECT_TRUE(sockets.caller.ioctl(*socket, SIOCGIFMTU, wish));
  EXPECT_EQ(sockets.caller.ioctl(*socket, SIOCSIFFLAGS, wish).error(), EPERM);
  std::memset(wish.ifr_name, 'x', sizeof wish.ifr_name);
  EXPECT_EQ(sockets.caller.ioctl(*socket, SIOCGIFFLAGS, wish).error(), ENODEV);
  EXPECT_EQ(sockets.caller.ioctl(*socket, 0x5401, wish).error(), ENOTTY);
}

}  // namespace
}  // namespace membrane::linux
