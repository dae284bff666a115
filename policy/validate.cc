// Rules for every policy, however it was made: values in range, no two grants for the same thing, no control that
// could not be enforced.
#include <algorithm>

#include "base/text.h"
#include "policy/address.h"
#include "policy/http_names.h"
#include "policy/names.h"
#include "policy/package_name.h"
#include "policy/policy.h"
#include "policy/quantity.h"
#include "policy/url_grant.h"

namespace membrane::policy {
namespace {

std::unexpected<Error> refuse(const std::string& where, const std::string& why, std::string hint = {}) {
  return fail(ErrorCode::kInvalidArgument, where + ": " + why, std::move(hint));
}

std::string item(std::string_view list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

// `written`: the value as its author wrote it; "": as a policy writes it.
Status in_range(const std::string& where, Quantity kind, uint64_t value, uint64_t least, uint64_t most,
                std::string_view written = {}) {
  if (value >= least && value <= most) return {};
  return refuse(where,
                (written.empty() ? format_quantity(kind, value) : std::string(written)) + " is out of range.",
                "from " + format_quantity(kind, least) + " to " + format_quantity(kind, most));
}

Status count_in_range(const std::string& where, uint64_t value, uint64_t least, uint64_t most) {
  return in_range(where, Quantity::kCount, value, least, most);
}
Status size_in_range(const std::string& where, uint64_t value, uint64_t most) {
  return in_range(where, Quantity::kSize, value, 0, most);
}
Status timeout_in_range(const std::string& where, uint64_t value) {
  return in_range(where, Quantity::kDuration, value, 1, 3'600'000);
}

// Less than a page is no memory at all: a unit was probably forgotten.
Status validate_memory(const std::string& where, uint64_t bytes) {
  constexpr uint64_t kPageBytes = 64 << 10;
  if (bytes == 0 || bytes >= kPageBytes) return {};
  return refuse(where, format_size(bytes) + " is less than a page of 64 KiB, so no memory would fit.",
                "a number alone is bytes; write a unit, as " + std::to_string(bytes <= 4096 ? bytes : 64) +
                    "MiB, or 0 for a program without memory");
}

Status validate_limits(const Limits& limits) {
#define LIMIT(member, name, kind, least, most, words)         \
  MEMBRANE_TRY(validate_limit(limits, name, "limits." name));
#include "policy/limits.def"
#undef LIMIT
  return {};
}

// The words are those of linux/platform/choice.h.
Status validate_platform(const std::string& platform) {
  if (platform.empty() || platform == "trap" || platform == "kvm") return {};
  return refuse("platform", "\"" + platform + "\" is not a platform of Linux sandboxes.",
                "write \"trap\" or \"kvm\", or leave it out for the faster one of the machine");
}

// -- http ----------------------------------------------------------------------

Status validate_methods(const std::string& where, const HttpGrant& grant) {
  if (grant.methods.empty()) return refuse(where, "grants no method.", "write methods = [\"GET\"]");
  for (size_t i = 0; i < grant.methods.size(); ++i) {
    const std::string& method = grant.methods[i];
    if (!is_method(method)) {
      std::string upper = method;
      std::transform(upper.begin(), upper.end(), upper.begin(),
                     [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
      return refuse(where, "\"" + method + "\" is not a method that can be granted.",
                    suggest(upper, {std::begin(kMethods), std::end(kMethods)}));
    }
    if (std::find(grant.methods.begin(), grant.methods.begin() + static_cast<std::ptrdiff_t>(i), method) !=
        grant.methods.begin() + static_cast<std::ptrdiff_t>(i))
      return refuse(where, method + " is repeated.");
  }
  return {};
}

// Nothing inside a connection that a program encrypts itself is visible, so only all of it can be granted.
Status validate_connect(const std::string& where, const HttpGrant& grant, const UrlGrant& url) {
  if (std::ranges::find(grant.methods, "CONNECT") == grant.methods.end()) return {};
  if (url.url().scheme != "https" || url.url().path != "/" || !url.prefix())
    return refuse(where + ".url", "CONNECT is granted for a whole host, since paths are not seen.",
                  "write url = \"https://" + url.url().authority_host() + "/*\"");
  if (!grant.headers.empty())
    return refuse(where + ".header",
                  "CONNECT gives an encrypted connection, to which no header can be added.",
                  "leave CONNECT out: the requests are decrypted then, and get the headers");
  return {};
}

bool is_variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// Each grant is compared with all others of its kind.
Status validate_count(const std::string& where, size_t count) {
  if (count <= kMaxGrants) return {};
  return refuse(
      where, "there are " + count_of(count, "grant") + ".",
      "grant at most " + std::to_string(kMaxGrants) + " of a kind; a * at the end of a URL grants many");
}

// A secret must not travel in the clear, where anyone on the network path can read it.
Status validate_secret(const std::string& where, const HeaderValue& value, const UrlGrant& url) {
  if (!is_variable_name(value.secret))
    return refuse(where, "\"" + value.secret + "\" is not the name of an environment variable.",
                  "name the variable that holds the secret, not the secret itself");
  const bool local = url.url().address && special_kind(*url.url().address) == "loopback";
  if (url.url().scheme != "https" && !local)
    return refuse(where, "a secret would travel unencrypted.",
                  "grant an https URL, or an address of the loopback");
  return {};
}

Status validate_headers(const std::string& where, const HttpGrant& grant, const UrlGrant& url) {
  for (size_t i = 0; i < grant.headers.size(); ++i) {
    const auto& [name, value] = grant.headers[i];
    const std::string here = where + "." + name;
    if (!is_header_name(name)) return refuse(where, "\"" + name + "\" is not a header name.");
    if (owner_of_header(name) == HeaderOwner::kEgress)
      return refuse(here, "this header belongs to the connection and cannot be set.");
    if (!is_header_value(value.text)) return refuse(here, "the value contains a control character.");
    for (size_t k = 0; k < i; ++k)
      if (same_header(grant.headers[k].first, name)) return refuse(here, "the header is repeated.");
    if (!value.secret.empty()) MEMBRANE_TRY(validate_secret(here, value, url));
  }
  return {};
}

Status validate_addresses(const std::string& where, const HttpGrant& grant, const UrlGrant& url) {
  bool covers_host = grant.addresses.empty();
  for (const std::string& text : grant.addresses) {
    const auto cidr = parse_cidr(text);
    if (!cidr) return refuse(where, cidr.error().message, cidr.error().hint);
    covers_host = covers_host || !url.url().address || cidr->contains(*url.url().address);
  }
  if (!covers_host)
    return refuse(where, "the URL's host is an address that is not among them.",
                  "leave addresses out: an address in the URL is granted by the URL itself");
  return {};
}

Status validate_http(const std::vector<HttpGrant>& grants) {
  std::vector<UrlGrant> urls;
  for (size_t i = 0; i < grants.size(); ++i) {
    const HttpGrant& grant = grants[i];
    const std::string where = item("http", i);
    MEMBRANE_TRY(validate_methods(where + ".methods", grant));
    auto url = UrlGrant::parse(grant.url);
    if (!url) return refuse(where + ".url", url.error().message, url.error().hint);
    MEMBRANE_TRY(validate_connect(where, grant, *url));
    MEMBRANE_TRY(validate_headers(where + ".header", grant, *url));
    MEMBRANE_TRY(validate_addresses(where + ".addresses", grant, *url));
    MEMBRANE_TRY(size_in_range(where + ".max_request", grant.max_request_bytes, 1ull << 30));
    MEMBRANE_TRY(size_in_range(where + ".max_response", grant.max_response_bytes, 1ull << 30));
    MEMBRANE_TRY(timeout_in_range(where + ".timeout", grant.timeout_ms));
    MEMBRANE_TRY(count_in_range(where + ".max_redirects", grant.max_redirects, 0, 20));
    for (size_t k = 0; k < i; ++k)
      for (const std::string& method : grant.methods)
        if (urls[k].text() == url->text() &&
            std::find(grants[k].methods.begin(), grants[k].methods.end(), method) != grants[k].methods.end())
          return refuse(where,
                        method + " " + url->text() + " is granted twice; it is not clear which bounds hold.",
                        "merge it with " + item("http", k));
    urls.push_back(std::move(*url));
  }
  return {};
}

// -- the others ------------------------------------------------------------------

Status validate_guest_path(const std::string& where, std::string_view path) {
  const auto bad = [&](std::string_view why) {
    return refuse(where, "\"" + std::string(path) + "\" " + std::string(why),
                  "write an absolute path, as /data");
  };
  if (!path.starts_with('/')) return bad("is not absolute.");
  if (path.size() > 1024 || path.find('\0') != std::string_view::npos) return bad("is not a path.");
  if (path == "/") return {};
  for (std::string_view rest = path; !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view component = rest.substr(0, rest.find('/'));
    if (component.empty()) return bad("has an empty component.");
    if (component == "." || component == "..") return bad("has a dot component.");
    rest.remove_prefix(component.size());
  }
  return {};
}

Status validate_fs(const std::vector<FsGrant>& grants) {
  for (size_t i = 0; i < grants.size(); ++i) {
    const FsGrant& grant = grants[i];
    const std::string where = item("fs", i);
    MEMBRANE_TRY(validate_guest_path(where + ".guest", grant.guest));
    if (grant.host.empty() || grant.host.find('\0') != std::string::npos)
      return refuse(where + ".host", "names no directory or file.", "write host = \"./data\"");
    MEMBRANE_TRY(size_in_range(where + ".max_file", grant.max_file_bytes, 1ull << 36));
    MEMBRANE_TRY(size_in_range(where + ".max_total", grant.max_total_bytes, 1ull << 40));
    MEMBRANE_TRY(count_in_range(where + ".max_files", grant.max_files, 0, 1'000'000));
    for (size_t k = 0; k < i; ++k)
      if (grants[k].guest == grant.guest)
        return refuse(where + ".guest", grant.guest + " is granted twice.",
                      "give one of the two another guest path");
  }
  return {};
}

// A path that SQLite would not treat as a file name.
Status validate_database_path(const std::string& where, std::string_view path) {
  if (path.find('\0') != std::string_view::npos) return refuse(where, "is not a path.");
  if (path.starts_with(':') || path.starts_with("file:"))
    return refuse(where, "\"" + std::string(path) + "\" is not a plain path.", "write ./ before it");
  return {};
}

Status validate_kv(const KvGrant& grant) {
  MEMBRANE_TRY(validate_database_path("kv.path", grant.path));
  if (!grant.writable && grant.path.empty())
    return refuse("kv", "a store in memory that is not writable is always empty.",
                  "give a path, or make it writable");
  MEMBRANE_TRY(count_in_range("kv.max_keys", grant.max_keys, 0, 100'000'000));
  MEMBRANE_TRY(size_in_range("kv.max_key", grant.max_key_bytes, 64ull << 10));
  MEMBRANE_TRY(size_in_range("kv.max_value", grant.max_value_bytes, 512ull << 20));
  MEMBRANE_TRY(size_in_range("kv.max_total", grant.max_total_bytes, 1ull << 40));
  if (grant.prefix.size() > grant.max_key_bytes)
    return refuse("kv.prefix", "is longer than max_key, so no key could be used.",
                  "shorten it, or raise max_key");
  return {};
}

Status validate_sql(const std::vector<SqlGrant>& grants) {
  for (size_t i = 0; i < grants.size(); ++i) {
    const SqlGrant& grant = grants[i];
    const std::string where = item("sql", i);
    if (!is_variable_name(grant.name))
      return refuse(where + ".name", "\"" + grant.name + "\" is not a name.",
                    "letters, digits and _; a letter first");
    if (grant.path.empty()) return refuse(where + ".path", "names no file.", "write path = \"./data.db\"");
    MEMBRANE_TRY(validate_database_path(where + ".path", grant.path));
    MEMBRANE_TRY(count_in_range(where + ".max_rows", grant.max_rows, 0, 100'000'000));
    MEMBRANE_TRY(size_in_range(where + ".max_result", grant.max_result_bytes, 1ull << 30));
    MEMBRANE_TRY(timeout_in_range(where + ".timeout", grant.timeout_ms));
    for (size_t k = 0; k < i; ++k)
      if (grants[k].name == grant.name)
        return refuse(where + ".name", "\"" + grant.name + "\" is granted twice.");
  }
  return {};
}

Status validate_ai(const AiGrant& grant) {
  MEMBRANE_TRY(count_in_range("ai.max_tokens_per_call", grant.max_tokens_per_call, 1, 1'000'000'000));
  return timeout_in_range("ai.timeout", grant.timeout_ms);
}

Status validate_packages(const std::string& where, Registry registry, const std::vector<std::string>& names) {
  if (const auto parsed = parse_packages(registry, names); !parsed)
    return refuse(where, parsed.error().message, parsed.error().hint);
  return {};
}

}  // namespace

Status validate_limit(const Limits& limits, std::string_view name, const std::string& where,
                      std::string_view written) {
  if (name == "memory") MEMBRANE_TRY(validate_memory(where, limits.memory_bytes));
#define LIMIT(member, its_name, kind, least, most, words)                                            \
  if (name == its_name) return in_range(where, Quantity::kind, limits.member, least, most, written);
#include "policy/limits.def"
#undef LIMIT
  return {};
}

Status validate(const Policy& policy) {
  MEMBRANE_TRY(validate_count("http", policy.http.size()));
  MEMBRANE_TRY(validate_count("fs", policy.fs.size()));
  MEMBRANE_TRY(validate_count("sql", policy.sql.size()));
  MEMBRANE_TRY(validate_limits(policy.limits));
  MEMBRANE_TRY(validate_http(policy.http));
  MEMBRANE_TRY(validate_fs(policy.fs));
  if (policy.kv) MEMBRANE_TRY(validate_kv(*policy.kv));
  MEMBRANE_TRY(validate_sql(policy.sql));
  if (policy.ai) MEMBRANE_TRY(validate_ai(*policy.ai));
  MEMBRANE_TRY(validate_packages("packages.python", Registry::kPython, policy.packages.python));
  MEMBRANE_TRY(validate_packages("packages.javascript", Registry::kJavaScript, policy.packages.javascript));
  MEMBRANE_TRY(validate_platform(policy.platform));
  // Years 0 to 9999, so that the clock can be written as RFC 3339.
  if (policy.time.start_ms < -62'167'219'200'000 || policy.time.start_ms > 253'402'300'799'999)
    return refuse("time.start", "lies outside the years 0000 to 9999.");
  return {};
}

Status check_for_wasm(const Policy& policy) {
  const auto refused = [](const std::string& what) {
    return fail(ErrorCode::kUnsupported,
                what + " applies only to Linux sandboxes, and this program is not one",
                "Leave it out, or run a command: membrane run --kind linux.");
  };
  if (!policy.platform.empty()) return refused("the platform " + policy.platform);
  const Limits usual;
#define LIMIT(...)
#define LINUX_LIMIT(member, name, kind, least, most, words)                     \
  if (policy.limits.member != usual.member) return refused("a limit of " name);
#include "policy/limits.def"
#undef LIMIT
  return {};
}

}  // namespace membrane::policy
