// Recognises modules that were built for another environment, by their imports.
//
// Threads: pure functions.
#pragma once

#include <string_view>

#include "wasm/module.h"

namespace membrane::host {

// The environment that a module with this import was built for, and how to build one that runs here, in one or two
// sentences. "" for an unknown import.
std::string_view made_for(const wasm::Module& module, const wasm::Import& import);
// The same for the whole module, by the first of its imports that tells; "" if none does.
std::string_view made_for(const wasm::Module& module);

}  // namespace membrane::host
