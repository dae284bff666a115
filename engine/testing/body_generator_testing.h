// Makes the body of one function: one choice after the other, among the instructions that fit the types on
// the stack.
//
// Threads: belongs to the call of generate_module().
#pragma once

#include <cstdint>
#include <vector>

#include "engine/testing/generator_parts_testing.h"

namespace membrane::engine::generator {

class BodyGenerator {
 public:
  BodyGenerator(Choices& choices, TypeSection& types, const std::vector<wasm::FuncType>& functions,
                const std::vector<Types>& tags, uint32_t self)
      : choices_(choices),
        types_(types),
        functions_(functions),
        tags_(tags),
        self_(self),
        locals_(functions[self].params) {}

  Bytes generate();

 private:
  struct Label {
    Types branch;  // what a branch to it carries
    size_t floor;  // of the stack in the block
  };

  // -- writing
  void put(Opcode op) { append_opcode(out_, op); }
  void put(Opcode op, uint32_t index);
  void constant_i32(uint32_t value);
  void little_endian(uint64_t bits, int bytes);
  void constant(ValType type);
  // Numbers that are the edges of some lanes, or any bytes.
  void vector_bytes();

  // -- the stack
  void push(ValType type) { stack_.push_back(type); }
  void push(const Types& list) { stack_.insert(stack_.end(), list.begin(), list.end()); }
  void drop_types(size_t count) { stack_.resize(stack_.size() - count); }
  size_t height() const { return stack_.size() - labels_.back().floor; }
  bool top_is(const Types& list, size_t count) const;
  // Makes `wanted` the top of the stack. The longest prefix that is there already is used.
  void demand(const Types& wanted);
  void leaf(ValType type);
  static bool has_global(ValType type) { return type != kShorts && type != kPairs && type != kAnyRef; }
  uint32_t global_of(ValType type) const;
  bool find_local(ValType type, size_t most, uint32_t& found);
  bool local_get(ValType type);
  void drop();
  // Consumes the top by one way or another.
  void consume();
  // Makes the block's stack exactly `results`.
  void finish(const Types& results);

  // -- instructions
  void instructions(uint32_t count);
  void instruction();
  // After arithmetic on floats, whose NaNs differ between machines: makes them all one.
  void settle_nans(Opcode op);
  void vector_instruction(const Plain& entry);
  void plain_instruction(const Plain& entry);
  // A value that is computed (and so has a slot of its own), is a local, or is a constant.
  void operand(ValType type);
  // An operation on the result of another, which the translator may fuse with it: operands of every
  // kind on each side.
  void chain();
  // Memory 0, and seldom memory 1.
  uint32_t memory() { return choices_.one_in(6) && !choices_.is_shared() ? 1 : 0; }

  // Makes an i32 on the stack an address that is mostly in bounds.
  void address();
  void memory_access(const Plain& entry);
  void local_set(Opcode op);
  void select();

  // -- control
  void open(Opcode op, const Types& params, const Types& results);
  // Ends the block; its results replace what is in it.
  void close(const Types& results);
  bool is_deep() const { return labels_.size() > 6; }
  void block();
  void if_else();
  void loop();
  uint32_t some_label() { return choices_.below(static_cast<uint32_t>(labels_.size())); }
  const Label& label(uint32_t depth) const { return labels_[labels_.size() - 1 - depth]; }
  void branch_if();
  void compare_and_branch();
  // Leaves the block: br, br_table, return, a tail call or unreachable. The rest of the block is dead
  // code.
  void leave();
  void branch_table(uint32_t depth);
  void call();
  // Of a function with the results of this one, mostly a later one; without another, of itself.
  void tail_call();
  void call_indirect();

  // -- exceptions
  void exception_instruction();
  // Half of them under a condition, since the code after a throw is not reached.
  void throw_tag();
  void throw_ref();
  void open_condition();
  void close_condition(bool always);
  struct Clause {
    uint8_t kind;
    uint32_t tag, label;
  };
  Types caught_by(const Clause& clause) const;
  Clause some_clause(uint32_t label);
  // A block that takes what its first clause catches; others go to any label that fits what they catch.
  void try_table();

  // -- references
  void put(Opcode op, uint32_t index, uint32_t index2);
  void null(ValType type);
  void number(uint32_t value);
  void open_plain(const Types& params, const Types& results);
  void new_pair();
  // Replaces null, which would end the program, by another reference; but not always.
  void non_null(ValType type);
  uint32_t short_index() { return choices_.below(choices_.one_in(8) ? 9 : 4); }
  void reference_instruction();
  void make_object();
  void pair_instruction();
  void shorts_instruction();
  void pairs_instruction();
  void any_instruction();
  void test();
  // By a branch, or where it may end the program.
  void cast();
  void call_reference();
  void branch_on_null();

  // -- memory and tables
  void small_length();
  void memory_bulk();
  void table_index();
  void reference();
  void table_instruction();

  Choices& choices_;
  TypeSection& types_;
  const std::vector<wasm::FuncType>& functions_;
  const std::vector<Types>& tags_;  // none where there are no exceptions
  const uint32_t self_;
  Types locals_;
  size_t settable_ = 0;      // locals that may be set: not the counters
  uint32_t first_kept_ = 0;  // the locals of settle_nans(), an f32, an f64 and a v128
  uint32_t loops_ = 0;       // that are open
  Types stack_;
  std::vector<Label> labels_;
  Bytes out_;
};

}  // namespace membrane::engine::generator
