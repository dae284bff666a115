// Resolves a module's imports to host functions, before anything runs.
//
// Whether a call is allowed is decided at the call: a module that imports http links under a policy that grants
// none, and its calls return EACCES.
#pragma once

#include <expected>
#include <functional>
#include <vector>

#include "base/diagnostic.h"
#include "host/calls/registry.h"
#include "wasm/module.h"

namespace membrane::host {

// The host function of each imported function, in the order of the function index space. Otherwise one diagnostic
// per import that cannot be resolved: unknown-import, with what was probably meant, or import-type-mismatch, with
// the correct line. What a module for another environment imports of it (foreign_imports.h) has one together.
// Diagnostic::function is empty and its place unknown: a Module has no place for an import.
//
// ("membrane" "fail") of type (i32 i32 i32) -> () links to null: it is not a capability, but ends the run for a
// checked call of the preprocessor, and the sandbox provides it (lang/wat/host_table.h).
using Linkage = std::vector<const FunctionSpec*>;
//
// Imports that `is_own` accepts are the embedder's own, and link to null as well.
std::expected<Linkage, std::vector<Diagnostic>> link_imports(
    const wasm::Module& module, const std::function<bool(const wasm::Import&)>& is_own = {});

}  // namespace membrane::host
