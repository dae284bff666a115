// From WAT to a Module, with or without the preprocessor.
//
//   author's text ──expand──▶ plain WAT ──parse──▶ Module ──validate──▶ (engine)
//        ▲                                                    │
//        └──────── to_author(): diagnostics, traps ───────────┘
//
// A text without forms is parsed directly, at no extra cost.
//
// Threads: a value; the functions are pure.
#pragma once

#include <expected>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "lang/wat/expansion.h"
#include "lang/wat/host_table.h"
#include "wasm/module.h"

namespace membrane::lang {

struct LoadedWat {
  wasm::Module module;  // not validated yet; its source map points into the expanded text
  Expansion expansion;
};

// Diagnostics have places in `source`, whether they come from the preprocessor or the parser.
std::expected<LoadedWat, std::vector<Diagnostic>> load_wat(std::string_view source, const HostTable& host);

}  // namespace membrane::lang
