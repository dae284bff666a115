// Which pages of a linear memory hold anything, found without reading those that were not touched.
//
// Threads: the memory's own.
#pragma once

#include <optional>
#include <vector>

#include "engine/memory/memory.h"

namespace membrane::engine {

// Runs of pages of 4 KiB that are not all zero, ascending: offset and bytes.
std::vector<MemoryRange> used_pages(const Memory& memory);

// Runs of pages that differ from the image that the memory began with, or, beyond the image, from zero. Nothing
// when that is unknown: there is no image, or the system does not say.
std::optional<std::vector<MemoryRange>> changed_pages(const Memory& memory);

}  // namespace membrane::engine
