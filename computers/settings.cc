#include "computers/settings.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace membrane::computers {

policy::Limits usual_limits() {
  policy::Limits limits = policy::language_limits();
  limits.memory_bytes = 2ull << 30;
  limits.output_bytes = 64u << 20;
  limits.wall_ms = 600'000;
  // What package managers load, and builds read and write in granted directories.
  limits.host_calls = 100'000;
  limits.bytes_in = limits.bytes_out = 64ull << 30;
  return limits;
}

Status check_grants(const policy::Policy& policy) {
  const auto refused = [](const char* what) {
    return fail(ErrorCode::kUnsupported, std::string("a Linux sandbox has no ") + what + " yet",
                "Remove the grant, or run a program of the other kind.");
  };
  if (policy.trifecta && (!policy.http.empty() || !policy.fs.empty())) return refused("trifecta rule");
  const char* const absent = policy.kv ? "kv" : !policy.sql.empty() ? "sql" : policy.ai ? "ai" : nullptr;
  if (absent != nullptr) return refused((std::string("host functions (") + absent + ")").c_str());
  for (const policy::FsGrant& grant : policy.fs)
    if (grant.guest == "/")
      return fail(
          ErrorCode::kInvalidArgument,
          grant.host + " cannot be granted as / of a Linux sandbox, where its image is",
          "Say where it is mounted, as with --dir " + grant.host + ":" + std::string(kWorkDirectory) + ".");
  return {};
}

Status check_limits(const policy::Limits& limits) {
  const policy::Limits usual = usual_limits();
  const auto unheld = [](const char* name, const std::string& why) {
    return fail(
        ErrorCode::kUnsupported, "a Linux sandbox " + why + ", so a limit of " + name + " would not be held",
        std::string("Leave ") + name + " out; use cpu, wall, memory, disk, tasks and output instead.");
  };
  constexpr uint64_t kLeastMemory = 1u << 20;
  if (limits.memory_bytes < kLeastMemory)
    return fail(ErrorCode::kInvalidArgument,
                "a Linux sandbox cannot run with " + std::to_string(limits.memory_bytes) + " bytes of memory",
                "Raise the limit, with its unit: --memory 512MiB.");
  if (limits.fuel != usual.fuel) return unheld("fuel", "counts no instructions");
  if (limits.stack_bytes != usual.stack_bytes) return unheld("stack", "has no value stack");
  if (limits.call_depth != usual.call_depth) return unheld("call_depth", "counts no calls");
  if (limits.table_elements != usual.table_elements) return unheld("table_elements", "has no tables");
  return {};
}

linux::ComputerLimits limits_of(const policy::Limits& limits) {
  linux::ComputerLimits of;
  of.memory_bytes = limits.memory_bytes;
  of.disk_bytes = limits.disk_bytes;
  of.most_tasks = static_cast<int>(limits.tasks);
  of.cpu = std::chrono::milliseconds(limits.cpu_ms);
  return of;
}

void add_environment(std::vector<std::string>& environment, const std::vector<std::string>& more) {
  for (const std::string& each : more) {
    const std::string name = each.substr(0, each.find('=') + 1);
    std::erase_if(environment, [&](const std::string& before) { return before.starts_with(name); });
    environment.push_back(each);
  }
}

void add_defaults(std::vector<std::string>& environment, const std::vector<std::string>& more) {
  for (const std::string& each : more) {
    const std::string name = each.substr(0, each.find('=') + 1);
    if (std::ranges::none_of(environment, [&](const std::string& there) { return there.starts_with(name); }))
      environment.push_back(each);
  }
}

std::vector<std::string> environment_of(const linux::ImageConfig& config) {
  std::vector<std::string> environment = {
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8",
      // LeakSanitizer needs ptrace(), and without it ends every program of AddressSanitizer.
      "LSAN_OPTIONS=detect_leaks=0"};
  add_environment(environment, config.environment);
  return environment;
}

void set_home(std::vector<std::string>& environment, const linux::ImageConfig& config, const User& user) {
  const auto names_home = [](const std::string& each) { return each.starts_with("HOME="); };
  if (user.home.empty() || std::ranges::any_of(config.environment, names_home)) return;
  add_environment(environment, {"HOME=" + user.home});
}

Result<std::vector<std::string>> arguments_of(const linux::ImageConfig& config,
                                              const std::vector<std::string>& words) {
  std::vector<std::string> all = config.entrypoint;
  const std::vector<std::string>& rest = words.empty() ? config.command : words;
  all.insert(all.end(), rest.begin(), rest.end());
  if (!all.empty()) return all;
  return fail(ErrorCode::kInvalidArgument, "no command was given, and the image has none",
              "membrane run --kind linux -- sh -c 'echo hello'");
}

void mount_working_directory(policy::Policy& policy) {
  for (policy::FsGrant& grant : policy.fs)
    if (grant.guest == "/" && std::filesystem::path(grant.host).lexically_normal() == ".")
      grant.guest = kWorkDirectory;
}

std::string directory_of(const linux::ImageConfig& config, const policy::Policy& policy) {
  const bool has_work = std::ranges::any_of(
      policy.fs, [](const policy::FsGrant& grant) { return grant.guest == kWorkDirectory; });
  return has_work ? std::string(kWorkDirectory) : directory_of(config);
}

std::string directory_of(const linux::ImageConfig& config) {
  return config.directory.empty() ? "/root" : config.directory;
}

}  // namespace membrane::computers
