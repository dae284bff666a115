#include "sandbox/replayed_grants.h"

#include <algorithm>
#include <string>
#include <vector>

namespace membrane::sandbox {
namespace {

std::string words_of(const policy::FsGrant& grant) {
  return (grant.mode == policy::FsMode::kWrite ? "write:" : "read:") + grant.guest;
}

}  // namespace

std::vector<std::string> directories_of(const policy::Policy& policy) {
  std::vector<std::string> granted;
  for (const policy::FsGrant& grant : policy.fs) granted.push_back(words_of(grant));
  return granted;
}

Status check_replayed_grants(host::World& world, const policy::Policy& policy) {
  const std::vector<std::string> granted = directories_of(policy);
  const host::HostResult<std::vector<std::string>> then = world.directories(granted);
  if (!then) return fail(ErrorCode::kInvalidArgument, then.error().reason);
  std::string missing, flags;
  for (const std::string& words : *then) {
    if (std::ranges::find(granted, words) != granted.end()) continue;
    const size_t colon = words.find(':');
    missing += (missing.empty() ? "" : ", ") + words.substr(colon + 1) + " to " + words.substr(0, colon);
    flags += " --allow fs:" + words.substr(0, colon) + ":HOST_DIRECTORY" + words.substr(colon);
  }
  if (missing.empty()) return {};
  return fail(ErrorCode::kInvalidArgument,
              "the run of the journal was granted directories that the replay is not: " + missing,
              "Grant them again; nothing is read from them or written:" + flags);
}

}  // namespace membrane::sandbox
