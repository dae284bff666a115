#include "host/broker/guest_path.h"

#include "base/utf8.h"

namespace membrane::host {

HostResult<Components> parse_guest_path(std::string_view path) {
  if (path.size() > kMaxPathBytes) return refuse(Errno::kInvalid, "The path is too long.");
  if (path.find('\0') != std::string_view::npos)
    return refuse(Errno::kInvalid, "The path contains a NUL character.");
  if (!is_utf8(path)) return refuse(Errno::kInvalid, "The path is not UTF-8.");
  if (!path.starts_with('/'))
    return refuse(Errno::kInvalid, "The path is not absolute: begin it with a slash.");
  Components out;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view component = path.substr(0, path.find('/'));
    path.remove_prefix(component.size());
    if (component.empty() || component == ".") continue;
    if (component == "..") return refuse(Errno::kInvalid, "The path contains \"..\": name the file itself.");
    if (component.size() > 255) return refuse(Errno::kInvalid, "A part of the path is too long.");
    if (out.size() == kMaxComponents) return refuse(Errno::kInvalid, "The path has too many parts.");
    out.emplace_back(component);
  }
  return out;
}

std::string guest_text(const Components& components) {
  std::string out;
  for (const std::string& component : components) out += "/" + component;
  return out.empty() ? "/" : out;
}

std::string directory_to_grant(std::string_view guest_path) {
  const size_t slash = guest_path.rfind('/');
  if (slash != 0) return std::string(guest_path.substr(0, slash));
  return guest_path.contains('.') ? "/" : std::string(guest_path);
}

}  // namespace membrane::host
