// What a program in a language may use, out of what its owner said: the interpreter's own needs come on top.
#pragma once

#include "engine/instance/instance.h"
#include "engine/instance/run.h"
#include "policy/policy.h"
#include "sandbox/template.h"
#include "wasi/system.h"

namespace membrane::sandbox {

// An interpreter's frames are many and large: so much more than what the limits say.
engine::ExecutionLimits language_execution_limits(const policy::Limits& limits);
// Memory counts from what the interpreter has when it is warm.
engine::InstanceLimits language_instance_limits(const policy::Limits& limits,
                                                const engine::InstanceImage& image);
// Of a System over the template's files. `policy` is borrowed.
wasi::Config wasi_config(const Template& of, const policy::Policy& policy);

}  // namespace membrane::sandbox
