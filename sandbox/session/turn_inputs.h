// Input variables of one turn: checked before it begins, and written as its request has them.
//
//   Turn{.code = "a + b", .inputs = {{"a", "1"}, {"b", "[2]"}}}  ─▶  {"code":"a + b", …, "inputs":{"a":1,"b":[2]}}
//
// The guest's side of the language sets them before the code runs (lang/python/guest/membrane/_functions.py,
// lang/javascript/guest/functions.js). The values are those of sandbox/run/guest_functions.h.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "base/result.h"
#include "sandbox/session/session.h"
#include "sandbox/session/template.h"

namespace membrane::sandbox {

// Whether the turn can have the inputs that it is given, in this language. Errors: kUnsupported for a script, and in a language that is
// given nothing but code; kInvalidArgument for a name that is no variable's; kInvalidInput for a value that is no JSON; kTooLong for values
// past the limits of JsonLimits, each or together.
Status check_inputs(const Turn& turn, const Template& of);
// Whether the turn is given input in the sense of the trifecta rule: text for its standard input, or variables, of the turn or the session.
[[nodiscard]] bool gives_input(const Turn& turn, const RunOptions& options);
// Of inputs that another process has kept for this one: whether the values are as check_inputs() would have them.
[[nodiscard]] bool are_sound(const Inputs& inputs);
// A JSON object. The values are as they were given, with the members in their order.
std::string json_of_inputs(const Inputs& inputs);

}  // namespace membrane::sandbox
