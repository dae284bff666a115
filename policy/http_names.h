// Header names and values as RFC 9110 has them, and who may set which header.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace membrane::policy {

bool is_header_name(std::string_view name);    // a token, 1 to 256 bytes
bool is_header_value(std::string_view value);  // no control character but tab; no CR, LF, NUL

// The name as the most lenient server reads it: lower case, and every character that is neither a letter nor a
// digit is "-". CGI and its descendants make environment variables of headers, so that X-Role and X_Role are one.
std::string folded_header(std::string_view name);
bool same_header(std::string_view a, std::string_view b);  // equal when folded

enum class HeaderOwner : uint8_t {
  kEgress,  // the message's frame and method: Host, Content-Length, Transfer-Encoding, Proxy-*, X-HTTP-Method-Override
  kGrant,  // what servers and proxies route by or trust: X-Original-URL, X-Forwarded-*, Forwarded, Via, X-Real-IP
  kProgram,  // all else
};
// The lowest one who may set the header: a grant may also set what a program may, the egress all.
HeaderOwner owner_of_header(std::string_view name);

}  // namespace membrane::policy
