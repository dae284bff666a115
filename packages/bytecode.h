// Python's bytecode of packages, made once inside and kept in their layer: to compile them again in every session would cost
// fuel and time at each import.
//
// The compiler that runs is the language's own, in sessions without grants. The sources are compiled and not run.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "packages/work_directory.h"
#include "sandbox/template.h"

namespace membrane::packages {

// Compiles the sources below `directory`, which programs will see at `guest`, and puts the bytecode beside them, in
// __pycache__. What does not compile is left as it is. Errors: those of write_layer() and of sessions; kCancelled.
Status add_bytecode(const std::shared_ptr<const sandbox::Template>& language, std::string_view guest,
                    const std::string& directory, const WorkDirectory& work, const std::atomic<bool>* cancel);

}  // namespace membrane::packages
