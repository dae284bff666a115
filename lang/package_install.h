// Adds a language to the user's own, and removes it: its files are copied, so that it does not depend on the
// originals.
//
// Threads: any; if two add the same name concurrently, one of them is installed completely.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lang/package.h"

namespace membrane::lang {

inline constexpr size_t kMostPackageFiles = 20'000;

// All files below a directory of this machine, with their paths below `guest`. Errors: kNotFound; kUnsupported for
// anything but regular files, or too many.
Result<std::vector<PackageFile>> files_below(const std::string& guest, const std::string& directory);

// Copies the module and the files to the first of the package directories, with their SHA-256, and returns the
// package as it is found from then on. A module in the text format becomes a binary. Errors: kInvalidArgument for a
// name that is invalid or exists already; kInvalidInput for an invalid module, and for a package that could not be
// read back; kNotFound, kUnavailable for files.
Result<Package> install_package(const Package& package);

// Removes an added language, and returns the directory that it was in. Errors: kNotFound; kDenied if it is not among the
// user's own.
Result<std::string> remove_package(std::string_view name);

}  // namespace membrane::lang
