#include "service/client_policy.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/json.h"
#include "policy/address.h"
#include "policy/url_grant.h"

namespace membrane::service {
namespace {

constexpr uint64_t kMostMemoryBytes = 4ull << 30;
constexpr uint64_t kMostWallMs = 24ull * 3'600'000;
constexpr uint64_t kMostOutputBytes = 16ull << 20;
constexpr uint64_t kMostStackBytes = 64ull << 20;
constexpr uint64_t kMostDiskBytes = 4ull << 30;  // of the machine's memory
constexpr uint64_t kMostTasks = 4'096;
constexpr uint64_t kMostTableElements = 1'000'000;

constexpr const char* kNoModel =
    "Leave it out; a program reaches a model by \"http\", with a secret in its headers.";
constexpr const char* kNobody =
    "Leave it out, and pass the program what it needs with its code, its input or its files.";

std::unexpected<ApiError> not_yours(const std::string& what) {
  return refuse(ApiCode::kForbidden, "the policy grants " + what + " of the service's machine",
                "Only the service's owner can grant that; remove it.");
}
// Not even the owner may grant these: over HTTP nobody gets access to what the machine holds.
std::unexpected<ApiError> nobodys(const std::string& what, const char* instead) {
  return refuse(ApiCode::kForbidden, "the policy grants " + what + " of the service's machine",
                std::string("Over HTTP nobody is granted that, not even the owner: ") + instead);
}

// A URL with an address grants that address, whatever it is.
bool is_of_special_address(const policy::HttpGrant& grant) {
  const auto url = policy::UrlGrant::parse(grant.url);
  return url && url->url().address && !policy::special_kind(*url->url().address).empty();
}

Answer<void> check_grants(const policy::Policy& policy, bool is_owner) {
  if (!policy.fs.empty())
    return nobodys("directories (fs)", "copy files into the sandbox (membrane cp, PUT …/files).");
  if (!policy.sql.empty())
    return nobodys("databases (sql)", "copy the database into the sandbox (membrane cp, PUT …/files).");
  if (policy.kv && !policy.kv->path.empty())
    return nobodys("a file (kv.path)", "remove the path, and the values belong to the sandbox.");
  if (policy.ai)
    return refuse(ApiCode::kUnsupported, "the policy grants a model (ai), and the service has none",
                  kNoModel);
  if (policy.ask)
    return refuse(ApiCode::kUnsupported,
                  "the policy lets programs ask a person (ask), and the service has nobody to ask", kNobody);
  for (const policy::HttpGrant& grant : policy.http) {
    if (is_owner) break;
    if (!grant.addresses.empty()) return not_yours("private addresses (http.addresses)");
    if (is_of_special_address(grant)) return not_yours("an address that is not public (http.url)");
  }
  return {};
}

Answer<void> check_limits(const policy::Limits& limits) {
  const auto above = [](const char* name, uint64_t most, const char* unit) {
    return refuse(ApiCode::kInvalidValue,
                  std::string("\"policy.limits.") + name + "\" is above the service's limit",
                  "The most is " + std::to_string(most) + " " + unit + ".");
  };
  if (limits.memory_bytes > kMostMemoryBytes) return above("memory", kMostMemoryBytes, "bytes");
  if (limits.wall_ms > kMostWallMs) return above("wall", kMostWallMs, "ms");
  if (limits.output_bytes > kMostOutputBytes) return above("output", kMostOutputBytes, "bytes");
  if (limits.stack_bytes > kMostStackBytes) return above("stack", kMostStackBytes, "bytes");
  if (limits.table_elements > kMostTableElements)
    return above("table_elements", kMostTableElements, "elements");
  if (limits.disk_bytes > kMostDiskBytes) return above("disk", kMostDiskBytes, "bytes");
  if (limits.tasks > kMostTasks) return above("tasks", kMostTasks, "processes and threads");
  return {};
}

}  // namespace

void bound_limits(policy::Limits& limits) {
  limits.memory_bytes = std::min(limits.memory_bytes, kMostMemoryBytes);
  limits.wall_ms = std::min(limits.wall_ms, kMostWallMs);
  limits.output_bytes = std::min(limits.output_bytes, kMostOutputBytes);
}

Answer<policy::Policy> read_client_policy(const nlohmann::json& json, const policy::Limits& usual,
                                          bool is_owner) {
  constexpr std::string_view kName = "policy.json", kAfter = ": ";  // there is no such file
  auto policy = policy::parse_policy(json_text(json), kName, usual);
  if (!policy)
    return refuse(ApiCode::kInvalidValue,
                  "\"policy\" is not valid: " + policy.error().message.substr(kName.size() + kAfter.size()),
                  policy.error().hint);
  if (auto checked = check_grants(*policy, is_owner); !checked) return std::unexpected(checked.error());
  if (auto checked = check_limits(policy->limits); !checked) return std::unexpected(checked.error());
  return *std::move(policy);
}

}  // namespace membrane::service
