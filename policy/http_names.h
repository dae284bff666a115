// Header names and values as RFC 9110 defines them, and who may set which header.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace membrane::policy {

bool is_header_name(std::string_view name);    // a token, 1 to 256 bytes
bool is_header_value(std::string_view value);  // no control character but tab; no CR, LF, NUL

// The name as the most lenient server reads it: lower case, with "-" for every character that is neither a letter
// nor a digit. CGI and its descendants turn headers into environment variables, so X-Role and X_Role are the same
// header there.
std::string folded_header(std::string_view name);
bool same_header(std::string_view a, std::string_view b);  // equal when folded

enum class HeaderOwner : uint8_t {
  kEgress,   // framing and method: Host, Content-Length, Transfer-Encoding, Proxy-*, X-HTTP-Method-Override
  kGrant,    // routing and client identity: X-Original-URL, X-Forwarded-*, Forwarded, Via, X-Real-IP
  kProgram,  // all others
};
// The least privileged owner that may set the header: a grant may also set what a program may, the egress all.
HeaderOwner owner_of_header(std::string_view name);

}  // namespace membrane::policy
