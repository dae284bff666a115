// Blocks, branches, calls and exceptions (specification, chapter 3.4.1).
#include <string>
#include <vector>

#include "wasm/explain.h"
#include "wasm/limits.h"
#include "wasm/validate_code.h"

namespace membrane::wasm {

using enum DiagnosticCode;

bool CodeValidator::block_signature(const Instruction& in, BlockSignature& signature) {
  if (in.block.kind == BlockType::Kind::kIndex && function_type(in, in.block.index) == nullptr) return false;
  if (in.block.kind == BlockType::Kind::kValue && !known(in, in.block.value)) return false;
  signature = signature_of(module_, in.block);
  return true;
}

bool CodeValidator::nests_too_deep(const Instruction& in) {
  return frames_.size() >= kMaxNesting && !fail(in, {.code = kImplementationLimit,
                                                     .message = "blocks are nested too deeply",
                                                     .expected = "at most " + std::to_string(kMaxNesting)});
}

bool CodeValidator::push_frame(const Instruction& in) {
  BlockSignature block;
  if (!block_signature(in, block)) return false;
  if (nests_too_deep(in)) return false;
  if (!pop_all(block.params)) return fail_operands(in, block.params);
  const auto height = static_cast<uint32_t>(top_ - base_);
  const auto set_locals = static_cast<uint32_t>(set_locals_.size());
  frames_.emplace_back(block.params, block.results, height, in.offset, set_locals, in.op, false);
  max_nesting_ = std::max(max_nesting_, static_cast<uint32_t>(frames_.size()));
  floor_ = top_;
  if (uses_ != nullptr) in.op == Opcode::kLoop ? uses_->open_loop() : uses_->open_block();
  return push_all(block.params);
}

bool CodeValidator::on_unreachable(const Instruction&) {
  mark_unreachable();
  return true;
}

bool CodeValidator::on_block(const Instruction& in) { return push_frame(in); }
bool CodeValidator::on_loop(const Instruction& in) { return push_frame(in); }

// The clauses are outside of their block: its operands are still on the stack when the clauses are checked.
bool CodeValidator::on_try_table(const Instruction& in) { return clauses(in) && push_frame(in); }

bool CodeValidator::clauses(const Instruction& in) {
  if (in.count > kMaxBranchTableLabels)
    return fail(in, {.code = kImplementationLimit,
                     .message = "try_table has too many clauses",
                     .found = std::to_string(in.count),
                     .expected = "at most " + std::to_string(kMaxBranchTableLabels)});
  CatchReader reader(in);
  for (uint32_t i = 0; i < in.count; ++i)
    if (!clause_fits(in, reader.next())) return false;
  return true;
}

// The label must take what is caught: the values of the tag, then the exception itself.
bool CodeValidator::clause_fits(const Instruction& in, const CatchClause& clause) {
  Types params;
  if (!clause.catches_all()) {
    const FuncType* const type = tag_type(in, clause.tag);
    if (type == nullptr) return false;
    params = type->params;
  }
  const Frame* const target = label(in, clause.label);
  if (target == nullptr) return false;
  const Types wanted = target->label_types();
  const size_t refs = clause.has_ref() ? 1 : 0;
  if (wanted.size() == params.size() + refs && fit(params, wanted.first(params.size())) &&
      (refs == 0 || fits(non_null(ValType::kExnRef), wanted.back())))
    return true;
  static constexpr std::string_view kNames[] = {"catch", "catch_ref", "catch_all", "catch_all_ref"};
  std::vector<ValType> caught(params.begin(), params.end());
  if (clause.has_ref()) caught.push_back(ValType::kExnRef);
  return fail(in,
              {.code = kBranchTypeMismatch,
               .message = std::string(kNames[clause.kind]) + " branches to " + describe_block(*target) +
                          " with other values than it takes",
               .found = list_of(caught),
               .expected = list_of(wanted),
               .hint = "Give the block that is branched to the result type " + list_of(caught) +
                       ": what the tag carries" + (clause.has_ref() ? ", and an exnref after it." : ".")});
}

bool CodeValidator::on_throw(const Instruction& in) {
  const FuncType* const type = tag_type(in, in.index);
  if (type == nullptr) return false;
  if (!pop_all(type->params)) return fail_operands(in, type->params);
  mark_unreachable();
  return true;
}

bool CodeValidator::on_throw_ref(const Instruction& in) {
  if (!pop(ValType::kExnRef)) return fail_operands(in, only(ValType::kExnRef));
  mark_unreachable();
  return true;
}

const FuncType* CodeValidator::tag_type(const Instruction& in, uint32_t index) {
  if (index < module_.tags.size()) return &module_.type_of_tag(index);
  fail_unknown(in, kUnknownTag, "tag", index, module_.tags.size());
  return nullptr;
}

bool CodeValidator::on_if(const Instruction& in) {
  if (!pop(ValType::kI32)) return fail_operands(in, only(ValType::kI32));
  before_ = top_;  // the block's parameters are shown without the condition
  return push_frame(in);
}

bool CodeValidator::else_fits(const Instruction& in) {
  return frame().op == Opcode::kIf ||
         fail(in, {.code = kElseWithoutIf,
                   .message = "an else is in " + describe_block(frame()) + ", not in an if"});
}

bool CodeValidator::on_else(const Instruction& in) {
  if (!else_fits(in)) return false;
  Frame& f = frame();
  if (!pop_all(f.results) || top_ != floor_) return fail_results(in, f);
  f.op = Opcode::kElse;
  f.is_unreachable = false;
  if (has_unset_locals_) forget_set(f.set_locals);
  return push_all(f.params);
}

bool CodeValidator::on_end(const Instruction& in) {
  const Frame& f = frame();
  if (!pop_all(f.results) || top_ != floor_) return fail_results(in, f);
  if (f.op == Opcode::kIf && !fit(f.params, f.results))
    return fail(in, {.code = kIfWithoutElse,
                     .message = "this if has results and no else",
                     .found = list_of(f.params),
                     .expected = list_of(f.results)});
  const Types results = f.results;
  if (has_unset_locals_) forget_set(f.set_locals);
  frames_.pop_back();
  if (uses_ != nullptr) uses_->close();
  if (frames_.empty()) return true;
  floor_ = base_ + frame().height;
  return push_all(results);
}

const CodeValidator::Frame* CodeValidator::label(const Instruction& in, uint32_t depth) {
  if (depth < frames_.size()) return &frames_[frames_.size() - 1 - depth];
  fail_unknown(in, kUnknownLabel, "label", depth, frames_.size());
  return nullptr;
}

bool CodeValidator::on_br(const Instruction& in) {
  const Frame* const target = label(in, in.index);
  if (target == nullptr) return false;
  if (!holds(target->label_types())) return fail_branch(in, *target, false);
  mark_unreachable();
  return true;
}

bool CodeValidator::on_br_if(const Instruction& in) {
  const Frame* const target = label(in, in.index);
  if (target == nullptr) return false;
  const Types types = target->label_types();
  if (!pop(ValType::kI32)) return fail_branch(in, *target, true);
  if (is_topped_by(types)) return true;
  if (!pop_all(types)) return fail_branch(in, *target, true);
  return push_all(types);
}

bool CodeValidator::on_br_table(const Instruction& in) {
  if (in.count > kMaxBranchTableLabels)
    return fail(in, {.code = kImplementationLimit,
                     .message = "br_table has too many labels",
                     .found = std::to_string(in.count),
                     .expected = "at most " + std::to_string(kMaxBranchTableLabels)});
  if (!pop(ValType::kI32)) return fail_operands(in, only(ValType::kI32));
  LabelReader labels(in);
  const Frame* first = nullptr;
  seen_labels_.assign(frames_.size(), false);  // large tables repeat themselves
  for (uint32_t i = 0; i <= in.count; ++i) {
    const uint32_t depth = labels.next();
    const Frame* const target = label(in, depth);
    if (target == nullptr) return false;
    if (seen_labels_[depth]) continue;
    seen_labels_[depth] = true;
    if (first == nullptr) first = target;
    const Types types = target->label_types();
    if (types.size() != first->label_types().size())
      return fail(in, {.code = kBranchTableArity,
                       .message = "the labels of br_table take different numbers of values",
                       .found = list_of(types),
                       .expected = list_of(first->label_types())});
    if (!holds(types)) return fail_branch(in, *target, true);
  }
  mark_unreachable();
  return true;
}

bool CodeValidator::on_return(const Instruction& in) {
  const Frame& body = frames_[0];
  if (!holds(body.results)) return fail_branch(in, body, false);
  mark_unreachable();
  return true;
}

// The type of the function that a call names; null after having reported that there is none.
const FuncType* CodeValidator::callee_type(const Instruction& in) {
  if (in.index < module_.functions.size()) return &module_.type_of_function(in.index);
  fail_unknown(in, kUnknownFunction, "function", in.index, module_.functions.size());
  return nullptr;
}

// The function type with that index; null after having reported that there is none.
const FuncType* CodeValidator::function_type(const Instruction& in, uint32_t index) {
  if (index >= module_.types.size()) {
    fail_unknown(in, kUnknownType, "type", index, module_.types.size());
    return nullptr;
  }
  if (module_.kind_of_type(index) == TypeKind::kFunc) return &module_.types[index];
  fail(in, {.code = kTypeMismatch,
            .message = std::string(info(in.op).text) + " needs a function type",
            .found = "type " + std::to_string(index),
            .expected = "(func …)"});
  return nullptr;
}

const FuncType* CodeValidator::indirect_type(const Instruction& in) {
  const Table* const t = table(in, in.index2);
  if (t == nullptr) return nullptr;
  if (!fits(t->type.element, ValType::kFuncRef)) {
    fail(in, {.code = kTableTypeMismatch,
              .message = std::string(info(in.op).text) + " needs a table of functions",
              .found = name_of(t->type.element),
              .expected = "funcref"});
    return nullptr;
  }
  return function_type(in, in.index);
}

bool CodeValidator::pop_arguments(const FuncType& type, ValType last, const Instruction& in) {
  has_calls_ = true;
  if ((last == ValType::kBottom || pop(last)) && pop_all(type.params)) return true;
  return last == ValType::kBottom ? fail_operands(in, type.params) : fail_operands(in, type.params, last);
}

bool CodeValidator::call_type(const FuncType* type, ValType last, const Instruction& in) {
  if (uses_ != nullptr) uses_->call();
  return type != nullptr && pop_arguments(*type, last, in) && push_all(type->results);
}

// A tail call returns what the function returns.
bool CodeValidator::tail_call_type(const FuncType* type, ValType last, const Instruction& in) {
  if (type == nullptr || !pop_arguments(*type, last, in)) return false;
  const Types results = frames_[0].results;
  if (!fit(type->results, results))
    return fail(in,
                {.code = kResultTypeMismatch,
                 .message = std::string(info(in.op).text) +
                            " calls a function with other results than those of the function that it leaves",
                 .found = list_of(type->results),
                 .expected = list_of(results),
                 .hint = "Call it without return_, and make its results those of this function."});
  mark_unreachable();
  return true;
}

bool CodeValidator::on_call(const Instruction& in) {
  return call_type(callee_type(in), ValType::kBottom, in);
}
bool CodeValidator::on_call_indirect(const Instruction& in) {
  const FuncType* const type = indirect_type(in);
  return type != nullptr && call_type(type, address_of_table(in.index2), in);
}
bool CodeValidator::on_return_call(const Instruction& in) {
  return tail_call_type(callee_type(in), ValType::kBottom, in);
}
bool CodeValidator::on_return_call_indirect(const Instruction& in) {
  const FuncType* const type = indirect_type(in);
  return type != nullptr && tail_call_type(type, address_of_table(in.index2), in);
}

// The type of call_ref's reference.
const FuncType* CodeValidator::referenced_type(const Instruction& in) { return function_type(in, in.index); }

bool CodeValidator::on_call_ref(const Instruction& in) {
  const FuncType* const type = referenced_type(in);
  return type != nullptr && call_type(type, ref_null_to(in.index), in);
}
bool CodeValidator::on_return_call_ref(const Instruction& in) {
  const FuncType* const type = referenced_type(in);
  return type != nullptr && tail_call_type(type, ref_null_to(in.index), in);
}

}  // namespace membrane::wasm
