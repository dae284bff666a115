// DNS queries of guests and their answers (RFC 1035). A query comes from a guest and may contain anything.
//
// Threads: pure.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace membrane::linux {

struct DnsName {
  bool exists = false;
  std::optional<std::array<uint8_t, 4>> v4;
  std::optional<std::array<uint8_t, 16>> v6;
};
// The name is in lower case, has no trailing dot, and consists of letters, digits, '-', '_' and '.'.
using FindName = std::function<DnsName(std::string_view name)>;

// Returns the answer to a query; nothing if the bytes are not a query, which gets no answer. A name that does
// not exist is NXDOMAIN; a name without an address of the requested kind gets an empty answer.
std::optional<std::string> answer_dns(std::span<const std::byte> query, const FindName& find);

}  // namespace membrane::linux
