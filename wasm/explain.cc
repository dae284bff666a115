#include "wasm/explain.h"

#include <algorithm>
#include <array>

namespace membrane::wasm {
namespace {

using enum DiagnosticCode;

struct Conversion {
  ValType from, to;
  std::string_view instruction;
};
using enum ValType;
// One conversion each: the signed and saturating one, which never traps.
constexpr Conversion kConversions[] = {
    {kI32, kI64, "i64.extend_i32_s"},      {kI32, kF32, "f32.convert_i32_s"},
    {kI32, kF64, "f64.convert_i32_s"},     {kI64, kI32, "i32.wrap_i64"},
    {kI64, kF32, "f32.convert_i64_s"},     {kI64, kF64, "f64.convert_i64_s"},
    {kF32, kI32, "i32.trunc_sat_f32_s"},   {kF32, kI64, "i64.trunc_sat_f32_s"},
    {kF32, kF64, "f64.promote_f32"},       {kF64, kI32, "i32.trunc_sat_f64_s"},
    {kF64, kI64, "i64.trunc_sat_f64_s"},   {kF64, kF32, "f32.demote_f64"},
    {kI32, kV128, "i32x4.splat"},          {kI64, kV128, "i64x2.splat"},
    {kF32, kV128, "f32x4.splat"},          {kF64, kV128, "f64x2.splat"},
    {kV128, kI32, "i32x4.extract_lane 0"}, {kV128, kI64, "i64x2.extract_lane 0"},
    {kV128, kF32, "f32x4.extract_lane 0"}, {kV128, kF64, "f64x2.extract_lane 0"},
};

constexpr char letter_of(ValType type) {
  switch (type) {
    case kI32: return 'i';
    case kI64: return 'I';
    case kF32: return 'f';
    case kF64: return 'F';
    case kV128: return 'v';
    default: return '?';
  }
}

bool takes(Opcode op, std::span<const ValType> operands) {
  const std::string_view signature = info(op).signature;
  if (signature.find(':') != operands.size()) return false;
  for (size_t i = 0; i < operands.size(); ++i)
    if (signature[i] != letter_of(operands[i])) return false;
  return true;
}

}  // namespace

std::string list_of(std::span<const ValType> types, size_t limit) {
  std::string out = "[";
  if (types.size() > limit) {
    out += "… ";
    types = types.last(limit);
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (i != 0) out += ' ';
    out += name_of(types[i]);
  }
  return out + "]";
}

std::string label_of_function(const Module& module, uint32_t index) {
  if (const auto name = module.names.function(index); !name.empty()) return "$" + std::string(name);
  std::string label = std::to_string(index);
  for (const Export& e : module.exports)
    if (e.kind == ExternKind::kFunc && e.index == index) return label + " (export \"" + e.name + "\")";
  return label;
}

std::string place_of_function(const Module& module, uint32_t index) {
  const std::string label = label_of_function(module, index);
  return label.starts_with('$') ? label : "#" + label;
}

std::string label_of_local(const Module& module, uint32_t function, uint32_t index) {
  const auto name = module.names.local(function, index);
  return name.empty() ? std::to_string(index) : "$" + std::string(name);
}

std::string label_of_global(const Module& module, uint32_t index) {
  for (const NameEntry& e : module.names.globals)
    if (e.index == index) return "$" + e.name;
  return std::to_string(index);
}

std::string label_of_tag(const Module& module, uint32_t index) {
  for (const NameEntry& e : module.names.tags)
    if (e.index == index) return "$" + e.name;
  for (const Export& e : module.exports)
    if (e.kind == ExternKind::kTag && e.index == index) return "\"" + e.name + "\"";
  if (const uint32_t import = module.tags[index].import; import != kNotImported)
    return "\"" + module.imports[import].module + "\" \"" + module.imports[import].name + "\"";
  return std::to_string(index);
}

std::string_view conversion(ValType from, ValType to) {
  if (is_ref(from) && to == kI32) return "ref.is_null";
  if (is_ref(from) && non_null(from) == to) return "ref.as_non_null";
  for (const Conversion& c : kConversions)
    if (c.from == from && c.to == to) return c.instruction;
  return {};
}

std::string_view sibling(Opcode op, std::span<const ValType> operands) {
  const std::string_view text = info(op).text;
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || operands.empty()) return {};
  const std::string stem = std::string(name_of(operands.front())) + std::string(text.substr(dot));
  // Integers know signedness where floats do not: lt and lt_s, div and div_s.
  std::array<std::string, 3> names = {stem, stem + "_s", stem};
  if (stem.ends_with("_s") || stem.ends_with("_u")) names[2].resize(stem.size() - 2);
  for (const std::string& name : names)
    if (const auto found = find_mnemonic(name); found && takes(*found, operands)) return info(*found).text;
  return {};
}

Diagnostic explain(BodyError error) {
  Diagnostic d;
  switch (error) {
    case BodyError::kNone:
    case BodyError::kUnexpectedEnd:
      d.code = kUnexpectedEnd;
      d.message = "the code ends in the middle of an instruction";
      break;
    case BodyError::kIllegalOpcode:
      d.code = kIllegalOpcode;
      d.message = "these bytes are no instruction that is known here";
      break;
    case BodyError::kAtomic:
      d.code = kIllegalOpcode;
      d.message = "atomic instructions, of the threads proposal, are not supported";
      d.hint = kBuildWithoutThreads;
      break;
    case BodyError::kBadLeb:
      d.code = kMalformedInteger;
      d.message = "an integer of an instruction has too many bytes or too many bits";
      break;
    case BodyError::kBadBlockType:
      d.code = kMalformedType;
      d.message = "a block's type is neither empty, a value type nor a type index";
      break;
    case BodyError::kBadRefType:
      d.code = kMalformedType;
      d.message = "an instruction on references names no heap type";
      d.expected = "69 to 74, or the index of a type";
      break;
    case BodyError::kBadValType:
      d.code = kMalformedType;
      d.message = "a typed select names something that is no value type";
      break;
    case BodyError::kBadMemArg:
      d.code = kMalformedInteger;
      d.message = "an alignment of 2^64 or more cannot be";
      break;
    case BodyError::kTooManyLabels:
      d.code = kLengthOutOfBounds;
      d.message = "a br_table or try_table claims more labels than its function has bytes";
      break;
    case BodyError::kBadCatch:
      d.code = kMalformedKind;
      d.message = "a clause of a try_table is of no kind";
      d.expected = "0 catch, 1 catch_ref, 2 catch_all or 3 catch_all_ref";
      break;
    case BodyError::kBadCast:
      d.code = kMalformedKind;
      d.message = "the flags of a br_on_cast are unknown";
      d.expected = "0 to 3";
      break;
    case BodyError::kLegacyException:
      d.code = kLegacyExceptions;
      d.message = "this is an instruction of the exception handling that came before WebAssembly 3.0";
      d.expected = "try_table, throw and throw_ref";
      break;
  }
  return d;
}

}  // namespace membrane::wasm
