// How large a module may be. The specification leaves such limits to implementations (chapter
// A.2); these are the ones that web engines agreed upon (WebAssembly JavaScript API, section
// "Implementation-defined Limits"), so that what runs here runs there.
//
// decode() enforces kMaxModuleBytes and kMaxTypes; validate() enforces the rest, for parsed and decoded modules
// alike, with the diagnostic "implementation-limit".
#pragma once

#include <cstdint>

namespace membrane::wasm {

inline constexpr uint32_t kMaxModuleBytes = 1u << 30;
inline constexpr uint32_t kMaxTypes = 1'000'000;
inline constexpr uint32_t kMaxFunctions = 1'000'000;  // imported ones included
inline constexpr uint32_t kMaxImports = 100'000;
inline constexpr uint32_t kMaxExports = 100'000;
inline constexpr uint32_t kMaxGlobals = 1'000'000;
inline constexpr uint32_t kMaxTables = 100'000;
inline constexpr uint32_t kMaxTags = 1'000'000;
inline constexpr uint32_t kMaxMemories = 100;
inline constexpr uint32_t kMaxDataSegments = 100'000;
inline constexpr uint32_t kMaxElementSegments = 10'000'000;
inline constexpr uint32_t kMaxParams = 1'000;
inline constexpr uint32_t kMaxResults = 1'000;
inline constexpr uint32_t kMaxFields = 10'000;         // of a struct type
inline constexpr uint32_t kMaxArrayNewFixed = 10'000;  // values
inline constexpr uint32_t kMaxLocals = 50'000;         // parameters included
inline constexpr uint32_t kMaxBodyBytes = 7'654'321;
inline constexpr uint32_t kMaxBranchTableLabels = 65'520;
inline constexpr uint32_t kMaxTableElements = 10'000'000;  // of a segment

// Not in the web's list; they bound the validator's own memory.
inline constexpr uint32_t kMaxNesting = 65'536;          // blocks within blocks
inline constexpr uint32_t kMaxOperandStack = 1'000'000;  // values on a function's operand stack

}  // namespace membrane::wasm
