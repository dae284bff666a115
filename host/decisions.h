// A policy's decision about a request, before anything outside is accessed.
//
// The parts of the local broker use these, and so does the judgment of recorded calls (recorded_calls.h): so both
// decide alike, in the same words. Each answers EACCES with the grant that would allow the request.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "host/errno.h"
#include "host/files/guest_path.h"
#include "policy/policy.h"
#include "policy/url_grant.h"

namespace membrane::host {

// -- http

// A grant with its URL parsed. Borrows the grant.
struct HttpRule {
  const policy::HttpGrant& words;
  policy::UrlGrant url;

  [[nodiscard]] bool allows(std::string_view method) const {
    return std::ranges::find(words.methods, method) != words.methods.end();
  }
};
HostError http_denial(std::string_view method, const policy::Url& url, bool is_redirected,
                      bool is_for_other_methods);
// The most exact of the rules that allow the request; Rule is HttpRule or derived from it.
template <typename Rule>
HostResult<const Rule*> find_rule(const std::vector<Rule>& rules, std::string_view method,
                                  const policy::Url& url, bool is_redirected) {
  const Rule* best = nullptr;
  bool is_for_other_methods = false;
  for (const Rule& rule : rules) {
    if (!rule.url.allows(url)) continue;
    if (!rule.allows(method)) is_for_other_methods = true;
    else if (best == nullptr || rule.url.more_exact_than(best->url)) best = &rule;
  }
  if (best != nullptr) return best;
  return std::unexpected(http_denial(method, url, is_redirected, is_for_other_methods));
}

// What Linux programs may connect to: a host and port of any rule, for any request there. `url` has the host, and
// the port, if there is one; 0 for any.
template <typename Rule>
bool reaches(const std::vector<Rule>& rules, const policy::Url& url, uint16_t port) {
  return std::ranges::any_of(rules, [&](const Rule& rule) {
    return (port == 0 || rule.url.url().port == port) && rule.url.allows_host(url);
  });
}
// For a host, or a host and port, that no rule covers.
HostError reach_denial(std::string_view host, bool is_name);

// -- fs

// A grant with its guest path parsed. Borrows the grant.
struct FsRule {
  const policy::FsGrant& grant;
  Components guest;
};
bool begins_with(const Components& path, const Components& prefix);
// The rule with the longest guest path that covers `path`; null when there is none.
template <typename Rule>
Rule* find_rule(std::vector<Rule>& rules, const Components& path) {
  Rule* best = nullptr;
  for (Rule& rule : rules)
    if (begins_with(path, rule.guest) && (best == nullptr || rule.guest.size() > best->guest.size()))
      best = &rule;
  return best;
}
// `grant` is that of the path's rule; null when there is none.
HostResult<void> check_path(const policy::FsGrant* grant, const Components& path, policy::FsMode mode);

// -- kv, sql, ai, ask

HostResult<void> check_kv(const policy::Policy& policy);
// Also EINVAL and EQUOTA, for an invalid key.
HostResult<void> check_key(const policy::KvGrant& grant, std::string_view key);
HostResult<void> check_writable(const policy::KvGrant& grant);
HostResult<const policy::SqlGrant*> find_database(const policy::Policy& policy, std::string_view name);
HostResult<void> check_ai(const policy::Policy& policy);
HostResult<void> check_embedding(const policy::AiGrant& grant);
HostResult<void> check_ask(const policy::Policy& policy);

}  // namespace membrane::host
