// The preprocessor: WAT with the forms that authors want becomes plain WAT (docs/wat.md).
//
//   author's text ──expand──▶ plain WAT ──wasm::parse_text──▶ Module ──wasm::validate──▶
//        ▲                                                            │
//        └────────────── places: diagnostics, traps ──────────────────┘
//
// Plain WAT is always accepted and means what it says: a module that parses and validates as it
// stands is not touched, except that a program for the host gets its memory exported, and an entry
// without any export gets one.
//
// Threads: pure functions; a thread keeps its buffers for the next call.
#pragma once

#include <expected>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "lang/wat/expansion.h"
#include "lang/wat/host_table.h"
#include "wasm/module.h"
#include "wasm/validate.h"

namespace membrane::lang {

// Addresses below this are left to the program, unless its own data segments reach further:
// string literals, and the host's heap behind them, come later.
inline constexpr uint32_t kScratchBytes = 1024;

// Writes out all forms. An Expansion that is not `changed` when there is none. Its text keeps the
// lines of the source: line n of one is line n of the other, up to the fields that are added at the
// end. Expanding an expansion changes nothing.
std::expected<Expansion, std::vector<Diagnostic>> expand(std::string_view source, const HostTable& host);

struct CompiledWat {
  wasm::Module module;          // its source map points into the author's text
  wasm::ValidationInfo checked;
};

// Expands, parses and validates. Diagnostics are at places of `source`, whatever stage found them.
std::expected<CompiledWat, std::vector<Diagnostic>> compile_wat(std::string_view source, const HostTable& host);

}  // namespace membrane::lang
