// Validates instruction sequences: function bodies and constant expressions. The algorithm of
// appendix A.3 of the specification, with these invariants:
//
//  1. The operand stack is [base_, top_); the innermost block's part of it is [floor_, top_).
//     Values below floor_ cannot be reached until the block ends.
//  2. In a block marked unreachable, popping at floor_ gives kBottom, which matches every type.
//  3. When an instruction begins, before_ == top_. A check that fails before the instruction pushed
//     anything can therefore show the stack as it was: popping moves top_ and erases nothing.
//  4. When an instruction begins there is room for one more value; whatever pushes more asks first.
//  5. wide_ is the number of v128 among [base_, top_).
//
// Threads: belongs to one thread. Scratch memory is kept from one function to the next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/inline_vector.h"
#include "base/stop_scope.h"
#include "wasm/block_signature.h"
#include "wasm/body.h"
#include "wasm/decoded_body.h"
#include "wasm/module.h"
#include "wasm/report.h"
#include "wasm/type_relations.h"
#include "wasm/validate.h"

namespace membrane::wasm {

// The instructions whose types depend on the module or the stack, and the method for each. That
// these are exactly the rows of the opcode table with signature "*" is asserted in validate_code.cc.
// clang-format off
#define MEMBRANE_SPECIAL_OPCODES(X)                                           \
  X(kUnreachable, unreachable) X(kBlock, block) X(kLoop, loop)                \
  X(kIf, if) X(kElse, else) X(kEnd, end)                                      \
  X(kBr, br) X(kBrIf, br_if) X(kBrTable, br_table)                            \
  X(kTryTable, try_table) X(kThrow, throw) X(kThrowRef, throw_ref)            \
  X(kReturn, return) X(kCall, call) X(kCallIndirect, call_indirect)           \
  X(kReturnCall, return_call)                                                 \
  X(kReturnCallIndirect, return_call_indirect)                                \
  X(kCallRef, call_ref) X(kReturnCallRef, return_call_ref)                    \
  X(kBrOnNull, br_on_null) X(kBrOnNonNull, br_on_non_null)                    \
  X(kDrop, drop) X(kSelect, select) X(kSelectTyped, select_typed)             \
  X(kLocalGet, local_get) X(kLocalSet, local_set) X(kLocalTee, local_tee)     \
  X(kGlobalGet, global_get) X(kGlobalSet, global_set) X(kTableGet, table_get) \
  X(kTableSet, table_set) X(kTableGrow, table_grow) X(kTableFill, table_fill) \
  X(kRefNull, ref_null) X(kRefIsNull, ref_is_null) X(kRefFunc, ref_func)      \
  X(kRefAsNonNull, ref_as_non_null) X(kRefEq, ref_eq)                         \
  X(kStructNew, struct_new) X(kStructNewDefault, struct_new_default)          \
  X(kStructGet, struct_get) X(kStructSet, struct_set)                         \
  X(kArrayNew, array_new) X(kArrayNewDefault, array_new_default)              \
  X(kArrayNewFixed, array_new_fixed) X(kArrayNewData, array_new_data)         \
  X(kArrayNewElem, array_new_elem) X(kArrayGet, array_get)                    \
  X(kArraySet, array_set)                                                     \
  X(kArrayLen, array_len) X(kArrayFill, array_fill) X(kArrayCopy, array_copy) \
  X(kArrayInitData, array_init_data) X(kArrayInitElem, array_init_elem)       \
  X(kRefTest, ref_test) X(kRefCast, ref_cast)                                 \
  X(kBrOnCast, br_on_cast) X(kBrOnCastFail, br_on_cast_fail)                  \
  X(kAnyConvertExtern, any_convert_extern)                                    \
  X(kExternConvertAny, extern_convert_any)                                    \
  X(kRefI31, ref_i31) X(kI31GetS, i31_get)
// Those that have the method of another.
#define MEMBRANE_SHARING_OPCODES(X)                                 \
  X(kStructGetS, struct_get) X(kStructGetU, struct_get)             \
  X(kArrayGetS, array_get) X(kArrayGetU, array_get)                 \
  X(kRefTestNull, ref_test) X(kRefCastNull, ref_cast)               \
  X(kI31GetU, i31_get)
// clang-format on

class CodeValidator {
 public:
  // All three must outlive the validator; failures go to `report`.
  CodeValidator(const Module& module, Report& report);
  CodeValidator(const CodeValidator&) = delete;
  CodeValidator& operator=(const CodeValidator&) = delete;

  // A defined function. False when it is invalid. `notes` are filled, unless they are null.
  bool function(uint32_t index, FunctionInfo& info, BodyNotes* notes = nullptr);
  // See wasm::stack_types_at; the function is valid.
  void stack_types_at(uint32_t index, std::span<const uint32_t> offsets,
                      const std::function<bool(size_t, const StackTypes&)>& take);
  // Whether the function's body is in the binary format at all; its types are not looked at.
  bool well_formed(uint32_t index);
  // Of declarations: reports nothing.
  [[nodiscard]] bool is_known(ValType type) const {
    return !is_indexed(type) || type_index_of(type) < module_.types.size();
  }
  TypeRelations& relations() { return relations_; }
  // A constant expression that must give one value of `type` and may read the first `globals` globals.
  // `noun` and `index` say what it is for ("the initial value of global", 3).
  bool constant(ByteRange code, ValType type, uint32_t globals, std::string_view noun, uint32_t index);

 private:
  using Types = std::span<const ValType>;

  struct Frame {
    Types params;         // on the stack at the block's start
    Types results;        // and at its end
    uint32_t height;      // of the operand stack below the block, in values
    uint32_t offset;      // of the block's own instruction
    uint32_t set_locals;  // of the locals that begin without a value: how many had one at the block's start
    Opcode op;            // kBlock (also for a whole body), kLoop, kIf, kElse or kTryTable
    bool is_unreachable;  // after an unconditional branch
    [[nodiscard]] Types label_types() const { return op == Opcode::kLoop ? params : results; }
  };

  // -- the walk
  void begin(ByteRange code, Types results);
  enum class Walk : uint8_t { kFunction, kConstant, kStackTypes };
  template <Walk kWalk>
  bool walk(ByteRange code);
  bool note_stack_types(const Instruction& in);
  bool finish(const BodyReader& reader);
  bool fail_malformed(const BodyReader& reader);
  bool special(const Instruction& in);
  bool addressed(const Instruction& in);
#define X(id, method) bool on_##method(const Instruction& in);
  MEMBRANE_SPECIAL_OPCODES(X)
#undef X

  // -- the operand stack
  Frame& frame() { return frames_.back(); }
  void push(ValType type) {
    *top_++ = type;
    wide_ += type == ValType::kV128;
    note_height();
  }
  void note_height() {
    if (top_ > highest_ || wide_ != 0) [[unlikely]]
      raise_height();
  }
  void raise_height();
  bool push_all(Types types);
  // The pops return false on a missing or wrong value, and report nothing.
  bool pop_any(ValType& type) {
    if (top_ == floor_) [[unlikely]] {
      type = ValType::kBottom;
      return frame().is_unreachable;
    }
    type = *--top_;
    wide_ -= type == ValType::kV128;
    return true;
  }
  bool pop(ValType expected) {
    ValType actual{};
    return pop_any(actual) && fits(actual, expected);
  }
  [[nodiscard]] bool fits(ValType actual, ValType expected) {
    return actual == expected || actual == ValType::kBottom ||
           (is_ref(expected) && ref_fits(actual, expected));
  }
  // A supertype is searched for step by step, and one instruction may ask for thousands of types: so each asks the owner,
  // and nothing fits once that wants to stop.
  [[gnu::noinline]] bool ref_fits(ValType actual, ValType expected) {
    return !StopScope::stop_wanted(kStepsOfSearch) && relations_.matches(actual, expected);
  }
  static constexpr uint64_t kStepsOfSearch = 32;
  bool fit(Types actual, Types expected);
  bool pop_all(Types types);
  [[nodiscard]] bool holds(Types types);  // whether pop_all would succeed; pops nothing
  [[nodiscard]] bool is_topped_by(Types types) const;
  bool reserve(size_t values);
  void clear_block();
  void mark_unreachable();

  // -- validate_short.cc
  template <bool kNotes>
  class ShortRun;
  enum class Taken : uint8_t { kSome, kAll, kFailed };
  // Takes the next instructions of a function, as long as they are short, frequent and right. The caller takes the one after
  // them, if it is not all, and reports what is wrong. No v128 is on the stack, and there are kShortBytes left at least.
  static constexpr size_t kShortBytes = 8;
  Taken take_short(BodyReader& reader);

  // What follows is grouped by file. Look-ups return null or false after having reported; tests named as questions report
  // when the answer is no.

  // -- validate_immediates.cc
  bool check_immediate(const Instruction& in, uint8_t limit);
  bool check_constant(const Instruction& in);
  bool has_data_count(const Instruction& in);

  // -- validate_control.cc
  bool push_frame(const Instruction& in);
  bool nests_too_deep(const Instruction& in);  // true after having reported
  bool else_fits(const Instruction& in);
  bool clauses(const Instruction& in);
  bool clause_fits(const Instruction& in, const CatchClause& clause);
  bool block_signature(const Instruction& in, BlockSignature& signature);
  const Frame* label(const Instruction& in, uint32_t depth);
  const FuncType* tag_type(const Instruction& in, uint32_t index);
  const FuncType* function_type(const Instruction& in, uint32_t index);
  const FuncType* callee_type(const Instruction& in);
  const FuncType* indirect_type(const Instruction& in);
  const FuncType* referenced_type(const Instruction& in);
  // `last` is what stands after the arguments: an index, or kBottom for nothing.
  bool pop_arguments(const FuncType& type, ValType last, const Instruction& in);
  bool call_type(const FuncType* type, ValType last, const Instruction& in);
  bool tail_call_type(const FuncType* type, ValType last, const Instruction& in);

  // -- validate_variables.cc
  bool prepare_locals(uint32_t index, FunctionInfo& info);
  bool known(const Instruction& in, ValType type);
  bool local_type(const Instruction& in, ValType& type);
  bool has_value(const Instruction& in, ValType type);
  void note_set(uint32_t local, ValType type);
  void forget_set(uint32_t count);
  const Global* global(const Instruction& in);
  const Table* table(const Instruction& in, uint32_t index);
  [[nodiscard]] ValType address_of_table(uint32_t index) const {
    return address_type(module_.tables[index].type.limits);
  }

  // -- validate_references.cc
  // A reference, of any type; kBottomRef for what is below unreachable code.
  bool pop_ref(const Instruction& in, ValType& type);
  bool is_declared(uint32_t function);
  bool needs_kind(const Instruction& in, uint32_t type, TypeKind kind);
  const FieldType* struct_field(const Instruction& in);
  const FieldType* array_field(const Instruction& in, uint32_t type);
  bool must_be_mutable(const Instruction& in, const FieldType& field);
  bool fits_packing(const Instruction& in, const FieldType& field);
  bool has_segment(const Instruction& in, bool of_elements);
  bool element_fits(const Instruction& in, const FieldType& field);
  bool is_defaultable_field(const Instruction& in, const FieldType& field);
  bool take(const Instruction& in, Types operands, ValType result);
  bool cast_target(const Instruction& in, ValType& target);
  bool fail_types(const Instruction& in, DiagnosticCode code, std::string message, ValType found,
                  ValType expected);

  // -- validate_failures.cc; always false
  bool fail(const Instruction& in, Diagnostic d);
  bool fail_stack(const Instruction& in, Types expected, DiagnosticCode mismatch, std::string_view taker);
  bool are_swapped(Types expected, Types stack);
  bool fail_operands(const Instruction& in, Types expected);
  bool fail_operands(const Instruction& in, Types expected, ValType last);
  bool fail_results(const Instruction& in, const Frame& at);
  bool fail_branch(const Instruction& in, const Frame& at, bool has_condition);
  bool fail_unknown(const Instruction& in, DiagnosticCode code, std::string_view noun, uint32_t index,
                    size_t count);
  std::string describe_block(const Frame& at) const;

  const Module& module_;
  Report& report_;
  TypeRelations relations_;
  bool has_wide_addresses_ = false;  // a memory or table with 64-bit addresses
  bool has_plain_memory_ = false;    // there is a memory, and no wide address
  uint32_t code_offset_ = 0;         // of the code at hand, into Module::bytes

  InlineVector<Frame, 12> frames_;
  std::vector<bool> seen_labels_;  // of a br_table, by depth
  static constexpr size_t kInlineValues = 128;
  ValType inline_stack_[kInlineValues];
  std::unique_ptr<ValType[]> heap_stack_;
  ValType* base_ = inline_stack_;
  ValType* top_ = base_;
  ValType* floor_ = base_;
  ValType* before_ = base_;
  ValType* limit_ = base_ + kInlineValues;
  ValType* highest_ = base_;  // top_ has been
  uint32_t wide_ = 0;
  uint32_t max_values_ = 0;
  uint32_t max_slots_ = 0;
  uint32_t max_nesting_ = 0;
  bool has_calls_ = false;
  bool uses_simd_ = false;
  LocalUses* uses_ = nullptr;       // of the function at hand; null when not asked for
  DecodedBody* decoded_ = nullptr;  // the same

  uint32_t function_ = UINT32_MAX;  // at hand, or UINT32_MAX in a constant expression
  uint32_t local_count_ = 0;
  uint32_t param_count_ = 0;
  bool has_unset_locals_ = false;     // some begin without a value
  uint32_t direct_locals_ = 0;        // local.get of those below needs nothing but locals_
  std::vector<bool> is_set_;          // of locals, when has_unset_locals_
  std::vector<uint32_t> set_locals_;  // in the order in which they were set
  struct FarRun {
    uint32_t end;  // index of the first local after it
    ValType type;
  };
  std::vector<FarRun> far_runs_;      // of locals, those that end after the ones in locals_
  InlineVector<ValType, 64> locals_;  // types of the first locals; see local_type()

  // Of stack_types_at().
  std::span<const uint32_t> wanted_offsets_;
  size_t next_wanted_ = 0;
  const std::function<bool(size_t, const StackTypes&)>* take_ = nullptr;
  StackTypes stack_types_;

  std::string_view constant_noun_;  // what the constant expression at hand is for
  uint32_t constant_index_ = 0;
  uint32_t constant_globals_ = 0;  // that it may read

  std::vector<bool> declared_;  // by function: may ref.func name it? Filled at the first question.
};

}  // namespace membrane::wasm
