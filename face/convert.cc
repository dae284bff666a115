#include "face/convert.h"

#include <bit>

#include "face/hints.h"

namespace membrane::face {

using wasm::ValType;

// -- failures -----------------------------------------------------------------------------

Failure failure_of(const Error& error) { return failure_of(sandbox::report_error(error)); }
Failure failure_of(const Diagnostic& diagnostic) { return failure_of(sandbox::report_error(diagnostic)); }

Failure failure_of(const sandbox::ReportError& error) {
  const auto place_of = [](const sandbox::ReportPlace& p) {
    return Failure::Place{p.function, p.offset, p.line, p.column};
  };
  Failure failure{error.code, error.message,  embedder_hint(error.hint), place_of(error.place),
                  {},         error.traceback};
  for (const sandbox::ReportPlace& place : error.backtrace) failure.backtrace.push_back(place_of(place));
  return failure;
}

Failure invalid_argument(std::string message, std::string hint) {
  return failure_of(Error{ErrorCode::kInvalidArgument, std::move(message), std::move(hint)});
}

// -- types and values ------------------------------------------------------------------------

ValType wasm_type_of(ValueType type) {
  switch (type) {
    case ValueType::kI32: return ValType::kI32;
    case ValueType::kI64: return ValType::kI64;
    case ValueType::kF32: return ValType::kF32;
    case ValueType::kF64: return ValType::kF64;
  }
  return ValType::kI32;
}

wasm::FuncType wasm_type_of(const Signature& signature) {
  wasm::FuncType type;
  for (const ValueType t : signature.parameters) type.params.push_back(wasm_type_of(t));
  for (const ValueType t : signature.results) type.results.push_back(wasm_type_of(t));
  return type;
}

std::optional<ValueType> type_of(ValType type) {
  switch (type) {
    case ValType::kI32: return ValueType::kI32;
    case ValType::kI64: return ValueType::kI64;
    case ValType::kF32: return ValueType::kF32;
    case ValType::kF64: return ValueType::kF64;
    default: return std::nullopt;
  }
}

std::optional<Signature> signature_of(const wasm::FuncType& type) {
  Signature signature;
  const auto convert = [](const std::vector<ValType>& from, std::vector<ValueType>& to) {
    for (const ValType t : from) {
      const auto converted = type_of(t);
      if (!converted) return false;
      to.push_back(*converted);
    }
    return true;
  };
  if (!convert(type.params, signature.parameters) || !convert(type.results, signature.results))
    return std::nullopt;
  return signature;
}

uint64_t bits_of(const Value& value) {
  if (const auto* const i32 = std::get_if<int32_t>(&value)) return static_cast<uint32_t>(*i32);
  if (const auto* const i64 = std::get_if<int64_t>(&value)) return static_cast<uint64_t>(*i64);
  if (const auto* const f32 = std::get_if<float>(&value)) return std::bit_cast<uint32_t>(*f32);
  if (const auto* const f64 = std::get_if<double>(&value)) return std::bit_cast<uint64_t>(*f64);
  return 0;
}

Value value_of(ValueType type, uint64_t bits) {
  switch (type) {
    case ValueType::kI32: return static_cast<int32_t>(bits);
    case ValueType::kI64: return static_cast<int64_t>(bits);
    case ValueType::kF32: return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case ValueType::kF64: return std::bit_cast<double>(bits);
  }
  return 0;
}

engine::Value engine_value_of(const Value& value) {
  return {wasm_type_of(static_cast<ValueType>(value.index())), bits_of(value), 0};
}

}  // namespace membrane::face
