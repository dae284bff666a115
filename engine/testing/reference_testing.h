// A second interpreter, for tests: slow, and simple enough to be checked by reading.
//
// It walks the instructions as they are in the module, with one stack of values and one of labels,
// as the specification's chapter 4.4 describes it. Nothing is translated, fused or deferred, and fuel
// is added up instruction by instruction. What it shares with the engine is the decoder, the opcode
// table, the cost functions (fuel.h) and the functions of numeric.h; the official test suite holds
// those to the specification. It computes vectors by itself (reference_vectors_testing.h).
//
// It runs modules without imports.
//
// Ownership: the module must outlive it. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/code/trap.h"
#include "engine/instance/instance.h"
#include "engine/testing/reference_vectors_testing.h"
#include "wasm/body.h"
#include "wasm/module.h"

namespace membrane::engine {

// A reference is the index of the function or exception plus one, 0 for null; to an i31 or an object an odd number,
// or the object's index times four and two.
struct ReferenceOutcome {
  enum class End : uint8_t { kFinished, kTrapped, kTooLong } end = End::kFinished;
  std::vector<Value> results;
  TrapKind trap{};
  uint32_t function = 0;     // where it trapped
  uint32_t code_offset = 0;  // into Module::bytes
  uint64_t fuel = 0;         // of all instructions executed, the trapping one included
};

class Reference {
 public:
  // Makes memory, tables and globals. `ok()` is false when an active segment does not fit.
  explicit Reference(const wasm::Module& module);
  [[nodiscard]] bool ok() const { return ok_; }

  // kTooLong as soon as more than `most_fuel` is used. `most_depth`: calls within the call.
  ReferenceOutcome call(uint32_t function, std::span<const Value> arguments, uint64_t most_fuel,
                        uint32_t most_depth);

  std::vector<std::vector<uint8_t>> memories;
  std::vector<Cell> globals;
  std::vector<std::vector<uint64_t>> tables;

 private:
  struct Stop {};  // thrown within call(): a trap, or too long
  struct Exception {
    uint32_t tag = 0;
    std::vector<Cell> payload;
  };
  // Thrown where the program throws, and caught by each function on the way.
  struct Throw {
    Exception exception;
    uint64_t reference = 0;            // when it was caught before
    uint32_t function, offset;         // of the instruction
    uint64_t frames = 0, clauses = 0;  // left, and looked at
  };
  struct Label {
    size_t target;  // the instruction where a branch to it continues
    size_t height;  // of the operand stack below its values
    size_t arity;   // values that a branch carries
    bool is_loop;
    const wasm::Instruction* try_table = nullptr;
  };
  struct Object {
    uint32_t type = 0;
    std::vector<Cell> fields;
  };
  struct Body {
    std::vector<wasm::Instruction> code;
    std::vector<size_t> end_of, else_of;  // of each block, loop and if; else_of is end_of when it has none
  };

  const Body& body_of(uint32_t function);
  void run(uint32_t function, uint32_t depth);
  // The function that a tail call names, if it ended with one.
  std::optional<uint32_t> run_body(uint32_t function, uint32_t depth);
  uint32_t indirect_callee(const wasm::Instruction& in);
  void step(const wasm::Instruction& in);
  void numeric(const wasm::Instruction& in);
  [[noreturn]] void throw_exception(const wasm::Instruction& in);
  std::optional<uint32_t> find_clause(const wasm::Instruction& try_table, Throw& thrown);
  void pay(const Throw& thrown);
  ReferenceOutcome uncaught(const Throw& thrown);
  void access(const wasm::Instruction& in);
  void vector_access(const wasm::Instruction& in);
  void vector(const wasm::Instruction& in);
  void bulk(const wasm::Instruction& in);
  // reference_objects_testing.cc
  void reference(const wasm::Instruction& in);
  void allocate(uint32_t type, std::vector<Cell> fields);
  void make_array(const wasm::Instruction& in);
  void struct_access(const wasm::Instruction& in);
  void array_access(const wasm::Instruction& in);
  void array_bulk(const wasm::Instruction& in);
  Object& object(uint64_t reference, TrapKind null);
  [[nodiscard]] bool is_of(uint64_t reference, wasm::ValType type) const;
  [[nodiscard]] Cell evaluate(wasm::ByteRange range) const;
  [[nodiscard]] uint64_t number(wasm::ByteRange range) const { return evaluate(range).get<uint64_t>(0); }

  void spend(uint64_t fuel);
  [[noreturn]] void trap(TrapKind kind);
  void push(uint64_t bits) { stack_.emplace_back(bits); }
  void push_cell(const Cell& value) { stack_.push_back(value); }
  Cell pop_cell() {
    const Cell value = stack_.back();
    stack_.pop_back();
    return value;
  }
  uint64_t pop() { return pop_cell().get<uint64_t>(0); }
  uint32_t pop32() { return static_cast<uint32_t>(pop()); }
  uint64_t pop_address(const wasm::Limits& limits) { return limits.is_64 ? pop() : pop32(); }

  const wasm::Module& module_;
  bool ok_ = true;
  std::vector<Body> bodies_;
  std::vector<std::vector<uint64_t>> elements_;
  std::vector<std::span<const uint8_t>> datas_;
  std::vector<Cell> stack_;
  std::vector<Exception> exceptions_;  // that were caught with a reference
  std::vector<Object> objects_;        // all that were made

  uint32_t function_ = 0;  // that runs, and where
  uint32_t offset_ = 0;
  uint64_t most_fuel_ = 0;
  uint32_t most_depth_ = 0;
  ReferenceOutcome outcome_;
};

}  // namespace membrane::engine
