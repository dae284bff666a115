// Derives the settings of a Linux sandbox from a policy and an image.
//
// Threads: pure; the environment must not change meanwhile.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "computers/users.h"
#include "linux/image/store.h"
#include "linux/sandbox/computer.h"
#include "policy/policy.h"

namespace membrane::computers {

inline constexpr std::string_view kUsualImage = "debian";

// The default limits.
policy::Limits usual_limits();

// Refuses grants that a sandbox of this kind cannot enforce. Errors: kUnsupported; kInvalidArgument for a
// directory at /.
Status check_grants(const policy::Policy& policy);
// The same for explicit limits: fuel, stack, calls and tables. `limits` are based on usual_limits().
Status check_limits(const policy::Limits& limits);

// All limits except those of a single command (output_bytes, wall).
linux::ComputerLimits limits_of(const policy::Limits& limits);

// Adds `more` to `environment`, both of NAME=VALUE; for duplicate names the last stays.
void add_environment(std::vector<std::string>& environment, const std::vector<std::string>& more);
// Adds `more` as defaults: existing names stay as they are.
void add_defaults(std::vector<std::string>& environment, const std::vector<std::string>& more);
// The initial environment of an image's programs: PATH, HOME, LANG, and the maker's variables.
std::vector<std::string> environment_of(const linux::ImageConfig& config);
// Sets the user's HOME, unless the maker set one.
void set_home(std::vector<std::string>& environment, const linux::ImageConfig& config, const User& user);
// A command of an image: the maker's entrypoint followed by `words`, or else by the maker's command. Errors:
// kInvalidArgument if that is empty.
Result<std::vector<std::string>> arguments_of(const linux::ImageConfig& config,
                                              const std::vector<std::string>& words);
// The initial working directory.
std::string directory_of(const linux::ImageConfig& config);
// The same with granted directories: kWorkDirectory if one is granted there.
inline constexpr std::string_view kWorkDirectory = "/work";
// Mounts there the working directory that --dir . grants at / for programs of the other kind.
void mount_working_directory(policy::Policy& policy);
std::string directory_of(const linux::ImageConfig& config, const policy::Policy& policy);

}  // namespace membrane::computers
