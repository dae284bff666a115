// ClientHellos for tests, as short as possible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace membrane::computers {

inline std::string sized(size_t length_bytes, std::string_view bytes) {
  std::string out;
  for (size_t i = length_bytes; i-- > 0;) out += static_cast<char>(bytes.size() >> (8 * i) & 0xff);
  return out.append(bytes);
}

inline std::string server_name_entry(char type, std::string_view name) {
  return std::string(1, type) + sized(2, name);
}

// The handshake message, without its record. `names`: how often the extension occurs. `first`: extensions
// before it.
inline std::string hello_message(const std::optional<std::string>& name, int names = 1,
                                 const std::string& first = "") {
  std::string extensions = first;
  for (int i = 0; name && i < names; ++i)
    extensions += std::string(2, '\0') + sized(2, sized(2, server_name_entry('\0', *name)));
  extensions += std::string("\0\x17\0\0", 4);  // extended_master_secret
  const std::string hello = std::string("\x03\x03", 2) + std::string(32, 'r') + sized(1, "") +
                            sized(2, std::string("\x13\x01", 2)) + sized(1, std::string(1, '\0')) +
                            sized(2, extensions);
  return std::string(1, '\x01') + sized(3, hello);
}

inline std::string in_records(std::string_view message, size_t most_bytes) {
  std::string out;
  for (; !message.empty(); message.remove_prefix(std::min(most_bytes, message.size())))
    out += std::string("\x16\x03\x01", 3) + sized(2, message.substr(0, most_bytes));
  return out;
}

inline std::string client_hello(const std::optional<std::string>& name, int names = 1) {
  return in_records(hello_message(name, names), 16384);
}

}  // namespace membrane::computers
