// The registry of capabilities (host/capabilities/function_spec.h), and what is made from it.
//
// The linker's entries, the reference page, the model's prompt and the JSON for other tools are generated from this
// table; so they always agree.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "host/capabilities/function_spec.h"
#include "wasm/types.h"

namespace membrane::host {

// All of them, in the order of the reference page.
std::span<const Capability> capabilities();
// Null when there is none.
const Capability* find_capability(std::string_view module);
const FunctionSpec* find_function(std::string_view module, std::string_view name);

wasm::ValType wasm_type_of(Type type);
wasm::FuncType wasm_signature_of(const FunctionSpec& function);

// "json.get_i32(json, path) -> i32, errno": strings have no type.
std::string signature_of(const FunctionSpec& function);
// "(import \"kv\" \"get\" (func $kv.get (param i32) (result i32 i32)))"
std::string import_of(const FunctionSpec& function);

// The subject of the texts below: everything, a capability, or one of its functions.
struct Selection {
  const Capability* capability = nullptr;
  const FunctionSpec* function = nullptr;
};
// "http" or "http.get". kNotFound, with the nearest name.
Result<Selection> select(std::string_view name);

// For a person: the reference page, or the selected part.
std::string capabilities_text(const Selection& selection = {});
// The reference page, docs/capabilities.md.
std::string capabilities_markdown();
// For a model: the rules, and one line per function, without the capabilities in `left_out` (those that a policy
// does not grant need no description: a prompt is paid for at every step).
std::string capabilities_prompt(std::span<const std::string_view> left_out = {});
// The same as briefly as possible: one line per capability, with the signatures of its functions, grouped by type. A
// string has no type, an i32 is marked with "#", a function that can fail with "!".
std::string capabilities_signatures(std::span<const std::string_view> left_out = {});
// The lines about the selection, without the common rules.
std::string capabilities_prompt(const Selection& selection);
// For a program: {"capabilities":[{"name":…,"functions":[…]}]}.
std::string capabilities_json(const Selection& selection = {});
// The same for a language: without functions that work on the program's own memory.
std::string capabilities_json_of_values();

}  // namespace membrane::host
