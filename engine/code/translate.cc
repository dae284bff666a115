#include "engine/code/translate.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/code/code_query.h"
#include "engine/code/compiled_module.h"
#include "engine/code/fuel.h"
#include "engine/code/numeric_simd.h"
#include "wasm/body_walk.h"

namespace membrane::engine {
namespace {

using wasm::Instruction;
using wasm::Opcode;
using wasm::ValType;

// -- what becomes of each plain instruction -----------------------------------------

enum class Class : uint8_t {
  kSpecial,
  kBinary,
  kCompare,
  kDivide,
  kFloatBinary,
  kFloatCompare,
  kUnary,
  kTruncate,
  kLoad,
  kStore,
  kVector,
  kLoadLane,
  kStoreLane
};

// The accumulators, by the type of a value. Vectors have none.
enum class Bank : uint8_t { kInteger, kF64, kF32, kVector };
constexpr uint32_t slots_of(Bank bank) { return bank == Bank::kVector ? 2 : 1; }

template <typename T>
constexpr Bank bank_of() {
  if constexpr (std::is_same_v<T, double>) return Bank::kF64;
  else if constexpr (std::is_same_v<T, float>) return Bank::kF32;
  else return Bank::kInteger;
}

struct Choice {
  Class kind = Class::kSpecial;
  Operation operation{};  // the first of its forms
  Bank from = Bank::kInteger, to = Bank::kInteger;
  bool is_64 = false;    // operands of kBinary and kCompare
  uint8_t operands = 0;  // kVector
};

constexpr std::array<Choice, wasm::kOpcodeCount> make_choices() {
  std::array<Choice, wasm::kOpcodeCount> choices{};
  const auto at = [&](Opcode op) -> Choice& { return choices[static_cast<size_t>(op)]; };
  using enum Bank;
#define INTEGER_BINARY(id, type, function)                                                     \
  at(Opcode::id) = {Class::kBinary, Operation::id##SS, kInteger, kInteger, sizeof(type) == 8};
#define INTEGER_COMPARE(id, type, function)                                                     \
  at(Opcode::id) = {Class::kCompare, Operation::id##SS, kInteger, kInteger, sizeof(type) == 8};
#define INTEGER_DIVIDE(id, type, function, overflows) at(Opcode::id) = {Class::kDivide, Operation::id};
#define FLOAT_BINARY(id, type, function)                                                       \
  at(Opcode::id) = {Class::kFloatBinary, Operation::id##SS, bank_of<type>(), bank_of<type>()};
#define FLOAT_COMPARE(id, type, function)                                                \
  at(Opcode::id) = {Class::kFloatCompare, Operation::id##SS, bank_of<type>(), kInteger};
#define UNARY(id, from, to, expression)                                               \
  at(Opcode::id) = {Class::kUnary, Operation::id##S, bank_of<from>(), bank_of<to>()};
#define TRUNCATE(id, from, to) at(Opcode::id) = {Class::kTruncate, Operation::id, bank_of<from>(), kInteger};
#include "engine/code/operations.def"
  const auto load = [&](Opcode op, Operation first, Bank to = kInteger) {
    at(op) = {Class::kLoad, first, kInteger, to};
  };
  load(Opcode::kI32Load, Operation::kLoad32US);
  load(Opcode::kI64Load, Operation::kLoad64S);
  load(Opcode::kF32Load, Operation::kLoadF32S, kF32);
  load(Opcode::kF64Load, Operation::kLoadF64S, kF64);
  load(Opcode::kI32Load8S, Operation::kLoad8S32S);
  load(Opcode::kI32Load8U, Operation::kLoad8US);
  load(Opcode::kI32Load16S, Operation::kLoad16S32S);
  load(Opcode::kI32Load16U, Operation::kLoad16US);
  load(Opcode::kI64Load8S, Operation::kLoad8S64S);
  load(Opcode::kI64Load8U, Operation::kLoad8US);
  load(Opcode::kI64Load16S, Operation::kLoad16S64S);
  load(Opcode::kI64Load16U, Operation::kLoad16US);
  load(Opcode::kI64Load32S, Operation::kLoad32S64S);
  load(Opcode::kI64Load32U, Operation::kLoad32US);
  const auto store = [&](Opcode op, Operation first, Bank from = kInteger) {
    at(op) = {Class::kStore, first, from};
  };
  store(Opcode::kI32Store, Operation::kStore32S);
  store(Opcode::kI64Store, Operation::kStore64S);
  store(Opcode::kF32Store, Operation::kStoreF32S, kF32);
  store(Opcode::kF64Store, Operation::kStoreF64S, kF64);
  store(Opcode::kI32Store8, Operation::kStore8S);
  store(Opcode::kI32Store16, Operation::kStore16S);
  store(Opcode::kI64Store8, Operation::kStore8S);
  store(Opcode::kI64Store16, Operation::kStore16S);
  store(Opcode::kI64Store32, Operation::kStore32S);
  store(Opcode::kV128Store, Operation::kV128Store, kVector);
  const auto vector = [&](Opcode op, Operation operation, Bank to) {
    const auto operands = static_cast<uint8_t>(wasm::info(op).signature.find(':'));
    at(op) = {Class::kVector, operation, kVector, to, false, operands};
  };
  vector(Opcode::kI8x16Shuffle, Operation::kI8x16Shuffle, kVector);
#define VECTOR_UNARY(id, function) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_BINARY(id, function) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_TERNARY(id, function) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_SHIFT(id, function) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_TEST(id, function) vector(Opcode::id, Operation::id, kInteger);
#define VECTOR_SPLAT(id, type) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_EXTRACT(id, from, to) vector(Opcode::id, Operation::id, bank_of<to>());
#define VECTOR_REPLACE(id, type) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_LOAD(id, type, function) load(Opcode::id, Operation::id##S, kVector);
#define VECTOR_LOAD_LANE(id, type) at(Opcode::id) = {Class::kLoadLane, Operation::id};
#define VECTOR_STORE_LANE(id, type) at(Opcode::id) = {Class::kStoreLane, Operation::id};
#include "engine/code/vector_operations.def"
  return choices;
}
constexpr std::array<Choice, wasm::kOpcodeCount> kChoices = make_choices();

// The place of a form among an operation's forms (operations_each.def).
constexpr Operation form(Operation first, int which) {
  return static_cast<Operation>(static_cast<uint16_t>(first) + which);
}
constexpr int kSS = 0, kSK = 1, kAS = 2, kSA = 3, kAK = 4;  // INTEGER_BINARY, FLOAT_*
constexpr int kCompareAK = 3, kToBranch = 4;       // INTEGER_COMPARE: the branch's forms follow in like order
constexpr int kFormA = 1, kFormK = 2, kFormM = 3;  // UNARY, LOAD, STORE
constexpr int kLaneM = 1;                          // VECTOR_LOAD_LANE, VECTOR_STORE_LANE

// -- the translator's picture of the operand stack ------------------------------------

struct Entry {
  enum class Kind : uint8_t { kSlot, kLocal, kConstant };
  Kind kind = Kind::kSlot;
  uint8_t width = 1;    // slots
  uint16_t slot = 0;    // its own place in the frame, whatever its kind
  uint16_t source = 0;  // kLocal: the local's slot
  uint64_t value = 0;   // kConstant
};

constexpr uint32_t kNone = UINT32_MAX;

// Bounds that keep translation linear on hostile code: so many pending locals or unsettled entries are
// kept, and so many values are moved one by one by a branch.
constexpr uint32_t kMaxPendingLocals = 32;
constexpr size_t kMaxUnsettled = 64;
constexpr uint32_t kFewValues = 4;

// What else the translator knows of an open block.
struct Label : wasm::BlockLabel {
  uint32_t header = kNone;      // kLoop: where branches go
  uint32_t fixups = kNone;      // chain of words whose target is this label's end
  uint32_t else_fixup = kNone;  // kIf: the branch to the else part
  uint32_t catches = kNone;     // chain of the clauses that wait for this label's end
};

Handler handler_of(Operation operation) { return kHandlers[static_cast<size_t>(operation)]; }

class Translator {
 public:
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
  // -- emitting
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
  // What comes next is not made one with what was emitted last.
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
  uint32_t result(Operation operation, uint32_t slot, Bank bank = Bank::kInteger) {
    const uint32_t at = emit(operation);
    last_result_ = at;
    result_bank_ = bank;
    if (operation == Operation::kI32AddSK || operation == Operation::kI32AddAK) last_add_ = at;
    if (operation == Operation::kI32AddSS || operation == Operation::kI32AddAS ||
        operation == Operation::kI32AddSA)
      last_sum_ = at;
    if (operation == Operation::kI32RotlSK || operation == Operation::kI32RotlAK) last_rotation_ = at;
    forget_accumulated(slot);
    if (bank == Bank::kVector) forget_accumulated(slot + 1);
    else accumulated_[static_cast<size_t>(bank)] = slot;
    return at;
  }
  // An operation that writes `slot` and leaves the accumulators alone.
  uint32_t result_in_slot(Operation operation, uint32_t slot) {
    const uint32_t at = emit(operation);
    last_result_ = at;
    result_bank_ = Bank::kInteger;
    forget_accumulated(slot);
    return at;
  }
  bool in_accumulator(Bank bank, uint32_t slot) const {
    return accumulated_[static_cast<size_t>(bank)] == slot;
  }
  void forget_accumulated(uint32_t slot) {
    for (uint32_t& accumulated : accumulated_)
      if (accumulated == slot) accumulated = kNone;
  }

  // -- instructions
  void translate_special(const Instruction& in);
  void unary(const Choice& choice, Opcode op);
  void integer_binary(const Choice& choice);
  void integer_compare(const Choice& choice);
  void float_binary(const Choice& choice);
  bool fuse(const Choice& choice, const Entry& a, const Entry& b);
  void load(const Choice& choice, const Instruction& in);
  void store(const Choice& choice, const Instruction& in);
  void vector(const Choice& choice, const Instruction& in);
  void load_lane(const Choice& choice, const Instruction& in);
  void store_lane(const Choice& choice, const Instruction& in);
  void emit_bytes(const uint8_t* bytes);
  void emit_pshufb_indices(const uint8_t* indices);
  void load_of_any(const Choice& choice, const Instruction& in);
  void store_to_any(const Choice& choice, const Instruction& in);
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
  Bank result_bank_{};              // of last_result_
  std::array<uint32_t, 4> accumulated_{kNone, kNone, kNone, kNone};  // the slot whose value each has
  struct Way {
    uint64_t stamp = 0;
    uint32_t at = 0;
  };
  std::vector<Way> ways_;  // of the br_table at hand, by depth: those with its stamp
  uint64_t way_stamp_ = 0;
};

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

// -- instructions ---------------------------------------------------------------------

void Translator::instruction(const Instruction& in) {
  const Choice& choice = kChoices[static_cast<size_t>(in.op)];
  switch (choice.kind) {
    case Class::kBinary: return integer_binary(choice);
    case Class::kCompare: return integer_compare(choice);
    case Class::kFloatBinary:
    case Class::kFloatCompare: return float_binary(choice);
    case Class::kDivide: {
      const Entry b = pop(), a = pop();
      const uint32_t a_slot = slot_of(a), b_slot = slot_of(b);
      const uint32_t at = result(choice.operation, a.slot);
      emit_slots(a.slot, a_slot, b_slot);
      may_trap(at);
      return push_slot();
    }
    case Class::kTruncate:
    case Class::kUnary: return unary(choice, in.op);
    case Class::kLoad: return has_register(in.index) ? load(choice, in) : load_of_any(choice, in);
    case Class::kStore: return has_register(in.index) ? store(choice, in) : store_to_any(choice, in);
    case Class::kVector: return vector(choice, in);
    case Class::kLoadLane: return load_lane(choice, in);
    case Class::kStoreLane: return store_lane(choice, in);
    case Class::kSpecial: return translate_special(in);
  }
}

void Translator::unary(const Choice& choice, Opcode op) {
  const Entry a = pop();
  const uint32_t a_slot = slot_of(a);
  const bool accumulated = choice.kind == Class::kUnary && in_accumulator(choice.from, a_slot);
  const uint32_t at = result(form(choice.operation, accumulated ? kFormA : 0), a.slot, choice.to);
  emit_slots(a.slot, a_slot);
  may_trap(at);
  if (op == Opcode::kI32Eqz || op == Opcode::kI64Eqz) {
    last_compare_ = at;
    compare_form_ = choice.operation;
  }
  push_slot();
}

void Translator::integer_binary(const Choice& choice) {
  const Entry b = pop(), a = pop();
  if (fuse(choice, a, b)) return;
  // The immediate has 32 bits; for i64 it is sign-extended.
  const bool constant = b.kind == Entry::Kind::kConstant &&
                        (!choice.is_64 || static_cast<int64_t>(b.value) == static_cast<int32_t>(b.value));
  const uint32_t a_slot = slot_of(a);
  if (constant) {
    result(form(choice.operation, in_accumulator(Bank::kInteger, a_slot) ? kAK : kSK), a.slot);
    emit_immediate(a.slot, a_slot, static_cast<int32_t>(static_cast<uint32_t>(b.value)));
  } else {
    const uint32_t b_slot = slot_of(b);
    const int which = in_accumulator(Bank::kInteger, a_slot)   ? kAS
                      : in_accumulator(Bank::kInteger, b_slot) ? kSA
                                                               : kSS;
    result(form(choice.operation, which), a.slot);
    emit_slots(a.slot, a_slot, b_slot);
  }
  push_slot();
}

// eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u, as the table has them.
constexpr int kCompareForms = 8;
constexpr int8_t kOpposite[10] = {1, 0, 8, 9, 6, 7, 4, 5, 2, 3};  // of a < b: a >= b
constexpr int8_t kSwapped[10] = {0, 1, 4, 5, 2, 3, 8, 9, 6, 7};   // of a < b: b > a
Operation related(Operation compare, const int8_t (&table)[10]) {
  const auto base =
      static_cast<int>(compare >= Operation::kI64EqSS ? Operation::kI64EqSS : Operation::kI32EqSS);
  const int which = (static_cast<int>(compare) - base) / kCompareForms;
  return static_cast<Operation>(base + kCompareForms * table[which]);
}

void Translator::integer_compare(const Choice& choice) {
  const Entry b = pop(), a = pop();
  const uint32_t a_slot = slot_of(a);
  uint32_t at = 0;
  compare_form_ = choice.operation;
  if (b.kind == Entry::Kind::kConstant) {
    at = result(form(choice.operation, in_accumulator(Bank::kInteger, a_slot) ? kCompareAK : kSK), a.slot);
    emit_slots(a.slot, a_slot);
    emit_constant(b.value);
  } else {
    const uint32_t b_slot = slot_of(b);
    const bool swap = !in_accumulator(Bank::kInteger, a_slot) && in_accumulator(Bank::kInteger, b_slot);
    const bool accumulated = swap || in_accumulator(Bank::kInteger, a_slot);
    if (swap) compare_form_ = related(choice.operation, kSwapped);
    at = result(form(compare_form_, accumulated ? kAS : kSS), a.slot);
    emit_slots(a.slot, swap ? b_slot : a_slot, swap ? a_slot : b_slot);
  }
  last_compare_ = at;
  push_slot();
}

// Fuses an operation with the one that takes its result, when that was the last one emitted: the product
// of a sum, the sum of a sum, the rotation in an exclusive or. What the first computed is computed by the
// second, with the same roundings; the first is taken back.
bool Translator::fuse(const Choice& choice, const Entry& a, const Entry& b) {
  const bool subtract = choice.operation == Operation::kF64SubSS;
  Operation fused{};
  uint32_t first = kNone;
  if (choice.operation == Operation::kF64AddSS || subtract) {
    first = last_multiply_;
    fused = subtract ? Operation::kF64MulSub : Operation::kF64MulAdd;
  } else if (choice.operation == Operation::kI32AddSS) {
    first = last_sum_;
    fused = Operation::kI32AddAdd;
  } else if (choice.operation == Operation::kI32XorSS) {
    first = last_rotation_;
    fused = Operation::kI32RotlXor;
  }
  if (first == kNone) return false;
  const Word taken = word(first + 1);
  const bool takes_b = b.kind == Entry::Kind::kSlot && b.slot == taken.slots.a;
  const bool takes_a = a.kind == Entry::Kind::kSlot && a.slot == taken.slots.a;
  if (!takes_b && (subtract || !takes_a)) return false;
  const Entry& rest = takes_b ? a : b;
  // A constant would have to be written to a slot, perhaps to one that the first operation reads.
  if (rest.kind == Entry::Kind::kConstant) return false;
  out_.resize(base_ + first);
  const uint32_t other = slot_of(rest);
  result(fused, a.slot, choice.to);
  if (fused == Operation::kI32RotlXor)
    emit_slots(a.slot, other, taken.imm.b, static_cast<uint32_t>(taken.imm.value) % 32);
  else emit_slots(a.slot, taken.slots.b, taken.slots.c, other);
  push_slot();
  return true;
}

void Translator::float_binary(const Choice& choice) {
  const Entry b = pop(), a = pop();
  if (fuse(choice, a, b)) return;
  const uint32_t a_slot = slot_of(a);
  if (b.kind == Entry::Kind::kConstant) {
    result(form(choice.operation, kSK), a.slot, choice.to);
    emit_slots(a.slot, a_slot);
    emit_constant(b.value);
  } else {
    const uint32_t b_slot = slot_of(b);
    const int which = in_accumulator(choice.from, a_slot)   ? kAS
                      : in_accumulator(choice.from, b_slot) ? kSA
                                                            : kSS;
    const uint32_t at = result(form(choice.operation, which), a.slot, choice.to);
    emit_slots(a.slot, a_slot, b_slot);
    if (choice.operation == Operation::kF64MulSS)
      last_multiply_ = at;  // of any form: the slots are named in all
  }
  push_slot();
}

void Translator::load(const Choice& choice, const Instruction& in) {
  const Entry address = pop();
  const auto offset = static_cast<int32_t>(static_cast<uint32_t>(in.mem_offset));
  uint32_t at = 0;
  if (address.kind == Entry::Kind::kSlot && last_add_ != kNone && word(last_add_ + 1).imm.a == address.slot) {
    const ImmediateWord sum = word(last_add_ + 1).imm;  // i32.add of a constant is done by the load
    out_.resize(base_ + last_add_);
    at = result(form(choice.operation, kFormK), address.slot, choice.to);
    emit_immediate(address.slot, sum.b, offset);
    emit_constant(static_cast<uint32_t>(sum.value));
  } else {
    const uint32_t address_slot = slot_of(address);
    const bool accumulated = in_accumulator(Bank::kInteger, address_slot);
    at = result(form(choice.operation, accumulated ? kFormA : 0), address.slot, choice.to);
    emit_immediate(address.slot, address_slot, offset);
  }
  may_trap(at);
  push_slot(slots_of(choice.to));
}

void Translator::store(const Choice& choice, const Instruction& in) {
  const Entry value = pop(), address = pop();
  const auto offset = static_cast<int32_t>(static_cast<uint32_t>(in.mem_offset));
  const uint32_t address_slot = slot_of(address);
  const bool constant = value.kind == Entry::Kind::kConstant;
  const uint32_t value_slot = constant ? 0 : slot_of(value);
  const bool accumulated = !constant && in_accumulator(choice.from, value_slot);
  const uint32_t at = emit(form(choice.operation, constant ? kFormK : accumulated ? kFormA : 0));
  emit_immediate(address_slot, value_slot, offset);
  if (constant) emit_constant(value.value);
  may_trap(at);
}

// Word 1 has the result, the operands, and the lane after them; a shuffle's lanes follow it.
void Translator::vector(const Choice& choice, const Instruction& in) {
  static const bool has_pshufb = simd::has_pshufb();
  Entry entries[3];
  uint32_t words[4] = {};
  for (int i = choice.operands - 1; i >= 0; --i) entries[i] = pop();
  for (int i = 0; i < choice.operands; ++i) words[i] = slot_of(entries[i]);
  const wasm::Immediate immediate = wasm::info(in.op).immediate;
  if (immediate == wasm::Immediate::kLane) words[choice.operands] = in.lane;
  Operation operation = choice.operation;
  if (has_pshufb && in.op == Opcode::kI8x16Shuffle) operation = Operation::kShuffleByPshufb;
  if (has_pshufb && (in.op == Opcode::kI8x16Swizzle || in.op == Opcode::kI8x16RelaxedSwizzle))
    operation = Operation::kSwizzleByPshufb;
  result(operation, entries[0].slot, choice.to);
  emit_slots(entries[0].slot, words[0], words[1], words[2]);
  if (operation == Operation::kShuffleByPshufb) emit_pshufb_indices(in.raw);
  else if (immediate == wasm::Immediate::kShuffle) emit_bytes(in.raw);
  push_slot(slots_of(choice.to));
}

void Translator::emit_bytes(const uint8_t* bytes) {
  uint64_t halves[2];
  std::memcpy(halves, bytes, sizeof halves);
  emit_constant(halves[0]);
  emit_constant(halves[1]);
}

// Of a shuffle's indices, those into each operand; the others give 0.
void Translator::emit_pshufb_indices(const uint8_t* indices) {
  constexpr uint8_t kNoByte = 0x80;
  uint8_t of_a[16], of_b[16];
  for (int i = 0; i < 16; ++i) {
    of_a[i] = indices[i] < 16 ? indices[i] : kNoByte;
    of_b[i] = indices[i] < 16 ? kNoByte : static_cast<uint8_t>(indices[i] - 16);
  }
  emit_bytes(of_a);
  emit_bytes(of_b);
}

void Translator::load_lane(const Choice& choice, const Instruction& in) {
  const Entry value = pop(), address = pop();
  const uint32_t address_slot = slot_of(address), value_slot = slot_of(value);
  uint32_t at = 0;
  if (has_register(in.index)) {
    at = result(choice.operation, address.slot, Bank::kVector);
    emit_immediate(address.slot, address_slot, static_cast<int32_t>(static_cast<uint32_t>(in.mem_offset)));
    emit_slots(value_slot, in.lane);
  } else {
    at = result(form(choice.operation, kLaneM), address.slot, Bank::kVector);
    emit_slots(address.slot, address_slot, in.index);
    emit_constant(in.mem_offset);
    emit_slots(value_slot, in.lane);
  }
  may_trap(at);
  push_slot(2);
}

void Translator::store_lane(const Choice& choice, const Instruction& in) {
  const Entry value = pop(), address = pop();
  const uint32_t address_slot = slot_of(address), value_slot = slot_of(value);
  const uint32_t at = emit(has_register(in.index) ? choice.operation : form(choice.operation, kLaneM));
  if (has_register(in.index)) {
    emit_immediate(address_slot, value_slot, static_cast<int32_t>(static_cast<uint32_t>(in.mem_offset)));
    emit_slots(in.lane);
  } else {
    emit_slots(address_slot, value_slot, in.index, in.lane);
    emit_constant(in.mem_offset);
  }
  may_trap(at);
}

// Of any memory: word 1 names it, word 2 is the offset.
void Translator::load_of_any(const Choice& choice, const Instruction& in) {
  const Entry address = pop();
  const uint32_t address_slot = slot_of(address);
  const uint32_t at = result(form(choice.operation, kFormM), address.slot, choice.to);
  emit_slots(address.slot, address_slot, in.index);
  emit_constant(in.mem_offset);
  may_trap(at);
  push_slot(slots_of(choice.to));
}

void Translator::store_to_any(const Choice& choice, const Instruction& in) {
  const Entry value = pop(), address = pop();
  const uint32_t address_slot = slot_of(address), value_slot = slot_of(value);
  const uint32_t at =
      emit(choice.from == Bank::kVector ? Operation::kV128StoreM : form(choice.operation, kFormM));
  emit_slots(address_slot, value_slot, in.index);
  emit_constant(in.mem_offset);
  may_trap(at);
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
    const bool accumulated = in_accumulator(result_bank_, value.slot);
    forget_accumulated(local.slot);
    if (accumulated) accumulated_[static_cast<size_t>(result_bank_)] = local.slot;
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
  else result(Operation::kSelectVector, a.slot, Bank::kVector);
  emit_slots(a.slot, a_slot, b_slot, condition_slot);
  push_slot(a.width);
}

// Word 1's last slot is the distance back to the header of the operation's own segment, where a pause resumes.
void Translator::bulk(const Instruction& in, Operation operation, int operands, bool has_result,
                      uint64_t constant) {
  Entry entries[3];
  for (int i = operands - 1; i >= 0; --i) entries[i] = pop();
  clamp_operands(in, entries);
  uint32_t slots[3] = {0, 0, 0};
  for (int i = 0; i < operands; ++i) slots[i] = slot_of(entries[i]);
  const uint32_t at = emit(operation);
  const uint32_t distance = at - header_;
  if (has_result) emit_slots(entries[0].slot, slots[0], slots[1], distance);
  else emit_slots(slots[0], slots[1], slots[2], distance);
  emit_constant(constant);
  may_trap(at);
  if (has_result) push_slot();
}

// An index of a table with 64-bit indices, as an i32 that is in bounds if and only if it was.
Entry Translator::clamped(Entry index, uint32_t table) {
  if (!module_.tables[table].type.limits.is_64) return index;
  if (index.kind == Entry::Kind::kConstant) {
    index.value = std::min<uint64_t>(index.value, UINT32_MAX);
    return index;
  }
  const uint32_t from = slot_of(index);
  forget_accumulated(index.slot);
  emit(Operation::kClampIndex);
  emit_slots(index.slot, from);
  index.kind = Entry::Kind::kSlot;
  return index;
}

void Translator::clamp_operands(const Instruction& in, Entry (&operands)[3]) {
  switch (in.op) {
    case Opcode::kTableGrow: operands[1] = clamped(operands[1], in.index); return;
    case Opcode::kTableFill:
      operands[0] = clamped(operands[0], in.index);
      operands[2] = clamped(operands[2], in.index);
      return;
    case Opcode::kTableCopy:
      operands[0] = clamped(operands[0], in.index);
      operands[1] = clamped(operands[1], in.index2);
      operands[2] = clamped(operands[2], module_.tables[in.index].type.limits.is_64 ? in.index2 : in.index);
      return;
    case Opcode::kTableInit: operands[0] = clamped(operands[0], in.index2); return;
    default: return;
  }
}

void Translator::table_access(const Instruction& in) {
  if (in.op == Opcode::kTableGet) {
    const Entry index = clamped(pop(), in.index);
    const uint32_t index_slot = slot_of(index);
    const uint32_t at = result_in_slot(Operation::kTableGet, index.slot);
    emit_slots(index.slot, index_slot);
    emit_constant(in.index);
    may_trap(at);
    return push_slot();
  }
  const Entry value = pop(), index = clamped(pop(), in.index);
  const uint32_t index_slot = slot_of(index), value_slot = slot_of(value);
  const uint32_t at = emit(Operation::kTableSet);
  emit_slots(index_slot, value_slot);
  emit_constant(in.index);
  may_trap(at);
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
    case Opcode::kRefEq: return integer_compare(kChoices[static_cast<size_t>(Opcode::kI64Eq)]);
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
      else result(Operation::kGlobalGetVector, top_slot(), Bank::kVector);
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
      result(Operation::kV128Const, top_slot(), Bank::kVector);
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

// -- control ---------------------------------------------------------------------------

// Emits a branch that is taken when the condition is `when`; its target is to be linked through the
// returned word. Everything on the stack is settled first.
uint32_t Translator::emit_test(Entry condition, bool when) {
  const uint32_t compare = last_compare_;
  if (condition.kind == Entry::Kind::kSlot && compare != kNone && word(compare + 1).slots.a == condition.slot)
    return emit_fused_test(compare, when);
  const uint32_t slot = slot_of(condition);
  const bool accumulated =
      in_accumulator(Bank::kInteger, slot);  // what settles leaves the accumulators alone
  settle_from(0);
  if (when) emit(accumulated ? Operation::kBrIfA : Operation::kBrIf);
  else emit(accumulated ? Operation::kBrUnlessA : Operation::kBrUnless);
  return emit_branch(slot, 0);
}

// The comparison at `compare` is taken back, and made by the branch.
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
  const Operation compared = when ? first : related(first, kOpposite);
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

// -- exceptions: nothing is done when a try_table is entered or left -----------------------

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

bool Translator::values_in_place(const Label& label) const {
  uint32_t slot = label.slot_height;
  if (label.branch_values > 0 && settled_ == stack_.size())  // then they follow each other
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

// -- structs and arrays

// The operands become contiguous; the result takes the place of the first.
void Translator::aggregate(const Instruction& in, size_t operands, bool has_result) {
  const size_t first = stack_.size() - operands;
  settle_from(first);
  const uint32_t slot = operands == 0 ? top_slot() : stack_[first].slot;
  cut_stack(first);
  const uint32_t at = emit(Operation::kAggregate);
  emit_slots(slot, 0, 0, at - header_);
  emit_constant(uint64_t{in.index} | uint64_t{in.index2} << 32);
  emit_constant(static_cast<uint64_t>(in.op));
  may_trap(at);
  if (has_result) push_slot();
}

namespace {

struct FieldForms {
  Operation of_8s, of_8u, of_16s, of_16u, of_32, of_64, of_vector;
};

Operation form_of(const FieldLayout& field, bool is_signed, const FieldForms& forms) {
  switch (field.bytes) {
    case 1: return is_signed ? forms.of_8s : forms.of_8u;
    case 2: return is_signed ? forms.of_16s : forms.of_16u;
    case 4: return forms.of_32;
    case 8: return forms.of_64;
    default: return forms.of_vector;
  }
}

constexpr FieldForms kStructGets = {
    Operation::kStructGet8S, Operation::kStructGet8U, Operation::kStructGet16S,   Operation::kStructGet16U,
    Operation::kStructGet32, Operation::kStructGet64, Operation::kStructGetVector};
constexpr FieldForms kStructSets = {
    Operation::kStructSet8,  Operation::kStructSet8,  Operation::kStructSet16,    Operation::kStructSet16,
    Operation::kStructSet32, Operation::kStructSet64, Operation::kStructSetVector};
constexpr FieldForms kArrayGets = {Operation::kArrayGet8S,    Operation::kArrayGet8U, Operation::kArrayGet16S,
                                   Operation::kArrayGet16U,   Operation::kArrayGet32, Operation::kArrayGet64,
                                   Operation::kArrayGetVector};
constexpr FieldForms kArraySets = {Operation::kArraySet8,     Operation::kArraySet8,  Operation::kArraySet16,
                                   Operation::kArraySet16,    Operation::kArraySet32, Operation::kArraySet64,
                                   Operation::kArraySetVector};

}  // namespace

void Translator::struct_get(const Instruction& in) {
  const FieldLayout& field = field_of(in.index, in.index2);
  const Operation operation = form_of(field, in.op == Opcode::kStructGetS, kStructGets);
  const Entry reference = pop();
  const uint32_t slot = slot_of(reference);
  const bool is_wide = field.bytes == 16;
  const uint32_t at =
      is_wide ? result(operation, reference.slot, Bank::kVector) : result_in_slot(operation, reference.slot);
  emit_immediate(reference.slot, slot, field.offset);
  may_trap(at);
  push_slot(is_wide ? 2 : 1);
}

void Translator::struct_set(const Instruction& in) {
  const FieldLayout& field = field_of(in.index, in.index2);
  const Entry value = pop(), reference = pop();
  const uint32_t slot = slot_of(reference), value_slot = slot_of(value);
  const uint32_t at = emit(form_of(field, false, kStructSets));
  emit_immediate(slot, value_slot, field.offset);
  may_trap(at);
}

void Translator::array_get(const Instruction& in) {
  const FieldLayout& element = field_of(in.index, 0);
  const Operation operation = form_of(element, in.op == Opcode::kArrayGetS, kArrayGets);
  const Entry index = pop(), reference = pop();
  const uint32_t slot = slot_of(reference), index_slot = slot_of(index);
  const bool is_wide = element.bytes == 16;
  const uint32_t at =
      is_wide ? result(operation, reference.slot, Bank::kVector) : result_in_slot(operation, reference.slot);
  emit_slots(reference.slot, slot, index_slot);
  may_trap(at);
  push_slot(is_wide ? 2 : 1);
}

void Translator::array_set(const Instruction& in) {
  const Entry value = pop(), index = pop(), reference = pop();
  const uint32_t slot = slot_of(reference), index_slot = slot_of(index), value_slot = slot_of(value);
  const uint32_t at = emit(form_of(field_of(in.index, 0), false, kArraySets));
  emit_slots(slot, index_slot, value_slot);
  may_trap(at);
}

void Translator::unary_reference(Operation operation) {
  const Entry value = pop();
  const uint32_t slot = slot_of(value);
  const uint32_t at = result_in_slot(operation, value.slot);
  emit_slots(value.slot, slot);
  may_trap(at);
  push_slot();
}

namespace {

// What passes a test or cast, with its nullability.
ValType target_of(const Instruction& in) {
  return in.op == Opcode::kRefTest || in.op == Opcode::kRefCast ? wasm::non_null(in.ref_type) : in.ref_type;
}

}  // namespace

void Translator::reference_test(const Instruction& in) {
  const Entry value = pop();
  const uint32_t slot = slot_of(value);
  result_in_slot(Operation::kRefTest, value.slot);
  emit_slots(value.slot, slot);
  emit_constant(static_cast<uint32_t>(target_of(in)));
  push_slot();
}

void Translator::reference_cast(const Instruction& in) {
  const Entry value = pop();
  const uint32_t at = [&] {
    const uint32_t slot = slot_of(value);
    const uint32_t operation = emit(Operation::kRefCast);
    emit_slots(slot);
    return operation;
  }();
  emit_constant(static_cast<uint32_t>(target_of(in)));
  may_trap(at);
  push(value);
}

// The reference goes along, and is there also where the branch is not taken.
void Translator::branch_on_cast(const Instruction& in) {
  Label& target = walk_.target(in.index);
  const bool on_success = in.op == Opcode::kBrOnCast;
  settle_from(0);
  emit(Operation::kCastToAcc);
  emit_slots(stack_.back().slot);
  emit_constant(static_cast<uint32_t>(in.cast_type));
  accumulated_[static_cast<size_t>(Bank::kInteger)] = kNone;
  if (target.kind != Label::Kind::kFunction && values_in_place(target)) {
    emit(on_success ? Operation::kBrIfA : Operation::kBrUnlessA);
    link(target, emit_branch(0, 0));
  } else {
    branch_unless(on_success ? Operation::kBrUnlessA : Operation::kBrIfA, 0, target);
  }
}

void Translator::check_non_null() {
  const Entry reference = pop();
  const uint32_t slot = slot_of(reference);
  const uint32_t at = emit(Operation::kCheckNonNull);
  emit_slots(slot);
  may_trap(at);
  push(reference);
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

// Where a table's branch to a label leads; kNone for the label itself, where the values are in place.
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
    emit(stack_.back().width == 2               ? Operation::kReturnVector
         : in_accumulator(Bank::kInteger, slot) ? Operation::kReturnOneA
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

// Word 1 names where the arguments begin, and word 2 whom to call.
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

}  // namespace

void translate(CompiledModule& module, uint32_t index, std::vector<Word>& out, std::span<Recorder> recorders,
               CatchTable* catches) {
  CatchTable unwanted;
  Translator(module, index, out, recorders, catches == nullptr ? unwanted : *catches).run();
}

}  // namespace membrane::engine
