// A lock: the versions and files of packages that were resolved for a request. It is a JSON file, kept with the
// policy that it belongs to:
//
//   {"membrane_lock": 1,
//    "python": {"asked": ["rich"], "made_for": "3.15.0 …", "built_in": ["numpy==2.5.2"],
//               "packages": [{"name": "rich", "version": "15.0.0", "file": "rich-15.0.0-py3-none-any.whl", "sha256": "…"}]},
//    "javascript": {"asked": ["lodash"], "made_for": "npm", "packages": [{"name":…, "version":…}], "package_lock": {…}}}
//
// `made_for` is what else the result depends on: the language's version and its built-in packages.
//
// Threads: values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/package_name.h"

namespace membrane::packages {

struct LockedPackage {
  std::string name, version;
  std::string file, sha256;  // for Python

  friend bool operator==(const LockedPackage&, const LockedPackage&) = default;
};

struct LockedLanguage {
  std::vector<std::string> asked;  // sorted, as PackageName::text()
  std::string made_for;
  std::vector<LockedPackage> packages;
  std::vector<std::string> built_in;  // among what was asked: "numpy==2.5.2"
  std::string package_lock;           // for JavaScript: npm's own file

  friend bool operator==(const LockedLanguage&, const LockedLanguage&) = default;
};

struct Lock {
  std::optional<LockedLanguage> python, javascript;
};

// Errors: kInvalidInput for an invalid lock. Every name, version and hash in it is checked, since they are passed to
// pip and npm.
Result<Lock> read_lock(std::string_view text);
std::string to_text(const Lock& lock);

// Reads a file; an empty lock when there is none. Errors: those of read_lock(); kUnavailable.
Result<Lock> load_lock(const std::string& path);
// Replaces the file atomically. A lock beside a policy has the permissions of the user's other files; one in the
// cache is private to the user. Errors: kUnavailable.
enum class LockPlace : uint8_t { kBesidePolicy, kCache };
Status save_lock(const std::string& path, const Lock& lock, LockPlace place);

}  // namespace membrane::packages
