// Packages by name, as in a policy and in --with: "rich", "rich==13.7", "@scope/name==1.2.3".
//
// Only names of the registry are accepted: no URL, path, or option of pip or npm can pass as one.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace membrane::policy {

inline constexpr size_t kMostPackages = 100;  // per language

enum class Registry : uint8_t { kPython, kJavaScript };

struct PackageName {
  std::string name;     // in the registry's normal form: "beautifulsoup4", "ruamel-yaml", "@scope/name"
  std::string version;  // "" for the newest

  [[nodiscard]] std::string text() const { return version.empty() ? name : name + "==" + version; }
  friend bool operator==(const PackageName&, const PackageName&) = default;
};

// Errors: kInvalidArgument, with the correct form.
Result<PackageName> parse_package(Registry registry, std::string_view text);
// The whole list, sorted by name. Errors: those of parse_package(); kInvalidArgument for a repeated name, and for
// more than kMostPackages.
Result<std::vector<PackageName>> parse_packages(Registry registry, const std::vector<std::string>& texts);

// The name as the Python package index compares it: lower case, with "-" for each run of "-", "_" and ".".
std::string normal_python_name(std::string_view name);

}  // namespace membrane::policy
