// Validation of WebAssembly 3.0 modules (specification, chapter 3; the algorithm of appendix A.3).
//
// A module that passes is safe to run without further checks of its code. Validation also decodes
// function bodies, for the first and only time, so it reports what is malformed there (see
// binary.h). The implementation limits of limits.h are enforced here.
//
// Each diagnostic shows what was on the stack, what should have been there, and the likely repair. With the text that the module was parsed from, its place is a line and a column of that; else
// it is an offset into Module::bytes, or offset 0 when a declaration is wrong.
//
// Threads: validate() is pure. A Validator belongs to one thread; several Validators may share a
// module, which is how functions are validated in parallel.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "wasm/decoded_body.h"
#include "wasm/module.h"
#include "wasm/opcode.h"

namespace membrane::wasm {

// The needs of a function's frame. A slot has 64 bits: a v128 takes two, everything else one.
struct FunctionInfo {
  uint32_t local_count = 0;  // parameters and locals
  uint32_t local_slots = 0;
  uint32_t max_stack_values = 0;  // most values ever on the operand stack
  uint32_t max_stack_slots = 0;   // most slots ever on the operand stack
  uint32_t max_nesting = 0;       // most labels in scope at once, the body's own included
  bool has_calls = false;         // call or call_indirect
  bool uses_simd = false;         // a vector instruction, parameter, result or local
};

struct ValidationInfo {
  std::vector<FunctionInfo> functions;  // the defined ones: [i] is function imported_function_count() + i
  bool uses_simd = false;               // in any function, global, import or export
};

// Called for each defined function as soon as it is found to be valid, in order; what comes after it in the
// module may still be invalid. `notes` hold until the call is over.
using FunctionObserver =
    std::function<void(uint32_t index, const FunctionInfo& info, const BodyNotes& notes)>;

// The whole module; the first failure in module order. `text`: the source, if the module was parsed
// from text, for the lines of diagnostics.
std::expected<ValidationInfo, Diagnostic> validate(const Module& module, std::string_view text = {},
                                                   const FunctionObserver& observer = {});

// The same in parts, for a caller that validates functions as they are first called, or in parallel.
class Validator {
 public:
  // `module` and `text` must outlive the validator.
  explicit Validator(const Module& module, std::string_view text = {});
  ~Validator();

  // Everything but function bodies. Must have succeeded (on any Validator of the module) before
  // functions are validated.
  std::expected<void, Diagnostic> validate_declarations();
  // One defined function, by its index in the function index space.
  std::expected<FunctionInfo, Diagnostic> validate_function(uint32_t index);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The state of the operand stack between two instructions of a valid function.
struct StackTypes {
  std::vector<ValType> operands;
  Opcode before = Opcode::kNop;  // the instruction that ends there, with its index; kNop at the start
  uint32_t before_index = 0;     // function of a call, type of a call_indirect
};
// Finds the state before each of the instructions at `offsets` (ascending, from the body's start) in one walk.
// `take` gets the index into `offsets` of each where an instruction begins and execution can come; false ends
// the walk.
void stack_types_at(const Module& module, uint32_t function, std::span<const uint32_t> offsets,
                    const std::function<bool(size_t, const StackTypes&)>& take);

// Where the instruction at `code_offset` (into Module::bytes) is: line and column when the
// module was parsed from `text`, else the offset itself.
Place place_of(const Module& module, uint32_t code_offset, std::string_view text);

}  // namespace membrane::wasm
