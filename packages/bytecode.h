// Python bytecode of packages, compiled once inside a session and kept in their layer: compiling them in every
// session would cost fuel and time at each import.
//
// The language's own compiler runs in sessions without grants. The sources are compiled but not run.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "packages/work_directory.h"
#include "sandbox/template.h"

namespace membrane::packages {

// Compiles the sources below `directory`, which programs see at `guest`, and puts the bytecode beside them, in
// __pycache__. Sources that do not compile are left as they are. Errors: those of write_layer() and of sessions;
// kCancelled.
Status add_bytecode(const std::shared_ptr<const sandbox::Template>& language, std::string_view guest,
                    const std::string& directory, const WorkDirectory& work, const std::atomic<bool>* cancel);

}  // namespace membrane::packages
