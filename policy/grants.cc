#include "policy/grants.h"

namespace membrane::policy {
namespace {

std::string grant_of(const HttpGrant& grant) {
  std::string methods;
  for (const std::string& method : grant.methods) methods += (methods.empty() ? "" : ",") + method;
  return "http:" + methods + ":" + grant.url;
}

std::string grant_of(const FsGrant& grant) {
  return std::string("fs:") + (grant.mode == FsMode::kWrite ? "write" : "read") +
         (grant.links ? ",links:" : ":") + grant.host + ":" + grant.guest;
}

}  // namespace

std::vector<std::string> grants_of(const Policy& policy) {
  std::vector<std::string> grants;
  for (const HttpGrant& grant : policy.http) grants.push_back(grant_of(grant));
  for (const FsGrant& grant : policy.fs) grants.push_back(grant_of(grant));
  if (policy.kv) grants.push_back(policy.kv->path.empty() ? "kv" : "kv:" + policy.kv->path);
  for (const SqlGrant& grant : policy.sql) grants.push_back("sql:" + grant.name + ":" + grant.path);
  if (policy.ai) grants.emplace_back("ai");
  if (policy.time.real) grants.emplace_back("time");
  if (policy.random.real) grants.emplace_back("random");
  if (policy.ask) grants.emplace_back("ask");
  return grants;
}

}  // namespace membrane::policy
