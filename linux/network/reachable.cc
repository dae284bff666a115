#include "linux/network/reachable.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace membrane::linux {
namespace {

constexpr uint32_t kFirstAddress = 0xc6120002;  // 198.18.0.2
constexpr uint32_t kAddresses = (1u << 17) - 4;

uint32_t hash_of(std::string_view name) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

InetAddress v4(uint32_t number) {
  InetAddress address = any_of(AF_INET);
  for (size_t i = 0; i < 4; ++i) address.ip[12 + i] = static_cast<uint8_t>(number >> (24 - 8 * i));
  return address;
}

std::string text_of(const InetAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.is_v4()) inet_ntop(AF_INET, &address.ip[12], text, sizeof text);
  else inet_ntop(AF_INET6, address.ip.data(), text, sizeof text);
  return text;
}

bool is_host(std::string_view host) {
  return !host.empty() && host.size() <= Reachable::kMostNameBytes && std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == ':';
  });
}

Error malformed() { return Error{ErrorCode::kInvalidInput, "the list of reachable hosts is malformed", {}}; }

}  // namespace

// A line has a host, a space and a port.
Result<Reachable> Reachable::parse(std::string_view text) {
  Reachable made;
  for (size_t count = 0; !text.empty(); ++count) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos || count == kMostHosts) return std::unexpected(malformed());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const bool is_below = line.starts_with("*.");
    if (is_below) line.remove_prefix(2);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || !is_host(line.substr(0, space)))
      return std::unexpected(malformed());
    const std::string_view number = line.substr(space + 1);
    uint16_t port = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), port);
    if (error != std::errc() || stop != number.data() + number.size() || port == 0)
      return std::unexpected(malformed());
    (is_below ? made.below_ : made.hosts_)[std::string(line.substr(0, space))].insert(port);
  }
  return made;
}

std::string Reachable::to_text(const std::vector<ReachableHost>& hosts) {
  std::string text;
  for (const ReachableHost& each : hosts) text += each.host + " " + std::to_string(each.port) + "\n";
  return text;
}

bool Reachable::allows(std::string_view name, std::optional<uint16_t> port) const {
  const auto has = [port](const auto& hosts, std::string_view host) {
    const auto found = hosts.find(host);
    return found != hosts.end() && (!port || found->second.contains(*port));
  };
  if (has(hosts_, name)) return true;
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1))
    if (dot > 0 && has(below_, name.substr(dot + 1))) return true;
  return false;
}

std::optional<InetAddress> Reachable::address_of(std::string_view name) {
  if (name == "localhost") return loopback_like(any_of(AF_INET));
  if (!is_host(name) || !allows(name, std::nullopt)) return {};
  // A name has the same address in every sandbox, except where two names would collide.
  for (uint32_t step = 0; step < kAddresses; ++step) {
    const InetAddress address = v4(kFirstAddress + (hash_of(name) + step) % kAddresses);
    const auto there = names_.find(address.ip);
    if (there != names_.end() && there->second == name) return address;
    if (there != names_.end()) continue;
    if (names_.size() == kMostNames) return {};
    names_.emplace(address.ip, name);
    return address;
  }
  return {};
}

Try<std::string> Reachable::host_at(const InetAddress& address) const {
  const auto name = names_.find(address.ip);
  if (name != names_.end()) {
    if (!allows(name->second, address.port)) return err(ECONNREFUSED);
    return name->second;
  }
  const auto granted = hosts_.find(text_of(address));
  if (granted != hosts_.end() && granted->second.contains(address.port)) return granted->first;
  if (!address.is_loopback()) return err(ENETUNREACH);
  const auto local = hosts_.find("localhost");
  if (local != hosts_.end() && local->second.contains(address.port)) return local->first;
  return err(ECONNREFUSED);
}

}  // namespace membrane::linux
