// Labels, branches, calls and exceptions.
#include "engine/code/translator.h"

namespace membrane::engine {

using wasm::Instruction;
using wasm::Opcode;
using wasm::ValType;

namespace {

constexpr uint32_t kFewValues = 4;  // that a branch moves one by one

}  // namespace

// Emits a branch that is taken when the condition is `when`; its target is to be linked through the
// returned word. Everything on the stack is settled first.
uint32_t Translator::emit_test(Entry condition, bool when) {
  const uint32_t compare = last_compare_;
  if (condition.kind == Entry::Kind::kSlot && compare != kNone && word(compare + 1).slots.a == condition.slot)
    return emit_fused_test(compare, when);
  const uint32_t slot = slot_of(condition);
  const bool accumulated =
      in_accumulator(ValueKind::kInteger, slot);  // what settles leaves the accumulators alone
  settle_from(0);
  if (when) emit(accumulated ? Operation::kBrIfA : Operation::kBrIf);
  else emit(accumulated ? Operation::kBrUnlessA : Operation::kBrUnless);
  return emit_branch(slot, 0);
}

// The branch replaces the comparison at `compare`, which is removed.
uint32_t Translator::emit_fused_test(uint32_t compare, bool when) {
  const SlotsWord operands = word(compare + 1).slots;
  const Operation first = compare_form_;
  const bool with_constant = here() - compare == 3;
  const Word constant = with_constant ? word(compare + 2) : Word{};
  const Handler handler = word(compare).handler;
  out_.resize(base_ + compare);
  settle_from(0);
  if (first == Operation::kI32EqzS || first == Operation::kI64EqzS) {
    const bool wide = first == Operation::kI64EqzS;
    emit(when ? (wide ? Operation::kBrUnless64 : Operation::kBrUnless)
              : (wide ? Operation::kBrIf64 : Operation::kBrIf));
    return emit_branch(operands.b, 0);
  }
  const bool accumulated =
      handler == handler_of(form(first, kAS)) || handler == handler_of(form(first, kCompareAK));
  const Operation compared = when ? first : opposite(first);
  const int which = with_constant ? (accumulated ? kCompareAK : kSK) : (accumulated ? kAS : kSS);
  emit(form(compared, kToBranch + which));
  const uint32_t at = emit_branch(operands.b, operands.c);
  if (with_constant) out_.push_back(constant);
  return at;
}

uint32_t Translator::emit_branch(uint32_t a, uint32_t b) {
  Word w{};
  w.branch = {static_cast<uint16_t>(a), static_cast<uint16_t>(b), 0};
  out_.push_back(w);
  return here() - 1;
}

// A branch's target counts from the word that holds it. Words that wait for a label's end are chained
// through their target fields.
void Translator::link(Label& label, uint32_t word_at) {
  if (label.kind == Label::Kind::kLoop) {
    word(word_at).branch.target = static_cast<int32_t>(label.header) - static_cast<int32_t>(word_at);
    return;
  }
  word(word_at).branch.target = static_cast<int32_t>(label.fixups);
  label.fixups = word_at;
}

// Makes the word at `word_at` branch to the next word.
void Translator::patch(uint32_t word_at) {
  word(word_at).branch.target = static_cast<int32_t>(here()) - static_cast<int32_t>(word_at);
}

void Translator::bind(Label& label) {
  for (uint32_t at = label.fixups; at != kNone;) {
    const auto next = static_cast<uint32_t>(word(at).branch.target);
    patch(at);
    at = next;
  }
  label.fixups = kNone;
}

void Translator::end_arm(Label& label) {
  settle_from(label.height);
  emit_jump(label);
}

void Translator::join(Label& label, bool falls_in) {
  if (falls_in) {
    settle_from(label.height);
    emit(Operation::kEnter);
  }
  bind(label);
  land_at_end(label);
  if (label.kind == Label::Kind::kIf) patch(label.else_fixup);
}

bool Translator::values_in_place(const Label& label) const {
  uint32_t slot = label.slot_height;
  if (label.branch_values > 0 && settled_ == stack_.size())  // then they are contiguous
    return stack_[stack_.size() - label.branch_values].slot == slot;
  for (size_t i = stack_.size() - label.branch_values; i < stack_.size(); ++i) {
    if (stack_[i].kind != Entry::Kind::kSlot || stack_[i].slot != slot) return false;
    slot += stack_[i].width;
  }
  return true;
}

// Upwards: a value's slot is never below its destination, so that nothing is overwritten before it is read.
void Translator::move_values(const Label& label) {
  uint32_t to = label.slot_height;
  if (label.branch_values > kFewValues) {  // settled, by the branch
    const uint32_t from = stack_[stack_.size() - label.branch_values].slot;
    emit(Operation::kCopyMany);
    return emit_slots(to, from, top_slot() - from);
  }
  for (size_t i = stack_.size() - label.branch_values; i < stack_.size(); ++i) {
    const Entry& value = stack_[i];
    if (value.kind != Entry::Kind::kSlot || value.slot != to) emit_copy(to, value);
    to += value.width;
  }
}

void Translator::emit_jump(Label& label) {
  const uint32_t at = emit(Operation::kBr);
  out_.push_back(Word{});
  link(label, at + 1);
}

void Translator::settle_branch_values(const Label& label) {
  if (label.branch_values > kFewValues)
    settle_from(0);  // all of them, so that the next branch sees that they are
}

void Translator::branch_to(uint32_t depth) {
  Label& target = walk_.target(depth);
  settle_branch_values(target);
  take_branch(target);
}

void Translator::take_branch(Label& target) {
  if (target.kind == Label::Kind::kFunction) return emit_return();
  move_values(target);
  emit_jump(target);
}

void Translator::branch_if(uint32_t depth) {
  Label& target = walk_.target(depth);
  const Entry condition = pop();
  settle_branch_values(target);
  const bool plain = target.kind != Label::Kind::kFunction && values_in_place(target);
  if (plain) {
    const uint32_t at = emit_test(condition, true);
    return link(target, at);
  }
  const uint32_t skip = emit_test(condition, false);
  begin_way();
  take_branch(target);
  patch(skip);
}

// Branches to `target` with the values on top, unless `skips` is true of the slot.
void Translator::branch_unless(Operation skips, uint32_t slot, Label& target) {
  emit(skips);
  const uint32_t skip = emit_branch(slot, 0);
  begin_way();
  take_branch(target);
  patch(skip);
}

void Translator::branch_on_null(uint32_t depth) {
  Label& target = walk_.target(depth);
  settle_from(0);
  const Entry reference = pop();  // it does not go along
  if (target.kind != Label::Kind::kFunction && values_in_place(target)) {
    emit(Operation::kBrUnless64);
    link(target, emit_branch(reference.slot, 0));
  } else {
    branch_unless(Operation::kBrIf64, reference.slot, target);
  }
  push_slot();
}

void Translator::branch_on_non_null(uint32_t depth) {
  Label& target = walk_.target(depth);
  settle_from(0);
  const uint32_t slot = stack_.back().slot;
  if (target.kind != Label::Kind::kFunction && values_in_place(target)) {
    emit(Operation::kBrIf64);
    link(target, emit_branch(slot, 0));
  } else {
    branch_unless(Operation::kBrUnless64, slot, target);
  }
  pop();
}

void Translator::branch_table(const Instruction& in) {
  const Entry index = pop();
  const uint32_t slot = slot_of(index);
  settle_from(0);
  emit(Operation::kBrTable);
  emit_immediate(slot, 0, in.count);
  const uint32_t table = here();
  out_.resize(out_.size() + in.count + 1);
  // One way for each label, however often the table has it.
  ++way_stamp_;
  if (ways_.size() < walk_.label_count()) ways_.resize(walk_.label_count());
  wasm::LabelReader labels(in);
  for (uint32_t i = 0; i <= in.count; ++i) {
    const uint32_t depth = labels.next(), at = table + i;
    Label& target = walk_.target(depth);
    Way& way = ways_[depth];
    if (way.stamp != way_stamp_) way = {way_stamp_, write_way(target)};
    if (way.at == kNone) link(target, at);
    else word(at).branch.target = static_cast<int32_t>(way.at - at);
  }
}

// The target of a table's branch to a label; kNone for the label itself, when the values are in
// place.
uint32_t Translator::write_way(Label& target) {
  if (target.kind != Label::Kind::kFunction && values_in_place(target)) return kNone;
  const uint32_t at = here();
  begin_way();
  take_branch(target);
  return at;
}

void Translator::emit_return() {
  const std::vector<ValType>& results = module_.types[function_.type].results;
  if (results.empty()) {
    emit(Operation::kReturn);
    return emit_slots(0);
  }
  if (results.size() == 1) {
    const uint32_t slot = slot_of(stack_.back());
    emit(stack_.back().width == 2                    ? Operation::kReturnVector
         : in_accumulator(ValueKind::kInteger, slot) ? Operation::kReturnOneA
                                                     : Operation::kReturnOne);
    return emit_slots(slot);
  }
  const size_t first = stack_.size() - results.size();
  uint32_t slots = 0;
  for (size_t i = first; i < stack_.size(); ++i) {
    const Entry& value = stack_[i];
    if (value.kind != Entry::Kind::kSlot) emit_copy(value.slot, value);
    slots += value.width;
  }
  emit(Operation::kReturnMany);
  emit_slots(stack_[first].slot, slots);
}

// -- calls

// Word 1 names where the arguments begin, and word 2 the function.
void Translator::call(const Instruction& in) {
  const wasm::FuncType& type = module_.type_of_function(in.index);
  const bool is_tail = in.op == Opcode::kReturnCall;
  const bool is_own = module_.functions[in.index].import == wasm::kNotImported;
  settle_from(stack_.size() - type.params.size());
  cut_stack(stack_.size() - type.params.size());
  const uint32_t at = is_own ? emit(is_tail ? Operation::kReturnCall : Operation::kCall)
                             : emit(is_tail ? Operation::kReturnCallImport : Operation::kCallImport);
  emit_slots(top_slot());
  Word target{};
  if (is_own) target.function = &compiled_.function(in.index);
  else target.constant = in.index;
  out_.push_back(target);
  may_trap(at);
  if (!is_tail) push_types(type.results);
}

void Translator::call_indirect(const Instruction& in) {
  const wasm::FuncType& type = module_.types[in.index];
  const bool is_tail = in.op == Opcode::kReturnCallIndirect;
  const Entry element = clamped(pop(), in.index2);
  settle_from(stack_.size() - type.params.size());
  const uint32_t element_slot = slot_of(element);
  cut_stack(stack_.size() - type.params.size());
  const uint32_t at = emit(is_tail ? Operation::kReturnCallIndirect : Operation::kCallIndirect);
  emit_slots(top_slot(), element_slot);
  emit_constant(uint64_t{in.index} | uint64_t{in.index2} << 32);
  may_trap(at);
  if (!is_tail) push_types(type.results);
}

void Translator::call_ref(const Instruction& in) {
  const wasm::FuncType& type = module_.types[in.index];
  const bool is_tail = in.op == Opcode::kReturnCallRef;
  const Entry function = pop();
  settle_from(stack_.size() - type.params.size());
  const uint32_t slot = slot_of(function);
  cut_stack(stack_.size() - type.params.size());
  const uint32_t at = emit(is_tail ? Operation::kReturnCallRef : Operation::kCallRef);
  emit_slots(top_slot(), slot);
  emit_constant(in.index);
  may_trap(at);
  if (!is_tail) push_types(type.results);
}

// -- exceptions: nothing is done when a try_table is entered or left

void Translator::add_clause(const wasm::CatchClause& clause, Label& target) {
  const auto number = static_cast<uint32_t>(catches_.clauses.size());
  catches_.clauses.push_back({clause, kNone, 0});
  if (target.kind == Label::Kind::kFunction) return;
  catches_.clauses.back().slot = target.slot_height;
  catches_.clauses.back().landing = target.kind == Label::Kind::kLoop ? target.header : target.catches;
  if (target.kind != Label::Kind::kLoop) target.catches = number;
}

// The next word is the header of the segment after the label's end.
void Translator::land_at_end(Label& label) {
  for (uint32_t at = label.catches; at != kNone;) {
    const uint32_t next = catches_.clauses[at].landing;
    catches_.clauses[at].landing = here();
    at = next;
  }
  label.catches = kNone;
}

void Translator::throw_tag(const Instruction& in) {
  const size_t first = stack_.size() - module_.type_of_tag(in.index).params.size();
  settle_from(first);
  const uint32_t payload = first == stack_.size() ? top_slot() : stack_[first].slot;
  const uint32_t at = emit(Operation::kThrow);
  emit_slots(payload, 0, 0, at - header_);
  emit_constant(in.index);
  may_trap(at);
}

void Translator::throw_ref() {
  const uint32_t slot = slot_of(pop());
  const uint32_t at = emit(Operation::kThrowRef);
  emit_slots(slot, 0, 0, at - header_);
  may_trap(at);
}

}  // namespace membrane::engine
