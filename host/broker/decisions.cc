#include "host/broker/decisions.h"

#include "base/text.h"
#include "base/utf8.h"
#include "policy/credentials.h"

namespace membrane::host {
namespace {

using policy::FsMode;

// "papers, notes", or "none".
std::string names_of(const std::vector<policy::SqlGrant>& grants) {
  std::string out;
  for (const policy::SqlGrant& grant : grants) out += (out.empty() ? "" : ", ") + grant.name;
  return out.empty() ? "none" : out;
}

}  // namespace

HostError http_denial(std::string_view method, const policy::Url& url, bool is_redirected,
                      bool is_for_other_methods) {
  std::string why = is_redirected ? "The server redirects to what no grant allows: " : "No grant allows ";
  why.append(method).append(" ").append(policy::without_credentials(url.text()));
  why += is_for_other_methods ? "; the URL is granted for other methods." : ".";
  return {Errno::kAccess, std::move(why),
          policy::allow_flag("http:" + std::string(method) + ":" + url.origin() + "/*")};
}

HostError reach_denial(std::string_view host, bool is_name) {
  const std::string text(host);
  return {Errno::kAccess,
          is_name ? "No grant names the host " + text + "." : "No grant reaches " + text + ".",
          policy::allow_flag("http:" + text)};
}

bool begins_with(const Components& path, const Components& prefix) {
  return path.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

HostResult<void> check_path(const policy::FsGrant* grant, const Components& path, FsMode mode) {
  const std::string text = guest_text(path);
  if (grant == nullptr) {
    const std::string word = mode == FsMode::kWrite ? "write" : "read";
    return refuse(Errno::kAccess, "No grant allows the program to " + word + " " + text + ".",
                  policy::allow_flag("fs:" + word + ":HOST_DIRECTORY:" + directory_to_grant(text)));
  }
  if (mode == FsMode::kWrite && grant->mode != FsMode::kWrite)
    return refuse(Errno::kAccess, text + " is granted for reading only.",
                  policy::allow_flag("fs:write:" + grant->host + ":" + grant->guest));
  return {};
}

HostResult<void> check_kv(const policy::Policy& policy) {
  if (policy.kv) return {};
  return refuse(Errno::kAccess, "No grant gives the program a key-value store.", "--allow kv");
}

HostResult<void> check_key(const policy::KvGrant& grant, std::string_view key) {
  if (key.empty()) return refuse(Errno::kInvalid, "a key must not be empty");
  if (!is_utf8(key)) return refuse(Errno::kInvalid, "a key must be UTF-8");
  if (key.size() > grant.max_key_bytes)
    return refuse(Errno::kQuota, "the key has " + count_of(key.size(), "byte") + "; the limit is " +
                                     std::to_string(grant.max_key_bytes));
  if (!key.starts_with(grant.prefix))
    return refuse(Errno::kAccess, "keys must start with '" + grant.prefix + "'", "kv.prefix = \"\"");
  return {};
}

HostResult<void> check_writable(const policy::KvGrant& grant) {
  if (grant.writable) return {};
  return refuse(Errno::kAccess, "the key-value store is granted for reading only", "kv.writable = true");
}

HostResult<const policy::SqlGrant*> find_database(const policy::Policy& policy, std::string_view name) {
  const auto grant = std::ranges::find(policy.sql, name, &policy::SqlGrant::name);
  if (grant != policy.sql.end()) return &*grant;
  return refuse(Errno::kAccess,
                "No grant gives the program a database \"" + std::string(name) +
                    "\"; granted: " + names_of(policy.sql) + ".",
                policy::allow_flag("sql:" + std::string(name) + ":FILE.db"));
}

HostResult<void> check_ai(const policy::Policy& policy) {
  if (policy.ai) return {};
  return refuse(Errno::kAccess, "No grant lets the program ask a model.", "--allow ai");
}

HostResult<void> check_embedding(const policy::AiGrant& grant) {
  if (grant.embed) return {};
  return refuse(Errno::kAccess, "The ai grant does not include embedding.", "embed = true in [ai]");
}

HostResult<void> check_ask(const policy::Policy& policy) {
  if (policy.ask) return {};
  return refuse(Errno::kAccess, "No grant lets the program ask a person.", "--allow ask");
}

}  // namespace membrane::host
