// The "name" custom section (specification, appendix A.4.1, with the extended names that all
// tools write: labels, types, tables, memories, globals, segments, tags).
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "wasm/module.h"

namespace membrane::wasm {

// Reads the section's contents (after the section's own name). A section that is malformed, or
// whose maps are not in ascending order, gives no names at all: names are for people, and wrong
// ones would mislead. Unknown subsections are skipped.
Names decode_names(std::span<const uint8_t> contents);

// The same, at the first request. `contents` must outlive the names.
Names decode_names_later(std::span<const uint8_t> contents);

// Appends the section's contents. Writes nothing when there are no names.
void encode_names(std::vector<uint8_t>& out, const Names& names);

}  // namespace membrane::wasm
