// Which host functions a module's imports name, decided before anything runs.
//
// Whether a call is allowed is another question, asked at the call: a module that imports
// http links under a policy that grants none, and its calls answer EACCES.
#pragma once

#include <expected>
#include <functional>
#include <vector>

#include "base/diagnostic.h"
#include "host/registry.h"
#include "wasm/module.h"

namespace membrane::host {

// For each imported function its host function, in the order of the function index space.
// Else one diagnostic for each import that cannot be had: unknown-import, with what was
// probably meant, or import-type-mismatch, with the line to write. Diagnostic::function is
// empty and its place unknown: an import has none in a Module.
//
// ("membrane" "fail") of type (i32 i32 i32) -> () links to null: it is no capability, but how a
// checked call of the preprocessor ends the run, and the sandbox provides it (lang/wat/host_table.h).
using Linkage = std::vector<const FunctionSpec*>;
//
// What `is_own` says yes to is the embedder's own, and links to null as well.
std::expected<Linkage, std::vector<Diagnostic>> link_imports(
    const wasm::Module& module, const std::function<bool(const wasm::Import&)>& is_own = {});

}  // namespace membrane::host
