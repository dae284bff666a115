#include <nlohmann/json.hpp>

#include "policy/policy.h"
#include "policy/quantity.h"

namespace membrane::policy {
namespace {

using nlohmann::json;

// Counts are numbers, so that programs can use them; other amounts carry their unit.
json amount(Quantity kind, uint64_t value) {
  if (kind == Quantity::kCount) return value;
  return format_quantity(kind, value);
}

// Limits of Linux sandboxes appear only where they differ from the defaults, so that they do not change the hashes
// of other policies.
json of(const Limits& limits) {
  json out = json::object();
  const Limits usual;
#define LIMIT(member, name, kind, least, most, words) out[name] = amount(Quantity::kind, limits.member);
#define LINUX_LIMIT(member, name, kind, least, most, words)                             \
  if (limits.member != usual.member) out[name] = amount(Quantity::kind, limits.member);
#include "policy/limits.def"
#undef LIMIT
  return out;
}

// Only what the policy states; absent marks have the defaults of trifecta.h.
void add_marks(json& out, const Marks& marks) {
  if (marks.is_private) out["private"] = *marks.is_private;
  if (marks.is_untrusted) out["untrusted"] = *marks.is_untrusted;
}

json of(const Trifecta& rule) {
  json out = {{"egress", rule.egress == Egress::kAsk ? "ask" : "close"}};
  if (rule.input_is_private) out["input_private"] = true;
  if (rule.input_is_untrusted) out["input_untrusted"] = true;
  return out;
}

json of(const HttpGrant& grant) {
  json out = {{"methods", grant.methods},
              {"url", grant.url},
              {"max_request", format_size(grant.max_request_bytes)},
              {"max_response", format_size(grant.max_response_bytes)},
              {"timeout", format_duration(grant.timeout_ms)},
              {"max_redirects", grant.max_redirects}};
  if (grant.traceparent) out["traceparent"] = true;
  if (!grant.addresses.empty()) out["addresses"] = grant.addresses;
  for (const auto& [name, value] : grant.headers) {
    if (value.secret.empty()) out["header"][name] = value.text;
    else out["header"][name]["secret"] = value.secret;
    if (!value.secret.empty() && !value.text.empty()) out["header"][name]["prefix"] = value.text;
  }
  add_marks(out, grant.marks);
  return out;
}

json of(const FsGrant& grant) {
  json out = {{"guest", grant.guest},
              {"host", grant.host},
              {"mode", grant.mode == FsMode::kWrite ? "write" : "read"},
              {"max_file", format_size(grant.max_file_bytes)}};
  if (grant.links) out["links"] = true;
  if (grant.mode == FsMode::kWrite) {
    out["max_total"] = format_size(grant.max_total_bytes);
    out["max_files"] = grant.max_files;
  }
  add_marks(out, grant.marks);
  return out;
}

json of(const KvGrant& grant) {
  json out = {{"writable", grant.writable}};
  if (!grant.path.empty()) out["path"] = grant.path;
  if (!grant.prefix.empty()) out["prefix"] = grant.prefix;
  if (grant.writable) {
    out["max_keys"] = grant.max_keys;
    out["max_key"] = format_size(grant.max_key_bytes);
    out["max_value"] = format_size(grant.max_value_bytes);
    out["max_total"] = format_size(grant.max_total_bytes);
  }
  add_marks(out, grant.marks);
  return out;
}

json of(const SqlGrant& grant) {
  json out = {{"name", grant.name},
              {"path", grant.path},
              {"max_rows", grant.max_rows},
              {"max_result", format_size(grant.max_result_bytes)},
              {"timeout", format_duration(grant.timeout_ms)}};
  add_marks(out, grant.marks);
  return out;
}

json of(const AiGrant& grant) {
  return {{"max_tokens_per_call", grant.max_tokens_per_call},
          {"timeout", format_duration(grant.timeout_ms)},
          {"embed", grant.embed}};
}

json of(const TimeGrant& grant) {
  if (grant.real) return {{"real", true}};
  return {{"real", false}, {"start", format_time(grant.start_ms)}};
}

json of(const RandomGrant& grant) {
  if (grant.real) return {{"real", true}};
  return {{"real", false}, {"seed", grant.seed}};
}

template <typename Grant>
void add_list(json& out, const char* name, const std::vector<Grant>& grants) {
  for (const Grant& grant : grants) out[name].push_back(of(grant));
}

}  // namespace

std::string to_json(const Policy& policy) {
  json out = {{"limits", of(policy.limits)},
              {"time", of(policy.time)},
              {"random", of(policy.random)},
              {"ask", policy.ask}};
  add_list(out, "http", policy.http);
  add_list(out, "fs", policy.fs);
  add_list(out, "sql", policy.sql);
  if (policy.kv) out["kv"] = of(*policy.kv);
  if (policy.ai) out["ai"] = of(*policy.ai);
  if (!policy.packages.python.empty()) out["packages"]["python"] = policy.packages.python;
  if (!policy.packages.javascript.empty()) out["packages"]["javascript"] = policy.packages.javascript;
  if (policy.trifecta) out["trifecta"] = of(*policy.trifecta);
  if (!policy.platform.empty()) out["platform"] = policy.platform;
  // Paths may hold any bytes; JSON may not.
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace membrane::policy
