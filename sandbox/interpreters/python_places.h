// The places of a stopped Python program, read from the interpreter's memory (python_memory.h). The interpreter does not
// run.
//
// The memory belongs to the program and is not trusted: places may be wrong, and reading them terminates.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sandbox/report/report.h"

namespace membrane::sandbox {

// The active lines, innermost first, without those of Membrane's own package. Empty when they cannot be read.
// `runtime` is what find_python_runtime() has found.
std::vector<ReportPlace> python_places(std::span<const uint8_t> memory, uint32_t runtime);

}  // namespace membrane::sandbox
