// Control: blocks, branches, calls, exceptions.
#include <algorithm>

#include "engine/testing/body_generator_testing.h"
#include "wasm/body.h"

namespace membrane::engine::generator {

void BodyGenerator::open(Opcode op, const Types& params, const Types& results) {
  put(op);
  if (params.empty() && results.empty()) out_.push_back(0x40);
  else if (params.empty() && results.size() == 1) wasm::append_val_type(out_, results[0]);
  else write_leb128(out_, static_cast<int64_t>(types_.index_of(params, results)));
  labels_.push_back({op == Opcode::kLoop ? params : results, stack_.size() - params.size()});
}

void BodyGenerator::close(const Types& results) {
  finish(results);
  put(Opcode::kEnd);
  labels_.pop_back();
}

void BodyGenerator::block() {
  if (is_deep()) return leaf(choices_.type());
  const Types params = choices_.types(2), results = choices_.types(choices_.one_in(8) ? 6 : 2);
  demand(params);
  open(Opcode::kBlock, params, results);
  instructions(1 + choices_.below(10));
  close(results);
}

void BodyGenerator::if_else() {
  if (is_deep()) return leaf(choices_.type());
  const bool has_else = choices_.one_in(2);
  const Types params = choices_.types(2), results = has_else ? choices_.types(2) : params;
  Types wanted = params;
  wanted.push_back(kI32);
  demand(wanted);
  stack_.pop_back();
  open(Opcode::kIf, params, results);
  instructions(1 + choices_.below(6));
  finish(results);
  if (has_else) {
    put(Opcode::kElse);
    stack_.resize(labels_.back().floor);
    push(params);
    instructions(1 + choices_.below(6));
    finish(results);
  }
  put(Opcode::kEnd);
  labels_.pop_back();
}

void BodyGenerator::loop() {
  if (is_deep() || loops_ == kCounters) return leaf(choices_.type());
  const auto counter = static_cast<uint32_t>(locals_.size() - 1 - loops_++);
  if (choices_.one_in(2)) {
    constant_i32(0);
    put(Opcode::kLocalSet, counter);
    stack_.pop_back();
  }
  const Types params = choices_.types(2), results = choices_.types(2);
  demand(params);
  open(Opcode::kLoop, params, results);
  instructions(1 + choices_.below(10));
  demand(params);
  put(Opcode::kLocalGet, counter);
  push(kI32);
  constant_i32(1);
  put(Opcode::kI32Add);
  drop_types(2);
  if (choices_.one_in(2)) {
    put(Opcode::kLocalTee, counter);
  } else {
    put(Opcode::kLocalSet, counter);
    put(Opcode::kLocalGet, counter);
  }
  push(kI32);
  constant_i32(2 + choices_.below(9));
  static constexpr Opcode kTests[] = {Opcode::kI32LtS, Opcode::kI32LtU, Opcode::kI32LeU, Opcode::kI32Ne};
  put(kTests[choices_.below(std::size(kTests))]);
  drop_types(2);
  put(Opcode::kBrIf, 0);
  close(results);
  --loops_;
}

void BodyGenerator::branch_if() {
  const uint32_t depth = some_label();
  Types wanted = label(depth).branch;
  wanted.push_back(kI32);
  demand(wanted);
  put(Opcode::kBrIf, depth);
  stack_.pop_back();
}

void BodyGenerator::compare_and_branch() {
  const uint32_t depth = some_label();
  const Types wanted = label(depth).branch;
  demand(wanted);
  static constexpr Opcode kTests[] = {Opcode::kI32Eqz, Opcode::kI64Eqz, Opcode::kI32GtS, Opcode::kI64LeU,
                                      Opcode::kI64GeS, Opcode::kI32Ne,  Opcode::kF64Le,  Opcode::kF32Gt};
  const Plain& test = plain(kTests[choices_.below(std::size(kTests))]);
  for (const ValType t : test.operands) leaf(t);
  put(test.op);
  drop_types(test.operands.size());
  put(Opcode::kBrIf, depth);
}

void BodyGenerator::leave() {
  const uint32_t depth = some_label();
  const Types wanted = label(depth).branch;
  switch (choices_.below(9)) {
    case 0:
    case 1:
    case 2:
      demand(wanted);
      put(Opcode::kBr, depth);
      break;
    case 8: tail_call(); break;
    case 3:
    case 4:
    case 5: branch_table(depth); break;
    case 6:
      demand(labels_.front().branch);
      put(Opcode::kReturn);
      break;
    default: put(Opcode::kUnreachable);
  }
  stack_.resize(labels_.back().floor);
}

void BodyGenerator::branch_table(uint32_t depth) {
  Types wanted = label(depth).branch;
  std::vector<uint32_t> alike;
  for (uint32_t d = 0; d < labels_.size(); ++d)
    if (label(d).branch == wanted) alike.push_back(d);
  wanted.push_back(kI32);
  demand(wanted);
  const uint32_t count = choices_.below(5);
  put(Opcode::kBrTable, count);
  for (uint32_t i = 0; i <= count; ++i)
    write_leb128(out_, alike[choices_.below(static_cast<uint32_t>(alike.size()))]);
}

void BodyGenerator::call() {
  // Mostly to a later function: recursion is bounded by the depth of calls alone.
  const uint32_t later = kFunctionCount - self_ - 1;
  const bool recursive = later == 0 || choices_.one_in(8);
  if (recursive && !choices_.one_in(8)) return leaf(choices_.type());
  const uint32_t callee = recursive ? choices_.below(kFunctionCount) : self_ + 1 + choices_.below(later);
  demand(functions_[callee].params);
  put(Opcode::kCall, callee);
  drop_types(functions_[callee].params.size());
  push(functions_[callee].results);
}

void BodyGenerator::tail_call() {
  uint32_t callee = self_ + choices_.below(kFunctionCount - self_);
  if (functions_[callee].results != functions_[self_].results) callee = self_;
  demand(functions_[callee].params);
  if (choices_.one_in(2)) return put(Opcode::kReturnCall, callee);
  constant_i32(choices_.one_in(10) ? choices_.below(kTableSize + 4) : callee);
  put(Opcode::kReturnCallIndirect, types_.index_of(functions_[callee].params, functions_[callee].results));
  out_.push_back(0);
}

void BodyGenerator::call_indirect() {
  const uint32_t callee = choices_.below(kFunctionCount);
  Types wanted = functions_[callee].params;
  demand(wanted);
  constant_i32(choices_.one_in(10) ? choices_.below(kTableSize + 4) : callee);
  put(Opcode::kCallIndirect, types_.index_of(functions_[callee].params, functions_[callee].results));
  out_.push_back(0);
  drop_types(wanted.size() + 1);
  push(functions_[callee].results);
}

void BodyGenerator::exception_instruction() {
  switch (choices_.below(8)) {
    case 0: return throw_tag();
    case 1: return choices_.one_in(3) ? throw_ref() : leaf(kExnRef);
    case 2:
      demand({kExnRef});
      put(Opcode::kRefIsNull);
      stack_.back() = kI32;
      return;
    default: return try_table();
  }
}

void BodyGenerator::throw_tag() {
  const uint32_t tag = choices_.below(static_cast<uint32_t>(tags_.size()));
  const bool always = choices_.one_in(2);
  if (!always) open_condition();
  demand(tags_[tag]);
  put(Opcode::kThrow, tag);
  close_condition(always);
}

void BodyGenerator::throw_ref() {
  const bool always = choices_.one_in(2);
  if (!always) open_condition();
  demand({kExnRef});
  put(Opcode::kThrowRef);
  close_condition(always);
}

void BodyGenerator::open_condition() {
  leaf(kI32);
  stack_.pop_back();
  open(Opcode::kIf, {}, {});
}

void BodyGenerator::close_condition(bool always) {
  stack_.resize(labels_.back().floor);
  if (always) return;
  put(Opcode::kEnd);
  labels_.pop_back();
}

Types BodyGenerator::caught_by(const Clause& clause) const {
  Types types;
  if ((clause.kind & wasm::CatchClause::kAll) == 0) types = tags_[clause.tag];
  if ((clause.kind & wasm::CatchClause::kRef) != 0) types.push_back(kExnRef);
  return types;
}

BodyGenerator::Clause BodyGenerator::some_clause(uint32_t label) {
  return {static_cast<uint8_t>(choices_.below(4)), choices_.below(static_cast<uint32_t>(tags_.size())),
          label};
}

void BodyGenerator::try_table() {
  if (is_deep()) return leaf(choices_.type());
  std::vector<Clause> clauses{some_clause(0)};
  const Types caught = caught_by(clauses[0]);
  open(Opcode::kBlock, {}, caught);
  for (uint32_t i = choices_.below(3); i > 0; --i) {
    const Clause clause = some_clause(choices_.below(static_cast<uint32_t>(labels_.size())));
    if (label(clause.label).branch == caught_by(clause)) clauses.push_back(clause);
  }
  if (choices_.one_in(3)) std::ranges::rotate(clauses, clauses.begin() + 1);
  const Types params = choices_.types(2), results = choices_.types(2);
  demand(params);
  open(Opcode::kTryTable, params, results);
  write_leb128(out_, static_cast<uint32_t>(clauses.size()));
  for (const Clause& clause : clauses) {
    out_.push_back(clause.kind);
    if ((clause.kind & wasm::CatchClause::kAll) == 0) write_leb128(out_, clause.tag);
    write_leb128(out_, clause.label);
  }
  instructions(1 + choices_.below(10));
  close(results);
  instructions(choices_.below(3));
  close(caught);
}

}  // namespace membrane::engine::generator
