// Types in the binary format (specification, chapter 5.3): what the decoders of modules and of code share.
//
// Reading is checked: the readers return the end of the type, or null when the bytes up to `end` are not one. An
// index that no module can have becomes kUnknownTypeIndex.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "wasm/types.h"

namespace membrane::wasm {

const uint8_t* read_val_type(const uint8_t* at, const uint8_t* end, ValType& out);
// A heap type, as the nullable reference to it.
const uint8_t* read_heap_type(const uint8_t* at, const uint8_t* end, ValType& out);

void append_val_type(std::vector<uint8_t>& out, ValType type);
void append_heap_type(std::vector<uint8_t>& out, ValType type);

}  // namespace membrane::wasm
