#include "policy/http_names.h"

#include <algorithm>
#include <span>
#include <string>

namespace membrane::policy {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Headers of message framing and method: only the egress sets these.
constexpr std::string_view kOfTheMessage[] = {
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
};

// Headers that servers and proxies use for routing instead of the request's URL, or as the client's address.
constexpr std::string_view kRouting[] = {
    "cf-connecting-ip",
    "client-ip",
    "destination",
    "fastly-client-ip",
    "forwarded",
    "front-end-https",
    "surrogate-capability",
    "true-client-ip",
    "via",
    "x-backend-host",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-host",
    "x-http-destinationurl",
    "x-http-host-override",
    "x-http-path-override",
    "x-override-url",
    "x-proxy-url",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-rewrite-uri",
    "x-rewrite-url",
    "x-scheme",
    "x-url-scheme",
};
constexpr std::string_view kRoutingPrefixes[] = {
    "x-accel-", "x-arr-", "x-envoy-", "x-forward", "x-ms-original-", "x-original-", "x-waws-",
};

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool is_header_name(std::string_view name) {
  static constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && name.size() <= 256 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

bool is_header_value(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

std::string folded_header(std::string_view name) {
  std::string folded(name);
  std::ranges::transform(folded, folded.begin(), [](char c) {
    const char small = lower(c);
    return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') ? small : '-';
  });
  return folded;
}

bool same_header(std::string_view a, std::string_view b) { return folded_header(a) == folded_header(b); }

HeaderOwner owner_of_header(std::string_view name) {
  const std::string folded = folded_header(name);
  if (folded.starts_with("proxy-") || is_one_of(folded, kOfTheMessage)) return HeaderOwner::kEgress;
  const bool routes = is_one_of(folded, kRouting) || std::ranges::any_of(kRoutingPrefixes, [&](auto prefix) {
                        return folded.starts_with(prefix);
                      });
  return routes ? HeaderOwner::kGrant : HeaderOwner::kProgram;
}

}  // namespace membrane::policy
