// Traps: what can go wrong while WebAssembly runs (specification, chapter 4), with the place.
//
// Threads: plain data and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace membrane::engine {

// name is stable (reports carry it); text is the official suite's wording; hint is for the author.
// Compiled code can end by those up to kHost (native/state.h).
#define MEMBRANE_TRAPS(X)                                                                               \
  X(kUnreachable, "unreachable", "unreachable",                                                         \
    "Find the branch, panic or failed assertion that leads to it.")                                     \
  X(kMemoryOutOfBounds, "memory_out_of_bounds", "out of bounds memory access",                          \
    "Check the address against memory.size, or grow the memory before.")                                \
  X(kTableOutOfBounds, "table_out_of_bounds", "out of bounds table access",                             \
    "Check the index against table.size.")                                                              \
  X(kUndefinedElement, "undefined_element", "undefined element",                                        \
    "Check the index of call_indirect against table.size.")                                             \
  X(kUninitializedElement, "uninitialized_element", "uninitialized element",                            \
    "The table's element is null: fill it by an (elem …) segment.")                                     \
  X(kIndirectCallTypeMismatch, "indirect_call_type_mismatch", "indirect call type mismatch",            \
    "Call it by the type that the function in the table has.")                                          \
  X(kIntegerDivideByZero, "integer_divide_by_zero", "integer divide by zero",                           \
    "Test the divisor before dividing.")                                                                \
  X(kIntegerOverflow, "integer_overflow", "integer overflow",                                           \
    "Use the saturating form (trunc_sat), or test the range before.")                                   \
  X(kInvalidConversion, "invalid_conversion_to_integer", "invalid conversion to integer",               \
    "The value is NaN: test it, or use the saturating form (trunc_sat).")                               \
  X(kStackOverflow, "stack_overflow", "call stack exhausted",                                           \
    "The recursion is too deep: use a loop, or raise the stack limit.")                                 \
  X(kHost, "host", "host function trapped", "")                                                         \
  X(kUncaughtException, "uncaught_exception", "uncaught exception",                                     \
    "Catch it: (try_table (catch $tag $label) …), or (catch_all $label) for whatever is thrown.")       \
  X(kNullException, "null_exception_reference", "null exception reference",                             \
    "throw_ref takes what catch_ref or catch_all_ref left: test it by ref.is_null.")                    \
  X(kTooManyExceptions, "too_many_exceptions", "too many exceptions",                                   \
    "What is caught with a reference is kept to the end: use catch and catch_all, or raise the limit.") \
  X(kNullReference, "null_reference", "null reference",                                                 \
    "Test it by ref.is_null, or branch by br_on_null, before it is used.")                              \
  X(kNullFunction, "null_function_reference", "null function reference",                                \
    "call_ref was given null: test it by ref.is_null, or branch by br_on_null.")                        \
  X(kNullStructure, "null_structure_reference", "null structure reference",                             \
    "Test it by ref.is_null, or branch by br_on_null, before a field is used.")                         \
  X(kNullArray, "null_array_reference", "null array reference",                                         \
    "Test it by ref.is_null, or branch by br_on_null, before the array is used.")                       \
  X(kNullI31, "null_i31_reference", "null i31 reference",                                               \
    "Test it by ref.is_null, or branch by br_on_null, before its value is read.")                       \
  X(kCastFailure, "cast_failure", "cast failure",                                                       \
    "The reference is of another type: test it by ref.test, or branch by br_on_cast.")                  \
  X(kArrayOutOfBounds, "array_out_of_bounds", "out of bounds array access",                             \
    "Check the index against array.len.")                                                               \
  X(kHeapExhausted, "heap_exhausted", "heap exhausted",                                                 \
    "Structs and arrays need more than the memory limit allows: keep fewer of them, or raise it.")

enum class TrapKind : uint8_t {
#define X(id, name, text, hint) id,
  MEMBRANE_TRAPS(X)
#undef X
};
std::string_view name_of(TrapKind kind);
std::string_view text_of(TrapKind kind);
std::string_view hint_of(TrapKind kind);

// A place in running code.
struct CodePlace {
  uint32_t function = 0;           // index in its module
  uint32_t code_offset = 0;        // of the instruction, into wasm::Module::bytes
  std::string_view function_name;  // of the module's names; "" when it has none. Lives as long as the module
  uint32_t text_offset = UINT32_MAX;  // into the source text; UINT32_MAX when unknown
};

struct Trap {
  TrapKind kind = TrapKind::kUnreachable;
  std::string message;               // text_of(kind), or the host function's own words
  std::vector<CodePlace> backtrace;  // innermost first; at most kMaxBacktrace
};
inline constexpr size_t kMaxBacktrace = 64;

}  // namespace membrane::engine
