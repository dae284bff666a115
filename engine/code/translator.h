// Translates one function body (translate.h): a visitor of the body walk. Values that are on the operand stack are not
// written to their slots until an operation needs them there; and an operation that takes the result of the one
// before it is emitted in a form that reads the accumulator, or is fused with it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/code/code.h"
#include "engine/code/code_query.h"
#include "engine/code/compiled_module.h"
#include "engine/code/operation_choice.h"
#include "engine/code/translate.h"
#include "wasm/body_walk.h"

namespace membrane::engine {

class Translator {
  using Instruction = wasm::Instruction;
  using Opcode = wasm::Opcode;
  using ValType = wasm::ValType;
  static constexpr uint32_t kNone = UINT32_MAX;

 public:
  // The translator's part of an open block.
  struct Label : wasm::BlockLabel {
    uint32_t header = kNone;      // kLoop: where branches go
    uint32_t fixups = kNone;      // chain of words whose target is this label's end
    uint32_t else_fixup = kNone;  // kIf: the branch to the else part
    uint32_t catches = kNone;     // chain of the clauses that wait for this label's end
  };

  Translator(CompiledModule& compiled, uint32_t index, std::vector<Word>& out, std::span<Recorder> recorders,
             CatchTable& catches)
      : compiled_(compiled),
        module_(compiled.module()),
        index_(index),
        function_(module_.functions[index]),
        out_(out),
        catches_(catches),
        base_(static_cast<uint32_t>(out.size())) {
    by_word_.look_for(recorders, &Recorder::wanted);
    by_offset_.look_for(recorders, &Recorder::wanted_code_offset);
    lay_out_locals();
  }

  void run();

  // -- what the walk asks for (body_walk.h)
  void before(const Instruction&) {}
  bool after(const Instruction&) { return true; }
  void prepare(const Instruction&) {}
  void instruction(const Instruction& in);
  void begin_cost() {}
  void end_segment(uint32_t cost) { word(header_).header.cost = cost; }
  void begin_segment(uint32_t offset);  // the code before it does not fall in, or enters by an emitted branch
  void prepare_own(const Instruction&) {}
  void enter_segment() { emit(Operation::kEnter); }
  [[nodiscard]] size_t height() const { return stack_.size(); }
  [[nodiscard]] uint32_t slot_at(size_t entry) const {
    return entry == stack_.size() ? top_slot() : stack_[entry].slot;
  }
  void settle() { settle_from(0); }
  void cut(size_t height) { cut_stack(height); }
  void push_types(std::span<const ValType> types);
  void begin_loop(Label& label) {
    enter_segment();
    label.header = here();
  }
  uint32_t test() { return emit_test(pop(), false); }
  void begin_then(Label& label, uint32_t skip) { label.else_fixup = skip; }
  void end_arm(Label& label);
  void begin_else(Label& label) { patch(label.else_fixup); }
  void join(Label& label, bool falls_in);
  void finish() { emit_return(); }  // branches out of the function are returns of their own
  void add_clause(const wasm::CatchClause& clause, Label& target);
  void add_region(uint32_t outer, uint32_t first, uint32_t count) {
    catches_.regions.push_back({outer, first, count});
  }
  void begin_region(uint32_t region) {
    forget_last();
    catches_.boundaries.push_back({here(), region});
  }

 private:
  // A value on the operand stack.
  struct Entry {
    enum class Kind : uint8_t { kSlot, kLocal, kConstant };
    Kind kind = Kind::kSlot;
    uint8_t width = 1;    // slots
    uint16_t slot = 0;    // its own place in the frame, whatever its kind
    uint16_t source = 0;  // kLocal: the local's slot
    uint64_t value = 0;   // kConstant
  };

  // -- emitting
  static Handler handler_of(Operation operation) { return kHandlers[static_cast<size_t>(operation)]; }
  uint32_t here() const { return static_cast<uint32_t>(out_.size()) - base_; }
  Word& word(uint32_t index) { return out_[base_ + index]; }
  uint32_t emit(Operation operation) {
    const uint32_t at = here();
    Word w{};
    w.handler = handler_of(operation);
    out_.push_back(w);
    forget_last();
    return at;
  }
  // The next operation is not fused with the last one.
  void forget_last() {
    last_result_ = last_compare_ = last_add_ = last_multiply_ = last_sum_ = last_rotation_ = last_copy_ =
        kNone;
  }
  void emit_slots(uint32_t a, uint32_t b = 0, uint32_t c = 0, uint32_t d = 0) {
    Word w{};
    w.slots = {static_cast<uint16_t>(a), static_cast<uint16_t>(b), static_cast<uint16_t>(c),
               static_cast<uint16_t>(d)};
    out_.push_back(w);
  }
  void emit_immediate(uint32_t a, uint32_t b, int64_t value) {
    Word w{};
    w.imm = {static_cast<uint16_t>(a), static_cast<uint16_t>(b), static_cast<int32_t>(value)};
    out_.push_back(w);
  }
  void emit_constant(uint64_t value) {
    Word w{};
    w.constant = value;
    out_.push_back(w);
  }
  void emit_copy(uint32_t to, const Entry& from);
  void emit_slot_copy(uint32_t to, uint32_t from);

  // -- segments
  void begin_way() { walk_.begin_segment(walk_.next_offset()); }  // of a branch that is taken, of no cost
  void may_trap(uint32_t at);
  void note_pending(Recorder& recorder) const;

  // -- the operand stack
  uint32_t top_slot() const {
    return stack_.empty() ? locals_end_ : stack_.back().slot + stack_.back().width;
  }
  void push_slot(uint32_t width = 1) { push({Entry::Kind::kSlot, static_cast<uint8_t>(width), 0, 0, 0}); }
  void push(Entry entry) {
    entry.slot = static_cast<uint16_t>(top_slot());
    if (entry.kind == Entry::Kind::kLocal) ++pending_locals_;
    stack_.push_back(entry);
  }
  Entry pop() {
    const Entry entry = stack_.back();
    stack_.pop_back();
    settled_ = std::min(settled_, stack_.size());
    if (entry.kind == Entry::Kind::kLocal) --pending_locals_;
    return entry;
  }
  void cut_stack(size_t height) {
    while (stack_.size() > height) pop();
  }
  uint32_t slot_of(const Entry& entry);  // where the value can be read; writes a constant to its slot
  void settle(Entry& entry);             // writes a pending value to its own slot
  void settle_from(size_t first);
  void settle_local(uint32_t local_slot);
  // Emits word 0 of an operation whose word 1 names its result first, in `slot`.
  uint32_t result(Operation operation, uint32_t slot, ValueKind kind = ValueKind::kInteger) {
    const uint32_t at = emit(operation);
    last_result_ = at;
    result_kind_ = kind;
    if (operation == Operation::kI32AddSK || operation == Operation::kI32AddAK) last_add_ = at;
    if (operation == Operation::kI32AddSS || operation == Operation::kI32AddAS ||
        operation == Operation::kI32AddSA)
      last_sum_ = at;
    if (operation == Operation::kI32RotlSK || operation == Operation::kI32RotlAK) last_rotation_ = at;
    forget_accumulated(slot);
    if (kind == ValueKind::kVector) forget_accumulated(slot + 1);
    else accumulated_[static_cast<size_t>(kind)] = slot;
    return at;
  }
  // An operation that writes `slot` and leaves the accumulators alone.
  uint32_t result_in_slot(Operation operation, uint32_t slot) {
    const uint32_t at = emit(operation);
    last_result_ = at;
    result_kind_ = ValueKind::kInteger;
    forget_accumulated(slot);
    return at;
  }
  bool in_accumulator(ValueKind kind, uint32_t slot) const {
    return accumulated_[static_cast<size_t>(kind)] == slot;
  }
  void forget_accumulated(uint32_t slot) {
    for (uint32_t& accumulated : accumulated_)
      if (accumulated == slot) accumulated = kNone;
  }

  // -- instructions
  void translate_special(const Instruction& in);
  void unary(const OperationChoice& choice, Opcode op);
  void integer_binary(const OperationChoice& choice);
  void integer_compare(const OperationChoice& choice);
  void float_binary(const OperationChoice& choice);
  bool fuse(const OperationChoice& choice, const Entry& a, const Entry& b);
  void load(const OperationChoice& choice, const Instruction& in);
  void store(const OperationChoice& choice, const Instruction& in);
  void vector(const OperationChoice& choice, const Instruction& in);
  void load_lane(const OperationChoice& choice, const Instruction& in);
  void store_lane(const OperationChoice& choice, const Instruction& in);
  void emit_bytes(const uint8_t* bytes);
  void emit_pshufb_indices(const uint8_t* indices);
  void load_of_any(const OperationChoice& choice, const Instruction& in);
  void store_to_any(const OperationChoice& choice, const Instruction& in);
  void local_set(uint32_t index, bool keep);
  void select();
  void bulk(const Instruction& in, Operation operation, int operands, bool has_result, uint64_t constant);
  void table_access(const Instruction& in);
  Entry clamped(Entry index, uint32_t table);
  void clamp_operands(const Instruction& in, Entry (&operands)[3]);
  // Whether the interpreter has the memory's base in a register, and guard pages for its bounds.
  bool has_register(uint32_t memory) const { return memory == 0 && !module_.memories[0].type.limits.is_64; }

  // -- control
  void bind(Label& label);
  void patch(uint32_t word_at);
  void branch_to(uint32_t depth);
  void take_branch(Label& target);
  void branch_if(uint32_t depth);
  void branch_table(const Instruction& in);
  uint32_t write_way(Label& target);
  bool values_in_place(const Label& label) const;
  void move_values(const Label& label);
  void settle_branch_values(const Label& label);
  void emit_jump(Label& label);
  void link(Label& label, uint32_t word_at);
  uint32_t emit_test(Entry condition, bool when);
  uint32_t emit_fused_test(uint32_t compare, bool when);
  uint32_t emit_branch(uint32_t a, uint32_t b);
  void emit_return();
  void call(const Instruction& in);
  void call_indirect(const Instruction& in);
  void call_ref(const Instruction& in);
  void check_non_null();
  void aggregate(const Instruction& in, size_t operands, bool has_result);
  void struct_get(const Instruction& in);
  void struct_set(const Instruction& in);
  void array_get(const Instruction& in);
  void array_set(const Instruction& in);
  void unary_reference(Operation operation);
  void reference_test(const Instruction& in);
  void reference_cast(const Instruction& in);
  void branch_on_cast(const Instruction& in);
  [[nodiscard]] const FieldLayout& field_of(uint32_t type, uint32_t field) const {
    const wasm::FuncType* const defined = compiled_.canonical_type(type);
    return static_cast<const RuntimeType*>(defined)->fields[field];
  }
  void branch_on_null(uint32_t depth);
  void branch_on_non_null(uint32_t depth);
  void branch_unless(Operation skips, uint32_t slot, Label& target);
  void land_at_end(Label& label);
  void throw_tag(const Instruction& in);
  void throw_ref();

  void lay_out_locals();

  struct Local {
    uint16_t slot;
    uint8_t width;
  };
  // Reused between calls, since a tiny program is translated in less time than malloc takes.
  static std::vector<Entry>& stack_scratch() {
    thread_local std::vector<Entry> v;
    v.clear();
    return v;
  }
  static std::vector<Label>& label_scratch() {
    thread_local std::vector<Label> v;
    v.clear();
    return v;
  }
  static std::vector<Local>& local_scratch() {
    thread_local std::vector<Local> v;
    v.clear();
    return v;
  }

  CompiledModule& compiled_;
  const wasm::Module& module_;
  const uint32_t index_;
  const wasm::Function& function_;
  std::vector<Word>& out_;
  CodeQuery<Recorder> by_word_, by_offset_;
  CatchTable& catches_;
  const uint32_t base_;

  std::vector<Local>& locals_ = local_scratch();
  uint32_t locals_end_ = 0;
  std::vector<Entry>& stack_ = stack_scratch();
  wasm::BodyWalk<Translator, Label> walk_{*this, label_scratch()};
  size_t settled_ = 0;  // entries from the bottom that are known to be kSlot
  uint32_t pending_locals_ = 0;
  uint32_t header_ = 0;            // of the open segment
  uint32_t last_result_ = kNone;   // word 0 of the last operation, when it has a result that can go elsewhere
  uint32_t last_compare_ = kNone;  // the same, when it can be fused with a branch
  Operation compare_form_{};       // its first form
  uint32_t last_add_ = kNone;      // the same, when it adds a constant to an i32
  uint32_t last_multiply_ = kNone;  // the same, when it is an f64.mul of slots
  uint32_t last_sum_ = kNone;       // the same, when it is an i32.add of slots
  uint32_t last_rotation_ = kNone;  // the same, when it rotates an i32 by a constant
  uint32_t last_copy_ = kNone;      // the last operation, when it is kCopy
  ValueKind result_kind_{};         // of last_result_
  std::array<uint32_t, 4> accumulated_{kNone, kNone, kNone, kNone};  // the slot whose value each has
  struct Way {
    uint64_t stamp = 0;
    uint32_t at = 0;
  };
  std::vector<Way> ways_;  // of the current br_table, by depth: those with its stamp
  uint64_t way_stamp_ = 0;
};

}  // namespace membrane::engine
