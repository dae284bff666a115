// Adding a language to those of the user, and taking it away: its files are copied, so that it stays when they go.
//
// Threads: any; two that add the same name at once end with one of them, whole.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lang/package.h"

namespace membrane::lang {

inline constexpr size_t kMostPackageFiles = 20'000;

// All files below a directory of this machine, as they are to be found below `guest`. Errors: kNotFound; kUnsupported
// for what is no regular file, or too many.
Result<std::vector<PackageFile>> files_below(const std::string& guest, const std::string& directory);

// Copies the module and the files, wherever they are, to where packages are looked for first, with their SHA-256, and
// gives the package as it is found from then on. A module in the text format becomes a binary. Errors:
// kInvalidArgument for a name that cannot be one or is there already; kInvalidInput for a module that is none, and for
// a package that could not be read again; kNotFound, kUnavailable for files.
Result<Package> install_package(const Package& package);

// Removes one that was added. Errors: kNotFound; kDenied for one that is not among the user's own.
Status remove_package(std::string_view name);

}  // namespace membrane::lang
