// The text format of WebAssembly 3.0 (specification, chapter 6): text becomes a Module.
//
// Accepted is one `(module $name? field*)`, or the fields without `(module …)` around them.
// All abbreviations are expanded, function bodies are written as binary code with the
// shortest integers into Module::bytes, $identifiers are kept in Module::names and each
// instruction's place in Module::source_map. A type that is only inline is appended
// to the types in the order of the text (chapter 6.4.10).
//
// The parser checks what the specification calls well-formed: syntax, names, ranges of
// literals, inline types. That numeric indices exist, and types agree, is the validator's.
//
// Errors: all independent findings, up to kMaxParseErrors, in the
// order of the text. Any bytes are accepted as input; time and memory are linear in them,
// and nesting deeper than kMaxTextNesting is refused.
//
// Threads: may be called from any; a thread keeps up to some hundred KiB of buffers for its
// next call.
#pragma once

#include <cstdint>
#include <expected>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/findings.h"
#include "wasm/module.h"

namespace membrane::wasm {

inline constexpr size_t kMaxParseErrors = kMaxFindings;
inline constexpr size_t kMaxTextNesting = 10'000;  // of blocks and of folded instructions, together

std::expected<Module, std::vector<Diagnostic>> parse_text(std::string_view text);

}  // namespace membrane::wasm
