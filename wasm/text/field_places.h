// Finds the declarations of a module in its text, for diagnostics about them. Instructions have
// their places in Module::source_map; declarations are looked for only when one is wrong, which
// costs a pass over the tokens then and nothing before.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/diagnostic.h"

namespace membrane::wasm {

enum class FieldKind : uint8_t { kType, kFunc, kTable, kMemory, kGlobal, kTag, kElem, kData, kStart };

// The field that defines the `index`th type, function, and so on (imports count, as in the index
// spaces; a segment may be written inside its table or memory). Line 0 when the text has no such
// field: a type may be only inline.
Place place_of_field(std::string_view text, FieldKind kind, uint32_t index);

// The name in the `occurrence`th (from 0) export of this name. Line 0 when there is none.
Place place_of_export(std::string_view text, std::string_view name, uint32_t occurrence);

}  // namespace membrane::wasm
