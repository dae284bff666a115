// Any text as a URL, as a grant's URL and as a redirect's target. What is accepted has one
// normal form, and what a grant allows is below it in every reading.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "policy/url.h"
#include "policy/url_grant.h"

using namespace membrane::policy;

namespace {

void check(const Url& url) {
  const auto again = parse_url(url.text());
  if (!again || again->text() != url.text() || !again->same_origin(url) || again->path != url.path) abort();
  if (url.host.empty() || url.port == 0 || !url.path.starts_with('/')) abort();
  const std::string& lenient = url.reading.path;
  if (!lenient.starts_with('/') || read_path(lenient).path != lenient) abort();
}

void check(const UrlGrant& grant) {
  const auto again = UrlGrant::parse(grant.text());
  if (!again || again->text() != grant.text() || again->more_exact_than(grant)) abort();
  // A grant allows its own URL, unless "*." stands for something more.
  if (!grant.any_subdomain() && !grant.allows(grant.url())) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Url base = parse_url("https://base.example:8443/a/b?c").value();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t space = text.find(' ');
  const auto url = parse_url(text.substr(0, space));
  const auto grant = UrlGrant::parse(space == std::string_view::npos ? text : text.substr(space + 1));
  if (url) check(*url);
  if (grant) check(*grant);
  if (url && grant && grant->allows(*url) && url->scheme != grant->url().scheme) abort();
  if (const auto target = parse_url(text, base)) check(*target);
  return 0;
}
