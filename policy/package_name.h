// Packages by their names, as a policy and --with give them: "rich", "rich==13.7", "@scope/name==1.2.3".
//
// A name is a name of the registry and nothing else: no URL, no path, no option of pip or npm can be written as one.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace membrane::policy {

inline constexpr size_t kMostPackages = 100;  // of one language

enum class Registry : uint8_t { kPython, kJavaScript };

struct PackageName {
  std::string name;     // in the registry's normal form: "beautifulsoup4", "ruamel-yaml", "@scope/name"
  std::string version;  // "" for the newest

  [[nodiscard]] std::string text() const { return version.empty() ? name : name + "==" + version; }
  friend bool operator==(const PackageName&, const PackageName&) = default;
};

// Errors: kInvalidArgument, with how it is to be written.
Result<PackageName> parse_package(Registry registry, std::string_view text);
// All of a list, sorted by name. Errors: those of parse_package(); kInvalidArgument for a name that stands twice, and for
// more than kMostPackages.
Result<std::vector<PackageName>> parse_packages(Registry registry, const std::vector<std::string>& texts);

// The name as the index of Python packages compares it: lower case, with "-" for each run of "-", "_" and ".".
std::string normal_python_name(std::string_view name);

}  // namespace membrane::policy
