// The hosts that a sandbox's owner lets its programs reach, and the addresses of their names inside.
//
// Names are not resolved inside: each reachable name has an address in 198.18.0.0/15 (RFC 2544) of its own
// in this sandbox. So the address of a connection tells which host it is for; the owner
// resolves the name, checks the result, and dials the host.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "linux/abi/answer.h"
#include "linux/files/socket_address.h"

namespace membrane::linux {

// "example.org", "*.example.org" (every name below it), "192.0.2.1", "2001:db8::1".
struct ReachableHost {
  std::string host;
  uint16_t port = 0;
  bool operator==(const ReachableHost&) const = default;
};

class Reachable {
 public:
  static constexpr size_t kMostHosts = 4096, kMostNames = 4096, kMostNameBytes = 253;

  Reachable() = default;
  // Errors: kInvalidInput for anything but a list of hosts.
  static Result<Reachable> parse(std::string_view text);
  static std::string to_text(const std::vector<ReachableHost>& hosts);

  // Replaces the hosts; names keep their addresses.
  void set_hosts(Reachable other) {
    hosts_ = std::move(other.hosts_);
    below_ = std::move(other.below_);
  }
  // The address of a name, which it keeps from then on; nothing for a name that is not reachable on any port,
  // or when there are too many names.
  std::optional<InetAddress> address_of(std::string_view name);
  // The host that an address stands for: a name, or the address itself, as text. Errors: ENETUNREACH,
  // ECONNREFUSED.
  [[nodiscard]] Try<std::string> host_at(const InetAddress& address) const;
  // Whether the address belongs to a name, on any port.
  [[nodiscard]] bool is_name(const InetAddress& address) const { return names_.contains(address.ip); }

 private:
  [[nodiscard]] bool allows(std::string_view name, std::optional<uint16_t> port) const;
  std::map<std::string, std::set<uint16_t>, std::less<>> hosts_,
      below_;  // below_: of "*.example.org", "example.org"
  std::map<std::array<uint8_t, 16>, std::string> names_;
};

}  // namespace membrane::linux
