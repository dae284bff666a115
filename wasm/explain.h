// The words of decoder and validator: how types, stacks, functions and repairs are written in
// their diagnostics. The reader is often a language model, so a repair is given as WAT.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "wasm/body.h"
#include "wasm/module.h"

namespace membrane::wasm {

// "[i32 f64]"; long lists lose their front: "[… i32 f64]" (at most `limit` types are written).
std::string list_of(std::span<const ValType> types, size_t limit = 16);

// "$add", else "3 (export \"add\")", else "3".
std::string label_of_function(const Module& module, uint32_t index);
// The same for places in traps and reports: "$add", else "#3 (export \"add\")", else "#3".
std::string place_of_function(const Module& module, uint32_t index);
// "$x", else "2".
std::string label_of_local(const Module& module, uint32_t function, uint32_t index);
std::string label_of_global(const Module& module, uint32_t index);
std::string label_of_tag(const Module& module, uint32_t index);  // $name, the exported or imported name, or 3

// The instruction that turns `from` into `to` ("f32.convert_i32_s"), or "" when none does.
std::string_view conversion(ValType from, ValType to);

// The instruction like `op` that takes `operands` ("i64.add" for i32.add and [i64 i64]), or "".
std::string_view sibling(Opcode op, std::span<const ValType> operands);

// For what the threads proposal has.
inline constexpr std::string_view kBuildWithoutThreads =
    "A program has one thread here. Build it without threads: without -pthread and -matomics, and with the "
    "target "
    "wasm32-wasip1 in place of wasm32-wasip1-threads.";

// What is wrong with a body that BodyReader refused; without place.
Diagnostic explain(BodyError error);

}  // namespace membrane::wasm
