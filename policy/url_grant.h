// The URL of an http grant, and whether it allows a request's URL.
//
//   https://api.example.org/v1/*     every path below /v1/, with any query
//   https://api.example.org/search   this path, without a query
//   https://api.example.org/search?* this path, with any query
//   https://*.example.org/*          every host below example.org, at any depth; not example.org itself
//   http://127.0.0.1:8000/*          this address: grants it although it is not public
//
// Scheme, host and port must be equal, and the path equal or below: compared bytewise, both as sent and as the most
// lenient server might read it (PathReading in url.h).
//
// Needs libcurl. Threads: values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/url.h"

namespace membrane::policy {

class UrlGrant {
 public:
  // kInvalidArgument with a repair when `text` is no such URL.
  static Result<UrlGrant> parse(std::string_view text);

  [[nodiscard]] bool allows(const Url& url) const;
  // Whether it grants anything on the URL's host, for any scheme, port or path.
  [[nodiscard]] bool allows_host(const Url& url) const;
  // Whether this grant is the more exact of two that allow the same URL: host before
  // wildcard, longer wildcard suffix before shorter, path before prefix, longer before
  // shorter. Two grants of which neither is more exact have the same text().
  [[nodiscard]] bool more_exact_than(const UrlGrant& other) const;

  [[nodiscard]] std::string text() const;  // the normal form; parses back to the same grant
  [[nodiscard]] const Url& url() const { return url_; }
  [[nodiscard]] bool any_subdomain() const { return any_subdomain_; }
  [[nodiscard]] bool prefix() const { return prefix_; }  // ends with "*"

 private:
  Url url_;                     // without "*." and "*"
  bool any_subdomain_ = false;  // "*." preceded the host
  bool prefix_ = false;         // "*" followed the path
};

}  // namespace membrane::policy
