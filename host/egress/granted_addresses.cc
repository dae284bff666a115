#include "host/egress/granted_addresses.h"

#include <algorithm>

namespace membrane::host {
namespace {

using policy::Address;
using policy::Cidr;

bool is_granted(const Address& address, const std::vector<Cidr>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Cidr& range) {
    if (policy::is_metadata(address) && range.prefix_bits != range.base.bits()) return false;
    return range.contains(address);
  });
}

HostResult<void> check_addresses(const std::string& host, const std::vector<Address>& found,
                                 const std::vector<Cidr>& ranges, const std::string& grant) {
  for (const Address& address : found) {
    const std::string_view kind = policy::special_kind(address);
    if (kind.empty() || is_granted(address, ranges)) continue;
    const std::string text = policy::unmapped(address).to_string();
    return refuse(
        Errno::kAccess,
        host + " resolves to " + text + ", which is not a public address (" + std::string(kind) + ").",
        "addresses = [\"" + text + "\"] in the http grant " + grant);
  }
  return {};
}

}  // namespace

HostResult<std::vector<Address>> resolve_granted(const std::string& host, const std::vector<Cidr>& ranges,
                                                 const std::string& grant, Resolver& resolver,
                                                 const Deadline& deadline) {
  auto found = resolver.resolve(host, deadline.left_ms());
  if (!found) return found;
  if (auto checked = check_addresses(host, *found, ranges, grant); !checked)
    return std::unexpected(checked.error());
  return found;
}

}  // namespace membrane::host
