// Which pages of a linear memory hold anything, found without reading those that nobody touched.
//
// Threads: the memory's own.
#pragma once

#include <vector>

#include "engine/memory.h"

namespace membrane::engine {

// Runs of pages of 4 KiB that are not all zero, ascending: offset and bytes.
std::vector<MemoryRange> used_pages(const Memory& memory);

}  // namespace membrane::engine
