// The limits for a program in a language: the owner's limits plus the interpreter's own needs.
#pragma once

#include "engine/instance/instance.h"
#include "engine/instance/run.h"
#include "policy/policy.h"
#include "sandbox/template.h"
#include "wasi/system.h"

namespace membrane::sandbox {

// An interpreter's frames are many and large, so the limits are increased accordingly.
engine::ExecutionLimits language_execution_limits(const policy::Limits& limits);
// The memory limit applies to what the program adds to the warm interpreter.
engine::InstanceLimits language_instance_limits(const policy::Limits& limits,
                                                const engine::InstanceImage& image);
// The config of a System over the template's files. `policy` is borrowed.
wasi::Config wasi_config(const Template& of, const policy::Policy& policy);

}  // namespace membrane::sandbox
