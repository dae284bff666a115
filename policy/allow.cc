// `--allow` flags:
//
//   http:METHOD[,METHOD…]:URL     http:HOST[:PORT]     fs:read|write[,links]:HOST[:GUEST]     kv[:PATH]     sql:NAME:PATH
//   ai     time     random     ask
//
// What the policy or an earlier flag grants already is not granted again: the existing bounds hold.
//
// A URL and a path may contain colons: METHODs, modes and NAMEs end at the first colon, and
// GUEST is what follows the last colon before a slash.
#include <algorithm>
#include <filesystem>

#include "base/utf8.h"
#include "policy/add_grant.h"
#include "policy/likely_grant.h"
#include "policy/names.h"
#include "policy/policy.h"
#include "policy/url_grant.h"

namespace membrane::policy {
namespace {

std::unexpected<Error> refuse(std::string_view flag, const std::string& why, std::string hint) {
  return fail(ErrorCode::kInvalidArgument, "--allow " + std::string(flag) + ": " + why, std::move(hint));
}

// The text before the first colon, and after it (the whole text is "before" if there is no colon).
struct Split {
  std::string_view head, tail;
  bool found = false;
};
Split split(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, {}, false};
  return {text.substr(0, colon), text.substr(colon + 1), true};
}

// What "localhost" resolves to.
const std::vector<std::string> kThisMachine = {"127.0.0.1", "::1"};

// Skips what the policy grants already: its own bounds hold. For a name that can only mean this machine, a flag also
// grants the addresses of that name, unless the policy names some.
void add_http(Policy& policy, HttpGrant grant, const Url& url) {
  const bool is_this_machine = url.host == "localhost";
  for (HttpGrant& there : policy.http) {
    if (there.url != grant.url) continue;
    if (is_this_machine && there.addresses.empty()) there.addresses = kThisMachine;
    std::erase_if(grant.methods, [&](const std::string& method) {
      return std::ranges::find(there.methods, method) != there.methods.end();
    });
    if (grant.methods.empty()) return;
  }
  if (is_this_machine) grant.addresses = kThisMachine;
  policy.http.push_back(std::move(grant));
}

// A whole host, as programs of a package manager or of git need it. Bounds per response do not suit them; the run's
// bounds apply.
constexpr uint64_t kMostOfHost = 1ull << 30;

bool is_host_flag(std::string_view rest) {
  const auto [host, port, found] = split(rest);
  if (found && (port.empty() || !std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; })))
    return false;
  return host == "localhost" || (host.contains('.') && !host.contains('/'));
}

Status allow_host(Policy& policy, std::string_view flag, std::string_view rest) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    HttpGrant grant;
    auto parsed = UrlGrant::parse(std::string(scheme).append(rest).append("/*"));
    if (!parsed) return refuse(flag, parsed.error().message, parsed.error().hint);
    for (const std::string_view method : kMethods)
      if (method != "CONNECT" || scheme == "https://") grant.methods.emplace_back(method);
    grant.url = parsed->text();
    grant.max_request_bytes = grant.max_response_bytes = kMostOfHost;
    add_http(policy, std::move(grant), parsed->url());
  }
  return {};
}

constexpr const char* kHttpForms =
    "write --allow http:example.org for a whole host, or --allow 'http:GET:https://example.org/*'";

Status allow_http(Policy& policy, std::string_view flag, std::string_view rest) {
  if (is_host_flag(rest)) return allow_host(policy, flag, rest);
  const auto [methods, url, found] = split(rest);
  if (methods == "http" || methods == "https" || rest.starts_with("//"))
    return refuse(flag, "the method is missing.", kHttpForms);
  if (!found || url.empty()) return refuse(flag, "the method or the URL is missing.", kHttpForms);
  HttpGrant grant;
  for (std::string_view left = methods;;) {
    const size_t comma = left.find(',');
    const std::string_view method = left.substr(0, comma);
    if (method == "*") return refuse(flag, "every method cannot be granted at once.", kHttpForms);
    grant.methods.emplace_back(method);
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  auto parsed = UrlGrant::parse(url);
  if (!parsed) return refuse(flag, parsed.error().message, parsed.error().hint);
  grant.url = parsed->text();
  add_http(policy, std::move(grant), parsed->url());
  return {};
}

// "/data" for "./data/": the directory's own name at the root of the guest's name space; "/" for "." itself.
std::string default_guest(std::string_view host) {
  while (host.ends_with('/')) host.remove_suffix(1);
  if (host == ".") return "/";
  const std::string_view name = host.substr(host.rfind('/') + 1);
  return name.empty() || name == "." || name == ".." ? "" : "/" + std::string(name);
}

Status allow_fs(Policy& policy, std::string_view flag, std::string_view rest) {
  const auto [words, paths, found] = split(rest);
  const size_t comma = words.find(',');
  const std::string_view mode = words.substr(0, comma);
  if (comma != std::string_view::npos && words.substr(comma + 1) != "links")
    return refuse(flag, "\"" + std::string(words.substr(comma + 1)) + "\" is not an option of a mode.",
                  "write --allow fs:read:./data, or --allow fs:read,links:./data");
  if (mode != "read" && mode != "write") {
    const bool is_word = found && !mode.empty() && mode.find_first_of("./~") == std::string_view::npos;
    return refuse(flag,
                  (is_word ? "\"" + std::string(mode) + "\" is not a mode: the modes are "
                           : std::string("the mode is missing: ")) +
                      "read, and write (which includes reading).",
                  "write --allow fs:read:./data");
  }
  FsGrant grant;
  grant.mode = mode == "write" ? FsMode::kWrite : FsMode::kRead;
  grant.links = comma != std::string_view::npos;
  const size_t guest = paths.rfind(":/");
  grant.host = paths.substr(0, guest);
  grant.guest =
      guest == std::string_view::npos ? default_guest(grant.host) : std::string(paths.substr(guest + 1));
  if (!found || grant.host.empty())
    return refuse(flag, "the directory is missing.", "write --allow fs:read:./data");
  if (grant.guest.empty())
    return refuse(flag, "\"" + grant.host + "\" has no name of its own.",
                  "write --allow fs:read:../data:/work");
  add_fs(policy, std::move(grant));
  return {};
}

Status allow_kv(Policy& policy, std::string_view flag, std::string_view path, bool with_path) {
  if (with_path && path.empty())
    return refuse(flag, "the path is missing.", "write --allow kv:./store.db, or --allow kv");
  if (policy.kv && policy.kv->path != path)
    return refuse(flag, "another store is granted already.",
                  "a program has one store; remove one of the two");
  if (!policy.kv) policy.kv.emplace().path = path;
  return {};
}

Status allow_sql(Policy& policy, std::string_view flag, std::string_view rest) {
  const auto [name, path, found] = split(rest);
  if (!found || name.empty() || path.empty())
    return refuse(flag, "the name or the file is missing.", "write --allow sql:data:./data.db");
  SqlGrant grant;
  grant.name = name;
  grant.path = path;
  const auto is_same = [&](const SqlGrant& there) {
    return there.name == grant.name && there.path == grant.path;
  };
  if (std::ranges::none_of(policy.sql, is_same)) policy.sql.push_back(std::move(grant));
  return {};
}

Status apply(Policy& policy, std::string_view flag) {
  const auto [what, rest, found] = split(flag);
  if (what == "http") return allow_http(policy, flag, rest);
  if (what == "fs") return allow_fs(policy, flag, rest);
  if (what == "kv") return allow_kv(policy, flag, rest, found);
  if (what == "sql") return allow_sql(policy, flag, rest);
  if (what == "https" && rest.starts_with("//"))
    return refuse(flag, "a grant of URLs begins with http: and the methods.", kHttpForms);
  const std::vector<std::string_view> known = {"http", "fs", "kv", "sql", "ai", "time", "random", "ask"};
  if (std::find(known.begin(), known.end(), what) == known.end()) {
    const std::string_view whole = what.substr(0, what.find('.'));
    if (whole != what && std::find(known.begin(), known.end(), whole) != known.end())
      return refuse(flag, "grants are of capabilities, not of their functions.",
                    "write " + std::string(whole == "fs"     ? "--allow fs:read:./data"
                                           : whole == "http" ? "--allow 'http:GET:https://example.org/*'"
                                           : whole == "sql"  ? "--allow sql:data:./data.db"
                                                             : "--allow " + std::string(whole)));
    return refuse(flag, "there is no such capability.", suggest(whole, known));
  }
  if (found)
    return refuse(flag, std::string(what) + " takes nothing after it.", "write --allow " + std::string(what));
  if (what == "ai" && !policy.ai) policy.ai.emplace();
  if (what == "time") policy.time = {.real = true};
  if (what == "random") policy.random = {.real = true};
  if (what == "ask") policy.ask = true;
  return {};
}

// Leaves the policy as it was if the flag is refused.
Status add(Policy& policy, std::string_view flag) {
  Policy changed = policy;
  MEMBRANE_TRY(apply(changed, flag));
  if (auto valid = validate(changed); !valid) return refuse(flag, valid.error().message, valid.error().hint);
  policy = std::move(changed);
  return {};
}

}  // namespace

void add_fs(Policy& policy, FsGrant grant) {
  const auto place = [](const FsGrant& of) {
    return (std::filesystem::path(of.host) / "").lexically_normal();
  };
  // After a link, ".." is not the parent of the directory before it.
  const auto leads_up = [](const FsGrant& of) { return of.host.contains(".."); };
  const auto is_same = [&](const FsGrant& there) {
    return there.guest == grant.guest && there.links == grant.links && place(there) == place(grant) &&
           (there.host == grant.host || (!leads_up(there) && !leads_up(grant)));
  };
  const auto there = std::ranges::find_if(policy.fs, is_same);
  if (there == policy.fs.end()) policy.fs.push_back(std::move(grant));
  else if (grant.mode == FsMode::kWrite) there->mode = FsMode::kWrite;
}

std::string allow_flag(std::string_view grant) {
  const bool plain = !grant.empty() && std::ranges::all_of(grant, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./:,@%+=-").find(c) != std::string_view::npos;
  });
  if (plain) return "--allow " + std::string(grant);
  std::string out = "--allow '";
  for (const char c : grant) {
    if (c == '\'') out += "'\\''";
    else out += c;
  }
  return out + "'";
}

Status allow(Policy& policy, std::string_view flag) {
  if (flag.find('\0') != std::string_view::npos || !is_utf8(flag))
    return fail(ErrorCode::kInvalidArgument, "--allow: the flag is not text.",
                "write it in UTF-8, without NUL");
  Status added = add(policy, flag);
  if (added) return added;
  Policy copy = policy;
  if (const std::string likely = likely_grant(flag); !likely.empty() && likely != flag && add(copy, likely))
    added.error().hint = "write " + allow_flag(likely);
  return added;
}

}  // namespace membrane::policy
