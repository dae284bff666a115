// Where a Python program stands, for one that was stopped: read from the interpreter's memory, by the offsets that
// CPython keeps there for debuggers (_Py_DebugOffsets). Nothing of the interpreter runs.
//
// The memory is the program's, so nothing in it is believed: places may be wrong, and reading them ends.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sandbox/report.h"

namespace membrane::sandbox {

// The address of _PyRuntime, where the offsets stand; 0 when there is none of a version that is known.
uint32_t find_python_runtime(std::span<const uint8_t> memory);

// The lines that run, innermost first, without those of Membrane's own package. Empty when they cannot be read.
std::vector<ReportPlace> python_places(std::span<const uint8_t> memory, uint32_t runtime);

}  // namespace membrane::sandbox
