// The name of the server in the first message of a TLS connection (RFC 8446, 4.1.2; RFC 6066, 3). The bytes are a guest's.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane::computers {

// Bytes of a ClientHello with all its records; longer ones are refused.
inline constexpr size_t kMostHelloBytes = 32u << 10;

// The name in lower case, "" when the message has none; nothing while bytes of the message are missing. Errors: kInvalidInput for
// what begins no TLS connection.
Result<std::optional<std::string>> server_name_of(std::string_view bytes);

}  // namespace membrane::computers
