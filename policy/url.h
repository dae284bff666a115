// An http or https URL, parsed once by libcurl's URL API (RFC 3986 with the leniencies of the web) and then held to
// a strict normal form. Decisions are made on these parts, and a request is sent only if libcurl parses the normal
// form into the same parts.
//
// Anything that different parsers may read differently is refused, not repaired: user information, characters that
// are not printable ASCII, backslashes, host names that are neither plain names nor addresses, zone identifiers,
// encoded control characters and overlong UTF-8 in paths.
//
// Needs libcurl (base/curl.h). Threads: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/address.h"

namespace membrane::policy {

// A path as the most lenient server might read it: percent escapes (also %uXXXX) decoded until none is left,
// backslashes and Unicode lookalikes of "." and "/" replaced by them, ";parameters" dropped, empty and dot segments
// resolved. A grant must allow this reading, too; so "/v1/%2e%2e%2fadmin" is not below "/v1/".
struct PathReading {
  std::string path;
  bool climbs = false;        // a segment was ".." before resolution
  bool has_overlong = false;  // has overlong UTF-8, which no URL may have
};
// Time and memory are linear in the path's length.
PathReading read_path(std::string_view path);

struct Url {
  static constexpr size_t kMaxBytes = 8192;

  std::string scheme;                // "http" or "https"
  std::string host;                  // lower case, no trailing dot; IPv6 without brackets, as RFC 5952
  std::optional<Address> address;    // when the host is an address, in any spelling
  uint16_t port = 0;                 // never 0 in a parsed URL
  std::string path;                  // begins with "/"; no dot segments; percent escapes as written
  PathReading reading;               // of `path`, computed once for all grants
  std::optional<std::string> query;  // without "?"

  [[nodiscard]] std::string origin() const;          // "https://example.org", "http://[::1]:8000"
  [[nodiscard]] std::string text() const;            // the whole URL; there is no fragment
  [[nodiscard]] std::string authority_host() const;  // host, IPv6 in brackets
  [[nodiscard]] bool same_origin(const Url& other) const;
};

// kInvalidArgument for an unacceptable URL, kExhausted for one longer than kMaxBytes, kUnsupported without libcurl.
// The fragment is dropped.
Result<Url> parse_url(std::string_view text);
// A reference as a Location header carries it, relative to `base`.
Result<Url> parse_url(std::string_view reference, const Url& base);

}  // namespace membrane::policy
