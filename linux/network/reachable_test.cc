#include "linux/network/reachable.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

namespace membrane::linux {
namespace {

InetAddress v4(std::array<uint8_t, 4> ip, uint16_t port) {
  InetAddress address = any_of(AF_INET);
  std::copy(ip.begin(), ip.end(), address.ip.begin() + 12);
  address.port = port;
  return address;
}

InetAddress at(InetAddress address, uint16_t port) {
  address.port = port;
  return address;
}

TEST(Reachable, ANameHasOneAddressAndMeansItsPorts) {
  Reachable hosts = Reachable::parse("example.org 443\nexample.org 80\n").value();
  const auto address = hosts.address_of("example.org");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->ip[12], 198);
  EXPECT_EQ(address->ip[13] & 0xfe, 18);
  EXPECT_EQ(hosts.address_of("example.org")->ip, address->ip);
  EXPECT_EQ(hosts.host_at(at(*address, 443)).value(), "example.org");
  EXPECT_EQ(hosts.host_at(at(*address, 80)).value(), "example.org");
  EXPECT_EQ(hosts.host_at(at(*address, 22)).error(), ECONNREFUSED);
  EXPECT_FALSE(hosts.address_of("www.example.org"));
  EXPECT_FALSE(hosts.address_of("example.com"));
}

TEST(Reachable, AnAddressThatNoNameHasLeadsNowhere) {
  Reachable hosts = Reachable::parse("example.org 443\n").value();
  EXPECT_EQ(hosts.host_at(v4({198, 18, 0, 77}, 443)).error(), ENETUNREACH);
  EXPECT_EQ(hosts.host_at(v4({93, 184, 216, 34}, 443)).error(), ENETUNREACH);
  EXPECT_EQ(hosts.host_at(v4({127, 0, 0, 1}, 443)).error(), ECONNREFUSED);
}

TEST(Reachable, NamesBelowAreReachableAtAnyDepth) {
  Reachable hosts = Reachable::parse("*.example.org 443\n").value();
  EXPECT_TRUE(hosts.address_of("a.example.org"));
  EXPECT_TRUE(hosts.address_of("b.a.example.org"));
  EXPECT_FALSE(hosts.address_of("example.org"));
  EXPECT_FALSE(hosts.address_of(".example.org"));
  EXPECT_FALSE(hosts.address_of("aexample.org"));
  EXPECT_FALSE(hosts.address_of("A.example.org"));
}

TEST(Reachable, AddressesAreReachableWhereTheyAreGranted) {
  const Reachable hosts =
      Reachable::parse("127.0.0.1 8000\n10.1.2.3 80\n2001:db8::1 80\nlocalhost 8001\n").value();
  EXPECT_EQ(hosts.host_at(v4({127, 0, 0, 1}, 8000)).value(), "127.0.0.1");
  EXPECT_EQ(hosts.host_at(v4({127, 0, 0, 1}, 8001)).value(), "localhost");
  EXPECT_EQ(hosts.host_at(v4({127, 0, 0, 2}, 8001)).value(), "localhost");
  EXPECT_EQ(hosts.host_at(v4({10, 1, 2, 3}, 80)).value(), "10.1.2.3");
  EXPECT_EQ(hosts.host_at(v4({10, 1, 2, 3}, 81)).error(), ENETUNREACH);
}

TEST(Reachable, ThereIsABoundOfNames) {
  Reachable hosts = Reachable::parse("*.example.org 443\n").value();
  for (size_t i = 0; i < Reachable::kMostNames; ++i)
    ASSERT_TRUE(hosts.address_of(std::to_string(i) + ".example.org"));
  EXPECT_FALSE(hosts.address_of("one-more.example.org"));
  EXPECT_TRUE(hosts.address_of("17.example.org"));
}

TEST(Reachable, AListIsReadOrRefused) {
  for (const std::string_view text :
       {"example.org", "example.org\n", "example.org 443", "example.org 0\n", "example.org 70000\n", " 443\n",
        "Example.org 443\n", "a b 443\n", "a/b 443\n", "example.org 44x\n", "*. 1\n"})
    EXPECT_FALSE(Reachable::parse(text)) << text;
  const std::vector<ReachableHost> hosts = {{"example.org", 443}, {"*.example.org", 8443}};
  EXPECT_TRUE(Reachable::parse(Reachable::to_text(hosts)));
  std::string many;
  for (size_t i = 0; i <= Reachable::kMostHosts; ++i) many += "a 1\n";
  EXPECT_FALSE(Reachable::parse(many));
}

}  // namespace
}  // namespace membrane::linux
