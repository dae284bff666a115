// Hints for a program whose import was not found, or that tried to install a package.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sandbox/sandbox.h"

namespace membrane::sandbox {

// As the guest reports it. It is untrusted: invalid names of modules and packages are left out.
struct MissingPackage {
  std::string module;                // the module to import; "pip" for an attempt to install
  std::vector<std::string> near;     // existing modules with similar names
  std::vector<std::string> install;  // what it tried to install
};

// One or two sentences, of bounded length: how to get the package, or what to use instead; "" when there is nothing
// to say. A name close to an existing one is treated as a typo, and no package of that name is mentioned.
std::string hint_of_missing(const MissingPackage& missing, PackagesBy by);

}  // namespace membrane::sandbox
