// Between the face's types and those of the floors below it.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/result.h"
#include "engine/instance/host_call.h"
#include "engine/instance/value.h"
#include "host/guest/guest.h"
#include "membrane/membrane.hpp"
#include "sandbox/report/report.h"
#include "sandbox/run/own_function.h"

namespace membrane::face {

Failure failure_of(const Error& error);
Failure failure_of(const Diagnostic& diagnostic);
Failure failure_of(const sandbox::ReportError& error);
Failure invalid_argument(std::string message, std::string hint);

wasm::ValType wasm_type_of(ValueType type);
wasm::FuncType wasm_type_of(const Signature& signature);
std::optional<ValueType> type_of(wasm::ValType type);  // nothing for references and vectors
std::optional<Signature> signature_of(const wasm::FuncType& type);

uint64_t bits_of(const Value& value);
Value value_of(ValueType type, uint64_t bits);
engine::Value engine_value_of(const Value& value);

// The error in the definition of a function, if any.
std::optional<Failure> check(const HostFunction& function);
// Calls it for a guest. Whatever it throws becomes a trap.
sandbox::OwnEnd invoke(const HostFunction& function, host::Guest& guest, engine::HostCall& call);

sandbox::OwnFunction own_function(HostFunction function);

// The answer to a call that waits.
sandbox::OwnAnswer own_answer(const HostResults& results);
sandbox::OwnAnswer own_answer(std::function<HostResults(HostCall&)> function);

}  // namespace membrane::face
