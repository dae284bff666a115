// One walk over a valid function body, for what makes code of it.
//
// BodyWalk reads the body once, from its bytes or from what the validator decoded, and owns what all visitors must
// agree on: the control stack (labels, where their values begin, whether what follows can be reached), the fuel
// segments and their costs, and the regions of try_table. What an instruction does to these is the flow column of
// opcodes.def, and is decided nowhere else. The visitor owns its picture of the operand stack, and writes the code.
//
//   struct MyLabel : BlockLabel { … };  // with what else the visitor knows of a label
//   MyVisitor visitor;
//   std::vector<MyLabel> scratch;
//   BodyWalk<MyVisitor, MyLabel> walk(visitor, scratch);
//   walk.run(module, function, locals_end, cost_of_entry);
//
// Invariants:
//  1. A segment is paid at its entry. Its instructions run one after the other, and none of them but the last may
//     leave. So one begins at each place where ways join, and after each instruction that may leave.
//  2. Ways join at a label's end if a branch or a clause that can be reached leads there, or if it is an `if`
//     without `else`. They join at a loop's head always.
//  3. Of what cannot be reached the visitor hears nothing but before() and after().
//
// What a visitor has:
//
//   void before(in)            for every instruction, also one that cannot be reached
//   bool after(in)             the same, when it is done; false ends the walk
//   void prepare(in)           of one that can be reached, before its cost is part of the segment
//   void instruction(in)       writes it: all but those that open, divide or close a block. A branch asks target()
//                              for its label
//   void begin_cost()          the open segment is about to cost something for the first time
//   void end_segment(cost)     the cost of the open segment is known
//   void begin_segment(offset) the next one begins, with the instruction at `offset`
//   void prepare_own(in)       of an instruction with a segment of its own, before that begins
//   void enter_segment()       code continues into a segment that is about to begin
//   size_t height()            values on its operand stack
//   uint32_t slot_at(i)        slot of the frame where value `i` is; the next free one if there are only `i`
//   void settle()              puts every value into its slot
//   void cut(height)           drops what is above so many values
//   void push_types(types)     pushes values that are in their slots
//   void begin_loop(label)     a segment is about to begin at its head
//   Test test()                takes the condition of an `if`, settles the rest, and writes the test
//   void begin_then(label, t)  what test() gave belongs to this label
//   void end_arm(label)        the first arm of an `if` ends: goes to the label's end
//   void begin_else(label)     the other arm begins; its parameters are on the stack
//   void join(label, falls_in) ways meet at the end of a block; whether the code before it is one of them
//   void finish()              the body ends, and its end can be reached
//   void add_clause(clause, label)  of the try_table that is about to open
//   void add_region(outer, first, count)  the region of a try_table, by number, and its clauses
//   void begin_region(number)  from here on this is the innermost; kNoRegion for none
//
// Threads: a walk belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "wasm/block_signature.h"
#include "wasm/body.h"
#include "wasm/decoded_body.h"
#include "wasm/module.h"

namespace membrane::wasm {

inline constexpr uint32_t kNoRegion = UINT32_MAX;
inline constexpr uint32_t kNoLocal = UINT32_MAX;

// What the walk knows of an open block.
struct BlockLabel {
  enum class Kind : uint8_t { kBlock, kLoop, kIf, kElse, kFunction } kind = Kind::kBlock;
  bool is_joined = false;       // a branch or a clause leads to its end
  uint32_t height = 0;          // values below the label's parameters
  uint32_t slot_height = 0;     // slot of the frame where its parameters and results begin
  uint32_t branch_values = 0;   // that a branch to it carries
  uint32_t region = kNoRegion;  // of a try_table with clauses, and the one around it
  uint32_t outer_region = kNoRegion;
  uint32_t loop = 0;  // kLoop: its number among the loops of the body, also those that are not reached
  std::span<const ValType> params, results;
};

namespace detail {

// The two columns of opcodes.def that are read for every instruction.
struct WalkRow {
  uint8_t cost;
  Flow flow;
};
inline constexpr std::array<WalkRow, kOpcodeCount> kWalkRows = [] consteval {
  std::array<WalkRow, kOpcodeCount> rows{};
  for (size_t i = 0; i < kOpcodeCount; ++i) rows[i] = {kOpcodes[i].cost, kOpcodes[i].flow};
  return rows;
}();

}  // namespace detail

template <typename Visitor, typename Label>
class BodyWalk {
 public:
  // `scratch` is memory that is kept from one walk to the next; it must outlive the walk.
  BodyWalk(Visitor& visitor, std::vector<Label>& scratch) : visitor_(visitor), labels_(scratch) {}

  // Walks a valid body. `locals_end` is the slot where operands begin, `entry_cost` what entering the function
  // adds to its first segment. False when the visitor ended it.
  bool run(const Module& module, const Function& function, uint32_t locals_end, uint32_t entry_cost);
  // The same of a body that was decoded already, and is whole.
  bool run(const Module& module, const Function& function, uint32_t locals_end, uint32_t entry_cost,
           const DecodedBody& decoded);

  // -- for the visitor, while it is being called
  [[nodiscard]] uint32_t offset() const { return offset_; }            // of the instruction at hand
  [[nodiscard]] uint32_t next_offset() const { return next_offset_; }  // and of the one after it
  // The local that this one sets, when it is a local.set or local.tee and the index has one byte; else kNoLocal.
  [[nodiscard]] uint32_t next_local_set() const {
    constexpr auto kSet = static_cast<uint8_t>(info(Opcode::kLocalSet).code);
    constexpr auto kTee = static_cast<uint8_t>(info(Opcode::kLocalTee).code);
    const uint8_t* const next = body_ + next_offset_;
    // The body ends with `end`, which is neither of these: after either a byte follows.
    return (next[0] == kSet || next[0] == kTee) && next[1] < 0x80 ? next[1] : kNoLocal;
  }
  [[nodiscard]] uint32_t cost() const { return cost_; }  // of the open segment, up to here
  [[nodiscard]] uint32_t segment_offset() const { return segment_offset_; }  // of its first instruction
  [[nodiscard]] Label& label(uint32_t depth) { return labels_[labels_.size() - 1 - depth]; }
  // The same, for a branch that leads there.
  [[nodiscard]] Label& target(uint32_t depth) {
    Label& found = label(depth);
    found.is_joined = true;
    return found;
  }
  [[nodiscard]] Label& function_label() { return labels_.front(); }
  [[nodiscard]] size_t label_count() const { return labels_.size(); }
  // Begins another segment of no cost: for a way of the visitor's own, as a taken branch that moves values.
  void begin_segment(uint32_t offset) {
    visitor_.end_segment(cost_);
    cost_ = 0;
    segment_offset_ = offset;
    visitor_.begin_segment(offset);
  }

 private:
  using Kind = BlockLabel::Kind;

  void start(const Module& module, const Function& function, uint32_t locals_end, uint32_t entry_cost);
  template <typename Reader>
  bool walk(Reader& reader);
  [[gnu::always_inline]] void step(const Instruction& in) {
    if (!is_reachable_) [[unlikely]]
      return skip(in);
    visitor_.prepare(in);
    const detail::WalkRow row = detail::kWalkRows[static_cast<size_t>(in.op)];
    if (row.flow != Flow::kStraight) return control(in, row);
    add_cost(row.cost);
    visitor_.instruction(in);
  }
  void add_cost(uint32_t cost) {
    if (cost_ == 0 && cost != 0) visitor_.begin_cost();
    cost_ += cost;
  }
  void skip(const Instruction& in);
  void control(const Instruction& in, detail::WalkRow row);
  void begin_own_segment(const Instruction& in, Flow flow);
  Label& push_label(Kind kind, const BlockType& block);
  void open_loop(const Instruction& in);
  void open_if(const Instruction& in);
  void open_try(const Instruction& in);
  void begin_else();
  void close();
  void leave() {
    is_reachable_ = false;
    skipped_blocks_ = 0;
    visitor_.cut(labels_.back().height);
  }

  Visitor& visitor_;
  const Module* module_ = nullptr;
  const uint8_t* body_ = nullptr;  // its bytes
  std::vector<Label>& labels_;
  uint32_t offset_ = 0, next_offset_ = 0;
  uint32_t cost_ = 0, segment_offset_ = 0;
  bool is_reachable_ = true;
  uint32_t skipped_blocks_ = 0;  // open blocks that began where nothing is reached
  uint32_t loop_count_ = 0, clause_count_ = 0, region_count_ = 0;
  uint32_t region_ = kNoRegion;  // the innermost
};

template <typename Visitor, typename Label>
void BodyWalk<Visitor, Label>::start(const Module& module, const Function& function, uint32_t locals_end,
                                     uint32_t entry_cost) {
  module_ = &module;
  body_ = module.view(function.code).data();
  labels_.clear();
  offset_ = next_offset_ = cost_ = segment_offset_ = 0;
  is_reachable_ = true;
  skipped_blocks_ = loop_count_ = clause_count_ = region_count_ = 0;
  region_ = kNoRegion;
  Label& body = labels_.emplace_back();
  body.kind = Kind::kFunction;
  body.slot_height = locals_end;
  body.results = module.types[function.type].results;
  body.branch_values = static_cast<uint32_t>(body.results.size());
  visitor_.begin_segment(0);
  add_cost(entry_cost);
}

template <typename Visitor, typename Label>
bool BodyWalk<Visitor, Label>::run(const Module& module, const Function& function, uint32_t locals_end,
                                   uint32_t entry_cost) {
  start(module, function, locals_end, entry_cost);
  BodyReader reader(module.view(function.code));
  return walk(reader);
}

template <typename Visitor, typename Label>
bool BodyWalk<Visitor, Label>::run(const Module& module, const Function& function, uint32_t locals_end,
                                   uint32_t entry_cost, const DecodedBody& decoded) {
  start(module, function, locals_end, entry_cost);
  DecodedReader reader(decoded, module.view(function.code));
  return walk(reader);
}

template <typename Visitor, typename Label>
template <typename Reader>
bool BodyWalk<Visitor, Label>::walk(Reader& reader) {
  while (reader.next()) {
    const Instruction& in = reader.instruction();
    offset_ = in.offset;
    next_offset_ = in.offset + in.size;
    visitor_.before(in);
    step(in);
    if (!visitor_.after(in)) [[unlikely]]
      return false;
  }
  visitor_.end_segment(cost_);
  return true;
}

// Of what cannot be reached, only the block structure counts.
template <typename Visitor, typename Label>
void BodyWalk<Visitor, Label>::skip(const Instruction& in) {
  switch (detail::kWalkRows[static_cast<size_t>(in.op)].flow) {
    case Flow::kLoops: ++loop_count_; [[fallthrough]];
    case Flow::kOpens:
    case Flow::kTests: ++skipped_blocks_; return;
    case Flow::kElse:
      if (skipped_blocks_ == 0) begin_else();
      return;
    case Flow::kCloses:
      if (skipped_blocks_ == 0) return close();
      --skipped_blocks_;
      return;
    default: return;
  }
}

// What is done for each value of the flow column.
template <typename Visitor, typename Label>
void BodyWalk<Visitor, Label>::control(const Instruction& in, detail::WalkRow row) {
  const bool has_own_segment = row.flow == Flow::kBulk || row.flow == Flow::kOwn || row.flow == Flow::kThrows;
  if (has_own_segment) begin_own_segment(in, row.flow);
  add_cost(row.cost);
  switch (row.flow) {
    case Flow::kOpens:
      if (in.op == Opcode::kTryTable) return open_try(in);
      visitor_.settle();
      push_label(Kind::kBlock, in.block);
      return;
    case Flow::kLoops: return open_loop(in);
    case Flow::kTests: return open_if(in);
    case Flow::kElse: return begin_else();
    case Flow::kCloses: return close();
    case Flow::kForks:
    case Flow::kBulk:
    case Flow::kOwn: visitor_.instruction(in); return begin_segment(next_offset_);
    case Flow::kLeaves:
    case Flow::kThrows: visitor_.instruction(in); return leave();
    case Flow::kStraight: visitor_.instruction(in);
  }
}

template <typename Visitor, typename Label>
void BodyWalk<Visitor, Label>::begin_own_segment(const Instruction& in, Flow flow) {
  visitor_.prepare_own(in);
  // That there is no more than one for an offset is how a snapshot finds it.
  if (flow != Flow::kBulk && segment_offset_ == in.offset) return;
  visitor_.enter_segment();
  begin_segment(in.offset);
}

// Everything on the stack is in its slot.
template <typename Visitor, typename Label>
Label& BodyWalk<Visitor, Label>::push_label(Kind kind, const BlockType& block) {
  const auto [params, results] = signature_of(*module_, block);
  const auto height = static_cast<uint32_t>(visitor_.height() - params.size());
  const uint32_t slot_height = visitor_.slot_at(height);
  Label& label = labels_.emplace_back();
  label.kind = kind;
  label.height = height;
  label.slot_height = slot_height;
  label.branch_values = static_cast<uint32_t>(kind == Kind::kLoop ? params.size() : results.size());
  label.params = params;
  label.results = results;
  return label;
}

template <typename Visitor, typename Label>
void BodyWalk<Visitor, Label>::open_loop(const Instruction& in) {
  visitor_.settle();
  Label& label = push_label(Kind::kLoop, in.block);
  label.loop = loop_count_++;
  visitor_.begin_loop(label);
  begin_segment(next_offset_);
}

template <typename Visitor, typename Label>
void BodyWalk<Visitor, Label>::open_if(const Instruction& in) {
  const auto test = visitor_.test();
  visitor_.begin_then(push_label(Kind::kIf, in.block), test);
  begin_segment(next_offset_);
}

// Nothing is done when a try_table is entered or left, but that its region is noted.
template <typename Visitor, typename Label>
void BodyWalk<Visitor, Label>::open_try(const Instruction& in) {
  const uint32_t first = clause_count_;
  CatchReader clauses(in);
  for (uint32_t i = 0; i < in.count; ++i, ++clause_count_) {
    const CatchClause clause = clauses.next();
    visitor_.add_clause(clause, target(clause.label));
  }
  visitor_.settle();
  Label& label = push_label(Kind::kBlock, in.block);
  if (in.count == 0) return;
  label.outer_region = region_;
  label.region = region_count_++;
  visitor_.add_region(region_, first, in.count);
  region_ = label.region;
  visitor_.begin_region(region_);
}

template <typename Visitor, typename Label>
void BodyWalk<Visitor, Label>::begin_else() {
  Label& label = labels_.back();
  if (is_reachable_) {
    visitor_.end_arm(label);
    label.is_joined = true;
  }
  is_reachable_ = true;
  visitor_.cut(label.height);
  visitor_.push_types(label.params);
  visitor_.begin_else(label);
  label.kind = Kind::kElse;
  begin_segment(next_offset_);
}

template <typename Visitor, typename Label>
void BodyWalk<Visitor, Label>::close() {
  Label& label = labels_.back();
  if (label.kind == Kind::kFunction) {
    if (is_reachable_) visitor_.finish();
    labels_.pop_back();
    return;
  }
  if (label.region != kNoRegion) visitor_.begin_region(region_ = label.outer_region);
  const bool joins = (label.is_joined && label.kind != Kind::kLoop) || label.kind == Kind::kIf;
  if (joins) visitor_.join(label, is_reachable_);
  if (joins || !is_reachable_) {  // where nothing is reached, the picture must be whole all the same
    visitor_.cut(label.height);
    visitor_.push_types(label.results);
  }
  labels_.pop_back();
  if (!joins) return;
  is_reachable_ = true;
  begin_segment(next_offset_);
}

}  // namespace membrane::wasm
