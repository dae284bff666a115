#include "base/text.h"
#include "policy/address.h"
#include "policy/names.h"
#include "policy/policy.h"
#include "policy/quantity.h"
#include "policy/trifecta.h"
#include "policy/url_grant.h"

namespace membrane::policy {
namespace {

std::string list(const std::vector<std::string>& words) { return enumerate({words.begin(), words.end()}); }

// "to https://example.org, at paths that begin with /v1/".
std::string target(const UrlGrant& grant) {
  const Url& url = grant.url();
  std::string out =
      grant.any_subdomain()
          ? url.scheme + ", to every host below " + url.host +
                (url.port == (url.scheme == "https" ? 443 : 80) ? "" : " at port " + std::to_string(url.port))
          : url.origin();
  if (!url.query && grant.prefix())
    return out + (url.path == "/" ? ", at every path" : ", at paths that begin with " + url.path);
  out += ", only at " + url.path;
  if (!url.query) return out + " without a query";
  if (!grant.prefix()) return out + "?" + *url.query;
  return out + (url.query->empty() ? " with any query" : " with a query that begins with " + *url.query);
}

std::string addresses_of(const HttpGrant& grant, const UrlGrant& url) {
  if (url.url().address) {
    const std::string_view kind = special_kind(*url.url().address);
    return kind.empty() ? "" : " The address is granted although it is " + std::string(kind) + ".";
  }
  if (grant.addresses.empty())
    return " Names that resolve to private, loopback, link-local or metadata addresses are refused.";
  return " Addresses that are not public are refused, but for " + list(grant.addresses) + ".";
}

void explain_http(std::string& out, const Policy& policy) {
  if (policy.http.empty()) out += "It cannot reach the network.\n";
  for (const HttpGrant& grant : policy.http) {
    const auto url = UrlGrant::parse(grant.url);
    if (!url) {
      out += "An http grant is not valid and grants nothing: " + url.error().message + "\n";
      continue;
    }
    out += "It may send " + list(grant.methods) + " requests to " + target(*url) + ".";
    for (const auto& [name, value] : grant.headers)
      out += value.secret.empty() ? " Membrane adds the header " + name + "."
                                  : " Membrane adds the header " + name + " with the secret " + value.secret +
                                        ", which the program never sees.";
    out += " A request may be " + format_size(grant.max_request_bytes) + ", an answer " +
           format_size(grant.max_response_bytes) + " after decompression, and both together take " +
           format_duration(grant.timeout_ms) + ".";
    out += grant.max_redirects == 0 ? " Redirects are not followed."
                                    : " It follows up to " + count_of(grant.max_redirects, "redirect") +
                                          ", each only to a URL that is granted, too.";
    if (grant.traceparent) out += " Requests carry the trace of the run that they belong to.";
    out += addresses_of(grant, *url) + "\n";
  }
}

void explain_fs(std::string& out, const Policy& policy) {
  if (policy.fs.empty()) out += "It cannot see any file.\n";
  for (const FsGrant& grant : policy.fs) {
    const bool write = grant.mode == FsMode::kWrite;
    out += std::string("It may read") + (write ? ", create, replace, append to and remove" : "") +
           " files below " + grant.guest + ", which is " + grant.host + " on the host; a file may be " +
           format_size(grant.max_file_bytes) + ".";
    if (grant.links)
      out += std::string(" It may follow symbolic links that stay below that directory") +
             (write ? ", and make symbolic and hard links there." : ".");
    out += write ? " One run writes at most " + format_size(grant.max_total_bytes) + " and makes at most " +
                       format_count(grant.max_files, "file") + " there.\n"
                 : " It cannot change them.\n";
  }
}

void explain_kv(std::string& out, const Policy& policy) {
  if (!policy.kv) {
    out += "It has no key-value store.\n";
    return;
  }
  const KvGrant& grant = *policy.kv;
  out += grant.path.empty() ? "It has a key-value store in memory, gone with the sandbox"
                            : "It has the key-value store " + grant.path;
  if (!grant.prefix.empty()) out += ", only for keys that begin with \"" + grant.prefix + "\"";
  out += grant.writable
             ? ": at most " + format_count(grant.max_keys, "key") + " of " +
                   format_size(grant.max_key_bytes) + ", values of " + format_size(grant.max_value_bytes) +
                   ", " + format_size(grant.max_total_bytes) + " together.\n"
             : "; it cannot change it.\n";
}

void explain_sql(std::string& out, const Policy& policy) {
  if (policy.sql.empty()) out += "It cannot query any database.\n";
  for (const SqlGrant& grant : policy.sql)
    out += "It may query the SQLite database \"" + grant.name + "\", which is " + grant.path +
           " on the host, and cannot change it; a query may answer " + format_count(grant.max_rows, "row") +
           " or " + format_size(grant.max_result_bytes) + " and run for " +
           format_duration(grant.timeout_ms) + ".\n";
}

void explain_rest(std::string& out, const Policy& policy) {
  out += policy.ai
             ? "It may ask a model, for at most " + format_count(policy.ai->max_tokens_per_call, "token") +
                   " and " + format_duration(policy.ai->timeout_ms) + " a call" +
                   (policy.ai->embed ? ", and have text embedded.\n" : "; it cannot have text embedded.\n")
             : "It cannot ask a model.\n";
  out += policy.ask ? "It may ask the person who runs it.\n" : "It cannot ask the person who runs it.\n";
  out += policy.time.real
             ? "It sees the real time.\n"
             : "It sees a virtual clock that starts at " + format_time(policy.time.start_ms) + ".\n";
  out += policy.random.real ? "Its random numbers are real: two runs differ.\n"
                            : "Its random numbers come from the seed " + std::to_string(policy.random.seed) +
                                  ": every run sees the same.\n";
}

void explain_packages(std::string& out, const Packages& packages) {
  const auto tell = [&](std::string_view language, const std::vector<std::string>& names) {
    if (!names.empty())
      out +=
          "Programs in " + std::string(language) + " can import " + list(names) +
          ", and what these need, from the language's registry. Their code runs inside, under this policy.\n";
  };
  tell("Python", packages.python);
  tell("JavaScript", packages.javascript);
}

// "the files below /inbox, the database \"crm\"": the grants that have this mark.
std::string marked(const Policy& policy, bool ReadMarks::* mark) {
  std::vector<std::string> names;
  for (const HttpGrant& grant : policy.http)
    if (marks_of(policy, grant).*mark) names.push_back("the answers of " + grant.url);
  for (const FsGrant& grant : policy.fs)
    if (marks_of(policy, grant).*mark) names.push_back("the files below " + grant.guest);
  if (policy.kv && marks_of(policy, *policy.kv).*mark) names.emplace_back("the key-value store");
  for (const SqlGrant& grant : policy.sql)
    if (marks_of(policy, grant).*mark) names.push_back("the database \"" + grant.name + "\"");
  const bool has_input = mark == &ReadMarks::is_private ? policy.trifecta->input_is_private
                                                        : policy.trifecta->input_is_untrusted;
  if (has_input) names.emplace_back("its input");
  return names.empty() ? "nothing" : list(names);
}

void explain_trifecta(std::string& out, const Policy& policy) {
  if (!policy.trifecta) return;
  out +=
      "Once it has read private data and text of untrusted origin, no request over HTTP and no question to a "
      "model leaves ";
  out += policy.trifecta->egress == Egress::kAsk ? "without a person's approval of each." : "any more.";
  out += " Private: " + marked(policy, &ReadMarks::is_private) +
         ". Of untrusted origin: " + marked(policy, &ReadMarks::is_untrusted) + ".\n";
}

void explain_limits(std::string& out, const Limits& limits) {
  out += "A run is limited to";
  std::string_view separator = " ";
#define LIMIT(member, name, kind, least, most, words)                                         \
  out += std::string(separator) + format_quantity(Quantity::kind, limits.member) + " " words; \
  separator = ", ";
#define LINUX_LIMIT(...)
#include "policy/limits.def"
#undef LIMIT
  out += ".\n";
}

}  // namespace

namespace {

void brief_http(std::string& out, const Policy& policy) {
  for (const HttpGrant& grant : policy.http) {
    const auto url = UrlGrant::parse(grant.url);
    if (!url) continue;
    out += "http: " + list(grant.methods) + " to " + target(*url);
    for (const auto& [name, value] : grant.headers) out += "; the header " + name + " is added";
    out += ".\n";
  }
}

void brief_files_and_stores(std::string& out, const Policy& policy) {
  for (const FsGrant& grant : policy.fs)
    out += std::string(grant.mode == FsMode::kWrite ? "fs: reading and writing" : "fs: reading") +
           " files below " + grant.guest + ".\n";
  if (policy.kv)
    out +=
        "kv: a key-value store" +
        (policy.kv->prefix.empty() ? "" : ", only for keys that begin with \"" + policy.kv->prefix + "\"") +
        (policy.kv->writable ? ".\n" : ", not to be changed.\n");
  for (const SqlGrant& grant : policy.sql)
    out += "sql: the database \"" + grant.name + "\", not to be changed.\n";
}

void brief_ungranted(std::string& out, const Policy& policy) {
  const std::pair<bool, std::string_view> grants[] = {
      {!policy.http.empty(), "http"}, {!policy.fs.empty(), "fs"},    {policy.kv.has_value(), "kv"},
      {!policy.sql.empty(), "sql"},   {policy.ai.has_value(), "ai"}, {policy.ask, "agent.ask"}};
  std::string_view separator = "Not granted: ";
  for (const auto& [is_granted, name] : grants) {
    if (is_granted) continue;
    out.append(separator).append(name);
    separator = ", ";
  }
  if (separator == ", ") out += ".\n";
}

}  // namespace

std::string explain_briefly(const Policy& policy) {
  std::string out;
  brief_http(out, policy);
  brief_files_and_stores(out, policy);
  if (policy.ai)
    out += "ai: at most " + format_count(policy.ai->max_tokens_per_call, "token") + " a call" +
           (policy.ai->embed ? ", also ai.embed.\n" : ", without ai.embed.\n");
  if (policy.ask) out += "agent.ask: the person may be asked.\n";
  brief_ungranted(out, policy);
  if (!policy.time.real)
    out += "The clock is virtual and starts at " + format_time(policy.time.start_ms) + ".\n";
  explain_trifecta(out, policy);
  explain_packages(out, policy.packages);
  const Limits& limits = policy.limits;
  return out + "A run has " + format_count(limits.fuel) + " fuel (instructions), " +
         format_size(limits.memory_bytes) + " of memory, " + format_size(limits.output_bytes) +
         " of output, " + format_duration(limits.wall_ms) + ", " +
         format_count(limits.host_calls, "host call") + ".\n";
}

std::string explain_larger_limits(const Limits& limits, const Limits& language) {
  std::string out;
#define LIMIT(member, name, kind, least, most, words)                                                \
  if (limits.member != language.member)                                                              \
    out += (out.empty() ? "" : ", ") + format_quantity(Quantity::kind, language.member) + " " words;
#include "policy/limits.def"
#undef LIMIT
  return out.empty()
             ? out
             : "In Python, JavaScript and other languages, the limits are the same but for " + out + ".\n";
}

std::string explain(const Policy& policy) {
  std::string out = "A program under this policy can do only what is listed here.\n";
  explain_http(out, policy);
  explain_fs(out, policy);
  explain_kv(out, policy);
  explain_sql(out, policy);
  explain_rest(out, policy);
  explain_trifecta(out, policy);
  explain_packages(out, policy.packages);
  explain_limits(out, policy.limits);
  return out;
}

}  // namespace membrane::policy
