// The abstract heap types by their names in text (specification, chapter 6.4.3).
#pragma once

#include <string_view>
#include <utility>

#include "wasm/types.h"

namespace membrane::wasm {

// Each heap type with the nullable reference to it.
inline constexpr std::pair<std::string_view, ValType> kHeapTypes[] = {
    {"func", ValType::kFuncRef},
    {"extern", ValType::kExternRef},
    {"exn", ValType::kExnRef},
    {"any", ValType::kAnyRef},
    {"eq", ValType::kEqRef},
    {"i31", ValType::kI31Ref},
    {"struct", ValType::kStructRef},
    {"array", ValType::kArrayRef},
    {"none", ValType::kNullRef},
    {"nofunc", ValType::kNullFuncRef},
    {"noextern", ValType::kNullExternRef},
    {"noexn", ValType::kNullExnRef},
};

}  // namespace membrane::wasm
