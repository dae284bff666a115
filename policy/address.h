// IP addresses, ranges of them, and which of them are not the public internet.
//
// Special ranges: RFC 6890 and the IANA special-purpose registries, and the addresses at
// which clouds serve machine credentials.
//
// Threads: values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane::policy {

class Address {
 public:
  // Dotted quad or RFC 4291 text, without brackets, zone or port. Other forms that inet_aton accepts are refused
  // ("127.1", "0x7f000001").
  static std::optional<Address> parse(std::string_view text);
  static Address v4(const std::array<uint8_t, 4>& bytes);
  static Address v6(const std::array<uint8_t, 16>& bytes);

  [[nodiscard]] bool is_v4() const { return is_v4_; }
  // Network order; an IPv4 address is in the first four.
  [[nodiscard]] const std::array<uint8_t, 16>& bytes() const { return bytes_; }
  [[nodiscard]] unsigned bits() const { return is_v4_ ? 32 : 128; }
  [[nodiscard]] std::string to_string() const;  // RFC 5952

  friend bool operator==(const Address&, const Address&) = default;

 private:
  bool is_v4_ = true;
  std::array<uint8_t, 16> bytes_{};
};

// The IPv4 address inside an IPv4-mapped IPv6 one (::ffff:a.b.c.d), which is what a socket would connect to; any
// other address unchanged.
Address unmapped(const Address& address);

// An address range, "10.0.0.0/8" or "fd00::/8"; a bare address is a range of one.
struct Cidr {
  Address base;
  unsigned prefix_bits = 0;

  [[nodiscard]] bool contains(const Address& address) const;
  [[nodiscard]] std::string to_string() const;
};
// Refuses ranges with bits set beyond the prefix, and IPv4-mapped ones: both mean something other than they appear
// to.
Result<Cidr> parse_cidr(std::string_view text);

// Why an address is not the public internet: "private", "loopback", "link-local", "cloud metadata", …; "" for a
// public one. Addresses that embed an IPv4 address (mapped, NAT64) are judged by that one; 6to4 and Teredo are
// refused too.
std::string_view special_kind(const Address& address);
// The addresses at which clouds serve credentials. A range does not grant these: only the address itself does.
bool is_metadata(const Address& address);

}  // namespace membrane::policy
