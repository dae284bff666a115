#include "computers/build_network.h"

#include <algorithm>
#include <map>

#include "linux/files/socket_address.h"
#include "policy/address.h"
#include "policy/url.h"
#include "policy/url_grant.h"

namespace membrane::computers {
namespace {

// The last part of what decided a call: a URL, or the host or name that was refused.
std::string host_of(const sandbox::HostCallRecord& call) {
  const std::string& target = call.decided_by.empty() ? call.arguments : call.decided_by.back();
  const auto url = policy::parse_url(target);
  if (!url) return target;
  const std::string origin = url->origin();
  return origin.substr(origin.find("://") + 3);
}

}  // namespace

std::vector<ContactedHost> contacted_hosts(const std::vector<sandbox::HostCallRecord>& calls) {
  std::map<std::string, ContactedHost> by_name;
  for (const sandbox::HostCallRecord& call : calls) {
    ContactedHost& host = by_name[host_of(call)];
    ++host.calls;
    if (!call.allowed) ++host.refused;
    host.bytes_in += call.bytes_in;
    host.bytes_out += call.bytes_out;
  }
  std::vector<ContactedHost> all;
  for (auto& [name, host] : by_name) {
    host.host = name;
    all.push_back(std::move(host));
  }
  return all;
}

std::string how_to_allow(const std::vector<sandbox::HostCallRecord>& calls) {
  constexpr size_t kMostFlags = 8;
  std::vector<std::string> flags;
  for (const sandbox::HostCallRecord& call : calls)
    if (!call.grant.empty() && std::ranges::find(flags, call.grant) == flags.end())
      flags.push_back(call.grant);
  std::string all;
  for (size_t i = 0; i < std::min(flags.size(), kMostFlags); ++i) all += (i == 0 ? "" : " ") + flags[i];
  if (all.empty()) return "";
  if (flags.size() > kMostFlags) all += ", and " + std::to_string(flags.size() - kMostFlags) + " more";
  return "To allow what it tried to reach: " + all;
}

std::vector<std::string> words_of(const std::vector<policy::HttpGrant>& grants) {
  std::vector<std::string> all;
  for (const policy::HttpGrant& grant : grants) {
    policy::Policy alone;
    alone.http = {grant};
    all.push_back(policy::to_json(alone));
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

std::vector<policy::HttpGrant> loopback_grants(const std::vector<policy::HttpGrant>& grants) {
  std::vector<policy::HttpGrant> all;
  for (const policy::HttpGrant& grant : grants) {
    const auto url = policy::UrlGrant::parse(grant.url);
    if (!url) continue;
    const std::string& host = url->url().host;
    if (host == "localhost" || host == "::1" || host.starts_with("127.") || host.starts_with("::ffff:") ||
        url->url().address == policy::Address::v4(linux::kOwnAddress))
      all.push_back(grant);
  }
  return all;
}

}  // namespace membrane::computers
