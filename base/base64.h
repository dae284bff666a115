// Base64 (RFC 4648, section 4), with padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace membrane {

std::string base64_encode(std::string_view bytes);
// Returns nothing unless `text` is exactly what base64_encode produces for some bytes: no white space, complete
// padding, unused bits zero.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace membrane
