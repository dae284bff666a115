// Runs the official test scripts (.wast) on this engine.
//
// Threads: each call is independent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/code/tier.h"

namespace membrane::engine {

struct ScriptFailure {
  uint32_t line = 0;
  std::string command;  // "assert_return"
  std::string what;     // expected and found
};

struct ScriptResult {
  uint32_t passed = 0;
  uint32_t failed = 0;
  uint32_t functions = 0;                 // defined in modules that are valid
  uint32_t compiled = 0;                  // of these, those with machine code
  std::vector<ScriptFailure> failures;    // all of them
  std::vector<ScriptFailure> superseded;  // commands of an older suite; `what` is the newer rule
};

// `file` is the script's name in the suite, as superseded.h knows it.
// Errors: kInvalidInput when the script itself cannot be read.
Result<ScriptResult> run_script(std::string_view text, std::string_view file = {}, Tier tier = Tier::kAuto);

}  // namespace membrane::engine
