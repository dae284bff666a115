// From a policy and an image to what a Linux sandbox is made with.
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

// What a limit is when nothing names it.
policy::Limits usual_limits();

// What a sandbox of this kind cannot be held to is refused, not ignored. Errors: kUnsupported; kInvalidArgument for a directory at /.
Status check_grants(const policy::Policy& policy);
// The same of limits that somebody has named: of fuel, stack, calls and tables. `limits` are over usual_limits().
Status check_limits(const policy::Limits& limits);

// All but what is of a single command (output_bytes, wall).
linux::ComputerLimits limits_of(const policy::Limits& limits);

// `more` over `environment`, both of NAME=VALUE: the last of a name stays.
void add_environment(std::vector<std::string>& environment, const std::vector<std::string>& more);
// `more` under it: a name that exists stays as it is.
void add_defaults(std::vector<std::string>& environment, const std::vector<std::string>& more);
// What programs of an image begin with: PATH, HOME, LANG, and what its maker wrote.
std::vector<std::string> environment_of(const linux::ImageConfig& config);
// HOME as its user has it, unless the maker wrote one.
void set_home(std::vector<std::string>& environment, const linux::ImageConfig& config, const User& user);
// A command of an image: the maker's entrypoint, and `words` after it, or else the maker's command. Errors: kInvalidArgument for nothing.
Result<std::vector<std::string>> arguments_of(const linux::ImageConfig& config,
                                              const std::vector<std::string>& words);
// Where they begin.
std::string directory_of(const linux::ImageConfig& config);
// The same with granted directories: in kWorkDirectory where one is granted there.
inline constexpr std::string_view kWorkDirectory = "/work";
// The working directory, which --dir . grants at / for programs of the other kind, is mounted there.
void mount_working_directory(policy::Policy& policy);
std::string directory_of(const linux::ImageConfig& config, const policy::Policy& policy);

}  // namespace membrane::computers
