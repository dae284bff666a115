// Branches, merge points, blocks and exceptions.
#include "engine/native/function_compiler.h"

namespace membrane::engine::native {

// -- joins -------------------------------------------------------------------------------------------------

// Makes of the pinned locals what the label expects.
void FunctionCompiler::match_pins(const Pins& to) {
  const Pins& now = locals_.now();
  for (PinSet left = now.nans(); left != 0; left &= left - 1)
    make_pin_canonical(static_cast<uint32_t>(std::countr_zero(left)));
  for (PinSet left = now.dirty() & ~to.valid(); left != 0; left &= left - 1)
    store_pin(static_cast<uint32_t>(std::countr_zero(left)));
  for (PinSet left = to.valid() & ~now.valid(); left != 0; left &= left - 1)
    load_pin(static_cast<uint8_t>(std::countr_zero(left)));
}

// A way to the label begins here: the first one says what the others must have.
void FunctionCompiler::note_way(Label& label) {
  if (label.kind == Label::Kind::kLoop) return;
  if (!label.has_pins) {
    label.has_pins = true;
    label.pins = locals_.now();
    return;
  }
  label.pins.join(locals_.now());
}

void FunctionCompiler::link(Label& label, Patch at) {
  if (label.kind == Label::Kind::kLoop) return a_.patch(at, label.target);
  a_.put32(at - 4, label.fixups);
  label.fixups = at;
}

void FunctionCompiler::bind(Label& label) {
  for (Patch at = label.fixups; at != kNone;) {
    const Patch next = a_.get32(at - 4);
    a_.patch_here(at);
    at = next;
  }
  label.fixups = kNone;
}

bool FunctionCompiler::values_in_place(const Label& label) const {
  uint32_t to = label.slot_height;
  for (size_t i = stack_.size() - label.branch_values; i < stack_.size(); to += slots_of(stack_[i++].bank))
    if (stack_[i].kind != Operand::Kind::kSlot || stack_[i].slot != to) return false;
  return true;
}

// Before a branch that carries several values, and before its condition is tested: what moves them needs registers, and
// an entry that gave way to one meanwhile would be written to its own slot, where a value may have been moved to.
void FunctionCompiler::settle_for_branch(const Label& label) {
  if (label.branch_values <= 1) return;
  settle_flags();
  settle_from(0);
}

// Copies, so that the way that does not branch keeps its picture.
void FunctionCompiler::move_values(const Label& label) {
  uint32_t to = label.slot_height;
  if (label.branch_values > kFewValues) {
    const uint32_t from = stack_[stack_.size() - label.branch_values].slot;
    return copy_slots(to, from, stack_.next_slot() - from);
  }
  for (size_t i = stack_.size() - label.branch_values; i < stack_.size(); to += slots_of(stack_[i++].bank))
    store_copy(stack_[i], to);
}

// The frame's slots [from, from + count) to [to, to + count), upwards; `to` is not above `from`. After
// settle_for_branch.
void FunctionCompiler::copy_slots(uint32_t to, uint32_t from, uint32_t count) {
  if (to == from) return;
  a_.ensure(Assembler::kRoom);
  const Reg at = alloc(), value = alloc();
  a_.mov_imm(at, uint64_t{0} - count);
  const uint32_t again = a_.here();
  a_.mov(Width::k64, value, Mem{kFrame, static_cast<int32_t>((from + count) * 8), at, 3});
  a_.mov(Width::k64, Mem{kFrame, static_cast<int32_t>((to + count) * 8), at, 3}, value);
  a_.op(Alu::kAdd, Width::k64, at, 1);
  a_.patch(a_.jcc(Cond::kNE), again);
  registers_.release(at);
  registers_.release(value);
}

void FunctionCompiler::jump_to(Label& label) {  // with the values moved
  match_label(label);
  link(label, a_.jmp());
}

void FunctionCompiler::match_label(Label& label) {
  match_pins(expected_at(label));
  note_way(label);
}

void FunctionCompiler::branch_to(uint32_t depth) {
  Label& target = walk_.target(depth);
  if (target.kind == Label::Kind::kFunction) return write_return();
  settle_for_branch(target);
  move_values(target);
  jump_to(target);
}

// The condition on top of the stack as flags.
Cond FunctionCompiler::condition() {
  Operand v = stack_.pop();
  if (v.kind == Operand::Kind::kFlags) return static_cast<Cond>(v.number);
  return test_nonzero(v);
}

// So that the way that branches need not move entries that the other way still has.
void FunctionCompiler::ensure_spare() {
  if (!registers_.has_integer()) evict(false, 0);
  if (!registers_.has_real()) {
    settle_flags();
    evict(true, 0);
  }
  if (!registers_.has_integer()) evict(false, 0);
}

void FunctionCompiler::branch_if(uint32_t depth) {
  Label& target = walk_.target(depth);
  settle_for_branch(target);
  ensure_spare();
  const Cond c = condition();
  const bool plain = target.kind != Label::Kind::kFunction && values_in_place(target) &&
                     locals_.now().satisfies(expected_at(target));
  if (plain) {
    note_way(target);
    return link(target, a_.jcc(c));
  }
  const Patch skip = a_.jcc(inverse(c));
  const Pins before = locals_.now();
  const Registers::Sets free_before = registers_.free();
  if (target.kind == Label::Kind::kFunction) {
    write_return();
  } else {
    move_values(target);
    jump_to(target);
  }
  locals_.begin_at(before);
  registers_.restore(free_before);
  a_.patch_here(skip);
}

void FunctionCompiler::branch_table(const Instruction& in) {
  Operand v = stack_.pop();
  // Values that some of the ways move are in their slots for all.
  settle_from(0);
  if (in.count == 0) {
    release(v);
    wasm::LabelReader labels_of(in);
    return branch_to(labels_of.next());
  }
  Reg r = register_of(v);
  const Reg last = alloc();
  a_.mov_imm(last, in.count);
  a_.op(Alu::kCmp, Width::k32, r, last);
  a_.cmov(Cond::kB, Width::k32, last, r);
  const Reg base = alloc();
  const Patch table_at = a_.lea_rip(base);
  a_.movsxd(last, Mem{base, 0, last, 2});
  a_.op(Alu::kAdd, Width::k64, base, last);
  a_.jmp(base);
  registers_.release(last);
  registers_.release(base);
  release(v);
  a_.patch_here(table_at);
  const uint32_t table = a_.here();
  for (uint32_t i = 0; i <= in.count; ++i) {
    a_.ensure(Assembler::kRoom);
    a_.word(0);
  }
  // One way for each label, however often the table has it.
  ++way_stamp_;
  if (ways_.size() < walk_.label_count()) ways_.resize(walk_.label_count());
  const Pins before = locals_.now();
  wasm::LabelReader labels_of(in);
  for (uint32_t i = 0; i <= in.count; ++i) {
    a_.ensure(Assembler::kRoom);
    const uint32_t depth = labels_of.next();
    if (ways_[depth].stamp != way_stamp_) {
      ways_[depth] = {way_stamp_, a_.here()};
      const Registers::Sets free_before = registers_.free();
      branch_to(depth);
      locals_.begin_at(before);
      registers_.restore(free_before);
    }
    a_.put32(table + 4 * i, ways_[depth].at - table);
  }
}

void FunctionCompiler::write_return() {
  const auto& results = type_->results;
  if (results.size() == 1) {
    Operand v = stack_.back();  // a copy: the way after a br_if still has it
    const bool keeps_register = v.kind == Operand::Kind::kRegister;
    if (v.real()) {
      const Xmm x = real_of(v);
      settle_nan(v);
      if (x != 0) a_.fmov(0, x);
      store_slots(0, 0, v.bank);
    } else {
      if (v.kind == Operand::Kind::kConstant) {
        a_.mov_imm(rax, v.constant);
      } else if (const auto memory = memory_of(v)) {
        a_.mov(Width::k64, rax, memory);
      } else {
        const Reg r = register_of(v);
        if (r != rax) a_.mov(Width::k64, rax, r);
      }
      a_.mov_to_slot(at_slot(0), rax);
    }
    if (!keeps_register) release(v);
  } else if (results.size() > kFewValues) {
    settle_for_branch(walk_.function_label());
    const uint32_t from = stack_[stack_.size() - results.size()].slot;
    copy_slots(0, from, stack_.next_slot() - from);
  } else if (results.size() > 1) {
    // First all to their own slots: a parameter's slot may be both source and destination.
    for (size_t i = stack_.size() - results.size(); i < stack_.size(); ++i)
      store_copy(stack_[i], stack_[i].slot);
    const uint32_t from = stack_[stack_.size() - results.size()].slot;
    for (uint32_t i = 0; i < stack_.next_slot() - from; ++i) {
      a_.ensure(Assembler::kRoom);
      a_.mov_from_slot(rax, at_slot(from + i));
      a_.mov_to_slot(at_slot(i), rax);
    }
  }
  a_.ret();
}

// -- exceptions: as in the translator, nothing is done when a try_table is entered or left -------------------

void FunctionCompiler::add_clause(const wasm::CatchClause& clause, Label& target) {
  if (target.kind == Label::Kind::kFunction) return landings_.add_returning(clause);
  if (target.kind == Label::Kind::kLoop)
    return landings_.add_known(clause, target.slot_height, target.target, target.pins.valid());
  landings_.add_waiting(clause, target.slot_height, target.catches);
}

// After the function: from slots to what each label expects.
void FunctionCompiler::write_landings() {
  landings_.write([this](const CatchLandings::Landing& landing) {
    if (!a_.has_room(Assembler::kRoom)) make_room();
    if (failed()) return 0u;
    const uint32_t begin = a_.here() - entry_;
    if (landing.returns) {
      write_landed_return();
      return begin;
    }
    locals_.begin_in_slots();
    for (PinSet left = landing.pins; left != 0; left &= left - 1)
      load_pin(static_cast<uint8_t>(std::countr_zero(left)));
    a_.jmp(landing.target);
    return begin;
  });
}

void FunctionCompiler::write_landed_return() {  // the results are in their slots already
  if (type_->results.size() == 1) {
    const Bank bank = bank_of(type_->results[0]);
    if (bank == Bank::kInteger) a_.mov(Width::k64, rax, slot(0));
    else load_slots(0, 0, bank);
  }
  a_.ret();
}

void FunctionCompiler::throw_exception(const Instruction& in, size_t operands) {  // all is in slots
  const size_t first = stack_.size() - operands;
  helper(in.op, slot_at(first), in.op == Opcode::kThrow ? in.index : 0, 0);
  a_.int3();
}

// -- blocks --------------------------------------------------------------------------------------------------

// What the loop uses is in registers at its head, and stays there around it.
void FunctionCompiler::begin_loop(Label& l) {
  const LoopUse& loop = locals_.loop(l.loop);
  Pins head = locals_.now().at_head(loop);
  match_pins(head);
  head.enter(locals_.now(), loop);
  locals_.begin_at(head);
  l.pins = head;
  l.has_pins = true;
  l.target = a_.here();
}

Patch FunctionCompiler::test() {
  const Cond c = settled_condition();
  return a_.jcc(inverse(c));
}

void FunctionCompiler::begin_then(Label& l, Patch skip) {
  l.else_fixup = skip;
  l.else_pins = locals_.now();
}

// The same as condition(), with all other entries settled before the flags are needed. Stores do not touch
// flags, but making a NaN canonical does.
Cond FunctionCompiler::settled_condition() {
  if (stack_.has_flags() &&
      std::any_of(stack_.begin() + static_cast<ptrdiff_t>(stack_.settled()), stack_.end() - 1,
                  [](const Operand& v) { return v.real() && v.kind != Operand::Kind::kSlot; }))
    settle_flags();
  if (stack_.has_flags()) {
    const Operand flags = stack_.pop();
    settle_from(0);
    return static_cast<Cond>(flags.number);
  }
  Operand v = stack_.pop();
  settle_from(0);
  return test_nonzero(v);
}

void FunctionCompiler::end_arm(Label& l) {
  settle_from(l.height);
  jump_to(l);
}

void FunctionCompiler::begin_else(Label& l) {
  a_.patch_here(l.else_fixup);
  locals_.begin_at(l.else_pins);
}

void FunctionCompiler::join(Label& l, bool falls_in) {
  const bool has_else_way = l.kind == Label::Kind::kIf;
  if (has_else_way && !l.has_pins) {  // the way around is the one without code of its own
    l.has_pins = true;
    l.pins = l.else_pins;
    l.pins.expect_canonical();
  }
  if (falls_in) {
    settle_from(l.height);
    match_label(l);
  }
  if (has_else_way) {
    locals_.begin_at(l.else_pins);
    if (l.else_pins.satisfies(l.pins)) {
      note_way(l);
      a_.patch_here(l.else_fixup);
    } else {
      Patch over = kNone;
      if (falls_in) over = a_.jmp();
      a_.patch_here(l.else_fixup);
      match_label(l);
      if (over != kNone) a_.patch_here(over);
    }
  }
  bind(l);
  landings_.land(l.catches, a_.here(), l.pins.valid());  // what is caught for it continues here, too
  locals_.begin_at(l.pins);
}

}  // namespace membrane::engine::native
