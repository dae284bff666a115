// The instructions on references, structs and arrays (specification, chapters 3.4.2 to 3.4.6).
#include <array>

#include "wasm/explain.h"
#include "wasm/limits.h"
#include "wasm/validate_code.h"

namespace membrane::wasm {

using enum DiagnosticCode;

// -- references

bool CodeValidator::pop_ref(const Instruction& in, ValType& type) {
  if (!pop_any(type)) return fail_operands(in, only(ValType::kBottomRef));
  if (type == ValType::kBottom) type = ValType::kBottomRef;
  return is_ref(type) || fail(in, {.code = kNotAReference,
                                   .message = std::string(info(in.op).text) + " takes a reference",
                                   .found = list_of(only(type)),
                                   .expected = "[funcref], [externref] or another reference"});
}

bool CodeValidator::on_ref_null(const Instruction& in) {
  if (!known(in, in.ref_type)) return false;
  push(in.ref_type);
  return true;
}

bool CodeValidator::on_ref_as_non_null(const Instruction& in) {
  ValType type{};
  if (!pop_ref(in, type)) return false;
  push(non_null(type));
  return true;
}

bool CodeValidator::on_ref_is_null(const Instruction& in) {
  ValType type{};
  if (!pop_ref(in, type)) return false;
  push(ValType::kI32);
  return true;
}

bool CodeValidator::on_ref_func(const Instruction& in) {
  if (in.index >= module_.functions.size())
    return fail_unknown(in, kUnknownFunction, "function", in.index, module_.functions.size());
  // A constant expression is itself such a declaration.
  if (function_ != UINT32_MAX && !is_declared(in.index)) {
    const std::string name = label_of_function(module_, in.index);
    return fail(in, {.code = kUndeclaredReference,
                     .message = "ref.func " + name + ": the function is not declared as referenced",
                     .hint = "Add (elem declare func " + name + ") to the module, or export the function."});
  }
  push(ref_to(module_.functions[in.index].type));
  return true;
}

// C.refs of the specification (3.4.10): functions named outside of bodies and of `start`.
bool CodeValidator::is_declared(uint32_t function) {
  if (declared_.empty()) {
    declared_.resize(module_.functions.size());
    const auto declare = [this](uint32_t f) {
      if (f < declared_.size()) declared_[f] = true;
    };
    const auto declare_in = [&](ByteRange expression) {
      BodyReader reader(module_.view(expression));
      while (reader.next())
        if (reader.instruction().op == Opcode::kRefFunc) declare(reader.instruction().index);
    };
    for (const Export& e : module_.exports)
      if (e.kind == ExternKind::kFunc) declare(e.index);
    for (const Global& g : module_.globals) declare_in(g.init);
    for (const Table& t : module_.tables) declare_in(t.init);
    for (const ElementSegment& segment : module_.elements) {
      for (const uint32_t f : segment.functions) declare(f);
      for (const ByteRange& item : segment.items) declare_in(item);
    }
  }
  return declared_[function];
}

bool CodeValidator::on_br_on_null(const Instruction& in) {
  const Frame* const target = label(in, in.index);
  if (target == nullptr) return false;
  ValType type{};
  if (!pop_ref(in, type)) return false;
  before_ = top_;
  const Types types = target->label_types();
  if (!pop_all(types)) return fail_branch(in, *target, false);
  if (!push_all(types) || !reserve(1)) return false;
  push(non_null(type));
  return true;
}

// The branch carries the reference, so the label takes it last.
bool CodeValidator::on_br_on_non_null(const Instruction& in) {
  const Frame* const target = label(in, in.index);
  if (target == nullptr) return false;
  ValType type{};
  if (!pop_ref(in, type)) return false;
  const Types types = target->label_types();
  if (types.empty() || !fits(non_null(type), types.back()))
    return fail(in, {.code = kBranchTypeMismatch,
                     .message = "br_on_non_null to " + describe_block(*target) +
                                " takes a reference along, which must be what its label takes last",
                     .found = list_of(only(non_null(type))),
                     .expected = list_of(types)});
  before_ = top_;
  const Types rest = types.first(types.size() - 1);
  if (!pop_all(rest))
    return fail_stack(in, rest, kBranchTypeMismatch, "br_on_non_null takes below the reference");
  return push_all(rest);
}

bool CodeValidator::on_ref_eq(const Instruction& in) {
  return take(in, std::array{ValType::kEqRef, ValType::kEqRef}, ValType::kI32);
}

bool CodeValidator::on_ref_i31(const Instruction& in) {
  return take(in, only(ValType::kI32), non_null(ValType::kI31Ref));
}

bool CodeValidator::on_i31_get(const Instruction& in) {
  return take(in, only(ValType::kI31Ref), ValType::kI32);
}

bool CodeValidator::on_any_convert_extern(const Instruction& in) {
  ValType type{};
  if (!pop_ref(in, type)) return false;
  if (!fits(type, ValType::kExternRef)) return fail_operands(in, only(ValType::kExternRef));
  push(with_nullability_of(ValType::kAnyRef, type));
  return true;
}

bool CodeValidator::on_extern_convert_any(const Instruction& in) {
  ValType type{};
  if (!pop_ref(in, type)) return false;
  if (!fits(type, ValType::kAnyRef)) return fail_operands(in, only(ValType::kAnyRef));
  push(with_nullability_of(ValType::kExternRef, type));
  return true;
}

// -- casts: from any type of the hierarchy that the target is of

bool CodeValidator::cast_target(const Instruction& in, ValType& target) {
  target = in.op == Opcode::kRefTest || in.op == Opcode::kRefCast ? non_null(in.ref_type) : in.ref_type;
  if (!known(in, target)) return false;
  ValType type{};
  if (!pop_ref(in, type)) return false;
  const ValType top = top_of(module_, target);
  return fits(type, top) || fail_operands(in, only(top));
}

bool CodeValidator::on_ref_test(const Instruction& in) {
  ValType target{};
  if (!cast_target(in, target)) return false;
  push(ValType::kI32);
  return true;
}

bool CodeValidator::on_ref_cast(const Instruction& in) {
  ValType target{};
  if (!cast_target(in, target)) return false;
  push(target);
  return true;
}

// The type that remains where a cast to `target` failed.
static ValType type_difference(ValType type, ValType target) {
  return is_nullable(target) ? non_null(type) : type;
}

// One way has the target type, the other the remaining type: with br_on_cast the first one branches.
bool CodeValidator::on_br_on_cast(const Instruction& in) {
  const Frame* const target = label(in, in.index);
  if (target == nullptr || !known(in, in.ref_type) || !known(in, in.cast_type)) return false;
  if (!fits(in.cast_type, in.ref_type))
    return fail_types(in, kTypeMismatch,
                      std::string(info(in.op).text) + " casts to a type that is not below the first",
                      in.cast_type, in.ref_type);
  if (!pop(in.ref_type)) return fail_operands(in, only(in.ref_type));
  const ValType left = type_difference(in.ref_type, in.cast_type);
  const bool branches_on_success = in.op == Opcode::kBrOnCast;
  const ValType taken = branches_on_success ? in.cast_type : left;
  const Types types = target->label_types();
  if (types.empty() || !fits(taken, types.back()))
    return fail(in, {.code = kBranchTypeMismatch,
                     .message = std::string(info(in.op).text) + " to " + describe_block(*target) +
                                " takes a reference along, which must be what its label takes last",
                     .found = list_of(only(taken)),
                     .expected = list_of(types)});
  before_ = top_;
  const Types rest = types.first(types.size() - 1);
  if (!pop_all(rest))
    return fail_stack(in, rest, kBranchTypeMismatch,
                      std::string(info(in.op).text) + " takes below the reference");
  if (!push_all(rest) || !reserve(1)) return false;
  push(branches_on_success ? left : in.cast_type);
  return true;
}

bool CodeValidator::on_br_on_cast_fail(const Instruction& in) { return on_br_on_cast(in); }

// -- common to structs and arrays

bool CodeValidator::fail_types(const Instruction& in, DiagnosticCode code, std::string message, ValType found,
                               ValType expected) {
  return fail(
      in,
      {.code = code, .message = std::move(message), .found = name_of(found), .expected = name_of(expected)});
}

bool CodeValidator::take(const Instruction& in, Types operands, ValType result) {
  if (!pop_all(operands)) return fail_operands(in, operands);
  push(result);
  return true;
}

bool CodeValidator::needs_kind(const Instruction& in, uint32_t type, TypeKind kind) {
  if (type >= module_.types.size()) return fail_unknown(in, kUnknownType, "type", type, module_.types.size());
  return module_.kind_of_type(type) == kind ||
         fail(in, {.code = kTypeMismatch,
                   .message = std::string(info(in.op).text) + " needs another kind of type",
                   .found = "type " + std::to_string(type),
                   .expected = kind == TypeKind::kStruct ? "(struct …)" : "(array …)"});
}

// The field that the instruction names; null after having reported that there is none.
const FieldType* CodeValidator::struct_field(const Instruction& in) {
  if (!needs_kind(in, in.index, TypeKind::kStruct)) return nullptr;
  const auto fields = module_.fields_of(in.index);
  if (in.index2 < fields.size()) return &fields[in.index2];
  fail_unknown(in, kUnknownStructField, "field", in.index2, fields.size());
  return nullptr;
}

const FieldType* CodeValidator::array_field(const Instruction& in, uint32_t type) {
  return needs_kind(in, type, TypeKind::kArray) ? &module_.fields_of(type)[0] : nullptr;
}

bool CodeValidator::must_be_mutable(const Instruction& in, const FieldType& field) {
  return field.is_mutable ||
         fail_types(in, kImmutableField,
                    std::string(info(in.op).text) + " changes a field that is not mutable", field.type,
                    field.type);
}

bool CodeValidator::fits_packing(const Instruction& in, const FieldType& field) {
  const bool is_plain_get = in.op == Opcode::kStructGet || in.op == Opcode::kArrayGet;
  return is_packed(field.type) != is_plain_get ||
         fail(in, {.code = kPackedField,
                   .message = std::string(info(in.op).text) + " does not read fields of this type",
                   .found = name_of(field.type),
                   .expected = is_plain_get ? "a type that is not packed" : "i8 or i16"});
}

bool CodeValidator::is_defaultable_field(const Instruction& in, const FieldType& field) {
  return is_defaultable(field.type) ||
         fail_types(in, kNotDefaultable,
                    std::string(info(in.op).text) + " needs fields that begin as zero or null", field.type,
                    is_ref(field.type) ? nullable(field.type) : field.type);
}

// -- structs

bool CodeValidator::on_struct_new(const Instruction& in) {
  if (!needs_kind(in, in.index, TypeKind::kStruct)) return false;
  const auto fields = module_.fields_of(in.index);
  for (size_t i = fields.size(); i-- > 0;) {
    if (pop(unpacked(fields[i].type))) continue;
    std::vector<ValType> all;
    for (const FieldType& f : fields) all.push_back(unpacked(f.type));
    return fail_operands(in, all);
  }
  if (!reserve(1)) return false;
  push(ref_to(in.index));
  return true;
}

bool CodeValidator::on_struct_new_default(const Instruction& in) {
  if (!needs_kind(in, in.index, TypeKind::kStruct)) return false;
  for (const FieldType& field : module_.fields_of(in.index))
    if (!is_defaultable_field(in, field)) return false;
  push(ref_to(in.index));
  return true;
}

bool CodeValidator::on_struct_get(const Instruction& in) {
  const FieldType* const field = struct_field(in);
  return field != nullptr && fits_packing(in, *field) &&
         take(in, only(ref_null_to(in.index)), unpacked(field->type));
}

bool CodeValidator::on_struct_set(const Instruction& in) {
  const FieldType* const field = struct_field(in);
  if (field == nullptr || !must_be_mutable(in, *field)) return false;
  const std::array operands = {ref_null_to(in.index), unpacked(field->type)};
  return pop_all(operands) || fail_operands(in, operands);
}

// -- arrays

bool CodeValidator::on_array_new(const Instruction& in) {
  const FieldType* const field = array_field(in, in.index);
  return field != nullptr && take(in, std::array{unpacked(field->type), ValType::kI32}, ref_to(in.index));
}

bool CodeValidator::on_array_new_default(const Instruction& in) {
  const FieldType* const field = array_field(in, in.index);
  return field != nullptr && is_defaultable_field(in, *field) &&
         take(in, only(ValType::kI32), ref_to(in.index));
}

bool CodeValidator::on_array_new_fixed(const Instruction& in) {
  const FieldType* const field = array_field(in, in.index);
  if (field == nullptr) return false;
  if (in.index2 > kMaxArrayNewFixed)
    return fail(in, {.code = kImplementationLimit,
                     .message = "array.new_fixed takes too many values",
                     .found = std::to_string(in.index2),
                     .expected = "at most " + std::to_string(kMaxArrayNewFixed)});
  const std::vector<ValType> operands(in.index2, unpacked(field->type));
  if (!pop_all(operands)) return fail_operands(in, operands);
  if (!reserve(1)) return false;
  push(ref_to(in.index));
  return true;
}

bool CodeValidator::has_segment(const Instruction& in, bool of_elements) {
  if (!of_elements && !has_data_count(in)) return false;
  const size_t count = of_elements ? module_.elements.size() : module_.datas.size();
  return in.index2 < count ||
         fail_unknown(in, of_elements ? kUnknownElement : kUnknownData,
                      of_elements ? "element segment" : "data segment", in.index2, count);
}

// Bytes become numbers and vectors only; elements become references of a type that they fit.
bool CodeValidator::element_fits(const Instruction& in, const FieldType& field) {
  const bool of_elements = info(in.op).immediate == Immediate::kTypeElem;
  if (!has_segment(in, of_elements)) return false;
  if (!of_elements)
    return !is_ref(field.type) ||
           fail_types(in, kTypeMismatch, std::string(info(in.op).text) + " makes no references out of bytes",
                      field.type, ValType::kI32);
  const ValType type = module_.elements[in.index2].type;
  return fits(type, field.type) ||
         fail_types(in, kTypeMismatch,
                    std::string(info(in.op).text) + ": the segment's elements do not fit the array", type,
                    field.type);
}

bool CodeValidator::on_array_new_data(const Instruction& in) {
  const FieldType* const field = array_field(in, in.index);
  return field != nullptr && element_fits(in, *field) &&
         take(in, std::array{ValType::kI32, ValType::kI32}, ref_to(in.index));
}

bool CodeValidator::on_array_new_elem(const Instruction& in) { return on_array_new_data(in); }

bool CodeValidator::on_array_get(const Instruction& in) {
  const FieldType* const field = array_field(in, in.index);
  return field != nullptr && fits_packing(in, *field) &&
         take(in, std::array{ref_null_to(in.index), ValType::kI32}, unpacked(field->type));
}

bool CodeValidator::on_array_set(const Instruction& in) {
  const FieldType* const field = array_field(in, in.index);
  if (field == nullptr || !must_be_mutable(in, *field)) return false;
  const std::array operands = {ref_null_to(in.index), ValType::kI32, unpacked(field->type)};
  return pop_all(operands) || fail_operands(in, operands);
}

bool CodeValidator::on_array_len(const Instruction& in) {
  return take(in, only(ValType::kArrayRef), ValType::kI32);
}

bool CodeValidator::on_array_fill(const Instruction& in) {
  const FieldType* const field = array_field(in, in.index);
  if (field == nullptr || !must_be_mutable(in, *field)) return false;
  const std::array operands = {ref_null_to(in.index), ValType::kI32, unpacked(field->type), ValType::kI32};
  return pop_all(operands) || fail_operands(in, operands);
}

bool CodeValidator::on_array_copy(const Instruction& in) {
  const FieldType* const to = array_field(in, in.index);
  const FieldType* const from = to == nullptr ? nullptr : array_field(in, in.index2);
  if (from == nullptr || !must_be_mutable(in, *to)) return false;
  if (is_packed(to->type) || is_packed(from->type) ? to->type != from->type : !fits(from->type, to->type))
    return fail_types(in, kTypeMismatch, "array.copy copies between different types", from->type, to->type);
  const std::array operands = {ref_null_to(in.index), ValType::kI32, ref_null_to(in.index2), ValType::kI32,
                               ValType::kI32};
  return pop_all(operands) || fail_operands(in, operands);
}

bool CodeValidator::on_array_init_data(const Instruction& in) {
  const FieldType* const field = array_field(in, in.index);
  if (field == nullptr || !must_be_mutable(in, *field) || !element_fits(in, *field)) return false;
  const std::array operands = {ref_null_to(in.index), ValType::kI32, ValType::kI32, ValType::kI32};
  return pop_all(operands) || fail_operands(in, operands);
}

bool CodeValidator::on_array_init_elem(const Instruction& in) { return on_array_init_data(in); }

}  // namespace membrane::wasm
