#include "mcp/uri.h"

namespace membrane::mcp {
namespace {

constexpr std::string_view kScheme = "membrane://";
constexpr std::string_view kPolicy = "policy", kSessions = "sessions", kReports = "reports/",
                           kOfSession = "sessions/", kFiles = "/files/";

// RFC 3986: the characters that need no escape in a path. A slash separates names.
bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~' || c == '/';
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string encoded(std::string_view path) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    if (is_plain(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = digit_of(text[i + 1]), low = digit_of(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool is_id(std::string_view text) {
  constexpr size_t kMost = 128;
  if (text.empty() || text.size() > kMost) return false;
  for (const char c : text)
    if (!is_plain(c) || c == '/') return false;
  return true;
}

}  // namespace

std::string uri_of(const ResourceName& name) {
  std::string scheme(kScheme);
  switch (name.place) {
    case Place::kPolicy: return scheme.append(kPolicy);
    case Place::kSessions: return scheme.append(kSessions);
    case Place::kReport: return scheme + std::string(kReports) + name.id;
    case Place::kFile: {
      const std::string_view path = name.path;
      return scheme + std::string(kOfSession) + name.id + std::string(kFiles) +
             encoded(path.starts_with('/') ? path.substr(1) : path);
    }
  }
  return scheme;
}

std::optional<ResourceName> read_uri(std::string_view uri) {
  if (uri.size() > kMaxUriBytes || !uri.starts_with(kScheme)) return std::nullopt;
  const std::string_view rest = uri.substr(kScheme.size());
  if (rest == kPolicy) return ResourceName{.place = Place::kPolicy};
  if (rest == kSessions) return ResourceName{.place = Place::kSessions};
  if (rest.starts_with(kReports)) {
    const std::string_view id = rest.substr(kReports.size());
    if (!is_id(id)) return std::nullopt;
    return ResourceName{.place = Place::kReport, .id = std::string(id)};
  }
  if (!rest.starts_with(kOfSession)) return std::nullopt;
  const std::string_view of_session = rest.substr(kOfSession.size());
  const size_t files = of_session.find(kFiles);
  if (files == std::string_view::npos || !is_id(of_session.substr(0, files))) return std::nullopt;
  auto path = decoded(of_session.substr(files + kFiles.size()));
  if (!path || path->empty() || path->find('\0') != std::string::npos) return std::nullopt;
  return ResourceName{.place = Place::kFile,
                      .id = std::string(of_session.substr(0, files)),
                      .path = path->starts_with('/') ? *path : "/" + *path};
}

}  // namespace membrane::mcp
