// Modules that were made for something else: what their imports say about it.
//
// Threads: pure functions.
#pragma once

#include <string_view>

#include "wasm/module.h"

namespace membrane::host {

// What a module with this import was made for, and how to make one that runs here, in one or two sentences. "" for an
// import that does not tell.
std::string_view made_for(const wasm::Module& module, const wasm::Import& import);

}  // namespace membrane::host
