#include "policy/url_grant.h"

#include <algorithm>
#include <tuple>

namespace membrane::policy {
namespace {

std::unexpected<Error> refuse(std::string message, std::string hint) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

constexpr std::string_view kForm = "write https://host/path, with * at the end for every path below";

// The most common mistakes, each with its repair.
Status check_shape(std::string_view text) {
  const size_t scheme_end = text.find("://");
  if (text.find('*') == 0 || text.empty())
    return refuse("A grant must name a scheme and a host; the whole network cannot be granted.",
                  std::string(kForm));
  if (scheme_end == std::string_view::npos)
    return refuse("\"" + std::string(text) + "\" has no scheme.", "write https://" + std::string(text));
  const std::string_view after = text.substr(scheme_end + 3);
  if (after.starts_with("*/") || after == "*" || after.starts_with("*:"))
    return refuse("A grant must name a host; the whole network cannot be granted.", std::string(kForm));
  const std::string_view authority = after.substr(0, after.find_first_of("/?#"));
  const std::string base(text.substr(0, scheme_end + 3 + authority.size()));
  if (authority.size() == after.size() || after[authority.size()] != '/')
    return refuse(
        "\"" + std::string(text) + "\" has no path.",
        "write " + base + "/* for every path of the host, or " + base + "/ for its first page only");
  if (after.find('#') != std::string_view::npos)
    return refuse("A fragment is never sent, so it cannot be granted.", "remove the # and what follows it");
  return {};
}

// A domain under which anyone can register: a single label, as far as can be told without a list.
bool too_wide(const std::string& host) { return host.find('.') == std::string::npos; }

}  // namespace

Result<UrlGrant> UrlGrant::parse(std::string_view text) {
  MEMBRANE_TRY(check_shape(text));
  UrlGrant out;
  std::string plain(text);
  if (const size_t at = plain.find("://*."); at != std::string::npos && at < plain.find('/')) {
    plain.erase(at + 3, 2);
    out.any_subdomain_ = true;
  }
  if (plain.ends_with('*')) {
    plain.pop_back();
    out.prefix_ = true;
  }
  if (plain.find('*') != std::string::npos)
    return refuse("\"" + std::string(text) + "\" has a * in the middle.",
                  "* is allowed at the end of the path, and *. before the host; nowhere else");
  MEMBRANE_ASSIGN(out.url_, parse_url(plain));
  if (out.any_subdomain_ && out.url_.address) return refuse("An address has no subdomains.", "remove the *.");
  if (out.any_subdomain_ && too_wide(out.url_.host))
    return refuse("\"*." + out.url_.host + "\" is a whole top-level domain.", "name a domain below it");
  // Normalising must not have moved the path: "…/a/..*" would otherwise grant something other than it says.
  const std::string sent = out.url_.path + (out.url_.query ? "?" + *out.url_.query : "");
  if (plain.substr(plain.find('/', plain.find("://") + 3)) != sent)
    return refuse("\"" + std::string(text) + "\" has dot segments.", "write the path that is meant");
  // No URL below such a path is allowed, not even the path itself: see allows().
  if (out.prefix_ && !out.url_.query && out.url_.reading.climbs)
    return refuse("\"" + std::string(text) + "\" has a segment that some servers read as \"..\".",
                  "write the path that is meant");
  return out;
}

bool UrlGrant::allows_host(const Url& url) const {
  if (!any_subdomain_) return url.host == url_.host;
  const size_t before = url.host.size() - std::min(url.host.size(), url_.host.size());
  return !url.address && before > 1 && url.host.ends_with(url_.host) && url.host[before - 1] == '.';
}

bool UrlGrant::allows(const Url& url) const {
  if (url.scheme != url_.scheme || url.port != url_.port || !allows_host(url)) return false;
  const std::string &sent = url.path, &read = url.reading.path, &mine = url_.reading.path;
  if (prefix_ && !url_.query) {
    // How far a ".." climbs depends on the segments before it, and servers differ about those: what is one segment
    // here may be two there. So none may remain, unless there is nothing to climb out of.
    if (url_.path != "/" && url.reading.climbs) return false;
    return sent.starts_with(url_.path) && read.starts_with(mine);
  }
  if (sent != url_.path || read != mine) return false;
  if (!url_.query) return !url.query;
  return url.query && (prefix_ ? url.query->starts_with(*url_.query) : *url.query == *url_.query);
}

bool UrlGrant::more_exact_than(const UrlGrant& other) const {
  const auto rank = [](const UrlGrant& grant) {
    return std::tuple(!grant.any_subdomain_, grant.url_.host.size(), !grant.prefix_, grant.url_.path.size(),
                      grant.url_.query ? 1 + grant.url_.query->size() : 0);
  };
  return rank(*this) > rank(other);
}

std::string UrlGrant::text() const {
  std::string out = url_.text();
  if (any_subdomain_) out.insert(out.find("://") + 3, "*.");
  return prefix_ ? out + "*" : out;
}

}  // namespace membrane::policy
