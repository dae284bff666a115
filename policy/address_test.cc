#include "policy/address.h"

#include <gtest/gtest.h>

namespace membrane::policy {
namespace {

Address address(const char* text) { return Address::parse(text).value(); }

TEST(Address, ReadsOnlyTheTwoPlainForms) {
  EXPECT_EQ(address("192.0.2.1").to_string(), "192.0.2.1");
  EXPECT_EQ(address("2001:DB8:0:0::1").to_string(), "2001:db8::1");
  for (const char* text : {"", "127.1", "0x7f.0.0.1", "2130706433", "010.0.0.1", "1.2.3.4.5", "[::1]",
                           "fe80::1%eth0", "1.2.3.4 ", "localhost", "::1/128"})
    EXPECT_FALSE(Address::parse(text)) << text;
  EXPECT_FALSE(Address::parse(std::string_view("127.0.0.1\0x", 11)));
}

TEST(Address, KnowsWhatIsNotThePublicInternet) {
  const std::pair<const char*, const char*> kCases[] = {
      {"0.0.0.0", "unspecified"},
      {"0.1.2.3", "unspecified"},
      {"10.255.0.1", "private"},
      {"100.64.0.1", "carrier-grade NAT"},
      {"100.127.255.255", "carrier-grade NAT"},
      {"100.100.100.200", "cloud metadata"},
      {"127.0.0.1", "loopback"},
      {"127.255.255.254", "loopback"},
      {"169.254.1.1", "link-local"},
      {"169.254.169.254", "cloud metadata"},
      {"168.63.129.16", "cloud metadata"},
      {"172.16.0.1", "private"},
      {"172.31.255.255", "private"},
      {"192.0.0.1", "reserved"},
      {"192.168.1.1", "private"},
      {"198.19.0.1", "benchmarking"},
      {"224.0.0.1", "multicast"},
      {"255.255.255.255", "reserved"},
      {"::", "unspecified"},
      {"::1", "loopback"},
      {"::127.0.0.1", "reserved"},
      {"::ffff:10.0.0.1", "private"},
      {"::ffff:169.254.169.254", "cloud metadata"},
      {"64:ff9b::a00:1", "private"},
      {"64:ff9b::7f00:1", "loopback"},
      {"64:ff9b:1::1", "local NAT64"},
      {"2001::1", "Teredo"},
      {"2001:db8::1", "documentation"},
      {"2002:7f00:1::", "6to4"},
      {"fc00::1", "unique local"},
      {"fd00:ec2::254", "cloud metadata"},
      {"fd20:ce::254", "cloud metadata"},
      {"fe80::1", "link-local"},
      {"fec0::1", "site-local"},
      {"ff02::1", "multicast"},
      {"4000::1", "reserved"},
  };
  for (const auto& [text, kind] : kCases) EXPECT_EQ(special_kind(address(text)), kind) << text;
  for (const char* text :
       {"1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1",
        "2606:4700::1111", "2a00:1450::1", "::ffff:1.1.1.1", "64:ff9b::101:101"})
    EXPECT_EQ(special_kind(address(text)), "") << text;
}

TEST(Cidr, ContainsByPrefix) {
  const Cidr net = parse_cidr("10.1.0.0/17").value();
  EXPECT_TRUE(net.contains(address("10.1.127.255")));
  EXPECT_FALSE(net.contains(address("10.1.128.0")));
  EXPECT_TRUE(net.contains(address("::ffff:10.1.0.1")));
  EXPECT_FALSE(net.contains(address("::1")));
  EXPECT_TRUE(parse_cidr("0.0.0.0/0").value().contains(address("255.1.2.3")));
  EXPECT_TRUE(parse_cidr("fd00::/8").value().contains(address("fdff::1")));
  const Cidr one = parse_cidr("192.168.1.20").value();
  EXPECT_TRUE(one.contains(address("192.168.1.20")));
  EXPECT_FALSE(one.contains(address("192.168.1.21")));
  EXPECT_EQ(one.to_string(), "192.168.1.20/32");
}

TEST(Cidr, RefusesRangesThatSaySomethingElse) {
  for (const char* text : {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08", "10.0.0.1/8",
                           "10/8", "::ffff:10.0.0.0/104", "::1/129", "10.0.0.0/8/8", "localhost"})
    EXPECT_FALSE(parse_cidr(text)) << text;
}

}  // namespace
}  // namespace membrane::policy
