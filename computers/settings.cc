#include "computers/settings.h"

#include <algorithm>
#include <utility>

namespace membrane::computers {

policy::Limits usual_limits() {
  policy::Limits limits = policy::language_limits();
  limits.memory_bytes = 2ull << 30;
  limits.output_bytes = 64u << 20;
  limits.wall_ms = 600'000;
  // What package managers load.
  limits.host_calls = 100'000;
  limits.bytes_in = 4ull << 30;
  limits.bytes_out = 256u << 20;
  return limits;
}

Status check_grants(const policy::Policy& policy) {
  const auto refused = [](const char* what) {
    return fail(ErrorCode::kUnsupported, std::string("a Linux sandbox has no ") + what + " yet",
                "Leave the grant out, or run a program of the other kind.");
  };
  if (policy.trifecta && (!policy.http.empty() || !policy.fs.empty())) return refused("trifecta rule");
  if (policy.kv || !policy.sql.empty() || policy.ai) return refused("host functions");
  return {};
}

Status check_limits(const policy::Limits& limits) {
  if (limits.fuel != usual_limits().fuel)
    return fail(ErrorCode::kUnsupported,
                "a Linux sandbox counts no instructions: a limit of fuel would not be held",
                "Leave fuel out; wall, memory and output bound it.");
  return {};
}

linux::ComputerLimits limits_of(const policy::Limits& limits) {
  linux::ComputerLimits of;
  of.memory_bytes = limits.memory_bytes;
  return of;
}

void add_environment(std::vector<std::string>& environment, const std::vector<std::string>& more) {
  for (const std::string& each : more) {
    const std::string name = each.substr(0, each.find('=') + 1);
    std::erase_if(environment, [&](const std::string& before) { return before.starts_with(name); });
    environment.push_back(each);
  }
}

std::vector<std::string> environment_of(const linux::ImageConfig& config) {
  std::vector<std::string> environment = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                          "HOME=/root", "LANG=C.UTF-8"};
  add_environment(environment, config.environment);
  return environment;
}

std::string directory_of(const linux::ImageConfig& config) {
  return config.directory.empty() ? "/root" : config.directory;
}

}  // namespace membrane::computers
