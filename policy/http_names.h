// Header names and values as RFC 9110 has them, and which headers nobody but the egress sets.
//
// Threads: pure functions.
#pragma once

#include <string_view>

namespace membrane::policy {

bool is_header_name(std::string_view name);                // a token, 1 to 256 bytes
bool is_header_value(std::string_view value);              // no control character but tab; no CR, LF, NUL
bool same_header(std::string_view a, std::string_view b);  // case-insensitive

// Headers that describe the connection or the message's frame (Host, Content-Length,
// Transfer-Encoding, Proxy-*, …), and those that would have a server take the request for
// another method than the one that was granted (X-HTTP-Method-Override and kin).
bool is_reserved_header(std::string_view name);

}  // namespace membrane::policy
