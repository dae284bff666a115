// The body as a whole, the operand stack, and the instructions that take a few lines each.
#include "engine/code/translate.h"

#include "engine/code/fuel.h"
#include "engine/code/translator.h"

namespace membrane::engine {

using wasm::Instruction;
using wasm::Opcode;
using wasm::ValType;

namespace {

// Bounds that keep translation linear on hostile code: the most pending locals and unsettled entries.
constexpr uint32_t kMaxPendingLocals = 32;
constexpr size_t kMaxUnsettled = 64;

}  // namespace

void Translator::lay_out_locals() {
  const auto add = [this](ValType type) {
    locals_.push_back({static_cast<uint16_t>(locals_end_), static_cast<uint8_t>(wasm::slots_of(type))});
    locals_end_ += wasm::slots_of(type);
  };
  for (const ValType type : module_.types[function_.type].params) add(type);
  for (uint32_t i = 0; i < function_.local_run_count; ++i) {
    const wasm::LocalRun& run = module_.local_runs[function_.first_local_run + i];
    for (uint32_t n = 0; n < run.count; ++n) add(run.type);
  }
}

void Translator::run() {
  walk_.run(module_, function_, locals_end_, zeroing_cost(compiled_.function(index_).zero_slots));
}

void Translator::begin_segment(uint32_t offset) {
  header_ = here();
  Word w{};
  w.header = {0, offset};
  out_.push_back(w);
  forget_last();
  accumulated_.fill(kNone);
  by_offset_.each_at(offset, [this](Recorder& recorder) { recorder.headers.push_back(header_); });
  by_word_.each_at(header_, [this](Recorder& recorder) {
    recorder.found = true;
    recorder.code_offset = walk_.offset();
    recorder.header = header_;
    note_pending(recorder);
  });
}

void Translator::note_pending(Recorder& recorder) const {
  for (const Entry& entry : stack_) {
    if (entry.kind == Entry::Kind::kConstant) recorder.pending.push_back({entry.slot, true, entry.value});
    if (entry.kind != Entry::Kind::kLocal) continue;
    for (uint16_t i = 0; i < entry.width; ++i)
      recorder.pending.push_back({static_cast<uint16_t>(entry.slot + i), false, uint64_t{entry.source} + i});
  }
}

void Translator::may_trap(uint32_t at) {
  by_word_.each_at(at, [this](Recorder& recorder) {
    recorder.found = true;
    recorder.code_offset = walk_.offset();
    recorder.cost_to_here = walk_.cost();
    recorder.header = header_;
  });
}

// -- the operand stack ---------------------------------------------------------------

void Translator::emit_copy(uint32_t to, const Entry& from) {
  for (uint32_t i = 0; i < from.width; ++i) forget_accumulated(to + i);
  if (from.kind == Entry::Kind::kConstant) {
    if (from.value <= UINT32_MAX) {
      emit(Operation::kConst32);
      emit_immediate(to, 0, static_cast<int32_t>(static_cast<uint32_t>(from.value)));
    } else {
      emit(Operation::kConst64);
      emit_slots(to);
      emit_constant(from.value);
    }
    return;
  }
  const uint32_t source = from.kind == Entry::Kind::kLocal ? from.source : from.slot;
  if (from.width == 1) return emit_slot_copy(to, source);
  emit(Operation::kCopyVector);
  emit_slots(to, source);
}

void Translator::emit_slot_copy(uint32_t to, uint32_t from) {
  if (const uint32_t before = last_copy_; before != kNone) {
    word(before).handler = handler_of(Operation::kCopyTwo);
    word(before + 1).slots.c = static_cast<uint16_t>(to);
    word(before + 1).slots.d = static_cast<uint16_t>(from);
    last_copy_ = kNone;
    return;
  }
  const uint32_t at = emit(Operation::kCopy);
  emit_slots(to, from);
  last_copy_ = at;
}

uint32_t Translator::slot_of(const Entry& entry) {
  if (entry.kind == Entry::Kind::kLocal) return entry.source;
  if (entry.kind == Entry::Kind::kConstant) emit_copy(entry.slot, entry);
  return entry.slot;
}

void Translator::settle(Entry& entry) {
  if (entry.kind == Entry::Kind::kSlot) return;
  emit_copy(entry.slot, entry);
  if (entry.kind == Entry::Kind::kLocal) --pending_locals_;
  entry.kind = Entry::Kind::kSlot;
}

void Translator::settle_from(size_t first) {
  for (size_t i = std::max(first, settled_); i < stack_.size(); ++i) settle(stack_[i]);
  if (first <= settled_) settled_ = stack_.size();
}

void Translator::settle_local(uint32_t local_slot) {
  if (pending_locals_ == 0) return;
  if (stack_.size() - settled_ > kMaxUnsettled) return settle_from(0);
  for (size_t i = settled_; i < stack_.size(); ++i)
    if (stack_[i].kind == Entry::Kind::kLocal && stack_[i].source == local_slot) settle(stack_[i]);
}

void Translator::push_types(std::span<const ValType> types) {
  for (const ValType type : types) push_slot(wasm::slots_of(type));
}

void Translator::instruction(const Instruction& in) {
  const OperationChoice& choice = choice_of(in.op);
  using Kind = OperationChoice::Kind;
  switch (choice.kind) {
    case Kind::kBinary: return integer_binary(choice);
    case Kind::kCompare: return integer_compare(choice);
    case Kind::kFloatBinary:
    case Kind::kFloatCompare: return float_binary(choice);
    case Kind::kDivide: {
      const Entry b = pop(), a = pop();
      const uint32_t a_slot = slot_of(a), b_slot = slot_of(b);
      const uint32_t at = result(choice.operation, a.slot);
      emit_slots(a.slot, a_slot, b_slot);
      may_trap(at);
      return push_slot();
    }
    case Kind::kTruncate:
    case Kind::kUnary: return unary(choice, in.op);
    case Kind::kLoad: return has_register(in.index) ? load(choice, in) : load_of_any(choice, in);
    case Kind::kStore: return has_register(in.index) ? store(choice, in) : store_to_any(choice, in);
    case Kind::kVector: return vector(choice, in);
    case Kind::kLoadLane: return load_lane(choice, in);
    case Kind::kStoreLane: return store_lane(choice, in);
    case Kind::kSpecial: return translate_special(in);
  }
}

void Translator::local_set(uint32_t index, bool keep) {
  const Local local = locals_[index];
  const Entry value = pop();
  const uint32_t last = last_result_;
  const uint32_t pending = pending_locals_;
  settle_local(local.slot);
  const bool undisturbed = pending == pending_locals_;
  if (value.kind == Entry::Kind::kSlot && undisturbed && last != kNone &&
      word(last + 1).slots.a == value.slot) {
    word(last + 1).slots.a = local.slot;  // the operation writes to the local at once
    const bool accumulated = in_accumulator(result_kind_, value.slot);
    forget_accumulated(local.slot);
    if (accumulated) accumulated_[static_cast<size_t>(result_kind_)] = local.slot;
    last_result_ = last_compare_ = last_add_ = last_multiply_ = last_sum_ = last_rotation_ = kNone;
  } else if (!(value.kind == Entry::Kind::kLocal && value.source == local.slot)) {
    emit_copy(local.slot, value);
  }
  if (keep) push({Entry::Kind::kLocal, local.width, 0, local.slot, 0});
}

void Translator::select() {
  const Entry condition = pop(), b = pop(), a = pop();
  const uint32_t a_slot = slot_of(a), b_slot = slot_of(b), condition_slot = slot_of(condition);
  if (a.width == 1) result_in_slot(Operation::kSelect, a.slot);
  else result(Operation::kSelectVector, a.slot, ValueKind::kVector);
  emit_slots(a.slot, a_slot, b_slot, condition_slot);
  push_slot(a.width);
}

void Translator::translate_special(const Instruction& in) {
  const auto pair = [&] { return uint64_t{in.index} | uint64_t{in.index2} << 32; };
  switch (in.op) {
    case Opcode::kNop: return;
    case Opcode::kUnreachable: return may_trap(emit(Operation::kUnreachable));
    case Opcode::kThrow: return throw_tag(in);
    case Opcode::kThrowRef: return throw_ref();
    case Opcode::kBr: return branch_to(in.index);
    case Opcode::kBrIf: return branch_if(in.index);
    case Opcode::kBrTable: return branch_table(in);
    case Opcode::kReturn: return emit_return();
    case Opcode::kCall:
    case Opcode::kReturnCall: return call(in);
    case Opcode::kCallIndirect:
    case Opcode::kReturnCallIndirect: return call_indirect(in);
    case Opcode::kCallRef:
    case Opcode::kReturnCallRef: return call_ref(in);
    case Opcode::kBrOnNull: return branch_on_null(in.index);
    case Opcode::kBrOnNonNull: return branch_on_non_null(in.index);
    case Opcode::kRefAsNonNull: return check_non_null();
    case Opcode::kRefEq: return integer_compare(choice_of(Opcode::kI64Eq));
    case Opcode::kStructNew: return aggregate(in, module_.fields_of(in.index).size(), true);
    case Opcode::kStructNewDefault: return aggregate(in, 0, true);
    case Opcode::kArrayNewFixed: return aggregate(in, in.index2, true);
    case Opcode::kArrayNew:
    case Opcode::kArrayNewData:
    case Opcode::kArrayNewElem: return aggregate(in, 2, true);
    case Opcode::kArrayNewDefault: return aggregate(in, 1, true);
    case Opcode::kArrayFill:
    case Opcode::kArrayInitData:
    case Opcode::kArrayInitElem: return aggregate(in, 4, false);
    case Opcode::kArrayCopy: return aggregate(in, 5, false);
    case Opcode::kStructGet:
    case Opcode::kStructGetS:
    case Opcode::kStructGetU: return struct_get(in);
    case Opcode::kStructSet: return struct_set(in);
    case Opcode::kArrayGet:
    case Opcode::kArrayGetS:
    case Opcode::kArrayGetU: return array_get(in);
    case Opcode::kArraySet: return array_set(in);
    case Opcode::kArrayLen: return unary_reference(Operation::kArrayLen);
    case Opcode::kRefI31: return unary_reference(Operation::kRefI31);
    case Opcode::kI31GetS: return unary_reference(Operation::kI31GetS);
    case Opcode::kI31GetU: return unary_reference(Operation::kI31GetU);
    case Opcode::kAnyConvertExtern: return unary_reference(Operation::kAnyConvertExtern);
    case Opcode::kExternConvertAny: return unary_reference(Operation::kExternConvertAny);
    case Opcode::kRefTest:
    case Opcode::kRefTestNull: return reference_test(in);
    case Opcode::kRefCast:
    case Opcode::kRefCastNull: return reference_cast(in);
    case Opcode::kBrOnCast:
    case Opcode::kBrOnCastFail: return branch_on_cast(in);
    case Opcode::kDrop: pop(); return;
    case Opcode::kSelect:
    case Opcode::kSelectTyped: return select();
    case Opcode::kLocalGet: {
      const Local local = locals_[in.index];
      push({Entry::Kind::kLocal, local.width, 0, local.slot, 0});
      if (pending_locals_ > kMaxPendingLocals) settle_from(0);
      return;
    }
    case Opcode::kLocalSet: return local_set(in.index, false);
    case Opcode::kLocalTee: return local_set(in.index, true);
    case Opcode::kGlobalGet: {
      const uint32_t width = wasm::slots_of(module_.globals[in.index].type.type);
      if (width == 1) result_in_slot(Operation::kGlobalGet, top_slot());
      else result(Operation::kGlobalGetVector, top_slot(), ValueKind::kVector);
      emit_immediate(top_slot(), 0, in.index);
      return push_slot(width);
    }
    case Opcode::kGlobalSet: {
      const Entry value = pop();
      const uint32_t slot = slot_of(value);
      emit(value.width == 1 ? Operation::kGlobalSet : Operation::kGlobalSetVector);
      return emit_immediate(slot, 0, in.index);
    }
    case Opcode::kTableGet:
    case Opcode::kTableSet: return table_access(in);
    case Opcode::kTableSize:
      result_in_slot(Operation::kTableSize, top_slot());
      emit_slots(top_slot());
      emit_constant(in.index);
      return push_slot();
    case Opcode::kRefNull: return push({Entry::Kind::kConstant, 1, 0, 0, 0});
    case Opcode::kRefIsNull: {
      const Entry value = pop();
      const uint32_t slot = slot_of(value);
      result_in_slot(Operation::kRefIsNull, value.slot);
      emit_slots(value.slot, slot);
      return push_slot();
    }
    case Opcode::kRefFunc:
      result_in_slot(Operation::kRefFunc, top_slot());
      emit_immediate(top_slot(), 0, in.index);
      return push_slot();
    case Opcode::kMemorySize:
      result_in_slot(Operation::kMemorySize, top_slot());
      emit_slots(top_slot(), in.index);
      return push_slot();
    case Opcode::kI32Const: return push({Entry::Kind::kConstant, 1, 0, 0, static_cast<uint32_t>(in.value)});
    case Opcode::kI64Const:
    case Opcode::kF32Const:
    case Opcode::kF64Const: return push({Entry::Kind::kConstant, 1, 0, 0, in.value});
    case Opcode::kV128Const:
      result(Operation::kV128Const, top_slot(), ValueKind::kVector);
      emit_slots(top_slot());
      emit_bytes(in.raw);
      return push_slot(2);
    case Opcode::kI32ReinterpretF32:
    case Opcode::kI64ReinterpretF64:
    case Opcode::kF32ReinterpretI32:
    case Opcode::kF64ReinterpretI64: return;  // slots hold bits
    case Opcode::kMemoryGrow: return bulk(in, Operation::kMemoryGrow, 1, true, in.index);
    case Opcode::kMemoryFill: return bulk(in, Operation::kMemoryFill, 3, false, in.index);
    case Opcode::kMemoryCopy: return bulk(in, Operation::kMemoryCopy, 3, false, pair());
    case Opcode::kMemoryInit: return bulk(in, Operation::kMemoryInit, 3, false, pair());
    case Opcode::kTableGrow: return bulk(in, Operation::kTableGrow, 2, true, in.index);
    case Opcode::kTableFill: return bulk(in, Operation::kTableFill, 3, false, in.index);
    case Opcode::kTableCopy: return bulk(in, Operation::kTableCopy, 3, false, pair());
    case Opcode::kTableInit: return bulk(in, Operation::kTableInit, 3, false, pair());
    case Opcode::kDataDrop: emit(Operation::kDataDrop); return emit_immediate(0, 0, in.index);
    case Opcode::kElemDrop: emit(Operation::kElemDrop); return emit_immediate(0, 0, in.index);
    default: emit(Operation::kUnreachable);  // not reached: every other instruction has a row, and so a class
  }
}

void translate(CompiledModule& module, uint32_t index, std::vector<Word>& out, std::span<Recorder> recorders,
               CatchTable* catches) {
  CatchTable unwanted;
  Translator(module, index, out, recorders, catches == nullptr ? unwanted : *catches).run();
}

}  // namespace membrane::engine
