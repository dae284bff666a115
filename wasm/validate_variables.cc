// Operands in general, locals, globals and tables (specification, chapters 3.4.3 to 3.4.5).
#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"
#include "wasm/explain.h"
#include "wasm/limits.h"
#include "wasm/validate_code.h"

namespace membrane::wasm {

using enum DiagnosticCode;

namespace {

// Locals whose type is looked up directly; see local_type().
constexpr uint32_t kDirectLocals = 1024;

}  // namespace

// -- parametric

bool CodeValidator::on_drop(const Instruction& in) {
  ValType type{};
  return pop_any(type) || fail_operands(in, only(ValType::kBottom));
}

bool CodeValidator::on_select(const Instruction& in) {
  ValType second{}, first{};
  constexpr std::array kOperands = {ValType::kBottom, ValType::kBottom, ValType::kI32};
  if (!pop(ValType::kI32) || !pop_any(second) || !pop_any(first)) return fail_operands(in, kOperands);
  if (is_ref(first) || is_ref(second))
    return fail(in, {.code = kSelectNeedsType,
                     .message = "select without a type chooses between references",
                     .found = list_of({{first, second}}),
                     .expected = "two numbers or two vectors"});
  if (first != second && first != ValType::kBottom && second != ValType::kBottom) {
    const std::array expected = {first, first, ValType::kI32};
    return fail_operands(in, expected);
  }
  push(first == ValType::kBottom ? second : first);
  return true;
}

bool CodeValidator::on_select_typed(const Instruction& in) {
  if (in.count != 1)
    return fail(in, {.code = kSelectArity,
                     .message = "a typed select names one type",
                     .found = count_of(in.count, "type"),
                     .expected = "1 type"});
  const ValType type = in.ref_type;
  if (!known(in, type)) return false;
  const std::array operands = {type, type, ValType::kI32};
  if (!pop_all(operands)) return fail_operands(in, operands);
  push(type);
  return true;
}

// -- variables

// Large functions of few instructions would take long to lay out, so only the first locals have
// their types in locals_; those after are found among the runs.
bool CodeValidator::local_type(const Instruction& in, ValType& type) {
  if (in.index < locals_.size()) [[likely]] {
    type = locals_[in.index];
    return true;
  }
  if (in.index >= local_count_) return fail_unknown(in, kUnknownLocal, "local", in.index, local_count_);
  type = std::ranges::upper_bound(far_runs_, in.index, {}, &FarRun::end)->type;
  return true;
}

bool CodeValidator::prepare_locals(uint32_t index, FunctionInfo& info) {
  const Function& f = module_.functions[index];
  const auto& params = module_.types[f.type].params;
  const auto runs = std::span(module_.local_runs).subspan(f.first_local_run, f.local_run_count);
  locals_.clear();
  far_runs_.clear();
  uint64_t count = 0, slots = 0;
  const auto add = [&](ValType type, uint32_t times) {
    const size_t size = locals_.size();
    const size_t direct = std::min<size_t>(times, kDirectLocals - std::min<size_t>(size, kDirectLocals));
    locals_.resize(size + direct);
    std::fill_n(locals_.data() + size, direct, type);
    count += times;
    if (count > kDirectLocals && count <= kMaxLocals)
      far_runs_.push_back({static_cast<uint32_t>(count), type});
    slots += uint64_t{times} * slots_of(type);
    uses_simd_ |= type == ValType::kV128;
  };
  for (const ValType t : params) add(t, 1);
  for (const LocalRun& run : runs)
    if (run.count != 0) add(run.type, run.count);
  if (count > kMaxLocals)
    return fail({}, {.code = kImplementationLimit,
                     .message = "the function has too many locals",
                     .found = std::to_string(count),
                     .expected = "at most " + std::to_string(kMaxLocals)});
  for (const ValType t : module_.types[f.type].results) uses_simd_ |= t == ValType::kV128;
  param_count_ = static_cast<uint32_t>(params.size());
  set_locals_.clear();
  has_unset_locals_ = false;
  for (const LocalRun& run : runs) {
    if (!known({}, run.type)) return false;
    has_unset_locals_ |= run.count != 0 && !is_defaultable(run.type);
  }
  if (has_unset_locals_) is_set_.assign(count, false);
  direct_locals_ = has_unset_locals_ ? param_count_ : static_cast<uint32_t>(locals_.size());
  direct_locals_ = std::min(direct_locals_, static_cast<uint32_t>(locals_.size()));
  info.local_count = local_count_ = static_cast<uint32_t>(count);
  info.local_slots = static_cast<uint32_t>(slots);
  return true;
}

// Whether a local has a value at this point. One without an initial value has one from local.set to the
// block's end.
bool CodeValidator::has_value(const Instruction& in, ValType type) {
  if (!has_unset_locals_ || in.index < param_count_ || is_defaultable(type) || is_set_[in.index]) return true;
  const std::string name = label_of_local(module_, function_, in.index);
  return fail(in, {.code = kUninitializedLocal,
                   .message = "local " + name + " is read before it has a value: its type has no null",
                   .found = name_of(type),
                   .expected = name_of(nullable(type)),
                   .hint = "Set it first, in this block or around it, or declare it as " +
                           name_of(nullable(type)) + "."});
}

void CodeValidator::note_set(uint32_t local, ValType type) {
  if (!has_unset_locals_ || local < param_count_ || is_defaultable(type) || is_set_[local]) return;
  is_set_[local] = true;
  set_locals_.push_back(local);
}

// All but the first `count` of those that were set.
void CodeValidator::forget_set(uint32_t count) {
  for (; set_locals_.size() > count; set_locals_.pop_back()) is_set_[set_locals_.back()] = false;
}

bool CodeValidator::known(const Instruction& in, ValType type) {
  return is_known(type) || fail_unknown(in, kUnknownType, "type", type_index_of(type), module_.types.size());
}

bool CodeValidator::on_local_get(const Instruction& in) {
  ValType type{};
  if (!local_type(in, type) || !has_value(in, type)) return false;
  if (uses_ != nullptr) uses_->read(in.index);
  push(type);
  return true;
}

bool CodeValidator::on_local_set(const Instruction& in) {
  ValType type{};
  if (!local_type(in, type)) return false;
  if (uses_ != nullptr) uses_->assign(in.index);
  if (!pop(type)) return fail_operands(in, only(type));
  note_set(in.index, type);
  return true;
}

bool CodeValidator::on_local_tee(const Instruction& in) {
  ValType type{};
  if (!local_type(in, type)) return false;
  if (uses_ != nullptr) uses_->assign(in.index);
  if (!pop(type)) return fail_operands(in, only(type));
  note_set(in.index, type);
  push(type);
  return true;
}

const Global* CodeValidator::global(const Instruction& in) {
  if (in.index < module_.globals.size()) return &module_.globals[in.index];
  fail_unknown(in, kUnknownGlobal, "global", in.index, module_.globals.size());
  return nullptr;
}

bool CodeValidator::on_global_get(const Instruction& in) {
  const Global* const g = global(in);
  if (g == nullptr) return false;
  push(g->type.type);
  return true;
}

bool CodeValidator::on_global_set(const Instruction& in) {
  const Global* const g = global(in);
  if (g == nullptr) return false;
  if (!g->type.is_mutable)
    return fail(
        in, {.code = kImmutableGlobal,
             .message = "global " + label_of_global(module_, in.index) + " is immutable and cannot be set",
             .found = name_of(g->type.type),
             .expected = "(mut " + name_of(g->type.type) + ")"});
  return pop(g->type.type) || fail_operands(in, only(g->type.type));
}

// -- tables and references

const Table* CodeValidator::table(const Instruction& in, uint32_t index) {
  if (index < module_.tables.size()) return &module_.tables[index];
  fail_unknown(in, kUnknownTable, "table", index, module_.tables.size());
  return nullptr;
}

bool CodeValidator::on_table_get(const Instruction& in) {
  const Table* const t = table(in, in.index);
  if (t == nullptr) return false;
  const ValType address = address_type(t->type.limits);
  if (!pop(address)) return fail_operands(in, only(address));
  push(t->type.element);
  return true;
}

bool CodeValidator::on_table_set(const Instruction& in) {
  const Table* const t = table(in, in.index);
  if (t == nullptr) return false;
  const std::array operands = {address_type(t->type.limits), t->type.element};
  return pop_all(operands) || fail_operands(in, operands);
}

bool CodeValidator::on_table_grow(const Instruction& in) {
  const Table* const t = table(in, in.index);
  if (t == nullptr) return false;
  const ValType address = address_type(t->type.limits);
  const std::array operands = {t->type.element, address};
  if (!pop_all(operands)) return fail_operands(in, operands);
  push(address);
  return true;
}

bool CodeValidator::on_table_fill(const Instruction& in) {
  const Table* const t = table(in, in.index);
  if (t == nullptr) return false;
  const ValType address = address_type(t->type.limits);
  const std::array operands = {address, t->type.element, address};
  return pop_all(operands) || fail_operands(in, operands);
}

}  // namespace membrane::wasm
