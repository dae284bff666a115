// The places of a stopped Python program: read from the interpreter's memory, by the offsets that CPython keeps
// there for debuggers (_Py_DebugOffsets). The interpreter does not run.
//
// The memory belongs to the program and is not trusted: places may be wrong, and reading them terminates.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sandbox/report.h"

namespace membrane::sandbox {

// The address of _PyRuntime, which has the offsets; 0 when there is none of a known version.
uint32_t find_python_runtime(std::span<const uint8_t> memory);

// The active lines, innermost first, without those of Membrane's own package. Empty when they cannot be read.
std::vector<ReportPlace> python_places(std::span<const uint8_t> memory, uint32_t runtime);

}  // namespace membrane::sandbox
