#include "policy/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <vector>

namespace membrane::policy {
namespace {

struct SpecialRange {
  std::string_view cidr, kind;
};

// First match wins.
constexpr SpecialRange kSpecialV4[] = {
    {"0.0.0.0/8", "unspecified"},
    {"10.0.0.0/8", "private"},
    {"100.64.0.0/10", "carrier-grade NAT"},
    {"127.0.0.0/8", "loopback"},
    {"169.254.0.0/16", "link-local"},
    {"172.16.0.0/12", "private"},
    {"192.0.0.0/24", "reserved"},
    {"192.0.2.0/24", "documentation"},
    {"192.88.99.0/24", "6to4 relay"},
    {"192.168.0.0/16", "private"},
    {"198.18.0.0/15", "benchmarking"},
    {"198.51.100.0/24", "documentation"},
    {"203.0.113.0/24", "documentation"},
    {"224.0.0.0/4", "multicast"},
    {"240.0.0.0/4", "reserved"},
};
constexpr SpecialRange kSpecialV6[] = {
    {"::/128", "unspecified"},    {"::1/128", "loopback"},        {"64:ff9b:1::/48", "local NAT64"},
    {"100::/64", "discard"},      {"2001::/32", "Teredo"},        {"2001:2::/48", "benchmarking"},
    {"2001:10::/28", "ORCHID"},   {"2001:20::/28", "ORCHID"},     {"2001:db8::/32", "documentation"},
    {"2002::/16", "6to4"},        {"3fff::/20", "documentation"}, {"5f00::/16", "segment routing"},
    {"fc00::/7", "unique local"}, {"fe80::/10", "link-local"},    {"fec0::/10", "site-local"},
    {"ff00::/8", "multicast"},
};
// The first is the one that nearly every cloud uses; then those of Azure's wire server, Alibaba and Oracle, and the
// IPv6 ones of AWS and Google.
constexpr std::string_view kMetadata[] = {"169.254.169.254", "168.63.129.16", "100.100.100.200",
                                          "192.0.0.192",     "fd00:ec2::254", "fd20:ce::254"};

struct Range {
  Cidr cidr;
  std::string_view kind;
};

template <size_t N>
std::vector<Range> parse_table(const SpecialRange (&rows)[N]) {
  std::vector<Range> out;
  for (const SpecialRange& row : rows) out.push_back({parse_cidr(row.cidr).value(), row.kind});
  return out;
}

Address v4_from(const std::array<uint8_t, 16>& bytes, size_t at) {
  return Address::v4({bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]});
}

bool begins(const Address& address, std::string_view cidr) {
  return parse_cidr(cidr).value().contains(address);
}

std::string_view find_kind(const std::vector<Range>& ranges, const Address& address) {
  for (const Range& range : ranges)
    if (range.cidr.contains(address)) return range.kind;
  return {};
}

}  // namespace

std::optional<Address> Address::parse(std::string_view text) {
  const std::string copy(text);
  if (copy.find('\0') != std::string::npos) return std::nullopt;  // inet_pton would stop there
  Address out;
  if (inet_pton(AF_INET, copy.c_str(), out.bytes_.data()) == 1) return out;
  out.is_v4_ = false;
  if (inet_pton(AF_INET6, copy.c_str(), out.bytes_.data()) == 1) return out;
  return std::nullopt;
}

Address Address::v4(const std::array<uint8_t, 4>& bytes) {
  Address out;
  std::copy(bytes.begin(), bytes.end(), out.bytes_.begin());
  return out;
}

Address Address::v6(const std::array<uint8_t, 16>& bytes) {
  Address out;
  out.is_v4_ = false;
  out.bytes_ = bytes;
  return out;
}

std::string Address::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(is_v4_ ? AF_INET : AF_INET6, bytes_.data(), text, sizeof text);
  return text;
}

Address unmapped(const Address& address) {
  static constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (address.is_v4() || !std::equal(kMapped.begin(), kMapped.end(), address.bytes().begin())) return address;
  return v4_from(address.bytes(), 12);
}

bool Cidr::contains(const Address& address) const {
  const Address other = unmapped(address);
  if (other.is_v4() != base.is_v4()) return false;
  for (unsigned bit = 0; bit < prefix_bits; bit += 8) {
    const unsigned left = prefix_bits - bit;
    const auto mask = static_cast<uint8_t>(left >= 8 ? 0xff : 0xff << (8 - left));
    if ((base.bytes()[bit / 8] ^ other.bytes()[bit / 8]) & mask) return false;
  }
  return true;
}

std::string Cidr::to_string() const { return base.to_string() + "/" + std::to_string(prefix_bits); }

Result<Cidr> parse_cidr(std::string_view text) {
  const auto refuse = [text](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument, "\"" + std::string(text) + "\" " + std::string(why),
                "write an address or a range such as 192.168.1.20, 10.0.0.0/8 or fd00::/8");
  };
  const size_t slash = text.find('/');
  const auto base = Address::parse(text.substr(0, slash));
  if (!base) return refuse("is not an IP address or range.");
  if (unmapped(*base) != *base) return refuse("is an IPv4-mapped IPv6 address; write it as IPv4.");
  Cidr out{*base, base->bits()};
  if (slash == std::string_view::npos) return out;
  const std::string_view prefix = text.substr(slash + 1);
  const bool digits = !prefix.empty() && prefix.size() <= 3 && (prefix == "0" || prefix[0] != '0') &&
                      std::all_of(prefix.begin(), prefix.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return refuse("has a malformed prefix length.");
  out.prefix_bits = static_cast<unsigned>(std::stoul(std::string(prefix)));
  if (out.prefix_bits > base->bits()) return refuse("has a prefix longer than the address.");
  for (unsigned bit = out.prefix_bits; bit < base->bits(); ++bit)
    if (base->bytes()[bit / 8] & (0x80 >> (bit % 8))) return refuse("has bits set beyond its prefix.");
  return out;
}

bool is_metadata(const Address& address) {
  return std::any_of(
      std::begin(kMetadata), std::end(kMetadata),
      [other = unmapped(address)](std::string_view text) { return Address::parse(text) == other; });
}

std::string_view special_kind(const Address& given) {
  static const std::vector<Range> v4 = parse_table(kSpecialV4);
  static const std::vector<Range> v6 = parse_table(kSpecialV6);
  const Address address = unmapped(given);
  if (is_metadata(address)) return "cloud metadata";
  if (address.is_v4()) return find_kind(v4, address);
  if (const auto kind = find_kind(v6, address); !kind.empty()) return kind;
  // A NAT64 gateway would forward to the IPv4 address in the last four bytes.
  if (begins(address, "64:ff9b::/96")) return special_kind(v4_from(address.bytes(), 12));
  if (begins(address, "2000::/3")) return {};
  return "reserved";  // IANA has allocated only 2000::/3 as global unicast
}

}  // namespace membrane::policy
