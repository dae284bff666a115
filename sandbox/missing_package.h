// What a program is told whose import was not found, or that would have installed a package.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sandbox/sandbox.h"

namespace membrane::sandbox {

// As the guest says it. Nothing of it is believed: what is no name of a module or a package is left out.
struct MissingPackage {
  std::string module;                // that was to be imported; "pip" for one that would install
  std::vector<std::string> near;     // modules that are there, of nearly this name
  std::vector<std::string> install;  // what it would have had installed
};

// One or two sentences, of bounded length: how the package can be had, or what is there instead; "" when there is nothing to
// say. A name that is nearly one that is there is taken for a slip, and no package of that name is spoken of.
std::string hint_of_missing(const MissingPackage& missing, PackagesBy by);

}  // namespace membrane::sandbox
