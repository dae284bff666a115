// Branches, merge points, blocks and exceptions.
#include "engine/native/compiler_parts.h"

namespace membrane::engine::native {

// -- joins -------------------------------------------------------------------------------------------------

// Makes `now` what the label expects.
void Compiler::Parts::conform(const Pins& to) {
  for (uint32_t left = now.nan; left != 0; left &= left - 1)
    make_pin_canonical(static_cast<uint32_t>(std::countr_zero(left)));
  for (uint32_t left = now.dirty & ~to.valid; left != 0; left &= left - 1)
    store_pin(static_cast<uint32_t>(std::countr_zero(left)));
  for (uint32_t left = to.valid & ~now.valid; left != 0; left &= left - 1)
    pinned(static_cast<uint8_t>(std::countr_zero(left)));
}

// A way to the label begins here: the first one says what the others must have.
void Compiler::Parts::note_way(Label& label) {
  if (label.kind == Label::Kind::kLoop) return;
  if (!label.has_pins) {
    label.has_pins = true;
    label.pins = now;
    return;
  }
  label.pins.dirty |= now.dirty & label.pins.valid;
}

void Compiler::Parts::link(Label& label, Patch at) {
  if (label.kind == Label::Kind::kLoop) return a.patch(at, label.target);
  a.put32(at - 4, label.fixups);
  label.fixups = at;
}

void Compiler::Parts::bind(Label& label) {
  for (Patch at = label.fixups; at != kNone;) {
    const Patch next = a.get32(at - 4);
    a.patch_here(at);
    at = next;
  }
  label.fixups = kNone;
}

bool Compiler::Parts::values_in_place(const Label& label) const {
  uint32_t to = label.slot_height;
  for (size_t i = stack.size() - label.branch_values; i < stack.size(); to += slots_of(stack[i++].bank))
    if (stack[i].kind != Value::Kind::kSlot || stack[i].slot != to) return false;
  return true;
}

// Before a branch that carries several values, and before its condition is tested: what moves them needs registers, and
// an entry that gave way to one meanwhile would be written to its own slot, where a value may have been moved to.
void Compiler::Parts::settle_for_branch(const Label& label) {
  if (label.branch_values <= 1) return;
  settle_flags();
  settle_from(0);
}

// Copies, so that the way that does not branch keeps its picture.
void Compiler::Parts::move_values(const Label& label) {
  uint32_t to = label.slot_height;
  if (label.branch_values > kFewValues) {
    const uint32_t from = stack[stack.size() - label.branch_values].slot;
    return copy_slots(to, from, top_slot() - from);
  }
  for (size_t i = stack.size() - label.branch_values; i < stack.size(); to += slots_of(stack[i++].bank)) {
    a.ensure(Assembler::kRoom);
    Value v = stack[i];
    const bool lent = v.kind == Value::Kind::kRegister;
    store(v, to);
    if (!lent) release(v);
  }
}

// The frame's slots [from, from + count) to [to, to + count), upwards; `to` is not above `from`. After
// settle_for_branch.
void Compiler::Parts::copy_slots(uint32_t to, uint32_t from, uint32_t count) {
  if (to == from) return;
  a.ensure(Assembler::kRoom);
  const Reg at = alloc(), value = alloc();
  a.mov_imm(at, uint64_t{0} - count);
  const uint32_t again = a.here();
  a.mov(Width::k64, value, Mem{kFrame, static_cast<int32_t>((from + count) * 8), at, 3});
  a.mov(Width::k64, Mem{kFrame, static_cast<int32_t>((to + count) * 8), at, 3}, value);
  a.op(Alu::kAdd, Width::k64, at, 1);
  a.patch(a.jcc(Cond::kNE), again);
  free_registers |= 1u << at | 1u << value;
}

void Compiler::Parts::jump_to(Label& label) {  // with the values moved
  conform_to(label);
  link(label, a.jmp());
}

void Compiler::Parts::conform_to(Label& label) {
  conform(label.kind == Label::Kind::kLoop || label.has_pins ? label.pins : now);
  note_way(label);
}

void Compiler::Parts::branch_to(uint32_t depth) {
  Label& target = walk.target(depth);
  if (target.kind == Label::Kind::kFunction) return write_return();
  settle_for_branch(target);
  move_values(target);
  jump_to(target);
}

// The condition on top of the stack as flags.
Cond Compiler::Parts::condition() {
  Value v = pop();
  if (v.kind == Value::Kind::kFlags) return static_cast<Cond>(v.number);
  return test_nonzero(v);
}

// So that the way that branches need not move entries that the other way still has.
void Compiler::Parts::ensure_spare() {
  if (free_registers == 0) evict(false, 0);
  if (free_reals == 0) {
    settle_flags();
    evict(true, 0);
  }
  if (free_registers == 0) evict(false, 0);
}

void Compiler::Parts::branch_if(uint32_t depth) {
  Label& target = walk.target(depth);
  settle_for_branch(target);
  ensure_spare();
  const Cond c = condition();
  const bool plain = target.kind != Label::Kind::kFunction && values_in_place(target) &&
                     conforms(now, target.kind == Label::Kind::kLoop || target.has_pins ? target.pins : now);
  if (plain) {
    note_way(target);
    return link(target, a.jcc(c));
  }
  const Patch skip = a.jcc(inverse(c));
  const Pins before = now;
  const uint32_t free_before = free_registers, reals_before = free_reals;
  if (target.kind == Label::Kind::kFunction) {
    write_return();
  } else {
    move_values(target);
    jump_to(target);
  }
  now = before;
  free_registers = free_before;
  free_reals = reals_before;
  a.patch_here(skip);
}

void Compiler::Parts::branch_table(const Instruction& in) {
  Value v = pop();
  // Values that some of the ways move are in their slots for all.
  settle_from(0);
  if (in.count == 0) {
    release(v);
    wasm::LabelReader labels_of(in);
    return branch_to(labels_of.next());
  }
  Reg r = register_of(v);
  const Reg last = alloc();
  a.mov_imm(last, in.count);
  a.op(Alu::kCmp, Width::k32, r, last);
  a.cmov(Cond::kB, Width::k32, last, r);
  const Reg base = alloc();
  const Patch table_at = a.lea_rip(base);
  a.movsxd(last, Mem{base, 0, last, 2});
  a.op(Alu::kAdd, Width::k64, base, last);
  a.jmp(base);
  free_registers |= 1u << last | 1u << base;
  release(v);
  a.patch_here(table_at);
  const uint32_t table = a.here();
  for (uint32_t i = 0; i <= in.count; ++i) {
    a.ensure(Assembler::kRoom);
    a.word(0);
  }
  // One way for each label, however often it stands in the table.
  ++way_stamp;
  if (ways.size() < walk.label_count()) ways.resize(walk.label_count());
  const Pins before = now;
  wasm::LabelReader labels_of(in);
  for (uint32_t i = 0; i <= in.count; ++i) {
    a.ensure(Assembler::kRoom);
    const uint32_t depth = labels_of.next();
    if (ways[depth].stamp != way_stamp) {
      ways[depth] = {way_stamp, a.here()};
      const uint32_t free_before = free_registers, reals_before = free_reals;
      branch_to(depth);
      now = before;
      free_registers = free_before;
      free_reals = reals_before;
    }
    a.put32(table + 4 * i, ways[depth].at - table);
  }
}

void Compiler::Parts::write_return() {
  const auto& results = type->results;
  if (results.size() == 1) {
    Value v = stack.back();  // a copy: the way behind a br_if still has it
    const bool lent = v.kind == Value::Kind::kRegister;
    if (v.real()) {
      const Xmm x = real_of(v);
      settle_nan(v);
      if (x != 0) a.fmov(0, x);
      store_slots(0, 0, v.bank);
    } else {
      if (v.kind == Value::Kind::kConstant) {
        a.mov_imm(rax, v.constant);
      } else if (const auto memory = memory_of(v)) {
        a.mov(Width::k64, rax, memory);
      } else {
        const Reg r = register_of(v);
        if (r != rax) a.mov(Width::k64, rax, r);
      }
      a.mov_to_slot(at_slot(0), rax);
    }
    if (!lent) release(v);
  } else if (results.size() > kFewValues) {
    settle_for_branch(walk.function_label());
    const uint32_t from = stack[stack.size() - results.size()].slot;
    copy_slots(0, from, top_slot() - from);
  } else if (results.size() > 1) {
    // First all to their own slots: a parameter's slot may be both source and destination.
    for (size_t i = stack.size() - results.size(); i < stack.size(); ++i) {
      a.ensure(Assembler::kRoom);
      Value v = stack[i];
      const bool lent = v.kind == Value::Kind::kRegister;
      store(v, v.slot);
      if (!lent) release(v);
    }
    const uint32_t from = stack[stack.size() - results.size()].slot;
    for (uint32_t i = 0; i < top_slot() - from; ++i) {
      a.ensure(Assembler::kRoom);
      a.mov_from_slot(rax, at_slot(from + i));
      a.mov_to_slot(at_slot(i), rax);
    }
  }
  a.ret();
}

// -- exceptions: as in the translator, nothing is done when a try_table is entered or left -------------------

void Compiler::Parts::add_clause(const wasm::CatchClause& clause, Label& target) {
  const bool returns = target.kind == Label::Kind::kFunction;
  const bool is_loop = target.kind == Label::Kind::kLoop;
  const auto number = static_cast<uint32_t>(catches.clauses.size());
  catches.clauses.push_back({clause, target.catches, returns ? 0 : target.slot_height});
  landings.push_back({returns, is_loop ? target.target : 0, is_loop ? target.pins.valid : 0});
  if (!returns && !is_loop) target.catches = number;
}

// At the end of a label: what is caught for it goes on here, too.
void Compiler::Parts::land_here(Label& label) {
  for (uint32_t at = label.catches; at != kNone; at = catches.clauses[at].landing)
    landings[at] = {false, a.here(), label.pins.valid};
  label.catches = kNone;
}

// Behind the function: from slots to what each label expects.
void Compiler::Parts::write_landings() {
  for (size_t i = 0; i < landings.size(); ++i) {
    a.ensure(Assembler::kRoom);
    const Landing& l = landings[i];
    if (i > 0 && l == landings[i - 1]) {
      catches.clauses[i].landing = catches.clauses[i - 1].landing;
      continue;
    }
    catches.clauses[i].landing = a.here() - entry;
    if (l.returns) {
      write_landed_return();
      continue;
    }
    now = {};
    for (uint32_t left = l.pins; left != 0; left &= left - 1)
      pinned(static_cast<uint8_t>(std::countr_zero(left)));
    a.jmp(l.target);
  }
}

void Compiler::Parts::write_landed_return() {  // the results are in their slots already
  if (type->results.size() == 1) {
    const Bank bank = bank_of(type->results[0]);
    if (bank == Bank::kInteger) a.mov(Width::k64, rax, slot(0));
    else load_slots(0, 0, bank);
  }
  a.ret();
}

void Compiler::Parts::throw_exception(const Instruction& in, size_t operands) {  // all is in slots
  const size_t first = stack.size() - operands;
  helper(in.op, slot_at(first), in.op == Opcode::kThrow ? in.index : 0, 0);
  a.int3();
}

// -- blocks --------------------------------------------------------------------------------------------------

// What the loop uses is in registers at its head, and stays there around it.
void Compiler::Parts::begin_loop(Label& l) {
  const LoopUse& use = loops[l.loop];
  Pins head;
  head.valid = use.used | (use.has_call ? 0 : now.valid);
  conform(head);
  head.dirty = now.dirty | use.assigned;
  now = head;
  l.pins = head;
  l.has_pins = true;
  l.target = a.here();
}

Patch Compiler::Parts::test() {
  const Cond c = settled_condition();
  return a.jcc(inverse(c));
}

void Compiler::Parts::begin_then(Label& l, Patch skip) {
  l.else_fixup = skip;
  l.else_pins = now;
}

// The same as condition(), with all other entries settled before the flags are needed. Stores do not touch
// flags, but making a NaN canonical does.
Cond Compiler::Parts::settled_condition() {
  if (has_flags() && std::any_of(stack.begin() + static_cast<ptrdiff_t>(settled), stack.end() - 1,
                                 [](const Value& v) { return v.real() && v.kind != Value::Kind::kSlot; }))
    settle_flags();
  if (has_flags()) {
    const Value flags = pop();
    settle_from(0);
    return static_cast<Cond>(flags.number);
  }
  Value v = pop();
  settle_from(0);
  return test_nonzero(v);
}

void Compiler::Parts::end_arm(Label& l) {
  settle_from(l.height);
  jump_to(l);
}

void Compiler::Parts::begin_else(Label& l) {
  a.patch_here(l.else_fixup);
  now = l.else_pins;
}

void Compiler::Parts::join(Label& l, bool falls_in) {
  const bool has_else_way = l.kind == Label::Kind::kIf;
  if (has_else_way && !l.has_pins) {  // the way around is the one without code of its own
    l.has_pins = true;
    l.pins = l.else_pins;
    l.pins.nan = 0;
  }
  if (falls_in) {
    settle_from(l.height);
    conform_to(l);
  }
  if (has_else_way) {
    now = l.else_pins;
    if (conforms(now, l.pins)) {
      note_way(l);
      a.patch_here(l.else_fixup);
    } else {
      Patch over = kNone;
      if (falls_in) over = a.jmp();
      a.patch_here(l.else_fixup);
      conform_to(l);
      if (over != kNone) a.patch_here(over);
    }
  }
  bind(l);
  land_here(l);
  now = l.pins;
}

}  // namespace membrane::engine::native
