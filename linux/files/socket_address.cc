#include "linux/files/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace membrane::linux {
namespace {

constexpr size_t kPathAt = offsetof(sockaddr_un, sun_path);
constexpr size_t kLeastInet6 = 24;  // without sin6_scope_id, as RFC 2133 has it

template <typename T>
SocketAddress address_of(const T& record) {
  return {.bytes = std::string(reinterpret_cast<const char*>(&record), sizeof record)};
}

}  // namespace

int SocketAddress::family() const {
  sa_family_t family = 0;
  if (bytes.size() < sizeof family) return 0;
  std::memcpy(&family, bytes.data(), sizeof family);
  return family;
}

std::optional<std::string> SocketAddress::path() const {
  const auto name = unix_name_of(*this);
  if (!name || !name->is_path) return {};
  const std::string path = bytes.substr(kPathAt);
  return path.substr(0, std::min(path.size(), path.find('\0')));
}

bool InetAddress::is_v4() const {
  return std::ranges::all_of(std::span(ip).first(10), [](uint8_t byte) { return byte == 0; }) &&
         ip[10] == 0xff && ip[11] == 0xff;
}

bool InetAddress::is_any() const {
  const auto host = std::span(ip).subspan(is_v4() ? 12 : 0);
  return std::ranges::all_of(host, [](uint8_t byte) { return byte == 0; });
}

bool InetAddress::is_loopback() const {
  if (is_v4()) return ip[12] == 127 || std::ranges::equal(std::span(ip).subspan(12), kOwnAddress);
  return std::ranges::all_of(std::span(ip).first(15), [](uint8_t byte) { return byte == 0; }) && ip[15] == 1;
}

InetAddress any_of(int domain) {
  InetAddress address;
  if (domain == AF_INET) address.ip[10] = address.ip[11] = 0xff;
  return address;
}

InetAddress loopback_like(const InetAddress& address) {
  InetAddress made = any_of(address.is_v4() ? AF_INET : AF_INET6);
  if (address.is_v4()) made.ip[12] = 127;
  made.ip[15] = 1;
  made.port = address.port;
  return made;
}

Try<InetAddress> inet_address_of(const SocketAddress& address, int domain) {
  const size_t least = domain == AF_INET ? sizeof(sockaddr_in) : kLeastInet6;
  if (address.bytes.size() < least) return err(EINVAL);
  if (address.family() != domain) return err(EAFNOSUPPORT);
  InetAddress made = any_of(domain);
  if (domain == AF_INET) {
    sockaddr_in record = {};
    std::memcpy(&record, address.bytes.data(), sizeof record);
    std::memcpy(&made.ip[12], &record.sin_addr, 4);
    made.port = ntohs(record.sin_port);
    return made;
  }
  sockaddr_in6 record = {};
  std::memcpy(&record, address.bytes.data(), std::min(address.bytes.size(), sizeof record));
  std::memcpy(made.ip.data(), &record.sin6_addr, 16);
  made.port = ntohs(record.sin6_port);
  return made;
}

SocketAddress socket_address_of(const InetAddress& address, int domain) {
  if (domain == AF_INET) {
    sockaddr_in record = {};
    record.sin_family = AF_INET;
    record.sin_port = htons(address.port);
    std::memcpy(&record.sin_addr, &address.ip[12], 4);
    return address_of(record);
  }
  sockaddr_in6 record = {};
  record.sin6_family = AF_INET6;
  record.sin6_port = htons(address.port);
  std::memcpy(&record.sin6_addr, address.ip.data(), 16);
  return address_of(record);
}

Try<UnixName> unix_name_of(const SocketAddress& address) {
  if (address.bytes.size() < kPathAt || address.bytes.size() > sizeof(sockaddr_un)) return err(EINVAL);
  if (address.family() != AF_UNIX) return err(EINVAL);
  const std::string_view name = std::string_view(address.bytes).substr(kPathAt);
  if (name.empty()) return UnixName{.abstract = {}, .is_path = false, .is_unnamed = true};
  if (name.front() == '\0') return UnixName{.abstract = std::string(name.substr(1))};
  return UnixName{.abstract = {}, .is_path = true};
}

SocketAddress unnamed_address(int domain) {
  const auto family = static_cast<sa_family_t>(domain);
  return address_of(family);
}

SocketAddress abstract_address(std::string_view name) {
  SocketAddress address = unnamed_address(AF_UNIX);
  address.bytes += '\0';
  address.bytes += name;
  return address;
}

}  // namespace membrane::linux
