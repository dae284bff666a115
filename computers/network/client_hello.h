// Reads the server name from the first message of a TLS connection (RFC 8446, 4.1.2; RFC 6066, 3). The bytes
// are a guest's.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace membrane::computers {

// The limit for a ClientHello with all its records; longer ones are refused.
inline constexpr size_t kMostHelloBytes = 32u << 10;

// The name in lower case, "" when the message has none; nothing while bytes of the message are missing.
// Errors: kInvalidInput if the bytes do not begin a TLS connection, or have more than one name; kDenied if
// another name is encrypted (encrypted_client_hello), which the server would go by.
Result<std::optional<std::string>> server_name_of(std::string_view bytes);

// A server may request the ClientHello again (RFC 8446, 4.1.4): checks that what the program sends, from its
// first byte on, contains no other name.
class HelloWatch {
 public:
  explicit HelloWatch(std::string name) : name_(std::move(name)) {}
  // Checks the next bytes before they are forwarded. Errors: those of server_name_of(); kDenied for another
  // name.
  Status take(std::string_view bytes);

 private:
  Status take_handshake(std::string_view part);
  const std::string name_;
  std::string head_, message_;  // received so far
  size_t left_in_record_ = 0;
  int type_ = 0, hellos_ = 0;
  bool has_changed_cipher_ = false, is_over_ = false;
};

}  // namespace membrane::computers
